//! What a leader knows about its epoch: who is in sync, what their copies count for, where the high watermark may stand.

use std::collections::BTreeMap;

use super::{
    FlushRule, FollowerFetch, FollowerProgress, IsrAnswer, IsrMember, IsrProposal, KnownBrokers,
    ProposalId, isr::Isr,
};
use crate::{
    ids::{Epoch, NodeId, Offset},
    planted::{Planted, PlantedSet},
    time::Instant,
};

/// What the controller has committed about a partition, as one of its replicas sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderAssignment {
    /// The leader epoch.
    pub epoch: Epoch,
    /// The partition epoch: it rises with each change of what stands here.
    pub partition_epoch: i32,
    /// The leader; `None` while there is none.
    pub leader: Option<NodeId>,
    /// This node.
    pub local: NodeId,
    /// All replicas.
    pub replicas: Vec<NodeId>,
    /// How many of them a reassignment is about to add: they do not count for the replication factor yet.
    pub adding: usize,
    /// The committed in-sync replicas.
    pub isr: Vec<NodeId>,
}

impl LeaderAssignment {
    /// Returns how many replicas the partition is to have, which bounds the effective `min.insync.replicas`.
    #[must_use]
    pub fn replication_factor(&self) -> usize {
        self.replicas.len().saturating_sub(self.adding)
    }

    fn followers(&self) -> impl Iterator<Item = NodeId> {
        let local = self.local;
        let replicas = self.replicas.iter().copied();
        replicas.filter(move |replica| *replica != local)
    }
}

/// What a leadership's decisions depend on beside its own state.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaderView {
    pub(super) now: Instant,
    /// `min.insync.replicas`.
    pub(super) min_insync_replicas: usize,
    /// `replica.lag.time.max.ms`.
    pub(super) lag_max_ms: u64,
    pub(super) planted: PlantedSet,
}

/// One leadership of one partition.
///
/// The high watermark is the smallest counted position of the *maximal* ISR: members that the controller has committed, and
/// those that a change in flight would add (KIP-497). It moves only while the committed ISR has at least the effective
/// `min.insync.replicas`, which is never more than there are replicas. A replica that is about to join holds it back too, so
/// that it can join (as in Kafka).
#[derive(Clone, Debug)]
pub struct Leadership {
    epoch: Epoch,
    epoch_start: Offset,
    replication_factor: usize,
    isr: Isr,
    followers: BTreeMap<NodeId, FollowerProgress>,
    /// Up to where this node's own copy counts.
    counted: Option<Offset>,
    /// Up to where followers may read.
    end: Offset,
    /// By which rule the copies of the whole ISR are known to count.
    rule: FlushRule,
}

impl Leadership {
    /// Starts a leadership whose first record will be at `log_end`.
    ///
    /// A follower that fetches in this epoch has applied all metadata up to its beginning, so that it follows `rule` if that
    /// was in force here: its fetch offset is the report that all up to it counts.
    #[must_use]
    pub fn new(
        assignment: &LeaderAssignment,
        log_end: Offset,
        rule: FlushRule,
        now: Instant,
    ) -> Self {
        let followers = assignment.followers();
        Self {
            epoch: assignment.epoch,
            epoch_start: log_end,
            replication_factor: assignment.replication_factor(),
            isr: Isr::new(&assignment.isr, assignment.partition_epoch),
            followers: followers
                .map(|node| {
                    let is_in_sync = assignment.isr.contains(&node);
                    (node, FollowerProgress::new(is_in_sync, now))
                })
                .collect(),
            counted: None,
            end: log_end,
            rule,
        }
    }

    /// Returns the leader epoch.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the log end at the start of this leadership.
    #[must_use]
    pub const fn epoch_start(&self) -> Offset {
        self.epoch_start
    }

    /// Returns the committed in-sync replicas.
    #[must_use]
    pub fn isr(&self) -> &[NodeId] {
        self.isr.committed()
    }

