//! Finding offsets by time (Kafka's `offsetsForTimes`): segments by their largest timestamp, then the time index, then
//! the batches, then the records of one batch.

use bytes::Bytes;

use crate::{
    batch::{Records, TimestampOffset, first_at_or_after, max_timestamp},
    event::OfflineReason,
    ids::{Epoch, Offset},
    storage::{FileOp, StorageFault},
};

use super::{
    event::{FoundOffset, LogContext, LogEvent, LookupOutcome, LookupTarget, ReadError, ReadId},
    index_search::IndexSearch,
    job::Job,
    machine::{Log, State},
    memory_index::MaxTimestamp,
    offset_index::{OFFSET_ENTRY_BYTES, OffsetEntry},
    read::{Cursor, Seek, Walk, WalkEnd, feed_offsets},
    scan::{BatchFacts, crc_fits},
    segment::{FileKind, Indexes},
    time_index::{TIME_ENTRY_BYTES, TimeEntry},
};

/// How much is read at once while looking for a batch.
const CHUNK_BYTES: u32 = 256 << 10;
/// The most that the records of one batch may unpack to.
const RECORDS_BYTES_MAX: usize = 256 << 20;

/// A look-up in progress.
#[derive(Debug)]
pub(super) struct LookupJob {
    pub(super) id: ReadId,
    target: Target,
    /// Base of the segment being looked at; segments before it are ruled out.
    segment: Offset,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Max,
    Time(i64),
}

#[derive(Debug)]
enum Stage {
    /// Segments are compared by their largest timestamps.
    Choose,
    /// The last entry of the time index is read.
    LoadMax,
    /// The time index is searched.
    Time(IndexSearch<TimeEntry>),
    /// The offset index is searched.
    Position(IndexSearch<OffsetEntry>),
    /// Batches are read.
    Data(Cursor, u32),
    /// The indexes are being built again.
    Rebuild,
}

impl LookupJob {
    pub(super) fn waits_for(&self, base: Offset) -> bool {
        self.segment == base && matches!(self.stage, Stage::Rebuild)
    }
}

impl Log {
    /// Looks an offset up by time. Records below the log start are never found.
    pub fn lookup_time(
        &mut self,
        cx: &mut LogContext<'_>,
        id: ReadId,
        target: LookupTarget,
    ) -> LookupOutcome {
        match self.state {
            State::Open => {}
            State::Closed | State::Opening(_) => return LookupOutcome::Failed(ReadError::NotOpen),
            State::Offline | State::Deleting | State::Deleted => {
                return LookupOutcome::Failed(ReadError::Offline);
            }
        }
        let edge = |offset, epoch| {
            LookupOutcome::Ready(Some(FoundOffset {
                offset,
                timestamp: -1,
                epoch,
            }))
        };
        let target = match target {
            LookupTarget::Earliest => {
                let earliest = self.epochs.earliest();
                let epoch = earliest.filter(|(_, start)| *start <= self.start);
                return edge(self.start, epoch.map(|(epoch, _)| epoch));
            }
            LookupTarget::Latest => return edge(self.end, self.epochs.latest()),
            LookupTarget::MaxTimestamp => Target::Max,
            LookupTarget::Timestamp(time) => Target::Time(time),
        };
        let Some(first) = self.segments.first() else {
            return LookupOutcome::Ready(None);
        };
        let job = LookupJob {
            id,
            target,
            segment: first.base,
            stage: Stage::Choose,
        };
        let number = self.new_job();
        self.drive_lookup(cx, number, job);
        LookupOutcome::Pending
    }

    /// Chooses the segment to search, reading largest timestamps that are not known yet.
    pub(super) fn drive_lookup(&mut self, cx: &mut LogContext<'_>, id: u64, mut job: LookupJob) {
        job.stage = Stage::Choose;
        let mut best: Option<(Offset, MaxTimestamp)> = None;
        let first = match job.target {
            Target::Max => 0,
            Target::Time(_) => self
                .segments
                .partition_point(|segment| segment.base < job.segment),
        };
        for at in first..self.segments.len() {
            let segment = &self.segments[at];
            let base = segment.base;
            let Some(max) = segment.max_timestamp() else {
                // For the largest of all, every segment must be seen again once this one is known.
                self.load_max(cx, id, job, at);
                return;
            };
            match job.target {
                Target::Time(time) if max.timestamp >= time && segment.size > 0 => {
                    job.segment = base;
                    self.search_time(cx, id, job, at, time);
                    return;
                }
                Target::Time(_) => {}
                Target::Max => {
                    if best.is_none_or(|(_, best)| max.timestamp > best.timestamp) {
                        best = Some((base, max));
                    }
                }
            }
        }
        match best.filter(|(_, max)| max.timestamp >= 0) {
            Some((base, max)) => {
                job.segment = base;
                self.find_position(cx, id, job, max.offset);
            }
            None => self.looked_up(cx, job.id, Ok(None)),
        }
    }

