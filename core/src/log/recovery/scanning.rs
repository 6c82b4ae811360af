//! The reading part of a recovery: indexes up to the recovery point, then every batch past it.

use bytes::Bytes;

use crate::{
    event::{Event, OfflineReason},
    ids::Offset,
    log::{
        event::{LogContext, LogEvent},
        machine::{Log, Remover},
        memory_index::{MemoryIndex, NewBatch},
        offset_index,
        scan::{BatchFacts, Chain, Found, HEADER_BYTES, crc_fits, look},
        segment::{FileKind, Indexes},
        tail::TailBatch,
        time_index,
    },
    planted::Planted,
    storage::{FileOp, WriteData},
};

use super::{Cut, Recovery, Refusal, Slot, Step, agrees};

/// How many bytes of a segment are read at once.
const CHUNK_BYTES: u32 = 1 << 20;

/// How a chunk ended.
enum ChunkEnd {
    /// The batch at this place needs more bytes than the chunk has.
    More(u32),
    /// The segment ends here.
    EndOfFile,
    /// No good batch stands here.
    Bad,
    /// The offset to stop at is reached.
    Stop,
}

impl Log {
    /// Opens the files of the segment at `recovery.at`.
    pub(super) fn open_segment(&mut self, cx: &mut LogContext<'_>, recovery: &mut Recovery) {
        for kind in FileKind::ALL {
            let segment = &mut self.segments[recovery.at];
            if segment.handle(kind).id.is_some() {
                continue;
            }
            let file = cx.storage.new_file();
            segment.handle_mut(kind).id = Some(file);
            let path = segment.path(&self.dir, kind);
            // A missing index is created: it will be built again.
            let is_there = matches!(segment.indexes, Indexes::Files { .. });
            let create = kind != FileKind::Log && !is_there;
            let open = FileOp::Open { file, path, create };
            self.ask(cx, recovery, open, Slot::Must(kind));
        }
    }

    /// Reads the indexes of the segment at `recovery.at`, unless they are in memory.
    pub(super) fn load_tail(&mut self, cx: &mut LogContext<'_>, recovery: &mut Recovery) {
        recovery.step = Step::Tail;
        self.open_segment(cx, recovery);
        let segment = &self.segments[recovery.at];
        let read = |kind: FileKind, len: u32| {
            segment
                .handle(kind)
                .id
                .map(|file| FileOp::Read { file, at: 0, len })
        };
        let mut reads = Vec::new();
        if segment.size > 0 {
            let header = u32::try_from(HEADER_BYTES).unwrap_or(0);
            reads.push((read(FileKind::Log, header), Slot::FirstHeader));
        }
        if let Indexes::Files { offsets, times } = segment.indexes {
            let bytes =
                |count: u32, each: usize| count.saturating_mul(u32::try_from(each).unwrap_or(0));
            let offset_len = bytes(offsets, offset_index::OFFSET_ENTRY_BYTES);
            let time_len = bytes(times, time_index::TIME_ENTRY_BYTES);
            reads.push((read(FileKind::OffsetIndex, offset_len), Slot::OffsetIndex));
            reads.push((read(FileKind::TimeIndex, time_len), Slot::TimeIndex));
        }
        for (op, slot) in reads {
            if let Some(op) = op {
                self.ask(cx, recovery, op, slot);
            }
        }
    }

