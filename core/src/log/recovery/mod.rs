//! Opening a log: what the folder holds is found out, repaired, and synced before it counts.
//!
//! | step | what happens | leads to |
//! | --- | --- | --- |
//! | `Folder` | the folder of a fresh partition is created | `List` |
//! | `List` | the folder is listed and planned | `Clear` |
//! | `Clear` | leftovers go; interrupted swaps are completed | `ClearSync` or `Load` |
//! | `ClearSync` | the folder is synced, so that `.deleted` files may go | `Load` |
//! | `Load` | topic id and epoch table are read | `Tail` or done |
//! | `Tail` | the indexes of the segment with the recovery point are read | `Scan`, or done when clean |
//! | `Scan` | batches from the recovery point on are read and checked | `Cut` |
//! | `Cut` | what is torn past the recovery point is cut off | `Sync` |
//! | `Sync` | what is kept is synced, before it counts as flushed | done |
//!
//! Every step ends when all its operations completed, so a crash between any two leaves a folder that the next opening
//! understands. Damage below the synced mark is never cut: the log goes offline, naming file and position.
//! A truncation runs the same machine from `Tail` on, with an offset to stop at.

mod plan;
mod scanning;
mod truncating;

use crate::{
    event::{Event, OfflineReason},
    ids::{Epoch, Offset},
    log::{
        OpenHint,
        checkpoint::parse_epochs,
        epoch_cache::EpochCache,
        epoch_file::EPOCH_FILE,
        event::{LogContext, LogEvent},
        in_hand::InHand,
        machine::{Log, Pending, State},
        partition_metadata,
        scan::Chain,
        segment::{FileKind, Indexes, Segment, file_name},
    },
    planted::Planted,
    storage::{
        DirEntry, FaultKind, FileOp, FilePath, OpResult, StorageFault, SyncTarget, WriteData,
    },
};

use bytes::Bytes;
use plan::{FoundSegment, Plan};

/// The largest checkpoint or metadata file that is read; a larger one is damaged.
const SMALL_FILE_MAX: u64 = 4 << 20;

/// A log being opened or truncated.
#[derive(Debug)]
pub(super) struct Recovery {
    step: Step,
    outstanding: u32,
    listing: Vec<DirEntry>,
    plan: Plan,
    metadata: Option<Bytes>,
    epoch_text: Option<Bytes>,
    /// The epoch table as the file had it; batches below the recovery point must agree with it.
    epoch_table: Option<EpochCache>,
    offset_bytes: Option<Bytes>,
    time_bytes: Option<Bytes>,
    first_header: Option<Bytes>,
    /// Everything below this offset is known to be synced, with its index entries and epochs.
    recovery_point: Offset,
    /// Every record below this offset, which is not less, is known to be synced.
    synced: Offset,
    /// Where a truncation ends the log.
    stop_at: Option<Offset>,
    /// Place of the segment being read.
    at: usize,
    /// Place of the first segment that was read.
    first: usize,
    position: u32,
    asked: u32,
    chain: Chain,
    /// The batch at `position` was found through an index that may be wrong.
    from_index: bool,
    /// Offset after the last good batch.
    end: Offset,
    cut: Option<Cut>,
    /// Batches were read and checked.
    recovered: bool,
    /// Changes of the folder that had completed when it was synced.
    dir_changes: u64,
    /// A chunk of the segment being read.
    chunk: Option<Bytes>,
    /// A batch was taken.
    has_batches: bool,
}

/// Where good data ends.
#[derive(Clone, Copy, Debug)]
struct Cut {
    at: usize,
    position: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Folder,
    List,
    Clear,
    ClearSync,
    Load,
    Tail,
    Scan,
    Cut,
    Sync,
}

/// What an operation of a recovery brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// Nothing, but it must succeed.
    Must(FileKind),
    /// Nothing, and it does not matter whether it was there.
    May,
    Listing,
    Metadata,
    Epochs,
    OffsetIndex,
    TimeIndex,
    FirstHeader,
    Chunk,
    /// Nothing: what was read is written again.
    Again,
    Sync,
}

impl Recovery {
    fn new(step: Step, recovery_point: Offset, synced: Offset) -> Self {
        Self {
            step,
            outstanding: 0,
            listing: Vec::new(),
            plan: Plan::default(),
            metadata: None,
            epoch_text: None,
            epoch_table: None,
            offset_bytes: None,
            time_bytes: None,
            first_header: None,
            recovery_point,
            synced: synced.max(recovery_point),
            stop_at: None,
            at: 0,
            first: 0,
            position: 0,
            asked: 0,
            chain: Chain::at(0, false),
            from_index: false,
            end: recovery_point,
            cut: None,
            recovered: false,
            dir_changes: 0,
            chunk: None,
            has_batches: false,
        }
    }
}

