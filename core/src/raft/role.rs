//! What a replica is in the present epoch, each role with the data that only it needs.

use std::collections::BTreeSet;

use crate::ids::NodeId;

use super::{
    leader::Leader,
    quorum_state::ElectionState,
    voters::{ReplicaKey, VoterSet},
};

/// A replica's role. The transitions are the table in the [module's documentation](super).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A voter that knows no leader it could follow.
    Unattached {
        /// The leader of this epoch, known by name but not a voter that could be asked.
        leader: Option<NodeId>,
    },
    /// A voter that follows the leader of this epoch.
    Follower {
        /// The leader.
        leader: NodeId,
    },
    /// A voter that asks whether it could win before it disturbs anybody (KIP-996): no new epoch, no vote.
    Prospective {
        /// The last leader known in this epoch.
        leader: Option<NodeId>,
        /// The answers, its own included.
        votes: Votes,
    },
    /// A voter that has given itself its vote of this epoch, durably.
    Candidate {
        /// The answers, its own included.
        votes: Votes,
    },
    /// The leader of this epoch.
    Leader(Leader),
    /// A voter that may have led this epoch in an earlier incarnation: entries of the epoch that nobody here remembers
    /// may exist, so it never leads this epoch again nor votes for another in it.
    Resigned,
    /// Not a voter: never votes, never counts.
    Observer {
        /// The leader of this epoch, where known.
        leader: Option<NodeId>,
    },
}

impl Role {
    /// Finds the role in which a replica starts.
    ///
    /// Its own vote in the file means that it was a candidate and perhaps the leader: the name of a leader that elected
    /// itself is not written, because the vote protects the epoch as well and costs no second write.
    #[must_use]
    pub(super) fn at_start(state: &ElectionState, voters: &VoterSet, local: ReplicaKey) -> Self {
        if !voters.contains(local) {
            return Self::Observer {
                leader: state.leader,
            };
        }
        if state.voted == Some(local) || state.leader == Some(local.id) {
            return Self::Resigned;
        }
        match state.leader {
            Some(leader) if voters.get(leader).is_some() => Self::Follower { leader },
            leader => Self::Unattached { leader },
        }
    }

    /// Returns the leader of this epoch, where this role knows it.
    #[must_use]
    pub(super) const fn leader(&self, local: NodeId) -> Option<NodeId> {
        match self {
            Self::Leader(_) => Some(local),
            Self::Follower { leader } => Some(*leader),
            Self::Unattached { leader }
            | Self::Observer { leader }
            | Self::Prospective { leader, .. } => *leader,
            Self::Candidate { .. } | Self::Resigned => None,
        }
    }

    /// Returns whether this role gives way to a leader of its own epoch.
    #[must_use]
    pub(super) const fn may_follow(&self) -> bool {
        match self {
            Self::Unattached { .. }
            | Self::Prospective { .. }
            | Self::Candidate { .. }
            | Self::Resigned
            | Self::Observer { leader: None } => true,
            Self::Follower { .. } | Self::Leader(_) | Self::Observer { leader: Some(_) } => false,
        }
    }

    /// Returns Kafka's name of the role.
    #[must_use]
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Unattached { .. } => "Unattached",
            Self::Follower { .. } => "Follower",
            Self::Prospective { .. } => "Prospective",
            Self::Candidate { .. } => "Candidate",
            Self::Leader(_) => "Leader",
            Self::Resigned => "Resigned",
            Self::Observer { .. } => "Observer",
        }
    }
}

/// Votes received in one election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Votes {
    granted: BTreeSet<NodeId>,
    rejected: BTreeSet<NodeId>,
    /// The election that founds a cluster: nobody may be missing, or a majority that lost its disks could found it anew.
    needs_all: bool,
}

impl Votes {
    /// Begins the count of an election that needs a majority, or everybody.
    #[must_use]
    pub(super) fn new(needs_all: bool) -> Self {
        Self {
            needs_all,
            ..Self::default()
        }
    }

    /// Notes a granted vote. Who is no voter, or a voter with another disk, is not counted.
    pub(super) fn grant(&mut self, voters: &VoterSet, from: ReplicaKey) {
        if voters.contains(from) {
            self.granted.insert(from.id);
        }
    }

    /// Notes a refused vote.
    pub(super) fn reject(&mut self, from: NodeId) {
        self.rejected.insert(from);
    }

