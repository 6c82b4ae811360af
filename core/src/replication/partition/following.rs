//! A partition that follows: it asks, cuts what its leader does not have, and appends exactly what it is sent.

use super::{Partition, PartitionDuty, PartitionState, Role};
use crate::{
    event::{Event, StartReason},
    ids::{NodeId, Offset},
    log::{AppendBatch, AppendError, LogContext},
    planted::Planted,
    protocol::ErrorCode,
    replication::{
        Effects, EpochEnd, FetchPosition, FetchedPartition, LeaderOffset, OffsetQuestion,
        Readiness,
        following::{Cut, Following, Stage},
        payload::{self, Expected, PayloadFault},
    },
    time::Instant,
};

impl Partition {
    /// Begins to follow the assigned leader.
    pub(super) fn follow(&mut self, log: &LogContext<'_>, leader: NodeId, effects: &mut Effects) {
        let mut following = Following::new(leader, self.assignment.epoch);
        if log.planted.has(Planted::B13) && self.high_watermark < self.log.end() {
            let to = self.high_watermark;
            let cut = Cut { to, fully: false };
            following.stage = Stage::Lowering(cut);
            let kept = cut.kept(&self.log);
            effects.duties.push(PartitionDuty::LowerRecoveryPoint(kept));
        }
        effects.events.push(Event::BecameFollower {
            partition: self.name.clone(),
            epoch: following.epoch,
            leader,
            end: self.log.end(),
        });
        effects.duties.push(PartitionDuty::Follow { leader });
        self.role = Role::Following(following);
    }

    /// Returns what this replica would ask its leader now.
    #[must_use]
    pub fn readiness(&self, now: Instant, planted: crate::planted::PlantedSet) -> Readiness {
        let Role::Following(following) = &self.role else {
            return Readiness::Later;
        };
        if self.state != PartitionState::Open {
            return Readiness::Later;
        }
        if self.unsettled_start.is_some() {
            return Readiness::Soon;
        }
        following.readiness(&self.log, self.counted(planted), self.high_watermark, now)
    }

    /// Takes the answer to a fetch that was sent from this position. An answer to any other position than the present one is
    /// dropped: it is of an earlier epoch or incarnation, or came twice.
    pub fn on_fetched(
        &mut self,
        log: &mut LogContext<'_>,
        sent: &FetchPosition,
        answer: &FetchedPartition,
        effects: &mut Effects,
    ) {
        let Role::Following(following) = &self.role else {
            return;
        };
        if self.is_sealed || !following.is_current(&self.log, sent) {
            return;
        }
        match answer.error {
            ErrorCode::None => {
                // Before any other field of the answer: the rest is about a log that this one is not a prefix of.
                if let Some(diverging) = answer.diverging {
                    self.on_diverging(log, diverging, effects);
                } else {
                    self.take_records(log, answer, effects);
                }
            }
            ErrorCode::OffsetOutOfRange => self.set_stage(Stage::LeaderEnd),
            // The leader is behind or ahead in metadata, moves, or has trouble: ask again after a while.
            _ => self.pause_following(log),
        }
        self.settle(log, effects);
    }

    /// Takes the answer to a question about the leader's offsets.
    pub fn on_leader_offset(
        &mut self,
        log: &mut LogContext<'_>,
        question: OffsetQuestion,
        answer: Result<Offset, ErrorCode>,
        effects: &mut Effects,
    ) {
        let Role::Following(following) = &self.role else {
            return;
        };
        let stage = match question.which {
            LeaderOffset::End => Stage::LeaderEnd,
            LeaderOffset::Start => Stage::LeaderStart,
        };
        if following.epoch != question.leader_epoch || following.stage != stage {
            return;
        }
        let end = self.log.end();
        match (question.which, answer) {
            (_, Err(_)) => self.pause_following(log),
            (_, Ok(offset)) if offset < 0 => self.pause_following(log),
            (LeaderOffset::End, Ok(leader_end)) if leader_end < end => {
                self.begin_cut(log, leader_end, false, effects);
            }
            (LeaderOffset::End, Ok(_)) => self.set_stage(Stage::LeaderStart),
            (LeaderOffset::Start, Ok(leader_start)) if leader_start > end => {
                self.begin_cut(log, leader_start, true, effects);
            }
            (LeaderOffset::Start, Ok(_)) => {
                // The leader has our end by now.
                self.set_stage(Stage::Fetching);
                self.pause_following(log);
            }
        }
        self.settle(log, effects);
    }

