//! One partition on this broker: its log, its role, and what waits for it.

mod appending;
mod duty;
mod following;
mod leading;
mod view;

pub use appending::{Acknowledged, AppendFailure, AppendRefusal};
pub use duty::PartitionDuty;

use std::sync::Arc;

use super::{
    Effects, LeaderAssignment, Leadership, ParkedAcks, ReplicationConfig, TopicSettings,
    following::Following,
};
use crate::{
    event::{Event, OfflineReason, StartReason},
    ids::{Offset, TopicPartition, Uuid},
    log::{
        FlushMark, FlushSet, Log, LogContext, LogEvent, LookupOutcome, LookupTarget, ReadId,
        ReadOutcome, ReadRequest,
    },
    planted::{Planted, PlantedSet},
    storage::Completion,
    time::Timestamp,
};

/// When a copy counts (architecture: storage).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushRule {
    /// `flush.messages=1`: when it is flushed.
    Durable,
    /// Any other value: when it is written to the page cache.
    Replicated,
}

/// How far a partition is from being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionState {
    /// Nothing of the log was read yet; the first use opens it.
    Closed,
    /// Recovery is under way.
    Opening,
    /// The log is open.
    Open,
    /// The log cannot be served.
    Offline(OfflineReason),
    /// The topic was deleted.
    Deleted,
}

/// What this replica does.
#[derive(Debug)]
enum Role {
    /// Neither leads nor follows: there is no leader, or the log is not open.
    Idle,
    Leading(Box<Leadership>),
    Following(Following),
}

/// One partition.
#[derive(Debug)]
pub struct Partition {
    name: TopicPartition,
    topic_id: Uuid,
    log: Log,
    state: PartitionState,
    settings: Arc<TopicSettings>,
    config: ReplicationConfig,
    assignment: LeaderAssignment,
    role: Role,
    high_watermark: Offset,
    /// What the checkpoint says of the high watermark, for when the log is open.
    checkpointed: Offset,
    parked: ParkedAcks,
    closing: bool,
    /// The log was asked to close: a clean stop vouches for its end, and nothing may come behind it.
    is_sealed: bool,
    vouched: bool,
    /// Everything below is deleted, even where the log still holds some of it: it begins with a whole batch.
    start_floor: Offset,
    /// The high watermark from before the log began anew, while the log-start checkpoint may not say so yet.
    unsettled_start: Option<Offset>,
    /// How far the log was synced when that was last told.
    synced: Offset,
    /// Which rule asked for the next move of the log start; nothing where a client did.
    start_reason: Option<StartReason>,
}

impl Partition {
    /// Makes a partition whose log is still closed.
    #[must_use]
    pub fn new(
        name: TopicPartition,
        topic_id: Uuid,
        log: Log,
        settings: Arc<TopicSettings>,
        assignment: LeaderAssignment,
        vouched: bool,
    ) -> Self {
        Self {
            vouched,
            name,
            topic_id,
            log,
            state: PartitionState::Closed,
            settings,
            config: ReplicationConfig::default(),
            assignment,
            role: Role::Idle,
            high_watermark: 0,
            checkpointed: 0,
            parked: ParkedAcks::default(),
            closing: false,
            is_sealed: false,
            start_floor: 0,
            unsettled_start: None,
            synced: 0,
            start_reason: None,
        }
    }

    /// Starts to open the log, if nobody did.
    pub fn open(&mut self, log: &mut LogContext<'_>, effects: &mut Effects) {
        if self.state == PartitionState::Closed {
            self.state = PartitionState::Opening;
            self.log.open(log);
            self.settle(log, effects);
        }
    }

    /// Takes a completion of one of the log's operations.
    pub fn on_completion(
        &mut self,
        log: &mut LogContext<'_>,
        completion: Completion,
        effects: &mut Effects,
    ) {
        self.log.on_completion(log, completion);
        self.settle(log, effects);
    }

    /// Does what the deadline was for.
    pub fn on_timeout(&mut self, log: &mut LogContext<'_>, effects: &mut Effects) {
        self.log.on_timeout(log);
        match &mut self.role {
            Role::Idle => {}
            Role::Leading(_) => self.shrink_isr(log, effects),
            Role::Following(following) => following.end_pause(log.now.instant),
        }
        self.settle(log, effects);
    }

    /// Reads from an offset below the high watermark.
    pub fn read(
        &mut self,
        log: &mut LogContext<'_>,
        request: ReadRequest,
        effects: &mut Effects,
    ) -> ReadOutcome {
        let outcome = self.log.read(log, request);
        self.settle(log, effects);
        outcome
    }

    /// Looks an offset up by time or by its role.
    pub fn look_up(
        &mut self,
        log: &mut LogContext<'_>,
        id: ReadId,
        target: LookupTarget,
        effects: &mut Effects,
    ) -> LookupOutcome {
        let outcome = self.log.lookup_time(log, id, target);
        self.settle(log, effects);
        outcome
    }