    /// Decides from the indexes where to begin to read. False when nothing needs to be read.
    pub(super) fn tail_loaded(
        &mut self,
        cx: &mut LogContext<'_>,
        recovery: &mut Recovery,
    ) -> Result<bool, Refusal> {
        let segment = &mut self.segments[recovery.at];
        let base = segment.base;
        let header = recovery.first_header.take();
        let first = header.and_then(|bytes| BatchFacts::read(&bytes));
        segment.first_timestamp = first.map(|facts| facts.max_timestamp);
        let before = recovery.stop_at.unwrap_or(recovery.recovery_point);
        if let Some(index) = segment.memory_mut() {
            // A truncation: the entries in memory are right, up to where it cuts.
            let keep = index.truncate_to(before);
            return self.begin_scan(cx, recovery, keep);
        }
        let was_broken = matches!(segment.indexes, Indexes::Broken) && segment.size > 0;
        let offset_bytes = recovery.offset_bytes.take().unwrap_or_default();
        let time_bytes = recovery.time_bytes.take().unwrap_or_default();
        let log_len = u64::from(segment.size);
        let (mut offsets, offsets_whole) = offset_index::decode_prefix(&offset_bytes, log_len);
        let (mut times, times_whole) = time_index::decode_prefix(&time_bytes);
        let in_segment = |offset: Offset| offset < recovery.recovery_point;
        let is_whole = offsets_whole
            && times_whole
            && offsets
                .last()
                .is_none_or(|entry| in_segment(entry.offset(base)))
            && times
                .last()
                .is_none_or(|entry| in_segment(entry.offset(base)));
        let is_plausible = is_whole
            && !was_broken
            && (segment.size == 0) == (recovery.recovery_point == base)
            && (segment.size == 0) == times.is_empty()
            && first.is_none_or(|facts| facts.base == base);
        if !recovery.recovered && is_plausible {
            let since = offsets.last().map_or(0, |entry| u64::from(entry.position));
            let since = log_len - since;
            let index = MemoryIndex::resume(base, offsets, times, since);
            segment.indexes = Indexes::Memory(Box::new(index));
            recovery.end = recovery.recovery_point;
            return Ok(false);
        }
        recovery.recovered = true;
        offsets.retain(|entry| entry.offset(base) < before);
        let covered = offsets.last().map(|entry| entry.relative);
        times.retain(|entry| covered.is_some_and(|covered| entry.relative <= covered));
        let keep = offsets
            .last()
            .map(|entry| (entry.position, entry.offset(base)));
        if was_broken || !offsets_whole || !times_whole {
            self.note_rebuilt(cx, recovery.at, FileKind::OffsetIndex);
        }
        let index = MemoryIndex::resume(base, offsets, times, 0);
        self.segments[recovery.at].indexes = Indexes::Memory(Box::new(index));
        self.begin_scan(cx, recovery, keep)
    }

    /// Begins to read the segment at the batch that the last index entry names, or at its front.
    fn begin_scan(
        &mut self,
        cx: &mut LogContext<'_>,
        recovery: &mut Recovery,
        keep: Option<(u32, Offset)>,
    ) -> Result<bool, Refusal> {
        recovery.step = Step::Scan;
        recovery.recovered = true;
        let may_skip = self.config.compact;
        let base = self.segments[recovery.at].base;
        let (position, chain) = match keep {
            Some((position, last)) => (position, Chain::ending(last, may_skip)),
            None => (0, Chain::at(base, may_skip)),
        };
        recovery.position = position;
        recovery.chain = chain;
        recovery.from_index = keep.is_some();
        recovery.end = base;
        if position == 0 {
            self.segments[recovery.at].first_timestamp = None;
        }
        self.cut_indexes(cx, recovery);
        self.read_chunk(cx, recovery, CHUNK_BYTES);
        Ok(true)
    }

    /// Cuts the index files to the entries that are kept.
    fn cut_indexes(&mut self, cx: &mut LogContext<'_>, recovery: &mut Recovery) {
        let segment = &mut self.segments[recovery.at];
        let Some((offsets, times)) = segment.memory().map(MemoryIndex::file_lens) else {
            return;
        };
        let cuts = [
            (FileKind::OffsetIndex, offsets),
            (FileKind::TimeIndex, times),
        ];
        for (kind, len) in cuts {
            let segment = &mut self.segments[recovery.at];
            let handle = segment.handle_mut(kind);
            handle.bump();
            let (generation, file) = (handle.generation.0, handle.id);
            if let Some(index) = segment.memory_mut() {
                // Complete before anything is flushed: the step waits for it.
                index.cut_submitted(kind, generation);
                if file.is_some() {
                    index.cut_completed(kind, generation);
                }
            }
            if let Some(file) = file {
                self.ask(
                    cx,
                    recovery,
                    FileOp::Truncate { file, len },
                    Slot::Must(kind),
                );
            }
        }
    }

    fn read_chunk(&mut self, cx: &mut LogContext<'_>, recovery: &mut Recovery, want: u32) {
        let segment = &self.segments[recovery.at];
        let len = want.min(segment.size - recovery.position);
        recovery.asked = len;
        recovery.chunk = Some(Bytes::new());
        if let (Some(file), true) = (segment.log.id, len > 0) {
            let at = u64::from(recovery.position);
            self.ask(cx, recovery, FileOp::Read { file, at, len }, Slot::Chunk);
        }
    }

