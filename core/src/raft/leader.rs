//! The leader's own data: how far each voter's copy is durable, and what follows from it for the commit index.

use std::collections::BTreeMap;

use crate::ids::{NodeId, Offset};

use super::voters::{ReplicaKey, VoterSet};

/// What a leader knows of its epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leader {
    /// Offset of the first entry of the epoch, its LeaderChange.
    epoch_start: Offset,
    /// One past the last durable offset of each voter; none until it was heard of in this epoch.
    durable_ends: BTreeMap<NodeId, Offset>,
}

impl Leader {
    /// Makes the data of a leader whose epoch starts at an offset; of every copy, its own included, it knows nothing yet.
    #[must_use]
    pub(super) const fn new(epoch_start: Offset) -> Self {
        Self {
            epoch_start,
            durable_ends: BTreeMap::new(),
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

    /// Returns the offset up to which a majority of the voters holds the log durably, once that includes an entry of this
    /// epoch: copies of older entries alone commit nothing (Raft, figure 8).
    #[must_use]
    pub(super) fn committed(&self, voters: &VoterSet) -> Option<Offset> {
        let mut ends: Vec<Option<Offset>> = voters
            .iter()
            .map(|voter| self.durable_ends.get(&voter.id).copied())
            .collect();
        ends.sort_unstable_by(|left, right| right.cmp(left));
        let majority_end = ends.get(voters.majority().checked_sub(1)?).copied()??;
        (majority_end > self.epoch_start).then_some(majority_end)
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
        let mut leader = Leader::new(10);
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
        let mut leader = Leader::new(10);
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
        let mut leader = Leader::new(10);
        leader.on_durable(&set, key(1), 14);
        leader.on_durable(&set, key(2), 14);
        assert_eq!(leader.committed(&set), None);
        leader.on_durable(&set, key(3), 12);
        assert_eq!(leader.committed(&set), Some(12));
    }

    #[test]
    fn known_progress_never_falls() {
        let set = voters(1..=1);
        let mut leader = Leader::new(0);
        leader.on_durable(&set, key(1), 5);
        leader.on_durable(&set, key(1), 3);
        assert_eq!(leader.committed(&set), Some(5));
    }

    #[test]
    fn nobody_commits_nothing() {
        let leader = Leader::new(0);
        assert_eq!(leader.committed(&VoterSet::default()), None);
    }
}
