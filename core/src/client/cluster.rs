//! What a client knows of the cluster: brokers, topics, leaders.

use std::collections::BTreeMap;

use super::Address;
use crate::{
    ids::{Epoch, NodeId, TopicName, TopicPartition, Uuid},
    protocol::{
        ErrorCode,
        messages::{MetadataResponseData, MetadataResponsePartition, MetadataResponseTopic},
    },
};

/// The brokers, topics and leaders of the last metadata answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// The cluster's id, once a broker told it.
    pub cluster_id: Option<String>,
    /// The broker that stands for the controller: under KRaft any broker that forwards to it.
    pub controller: Option<NodeId>,
    /// All brokers that are up.
    pub brokers: BTreeMap<NodeId, Address>,
    /// The topics that were asked for.
    pub topics: BTreeMap<TopicName, TopicMetadata>,
}

/// What is known of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicMetadata {
    /// Its id; zero where the broker is too old to tell.
    pub id: Uuid,
    /// Why nothing is known, or none.
    pub error: ErrorCode,
    /// Whether the cluster itself uses it.
    pub is_internal: bool,
    /// Its partitions, by number.
    pub partitions: BTreeMap<i32, PartitionMetadata>,
}

/// What is known of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// The leader, if there is one.
    pub leader: Option<NodeId>,
    /// Its epoch; -1 where the broker is too old to tell.
    pub leader_epoch: Epoch,
    /// All replicas, the preferred one first.
    pub replicas: Vec<NodeId>,
    /// The replicas in sync.
    pub isr: Vec<NodeId>,
    /// The replicas that are down.
    pub offline: Vec<NodeId>,
}

impl Cluster {
    /// Returns what is known of a topic.
    #[must_use]
    pub fn topic(&self, topic: &TopicName) -> Option<&TopicMetadata> {
        self.topics.get(topic)
    }

    /// Returns what is known of a partition.
    #[must_use]
    pub fn partition(&self, partition: &TopicPartition) -> Option<&PartitionMetadata> {
        self.topics
            .get(&partition.topic)?
            .partitions
            .get(&partition.partition)
    }

    /// Returns a partition's leader, if it has one and where it is, is known.
    #[must_use]
    pub fn leader(&self, partition: &TopicPartition) -> Option<NodeId> {
        let leader = self.partition(partition)?.leader?;
        self.brokers.contains_key(&leader).then_some(leader)
    }

    /// Returns a topic's id, or zero.
    #[must_use]
    pub fn topic_id(&self, topic: &TopicName) -> Uuid {
        self.topics.get(topic).map_or(Uuid::ZERO, |known| known.id)
    }

    /// Takes an answer in. Topics that it does not name keep what is known of them.
    pub(super) fn update(&mut self, answer: MetadataResponseData) {
        if let Some(id) = answer.cluster_id {
            self.cluster_id = Some(id.as_str().to_owned());
        }
        self.brokers = answer
            .brokers
            .into_iter()
            .filter_map(|broker| {
                let port = u16::try_from(broker.port).ok()?;
                (broker.node_id >= 0).then(|| {
                    (
                        NodeId(broker.node_id),
                        Address::new(broker.host.as_str(), port),
                    )
                })
            })
            .collect();
        self.controller =
            Some(NodeId(answer.controller_id)).filter(|id| self.brokers.contains_key(id));
        for topic in answer.topics {
            self.update_topic(topic);
        }
    }

    /// Takes in what an answer says about a partition that has moved (KIP-951).
    pub(super) fn update_leader(
        &mut self,
        partition: &TopicPartition,
        leader: NodeId,
        epoch: Epoch,
    ) -> bool {
        let known = self
            .topics
            .get_mut(&partition.topic)
            .and_then(|topic| topic.partitions.get_mut(&partition.partition));
        match known {
            Some(known) if epoch > known.leader_epoch && leader.0 >= 0 => {
                known.leader = Some(leader);
                known.leader_epoch = epoch;
                true
            }
            _ => false,
        }
    }

    fn update_topic(&mut self, answer: MetadataResponseTopic) {
        let Some(name) = answer.name else { return };
        let name = TopicName::new(name.as_str());
        let id = Uuid::from(answer.topic_id);
        let old = self.topics.remove(&name);
        // A broker that lags behind may name a leader that has been replaced already (KIP-320).
        let same_topic = old.filter(|old| old.id == id);
        let partitions = answer
            .partitions
            .into_iter()
            .filter(|partition| partition.partition_index >= 0)
            .map(|partition| {
                let number = partition.partition_index;
                let fresh = PartitionMetadata::from(partition);
                let known = same_topic
                    .as_ref()
                    .and_then(|old| old.partitions.get(&number));
                let newest = match known {
                    Some(known)
                        if fresh.leader_epoch.0 >= 0 && known.leader_epoch > fresh.leader_epoch =>
                    {
                        known.clone()
                    }
                    _ => fresh,
                };
                (number, newest)
            })
            .collect();
        let topic = TopicMetadata {
            id,
            error: ErrorCode::from_code(answer.error_code).unwrap_or(ErrorCode::UnknownServerError),
            is_internal: answer.is_internal,
            partitions,
        };
        self.topics.insert(name, topic);
    }
}

impl From<MetadataResponsePartition> for PartitionMetadata {
    fn from(answer: MetadataResponsePartition) -> Self {
        let ids = |ids: Vec<i32>| ids.into_iter().map(NodeId).collect();
        Self {
            leader: (answer.leader_id >= 0).then_some(NodeId(answer.leader_id)),
            leader_epoch: Epoch(answer.leader_epoch),
            replicas: ids(answer.replica_nodes),
            isr: ids(answer.isr_nodes),
            offline: ids(answer.offline_replicas),
        }
    }
}
