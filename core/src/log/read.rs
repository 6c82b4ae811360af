//! Fetching: from the tail in memory without any read, else by an index search and one bounded read.
//!
//! What was on disk before is checked before it is served: each batch must continue the one before it, agree with the
//! epoch table, and its checksum must fit. Bytes that fail take the log offline and are never sent.

use bytes::Bytes;

use crate::{
    event::OfflineReason,
    ids::Offset,
    storage::{FaultKind, FileOp, FileRange, StorageFault},
};

use super::{
    event::{FetchSlice, LogContext, LogEvent, ReadError, ReadOutcome, ReadRequest},
    in_hand::Stretch,
    index_search::{IndexSearch, SearchStep},
    job::Job,
    machine::{Log, State},
    offset_index::{self, OFFSET_ENTRY_BYTES, OffsetEntry},
    scan::{BatchFacts, Chain, Found, look},
    segment::{FileKind, Indexes},
    slice::Taken,
};

/// The largest single read.
const READ_BYTES_MAX: u32 = 8 << 20;
/// The smallest read worth its round trip.
const READ_BYTES_MIN: u32 = 64 << 10;
/// How many positions of batches are remembered for readers that go on where they stopped.
const KNOWN_MAX: usize = 32;

/// A fetch in progress.
#[derive(Debug)]
pub(super) struct FetchJob {
    pub(super) request: ReadRequest,
    pub(super) segment: Offset,
    generation: u32,
    pub(super) stage: Stage,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// The offset index is searched.
    Search(IndexSearch<OffsetEntry>),
    /// Batches are read from `at` on.
    Data(Cursor),
    /// The end of what can be sent unread is looked for.
    Stretch(Stretch),
    /// The index is being built again.
    Rebuild,
}

/// Where a walk over batches stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    pub(super) at: u32,
    pub(super) asked: u32,
    pub(super) chain: Chain,
    /// The position came from an index file that may be wrong.
    pub(super) from_index: bool,
    /// The batch of the offset that is looked for begins here.
    pub(super) is_exact: bool,
}

/// How to find the batches of an offset.
pub(super) enum Seek {
    /// Read from here.
    At(Cursor),
    /// Search the index file, which has this many entries.
    Search(u32),
    /// The index must be built first.
    Rebuild,
}

impl FetchJob {
    pub(super) fn waits_for(&self, base: Offset) -> bool {
        self.segment == base && matches!(self.stage, Stage::Rebuild)
    }
}

impl Log {
    /// Reads whole batches from `request.offset` on, below `request.limit`.
    pub fn read(&mut self, cx: &mut LogContext<'_>, request: ReadRequest) -> ReadOutcome {
        match self.state {
            State::Open => {}
            State::Closed | State::Opening(_) => return ReadOutcome::Failed(ReadError::NotOpen),
            State::Offline | State::Deleting | State::Deleted => {
                return ReadOutcome::Failed(ReadError::Offline);
            }
        }
        if request.offset < self.start || request.offset > self.end {
            return ReadOutcome::Failed(self.out_of_range());
        }
        let request = ReadRequest {
            limit: request.limit.min(self.written_end),
            ..request
        };
        if request.offset >= request.limit {
            return ReadOutcome::Ready(FetchSlice::empty(request.offset));
        }
        let run = self.tail.run(
            request.offset,
            request.range_limit(),
            request.max_bytes,
            request.min_one_batch,
        );
        let is_settled = request.limit <= request.settled;
        if let Some(run) = run
            && (run.size > 0 || is_settled)
            && let Some(segment) = self.segment_at(run.segment)
            && let Some(file) = segment.log.id
        {
            let range = FileRange {
                file,
                generation: segment.log.generation,
                at: u64::from(run.position),
                len: run.size,
            };
            return ReadOutcome::Ready(FetchSlice::ranged(run.base, run.next, range));
        }
        if let Some(slice) = self.kept.read(&request) {
            return ReadOutcome::Ready(slice);
        }
        let id = self.new_job();
        self.begin_fetch(cx, id, request);
        ReadOutcome::Pending
    }