    fn load_max(&mut self, cx: &mut LogContext<'_>, id: u64, mut job: LookupJob, at: usize) {
        let base = self.segments[at].base;
        if job.target != Target::Max {
            job.segment = base;
        }
        match self.max_read(cx, at) {
            Some(op) => {
                job.stage = Stage::LoadMax;
                job.segment = base;
                self.wait_for(cx, id, Job::Lookup(job), op);
            }
            None => self.wait_for_rebuild(cx, id, job, base),
        }
    }

    /// Makes the read of a segment's last time index entry; `None` when its indexes must be built first.
    pub(super) fn max_read(&mut self, cx: &mut LogContext<'_>, at: usize) -> Option<FileOp> {
        let Indexes::Files { times, .. } = self.segments[at].indexes else {
            return None;
        };
        let entry = u32::try_from(TIME_ENTRY_BYTES).ok()?;
        let last = times.checked_sub(1)?;
        let file = self.ensure_open(cx.storage, at, FileKind::TimeIndex)?;
        Some(FileOp::Read {
            file,
            at: u64::from(last) * u64::from(entry),
            len: entry,
        })
    }

    /// Takes a segment's last time index entry; false when it cannot be one.
    pub(super) fn take_max(&mut self, base: Offset, bytes: &[u8]) -> bool {
        let Ok(at) = self
            .segments
            .binary_search_by_key(&base, |segment| segment.base)
        else {
            return true;
        };
        let end = self.segment_end(at);
        let entry = TimeEntry::decode(bytes)
            .filter(|entry| entry.timestamp >= 0 && entry.offset(base) < end);
        let max = entry.map(|entry| MaxTimestamp {
            timestamp: entry.timestamp,
            offset: entry.offset(base),
        });
        self.segments[at].max = max;
        max.is_some()
    }

    fn wait_for_rebuild(
        &mut self,
        cx: &mut LogContext<'_>,
        id: u64,
        mut job: LookupJob,
        base: Offset,
    ) {
        job.stage = Stage::Rebuild;
        job.segment = base;
        self.jobs.insert(id, Job::Lookup(job));
        self.rebuild(cx, base);
    }

    fn search_time(
        &mut self,
        cx: &mut LogContext<'_>,
        id: u64,
        mut job: LookupJob,
        at: usize,
        time: i64,
    ) {
        match &self.segments[at].indexes {
            Indexes::Memory(index) => {
                let times = index.times();
                let after = times.partition_point(|entry| entry.timestamp <= time);
                let floor = after.checked_sub(1).map(|at| times[at]);
                let ceiling = times.get(after).copied();
                self.time_found(cx, id, job, time, (floor, ceiling));
            }
            Indexes::Files { times, .. } => {
                job.stage = Stage::Time(IndexSearch::new(time, *times));
                self.search_time_file(cx, id, job, time);
            }
            Indexes::Broken => {
                let base = job.segment;
                self.wait_for_rebuild(cx, id, job, base);
            }
        }
    }

    fn search_time_file(&mut self, cx: &mut LogContext<'_>, id: u64, job: LookupJob, time: i64) {
        let Stage::Time(search) = &job.stage else {
            return;
        };
        let kind = (FileKind::TimeIndex, TIME_ENTRY_BYTES);
        match self.index_read(cx, job.segment, kind, search) {
            Some(op) => self.wait_for(cx, id, Job::Lookup(job), op),
            None => {
                let found = (search.floor(), search.ceiling());
                self.time_found(cx, id, job, time, found);
            }
        }
    }

