//! The indexes of a segment that is still growing, or whose index files are not durable yet.
//!
//! Entries are decided batch by batch exactly as Kafka decides them, kept in memory, and written to the files in chunks.
//! **The offset index on disk never runs ahead of the time index**: an offset entry is written only after the time
//! entries of its moment are durable. So whoever finds an offset entry after a power loss may believe the time index up
//! to it, and recovery need not read what lies below.

use bytes::Bytes;

use crate::ids::Offset;

use super::{
    index_progress::Progress,
    offset_index::{OFFSET_ENTRY_BYTES, OffsetEntry},
    segment::FileKind,
    time_index::{TIME_ENTRY_BYTES, TimeEntry},
};

/// The largest timestamp of a segment and the last offset of the batch that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MaxTimestamp {
    /// The timestamp, -1 for none.
    pub(super) timestamp: i64,
    /// The offset.
    pub(super) offset: Offset,
}

/// What an append changed, so that a failed write can be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexMark {
    offsets: usize,
    times: usize,
    bytes_since: u64,
    max: MaxTimestamp,
}

/// Both indexes of one segment.
#[derive(Clone, Debug)]
pub(super) struct MemoryIndex {
    base: Offset,
    offsets: Vec<OffsetEntry>,
    times: Vec<TimeEntry>,
    /// Bytes since the batch of the last entry began, that batch included.
    bytes_since: u64,
    max: MaxTimestamp,
    pub(super) offset_file: Progress,
    pub(super) time_file: Progress,
    /// Offset entries whose time entries are covered by `time_file.submitted`, `.written` and `.durable`.
    covered: Progress,
}

impl MemoryIndex {
    /// Makes empty indexes for a segment.
    pub(super) const fn new(base: Offset) -> Self {
        Self {
            base,
            offsets: Vec::new(),
            times: Vec::new(),
            bytes_since: 0,
            max: MaxTimestamp {
                timestamp: -1,
                offset: base,
            },
            offset_file: Progress::NONE,
            time_file: Progress::NONE,
            covered: Progress::NONE,
        }
    }

    /// Takes over entries that stand, durable, at the front of the files.
    ///
    /// `bytes_since` is the distance from the last entry's batch to the end of what the entries describe.
    pub(super) fn resume(
        base: Offset,
        offsets: Vec<OffsetEntry>,
        times: Vec<TimeEntry>,
        bytes_since: u64,
    ) -> Self {
        let mut index = Self::new(base);
        if let Some(last) = times.last() {
            index.max = MaxTimestamp {
                timestamp: last.timestamp,
                offset: last.offset(base),
            };
        }
        index.offset_file = Progress::all(offsets.len());
        index.covered = Progress::all(offsets.len());
        index.time_file = Progress::all(times.len());
        index.bytes_since = bytes_since;
        index.offsets = offsets;
        index.times = times;
        index
    }

    /// Notes a batch about to stand at `position`. As in Kafka, an entry is added once more than `interval` bytes have
    /// passed since the batch of the last one began.
    pub(super) fn on_batch(&mut self, batch: NewBatch, interval: u32) {
        if batch.max_timestamp > self.max.timestamp {
            self.max = MaxTimestamp {
                timestamp: batch.max_timestamp,
                offset: batch.last,
            };
        }
        if self.bytes_since > u64::from(interval)
            && let Some(relative) = self.relative(batch.last)
        {
            self.offsets.push(OffsetEntry {
                relative,
                position: batch.position,
            });
            self.push_time();
            self.bytes_since = 0;
        }
        self.bytes_since += u64::from(batch.size);
    }

    /// Adds the largest timestamp, as Kafka does when a segment is rolled or closed.
    pub(super) fn finish(&mut self) {
        self.push_time();
    }

    /// Returns what to restore when the batch about to be noted cannot be written.
    pub(super) const fn mark(&self) -> IndexMark {
        IndexMark {
            offsets: self.offsets.len(),
            times: self.times.len(),
            bytes_since: self.bytes_since,
            max: self.max,
        }
    }

    /// Takes everything back since `mark`. Returns the lengths to which the offset and the time file must be cut.
    pub(super) fn restore(&mut self, mark: IndexMark) -> (Option<u64>, Option<u64>) {
        self.offsets.truncate(mark.offsets);
        self.times.truncate(mark.times);
        self.bytes_since = mark.bytes_since;
        self.max = mark.max;
        self.covered.shorten(mark.offsets);
        let offset_cut = self.offset_file.shorten(mark.offsets);
        let time_cut = self.time_file.shorten(mark.times);
        (
            offset_cut.then(|| bytes_of(self.offset_file.written, OFFSET_ENTRY_BYTES)),
            time_cut.then(|| bytes_of(self.time_file.written, TIME_ENTRY_BYTES)),
        )
    }