    pub(super) const fn out_of_range(&self) -> ReadError {
        ReadError::OutOfRange {
            start: self.start,
            end: self.end,
        }
    }

    fn begin_fetch(&mut self, cx: &mut LogContext<'_>, id: u64, request: ReadRequest) {
        if request.offset < self.start || request.offset > self.end {
            let result = Err(self.out_of_range());
            cx.events.push(LogEvent::ReadDone {
                id: request.id,
                result,
            });
            return;
        }
        let is_empty = request.offset >= request.limit.min(self.written_end);
        let Some(at) = self.segment_index(request.offset).filter(|_| !is_empty) else {
            self.fetched(cx, request.id, FetchSlice::empty(request.offset));
            return;
        };
        let segment = &self.segments[at];
        let mut job = FetchJob {
            request,
            segment: segment.base,
            generation: segment.log.generation.0,
            stage: Stage::Rebuild,
        };
        match self.seek(at, request.offset) {
            Seek::At(cursor) => {
                job.stage = Stage::Data(cursor);
                // Where the batch of the offset begins is known only to who has read up to it.
                let job = if cursor.is_exact && request.offset < request.range_limit() {
                    self.begin_stretch(cx, id, job, cursor.at)
                } else {
                    Some(job)
                };
                if let Some(job) = job {
                    self.fetch_data_from(cx, id, job, cursor);
                }
            }
            Seek::Search(entries) => {
                let relative = request.offset.saturating_sub(job.segment);
                job.stage = Stage::Search(IndexSearch::new(relative, entries));
                self.fetch_search(cx, id, job);
            }
            Seek::Rebuild => {
                let base = job.segment;
                self.jobs.insert(id, Job::Fetch(job));
                self.rebuild(cx, base);
            }
        }
    }

    /// Decides how to find the batches of `offset` in the segment at this place.
    pub(super) fn seek(&self, at: usize, offset: Offset) -> Seek {
        let segment = &self.segments[at];
        let may_skip = self.config.compact;
        let cursor = |at, chain, from_index| {
            Seek::At(Cursor {
                at,
                asked: 0,
                chain,
                from_index,
                is_exact: false,
            })
        };
        let known = self
            .known
            .iter()
            .find(|known| known.0 == offset && known.1 == segment.base);
        if let Some((_, _, position)) = known {
            return Seek::At(self.exact(offset, *position));
        }
        if offset == segment.base {
            return Seek::At(self.exact(offset, 0));
        }
        match &segment.indexes {
            Indexes::Memory(index) => {
                match offset_index::floor(index.offsets(), segment.base, offset) {
                    Some(entry) => cursor(
                        entry.position,
                        Chain::ending(entry.offset(segment.base), may_skip),
                        false,
                    ),
                    None => cursor(0, Chain::at(segment.base, may_skip), false),
                }
            }
            Indexes::Files { offsets: 0, .. } => {
                cursor(0, Chain::at(segment.base, may_skip), false)
            }
            Indexes::Files { offsets, .. } => Seek::Search(*offsets),
            Indexes::Broken => Seek::Rebuild,
        }
    }

    /// Returns the place to read from where the batch that begins with `offset` is known to lie.
    fn exact(&self, offset: Offset, at: u32) -> Cursor {
        Cursor {
            at,
            asked: 0,
            chain: Chain::at(offset, self.config.compact),
            from_index: false,
            is_exact: true,
        }
    }

    /// Turns what an index search found into a place to read from.
    pub(super) fn seek_found(&self, base: Offset, floor: Option<OffsetEntry>) -> Cursor {
        let may_skip = self.config.compact;
        let (at, chain) = match floor {
            Some(entry) => (entry.position, Chain::ending(entry.offset(base), may_skip)),
            None => (0, Chain::at(base, may_skip)),
        };
        Cursor {
            at,
            asked: 0,
            chain,
            from_index: floor.is_some(),
            is_exact: false,
        }
    }

