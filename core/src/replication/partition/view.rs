//! What others may know of a partition.

use super::{Partition, PartitionState, Role};
use crate::{
    ids::{Epoch, NodeId, Offset, TopicPartition, Uuid},
    log::Log,
    replication::{LeaderAssignment, Leadership, TopicSettings},
    time::Instant,
};

impl Partition {
    /// Returns the partition's name.
    #[must_use]
    pub const fn name(&self) -> &TopicPartition {
        &self.name
    }

    /// Returns the topic's id.
    #[must_use]
    pub const fn topic_id(&self) -> Uuid {
        self.topic_id
    }

    /// Returns how far the partition is from being served.
    #[must_use]
    pub const fn state(&self) -> PartitionState {
        self.state
    }

    /// Returns whether a clean stop may vouch for a log that was never opened: it was found clean, or is brand new.
    #[must_use]
    pub const fn is_vouched(&self) -> bool {
        self.vouched
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &TopicSettings {
        &self.settings
    }

    /// Returns the log.
    #[must_use]
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// Returns up to where consumers may read, exclusive.
    #[must_use]
    pub const fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// Returns the epoch in which this broker leads; `None` if it does not.
    #[must_use]
    pub fn leader_epoch(&self) -> Option<Epoch> {
        self.leadership().map(Leadership::epoch)
    }

    /// Returns this broker's leadership; `None` if it does not lead.
    #[must_use]
    pub fn leadership(&self) -> Option<&Leadership> {
        match &self.role {
            Role::Leading(leadership) => Some(leadership),
            Role::Idle | Role::Following(_) => None,
        }
    }

    /// Returns the leader that this replica follows; `None` if it does not follow.
    #[must_use]
    pub const fn following(&self) -> Option<NodeId> {
        match &self.role {
            Role::Following(following) => Some(following.leader),
            Role::Idle | Role::Leading(_) => None,
        }
    }

    /// Returns the committed leader, epoch and ISR as the controller assigned them.
    #[must_use]
    pub const fn assignment(&self) -> &LeaderAssignment {
        &self.assignment
    }

    /// Returns whether a node is this partition's follower.
    #[must_use]
    pub fn is_replica(&self, node: NodeId) -> bool {
        self.assignment.replicas.contains(&node)
    }

    /// Returns when a timeout is next wanted.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let own = match &self.role {
            Role::Idle => None,
            Role::Leading(leadership) => leadership.deadline(self.config.replica_lag_time_max_ms),
            Role::Following(following) => following.retry_at,
        };
        [self.log.deadline(), own].into_iter().flatten().min()
    }

    /// Returns what the recovery-point checkpoint may say of this log: nothing past a cut that is about to be made.
    #[must_use]
    pub fn recovery_point(&self) -> Offset {
        self.up_to_cut(self.log.recovery_point())
    }

    /// Returns what the synced mark may say of this log: nothing past a cut that is about to be made.
    #[must_use]
    pub fn synced_mark(&self) -> Offset {
        self.up_to_cut(self.log.synced_mark())
    }

    /// Returns what the checkpoint of high watermarks may say of this log. While a crash could still bring back what stood here
    /// before the log began anew, a high watermark at the new start would call all of that committed.
    #[must_use]
    pub fn high_watermark_mark(&self) -> Offset {
        self.unsettled_start.unwrap_or(self.high_watermark)
    }

    /// Returns what the log-start checkpoint may say of this log.
    #[must_use]
    pub fn log_start_mark(&self) -> Offset {
        self.log.start().max(self.start_floor)
    }

    fn up_to_cut(&self, offset: Offset) -> Offset {
        match &self.role {
            Role::Following(following) => {
                let kept = following.cut().map(|cut| cut.kept(&self.log));
                kept.map_or(offset, |kept| offset.min(kept))
            }
            Role::Idle | Role::Leading(_) => offset,
        }
    }
}
