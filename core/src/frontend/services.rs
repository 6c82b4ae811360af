//! What requests may use, and how they name topics.

use std::collections::{BTreeSet, VecDeque};

use crate::{
    broker::Output,
    cluster::Cluster,
    controller::image::TopicImage,
    ids::{Epoch, NodeId, TopicName, Uuid},
    logdir::LogStarts,
    planted::PlantedSet,
    protocol::{ErrorCode, KafkaString, KafkaUuid, NodeEndpoint},
    replication::{Context, Partitions, SlotId},
    storage::StorageQueue,
    time::Now,
};

/// What a request may use beyond the frontend itself.
#[derive(Debug)]
pub(crate) struct Services<'a> {
    pub(crate) now: Now,
    pub(crate) planted: PlantedSet,
    pub(crate) storage: &'a mut StorageQueue,
    pub(crate) outputs: &'a mut VecDeque<Output>,
    pub(crate) partitions: &'a mut Partitions,
    pub(crate) log_starts: &'a mut LogStarts<SlotId>,
    pub(crate) cluster: &'a mut Cluster,
    /// Whether consumers are sent to replicas near them: `replica.selector.class`.
    pub(crate) reads_near: bool,
}

impl Services<'_> {
    /// Returns the partitions together with what they need.
    pub(crate) const fn partitions(&mut self) -> (&mut Partitions, Context<'_>) {
        let context = Context {
            now: self.now,
            storage: self.storage,
            planted: self.planted,
        };
        (self.partitions, context)
    }

    /// Finds the partition that a request names by topic name, or by topic id in versions that use ids.
    pub(crate) fn slot(&self, topic: &TopicRef<'_>, partition: i32) -> Result<SlotId, ErrorCode> {
        let name = match *topic {
            TopicRef::Name(name) => Some(name),
            TopicRef::Id(id) => self.partitions.topic_name(id).map(TopicName::as_str),
        };
        if let Some(slot) = name.and_then(|name| self.partitions.slot(name, partition)) {
            return Ok(slot);
        }
        Err(match (self.topic(topic), *topic) {
            // Other brokers have it.
            (Some(found), _) if found.partition(partition).is_some() => {
                ErrorCode::NotLeaderOrFollower
            }
            (None, TopicRef::Id(_)) => ErrorCode::UnknownTopicId,
            (Some(_), _) | (None, TopicRef::Name(_)) => ErrorCode::UnknownTopicOrPartition,
        })
    }

    fn topic(&self, topic: &TopicRef<'_>) -> Option<&TopicImage> {
        let image = self.cluster.image();
        match *topic {
            TopicRef::Name(name) => image.topic(name),
            TopicRef::Id(id) => image.topic_by_id(id),
        }
        .map(AsRef::as_ref)
    }

    /// Returns a partition's leader and its epoch, as the metadata says.
    pub(crate) fn leader(&self, topic: &TopicRef<'_>, partition: i32) -> Option<(NodeId, Epoch)> {
        let partition = self.topic(topic)?.partition(partition)?;
        Some((partition.leader, partition.leader_epoch))
    }

    /// Returns where live brokers are reached over a listener (KIP-951).
    pub(crate) fn endpoints(&self, listener: &str, nodes: &BTreeSet<NodeId>) -> Vec<NodeEndpoint> {
        if nodes.is_empty() {
            return Vec::new();
        }
        self.cluster
            .live_brokers(listener)
            .filter(|(node, ..)| nodes.contains(node))
            .map(|(node, endpoint, rack)| NodeEndpoint {
                node_id: node.0,
                host: KafkaString::from(endpoint.host.clone()),
                port: i32::from(endpoint.port),
                rack: rack.map(|rack| KafkaString::from(rack.to_owned())),
            })
            .collect()
    }
}

/// How a request names a topic.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TopicRef<'a> {
    Name(&'a str),
    Id(Uuid),
}

impl<'a> TopicRef<'a> {
    /// Reads the pair of fields of which one is used, depending on the version.
    pub(crate) fn new(name: &'a KafkaString, id: &KafkaUuid, by_id: bool) -> Self {
        if by_id {
            Self::Id(Uuid::from(*id))
        } else {
            Self::Name(name.as_str())
        }
    }
}