    /// Makes the next read of an index search; `None` when it is over.
    pub(super) fn index_read<E: Copy>(
        &mut self,
        cx: &mut LogContext<'_>,
        base: Offset,
        (kind, entry_bytes): (FileKind, usize),
        search: &IndexSearch<E>,
    ) -> Option<FileOp> {
        let SearchStep::Read { first, count } = search.step() else {
            return None;
        };
        let entry_bytes = u32::try_from(entry_bytes).unwrap_or(1);
        let at = self.segment_index(base)?;
        let file = self.ensure_open(cx.storage, at, kind)?;
        Some(FileOp::Read {
            file,
            at: u64::from(first) * u64::from(entry_bytes),
            len: count.saturating_mul(entry_bytes),
        })
    }

    fn fetch_search(&mut self, cx: &mut LogContext<'_>, id: u64, mut job: FetchJob) {
        let Stage::Search(search) = &job.stage else {
            return;
        };
        let kind = (FileKind::OffsetIndex, OFFSET_ENTRY_BYTES);
        match self.index_read(cx, job.segment, kind, search) {
            Some(op) => self.wait_for(cx, id, Job::Fetch(job), op),
            None => {
                let cursor = self.seek_found(job.segment, search.floor());
                job.stage = Stage::Data(cursor);
                self.fetch_data(cx, id, job, 0);
            }
        }
    }

    fn fetch_data_from(
        &mut self,
        cx: &mut LogContext<'_>,
        id: u64,
        mut job: FetchJob,
        cursor: Cursor,
    ) {
        job.stage = Stage::Data(cursor);
        self.fetch_data(cx, id, job, 0);
    }

    fn fetch_data(&mut self, cx: &mut LogContext<'_>, id: u64, mut job: FetchJob, need: u32) {
        let want = job
            .request
            .max_bytes
            .saturating_add(self.config.index_interval_bytes.saturating_mul(2))
            .clamp(READ_BYTES_MIN, READ_BYTES_MAX)
            .max(need);
        let Stage::Data(cursor) = &mut job.stage else {
            return;
        };
        let at = cursor.at;
        let Some(op) = self.data_read(cx, job.segment, cursor, want) else {
            self.after_segment(cx, id, job, at);
            return;
        };
        self.wait_for(cx, id, Job::Fetch(job), op);
    }

    /// Makes the read of a walk over batches; `None` at the end of the segment.
    pub(super) fn data_read(
        &mut self,
        cx: &mut LogContext<'_>,
        base: Offset,
        cursor: &mut Cursor,
        want: u32,
    ) -> Option<FileOp> {
        let at = self
            .segments
            .binary_search_by_key(&base, |segment| segment.base)
            .ok()?;
        let file = self.ensure_open(cx.storage, at, FileKind::Log)?;
        let left = self.segments[at].written.checked_sub(cursor.at)?;
        cursor.asked = want.min(left);
        (left > 0).then(|| FileOp::Read {
            file,
            at: u64::from(cursor.at),
            len: cursor.asked,
        })
    }

    pub(super) fn on_fetch(
        &mut self,
        cx: &mut LogContext<'_>,
        id: u64,
        mut job: FetchJob,
        result: Result<Bytes, StorageFault>,
    ) {
        // A truncation, or the segment's deletion, voids what was planned: plan anew.
        let generation = job.generation;
        let is_same = self
            .segment_at(job.segment)
            .is_some_and(|segment| segment.log.generation.0 == generation);
        if !is_same {
            self.begin_fetch(cx, id, job.request);
            return;
        }
        match job.stage {
            Stage::Search(ref mut search) => {
                let fits = result.is_ok_and(|bytes| feed_offsets(search, &bytes));
                if fits {
                    self.fetch_search(cx, id, job);
                } else {
                    self.suspect_index(cx, id, job);
                }
            }
            Stage::Data(cursor) => match result {
                Ok(bytes) => self.on_fetched(cx, id, job, cursor, &bytes),
                Err(fault) => {
                    let base = job.segment;
                    // Put back, so that it ends with all others.
                    self.jobs.insert(id, Job::Fetch(job));
                    self.unreadable(cx, base, cursor.at, fault);
                }
            },
            Stage::Stretch(stretch) => {
                let from = stretch.from();
                job.stage = Stage::Rebuild;
                if let Some(job) = self.on_stretch(cx, id, job, stretch, result) {
                    let cursor = self.exact(job.request.offset, from);
                    self.fetch_data_from(cx, id, job, cursor);
                }
            }
            Stage::Rebuild => self.begin_fetch(cx, id, job.request),
        }
    }

