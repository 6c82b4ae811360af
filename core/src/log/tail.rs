//! The last batches of a log, in memory: where each lies, so that reads near the end need no index and no read.

use std::collections::VecDeque;

use crate::ids::Offset;

/// How many batches are kept.
const TAIL_BATCHES_MAX: usize = 1024;

/// Where a batch lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TailBatch {
    pub(super) base: Offset,
    pub(super) next: Offset,
    pub(super) segment: Offset,
    pub(super) position: u32,
    pub(super) size: u32,
}

/// The last batches, consecutive and in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Tail {
    batches: VecDeque<TailBatch>,
}

/// A run of whole batches in one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) base: Offset,
    pub(super) next: Offset,
    pub(super) segment: Offset,
    pub(super) position: u32,
    pub(super) size: u32,
}

impl Tail {
    /// Adds the next batch.
    pub(super) fn push(&mut self, batch: TailBatch) {
        if self.batches.len() >= TAIL_BATCHES_MAX {
            self.batches.pop_front();
        }
        self.batches.push_back(batch);
    }

    /// Forgets batches that reach `end` or beyond.
    pub(super) fn truncate(&mut self, end: Offset) {
        while self.batches.back().is_some_and(|batch| batch.next > end) {
            self.batches.pop_back();
        }
    }

    /// Forgets batches of segments that begin before `segment`.
    pub(super) fn drop_before(&mut self, segment: Offset) {
        while self
            .batches
            .front()
            .is_some_and(|batch| batch.segment < segment)
        {
            self.batches.pop_front();
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.batches.clear();
    }

    /// Finds the batches from the one that holds `offset` on, up to `max_bytes` and wholly below `limit`.
    ///
    /// `None` when the batch is not here. The run is empty when its first batch is too large or not below the limit.
    pub(super) fn run(
        &self,
        offset: Offset,
        limit: Offset,
        max_bytes: u32,
        min_one_batch: bool,
    ) -> Option<Run> {
        let after = self.batches.partition_point(|batch| batch.base <= offset);
        let first_at = after.checked_sub(1)?;
        let first = self.batches.get(first_at)?;
        if first.next <= offset {
            return None;
        }
        let mut run = Run {
            base: first.base,
            next: offset,
            segment: first.segment,
            position: first.position,
            size: 0,
        };
        if first.next > limit || (first.size > max_bytes && !min_one_batch) {
            return Some(run);
        }
        let end_max = u64::from(first.position) + u64::from(max_bytes.max(first.size));
        // Positions grow within a segment and offsets everywhere, so the last batch that fits is found by bisection.
        let fits = |batch: &TailBatch| {
            batch.segment == first.segment
                && batch.next <= limit
                && u64::from(batch.position) + u64::from(batch.size) <= end_max
        };
        let last = self
            .batches
            .partition_point(|batch| batch.base <= first.base || fits(batch));
        let last = self.batches.get(last.checked_sub(1)?)?;
        run.next = last.next;
        run.size = last.position - first.position + last.size;
        Some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail() -> Tail {
        let mut tail = Tail::default();
        for at in 0..6_u32 {
            let base = 10 + i64::from(at) * 2;
            tail.push(TailBatch {
                base,
                next: base + 2,
                segment: if at < 4 { 0 } else { 18 },
                position: (at % 4) * 100,
                size: 100,
            });
        }
        tail
    }

    fn span(run: Option<Run>) -> Option<(Offset, Offset, u32, u32)> {
        run.map(|run| (run.base, run.next, run.position, run.size))
    }

    #[test]
    fn run_takes_whole_batches_within_bytes_limit_and_segment() {
        let tail = tail();
        assert_eq!(span(tail.run(13, 99, 250, true)), Some((12, 16, 100, 200)));
        assert_eq!(span(tail.run(12, 15, 999, true)), Some((12, 14, 100, 100)));
        assert_eq!(span(tail.run(14, 99, 9999, true)), Some((14, 18, 200, 200)));
        assert_eq!(span(tail.run(18, 99, 9999, true)), Some((18, 22, 0, 200)));
        assert_eq!(span(tail.run(9, 99, 100, true)), None);
        assert_eq!(span(tail.run(22, 99, 100, true)), None);
    }

    #[test]
    fn first_batch_is_whole_only_when_asked_for() {
        let tail = tail();
        assert_eq!(span(tail.run(12, 99, 10, true)), Some((12, 14, 100, 100)));
        assert_eq!(span(tail.run(12, 99, 10, false)), Some((12, 12, 100, 0)));
        assert_eq!(span(tail.run(12, 13, 999, true)), Some((12, 12, 100, 0)));
    }

    #[test]
    fn truncation_forgets_what_reaches_beyond_the_end() {
        let mut tail = tail();
        tail.truncate(14);
        assert_eq!(span(tail.run(14, 99, 100, true)), None);
        assert_eq!(span(tail.run(13, 99, 999, true)), Some((12, 14, 100, 100)));
    }
}