    /// Takes a chunk and goes on behind it.
    pub(super) fn scan_chunk(
        &mut self,
        cx: &mut LogContext<'_>,
        recovery: &mut Recovery,
    ) -> Result<(), Refusal> {
        let bytes = recovery.chunk.take().unwrap_or_default();
        let from = recovery.position;
        let end = self.walk_chunk(recovery, &bytes);
        self.write_again(cx, recovery, from, &bytes);
        match end {
            ChunkEnd::More(need) => {
                self.read_chunk(cx, recovery, need.max(CHUNK_BYTES));
                Ok(())
            }
            ChunkEnd::EndOfFile => self.segment_scanned(cx, recovery),
            ChunkEnd::Bad if recovery.from_index => {
                // The index may be what is wrong: read the segment from its front.
                self.note_rebuilt(cx, recovery.at, FileKind::OffsetIndex);
                let base = self.segments[recovery.at].base;
                let index = MemoryIndex::new(base);
                self.segments[recovery.at].indexes = Indexes::Memory(Box::new(index));
                self.begin_scan(cx, recovery, None).map(|_| ())
            }
            ChunkEnd::Bad => {
                let (at, position) = (recovery.at, recovery.position);
                self.end_here(cx, recovery, Cut { at, position }, OfflineReason::Damaged)
            }
            ChunkEnd::Stop => {
                let (at, position) = (recovery.at, recovery.position);
                recovery.recovery_point = recovery.recovery_point.min(recovery.end);
                recovery.synced = recovery.synced.min(recovery.end);
                self.end_here(cx, recovery, Cut { at, position }, OfflineReason::Damaged)
            }
        }
    }

    /// Writes what is kept past the recovery point again, the same bytes at the same place. A sync that failed before the process
    /// ended left pages that the cache shows and takes for clean: a sync alone would never bring them to the disk (catalogue
    /// B43).
    fn write_again(
        &mut self,
        cx: &mut LogContext<'_>,
        recovery: &mut Recovery,
        from: u32,
        chunk: &Bytes,
    ) {
        let is_past = recovery.stop_at.is_none() && recovery.end > recovery.recovery_point;
        let good = recovery.position.saturating_sub(from);
        let (Some(file), Ok(good)) = (self.segments[recovery.at].log.id, usize::try_from(good))
        else {
            return;
        };
        if !is_past || good == 0 || good > chunk.len() || self.planted.has(Planted::B46) {
            return;
        }
        let write = FileOp::Write {
            file,
            at: u64::from(from),
            data: WriteData::from_body(chunk.slice(..good)),
        };
        self.ask(cx, recovery, write, Slot::Again);
    }

    /// Walks the batches of a chunk; `recovery.position` ends behind the last good one.
    fn walk_chunk(&mut self, recovery: &mut Recovery, bytes: &Bytes) -> ChunkEnd {
        let size = self.segments[recovery.at].size;
        let mut rest = bytes.as_ref();
        let is_short = u32::try_from(bytes.len()) != Ok(recovery.asked);
        loop {
            let left = size - recovery.position;
            if left == 0 {
                return ChunkEnd::EndOfFile;
            }
            let facts = match look(rest, u64::from(left)) {
                Found::Batch(facts) => facts,
                Found::Cut { .. } if is_short => return ChunkEnd::Bad,
                Found::Cut { need } => return ChunkEnd::More(need),
                Found::Bad => return ChunkEnd::Bad,
            };
            let (batch, behind) = rest.split_at(usize::try_from(facts.size).unwrap_or(0));
            // The table knows nothing certain of a batch that straddles the log start.
            let is_certain = facts.base < recovery.recovery_point && facts.base >= self.start;
            if !recovery.chain.accept(&facts)
                || !crc_fits(batch)
                || (is_certain && !agrees(recovery.epoch_table.as_ref(), facts.base, facts.epoch))
            {
                return ChunkEnd::Bad;
            }
            if recovery.stop_at.is_some_and(|stop| facts.next() > stop) {
                recovery.end = facts.base;
                return ChunkEnd::Stop;
            }
            self.take_batch(recovery, &facts);
            rest = behind;
        }
    }

