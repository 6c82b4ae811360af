//! Appending: offsets, rolls, the write, and taking back what could not be written.

use crate::{
    event::{Event, OfflineReason},
    ids::{Epoch, Offset},
    storage::{FaultKind, FileOp, FilePath, Head, OpResult, StorageFault, WriteData},
    time::Timestamp,
};

use super::{
    event::{AppendBatch, AppendError, Appended, LogContext, LogEvent},
    machine::{Log, Pending, Remover, State},
    memory_index::{IndexMark, NewBatch, relative},
    offset_index::OFFSET_ENTRY_BYTES,
    scan::{BatchFacts, HEADER_BYTES},
    segment::{FileKind, Segment},
    tail::TailBatch,
    time_index::TIME_ENTRY_BYTES,
};

/// A batch whose write was submitted and has not completed.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    seq: u64,
    base: Offset,
    next: Offset,
    segment: Offset,
    position: u32,
    size: u32,
    undo: Undo,
    is_done: bool,
}

/// What to restore in the segment when the write fails.
#[derive(Clone, Copy, Debug)]
struct Undo {
    index: IndexMark,
    first_timestamp: Option<i64>,
}

impl InFlight {
    /// Returns the base of the segment that is written to.
    pub(super) const fn segment(&self) -> Offset {
        self.segment
    }
}

impl Log {
    /// Appends a validated batch as leader: assigns its offsets and writes it.
    ///
    /// The batch counts as written with [`LogEvent::Written`], as durable when [`Log::flushed_end`] passes it.
    pub fn append(
        &mut self,
        cx: &mut LogContext<'_>,
        mut batch: AppendBatch,
        epoch: Epoch,
    ) -> Result<Appended, AppendError> {
        self.ready_to_append()?;
        if let Some(latest) = self.epochs.latest()
            && epoch < latest
        {
            return Err(AppendError::StaleEpoch {
                given: epoch,
                latest,
            });
        }
        // Base offset and leader epoch stand outside the checksum.
        batch.head[..8].copy_from_slice(&self.end.to_be_bytes());
        batch.head[12..16].copy_from_slice(&epoch.0.to_be_bytes());
        self.append_assigned(cx, batch)
    }

    /// Appends a batch that already has its offsets and epoch, as a follower does.
    pub fn append_as_is(
        &mut self,
        cx: &mut LogContext<'_>,
        batch: AppendBatch,
    ) -> Result<Appended, AppendError> {
        self.ready_to_append()?;
        let facts = BatchFacts::read(&batch.head).ok_or(AppendError::Malformed)?;
        let continues = facts.base == self.end || (self.config.compact && facts.base > self.end);
        if !continues {
            return Err(AppendError::Unordered {
                expected: self.end,
                found: facts.base,
            });
        }
        self.append_assigned(cx, batch)
    }

    /// Returns whether an append is taken now: for a while after a truncation names of removed files are not free yet.
    #[must_use]
    pub const fn is_appendable(&self) -> bool {
        matches!(self.ready_to_append(), Ok(()))
    }

    const fn ready_to_append(&self) -> Result<(), AppendError> {
        match self.state {
            State::Open if self.removals == 0 => Ok(()),
            State::Open | State::Closed | State::Opening(_) => Err(AppendError::NotOpen),
            State::Offline | State::Deleting | State::Deleted => Err(AppendError::Offline),
        }
    }

    fn append_assigned(
        &mut self,
        cx: &mut LogContext<'_>,
        batch: AppendBatch,
    ) -> Result<Appended, AppendError> {
        let facts = BatchFacts::read(&batch.head).ok_or(AppendError::Malformed)?;
        let size = usize::try_from(facts.size).map_err(|_| AppendError::Malformed)?;
        if size != HEADER_BYTES + batch.body.len() {
            return Err(AppendError::Malformed);
        }
        let head = Head::new(&batch.head).ok_or(AppendError::Malformed)?;
        let at = self.segment_for(cx, &facts).ok_or(AppendError::Malformed)?;
        if self.epochs.assign(facts.epoch, facts.base) {
            self.write_epochs(cx);
        }
        let data = WriteData {
            head,
            body: batch.body,
        };
        self.submit_batch(cx, at, &facts, data);
        Ok(Appended {
            base_offset: facts.base,
            last_offset: facts.last,
            log_append_time: facts
                .log_append_time
                .then(|| Timestamp::from_millis(facts.max_timestamp)),
            log_start: self.start,
        })
    }