    /// No batch up to `floor`'s moment is newer than `floor`, and none up to the index entry before `ceiling`'s batch is
    /// newer than the time: so the search begins at the later of the two.
    fn time_found(
        &mut self,
        cx: &mut LogContext<'_>,
        id: u64,
        job: LookupJob,
        time: i64,
        (floor, ceiling): (Option<TimeEntry>, Option<TimeEntry>),
    ) {
        let base = job.segment;
        let is_exact = floor.is_some_and(|floor| floor.timestamp == time);
        let before = ceiling
            .filter(|_| !is_exact)
            .map_or(base, |ceiling| ceiling.offset(base).saturating_sub(1));
        let from = floor.map_or(base, |floor| floor.offset(base)).max(before);
        self.find_position(cx, id, job, from.max(self.start));
    }

    fn find_position(
        &mut self,
        cx: &mut LogContext<'_>,
        id: u64,
        mut job: LookupJob,
        from: Offset,
    ) {
        let Ok(at) = self
            .segments
            .binary_search_by_key(&job.segment, |segment| segment.base)
        else {
            return self.drive_lookup(cx, id, job);
        };
        let from = from.max(job.segment);
        match self.seek(at, from) {
            Seek::At(cursor) => self.lookup_data(cx, id, job, cursor, 0),
            Seek::Search(entries) => {
                let relative = from.saturating_sub(job.segment);
                job.stage = Stage::Position(IndexSearch::new(relative, entries));
                self.search_position(cx, id, job);
            }
            Seek::Rebuild => {
                let base = job.segment;
                self.wait_for_rebuild(cx, id, job, base);
            }
        }
    }

    fn search_position(&mut self, cx: &mut LogContext<'_>, id: u64, job: LookupJob) {
        let Stage::Position(search) = &job.stage else {
            return;
        };
        let kind = (FileKind::OffsetIndex, OFFSET_ENTRY_BYTES);
        match self.index_read(cx, job.segment, kind, search) {
            Some(op) => self.wait_for(cx, id, Job::Lookup(job), op),
            None => {
                let cursor = self.seek_found(job.segment, search.floor());
                self.lookup_data(cx, id, job, cursor, 0);
            }
        }
    }

    fn lookup_data(
        &mut self,
        cx: &mut LogContext<'_>,
        id: u64,
        mut job: LookupJob,
        mut cursor: Cursor,
        need: u32,
    ) {
        match self.data_read(cx, job.segment, &mut cursor, CHUNK_BYTES.max(need)) {
            Some(op) => {
                let generation = self
                    .segment_at(job.segment)
                    .map_or(0, |segment| segment.log.generation.0);
                job.stage = Stage::Data(cursor, generation);
                self.wait_for(cx, id, Job::Lookup(job), op);
            }
            None => self.next_segment(cx, id, job),
        }
    }

    /// Nothing in this segment: look at those after it.
    fn next_segment(&mut self, cx: &mut LogContext<'_>, id: u64, mut job: LookupJob) {
        if job.target == Target::Max {
            return self.looked_up(cx, job.id, Ok(None));
        }
        job.segment = job.segment.saturating_add(1);
        self.drive_lookup(cx, id, job);
    }

    pub(super) fn on_lookup(
        &mut self,
        cx: &mut LogContext<'_>,
        id: u64,
        mut job: LookupJob,
        result: Result<Bytes, StorageFault>,
    ) {
        let base = job.segment;
        match job.stage {
            Stage::Choose | Stage::Rebuild => self.drive_lookup(cx, id, job),
            Stage::LoadMax => {
                if !result.is_ok_and(|bytes| self.take_max(base, &bytes)) {
                    return self.wait_for_rebuild(cx, id, job, base);
                }
                self.drive_lookup(cx, id, job);
            }
            Stage::Time(ref mut search) => {
                let fits = result.is_ok_and(|bytes| feed_times(search, &bytes));
                match job.target {
                    Target::Time(time) if fits => self.search_time_file(cx, id, job, time),
                    Target::Time(_) | Target::Max => self.wait_for_rebuild(cx, id, job, base),
                }
            }
            Stage::Position(ref mut search) => {
                if result.is_ok_and(|bytes| feed_offsets(search, &bytes)) {
                    self.search_position(cx, id, job);
                } else {
                    self.wait_for_rebuild(cx, id, job, base);
                }
            }
            Stage::Data(cursor, generation) => {
                let is_same = self
                    .segment_at(base)
                    .is_some_and(|segment| segment.log.generation.0 == generation);
                match result {
                    _ if !is_same => self.drive_lookup(cx, id, job),
                    Ok(bytes) => self.on_lookup_data(cx, id, job, cursor, &bytes),
                    Err(fault) => {
                        self.jobs.insert(id, Job::Lookup(job));
                        self.unreadable(cx, base, cursor.at, fault);
                    }
                }
            }
        }
    }