    /// Says that a segment's file cannot be read, and gives the log up.
    pub(super) fn unreadable(
        &mut self,
        cx: &mut LogContext<'_>,
        base: Offset,
        at: u32,
        fault: StorageFault,
    ) {
        let reason = match fault.kind {
            FaultKind::NotFound => OfflineReason::Missing,
            FaultKind::NoSpace | FaultKind::Denied | FaultKind::Io => OfflineReason::Fault(fault),
        };
        self.damaged(cx, base, at, reason);
    }

    /// Gives the log up for what is wrong at a position of a segment.
    pub(super) fn damaged(
        &mut self,
        cx: &mut LogContext<'_>,
        base: Offset,
        at: u32,
        reason: OfflineReason,
    ) {
        let path = self
            .dir
            .join(&super::segment::file_name(base, FileKind::Log));
        self.go_offline(cx, path, Some(u64::from(at)), reason);
    }

    /// Builds the index again, then plans the fetch anew.
    fn suspect_index(&mut self, cx: &mut LogContext<'_>, id: u64, mut job: FetchJob) {
        let base = job.segment;
        job.stage = Stage::Rebuild;
        self.jobs.insert(id, Job::Fetch(job));
        self.rebuild(cx, base);
    }

    fn on_fetched(
        &mut self,
        cx: &mut LogContext<'_>,
        id: u64,
        mut job: FetchJob,
        mut cursor: Cursor,
        bytes: &Bytes,
    ) {
        let request = job.request;
        let read_from = cursor.at;
        let mut taken = Taken::new(request.offset);
        let end = self.walk(job.segment, &mut cursor, bytes, |facts, at, batch| {
            if facts.last < request.offset {
                return Walk::On;
            }
            taken.add(&request, facts, at, batch)
        });
        match end {
            _ if taken.size > 0 || taken.is_done => {
                if taken.size > 0 {
                    self.remember(taken.next, job.segment, cursor.at);
                    let from = u32::try_from(taken.from).map(|from| read_from.saturating_add(from));
                    if let (Ok(from), Some(segment)) = (from, self.segment_at(job.segment)) {
                        segment.in_hand.check(from, cursor.at);
                    }
                }
                let slice = taken.slice(bytes);
                self.fetched(cx, request.id, slice);
            }
            WalkEnd::Stopped | WalkEnd::Bad if cursor.from_index => self.suspect_index(cx, id, job),
            WalkEnd::Stopped | WalkEnd::Bad => {
                self.fetch_damaged(cx, id, job, cursor.at, OfflineReason::Damaged);
            }
            WalkEnd::Short => self.fetch_damaged(cx, id, job, cursor.at, OfflineReason::Missing),
            WalkEnd::More(need) => {
                cursor.from_index = false;
                job.stage = Stage::Data(cursor);
                self.fetch_data(cx, id, job, need);
            }
            WalkEnd::EndOfSegment => self.after_segment(cx, id, job, cursor.at),
        }
    }

    /// Gives the log up; the fetch ends with all others.
    fn fetch_damaged(
        &mut self,
        cx: &mut LogContext<'_>,
        id: u64,
        job: FetchJob,
        at: u32,
        reason: OfflineReason,
    ) {
        let base = job.segment;
        self.jobs.insert(id, Job::Fetch(job));
        self.damaged(cx, base, at, reason);
    }

