//! What white-box checkers may see.

use crate::ids::{Epoch, NodeId, Offset};

use super::{Raft, snapshot::SnapshotId, voters::ReplicaKey};

/// The state of a replica at one moment, version 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaftProbe {
    /// The role, by Kafka's name.
    pub role: &'static str,
    /// The present epoch.
    pub epoch: Epoch,
    /// The epoch of the durable vote.
    pub voted_epoch: Epoch,
    /// The durable vote.
    pub voted: Option<ReplicaKey>,
    /// The leader, where known.
    pub leader: Option<NodeId>,
    /// First offset of the log.
    pub log_start: Offset,
    /// One past the last offset.
    pub log_end: Offset,
    /// One past the last durable offset.
    pub flushed_end: Offset,
    /// One past the last committed offset.
    pub high_watermark: Offset,
    /// The latest durable snapshot.
    pub latest_snapshot: Option<SnapshotId>,
}

impl Raft {
    /// Returns what a checker may see.
    #[must_use]
    pub fn probe(&self) -> RaftProbe {
        let durable = self.ballot.durable();
        RaftProbe {
            role: self.role.name(),
            epoch: self.epoch,
            voted_epoch: durable.epoch,
            voted: durable.voted,
            leader: self.leader_id(),
            log_start: self.log.start(),
            log_end: self.log.end(),
            flushed_end: self.log.flushed_end(),
            high_watermark: self.high_watermark,
            latest_snapshot: self.snapshots.latest(),
        }
    }
}
