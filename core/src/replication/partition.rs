//! One partition on this broker: its log, its leadership, and what waits for it.

use std::sync::Arc;

use super::{
    Accepted, AckToken, Acks, Effects, LeaderAssignment, Leadership, ParkedAcks, TopicSettings,
};
use crate::{
    batch::Batch,
    event::{Event, OfflineReason, StartReason},
    ids::{Epoch, NodeId, Offset, TopicPartition, Uuid},
    log::{
        AppendBatch, AppendError, FlushMark, FlushSet, Log, LogContext, LogEvent, LookupOutcome,
        LookupTarget, ReadId, ReadOutcome, ReadRequest,
    },
    planted::Planted,
    storage::Completion,
    time::{Instant, Timestamp},
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

/// Why an append is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendRefusal {
    /// This broker does not lead the partition.
    NotLeader,
    /// Too few replicas are in sync for acks=-1.
    NotEnoughReplicas,
    /// The log is offline.
    Offline,
    /// The log itself refuses.
    Log(AppendError),
}

/// Why an accepted append failed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendFailure {
    /// The bytes could not be written; nothing of them is left.
    NotWritten,
    /// No space was left to write them; nothing of them is left.
    NoSpace,
    /// The log went offline; whether the bytes are there is unknown.
    Offline,
    /// This broker no longer leads; whether the bytes stay is for the next leader to say.
    NotLeader,
    /// The topic was deleted.
    Deleted,
}

/// One partition.
#[derive(Debug)]
pub struct Partition {
    name: TopicPartition,
    topic_id: Uuid,
    log: Log,
    state: PartitionState,
    settings: Arc<TopicSettings>,
    assignment: LeaderAssignment,
    leadership: Option<Leadership>,
    high_watermark: Offset,
    parked: ParkedAcks,
    closing: bool,
    vouched: bool,
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
            assignment,
            leadership: None,
            high_watermark: 0,
            parked: ParkedAcks::default(),
            closing: false,
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

    /// Lets the log do what its deadline was for.
    pub fn on_timeout(&mut self, log: &mut LogContext<'_>, effects: &mut Effects) {
        self.log.on_timeout(log);
        self.settle(log, effects);
    }

    /// Checks whether a client's append may be taken now.
    ///
    /// # Errors
    /// Says why not.
    pub fn check_writable(&self, acks: Acks) -> Result<(), AppendRefusal> {
        if matches!(self.state, PartitionState::Offline(_)) {
            return Err(AppendRefusal::Offline);
        }
        let leadership = self.leadership.as_ref().ok_or(AppendRefusal::NotLeader)?;
        if acks == Acks::All && !leadership.has_min_isr(self.settings.min_insync_replicas) {
            return Err(AppendRefusal::NotEnoughReplicas);
        }
        Ok(())
    }

