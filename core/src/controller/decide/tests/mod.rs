//! What a cluster of brokers 1 to 3 is answered; codes and messages were read off a Kafka 4.3.1 broker or its source.

mod alter_partition;
mod brokers;
mod configs;
mod elections;
mod topics;

use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

use super::*;
use crate::{
    controller::{
        image::PartitionImage,
        messages::wire_uuid,
        records::{
            ClusterIdV1, ConfigV1, FeatureLevelV1, METADATA_VERSION, PartitionV1, RegisterBrokerV1,
            TopicV1,
        },
    },
    ids::{Epoch, Uuid},
};

/// A controller without a machine around it: each decision is replayed at once.
struct Desk {
    image: MetadataImage,
    fixed: StaticConfig,
    rng: ChaCha12Rng,
}

impl Desk {
    fn with_brokers(brokers: &[(i32, Option<&str>)]) -> Self {
        let mut desk = Self {
            image: MetadataImage::new(),
            fixed: StaticConfig::default(),
            rng: ChaCha12Rng::seed_from_u64(1),
        };
        desk.replay(&[
            FeatureLevelV1 {
                name: METADATA_VERSION.into(),
                level: 1,
            }
            .into(),
            ClusterIdV1 {
                cluster_id: "cluster".into(),
            }
            .into(),
        ]);
        for (id, rack) in brokers {
            desk.replay(&[broker(*id, *rack, false).into()]);
        }
        desk
    }

    fn alone() -> Self {
        Self::with_brokers(&[(1, None)])
    }

    fn setting(mut self, name: &str, value: &str) -> Self {
        let settings = [(name.to_owned(), value.to_owned())];
        self.fixed = StaticConfig::new(settings).unwrap();
        self
    }

    fn replay(&mut self, records: &[Record]) {
        for record in records {
            let _ = self.image.replay(record).unwrap();
        }
    }

    /// Takes a decision and makes it come true.
    fn decide<R>(
        &mut self,
        decide: impl FnOnce(&MetadataImage, &DecisionContext<'_>, &mut ChaCha12Rng) -> Decision<R>,
    ) -> R {
        let context = DecisionContext {
            node_id: NodeId(1),
            fixed: &self.fixed,
            planted: PlantedSet::NONE,
        };
        let decision = decide(&self.image, &context, &mut self.rng);
        self.replay(&decision.records);
        decision.reply
    }

    fn context(&self) -> DecisionContext<'_> {
        DecisionContext {
            node_id: NodeId(1),
            fixed: &self.fixed,
            planted: PlantedSet::NONE,
        }
    }

    /// Goes through with a sweep, two partitions at a time; returns how many slices that took.
    fn sweep(&mut self, sweep: Sweep) -> usize {
        let mut after = None;
        for slices in 1.. {
            let slice = sweep_slice(&self.image, &self.context(), sweep, after, 2);
            self.replay(&slice.records);
            after = slice.after;
            if after.is_none() {
                return slices;
            }
        }
        unreachable!("a sweep ends")
    }

    fn fence(&mut self, id: i32) {
        if let Some(record) = fence_broker(&self.image, NodeId(id)) {
            self.replay(&[record]);
        }
        self.sweep(Sweep::Unfit(NodeId(id)));
    }

    fn set(&mut self, kind: i8, resource: &str, name: &str, value: &str) {
        let record = ConfigV1 {
            resource_type: kind,
            resource_name: resource.into(),
            name: name.into(),
            value: Some(value.into()),
        };
        self.replay(&[record.into()]);
    }
}

fn broker(id: i32, rack: Option<&str>, fenced: bool) -> RegisterBrokerV1 {
    RegisterBrokerV1 {
        broker_id: NodeId(id),
        broker_epoch: i64::from(id) * 10,
        incarnation_id: directory(id + 100),
        endpoints: vec![],
        rack: rack.map(str::to_owned),
        log_dirs: vec![directory(id)],
        features: vec![],
        fenced,
        in_controlled_shutdown: false,
    }
}

fn directory(id: i32) -> Uuid {
    Uuid([u8::try_from(id).unwrap(); 16])
}

/// Adds topic "t" with one partition, led by its first replica and all in sync.
fn add_topic(desk: &mut Desk, replicas: &[i32]) {
    let topic_id = directory(99);
    desk.replay(&[
        TopicV1 {
            topic_id,
            name: "t".into(),
        }
        .into(),
        partition_of(topic_id, 0, replicas).into(),
    ]);
}

fn partition_of(topic_id: Uuid, partition_id: i32, replicas: &[i32]) -> PartitionV1 {
    let replicas: Vec<NodeId> = replicas.iter().copied().map(NodeId).collect();
    PartitionV1 {
        topic_id,
        partition_id,
        directories: replicas.iter().map(|id| directory(id.0)).collect(),
        isr: replicas.clone(),
        leader: replicas[0],
        replicas,
        elr: vec![],
        last_known_elr: vec![],
        removing_replicas: vec![],
        adding_replicas: vec![],
        leader_recovering: false,
        leader_epoch: Epoch(0),
        partition_epoch: 0,
    }
}

/// The only partition of topic "t".
fn partition(desk: &Desk) -> &PartitionImage {
    desk.image.topic("t").unwrap().partition(0).unwrap()
}

fn ids(list: &[NodeId]) -> Vec<i32> {
    list.iter().map(|id| id.0).collect()
}

/// Leader, in-sync set, eligible leaders, and the leader epoch.
fn state(desk: &Desk) -> (i32, Vec<i32>, Vec<i32>, i32) {
    let partition = partition(desk);
    (
        partition.leader.0,
        ids(&partition.isr),
        ids(&partition.elr),
        partition.leader_epoch.0,
    )
}
