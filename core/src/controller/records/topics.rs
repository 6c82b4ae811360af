//! Bodies of the records about topics. Frozen: a change is a new version beside the old one.

use serde::{Deserialize, Serialize};

use crate::ids::{Epoch, NodeId, Uuid};

/// A new topic; its configs and partitions follow in the same batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicV1 {
    /// The topic's id, never used again.
    pub topic_id: Uuid,
    /// Its name, unique while it lives.
    pub name: String,
}

/// A topic is gone, with its partitions and configs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveTopicV1 {
    /// The topic.
    pub topic_id: Uuid,
}

/// A partition, whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionV1 {
    /// The topic.
    pub topic_id: Uuid,
    /// Which partition of it.
    pub partition_id: i32,
    /// The brokers that keep it, the preferred leader first.
    pub replicas: Vec<NodeId>,
    /// The log directory of each replica, in the same order.
    pub directories: Vec<Uuid>,
    /// The in-sync replicas.
    pub isr: Vec<NodeId>,
    /// The eligible leader replicas (KIP-966).
    pub elr: Vec<NodeId>,
    /// The members of the last eligible set that may have lost data.
    pub last_known_elr: Vec<NodeId>,
    /// Replicas that a reassignment is about to remove.
    pub removing_replicas: Vec<NodeId>,
    /// Replicas that a reassignment is about to add.
    pub adding_replicas: Vec<NodeId>,
    /// The leader; -1 if there is none.
    pub leader: NodeId,
    /// Whether the leader was elected uncleanly and has not recovered yet.
    pub leader_recovering: bool,
    /// Rises with each new leader.
    pub leader_epoch: Epoch,
    /// Rises with each change of this record.
    pub partition_epoch: i32,
}

/// A change of a partition; `None` leaves a part as it is.
///
/// Each change raises the partition epoch; one with a leader, even the same one, raises the leader epoch too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionChangeV1 {
    /// The topic.
    pub topic_id: Uuid,
    /// Which partition of it.
    pub partition_id: i32,
    /// The new in-sync replicas.
    pub isr: Option<Vec<NodeId>>,
    /// The new leader, -1 for none.
    pub leader: Option<NodeId>,
    /// The new replicas.
    pub replicas: Option<Vec<NodeId>>,
    /// The new directories, one for each replica.
    pub directories: Option<Vec<Uuid>>,
    /// The new eligible leader replicas.
    pub elr: Option<Vec<NodeId>>,
    /// The new last known eligible set.
    pub last_known_elr: Option<Vec<NodeId>>,
    /// The new removing replicas.
    pub removing_replicas: Option<Vec<NodeId>>,
    /// The new adding replicas.
    pub adding_replicas: Option<Vec<NodeId>>,
    /// Whether the leader is recovering from an unclean election.
    pub leader_recovering: Option<bool>,
}

impl PartitionChangeV1 {
    /// Makes a change that changes nothing yet.
    #[must_use]
    pub const fn none(topic_id: Uuid, partition_id: i32) -> Self {
        Self {
            topic_id,
            partition_id,
            isr: None,
            leader: None,
            replicas: None,
            directories: None,
            elr: None,
            last_known_elr: None,
            removing_replicas: None,
            adding_replicas: None,
            leader_recovering: None,
        }
    }

    /// Returns whether any part changes.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::none(self.topic_id, self.partition_id)
    }
}

/// Forgets the eligible leader replicas of one topic or of all: they were counted with another min ISR.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClearElrV1 {
    /// The topic's name; all topics if absent.
    pub topic_name: Option<String>,
}
