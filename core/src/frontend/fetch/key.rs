//! How a Fetch names partitions: by topic name, or by topic id from version 13 (KIP-516).

use crate::{
    frontend::{Services, TopicRef},
    ids::{Epoch, NodeId, TopicName, Uuid},
    protocol::{ErrorCode, KafkaString, KafkaUuid},
    replication::{Partition, SlotId},
};

/// From this version topics are named by id (KIP-516).
const TOPIC_ID_SINCE: i16 = 13;

/// Says whether a version names topics by id.
pub(super) const fn is_by_id(version: i16) -> bool {
    version >= TOPIC_ID_SINCE
}

/// A topic as a request names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TopicKey {
    Name(TopicName),
    Id(Uuid),
}

impl TopicKey {
    pub(super) fn new(name: &KafkaString, id: &KafkaUuid, by_id: bool) -> Self {
        if by_id {
            Self::Id(Uuid::from(*id))
        } else {
            Self::Name(TopicName::new(name.as_str()))
        }
    }

    fn named(&self) -> TopicRef<'_> {
        match self {
            Self::Name(name) => TopicRef::Name(name.as_str()),
            Self::Id(id) => TopicRef::Id(*id),
        }
    }

    /// Returns the pair of fields of which an answer writes one.
    pub(super) fn to_wire(&self) -> (KafkaString, KafkaUuid) {
        match self {
            Self::Name(name) => (KafkaString::from(name.as_str().to_owned()), KafkaUuid::ZERO),
            Self::Id(id) => (KafkaString::default(), (*id).into()),
        }
    }
}

/// A partition as a request names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) topic: TopicKey,
    pub(super) partition: i32,
}

impl Key {
    /// Returns both names of a partition.
    pub(super) fn both(partition: &Partition) -> [Self; 2] {
        let name = partition.name();
        [
            TopicKey::Name(name.topic.clone()),
            TopicKey::Id(partition.topic_id()),
        ]
        .map(|topic| Self {
            topic,
            partition: name.partition,
        })
    }

    /// Finds the partition on this broker.
    pub(super) fn slot(&self, services: &Services<'_>) -> Result<SlotId, ErrorCode> {
        services.slot(&self.topic.named(), self.partition)
    }

    /// Returns the leader and its epoch as the metadata says.
    pub(super) fn leader(&self, services: &Services<'_>) -> Option<(NodeId, Epoch)> {
        services.leader(&self.topic.named(), self.partition)
    }
}
