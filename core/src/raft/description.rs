//! What a leader tells of its quorum (DescribeQuorum).

use crate::{
    ids::{Epoch, NodeId, Offset},
    time::Timestamp,
};

use super::{Raft, leader::Fetched, role::Role, voters::ReplicaKey};

/// The quorum as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumDescription {
    /// The leader.
    pub leader: NodeId,
    /// Its epoch.
    pub epoch: Epoch,
    /// One past the last committed offset.
    pub high_watermark: Offset,
    /// The voters in the order of their ids, the leader included.
    pub voters: Vec<ReplicaProgress>,
    /// Who else fetches the log.
    pub observers: Vec<ReplicaProgress>,
}

/// How far a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaProgress {
    /// The replica.
    pub replica: ReplicaKey,
    /// One past the last offset that it holds durably; -1 until it has fetched in this epoch.
    pub log_end: Offset,
    /// When it fetched last, by the leader's wall clock; -1 when it has not.
    pub last_fetch: Timestamp,
    /// When it last held all that the leader held; -1 when it never did.
    pub last_caught_up: Timestamp,
}

impl Raft {
    /// Returns the quorum as this replica sees it, if it leads.
    #[must_use]
    pub fn describe_quorum(&self, now: Timestamp) -> Option<QuorumDescription> {
        let Role::Leader(leader) = &self.role else {
            return None;
        };
        let known = |key: ReplicaKey, fetched: Fetched| ReplicaProgress {
            replica: key,
            log_end: fetched.end,
            last_fetch: fetched.at,
            last_caught_up: fetched.caught_up_at,
        };
        let unknown = |replica| ReplicaProgress {
            replica,
            log_end: -1,
            last_fetch: Timestamp::NONE,
            last_caught_up: Timestamp::NONE,
        };
        let own = ReplicaProgress {
            replica: self.local.key,
            log_end: self.log.flushed_end(),
            last_fetch: now,
            last_caught_up: now,
        };
        let voters = self.voters.iter().map(|voter| {
            if voter.id == self.local.key.id {
                return own;
            }
            leader
                .replicas()
                .find(|(key, _)| voter.is(*key))
                .map_or_else(
                    || unknown(voter.key()),
                    |(key, fetched)| known(key, fetched),
                )
        });
        let observers = leader
            .replicas()
            .filter(|(key, _)| !self.voters.contains(*key))
            .map(|(key, fetched)| known(key, fetched));
        Some(QuorumDescription {
            leader: self.local.key.id,
            epoch: self.epoch,
            high_watermark: self.high_watermark,
            voters: voters.collect(),
            observers: observers.collect(),
        })
    }
}