    fn on_lookup_data(
        &mut self,
        cx: &mut LogContext<'_>,
        id: u64,
        job: LookupJob,
        mut cursor: Cursor,
        bytes: &Bytes,
    ) {
        let base = job.segment;
        let wanted = match job.target {
            Target::Time(time) => time,
            Target::Max => self
                .segment_at(base)
                .and_then(|segment| segment.max_timestamp())
                .map_or(i64::MAX, |max| max.timestamp),
        };
        let (start, target) = (self.start, job.target);
        let mut found = Search::None;
        let end = self.walk(base, &mut cursor, bytes, |facts, _, batch| {
            if facts.max_timestamp < wanted || (facts.last < start && target != Target::Max) {
                return Walk::On;
            }
            found = search_batch(batch, facts, target, start);
            match found {
                Search::None => Walk::On,
                Search::Found(_) | Search::Damaged | Search::Unreadable => Walk::Stop,
            }
        });
        match (found, end) {
            (Search::Found(found), _) => self.looked_up(cx, job.id, Ok(Some(found))),
            (Search::Unreadable, _) => self.looked_up(cx, job.id, Err(ReadError::Unreadable)),
            (Search::Damaged, _) => {
                self.lookup_damaged(cx, id, job, cursor.at, OfflineReason::Damaged);
            }
            (Search::None, WalkEnd::More(need)) => {
                cursor.from_index = false;
                self.lookup_data(cx, id, job, cursor, need);
            }
            (Search::None, WalkEnd::EndOfSegment) => self.next_segment(cx, id, job),
            (Search::None, WalkEnd::Short) => {
                self.lookup_damaged(cx, id, job, cursor.at, OfflineReason::Missing);
            }
            (Search::None, WalkEnd::Bad | WalkEnd::Stopped) if cursor.from_index => {
                self.wait_for_rebuild(cx, id, job, base);
            }
            (Search::None, WalkEnd::Bad | WalkEnd::Stopped) => {
                self.lookup_damaged(cx, id, job, cursor.at, OfflineReason::Damaged);
            }
        }
    }

    /// Gives the log up; the look-up ends with all others.
    fn lookup_damaged(
        &mut self,
        cx: &mut LogContext<'_>,
        id: u64,
        job: LookupJob,
        at: u32,
        reason: OfflineReason,
    ) {
        let base = job.segment;
        self.jobs.insert(id, Job::Lookup(job));
        self.damaged(cx, base, at, reason);
    }

    fn looked_up(
        &self,
        cx: &mut LogContext<'_>,
        id: ReadId,
        result: Result<Option<FoundOffset>, ReadError>,
    ) {
        cx.events.push(LogEvent::LookupDone { id, result });
    }
}

#[derive(Clone, Copy, Debug)]
enum Search {
    None,
    Found(FoundOffset),
    Damaged,
    Unreadable,
}

/// Looks at the records of one batch.
fn search_batch(batch: &[u8], facts: &BatchFacts, target: Target, start: Offset) -> Search {
    if !crc_fits(batch) {
        return Search::Damaged;
    }
    let Ok(records) = Records::open(batch, RECORDS_BYTES_MAX) else {
        return Search::Unreadable;
    };
    let found = match target {
        Target::Time(time) => first_at_or_after(&records, time, start),
        Target::Max => max_timestamp(&records),
    };
    match found {
        Ok(Some(TimestampOffset { timestamp, offset })) => Search::Found(FoundOffset {
            offset,
            timestamp,
            epoch: Some(facts.epoch).filter(|epoch| *epoch >= Epoch(0)),
        }),
        Ok(None) => Search::None,
        Err(_) => Search::Unreadable,
    }
}

fn feed_times(search: &mut IndexSearch<TimeEntry>, bytes: &[u8]) -> bool {
    let entries: Vec<TimeEntry> = bytes
        .chunks_exact(TIME_ENTRY_BYTES)
        .filter_map(TimeEntry::decode)
        .collect();
    let rising = entries
        .windows(2)
        .all(|pair| matches!(pair, [a, b] if a.relative < b.relative));
    rising && search.feed(&entries, |entry| entry.timestamp)
}