    /// The segment ended before the offset: only compaction leaves such a gap.
    fn after_segment(&mut self, cx: &mut LogContext<'_>, id: u64, job: FetchJob, at: u32) {
        let next = self
            .segment_index(job.segment)
            .and_then(|at| self.segments.get(at + 1))
            .map(|segment| segment.base);
        match next {
            Some(next) if self.config.compact => {
                let request = ReadRequest {
                    offset: next,
                    ..job.request
                };
                self.begin_fetch(cx, id, request);
            }
            Some(_) | None => self.fetch_damaged(cx, id, job, at, OfflineReason::Missing),
        }
    }

    /// Walks the batches in `bytes`, which were read at the cursor, as far as `take` wants. A batch is checked fully only
    /// when `take` asks for it.
    pub(super) fn walk(
        &self,
        base: Offset,
        cursor: &mut Cursor,
        bytes: &Bytes,
        mut take: impl FnMut(&BatchFacts, usize, &[u8]) -> Walk,
    ) -> WalkEnd {
        let Some(at) = self.segment_index(base) else {
            return WalkEnd::EndOfSegment;
        };
        let written = self.segments[at].written;
        let segment_end = self.segment_end(at);
        let is_short = u32::try_from(bytes.len()) != Ok(cursor.asked);
        let mut within = 0_usize;
        loop {
            let left = written.saturating_sub(cursor.at);
            if left == 0 {
                return WalkEnd::EndOfSegment;
            }
            let rest = bytes.get(within..).unwrap_or_default();
            let facts = match look(rest, u64::from(left)) {
                Found::Batch(facts) => facts,
                Found::Cut { .. } if is_short => return WalkEnd::Short,
                Found::Cut { need } => return WalkEnd::More(need),
                Found::Bad => return WalkEnd::Bad,
            };
            let size = usize::try_from(facts.size).unwrap_or(0);
            let epoch = self.epochs.epoch_for(facts.base);
            let agrees = epoch.is_none_or(|epoch| epoch == facts.epoch);
            if !agrees || facts.next() > segment_end || !cursor.chain.accept(&facts) {
                return WalkEnd::Bad;
            }
            match take(&facts, within, &rest[..size]) {
                Walk::On => {}
                Walk::Stop => return WalkEnd::Stopped,
            }
            within += size;
            cursor.at = cursor.at.saturating_add(facts.size);
        }
    }

    pub(super) fn remember(&mut self, offset: Offset, segment: Offset, position: u32) {
        if self.known.len() >= KNOWN_MAX {
            self.known.remove(0);
        }
        self.known.push((offset, segment, position));
    }

    pub(super) fn fetched(
        &self,
        cx: &mut LogContext<'_>,
        id: super::event::ReadId,
        slice: FetchSlice,
    ) {
        cx.events.push(LogEvent::ReadDone {
            id,
            result: Ok(slice),
        });
    }
}

/// Whether a walk goes on behind a batch.
pub(super) enum Walk {
    On,
    Stop,
}

/// How a walk ended; the cursor stands at the batch in question.
#[derive(Debug)]
pub(super) enum WalkEnd {
    /// As asked.
    Stopped,
    /// No good batch.
    Bad,
    /// The file is shorter than it was.
    Short,
    /// This many bytes are needed from here on.
    More(u32),
    /// All batches were seen.
    EndOfSegment,
}

/// Feeds bytes of an offset index to a search.
pub(super) fn feed_offsets(search: &mut IndexSearch<OffsetEntry>, bytes: &[u8]) -> bool {
    decode_offsets(bytes)
        .is_some_and(|entries| search.feed(&entries, |entry| i64::from(entry.relative)))
}

/// Reads entries of an offset index; `None` when their positions do not rise.
pub(super) fn decode_offsets(bytes: &[u8]) -> Option<Vec<OffsetEntry>> {
    let entries: Vec<OffsetEntry> = bytes
        .chunks_exact(OFFSET_ENTRY_BYTES)
        .filter_map(OffsetEntry::decode)
        .collect();
    let rising = entries
        .windows(2)
        .all(|pair| matches!(pair, [a, b] if a.position < b.position));
    rising.then_some(entries)
}