    fn take_batch(&mut self, recovery: &mut Recovery, facts: &BatchFacts) {
        let interval = self.config.index_interval_bytes;
        let segment = &mut self.segments[recovery.at];
        if recovery.position == 0 {
            segment.first_timestamp = Some(facts.max_timestamp);
        }
        let base = segment.base;
        if let Some(index) = segment.memory_mut() {
            index.on_batch(
                NewBatch {
                    last: facts.last,
                    position: recovery.position,
                    size: facts.size,
                    max_timestamp: facts.max_timestamp,
                },
                interval,
            );
        }
        if !recovery.has_batches {
            // What the table says of later offsets is recomputed from the batches.
            self.epochs.truncate_from_end(facts.base.saturating_add(1));
            recovery.has_batches = true;
        }
        if self
            .epochs
            .latest()
            .is_none_or(|latest| facts.epoch > latest)
        {
            self.epochs.assign(facts.epoch, facts.base);
        }
        if recovery.stop_at.is_none() {
            self.tail.push(TailBatch {
                base: facts.base,
                next: facts.next(),
                segment: base,
                position: recovery.position,
                size: facts.size,
            });
        }
        recovery.from_index = false;
        recovery.position += facts.size;
        recovery.end = facts.next();
    }

    /// A segment was read to its end: the next one must continue it.
    fn segment_scanned(
        &mut self,
        cx: &mut LogContext<'_>,
        recovery: &mut Recovery,
    ) -> Result<(), Refusal> {
        let cut = Cut {
            at: recovery.at,
            position: recovery.position,
        };
        let Some(next) = self.segments.get(recovery.at + 1) else {
            return self.end_here(cx, recovery, cut, OfflineReason::Missing);
        };
        let continues =
            next.base == recovery.end || (self.config.compact && next.base > recovery.end);
        if !continues {
            return self.end_here(cx, recovery, cut, OfflineReason::Missing);
        }
        let base = next.base;
        recovery.at += 1;
        recovery.position = 0;
        recovery.chain.skip_to(base);
        self.open_segment(cx, recovery);
        let index = MemoryIndex::new(base);
        self.segments[recovery.at].indexes = Indexes::Memory(Box::new(index));
        recovery.end = base;
        self.cut_indexes(cx, recovery);
        self.read_chunk(cx, recovery, CHUNK_BYTES);
        Ok(())
    }

    /// Good data ends here: below the synced mark that is damage, past it a torn tail.
    fn end_here(
        &mut self,
        cx: &mut LogContext<'_>,
        recovery: &mut Recovery,
        cut: Cut,
        reason: OfflineReason,
    ) -> Result<(), Refusal> {
        let file = self.segments[cut.at].path(&self.dir, FileKind::Log);
        if recovery.end < recovery.synced && !self.planted.has(Planted::B47) {
            return Err((file, Some(u64::from(cut.position)), reason));
        }
        recovery.step = Step::Cut;
        let later = self.segments.split_off(cut.at + 1);
        let segment = &mut self.segments[cut.at];
        let mut lost = u64::from(segment.size - cut.position);
        let is_cut = lost > 0 || !later.is_empty();
        if lost > 0 {
            segment.size = cut.position;
            segment.written = cut.position;
            segment.in_hand.cut(cut.position);
            segment.log.bump();
            if let Some(file) = segment.log.id {
                let len = u64::from(cut.position);
                self.ask(
                    cx,
                    recovery,
                    FileOp::Truncate { file, len },
                    Slot::Must(FileKind::Log),
                );
            }
        }
        for segment in &later {
            lost += u64::from(segment.size);
            self.drop_segment(cx, recovery, segment);
        }
        if self.start > recovery.end && recovery.stop_at.is_none() {
            // Deleted up to an offset that was never synced: the log goes on from there, empty.
            for segment in std::mem::take(&mut self.segments) {
                self.drop_segment(cx, recovery, &segment);
            }
            self.tail.clear();
            recovery.end = self.start;
        }
        if is_cut {
            recovery.cut = Some(cut);
        }
        if lost > 0 && recovery.stop_at.is_none() {
            cx.events.push(LogEvent::Notice(Event::TailCut {
                partition: self.partition.clone(),
                file,
                at: u64::from(cut.position),
                bytes: lost,
                end: recovery.end,
            }));
        }
        Ok(())
    }

    pub(super) fn drop_segment(
        &mut self,
        cx: &mut LogContext<'_>,
        recovery: &mut Recovery,
        segment: &crate::log::segment::Segment,
    ) {
        for kind in FileKind::ALL {
            if let Some(file) = segment.handle(kind).id {
                self.close_file(cx, file);
            }
            recovery.outstanding += 1;
            self.remove_file(cx, segment, kind, Remover::Recovery);
        }
    }

    /// Says that an index is built again.
    pub(in crate::log) fn note_rebuilt(&self, cx: &mut LogContext<'_>, at: usize, kind: FileKind) {
        cx.events.push(LogEvent::Notice(Event::IndexRebuilt {
            partition: self.partition.clone(),
            file: self.segments[at].path(&self.dir, kind),
        }));
    }
}