    /// Returns the maximal ISR: committed members and those that a change in flight would add.
    #[must_use]
    pub fn maximal_isr(&self) -> Vec<NodeId> {
        self.isr.maximal()
    }

    /// Returns the partition epoch of the committed ISR.
    #[must_use]
    pub const fn partition_epoch(&self) -> i32 {
        self.isr.partition_epoch()
    }

    /// Returns whether a change of the ISR is in flight.
    #[must_use]
    pub const fn is_changing(&self) -> bool {
        self.isr.is_in_flight()
    }

    /// Returns what is known of a follower; `None` if the node is not one.
    #[must_use]
    pub fn follower(&self, node: NodeId) -> Option<&FollowerProgress> {
        self.followers.get(&node)
    }

    /// Iterates over all followers.
    pub fn followers(&self) -> impl Iterator<Item = (NodeId, &FollowerProgress)> {
        self.followers
            .iter()
            .map(|(node, progress)| (*node, progress))
    }

    /// Returns by which rule the whole ISR's copies count. A switch to `durable` is in force from the next leader epoch on:
    /// only then every follower is known to have heard of it and to report nothing that is not flushed.
    #[must_use]
    pub const fn rule_in_force(&self) -> FlushRule {
        self.rule
    }

    /// Notes that followers need not flush any more: until the next epoch nobody knows who still does.
    pub(super) const fn weaken_rule(&mut self) {
        self.rule = FlushRule::Replicated;
    }

    /// Returns how many in-sync replicas an acks=-1 write needs, of a setting of `min_insync_replicas`.
    #[must_use]
    pub fn effective_min_isr(&self, min_insync_replicas: usize) -> usize {
        min_insync_replicas.min(self.replication_factor)
    }

    /// Returns whether enough replicas are in sync to take an acks=-1 write.
    #[must_use]
    pub fn has_min_isr(&self, min_insync_replicas: usize) -> bool {
        self.isr.committed().len() >= self.effective_min_isr(min_insync_replicas)
    }

    /// Notes up to where this node's own copy counts.
    pub fn count_local(&mut self, up_to: Offset) {
        self.counted = self.counted.max(Some(up_to));
    }

    /// Notes up to where followers may read; returns whether they are to be told.
    pub(super) fn on_end(&mut self, end: Offset, now: Instant) -> bool {
        let grew = end > self.end && !self.followers.is_empty();
        if end != self.end {
            for follower in self.followers.values_mut() {
                follower.on_leader_grew(self.end, now);
            }
            self.end = end;
        }
        grew
    }

    /// Returns where the high watermark may stand; `None` while it must not move.
    pub(super) fn high_watermark(&self, view: &LeaderView) -> Option<Offset> {
        if !self.has_min_isr(view.min_insync_replicas) && !view.planted.has(Planted::B05) {
            return None;
        }
        let mut lowest = self.counted?;
        for (node, follower) in &self.followers {
            let holds_back = if self.isr.is_leaving(*node) && view.planted.has(Planted::B04) {
                false
            } else if self.isr.maximal_contains(*node) {
                true
            } else {
                follower.is_eligible() && follower.is_caught_up(self.end, view.lag_max_ms, view.now)
            };
            if holds_back {
                lowest = lowest.min(follower.end()?);
            }
        }
        Some(lowest)
    }

    /// Takes a follower's fetch.
    pub(super) fn on_fetch(&mut self, fetch: &FollowerFetch, is_eligible: bool, now: Instant) {
        if let Some(follower) = self.followers.get_mut(&fetch.node) {
            follower.on_fetch(fetch, self.end, is_eligible, now);
        }
    }

    /// Looks anew at whether a follower may join the ISR: what is known of its broker has changed.
    pub(super) fn on_broker(&mut self, node: NodeId, brokers: &KnownBrokers) {
        if let Some(follower) = self.followers.get_mut(&node) {
            let epoch = follower.broker_epoch();
            follower.set_eligible(epoch.is_some_and(|epoch| brokers.is_eligible(node, epoch)));
        }
    }

