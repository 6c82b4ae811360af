//! The leader's own data: how far each voter's copy is durable, what follows from it for the commit index, and whether a majority
//! still follows.

use std::collections::BTreeMap;

use crate::{
    ids::{NodeId, Offset, Uuid},
    time::{Instant, Timestamp},
};

use super::voters::{ReplicaKey, VoterSet};

/// How long an observer that fetches no more is remembered.
const OBSERVER_SESSION_MS: u64 = 300_000;
/// How many observers are remembered.
const OBSERVERS_MAX: usize = 10_000;

/// What a leader knows of its epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leader {
    /// When the epoch began here.
    pub(super) since: Instant,
    /// Offset of the first entry of the epoch, its LeaderChange.
    epoch_start: Offset,
    /// One past the last durable offset of each voter; none until it was heard of in this epoch.
    durable_ends: BTreeMap<NodeId, Offset>,
    /// When each voter fetched last in this epoch.
    heard: BTreeMap<NodeId, Instant>,
    /// The directories of the voters that have fetched, until the voters are in the log.
    directories: BTreeMap<NodeId, Uuid>,
    /// What DescribeQuorum tells of each replica that fetched in this epoch.
    replicas: BTreeMap<ReplicaKey, Fetched>,
    /// Who granted its vote, until that is in the log.
    pub(super) granting_voters: Vec<NodeId>,
    /// Whether the first entries of the epoch are appended.
    pub(super) has_begun: bool,
}

/// How far a replica has fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fetched {
    pub(super) end: Offset,
    heard: Instant,
    pub(super) at: Timestamp,
    pub(super) caught_up_at: Timestamp,
    last_end: Offset,
}

impl Leader {
    /// Makes the data of a leader whose epoch starts at an offset; of every copy, its own included, it knows nothing yet.
    #[must_use]
    pub(super) const fn new(epoch_start: Offset, since: Instant) -> Self {
        Self {
            since,
            epoch_start,
            durable_ends: BTreeMap::new(),
            heard: BTreeMap::new(),
            directories: BTreeMap::new(),
            replicas: BTreeMap::new(),
            granting_voters: Vec::new(),
            has_begun: false,
        }
    }

    /// Notes that a replica's copy is durable up to `end`. A copy only grows within an epoch, and a replica that is no
    /// voter has no copy that counts, the leader itself not excepted.
    pub(super) fn on_durable(&mut self, voters: &VoterSet, replica: ReplicaKey, end: Offset) {
        if voters.contains(replica) {
            let known = self.durable_ends.entry(replica.id).or_insert(end);
            *known = end.max(*known);
        }
    }

    /// Notes that a replica fetches.
    pub(super) fn on_heard(&mut self, voters: &VoterSet, replica: ReplicaKey, now: Instant) {
        if voters.contains(replica) {
            self.heard.insert(replica.id, now);
            self.directories.insert(replica.id, replica.directory);
        }
    }

    /// Notes for DescribeQuorum how far a replica is. It has caught up when it holds what was the log's end at its last fetch.
    pub(super) fn on_fetched(
        &mut self,
        replica: ReplicaKey,
        end: Offset,
        log_end: Offset,
        (now, wall): (Instant, Timestamp),
    ) {
        let last = self.replicas.get(&replica).copied();
        let caught_up_at = match last {
            _ if end >= log_end => wall,
            Some(last) if end >= last.last_end => last.at,
            Some(last) => last.caught_up_at,
            None => Timestamp::NONE,
        };
        let fetched = Fetched {
            end,
            heard: now,
            at: wall,
            caught_up_at,
            last_end: log_end,
        };
        if last.is_none() {
            self.replicas
                .retain(|_, known| now < known.heard.plus_millis(OBSERVER_SESSION_MS));
        }
        if last.is_some() || self.replicas.len() < OBSERVERS_MAX {
            self.replicas.insert(replica, fetched);
        }
    }

    /// Returns the replicas that fetched in this epoch.
    pub(super) fn replicas(&self) -> impl Iterator<Item = (ReplicaKey, Fetched)> {
        self.replicas.iter().map(|(key, fetched)| (*key, *fetched))
    }

    /// Returns when a voter was last heard of in this epoch; the beginning of the epoch counts.
    #[must_use]
    pub(super) fn heard_of(&self, voter: NodeId) -> Instant {
        self.heard.get(&voter).copied().unwrap_or(self.since)
    }

    /// Returns the moment at which a majority, the leader included, had last been heard of; none where the leader is a
    /// majority by itself.
    #[must_use]
    pub(super) fn majority_heard(&self, voters: &VoterSet, local: ReplicaKey) -> Option<Instant> {
        let others_needed = voters.majority() - usize::from(voters.contains(local));
        let mut heard: Vec<Instant> = voters
            .iter()
            .filter(|voter| voter.id != local.id)
            .map(|voter| self.heard_of(voter.id))
            .collect();
        heard.sort_unstable_by(|left, right| right.cmp(left));
        heard.get(others_needed.checked_sub(1)?).copied()
    }

    /// Returns the directory of a voter that has fetched in this epoch.
    #[must_use]
    pub(super) fn directory_of(&self, voter: NodeId) -> Option<Uuid> {
        self.directories.get(&voter).copied()
    }

    /// Returns the voters but `local`, the one with the longest copy first.
    #[must_use]
    pub(super) fn successors(&self, voters: &VoterSet, local: NodeId) -> Vec<ReplicaKey> {
        let mut keys: Vec<(Offset, ReplicaKey)> = voters
            .iter()
            .filter(|voter| voter.id != local)
            .map(|voter| {
                let end = self.durable_ends.get(&voter.id).copied().unwrap_or(-1);
                (end, voter.key())
            })
            .collect();
        keys.sort_unstable_by_key(|(end, key)| (std::cmp::Reverse(*end), key.id));
        keys.into_iter().map(|(_, key)| key).collect()
    }