    fn set_stage(&mut self, stage: Stage) {
        if let Role::Following(following) = &mut self.role {
            following.stage = stage;
        }
    }

    /// Asks nothing for `replica.fetch.backoff.ms`.
    pub(super) fn pause_following(&mut self, log: &LogContext<'_>) {
        if let Role::Following(following) = &mut self.role {
            following.pause(log.now.instant, self.config.replica_fetch_backoff_ms);
            following.tell_again();
        }
    }

    fn on_diverging(
        &mut self,
        log: &mut LogContext<'_>,
        diverging: EpochEnd,
        effects: &mut Effects,
    ) {
        let Some(cut) = Following::on_diverging(&self.log, diverging, log.planted) else {
            return self.pause_following(log);
        };
        self.begin_cut(log, cut.to, cut.fully, effects);
    }

    fn begin_cut(
        &mut self,
        log: &mut LogContext<'_>,
        to: Offset,
        fully: bool,
        effects: &mut Effects,
    ) {
        effects.events.push(Event::LogDiverged {
            partition: self.name.clone(),
            epoch: self.assignment.epoch,
            end: self.log.end(),
            to,
            high_watermark: self.high_watermark,
        });
        if !fully && to >= self.log.end() {
            // No record goes, but entries of epochs that stayed empty do: otherwise both sides would ask for ever.
            let before = self.log.latest_epoch();
            self.log.truncate_to(log, to);
            if self.log.latest_epoch() == before {
                self.pause_following(log);
            }
            return;
        }
        let cut = Cut { to, fully };
        self.set_stage(Stage::Lowering(cut));
        let kept = cut.kept(&self.log);
        effects.duties.push(PartitionDuty::LowerRecoveryPoint(kept));
    }

    /// Cuts the log where the leader's answer said: the recovery-point checkpoint durably says no more than that by now.
    pub fn cut(&mut self, log: &mut LogContext<'_>, effects: &mut Effects) {
        let Role::Following(following) = &mut self.role else {
            return;
        };
        let Stage::Lowering(cut) = following.stage else {
            return;
        };
        following.stage = Stage::Truncating;
        following.leader_high_watermark = None;
        let restart = std::mem::take(&mut following.restart);
        let mark = self.log_start_mark();
        if !restart.is_empty() {
            self.begin_anew_with(log, cut.to, restart);
        } else if cut.empties(&self.log) {
            self.log.truncate_fully_and_start_at(log, cut.to);
            self.start_floor = 0;
        } else {
            self.log.truncate_to(log, cut.to);
            if cut.to < self.start_floor {
                self.start_floor = 0;
            }
        }
        // A fetch from the new start promises that the log ends there, whatever a crash takes.
        if self.log_start_mark() != mark {
            self.unsettled_start = Some(self.high_watermark_mark());
            effects.duties.push(PartitionDuty::KeepLogStart);
        }
        self.settle(log, effects);
    }

    /// Takes note that the log-start checkpoint durably says where the log begins.
    pub fn start_is_durable(&mut self, log: &mut LogContext<'_>, effects: &mut Effects) {
        self.unsettled_start = None;
        self.settle(log, effects);
    }

    /// Lets an empty log begin at an offset before its start, with batches of which the first holds the start.
    fn begin_anew_with(&mut self, log: &mut LogContext<'_>, at: Offset, batches: Vec<AppendBatch>) {
        // Everything below the old start is deleted, and its end was claimed as held: nothing may take that back.
        let old_start = self.log.start();
        self.start_floor = self.start_floor.max(old_start);
        self.log.truncate_fully_and_start_at(log, at);
        let mut is_taken = false;
        for batch in batches {
            if self.log.append_as_is(log, batch).is_err() {
                break;
            }
            is_taken = true;
        }
        // While old files are on their way out nothing can be appended: the leader is asked anew, from where it was.
        if !is_taken {
            self.log.truncate_fully_and_start_at(log, old_start);
        }
    }