    /// Proposes to add a follower that may join the ISR: one at or past the high watermark **and** the start of this epoch.
    /// What lies between an old high watermark and the epoch's start may be committed.
    ///
    /// Not only its own fetch is an occasion: a follower that came level while another change was in flight, and then rests,
    /// does not fetch again (KIP-227).
    pub(super) fn maybe_expand(
        &mut self,
        high_watermark: Offset,
        view: &LeaderView,
    ) -> Option<IsrProposal> {
        if !self.isr.may_propose(view.now) {
            return None;
        }
        let start = if view.planted.has(Planted::B01) {
            high_watermark
        } else {
            self.epoch_start.max(high_watermark)
        };
        let committed = self.isr.committed();
        let (node, follower) = self.followers.iter_mut().find(|(node, follower)| {
            follower.is_eligible()
                && follower.end().is_some_and(|end| end >= start)
                && !committed.contains(node)
        })?;
        follower.admitted(view.now);
        let (id, isr) = self.isr.expand(self.epoch, *node);
        Some(self.proposal(id, &isr))
    }

    /// Proposes to remove members that have lagged for too long.
    pub(super) fn maybe_shrink(&mut self, view: &LeaderView) -> Option<IsrProposal> {
        if !self.isr.may_propose(view.now) {
            return None;
        }
        let is_late = |follower: &FollowerProgress| {
            let deadline = follower.lag_deadline(self.end, view.lag_max_ms);
            deadline.is_some_and(|deadline| deadline <= view.now)
        };
        let members = self.isr.committed().iter().copied();
        let late: Vec<NodeId> = members
            .filter(|member| self.followers.get(member).is_some_and(is_late))
            .collect();
        if late.is_empty() {
            return None;
        }
        let (id, isr) = self.isr.shrink(self.epoch, late);
        Some(self.proposal(id, &isr))
    }

    /// Returns when [`Leadership::maybe_shrink`] is next due: never, while all members have all that the leader has.
    pub(super) fn deadline(&self, lag_max_ms: u64) -> Option<Instant> {
        if self.isr.is_in_flight() {
            return None;
        }
        let members = self.isr.committed().iter();
        let late = members
            .filter_map(|member| self.followers.get(member))
            .filter_map(|follower| follower.lag_deadline(self.end, lag_max_ms))
            .min()?;
        Some(late.max(self.isr.not_before().unwrap_or(late)))
    }

    fn proposal(&self, id: ProposalId, isr: &[NodeId]) -> IsrProposal {
        let member = |node: &NodeId| IsrMember {
            node: *node,
            broker_epoch: self
                .followers
                .get(node)
                .and_then(FollowerProgress::broker_epoch)
                .unwrap_or(-1),
        };
        IsrProposal {
            id,
            partition_epoch: self.isr.partition_epoch(),
            isr: isr.iter().map(member).collect(),
        }
    }

    /// Takes the controller's answer to a proposal; returns whether the change in flight is over.
    pub(super) fn on_answer(&mut self, id: ProposalId, answer: IsrAnswer, now: Instant) -> bool {
        let joining = self.isr.joining();
        let is_over = self.isr.on_answer(id, answer, now);
        // Refused, it is not proposed again before its next fetch, or before more is known of its broker.
        if let (true, IsrAnswer::NotApplied, Some(node)) = (is_over, answer, joining)
            && let Some(follower) = self.followers.get_mut(&node)
        {
            follower.set_eligible(false);
        }
        is_over
    }

    /// Takes newer metadata of the same leader epoch.
    pub(super) fn on_metadata(&mut self, assignment: &LeaderAssignment) {
        self.replication_factor = assignment.replication_factor();
        self.followers
            .retain(|node, _| assignment.replicas.contains(node));
        for node in assignment.followers() {
            self.followers.entry(node).or_default();
        }
        self.isr
            .on_metadata(&assignment.isr, assignment.partition_epoch);
    }
}