    /// Lets the log say what retention no longer covers; the answer is an effect, now or after reading timestamps.
    pub fn apply_retention(
        &mut self,
        log: &mut LogContext<'_>,
        now: Timestamp,
        effects: &mut Effects,
    ) {
        self.log.apply_retention(log, now, self.high_watermark);
        self.settle(log, effects);
    }

    /// Removes all records before an offset that is durably the log start already.
    pub fn delete_before(
        &mut self,
        log: &mut LogContext<'_>,
        offset: Offset,
        effects: &mut Effects,
    ) {
        let reason = self
            .start_reason
            .take()
            .unwrap_or(StartReason::DeleteRecords);
        self.log.delete_before(log, offset, reason);
        self.settle(log, effects);
    }

    /// Adds what must be synced for all written records to be durable.
    pub fn flush_set(&mut self, set: &mut FlushSet) -> Option<FlushMark> {
        self.log.flush_set(set)
    }

    /// Takes note of a sync that covered a flush set.
    pub fn on_flushed(&mut self, log: &mut LogContext<'_>, mark: FlushMark, effects: &mut Effects) {
        self.log.flush_done(log, mark);
        self.settle(log, effects);
    }

    /// Swaps the settings.
    ///
    /// A switch to `durable` holds at once for this copy; for the whole ISR it is in force with the next leader epoch, see
    /// [`Leadership::rule_in_force`].
    pub fn set_settings(&mut self, settings: Arc<TopicSettings>, effects: &mut Effects) {
        self.log.set_config(Arc::clone(&settings.log));
        let durable = settings.rule == FlushRule::Durable && self.settings.rule != settings.rule;
        if let (Role::Leading(leadership), FlushRule::Replicated) = (&mut self.role, settings.rule)
        {
            leadership.weaken_rule();
        }
        self.settings = settings;
        effects.dirty |= durable;
    }

    /// Takes what the controller has committed about the partition's leader and replicas. What is older than what is known,
    /// by leader epoch or partition epoch, changes nothing.
    pub fn assign(
        &mut self,
        log: &mut LogContext<'_>,
        assignment: LeaderAssignment,
        effects: &mut Effects,
    ) {
        let known = &self.assignment;
        if assignment.epoch < known.epoch || assignment.partition_epoch < known.partition_epoch {
            return;
        }
        let is_new_epoch = assignment.epoch > known.epoch;
        self.assignment = assignment;
        if is_new_epoch {
            self.drop_role(AppendFailure::NotLeader, effects);
            self.take_role(log, effects);
            if self.must_open() {
                effects.duties.push(PartitionDuty::Open);
            }
        } else if let Role::Leading(leadership) = &mut self.role {
            leadership.on_metadata(&self.assignment);
        }
        self.settle(log, effects);
    }

    /// Returns whether the log has to be opened though nobody uses it: a follower asks, and is not asked. A leader's followers and
    /// clients use its log.
    pub(super) fn must_open(&self) -> bool {
        let leader = self.assignment.leader;
        self.state == PartitionState::Closed
            && leader.is_some_and(|leader| leader != self.assignment.local)
    }

    /// Takes up the assigned role, once the log is open: also after a truncation for an earlier leader.
    fn take_role(&mut self, log: &mut LogContext<'_>, effects: &mut Effects) {
        if self.state != PartitionState::Open
            || !self.log.is_open()
            || !matches!(self.role, Role::Idle)
        {
            return;
        }
        match self.assignment.leader {
            Some(leader) if leader == self.assignment.local => self.lead(log, effects),
            Some(leader) => self.follow(log, leader, effects),
            None => {}
        }
    }

    fn drop_role(&mut self, failure: AppendFailure, effects: &mut Effects) {
        if matches!(self.role, Role::Following(_)) {
            effects.duties.push(PartitionDuty::Unfollow);
        }
        self.role = Role::Idle;
        self.log.keep_unsettled(false);
        effects.changed = true;
        self.fail_all(failure, effects);
    }

    /// Deletes the partition with all it holds.
    pub fn delete(&mut self, log: &mut LogContext<'_>, effects: &mut Effects) {
        self.drop_role(AppendFailure::Deleted, effects);
        self.state = PartitionState::Deleted;
        self.log.delete(log);
        self.settle(log, effects);
    }

    /// Writes what a clean stop needs on disk.
    pub fn close(&mut self, log: &mut LogContext<'_>, effects: &mut Effects) {
        if self.state == PartitionState::Open {
            self.closing = true;
            self.is_sealed = true;
            self.log.close(log);
            self.settle(log, effects);
        }
    }

