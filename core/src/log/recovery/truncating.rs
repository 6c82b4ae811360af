//! Truncating an open log: the steps of a recovery that ends at an offset.

use crate::{
    ids::Offset,
    log::{
        event::{LogContext, LogEvent, ReadError},
        machine::{Log, State},
    },
};

use super::{Recovery, Step};

impl Log {
    /// Removes every batch that reaches `offset` or beyond; [`LogEvent::Truncated`] says when it is done.
    ///
    /// The host must first have made durable a recovery-point checkpoint and a synced mark of at most the new end, which is
    /// `offset` when a batch begins there: a crash in the middle leaves a log of which only what lies below is certain.
    pub fn truncate_to(&mut self, cx: &mut LogContext<'_>, offset: Offset) {
        if !matches!(self.state, State::Open) {
            return;
        }
        if offset < self.start {
            self.truncate_fully_and_start_at(cx, offset);
            return;
        }
        self.flush.truncated();
        // Entries of epochs that stayed empty go even when no record does.
        if self.epochs.truncate_from_end(offset) {
            self.write_epochs(cx);
        }
        if offset >= self.end {
            cx.events.push(LogEvent::Truncated { end: self.end });
            return;
        }
        let oldest_write = self.in_flight.front().map(|write| write.segment());
        self.stop_work(cx, offset);
        // Nothing is promised past the offset from now on; the exact end follows.
        self.hint.recovery_point = self.hint.recovery_point.min(offset);
        self.hint.synced = self.hint.synced.min(offset);
        self.end = self.end.min(offset);
        self.written_end = self.written_end.min(offset);
        self.flushed_end = self.flushed_end.min(offset);
        let mut recovery = Box::new(Recovery::new(
            Step::Tail,
            self.flushed_end,
            self.flushed_end,
        ));
        recovery.stop_at = Some(offset);
        recovery.recovered = true;
        // Removed before the folder is synced: a segment that came back would stand where others count on its name.
        while self.segments.len() > 1
            && let Some(segment) = self.segments.pop_if(|last| last.base >= offset)
        {
            self.drop_segment(cx, &mut recovery, &segment);
        }
        recovery.at = self.segments.len().saturating_sub(1);
        // What was still being written is read too: only what is there counts.
        if let Some(at) = oldest_write.and_then(|base| self.segment_index(base)) {
            recovery.at = recovery.at.min(at);
        }
        recovery.first = recovery.at;
        recovery.epoch_table = Some(self.epochs.clone());
        self.load_tail(cx, &mut recovery);
        self.settle(cx, recovery);
    }

    /// Removes everything; the log is empty and begins at `offset`.
    ///
    /// The host must first have made durable a recovery-point checkpoint and a synced mark of at most `offset`, and of at most
    /// the old log start: a crash in the middle may leave any part of the old records.
    pub fn truncate_fully_and_start_at(&mut self, cx: &mut LogContext<'_>, offset: Offset) {
        if !matches!(self.state, State::Open) {
            return;
        }
        self.flush.truncated();
        self.stop_work(cx, offset);
        let kept = self.emptied.unwrap_or(offset).min(self.start);
        self.emptied = Some(kept.min(offset));
        for segment in std::mem::take(&mut self.segments) {
            self.discard(cx, &segment);
        }
        self.tail.clear();
        self.kept.clear();
        self.known.clear();
        self.epochs.clear();
        self.write_epochs(cx);
        self.start = offset;
        self.end = offset;
        self.written_end = offset;
        self.flushed_end = offset;
        self.hint.recovery_point = offset;
        self.hint.synced = offset;
        self.settle_emptied();
        cx.events.push(LogEvent::Truncated { end: offset });
    }

    /// Lets go of writes and reads that a truncation to `offset` makes void.
    fn stop_work(&mut self, cx: &mut LogContext<'_>, offset: Offset) {
        // Operations of one file keep their order: what follows sees the writes in flight done, or failed.
        self.in_flight.clear();
        self.tail.truncate(offset);
        self.kept.truncate(offset);
        self.known.retain(|(known, ..)| *known <= offset);
        self.fail_jobs(cx, ReadError::NotOpen);
        self.retention = None;
    }
}