impl Log {
    /// Begins to open the log; [`LogEvent::Opened`] or [`LogEvent::Offline`] follows.
    pub fn open(&mut self, cx: &mut LogContext<'_>) {
        if !matches!(self.state, State::Closed) {
            return;
        }
        self.planted = cx.planted;
        let dir = self.dir.clone();
        let fresh = self.hint.fresh.is_some();
        let step = if fresh { Step::Folder } else { Step::List };
        let OpenHint {
            recovery_point,
            synced,
            ..
        } = self.hint;
        let mut recovery = Box::new(Recovery::new(step, recovery_point, synced));
        if fresh {
            self.ask(
                cx,
                &mut recovery,
                FileOp::CreateDir { dir },
                Slot::Must(FileKind::Log),
            );
        } else {
            self.ask(cx, &mut recovery, FileOp::List { dir }, Slot::Listing);
        }
        self.state = State::Opening(recovery);
    }

    /// Submits an operation of the present step.
    fn ask(&mut self, cx: &mut LogContext<'_>, recovery: &mut Recovery, op: FileOp, slot: Slot) {
        recovery.outstanding += 1;
        self.submit(cx.storage, op, Pending::Recovery(slot));
    }

    /// Goes on with the next step, or waits.
    fn settle(&mut self, cx: &mut LogContext<'_>, mut recovery: Box<Recovery>) {
        while recovery.outstanding == 0 {
            match self.advance(cx, &mut recovery) {
                Ok(true) => {}
                Ok(false) => return self.finish_opening(cx, &recovery),
                Err((file, at, reason)) => {
                    self.state = State::Open;
                    return self.go_offline(cx, file, at, reason);
                }
            }
        }
        self.state = State::Opening(recovery);
    }

    pub(super) fn on_recovery(
        &mut self,
        cx: &mut LogContext<'_>,
        slot: Slot,
        result: Result<OpResult, StorageFault>,
    ) {
        let State::Opening(mut recovery) = std::mem::replace(&mut self.state, State::Closed) else {
            return;
        };
        recovery.outstanding = recovery.outstanding.saturating_sub(1);
        match result {
            Ok(result) => recovery.take(slot, result),
            Err(fault) => {
                if let Some((file, reason)) = self.fault_matters(&recovery, slot, fault) {
                    self.state = State::Open;
                    if slot == Slot::Sync {
                        self.sync_failed(cx, file, fault);
                    } else {
                        self.go_offline(cx, file, None, reason);
                    }
                    return;
                }
                if let Slot::Must(kind @ (FileKind::OffsetIndex | FileKind::TimeIndex)) = slot {
                    self.index_unopened(recovery.at, kind);
                }
            }
        }
        self.settle(cx, recovery);
    }

    /// Remembers that an index file is not open and may hold what must be cut.
    fn index_unopened(&mut self, at: usize, kind: FileKind) {
        if let Some(segment) = self.segments.get_mut(at) {
            let handle = segment.handle_mut(kind);
            handle.id = None;
            handle.bump();
            let generation = handle.generation.0;
            if let Some(index) = segment.memory_mut() {
                index.cut_submitted(kind, generation);
            }
        }
    }

    fn fault_matters(
        &self,
        recovery: &Recovery,
        slot: Slot,
        fault: StorageFault,
    ) -> Option<(FilePath, OfflineReason)> {
        let is_missing = fault.kind == FaultKind::NotFound;
        let reason = if is_missing {
            OfflineReason::Missing
        } else {
            OfflineReason::Fault(fault)
        };
        let segment_file = |kind| {
            let base = self
                .segments
                .get(recovery.at)
                .map_or(self.start, |segment| segment.base);
            self.dir.join(&file_name(base, kind))
        };
        match slot {
            Slot::Listing if is_missing && recovery.synced <= self.hint.log_start => None,
            Slot::Listing | Slot::Sync => Some((self.dir.clone(), reason)),
            Slot::Must(_) if self.segments.is_empty() => Some((self.dir.clone(), reason)),
            // An index that cannot be created for want of space is written later.
            Slot::Must(FileKind::OffsetIndex | FileKind::TimeIndex)
                if is_missing || fault.kind == FaultKind::NoSpace =>
            {
                None
            }
            Slot::Must(kind) => Some((segment_file(kind), reason)),
            // Whatever kept them from being written, for want of space too: a sync makes nothing durable of bytes that an earlier
            // failed sync has left clean in the cache, so they must not be counted.
            Slot::Chunk | Slot::Again => Some((segment_file(FileKind::Log), reason)),
            Slot::May | Slot::Metadata | Slot::Epochs | Slot::FirstHeader if is_missing => None,
            Slot::May | Slot::FirstHeader => Some((segment_file(FileKind::Log), reason)),
            Slot::Metadata => Some((self.dir.join(partition_metadata::FILE_NAME), reason)),
            Slot::Epochs => Some((self.dir.join(EPOCH_FILE), reason)),
            // An index that cannot be read is built again.
            Slot::OffsetIndex | Slot::TimeIndex => None,
        }
    }

