//! Proposals of this broker's leaders on their way to the controller: one AlterPartition request at a time (KIP-497).
//!
//! A proposal stays here until the controller has answered it for good, or a newer one of its partition takes its place. What
//! happened to a request whose answer is lost is unknown, so it is sent again: the controller applies a change to exactly
//! the partition epoch that it names, hence once at most.

use std::collections::BTreeMap;

use super::{IsrAnswer, IsrProposal, ProposalId, SlotId, TopicIdPartition};
use crate::{
    ids::{Epoch, NodeId},
    protocol::ErrorCode,
    time::Instant,
};

/// How many partitions one request carries at most.
const PARTITIONS_MAX: usize = 1_000;
/// How long to wait before a request is sent again.
const RETRY_PAUSE_MS: u64 = 50;

/// One partition of an AlterPartition request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionAlteration {
    /// The partition's place on this broker.
    pub slot: SlotId,
    /// Its name on the wire.
    pub partition: TopicIdPartition,
    /// The change; the leader recovery state is always RECOVERED.
    pub proposal: IsrProposal,
}

/// An AlterPartition request to be sent to the active controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterPartitionAsk {
    /// Its number, to be given back with the answer.
    pub number: u64,
    /// What it asks for.
    pub alterations: Vec<PartitionAlteration>,
}

/// One partition of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionAltered {
    /// The partition.
    pub partition: TopicIdPartition,
    /// The error, or none.
    pub error: ErrorCode,
    /// The leader epoch that the controller knows.
    pub leader_epoch: Epoch,
    /// The partition epoch after the change.
    pub partition_epoch: i32,
}

/// What became of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettledProposal {
    /// The partition's place on this broker.
    pub slot: SlotId,
    /// Which proposal.
    pub id: ProposalId,
    /// For [`Partition::on_isr_answer`](super::Partition::on_isr_answer).
    pub answer: IsrAnswer,
}

/// What the request in flight names, with its number.
type InFlight = (u64, BTreeMap<TopicIdPartition, (SlotId, ProposalId)>);

/// All proposals of this broker.
#[derive(Debug, Default)]
pub struct IsrProposals {
    waiting: BTreeMap<SlotId, (TopicIdPartition, IsrProposal)>,
    in_flight: Option<InFlight>,
    retry_at: Option<Instant>,
    number: u64,
}

impl IsrProposals {
    /// Takes a proposal; it replaces an older one of the same partition, which its leader has given up.
    pub fn submit(&mut self, slot: SlotId, partition: TopicIdPartition, proposal: IsrProposal) {
        self.waiting.insert(slot, (partition, proposal));
    }

    /// Drops what a partition proposed: it no longer leads, or is gone.
    pub fn withdraw(&mut self, slot: SlotId) {
        self.waiting.remove(&slot);
    }

    /// Returns the next request, as this node in this broker epoch sends it; nothing while one is in flight.
    pub fn poll(
        &mut self,
        now: Instant,
        local: NodeId,
        broker_epoch: i64,
    ) -> Option<AlterPartitionAsk> {
        if self.in_flight.is_some() || self.waiting.is_empty() {
            return None;
        }
        if self.retry_at.is_some_and(|at| at > now) {
            return None;
        }
        self.retry_at = None;
        self.number += 1;
        let mut alterations = Vec::new();
        let mut sent = BTreeMap::new();
        for (slot, (partition, proposal)) in self.waiting.iter().take(PARTITIONS_MAX) {
            let mut proposal = proposal.clone();
            for member in proposal
                .isr
                .iter_mut()
                .filter(|member| member.node == local)
            {
                member.broker_epoch = broker_epoch;
            }
            sent.insert(*partition, (*slot, proposal.id));
            alterations.push(PartitionAlteration {
                slot: *slot,
                partition: *partition,
                proposal,
            });
        }
        self.in_flight = Some((self.number, sent));
        Some(AlterPartitionAsk {
            number: self.number,
            alterations,
        })
    }

    /// Takes the answer to a request: an error of the whole, or one answer for each partition. What is not settled by it is
    /// sent again.
    pub fn on_answer(
        &mut self,
        now: Instant,
        number: u64,
        answer: Result<&[PartitionAltered], ErrorCode>,
    ) -> Vec<SettledProposal> {
        let Some((_, sent)) = self.in_flight.take_if(|(known, _)| *known == number) else {
            return Vec::new();
        };
        let mut settled = Vec::new();
        for altered in answer.unwrap_or_default() {
            let Some((slot, id)) = sent.get(&altered.partition).copied() else {
                continue;
            };
            let Some(answer) = conclude(altered, id) else {
                continue;
            };
            let is_it = |waiting: &(TopicIdPartition, IsrProposal)| waiting.1.id == id;
            if self.waiting.get(&slot).is_some_and(is_it) {
                self.waiting.remove(&slot);
            }
            settled.push(SettledProposal { slot, id, answer });
        }
        // What is left of this request was refused for a reason that may pass.
        let is_left = |(slot, id): &(SlotId, ProposalId)| {
            self.waiting
                .get(slot)
                .is_some_and(|(_, waiting)| waiting.id == *id)
        };
        if sent.values().any(is_left) {
            self.retry_at = Some(now.plus_millis(RETRY_PAUSE_MS));
        }
        settled
    }

    /// Takes note that a request was lost, or its answer: nobody knows which.
    pub fn on_failed(&mut self, now: Instant, number: u64) {
        if self
            .in_flight
            .take_if(|(known, _)| *known == number)
            .is_some()
        {
            self.retry_at = Some(now.plus_millis(RETRY_PAUSE_MS));
        }
    }

    /// Returns when [`IsrProposals::poll`] is to be called although nothing new was submitted.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let is_waiting = self.in_flight.is_none() && !self.waiting.is_empty();
        self.retry_at.filter(|_| is_waiting)
    }
}

/// Says what an answer means; `None` where it is worth another try.
fn conclude(altered: &PartitionAltered, id: ProposalId) -> Option<IsrAnswer> {
    Some(match altered.error {
        ErrorCode::None if altered.leader_epoch == id.leader_epoch => IsrAnswer::Accepted {
            partition_epoch: altered.partition_epoch,
        },
        // The controller says that our partition epoch was right and that it did nothing: no other will do it either.
        ErrorCode::IneligibleReplica | ErrorCode::OperationNotAttempted => IsrAnswer::NotApplied,
        // It knows more than we do, or has done it already.
        ErrorCode::None
        | ErrorCode::InvalidUpdateVersion
        | ErrorCode::FencedLeaderEpoch
        | ErrorCode::NewLeaderElected
        | ErrorCode::InvalidRequest
        | ErrorCode::UnknownTopicOrPartition
        | ErrorCode::UnknownTopicId => IsrAnswer::AwaitMetadata,
        // A controller that is none, or is behind what the leader already knows (NOT_CONTROLLER), must not be believed.
        _ => return None,
    })
}