    fn submit_batch(
        &mut self,
        cx: &mut LogContext<'_>,
        at: usize,
        facts: &BatchFacts,
        data: WriteData,
    ) {
        let interval = self.config.index_interval_bytes;
        let segment = &mut self.segments[at];
        let Some(file) = segment.log.id else {
            return;
        };
        let position = segment.size;
        if self.kept.is_wanted() {
            let span = (facts.base, facts.next());
            self.kept
                .push(span, data.head.as_slice(), data.body.clone());
        }
        let id = cx.storage.submit(
            self.owner,
            FileOp::Write {
                file,
                at: u64::from(position),
                data,
            },
        );
        segment.size = position.saturating_add(facts.size);
        let first_timestamp = segment.first_timestamp;
        if position == 0 {
            segment.first_timestamp = Some(facts.max_timestamp);
        }
        let base = segment.base;
        let Some(index) = segment.memory_mut() else {
            return;
        };
        let mark = index.mark();
        index.on_batch(
            NewBatch {
                last: facts.last,
                position,
                size: facts.size,
                max_timestamp: facts.max_timestamp,
            },
            interval,
        );
        self.in_flight.push_back(InFlight {
            seq: id.seq,
            base: facts.base,
            next: facts.next(),
            segment: base,
            position,
            size: facts.size,
            undo: Undo {
                index: mark,
                first_timestamp,
            },
            is_done: false,
        });
        self.tail.push(TailBatch {
            base: facts.base,
            next: facts.next(),
            segment: base,
            position,
            size: facts.size,
        });
        self.end = facts.next();
        self.write_index_chunk(cx, at);
    }

    /// Returns the place of the segment that takes the batch, rolled first where Kafka would.
    fn segment_for(&mut self, cx: &mut LogContext<'_>, facts: &BatchFacts) -> Option<usize> {
        let last = self.segments.len().checked_sub(1);
        match last {
            Some(at) if !self.should_roll(cx, at, facts) => {
                if self.segments[at].log.id.is_none() {
                    if self.segments[at].size == 0 {
                        self.create_files(cx, at);
                    } else {
                        self.ensure_open(cx.storage, at, FileKind::Log);
                    }
                }
                Some(at)
            }
            Some(at) => {
                self.seal(cx, at);
                Some(self.create_segment(cx, facts.base))
            }
            None => Some(self.create_segment(cx, facts.base)),
        }
    }

    /// Decides as `LogSegment.shouldRoll` does. An empty segment is never rolled: the new one would have its name.
    fn should_roll(&self, cx: &LogContext<'_>, at: usize, facts: &BatchFacts) -> bool {
        let segment = &self.segments[at];
        if segment.size == 0 {
            return false;
        }
        let config = &self.config;
        let is_full = u64::from(segment.size) + u64::from(facts.size)
            > u64::from(config.segment_bytes)
            || segment.size.checked_add(facts.size).is_none();
        let jitter = jitter(&self.partition, segment.base, config.segment_jitter_ms);
        let waited = match segment.first_timestamp {
            Some(first) if first >= 0 => facts.max_timestamp.saturating_sub(first),
            Some(_) | None => (cx.now.wall.as_millis()).saturating_sub(segment.created.as_millis()),
        };
        let is_old = waited > config.segment_ms.saturating_sub(jitter);
        let index_is_full = segment.memory().is_none_or(|index| {
            let max = |entry: usize| {
                usize::try_from(config.segment_index_bytes).unwrap_or(usize::MAX) / entry
            };
            // The last slot of the time index is kept for the entry written at the roll.
            index.offsets().len() >= max(OFFSET_ENTRY_BYTES)
                || index.times().len() + 1 >= max(TIME_ENTRY_BYTES)
        });
        is_full || is_old || index_is_full || relative(segment.base, facts.last).is_none()
    }