    /// Keeps the entries of batches that end below `end`, and forgets what came after the last of them: the batches from
    /// there on must be noted again. Returns that entry's position and last offset.
    pub(super) fn truncate_to(&mut self, end: Offset) -> Option<(u32, Offset)> {
        let base = self.base;
        let offsets = self
            .offsets
            .partition_point(|entry| entry.offset(base) < end);
        let last = offsets.checked_sub(1).map(|at| self.offsets[at]);
        let times = self
            .times
            .partition_point(|entry| last.is_some_and(|last| entry.relative <= last.relative));
        let max = times.checked_sub(1).map(|at| self.times[at]);
        let mark = IndexMark {
            offsets,
            times,
            bytes_since: 0,
            max: MaxTimestamp {
                timestamp: max.map_or(-1, |max| max.timestamp),
                offset: max.map_or(base, |max| max.offset(base)),
            },
        };
        self.restore(mark);
        self.covered.forget_submitted();
        self.time_file.cut_to_written();
        self.offset_file.cut_to_written();
        last.map(|entry| (entry.position, entry.offset(base)))
    }

    /// Returns the lengths that the offset and the time file have when all submitted writes are done.
    pub(super) fn file_lens(&self) -> (u64, u64) {
        (
            bytes_of(self.offset_file.submitted, OFFSET_ENTRY_BYTES),
            bytes_of(self.time_file.submitted, TIME_ENTRY_BYTES),
        )
    }

    /// Returns the length of what is known to be written to one of the files.
    pub(super) fn written_len(&self, kind: FileKind) -> u64 {
        match kind {
            FileKind::OffsetIndex => bytes_of(self.offset_file.written, OFFSET_ENTRY_BYTES),
            FileKind::TimeIndex => bytes_of(self.time_file.written, TIME_ENTRY_BYTES),
            FileKind::Log => 0,
        }
    }

    /// Takes the time entries that were not written yet: position in the file and bytes.
    pub(super) fn take_times(&mut self) -> Option<(u64, Bytes)> {
        self.covered.submitted = self.offsets.len();
        let from = self.time_file.submitted;
        if from == self.times.len() {
            // Nothing to write: the offset entries are covered as far as what was written is.
            if self.time_file.written == from {
                self.covered.written = self.covered.submitted;
            }
            if self.time_file.durable == from {
                self.covered.durable = self.covered.submitted;
            }
            return None;
        }
        let mut out = Vec::with_capacity((self.times.len() - from) * TIME_ENTRY_BYTES);
        for entry in &self.times[from..] {
            entry.encode(&mut out);
        }
        self.time_file.submit(self.times.len());
        Some((bytes_of(from, TIME_ENTRY_BYTES), out.into()))
    }

    /// Takes the offset entries that may be written now.
    pub(super) fn take_offsets(&mut self) -> Option<(u64, Bytes)> {
        let from = self.offset_file.submitted;
        let to = self.covered.durable;
        if from >= to {
            return None;
        }
        let mut out = Vec::with_capacity((to - from) * OFFSET_ENTRY_BYTES);
        for entry in &self.offsets[from..to] {
            entry.encode(&mut out);
        }
        self.offset_file.submit(to);
        Some((bytes_of(from, OFFSET_ENTRY_BYTES), out.into()))
    }

    /// Notes that the time entries submitted so far are written.
    pub(super) fn times_written(&mut self, upto: usize, covered: usize) {
        self.time_file.written = self.time_file.written.max(upto);
        self.covered.written = self.covered.written.max(covered.min(self.offsets.len()));
    }

    /// Notes that offset entries are written.
    pub(super) fn offsets_written(&mut self, upto: usize) {
        self.offset_file.written = self.offset_file.written.max(upto);
    }

    /// Notes that a write failed: it will be submitted again.
    pub(super) const fn write_failed(&mut self) {
        self.time_file.forget_submitted();
        self.offset_file.forget_submitted();
        self.covered.forget_submitted();
    }

    /// Returns what a sync submitted now would make durable.
    pub(super) const fn synced_by_now(&self) -> SyncedIndex {
        SyncedIndex {
            offsets: self.offset_file.written,
            times: self.time_file.written,
            covered: self.covered.written,
            offset_cut: self.offset_file.completed_cut(),
            time_cut: self.time_file.completed_cut(),
        }
    }

    /// Notes a completed sync.
    pub(super) fn synced(&mut self, upto: SyncedIndex) {
        let times = upto.times.min(self.times.len());
        let offsets = self.offsets.len();
        self.time_file.durable = self.time_file.durable.max(times);
        self.offset_file.durable = self.offset_file.durable.max(upto.offsets.min(offsets));
        self.covered.durable = self.covered.durable.max(upto.covered.min(offsets));
        self.offset_file.cut_over(upto.offset_cut);
        self.time_file.cut_over(upto.time_cut);
    }

    /// Returns whether the time file, and whether the offset file, holds written bytes that are not durable.
    pub(super) const fn unsynced(&self) -> (bool, bool) {
        (self.time_file.is_unsynced(), self.offset_file.is_unsynced())
    }

    /// Returns whether every entry is durable in its file, and nothing else stands there.
    pub(super) const fn is_durable(&self) -> bool {
        self.offset_file.is_durable(self.offsets.len())
            && self.time_file.is_durable(self.times.len())
    }