    /// Returns the offset up to which a majority of the voters holds the log durably, once that includes an entry of this
    /// epoch: copies of older entries alone commit nothing (Raft, figure 8).
    #[must_use]
    pub(super) fn committed(&self, voters: &VoterSet) -> Option<Offset> {
        self.held_by_majority(voters)
            .filter(|end| *end > self.epoch_start)
    }

    /// Returns the offset up to which a majority of the voters holds the log durably.
    #[must_use]
    pub(super) fn held_by_majority(&self, voters: &VoterSet) -> Option<Offset> {
        let mut ends: Vec<Option<Offset>> = voters
            .iter()
            .map(|voter| self.durable_ends.get(&voter.id).copied())
            .collect();
        ends.sort_unstable_by(|left, right| right.cmp(left));
        ends.get(voters.majority().checked_sub(1)?).copied()?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ids::Uuid, raft::voters::Voter};

    fn key(id: i32) -> ReplicaKey {
        ReplicaKey {
            id: NodeId(id),
            directory: Uuid([1; 16]),
        }
    }

    fn voters(ids: impl IntoIterator<Item = i32>) -> VoterSet {
        VoterSet::new(ids.into_iter().map(|id| Voter {
            id: NodeId(id),
            directory: Some(key(id).directory),
            endpoints: vec![],
        }))
    }

    #[test]
    fn entry_is_committed_once_a_majority_holds_it() {
        let set = voters(1..=3);
        let mut leader = Leader::new(10, Instant::ORIGIN);
        leader.on_durable(&set, key(1), 14);
        assert_eq!(leader.committed(&set), None);
        leader.on_durable(&set, key(2), 12);
        assert_eq!(leader.committed(&set), Some(12));
        leader.on_durable(&set, key(3), 13);
        assert_eq!(leader.committed(&set), Some(13));
    }

    #[test]
    fn copies_of_older_epochs_commit_nothing() {
        let set = voters(1..=3);
        let mut leader = Leader::new(10, Instant::ORIGIN);
        leader.on_durable(&set, key(1), 11);
        leader.on_durable(&set, key(2), 10);
        leader.on_durable(&set, key(3), 10);
        assert_eq!(leader.committed(&set), None);
        leader.on_durable(&set, key(3), 11);
        assert_eq!(leader.committed(&set), Some(11));
    }

    #[test]
    fn leader_outside_the_voter_set_does_not_count_itself() {
        let set = voters(2..=3);
        let mut leader = Leader::new(10, Instant::ORIGIN);
        leader.on_durable(&set, key(1), 14);
        leader.on_durable(&set, key(2), 14);
        assert_eq!(leader.committed(&set), None);
        leader.on_durable(&set, key(3), 12);
        assert_eq!(leader.committed(&set), Some(12));
    }

    #[test]
    fn known_progress_never_falls() {
        let set = voters(1..=1);
        let mut leader = Leader::new(0, Instant::ORIGIN);
        leader.on_durable(&set, key(1), 5);
        leader.on_durable(&set, key(1), 3);
        assert_eq!(leader.committed(&set), Some(5));
    }

    #[test]
    fn nobody_commits_nothing() {
        let leader = Leader::new(0, Instant::ORIGIN);
        assert_eq!(leader.committed(&VoterSet::default()), None);
    }

    #[test]
    fn majority_is_heard_when_enough_others_are() {
        let set = voters(1..=5);
        let at = |millis| Instant::ORIGIN.plus_millis(millis);
        let mut leader = Leader::new(0, at(10));
        leader.on_heard(&set, key(2), at(50));
        leader.on_heard(&set, key(9), at(80));
        assert_eq!(leader.majority_heard(&set, key(1)), Some(at(10)));
        leader.on_heard(&set, key(4), at(40));
        assert_eq!(leader.majority_heard(&set, key(1)), Some(at(40)));
        let alone = voters(1..=1);
        assert_eq!(leader.majority_heard(&alone, key(1)), None);
    }

    #[test]
    fn longest_copy_is_the_first_successor() {
        let set = voters(1..=4);
        let mut leader = Leader::new(0, Instant::ORIGIN);
        leader.on_durable(&set, key(1), 9);
        leader.on_durable(&set, key(3), 7);
        leader.on_durable(&set, key(2), 5);
        assert_eq!(leader.successors(&set, NodeId(1)), [key(3), key(2), key(4)]);
    }

    #[test]
    fn observer_catches_up_when_it_holds_the_end_of_its_last_fetch() {
        let mut leader = Leader::new(0, Instant::ORIGIN);
        let now = |millis: i64| {
            let since = u64::try_from(millis).unwrap();
            (
                Instant::ORIGIN.plus_millis(since),
                Timestamp::from_millis(millis),
            )
        };
        leader.on_fetched(key(9), 0, 5, now(10));
        leader.on_fetched(key(9), 5, 8, now(20));
        let caught_up: Vec<_> = leader
            .replicas()
            .map(|(_, known)| known.caught_up_at)
            .collect();
        assert_eq!(caught_up, [Timestamp::from_millis(10)]);
        leader.on_fetched(key(9), 6, 8, now(30));
        leader.on_fetched(key(9), 8, 8, now(40));
        let caught_up: Vec<_> = leader
            .replicas()
            .map(|(_, known)| known.caught_up_at)
            .collect();
        assert_eq!(caught_up, [Timestamp::from_millis(40)]);
    }
}
