//! The in-sync replicas of one leadership: what the controller has committed, and the one change in flight (KIP-497).
//!
//! | state | leads to |
//! | --- | --- |
//! | committed | in flight, by a proposal |
//! | in flight | committed, by metadata of a newer partition epoch; by the controller saying that nothing was to be done; back to what was committed, by the controller saying that it did not and will not apply the change |
//!
//! A change that the controller has accepted stays in flight until the metadata log brings it. The answer alone is not
//! enough: it may overtake a change of `min.insync.replicas` that stands before it in the log, and the high watermark
//! would move over a smaller ISR under the old setting.

use crate::{
    ids::{Epoch, NodeId},
    time::Instant,
};

/// A member of a proposed ISR with the incarnation for which it is proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsrMember {
    /// The member.
    pub node: NodeId,
    /// Its broker epoch, -1 while it has not fetched in this leader epoch (KIP-903).
    pub broker_epoch: i64,
}

/// Names a proposal; an answer to any but the one in flight changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProposalId {
    /// The leader epoch it was made in.
    pub leader_epoch: Epoch,
    /// Its number within that epoch.
    pub number: u64,
}

/// A change of the ISR that the controller is to commit: one partition of an AlterPartition request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsrProposal {
    /// Its name.
    pub id: ProposalId,
    /// The partition epoch that it changes; the controller refuses any other.
    pub partition_epoch: i32,
    /// The whole new ISR.
    pub isr: Vec<IsrMember>,
}

/// What the controller made of a proposal, once nothing is left to be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsrAnswer {
    /// The ISR is as proposed, as of this partition epoch.
    Accepted {
        /// The partition epoch.
        partition_epoch: i32,
    },
    /// The change was not applied and never will be: INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED.
    NotApplied,
    /// Our view is out of date, or what happened is unknown: newer metadata will say.
    AwaitMetadata,
}

/// What a proposal would change.
#[derive(Clone, Debug, PartialEq, Eq)]
enum IsrChange {
    Expand(NodeId),
    Shrink(Vec<NodeId>),
}

#[derive(Clone, Debug)]
struct InFlight {
    id: ProposalId,
    change: IsrChange,
}

/// The ISR.
#[derive(Clone, Debug)]
pub(super) struct Isr {
    committed: Vec<NodeId>,
    partition_epoch: i32,
    in_flight: Option<InFlight>,
    proposals: u64,
    /// After a refusal nothing is proposed before this moment.
    not_before: Option<Instant>,
}

/// How long a leader waits after a refusal, so that its metadata can catch up with the controller's.
const REFUSAL_PAUSE_MS: u64 = 100;

impl Isr {
    pub(super) fn new(committed: &[NodeId], partition_epoch: i32) -> Self {
        Self {
            committed: committed.to_vec(),
            partition_epoch,
            in_flight: None,
            proposals: 0,
            not_before: None,
        }
    }

    pub(super) fn committed(&self) -> &[NodeId] {
        &self.committed
    }

    pub(super) const fn partition_epoch(&self) -> i32 {
        self.partition_epoch
    }

    pub(super) const fn is_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Returns whether a change may be proposed now.
    pub(super) fn may_propose(&self, now: Instant) -> bool {
        self.in_flight.is_none() && self.not_before.is_none_or(|until| until <= now)
    }

    /// Returns from when on a change may be proposed, if not at once.
    pub(super) const fn not_before(&self) -> Option<Instant> {
        self.not_before
    }

    /// Returns whether a replica is in the committed ISR or would be by the change in flight.
    pub(super) fn maximal_contains(&self, node: NodeId) -> bool {
        let joins = matches!(
            &self.in_flight,
            Some(InFlight { change: IsrChange::Expand(joining), .. }) if *joining == node
        );
        joins || self.committed.contains(&node)
    }

    /// Returns the replica that the change in flight adds.
    pub(super) fn joining(&self) -> Option<NodeId> {
        match &self.in_flight {
            Some(InFlight {
                change: IsrChange::Expand(joining),
                ..
            }) => Some(*joining),
            _ => None,
        }
    }

    /// Returns whether the change in flight removes this replica.
    pub(super) fn is_leaving(&self, node: NodeId) -> bool {
        matches!(
            &self.in_flight,
            Some(InFlight { change: IsrChange::Shrink(leaving), .. }) if leaving.contains(&node)
        )
    }

    /// Returns the maximal ISR: the high watermark rests on all of these.
    pub(super) fn maximal(&self) -> Vec<NodeId> {
        let mut members = self.committed.clone();
        if let Some(InFlight {
            change: IsrChange::Expand(joining),
            ..
        }) = &self.in_flight
            && !members.contains(joining)
        {
            members.push(*joining);
        }
        members
    }

    /// Puts the addition of a replica in flight; returns its name and the new ISR.
    pub(super) fn expand(
        &mut self,
        leader_epoch: Epoch,
        node: NodeId,
    ) -> (ProposalId, Vec<NodeId>) {
        let mut isr = self.committed.clone();
        isr.push(node);
        (self.propose(leader_epoch, IsrChange::Expand(node)), isr)
    }