    /// Ends a segment's growth: its largest timestamp goes into the time index.
    pub(super) fn seal(&mut self, cx: &mut LogContext<'_>, at: usize) {
        if let Some(index) = self.segments[at].memory_mut() {
            index.finish();
        }
        self.write_times(cx, at);
    }

    /// Begins a new segment after the others and returns its place.
    pub(super) fn create_segment(&mut self, cx: &mut LogContext<'_>, base: Offset) -> usize {
        self.segments.push(Segment::new(base, cx.now.wall));
        let at = self.segments.len() - 1;
        self.create_files(cx, at);
        if at > 0 {
            cx.events.push(LogEvent::Notice(Event::SegmentRolled {
                partition: self.partition.clone(),
                base,
            }));
        }
        at
    }

    fn create_files(&mut self, cx: &mut LogContext<'_>, at: usize) {
        let base = self.segments[at].base;
        for kind in FileKind::ALL {
            if self.segments[at].handle(kind).id.is_some() {
                continue;
            }
            let file = cx.storage.new_file();
            let path = self.segments[at].path(&self.dir, kind);
            self.segments[at].handle_mut(kind).id = Some(file);
            let open = FileOp::Open {
                file,
                path: path.clone(),
                create: true,
            };
            let pending = Pending::Opened {
                segment: base,
                kind,
                create: true,
            };
            self.submit(cx.storage, open, pending);
            // Whatever stood under this name is not part of the log. When the opening fails this fails too, and the
            // write behind it tells.
            let cut = FileOp::Truncate { file, len: 0 };
            self.submit(cx.storage, cut, Pending::Ignored);
        }
    }

    /// Finds a batch's write by its operation; nearly always the oldest one.
    pub(super) fn find_write(&self, seq: u64) -> Option<usize> {
        if self.in_flight.front().is_some_and(|write| write.seq == seq) {
            return Some(0);
        }
        self.in_flight
            .binary_search_by_key(&seq, |write| write.seq)
            .ok()
    }

    pub(super) fn on_written(
        &mut self,
        cx: &mut LogContext<'_>,
        at: usize,
        result: Result<OpResult, StorageFault>,
    ) {
        if let Err(fault) = result {
            self.undo(cx, at, fault);
            return;
        }
        self.in_flight[at].is_done = true;
        let mut moved = false;
        // Files complete in their own order; the written end moves only over what has no gap.
        while let Some(write) = self.in_flight.front().copied()
            && write.is_done
        {
            self.in_flight.pop_front();
            self.written_end = write.next;
            if let Some(segment) = self.segment_at(write.segment) {
                segment.written = write.position.saturating_add(write.size);
            }
            moved = true;
        }
        if moved {
            cx.events.push(LogEvent::Written {
                end: self.written_end,
            });
        }
    }

    /// Finds the oldest write in flight to a segment.
    pub(super) fn first_write_to(&self, segment: Offset) -> Option<usize> {
        self.in_flight
            .iter()
            .position(|write| write.segment == segment)
    }