    /// The log is cut; it may be that of an earlier leader, and the present role waits for it.
    pub(super) fn on_truncated(&mut self, log: &mut LogContext<'_>, effects: &mut Effects) {
        if !log.planted.has(Planted::B03) {
            // Log start, high watermark and log end move together.
            self.high_watermark = self
                .high_watermark
                .min(self.log.end())
                .max(self.log.start());
        }
        if let Role::Following(following) = &mut self.role
            && following.stage == Stage::Truncating
        {
            following.stage = Stage::Fetching;
        }
        self.take_role(log, effects);
    }

    fn take_records(
        &mut self,
        log: &mut LogContext<'_>,
        answer: &FetchedPartition,
        effects: &mut Effects,
    ) {
        if !answer.records.is_empty() {
            let expected = Expected {
                end: self.log.end(),
                is_empty: self.log.start() == self.log.end(),
                latest: self.log.latest_epoch(),
                leader_epoch: self.assignment.epoch,
                compact: self.settings.log.compact,
            };
            let payload = payload::check(&answer.records, &expected);
            if let Some(fault) = payload.fault {
                self.refuse_payload(log, fault, effects);
            }
            if let Some(base) = payload.restart_at {
                // The leader's log begins within this batch, and ours with the whole of it. It cannot be asked for again: its
                // base lies before the leader's log start.
                if let Role::Following(following) = &mut self.role {
                    following.restart = payload.batches;
                }
                return self.begin_cut(log, base, true, effects);
            }
            for batch in payload.batches {
                match self.log.append_as_is(log, batch) {
                    Ok(_) => {}
                    // Files of a truncation are still on their way out: the same records come again.
                    Err(AppendError::NotOpen) => {
                        self.pause_following(log);
                        break;
                    }
                    Err(_) => {
                        let at = self.log.end();
                        self.refuse_payload(log, PayloadFault::Invalid { at }, effects);
                        break;
                    }
                }
            }
        }
        if let Role::Following(following) = &mut self.role {
            following.leader_high_watermark = Some(answer.high_watermark);
        }
        self.follow_log_start(answer.log_start, effects);
    }

    fn refuse_payload(&mut self, log: &LogContext<'_>, fault: PayloadFault, effects: &mut Effects) {
        if let Some(leader) = self.following() {
            effects.events.push(Event::PayloadRefused {
                partition: self.name.clone(),
                leader,
                fault,
            });
        }
        self.pause_following(log);
    }

    /// Moves the log start after the leader's, as DeleteRecords wants it on every replica. Nothing goes that is not known to
    /// be committed.
    fn follow_log_start(&mut self, leader_start: Offset, effects: &mut Effects) {
        let known = match &self.role {
            Role::Following(following) => following.leader_high_watermark,
            Role::Idle | Role::Leading(_) => None,
        };
        let written = self.log.written_end();
        let committed = known.map_or(self.high_watermark, |leader| {
            self.high_watermark.max(leader.min(written))
        });
        let start = leader_start.min(committed);
        if start > self.log.start() {
            self.start_reason = Some(StartReason::LeaderLogStart);
            effects.retention = Some(start.max(effects.retention.unwrap_or(start)));
        }
    }

    /// Moves the high watermark after the leader's, never past what is here, and says when there is something new to ask.
    pub(super) fn keep_up(&mut self, log: &LogContext<'_>, effects: &mut Effects) {
        let written = self.log.written_end();
        let Role::Following(following) = &self.role else {
            return;
        };
        if let Some(leader) = following.leader_high_watermark
            && self.log.is_open()
        {
            self.move_high_watermark(leader.min(written), effects);
        }
        let readiness = self.readiness(log.now.instant, log.planted);
        if let Role::Following(following) = &mut self.role
            && following.is_news(readiness)
        {
            effects.duties.push(PartitionDuty::Ask);
        }
    }
}