    /// Appends a checked batch and parks its acknowledgement.
    ///
    /// # Errors
    /// Says why nothing was appended.
    pub fn append(
        &mut self,
        log: &mut LogContext<'_>,
        batch: Batch,
        acks: Acks,
        token: AckToken,
        effects: &mut Effects,
    ) -> Result<(), AppendRefusal> {
        self.check_writable(acks)?;
        let leadership = self.leadership.as_ref().ok_or(AppendRefusal::NotLeader)?;
        let header = batch.header();
        let log_append_time = match header.attributes().timestamp_type() {
            crate::batch::TimestampType::LogAppendTime => header.max_timestamp(),
            crate::batch::TimestampType::CreateTime => -1,
        };
        let (head, body) = (*batch.head(), batch.body().clone());
        let batch = AppendBatch { head, body };
        let appended = self
            .log
            .append(log, batch, leadership.epoch())
            .map_err(AppendRefusal::Log)?;
        let accepted = Accepted {
            base_offset: appended.base_offset,
            last_offset: appended.last_offset,
            log_append_time,
        };
        self.parked.park(acks, accepted, token);
        self.settle(log, effects);
        Ok(())
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
    pub fn set_settings(&mut self, settings: Arc<TopicSettings>, effects: &mut Effects) {
        self.log.set_config(Arc::clone(&settings.log));
        let durable = settings.rule == FlushRule::Durable && self.settings.rule != settings.rule;
        self.settings = settings;
        effects.dirty |= durable;
    }

    /// Takes what the controller has committed about the partition's leader and replicas.
    pub fn assign(
        &mut self,
        log: &mut LogContext<'_>,
        assignment: LeaderAssignment,
        effects: &mut Effects,
    ) {
        let is_new_epoch = assignment.epoch > self.assignment.epoch;
        self.assignment = assignment;
        if !is_new_epoch {
            return;
        }
        if self.assignment.leader == Some(self.assignment.local) {
            self.lead(log, effects);
        } else {
            self.leadership = None;
            self.fail_all(AppendFailure::NotLeader, effects);
        }
        self.settle(log, effects);
    }

    /// Begins the assigned leadership, if the log is open.
    fn lead(&mut self, log: &mut LogContext<'_>, effects: &mut Effects) {
        if self.state != PartitionState::Open {
            return;
        }
        self.log.assign_epoch(log, self.assignment.epoch);
        let leadership = Leadership::new(&self.assignment, self.log.end());
        effects.events.push(Event::BecameLeader {
            partition: self.name.clone(),
            epoch: leadership.epoch(),
            start: leadership.epoch_start(),
        });
        self.leadership = Some(leadership);
    }

    /// Deletes the partition with all it holds.
    pub fn delete(&mut self, log: &mut LogContext<'_>, effects: &mut Effects) {
        self.fail_all(AppendFailure::Deleted, effects);
        self.leadership = None;
        self.state = PartitionState::Deleted;
        self.log.delete(log);
        self.settle(log, effects);
    }

    /// Writes what a clean stop needs on disk.
    pub fn close(&mut self, log: &mut LogContext<'_>, effects: &mut Effects) {
        if self.state == PartitionState::Open {
            self.closing = true;
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
        self.count(log, effects);
        if self.state == PartitionState::Open {
            let before = std::mem::replace(&mut self.synced, self.log.flushed_end());
            effects.synced |= self.synced > before;
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
            }
            LogEvent::ReadDone { id, result } => effects.reads.push((id, result)),
            LogEvent::LookupDone { id, result } => effects.lookups.push((id, result)),
            // The log has told people already, with a notice.
            LogEvent::Offline { reason, .. } => {
                self.state = PartitionState::Offline(reason);
                self.leadership = None;
                self.fail_all(AppendFailure::Offline, effects);
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
            LogEvent::StartMoved { .. }
            | LogEvent::EpochRecorded { .. }
            | LogEvent::Truncated { .. } => {}
        }
    }

    fn on_opened(&mut self, log: &mut LogContext<'_>, effects: &mut Effects) {
        if self.state != PartitionState::Opening {
            return;
        }
        self.state = PartitionState::Open;
        effects.opened = true;
        self.high_watermark = self.log.start();
        if self.assignment.leader == Some(self.assignment.local) {
            self.lead(log, effects);
        }
    }

    /// Moves the high watermark and answers what it, or the local copy, now covers.
    fn count(&mut self, log: &LogContext<'_>, effects: &mut Effects) {
        let counted = match self.settings.rule {
            FlushRule::Durable if !log.planted.has(Planted::B33) => self.log.flushed_end(),
            FlushRule::Durable | FlushRule::Replicated => self.log.written_end(),
        };
        let Some(leadership) = &mut self.leadership else {
            return;
        };
        leadership.count_local(counted);
        if let Some(offset) = leadership.high_watermark(self.settings.min_insync_replicas) {
            assert!(
                offset <= self.log.end(),
                "the high watermark {offset} lies past the log end {}",
                self.log.end()
            );
            if offset > self.high_watermark {
                self.high_watermark = offset;
                effects.moved = true;
                let partition = self.name.clone();
                effects
                    .events
                    .push(Event::HighWatermark { partition, offset });
            }
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

    fn fail_all(&mut self, failure: AppendFailure, effects: &mut Effects) {
        while let Some(token) = self.parked.pop_undone(Offset::MIN) {
            effects.acknowledged.push((token, Err(failure)));
        }
    }

    /// Returns the partition's name.
    #[must_use]
    pub const fn name(&self) -> &TopicPartition {
        &self.name
    }

    /// Returns the topic's id.
    #[must_use]
    pub const fn topic_id(&self) -> Uuid {
        self.topic_id
    }

    /// Returns how far the partition is from being served.
    #[must_use]
    pub const fn state(&self) -> PartitionState {
        self.state
    }

    /// Returns whether a clean stop may vouch for a log that was never opened: it was found clean, or is brand new.
    #[must_use]
    pub const fn is_vouched(&self) -> bool {
        self.vouched
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &TopicSettings {
        &self.settings
    }

    /// Returns the log.
    #[must_use]
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// Returns up to where consumers may read, exclusive.
    #[must_use]
    pub const fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// Returns the epoch in which this broker leads; `None` if it does not.
    #[must_use]
    pub fn leader_epoch(&self) -> Option<Epoch> {
        self.leadership.as_ref().map(Leadership::epoch)
    }

    /// Returns the committed leader, epoch and ISR as the controller assigned them.
    #[must_use]
    pub const fn assignment(&self) -> &LeaderAssignment {
        &self.assignment
    }

    /// Returns whether a node is this partition's follower.
    #[must_use]
    pub fn is_replica(&self, node: NodeId) -> bool {
        self.assignment.replicas.contains(&node)
    }

    /// Returns when the log wants a timeout.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.log.deadline()
    }
}

/// What the answer to an accepted append says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Offset of the batch's first record.
    pub base_offset: Offset,
    /// The time the broker stamped, -1 with CreateTime.
    pub log_append_time: i64,
    /// The log start at the time of the answer.
    pub log_start: Offset,
}
