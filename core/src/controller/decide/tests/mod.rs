//! What a cluster of brokers 1 to 3 is answered; codes and messages were read off a Kafka 4.3.1 broker or its source.

mod brokers;
mod configs;
mod topics;

use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

use super::*;
use crate::{
    controller::{
        messages::wire_uuid,
        records::{ClusterIdV1, ConfigV1, FeatureLevelV1, METADATA_VERSION, RegisterBrokerV1},
    },
    ids::Uuid,
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
        };
        let decision = decide(&self.image, &context, &mut self.rng);
        self.replay(&decision.records);
        decision.reply
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