    /// Returns whether a voter has not answered yet.
    #[must_use]
    pub(super) fn is_open(&self, voter: NodeId) -> bool {
        !self.granted.contains(&voter) && !self.rejected.contains(&voter)
    }

    fn needed(&self, voters: &VoterSet) -> usize {
        if self.needs_all {
            voters.len()
        } else {
            voters.majority()
        }
    }

    /// Returns whether enough of the voter set has granted its vote: a majority, or all where all are needed.
    #[must_use]
    pub(super) fn are_enough_of(&self, voters: &VoterSet) -> bool {
        let granted = voters
            .iter()
            .filter(|voter| self.granted.contains(&voter.id));
        !voters.is_empty() && granted.count() >= self.needed(voters)
    }

    /// Returns whether so many have refused that the rest is not enough.
    #[must_use]
    pub(super) fn are_lost(&self, voters: &VoterSet) -> bool {
        let left = voters
            .iter()
            .filter(|voter| !self.rejected.contains(&voter.id));
        left.count() < self.needed(voters)
    }

    /// Returns who granted its vote, in the order of the ids.
    #[must_use]
    pub(super) fn granted(&self) -> Vec<NodeId> {
        self.granted.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::{Epoch, Uuid},
        raft::voters::Voter,
    };

    fn key(id: i32, directory: u8) -> ReplicaKey {
        ReplicaKey {
            id: NodeId(id),
            directory: Uuid([directory; 16]),
        }
    }

    fn voters(ids: impl IntoIterator<Item = i32>) -> VoterSet {
        VoterSet::new(ids.into_iter().map(|id| Voter {
            id: NodeId(id),
            directory: Some(key(id, 1).directory),
            endpoints: vec![],
        }))
    }

    #[test]
    fn vote_of_a_stranger_or_of_another_disk_is_not_counted() {
        let set = voters(1..=3);
        let mut votes = Votes::default();
        votes.grant(&set, key(1, 1));
        votes.grant(&set, key(1, 1));
        votes.grant(&set, key(2, 9));
        votes.grant(&set, key(7, 1));
        assert!(!votes.are_enough_of(&set));
        votes.grant(&set, key(3, 1));
        assert!(votes.are_enough_of(&set));
        assert_eq!(votes.granted(), [NodeId(1), NodeId(3)]);
    }

    #[test]
    fn founding_election_needs_every_vote() {
        let set = voters(1..=3);
        let mut votes = Votes::new(true);
        votes.grant(&set, key(1, 1));
        votes.grant(&set, key(3, 1));
        assert!(!votes.are_enough_of(&set));
        assert!(!votes.are_lost(&set));
        assert!(votes.is_open(NodeId(2)));
        votes.reject(NodeId(2));
        assert!(votes.are_lost(&set));
    }

    #[test]
    fn election_is_lost_once_no_majority_is_left() {
        let set = voters(1..=3);
        let mut votes = Votes::new(false);
        votes.reject(NodeId(2));
        assert!(!votes.are_lost(&set));
        votes.reject(NodeId(3));
        assert!(votes.are_lost(&set));
    }

    #[test]
    fn nobody_is_no_majority() {
        assert!(!Votes::default().are_enough_of(&VoterSet::default()));
    }

    #[test]
    fn role_at_start_follows_from_the_durable_state() {
        let local = key(1, 1);
        let set = voters(1..=3);
        let start = |leader: Option<i32>, voted: Option<ReplicaKey>| {
            let state = ElectionState {
                epoch: Epoch(4),
                leader: leader.map(NodeId),
                voted,
                is_founder: false,
            };
            Role::at_start(&state, &set, local)
        };
        assert_eq!(start(None, Some(local)), Role::Resigned);
        assert_eq!(start(Some(1), None), Role::Resigned);
        let leader = NodeId(2);
        assert_eq!(start(Some(2), None), Role::Follower { leader });
        let leader = Some(NodeId(9));
        assert_eq!(start(Some(9), None), Role::Unattached { leader });
        assert_eq!(
            start(None, Some(key(2, 1))),
            Role::Unattached { leader: None }
        );
        let others = voters(2..=4);
        let observer = Role::at_start(&ElectionState::default(), &others, local);
        assert_eq!(observer, Role::Observer { leader: None });
    }
}
