//! A partition that leads: what followers' fetches prove, what the ISR is to be, what may be answered.

use super::{Acknowledged, Partition, PartitionDuty, Role};
use crate::{
    event::Event,
    ids::NodeId,
    log::LogContext,
    planted::{Planted, PlantedSet},
    replication::{
        Effects, FetchRefusal, FollowerFetch, FollowerProgress, IsrAnswer, IsrProposal,
        KnownBrokers, Leadership, ProposalId, leadership::LeaderView,
    },
    time::Instant,
};

impl Partition {
    /// Begins the assigned leadership.
    pub(super) fn lead(&mut self, log: &mut LogContext<'_>, effects: &mut Effects) {
        // Noted now, and not with the first record: a follower may ask for an epoch that stayed empty.
        if !log.planted.has(Planted::B18) {
            self.log.assign_epoch(log, self.assignment.epoch);
        }
        let rule = self.settings.rule;
        let leadership = Leadership::new(&self.assignment, self.log.end(), rule, log.now.instant);
        effects.events.push(Event::BecameLeader {
            partition: self.name.clone(),
            epoch: leadership.epoch(),
            start: leadership.epoch_start(),
        });
        // Followers read what is not settled yet; without any there is no such reader.
        self.log
            .keep_unsettled(leadership.followers().next().is_some());
        self.role = Role::Leading(Box::new(leadership));
    }

    fn view(&self, now: Instant, planted: PlantedSet) -> LeaderView {
        LeaderView {
            now,
            min_insync_replicas: self.settings.min_insync_replicas,
            lag_max_ms: self.config.replica_lag_time_max_ms,
            planted,
        }
    }

    /// Takes what a follower's fetch says, after [`Partition::check_fetch`] granted it as a read.
    ///
    /// # Errors
    /// NOT_LEADER_OR_FOLLOWER for a fetch of an incarnation before the registered one: its log may have lost what it says.
    pub fn note_fetch(
        &mut self,
        log: &mut LogContext<'_>,
        fetch: &FollowerFetch,
        brokers: &KnownBrokers,
        effects: &mut Effects,
    ) -> Result<(), FetchRefusal> {
        let is_blind = log.planted.has(Planted::B06);
        let is_stale = brokers.is_stale(fetch.node, fetch.broker_epoch);
        if is_stale && !is_blind {
            return Err(FetchRefusal::NotLeader);
        }
        let mut fetch = *fetch;
        if let (true, Some(registered)) = (is_blind, brokers.epoch(fetch.node)) {
            fetch.broker_epoch = registered;
        }
        let is_eligible = brokers.is_eligible(fetch.node, fetch.broker_epoch);
        let Role::Leading(leadership) = &mut self.role else {
            return Err(FetchRefusal::NotLeader);
        };
        if log.planted.has(Planted::B11) {
            let known = leadership
                .follower(fetch.node)
                .and_then(FollowerProgress::end);
            fetch.fetch_offset = fetch.fetch_offset.max(known.unwrap_or_default());
        }
        leadership.on_fetch(&fetch, is_eligible, log.now.instant);
        self.settle(log, effects);
        Ok(())
    }

    /// Takes note that what is known of a broker has changed: it may join the ISR now, or not any more.
    pub fn on_broker(
        &mut self,
        log: &mut LogContext<'_>,
        node: NodeId,
        brokers: &KnownBrokers,
        effects: &mut Effects,
    ) {
        if let Role::Leading(leadership) = &mut self.role {
            leadership.on_broker(node, brokers);
            self.settle(log, effects);
        }
    }

    /// Proposes to remove members of the ISR that have lagged for too long.
    pub(super) fn shrink_isr(&mut self, log: &LogContext<'_>, effects: &mut Effects) {
        let view = self.view(log.now.instant, log.planted);
        if let Role::Leading(leadership) = &mut self.role {
            let proposal = leadership.maybe_shrink(&view);
            self.propose(proposal, effects);
        }
    }

    fn propose(&self, proposal: Option<IsrProposal>, effects: &mut Effects) {
        let Some(proposal) = proposal else { return };
        effects.events.push(Event::IsrProposed {
            partition: self.name.clone(),
            epoch: proposal.id.leader_epoch,
            isr: proposal.isr.iter().map(|member| member.node).collect(),
        });
        effects.duties.push(PartitionDuty::ProposeIsr(proposal));
    }

    /// Takes the controller's answer to a proposal; one to any other than the proposal in flight changes nothing.
    pub fn on_isr_answer(
        &mut self,
        log: &mut LogContext<'_>,
        id: ProposalId,
        answer: IsrAnswer,
        effects: &mut Effects,
    ) {
        if let Role::Leading(leadership) = &mut self.role {
            leadership.on_answer(id, answer, log.now.instant);
        }
        self.settle(log, effects);
    }

    /// Moves the high watermark and answers what it, or the local copy, now covers.
    pub(super) fn count(&mut self, log: &LogContext<'_>, effects: &mut Effects) {
        let counted = self.counted(log.planted);
        let view = self.view(log.now.instant, log.planted);
        let end = self.log.written_end();
        let Role::Leading(leadership) = &mut self.role else {
            return;
        };
        if leadership.on_end(end, view.now) {
            effects.duties.push(PartitionDuty::Serve);
        }
        leadership.count_local(counted);
        let high_watermark = leadership.high_watermark(&view);
        if let Some(offset) = high_watermark {
            self.move_high_watermark(offset, effects);
        }
        if let Role::Leading(leadership) = &mut self.role {
            let proposal = leadership.maybe_expand(self.high_watermark, &view);
            self.propose(proposal, effects);
        }
        let log_start = self.log.start();
        while let Some((accepted, token)) = self.parked.pop_done(counted, self.high_watermark) {
            let done = Acknowledged {
                base_offset: accepted.base_offset,
                log_append_time: accepted.log_append_time,
                log_start,
            };
            effects.acknowledged.push((token, Ok(done)));
        }
    }

    /// Returns whether this broker may serve a follower.
    #[must_use]
    pub fn leads_for(&self, node: NodeId) -> bool {
        self.leadership()
            .is_some_and(|leadership| leadership.follower(node).is_some())
    }
}