    /// Takes the next step once the present one is complete. False at the end.
    fn advance(
        &mut self,
        cx: &mut LogContext<'_>,
        recovery: &mut Recovery,
    ) -> Result<bool, Refusal> {
        match recovery.step {
            Step::Folder => {
                recovery.step = Step::List;
                self.flush.parent_unsynced = true;
                let list = FileOp::List {
                    dir: self.dir.clone(),
                };
                self.ask(cx, recovery, list, Slot::Listing);
            }
            Step::List => self.clear_leftovers(cx, recovery),
            Step::Clear if !recovery.plan.remove_last.is_empty() => {
                recovery.step = Step::ClearSync;
                let sync = FileOp::Sync {
                    files: Vec::new(),
                    dirs: vec![self.dir.clone()],
                };
                self.ask(cx, recovery, sync, Slot::Sync);
            }
            Step::Clear | Step::ClearSync => self.load_small_files(cx, recovery),
            Step::Load => return self.loaded(cx, recovery),
            Step::Tail => return self.tail_loaded(cx, recovery),
            Step::Scan => self.scan_chunk(cx, recovery)?,
            Step::Cut => return Ok(self.sync_kept(cx, recovery)),
            Step::Sync => {
                self.flush.all_synced(recovery.dir_changes);
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn clear_leftovers(&mut self, cx: &mut LogContext<'_>, recovery: &mut Recovery) {
        recovery.step = Step::Clear;
        recovery.plan = plan::plan(&std::mem::take(&mut recovery.listing));
        let plan = recovery.plan.clone();
        for name in plan.remove_first {
            let path = self.dir.join(&name);
            self.ask(cx, recovery, FileOp::Remove { path }, Slot::May);
        }
        for (from, to) in plan.renames {
            let rename = FileOp::Rename {
                from: self.dir.join(&from),
                to: self.dir.join(&to),
            };
            self.ask(cx, recovery, rename, Slot::Must(FileKind::Log));
        }
    }

    fn load_small_files(&mut self, cx: &mut LogContext<'_>, recovery: &mut Recovery) {
        recovery.step = Step::Load;
        for name in std::mem::take(&mut recovery.plan.remove_last) {
            let path = self.dir.join(&name);
            self.submit(cx.storage, FileOp::Remove { path }, Pending::Ignored);
        }
        let files = [
            (
                partition_metadata::FILE_NAME,
                recovery.plan.metadata,
                Slot::Metadata,
            ),
            (EPOCH_FILE, recovery.plan.epochs, Slot::Epochs),
        ];
        for (name, len, slot) in files {
            let Some(len) = len.filter(|len| *len <= SMALL_FILE_MAX) else {
                continue;
            };
            let file = cx.storage.new_file();
            let open = FileOp::Open {
                file,
                path: self.dir.join(name),
                create: false,
            };
            let read = FileOp::Read {
                file,
                at: 0,
                len: u32::try_from(len).unwrap_or(0),
            };
            self.ask(cx, recovery, open, Slot::May);
            self.ask(cx, recovery, read, slot);
            self.submit(cx.storage, FileOp::Close { file }, Pending::Ignored);
        }
    }

    fn loaded(
        &mut self,
        cx: &mut LogContext<'_>,
        recovery: &mut Recovery,
    ) -> Result<bool, Refusal> {
        let metadata = recovery.metadata.as_ref();
        let found = metadata.and_then(|text| partition_metadata::parse(text));
        if let (Some(found), Some(asked)) = (found, self.hint.fresh)
            && found != asked
            && !self.planted.has(Planted::B77)
        {
            let file = self.dir.join(partition_metadata::FILE_NAME);
            return Err((file, None, OfflineReason::Damaged));
        }
        if let (None, Some(id)) = (found, self.hint.fresh) {
            self.write_metadata(cx, id);
        }
        self.topic_id = found.or(self.hint.fresh);
        let table = recovery
            .epoch_text
            .as_ref()
            .and_then(|text| parse_epochs(text).ok());
        let has_table = table.is_some();
        self.epoch_file.loaded(table.clone().unwrap_or_default());
        self.epochs = EpochCache::from_entries(table.unwrap_or_default());
        recovery.epoch_table = has_table.then(|| self.epochs.clone());
        if recovery.plan.segments.is_empty() {
            return self.opened_empty(recovery).map(|()| false);
        }
        self.take_segments(cx, recovery)?;
        let point = recovery.recovery_point;
        let last = self.segments.len() - 1;
        // A segment that ends at the recovery point may have been sealed after the mark was written, with indexes that a
        // power loss took: its end is read too.
        let from = if self.hint.clean {
            point
        } else {
            point.saturating_sub(1)
        };
        recovery.at = self.segment_index(from).unwrap_or(0);
        recovery.recovered = !self.hint.clean || recovery.at < last;
        // Without the table every batch must be read to have it again.
        let has_records = point > self.start;
        if !has_table && has_records {
            recovery.recovered = true;
            recovery.at = 0;
        }
        recovery.first = recovery.at;
        if !has_table && has_records && recovery.at == 0 {
            recovery.step = Step::Tail;
            self.open_segment(cx, recovery);
            return Ok(true);
        }
        self.load_tail(cx, recovery);
        Ok(true)
    }

    fn opened_empty(&self, recovery: &mut Recovery) -> Result<(), Refusal> {
        if recovery.synced > self.hint.log_start {
            let file = self
                .dir
                .join(&file_name(self.hint.log_start, FileKind::Log));
            return Err((file, None, OfflineReason::Missing));
        }
        recovery.end = self.hint.log_start;
        Ok(())
    }

    fn take_segments(&mut self, cx: &LogContext<'_>, recovery: &Recovery) -> Result<(), Refusal> {
        let found = &recovery.plan.segments;
        for (at, segment) in found.iter().enumerate() {
            let file = || self.dir.join(&file_name(segment.base, FileKind::Log));
            let size = u32::try_from(segment.log)
                .ok()
                .filter(|size| i32::try_from(*size).is_ok())
                .ok_or_else(|| (file(), None, OfflineReason::Damaged))?;
            let next = found.get(at + 1).map(|next| next.base);
            if size == 0 && next.is_some_and(|next| next <= recovery.synced) {
                return Err((file(), Some(0), OfflineReason::Missing));
            }
            let mut taken = Segment::new(segment.base, cx.now.wall);
            taken.size = size;
            taken.written = size;
            taken.in_hand = InHand::of_found();
            taken.indexes = indexes_of(segment);
            self.segments.push(taken);
        }
        self.start = self.hint.log_start.max(self.segments[0].base);
        Ok(())
    }

    fn write_metadata(&mut self, cx: &mut LogContext<'_>, id: crate::ids::Uuid) {
        let file = cx.storage.new_file();
        let path = self.dir.join(partition_metadata::FILE_NAME);
        let ops = [
            FileOp::Open {
                file,
                path: path.clone(),
                create: true,
            },
            FileOp::Truncate { file, len: 0 },
            FileOp::Write {
                file,
                at: 0,
                data: WriteData::from_body(partition_metadata::encode(id).into_bytes().into()),
            },
        ];
        self.flush.metadata_outstanding = 3;
        for op in ops {
            self.submit(cx.storage, op, Pending::Fresh { path: path.clone() });
        }
        self.flush.metadata = Some(file);
    }

    /// Syncs what a recovery keeps past the recovery point; false when there is nothing to sync.
    fn sync_kept(&mut self, cx: &mut LogContext<'_>, recovery: &mut Recovery) -> bool {
        let keeps = recovery.end > recovery.recovery_point
            || recovery.cut.is_some()
            || recovery.stop_at.is_some();
        if !recovery.recovered || !keeps || self.planted.has(Planted::B46) {
            return false;
        }
        recovery.step = Step::Sync;
        recovery.dir_changes = self.flush.dir_changes();
        // A truncation may end behind segments that were never flushed.
        let unflushed = self.segment_index(recovery.recovery_point).unwrap_or(0);
        let first = recovery.first.min(unflushed);
        let files = self
            .segments
            .get(first..)
            .unwrap_or_default()
            .iter()
            .filter_map(|segment| {
                Some(SyncTarget {
                    file: segment.log.id?,
                    generation: segment.log.generation,
                })
            })
            .collect();
        let sync = FileOp::Sync {
            files,
            dirs: vec![self.dir.clone(), self.dir.parent()],
        };
        self.ask(cx, recovery, sync, Slot::Sync);
        true
    }

    /// The log is in service.
    fn finish_opening(&mut self, cx: &mut LogContext<'_>, recovery: &Recovery) {
        self.state = State::Open;
        self.opened = true;
        self.end = recovery.end;
        self.written_end = recovery.end;
        self.flushed_end = recovery.end;
        if let Some(active) = self.segments.last_mut() {
            active.in_hand.goes_on(active.size);
        }
        if !self.hint.clean || self.hint.fresh.is_some() || recovery.stop_at.is_some() {
            // Which entries of the folder are durable is not known: the first flush covers them all.
            if !recovery.synced() {
                self.flush.dir_changed();
                self.flush.parent_unsynced |= recovery.stop_at.is_none();
            }
        }
        let before = self.epochs.clone();
        self.epochs.truncate_from_end(self.end);
        self.epochs.truncate_from_start(self.start);
        // A log without records needs no table yet; its first epoch writes one.
        let is_known = match &recovery.epoch_table {
            Some(table) => *table == self.epochs,
            None => self.epochs.entries().is_empty() && self.end == self.start,
        };
        if before != self.epochs || !is_known {
            self.write_epochs(cx);
        }
        for at in recovery.first..self.segments.len() {
            if at + 1 < self.segments.len() {
                self.seal(cx, at);
            }
        }
        if recovery.stop_at.is_some() {
            cx.events.push(LogEvent::Truncated { end: self.end });
            return;
        }
        cx.events.push(LogEvent::Notice(Event::LogOpened {
            partition: self.partition.clone(),
            start: self.start,
            end: self.end,
            recovered: recovery.recovered,
        }));
        cx.events.push(LogEvent::Opened {
            start: self.start,
            end: self.end,
            recovered: recovery.recovered,
            topic_id: self.topic_id,
        });
    }
}

/// Why a log cannot be opened: file, position, reason.
type Refusal = (FilePath, Option<u64>, OfflineReason);

impl Recovery {
    fn take(&mut self, slot: Slot, result: OpResult) {
        match (slot, result) {
            (Slot::Listing, OpResult::Listing(entries)) => self.listing = entries,
            (Slot::Metadata, OpResult::Data(bytes)) => self.metadata = Some(bytes),
            (Slot::Epochs, OpResult::Data(bytes)) => self.epoch_text = Some(bytes),
            (Slot::OffsetIndex, OpResult::Data(bytes)) => self.offset_bytes = Some(bytes),
            (Slot::TimeIndex, OpResult::Data(bytes)) => self.time_bytes = Some(bytes),
            (Slot::FirstHeader, OpResult::Data(bytes)) => self.first_header = Some(bytes),
            (Slot::Chunk, OpResult::Data(bytes)) => self.chunk = Some(bytes),
            _ => {}
        }
    }

    /// Returns whether the folder and its parent were synced.
    fn synced(&self) -> bool {
        self.step == Step::Sync
    }
}

/// Takes indexes by the length of their files; what they hold is checked when it is used.
fn indexes_of(found: &FoundSegment) -> Indexes {
    let entries = |len: Option<u64>, each: usize| {
        let each = u64::try_from(each).ok()?;
        let len = len?;
        (len % each == 0)
            .then(|| u32::try_from(len / each).ok())
            .flatten()
    };
    let offsets = entries(
        found.offset_index,
        crate::log::offset_index::OFFSET_ENTRY_BYTES,
    );
    let times = entries(found.time_index, crate::log::time_index::TIME_ENTRY_BYTES);
    match (offsets, times) {
        (Some(offsets), Some(times)) => Indexes::Files { offsets, times },
        _ => Indexes::Broken,
    }
}

/// Compares a batch's epoch with the table.
fn agrees(table: Option<&EpochCache>, base: Offset, epoch: Epoch) -> bool {
    let known = table.and_then(|table| table.epoch_for(base));
    known.is_none_or(|known| known == epoch)
}