    /// Puts the removal of replicas in flight; returns its name and the new ISR.
    pub(super) fn shrink(
        &mut self,
        leader_epoch: Epoch,
        leaving: Vec<NodeId>,
    ) -> (ProposalId, Vec<NodeId>) {
        let isr = self
            .committed
            .iter()
            .copied()
            .filter(|member| !leaving.contains(member))
            .collect();
        (self.propose(leader_epoch, IsrChange::Shrink(leaving)), isr)
    }

    fn propose(&mut self, leader_epoch: Epoch, change: IsrChange) -> ProposalId {
        self.proposals += 1;
        let id = ProposalId {
            leader_epoch,
            number: self.proposals,
        };
        self.in_flight = Some(InFlight { id, change });
        self.not_before = None;
        id
    }

    /// Takes the controller's answer; returns whether the change in flight is over.
    pub(super) fn on_answer(&mut self, id: ProposalId, answer: IsrAnswer, now: Instant) -> bool {
        if self.in_flight.as_ref().is_none_or(|known| known.id != id) {
            return false;
        }
        match answer {
            // Nothing was to be changed: no metadata will follow.
            IsrAnswer::Accepted { partition_epoch } if partition_epoch == self.partition_epoch => {
                self.in_flight = None;
                true
            }
            IsrAnswer::Accepted { .. } | IsrAnswer::AwaitMetadata => false,
            IsrAnswer::NotApplied => {
                self.in_flight = None;
                self.not_before = Some(now.plus_millis(REFUSAL_PAUSE_MS));
                true
            }
        }
    }

    /// Takes what the metadata log brings of the same leader epoch; newer than what is known, it settles any change.
    pub(super) fn on_metadata(&mut self, committed: &[NodeId], partition_epoch: i32) {
        if partition_epoch > self.partition_epoch {
            self.committed = committed.to_vec();
            self.partition_epoch = partition_epoch;
            self.in_flight = None;
            self.not_before = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch(4);

    fn ids(ids: &[i32]) -> Vec<NodeId> {
        ids.iter().map(|id| NodeId(*id)).collect()
    }

    fn isr() -> Isr {
        Isr::new(&ids(&[1, 2]), 10)
    }

    #[test]
    fn joining_replica_counts_from_the_proposal_on_and_a_leaving_one_until_metadata() {
        let mut isr = isr();
        let (_, proposed) = isr.expand(EPOCH, NodeId(3));
        assert_eq!(proposed, ids(&[1, 2, 3]));
        assert!(isr.maximal_contains(NodeId(3)));
        isr.on_metadata(&ids(&[1, 2, 3]), 11);
        assert!(!isr.is_in_flight());
        let (_, proposed) = isr.shrink(EPOCH, ids(&[3]));
        assert_eq!(proposed, ids(&[1, 2]));
        assert!(isr.maximal_contains(NodeId(3)));
        assert!(isr.is_leaving(NodeId(3)));
        isr.on_metadata(&ids(&[1, 2]), 12);
        assert!(!isr.maximal_contains(NodeId(3)));
    }

    #[test]
    fn accepted_change_stays_in_flight_until_the_metadata_brings_it() {
        let mut isr = isr();
        let (id, _) = isr.shrink(EPOCH, ids(&[2]));
        let answer = IsrAnswer::Accepted {
            partition_epoch: 11,
        };
        assert!(!isr.on_answer(id, answer, Instant::ORIGIN));
        assert_eq!(isr.committed(), ids(&[1, 2]));
        isr.on_metadata(&ids(&[1]), 11);
        assert_eq!(isr.committed(), ids(&[1]));
    }

    #[test]
    fn answer_to_a_superseded_proposal_changes_nothing() {
        let mut isr = isr();
        let (old, _) = isr.expand(EPOCH, NodeId(3));
        isr.on_metadata(&ids(&[1]), 11);
        let (new, _) = isr.expand(EPOCH, NodeId(2));
        assert!(!isr.on_answer(old, IsrAnswer::NotApplied, Instant::ORIGIN));
        assert!(isr.is_in_flight());
        assert!(isr.on_answer(new, IsrAnswer::NotApplied, Instant::ORIGIN));
        assert!(!isr.may_propose(Instant::ORIGIN));
        assert!(isr.may_propose(Instant::ORIGIN.plus_millis(REFUSAL_PAUSE_MS)));
    }

    #[test]
    fn metadata_that_is_not_newer_leaves_the_change_in_flight() {
        let mut isr = isr();
        isr.expand(EPOCH, NodeId(3));
        isr.on_metadata(&ids(&[1, 2]), 10);
        assert!(isr.is_in_flight());
    }

    #[test]
    fn proposal_that_changes_nothing_ends_with_its_answer() {
        let mut isr = isr();
        let (id, _) = isr.expand(EPOCH, NodeId(3));
        let answer = IsrAnswer::Accepted {
            partition_epoch: 10,
        };
        assert!(isr.on_answer(id, answer, Instant::ORIGIN));
    }
}
