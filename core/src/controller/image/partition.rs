//! One partition in the image.

use crate::{
    controller::records::{PartitionChangeV1, PartitionV1},
    ids::{Epoch, NodeId, Uuid},
};

/// The leader of a partition without a leader.
pub const NO_LEADER: NodeId = NodeId(-1);

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionImage {
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
    /// The leader, or [`NO_LEADER`].
    pub leader: NodeId,
    /// Whether the leader was elected uncleanly and has not recovered yet.
    pub leader_recovering: bool,
    /// Rises with each new leader.
    pub leader_epoch: Epoch,
    /// Rises with each change.
    pub partition_epoch: i32,
}

impl PartitionImage {
    /// Makes the image of a partition from its record.
    #[must_use]
    pub fn from_record(record: &PartitionV1) -> Self {
        Self {
            replicas: record.replicas.clone(),
            directories: record.directories.clone(),
            isr: record.isr.clone(),
            elr: record.elr.clone(),
            last_known_elr: record.last_known_elr.clone(),
            removing_replicas: record.removing_replicas.clone(),
            adding_replicas: record.adding_replicas.clone(),
            leader: record.leader,
            leader_recovering: record.leader_recovering,
            leader_epoch: record.leader_epoch,
            partition_epoch: record.partition_epoch,
        }
    }

    /// Makes the record that describes the whole partition.
    #[must_use]
    pub fn to_record(&self, topic_id: Uuid, partition_id: i32) -> PartitionV1 {
        PartitionV1 {
            topic_id,
            partition_id,
            replicas: self.replicas.clone(),
            directories: self.directories.clone(),
            isr: self.isr.clone(),
            elr: self.elr.clone(),
            last_known_elr: self.last_known_elr.clone(),
            removing_replicas: self.removing_replicas.clone(),
            adding_replicas: self.adding_replicas.clone(),
            leader: self.leader,
            leader_recovering: self.leader_recovering,
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
        }
    }

    /// Returns the log directory of `broker`'s replica.
    #[must_use]
    pub fn directory(&self, broker: NodeId) -> Option<Uuid> {
        let at = self
            .replicas
            .iter()
            .position(|replica| *replica == broker)?;
        self.directories.get(at).copied()
    }

    /// Returns whether the first replica leads.
    #[must_use]
    pub fn has_preferred_leader(&self) -> bool {
        self.replicas.first() == Some(&self.leader)
    }

    /// Returns what the partition is after a change.
    #[must_use]
    pub fn merged(&self, change: &PartitionChangeV1) -> Self {
        let mut merged = self.clone();
        merged.apply(change);
        merged
    }

    /// Returns whether `change` makes a replica lead that is neither in sync nor eligible: records may be lost.
    #[must_use]
    pub fn would_elect_uncleanly(&self, change: &PartitionChangeV1) -> bool {
        change.leader.is_some_and(|leader| {
            leader != NO_LEADER
                && (change.leader_recovering == Some(true)
                    || !(self.isr.contains(&leader) || self.elr.contains(&leader)))
        })
    }

    /// Applies a change.
    pub(super) fn apply(&mut self, change: &PartitionChangeV1) {
        let set = |field: &mut Vec<NodeId>, value: &Option<Vec<NodeId>>| {
            if let Some(value) = value {
                field.clone_from(value);
            }
        };
        set(&mut self.isr, &change.isr);
        set(&mut self.replicas, &change.replicas);
        set(&mut self.elr, &change.elr);
        set(&mut self.last_known_elr, &change.last_known_elr);
        set(&mut self.removing_replicas, &change.removing_replicas);
        set(&mut self.adding_replicas, &change.adding_replicas);
        if let Some(directories) = &change.directories {
            self.directories.clone_from(directories);
        }
        if let Some(recovering) = change.leader_recovering {
            self.leader_recovering = recovering;
        }
        if let Some(leader) = change.leader {
            self.leader = leader;
            self.leader_epoch = Epoch(self.leader_epoch.0.saturating_add(1));
        }
        self.partition_epoch = self.partition_epoch.saturating_add(1);
    }

    /// Forgets the eligible leader replicas; false if there is nothing to forget, or nothing that must be.
    ///
    /// A partition without a leader keeps them: they were counted with the old min ISR, but nothing can have been
    /// committed since, and without them it could never have a clean leader again.
    pub(super) fn clear_elr(&mut self) -> bool {
        if self.elr.is_empty() || self.leader == NO_LEADER {
            return false;
        }
        self.elr.clear();
        self.partition_epoch = self.partition_epoch.saturating_add(1);
        true
    }
}
