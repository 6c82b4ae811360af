//! What is deleted from the front: below the log start, over `retention.bytes`, older than `retention.ms`.
//!
//! Age is judged by a segment's largest timestamp, as in Kafka. A record from the future therefore keeps its segment, and
//! those after it, until its time has come plus the retention: `message.timestamp.after.max.ms` bounds how far that can
//! be, and [`Event::FutureTimestamp`](crate::event::Event) names the offender.

use bytes::Bytes;

use crate::{
    event::{Event, StartReason},
    ids::Offset,
    storage::StorageFault,
    time::Timestamp,
};

use super::{
    event::{LogContext, LogEvent},
    job::Job,
    machine::{Log, State},
};

/// A retention run that waits for a segment's largest timestamp.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetentionRun {
    now: Timestamp,
    high_watermark: Offset,
    is_reading: bool,
}

impl Log {
    /// Moves the log start: records below `offset` are gone from now on, whole segments of them are deleted. Nothing
    /// happens when the start is already there; the caller has checked the high watermark and made the start durable.
    pub fn delete_before(&mut self, cx: &mut LogContext<'_>, offset: Offset, reason: StartReason) {
        if !matches!(self.state, State::Open) || offset <= self.start || offset > self.written_end {
            return;
        }
        self.move_start(cx, offset, reason);
        self.delete_below_start(cx);
    }

    /// Finds what retention no longer keeps, never at or past the high watermark, and says so with
    /// [`LogEvent::RetentionDue`]. May take a while when largest
    /// timestamps must be read first; a run that is under way takes over these arguments.
    pub fn apply_retention(
        &mut self,
        cx: &mut LogContext<'_>,
        now: Timestamp,
        high_watermark: Offset,
    ) {
        if !matches!(self.state, State::Open) {
            return;
        }
        let is_reading = self.retention.is_some_and(|run| run.is_reading);
        self.retention = Some(RetentionRun {
            now,
            high_watermark,
            is_reading,
        });
        if !is_reading {
            self.resume_retention(cx);
        }
    }

    /// Goes on with a retention run, if there is one.
    pub(super) fn resume_retention(&mut self, cx: &mut LogContext<'_>) {
        let Some(run) = self.retention.take() else {
            return;
        };
        self.delete_below_start(cx);
        if !self.config.delete {
            return;
        }
        self.retire_by_size(cx, run);
        self.retire_by_time(cx, run);
    }

    pub(super) fn on_retention(
        &mut self,
        cx: &mut LogContext<'_>,
        base: Offset,
        result: Result<Bytes, StorageFault>,
    ) {
        if let Some(run) = &mut self.retention {
            run.is_reading = false;
        }
        if result.is_ok_and(|bytes| self.take_max(base, &bytes)) {
            self.resume_retention(cx);
        } else {
            // Goes on once the indexes are built.
            self.rebuild(cx, base);
        }
    }

    fn delete_below_start(&mut self, cx: &mut LogContext<'_>) {
        let mut count = 0;
        while count < self.segments.len() && self.segment_end(count) <= self.start {
            count += 1;
        }
        self.delete_front(cx, count);
    }

    fn retire_by_size(&self, cx: &mut LogContext<'_>, run: RetentionRun) {
        let Ok(keep) = u64::try_from(self.config.retention_bytes) else {
            return;
        };
        let Some(mut over) = self.size_bytes().checked_sub(keep) else {
            return;
        };
        let mut count = 0;
        while let Some(segment) = self.segments.get(count)
            && self.is_deletable(count, run)
            && let Some(left) = over.checked_sub(u64::from(segment.size))
        {
            over = left;
            count += 1;
        }
        self.retire(cx, count, StartReason::RetentionSize);
    }

    fn retire_by_time(&mut self, cx: &mut LogContext<'_>, run: RetentionRun) {
        let retention = self.config.retention_ms;
        if retention < 0 {
            return;
        }
        let now = run.now.as_millis();
        let mut count = 0;
        while count < self.segments.len() && self.is_deletable(count, run) {
            let segment = &self.segments[count];
            let Some(max) = segment.max_timestamp() else {
                self.read_max(cx, count, run);
                break;
            };
            // Records without a timestamp are as old as their file, as far as this incarnation knows.
            let newest = if max.timestamp >= 0 {
                max.timestamp
            } else {
                segment.created.as_millis()
            };
            if newest > now {
                cx.events.push(LogEvent::Notice(Event::FutureTimestamp {
                    partition: self.partition.clone(),
                    offset: max.offset,
                    timestamp: newest,
                }));
            }
            if now.saturating_sub(newest) <= retention {
                break;
            }
            count += 1;
        }
        self.retire(cx, count, StartReason::RetentionTime);
    }

    fn read_max(&mut self, cx: &mut LogContext<'_>, at: usize, run: RetentionRun) {
        let base = self.segments[at].base;
        let op = self.max_read(cx, at);
        self.retention = Some(RetentionRun {
            is_reading: true,
            ..run
        });
        match op {
            Some(op) => {
                let id = self.new_job();
                self.wait_for(cx, id, Job::Retention(base), op);
            }
            None => {
                self.retention = Some(RetentionRun {
                    is_reading: false,
                    ..run
                });
                self.rebuild(cx, base);
            }
        }
    }

    /// Nothing at or past the high watermark goes, and an empty active segment stays.
    fn is_deletable(&self, at: usize, run: RetentionRun) -> bool {
        let is_last = at + 1 == self.segments.len();
        self.segment_end(at) <= run.high_watermark && !(is_last && self.segments[at].size == 0)
    }

    /// Says that the first `count` segments may go. A start that readers saw must not come back after a power loss, so
    /// the host makes it durable first.
    fn retire(&self, cx: &mut LogContext<'_>, count: usize, reason: StartReason) {
        let Some(last) = count.checked_sub(1) else {
            return;
        };
        let start = self.segment_end(last);
        if start > self.start {
            cx.events.push(LogEvent::RetentionDue { start, reason });
        }
    }
}