    /// Writes index entries that wait in memory, so that the synced mark can follow the flushed records.
    pub fn write_indexes(&mut self, log: &mut LogContext<'_>, effects: &mut Effects) {
        if self.state == PartitionState::Open {
            self.log.write_indexes(log);
            effects.dirty |= self.settings.rule == FlushRule::Durable && self.log.needs_flush();
            self.settle(log, effects);
        }
    }

    /// Handles what the log has to tell until it is quiet, then counts copies anew.
    fn settle(&mut self, log: &mut LogContext<'_>, effects: &mut Effects) {
        while !log.events.is_empty() {
            for event in std::mem::take(log.events) {
                self.on_log_event(log, event, effects);
            }
        }
        match &self.role {
            Role::Idle => {}
            Role::Leading(_) => self.count(log, effects),
            Role::Following(_) => self.keep_up(log, effects),
        }
        if self.state == PartitionState::Open {
            let synced = self.synced_mark();
            let before = std::mem::replace(&mut self.synced, synced);
            effects.synced |= synced > before;
            effects.dirty |= self.log.is_emptying() && self.log.needs_flush();
        }
        effects.dirty |= self.closing && self.log.needs_flush();
    }

    fn on_log_event(&mut self, log: &mut LogContext<'_>, event: LogEvent, effects: &mut Effects) {
        match event {
            LogEvent::Opened { .. } => self.on_opened(log, effects),
            LogEvent::Written { .. } => effects.dirty |= self.settings.rule == FlushRule::Durable,
            LogEvent::AppendFailed { from, fault } => {
                let failure = match fault.kind {
                    crate::storage::FaultKind::NoSpace => AppendFailure::NoSpace,
                    _ => AppendFailure::NotWritten,
                };
                while let Some(token) = self.parked.pop_undone(from) {
                    effects.acknowledged.push((token, Err(failure)));
                }
                self.pause_following(log);
            }
            LogEvent::ReadDone { id, result } => effects.reads.push((id, result)),
            LogEvent::LookupDone { id, result } => effects.lookups.push((id, result)),
            // The log has told people already, with a notice.
            LogEvent::Offline { reason, .. } => {
                self.state = PartitionState::Offline(reason);
                self.drop_role(AppendFailure::Offline, effects);
                effects.opened = true;
            }
            LogEvent::SyncFailed { path, fault } => effects.sync_failed = Some((path, fault)),
            LogEvent::Closed => {
                self.closing = false;
                effects.closed = true;
            }
            LogEvent::Unlinked => effects.unlinked = true,
            LogEvent::Deleted => effects.gone = true,
            LogEvent::Notice(event) => {
                // A sealed segment is flushed whatever the rule, so that recovery never reads it again (as in Kafka).
                effects.dirty |= matches!(event, Event::SegmentRolled { .. });
                effects.events.push(event);
            }
            LogEvent::RetentionDue { start, reason } => {
                self.start_reason = Some(reason);
                effects.retention = Some(start.max(effects.retention.unwrap_or(start)));
            }
            LogEvent::Truncated { .. } => self.on_truncated(log, effects),
            LogEvent::StartMoved { .. } | LogEvent::EpochRecorded { .. } => {}
        }
    }

    fn on_opened(&mut self, log: &mut LogContext<'_>, effects: &mut Effects) {
        if self.state != PartitionState::Opening {
            return;
        }
        self.state = PartitionState::Open;
        effects.opened = true;
        // What the checkpoint says was committed still is, as far as the log has it.
        self.high_watermark = self
            .checkpointed
            .min(self.log.written_end())
            .max(self.log.start());
        self.take_role(log, effects);
    }

    /// Returns up to where this copy counts: below, no promise rests on it that a crash could break.
    fn counted(&self, planted: PlantedSet) -> Offset {
        match self.settings.rule {
            FlushRule::Durable if !planted.has(Planted::B33) => self.log.flushed_end(),
            FlushRule::Durable | FlushRule::Replicated => self.log.written_end(),
        }
    }

    fn move_high_watermark(&mut self, offset: Offset, effects: &mut Effects) {
        assert!(
            offset <= self.log.end(),
            "the high watermark {offset} lies past the log end {}",
            self.log.end()
        );
        if offset > self.high_watermark {
            self.high_watermark = offset;
            self.log.settle_below(offset);
            effects.moved = true;
            let partition = self.name.clone();
            effects
                .events
                .push(Event::HighWatermark { partition, offset });
        }
    }

    fn fail_all(&mut self, failure: AppendFailure, effects: &mut Effects) {
        while let Some(token) = self.parked.pop_undone(Offset::MIN) {
            effects.acknowledged.push((token, Err(failure)));
        }
    }

    /// Sets what the broker configures for replication.
    pub(super) const fn configure(&mut self, config: ReplicationConfig) {
        self.config = config;
    }

    /// Notes what the checkpoint says of the high watermark; it counts when the log opens.
    pub fn seed_high_watermark(&mut self, offset: Offset) {
        self.checkpointed = self.checkpointed.max(offset);
    }
}