    /// Notes that a cut of one of the files was submitted, after which the file has this generation.
    pub(super) fn cut_submitted(&mut self, kind: FileKind, generation: u32) {
        if let Some(file) = self.file_mut(kind) {
            file.cut_submitted(generation);
        }
    }

    /// Notes that a cut of one of the files completed, and those before it.
    pub(super) fn cut_completed(&mut self, kind: FileKind, generation: u32) {
        if let Some(file) = self.file_mut(kind) {
            file.cut_completed(generation);
        }
    }

    /// Notes that there was no file to cut.
    pub(super) fn cut_void(&mut self, kind: FileKind, generation: u32) {
        if let Some(file) = self.file_mut(kind) {
            file.cut_over(Some(generation));
        }
    }

    fn file_mut(&mut self, kind: FileKind) -> Option<&mut Progress> {
        match kind {
            FileKind::OffsetIndex => Some(&mut self.offset_file),
            FileKind::TimeIndex => Some(&mut self.time_file),
            FileKind::Log => None,
        }
    }

    /// Returns how many offset entries wait for their time entries to be written.
    pub(super) const fn uncovered(&self) -> usize {
        self.offsets.len() - self.covered.submitted
    }

    /// Returns how many offset entries the last submitted time entries cover.
    pub(super) const fn covered_submitted(&self) -> usize {
        self.covered.submitted
    }

    pub(super) fn offsets(&self) -> &[OffsetEntry] {
        &self.offsets
    }

    pub(super) fn times(&self) -> &[TimeEntry] {
        &self.times
    }

    pub(super) const fn max(&self) -> MaxTimestamp {
        self.max
    }

    /// Returns an offset relative to the base, where the format can hold it.
    pub(super) fn relative(&self, offset: Offset) -> Option<u32> {
        relative(self.base, offset)
    }

    fn push_time(&mut self) {
        let last = self.times.last().map_or(-1, |last| last.timestamp);
        if self.max.timestamp > last
            && let Some(relative) = relative(self.base, self.max.offset)
        {
            self.times.push(TimeEntry {
                timestamp: self.max.timestamp,
                relative,
            });
        }
    }
}

/// What a sync made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SyncedIndex {
    offsets: usize,
    times: usize,
    covered: usize,
    offset_cut: Option<u32>,
    time_cut: Option<u32>,
}

/// A batch about to be indexed.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewBatch {
    pub(super) last: Offset,
    pub(super) position: u32,
    pub(super) size: u32,
    pub(super) max_timestamp: i64,
}

/// Returns an offset relative to a base, where the format can hold it.
pub(super) fn relative(base: Offset, offset: Offset) -> Option<u32> {
    let relative = i32::try_from(offset.checked_sub(base)?).ok()?;
    u32::try_from(relative).ok()
}

fn bytes_of(entries: usize, each: usize) -> u64 {
    u64::try_from(entries * each).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(last: Offset, position: u32, max_timestamp: i64) -> NewBatch {
        NewBatch {
            last,
            position,
            size: 100,
            max_timestamp,
        }
    }

    #[test]
    fn entry_is_added_once_more_than_the_interval_has_passed() {
        let mut index = MemoryIndex::new(1000);
        index.on_batch(batch(1009, 0, 5), 100);
        index.on_batch(batch(1019, 100, 4), 100);
        assert!(
            index.offsets().is_empty(),
            "exactly the interval is not enough"
        );
        index.on_batch(batch(1029, 200, 7), 100);
        assert_eq!(index.offsets().len(), 1);
        assert_eq!(
            (index.offsets()[0].relative, index.offsets()[0].position),
            (29, 200)
        );
        assert_eq!(
            (index.times()[0].timestamp, index.times()[0].relative),
            (7, 29)
        );
    }

    #[test]
    fn offset_entries_wait_until_their_time_entries_are_durable() {
        let mut index = MemoryIndex::new(0);
        for at in 0..4_u32 {
            index.on_batch(batch(i64::from(at), at * 100, i64::from(at)), 50);
        }
        assert!(index.take_times().is_some());
        assert!(
            index.take_offsets().is_none(),
            "time entries are not written"
        );
        index.times_written(3, index.covered_submitted());
        assert!(
            index.take_offsets().is_none(),
            "time entries are not durable"
        );
        index.synced(index.synced_by_now());
        let (at, bytes) = index.take_offsets().unwrap();
        assert_eq!((at, bytes.len()), (0, 24));
    }

    #[test]
    fn restore_takes_back_entries_and_cuts_what_was_written() {
        let mut index = MemoryIndex::new(0);
        index.on_batch(batch(0, 0, 1), 50);
        index.on_batch(batch(1, 100, 2), 50);
        let mark = index.mark();
        index.on_batch(batch(2, 200, 3), 50);
        index.take_times();
        assert_eq!(
            index.restore(mark),
            (None, Some(0)),
            "nothing is known to be written"
        );
        assert_eq!(index.max().timestamp, 2);
        assert_eq!(index.times().len(), 1);
    }
}