    /// Takes back the batch whose write failed and all behind it: no gap may stay between records.
    pub(super) fn undo(&mut self, cx: &mut LogContext<'_>, at: usize, fault: StorageFault) {
        let failed = self.in_flight[at];
        self.in_flight.truncate(at);
        while self
            .segments
            .last()
            .is_some_and(|segment| segment.base > failed.segment)
        {
            if let Some(segment) = self.segments.pop() {
                self.discard(cx, &segment);
            }
        }
        self.end = failed.base;
        self.tail.truncate(failed.base);
        self.kept.truncate(failed.base);
        self.known.retain(|(offset, ..)| *offset <= failed.base);
        self.flush.truncated();
        // The entry of the current leadership may stand at the end; what was assigned past it goes.
        if self.epochs.truncate_from_end(failed.base.saturating_add(1)) {
            self.write_epochs(cx);
        }
        let path = self.restore_segment(cx, &failed);
        cx.events.push(LogEvent::AppendFailed {
            from: failed.base,
            fault,
        });
        match fault.kind {
            FaultKind::NoSpace => {}
            FaultKind::NotFound | FaultKind::Denied | FaultKind::Io => {
                self.go_offline(
                    cx,
                    path,
                    Some(u64::from(failed.position)),
                    OfflineReason::Fault(fault),
                );
            }
        }
    }

    /// Cuts the segment back to before the failed batch, in memory and in its files.
    fn restore_segment(&mut self, cx: &mut LogContext<'_>, failed: &InFlight) -> FilePath {
        let dir = self.dir.clone();
        let Some(segment) = self.segment_at(failed.segment) else {
            return dir;
        };
        segment.size = failed.position;
        segment.written = segment.written.min(failed.position);
        segment.in_hand.cut(failed.position);
        segment.first_timestamp = failed.undo.first_timestamp;
        let (offsets, times) = segment
            .memory_mut()
            .map_or((None, None), |index| index.restore(failed.undo.index));
        let path = segment.path(&dir, FileKind::Log);
        let cuts = [
            (FileKind::Log, Some(u64::from(failed.position))),
            (FileKind::OffsetIndex, offsets),
            (FileKind::TimeIndex, times),
        ];
        let mut ops = Vec::new();
        for (kind, len) in cuts {
            let Some(len) = len else { continue };
            let cut_path = segment.path(&dir, kind);
            let handle = segment.handle_mut(kind);
            handle.bump();
            let (generation, file) = (handle.generation.0, handle.id);
            let Some(file) = file else { continue };
            if let Some(index) = segment.memory_mut() {
                index.cut_submitted(kind, generation);
            }
            let pending = Pending::Cut {
                path: cut_path,
                segment: failed.segment,
                kind,
                generation,
            };
            ops.push((FileOp::Truncate { file, len }, pending));
        }
        for (op, pending) in ops {
            self.submit(cx.storage, op, pending);
        }
        path
    }

    /// Removes the files of a segment that is no longer part of the log.
    pub(super) fn discard(&mut self, cx: &mut LogContext<'_>, segment: &Segment) {
        for kind in FileKind::ALL {
            if let Some(file) = segment.handle(kind).id {
                self.close_file(cx, file);
            }
            self.removals += 1;
            self.remove_file(cx, segment, kind, Remover::Undo);
        }
    }

    pub(super) fn on_removed(
        &mut self,
        cx: &mut LogContext<'_>,
        path: FilePath,
        result: Result<OpResult, StorageFault>,
    ) {
        self.removals = self.removals.saturating_sub(1);
        match result {
            Ok(_) => self.flush.dir_changed(),
            Err(fault) if fault.kind == FaultKind::NotFound => self.settle_emptied(),
            Err(fault) => self.go_offline(cx, path, None, OfflineReason::Fault(fault)),
        }
    }
}

/// Spreads the rolls of segments over time, the same way on every run.
fn jitter(partition: &crate::ids::TopicPartition, base: Offset, jitter_ms: i64) -> i64 {
    if jitter_ms <= 0 {
        return 0;
    }
    let mut hash = super::probe::Fnv::default();
    hash.add(partition.topic.as_str().as_bytes());
    hash.add(&partition.partition.to_be_bytes());
    hash.add(&base.to_be_bytes());
    let range = u64::try_from(jitter_ms).unwrap_or(1);
    i64::try_from(hash.finish() % range).unwrap_or(0)
}
