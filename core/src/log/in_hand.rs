//! Fetching what this incarnation has had in hand before: a range of the file, without reading what is in it.
//!
//! Bytes that this incarnation has written, or has read and checked once, are not checked again; where they begin and end is
//! found by the offset index and one batch header. What nobody has had in hand goes the long way; see [`super::read`].

use bytes::Bytes;

use crate::{
    ids::Offset,
    storage::{FileOp, FileRange, StorageFault},
};

use super::{
    event::{FetchSlice, LogContext, ReadRequest},
    index_search::IndexSearch,
    job::Job,
    machine::Log,
    offset_index::{OFFSET_ENTRY_BYTES, OffsetEntry},
    read::{FetchJob, Stage, decode_offsets},
    scan::{BatchFacts, HEADER_BYTES},
    segment::{FileKind, Indexes},
};

/// Which bytes of a segment this incarnation has had in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InHand {
    /// From here on to the end it has written them.
    written_from: u32,
    /// One stretch that it has read and checked.
    checked: (u32, u32),
}

impl InHand {
    /// A segment that is created now.
    pub(super) const fn of_new() -> Self {
        Self {
            written_from: 0,
            checked: (0, 0),
        }
    }

    /// A segment that was found on disk.
    pub(super) const fn of_found() -> Self {
        Self {
            written_from: u32::MAX,
            checked: (0, 0),
        }
    }

    /// Notes that whatever comes after `size` bytes is written by this incarnation.
    pub(super) fn goes_on(&mut self, size: u32) {
        self.written_from = self.written_from.min(size);
    }

    /// Notes a cut to `size` bytes.
    pub(super) fn cut(&mut self, size: u32) {
        self.goes_on(size);
        self.checked = (self.checked.0.min(size), self.checked.1.min(size));
    }

    /// Notes that bytes were read and their checksums fit. Of stretches apart from each other the longest is remembered.
    pub(super) fn check(&mut self, from: u32, to: u32) {
        let (known_from, known_to) = self.checked;
        let touches = from <= known_to && known_from <= to;
        if touches {
            self.checked = (from.min(known_from), to.max(known_to));
        } else if to.saturating_sub(from) > known_to.saturating_sub(known_from) {
            self.checked = (from, to);
        }
    }

    /// Returns whether all of these bytes are known.
    pub(super) const fn holds(&self, from: u32, to: u32) -> bool {
        let (known_from, known_to) = self.checked;
        let is_checked = known_from <= from && from <= known_to;
        from >= self.written_from
            || (is_checked && (to <= known_to || known_to >= self.written_from))
    }
}

/// The search for the end of a range that begins at a batch.
#[derive(Debug)]
pub(super) struct Stretch {
    /// Where the range begins.
    from: u32,
    base: Offset,
    step: Step,
}

#[derive(Debug)]
enum Step {
    /// The offset index is searched for the last batch that begins within the bytes asked for.
    Edge(IndexSearch<OffsetEntry>),
    /// The header of that batch is read: its base offset is where the next fetch goes on.
    Header(OffsetEntry),
}

impl Stretch {
    /// Returns where the range begins.
    pub(super) const fn from(&self) -> u32 {
        self.from
    }
}

impl Log {
    /// Starts to answer a fetch by a range, where its first batch begins at `from` and all that may be sent was in hand before.
    /// Gives the job back where it has to read.
    pub(super) fn begin_stretch(
        &mut self,
        cx: &mut LogContext<'_>,
        id: u64,
        job: FetchJob,
        from: u32,
    ) -> Option<FetchJob> {
        let Some(at) = self.segment_index(job.segment) else {
            return Some(job);
        };
        let segment_end = self.segment_end(at);
        let segment = &self.segments[at];
        let to_max = from.saturating_add(job.request.max_bytes);
        if !segment.in_hand.holds(from, to_max.min(segment.written)) {
            return Some(job);
        }
        let is_whole = segment.written == segment.size && to_max >= segment.written;
        if is_whole && segment_end <= job.request.range_limit() && segment.written > from {
            let to = segment.written;
            return self.end_stretch(cx, job, from, (to, segment_end));
        }
        let base = segment.base;
        let step = match &segment.indexes {
            Indexes::Memory(index) => {
                let fits = |entry: &OffsetEntry| entry.position <= to_max;
                let after = index.offsets().partition_point(fits);
                match after.checked_sub(1).map(|at| index.offsets()[at]) {
                    Some(entry) => Step::Header(entry),
                    None => return Some(job),
                }
            }
            Indexes::Files { offsets, .. } => {
                Step::Edge(IndexSearch::new(i64::from(to_max), *offsets))
            }
            Indexes::Broken => return Some(job),
        };
        self.step_stretch(cx, id, job, Stretch { from, base, step })
    }

    fn step_stretch(
        &mut self,
        cx: &mut LogContext<'_>,
        id: u64,
        mut job: FetchJob,
        mut stretch: Stretch,
    ) -> Option<FetchJob> {
        if let Step::Edge(search) = &stretch.step {
            let kind = (FileKind::OffsetIndex, OFFSET_ENTRY_BYTES);
            if let Some(op) = self.index_read(cx, stretch.base, kind, search) {
                job.stage = Stage::Stretch(stretch);
                self.wait_for(cx, id, Job::Fetch(job), op);
                return None;
            }
            let Some(entry) = search.floor() else {
                return Some(job);
            };
            stretch.step = Step::Header(entry);
        }
        if let Step::Header(entry) = stretch.step
            && entry.position > stretch.from
            && let Some(at) = self.segment_index(stretch.base)
            && entry.position < self.segments[at].written
            && let Some(file) = self.ensure_open(cx.storage, at, FileKind::Log)
        {
            let op = FileOp::Read {
                file,
                at: u64::from(entry.position),
                len: u32::try_from(HEADER_BYTES).unwrap_or(u32::MAX),
            };
            job.stage = Stage::Stretch(stretch);
            self.wait_for(cx, id, Job::Fetch(job), op);
            return None;
        }
        // One batch is larger than what was asked for, or nothing is known of where others begin.
        Some(job)
    }

    /// Takes what was read; gives the job back where it has to go the long way.
    pub(super) fn on_stretch(
        &mut self,
        cx: &mut LogContext<'_>,
        id: u64,
        job: FetchJob,
        mut stretch: Stretch,
        result: Result<Bytes, StorageFault>,
    ) -> Option<FetchJob> {
        let Ok(bytes) = result else {
            return Some(job);
        };
        match &mut stretch.step {
            Step::Edge(search) => {
                let fits = decode_offsets(&bytes)
                    .is_some_and(|entries| search.feed(&entries, |entry| entry.position.into()));
                if fits {
                    self.step_stretch(cx, id, job, stretch)
                } else {
                    Some(job)
                }
            }
            Step::Header(entry) => {
                let facts = BatchFacts::read(&bytes)
                    .filter(|facts| facts.last == entry.offset(stretch.base))
                    .filter(|facts| facts.base > job.request.offset)
                    .filter(|facts| facts.base <= job.request.range_limit());
                let Some(facts) = facts else {
                    return Some(job);
                };
                let edge = (entry.position, facts.base);
                self.end_stretch(cx, job, stretch.from, edge)
            }
        }
    }

    fn end_stretch(
        &mut self,
        cx: &mut LogContext<'_>,
        job: FetchJob,
        from: u32,
        (to, next): (u32, Offset),
    ) -> Option<FetchJob> {
        let ReadRequest { id, offset, .. } = job.request;
        let Some(at) = self.segment_index(job.segment) else {
            return Some(job);
        };
        let Some(file) = self.ensure_open(cx.storage, at, FileKind::Log) else {
            return Some(job);
        };
        let range = FileRange {
            file,
            generation: self.segments[at].log.generation,
            at: u64::from(from),
            len: to.saturating_sub(from),
        };
        self.remember(next, job.segment, to);
        self.fetched(cx, id, FetchSlice::ranged(offset, next, range));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_after_the_opening_is_in_hand_and_what_was_found_is_not() {
        let mut found = InHand::of_found();
        assert!(!found.holds(0, 10));
        found.goes_on(100);
        assert!(found.holds(100, 200));
        assert!(!found.holds(99, 200));
        assert!(InHand::of_new().holds(0, 200));
    }

    #[test]
    fn checked_bytes_grow_together_and_reach_what_was_written() {
        let mut found = InHand::of_found();
        found.goes_on(100);
        found.check(40, 60);
        assert!(found.holds(40, 60) && !found.holds(40, 61) && !found.holds(39, 41));
        found.check(60, 80);
        found.check(10, 20);
        assert!(found.holds(40, 80) && !found.holds(10, 20));
        found.check(80, 100);
        assert!(found.holds(40, 500));
    }

    #[test]
    fn cut_voids_what_lay_behind_it() {
        let mut found = InHand::of_found();
        found.goes_on(100);
        found.check(0, 100);
        found.cut(50);
        assert!(found.holds(0, 70), "what follows is written anew");
        let mut apart = InHand::of_found();
        apart.check(60, 90);
        apart.cut(50);
        assert!(!apart.holds(40, 60));
    }
}
