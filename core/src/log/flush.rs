//! Group commit: what must be synced for all written records to be durable, and what is durable afterwards.
//!
//! One set gathers the files and folders of many logs; each log gives a mark for it and counts its records as flushed
//! when the host says that the whole set is done. A record counts only when its file's directory entry is durable too.

use crate::{
    ids::Offset,
    planted::Planted,
    storage::{FileId, FileOp, FilePath, Generation, SyncTarget},
};

use super::{
    event::{LogContext, LogEvent},
    machine::{Log, Pending, State},
    memory_index::SyncedIndex,
    segment::FileKind,
};

/// Files and folders to be synced together.
#[derive(Clone, Debug, Default)]
pub struct FlushSet {
    /// The files.
    pub files: Vec<SyncTarget>,
    /// The folders, each once.
    pub dirs: Vec<FilePath>,
}

impl FlushSet {
    /// Returns whether nothing is to be synced.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.files.is_empty() && self.dirs.is_empty()
    }

    /// Makes the operation.
    #[must_use]
    pub fn into_op(self) -> FileOp {
        FileOp::Sync {
            files: self.files,
            dirs: self.dirs,
        }
    }

    fn add_dir(&mut self, dir: FilePath) {
        if !self.dirs.contains(&dir) {
            self.dirs.push(dir);
        }
    }
}

/// What one log counts as flushed when a [`FlushSet`] is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushMark {
    id: u64,
    end: Offset,
    truncations: u64,
    dir_changes: u64,
    parent: bool,
    metadata: bool,
}

/// What a log remembers about flushes.
#[derive(Debug, Default)]
pub(super) struct FlushState {
    next_mark: u64,
    truncations: u64,
    /// Creations and removals in the folder that completed.
    dir_changes: u64,
    /// As many of them as are durable.
    dir_synced: u64,
    /// The folder itself is new in its parent.
    pub(super) parent_unsynced: bool,
    /// A `partition.metadata` that is not synced yet.
    pub(super) metadata: Option<FileId>,
    /// Operations on it that did not complete yet.
    pub(super) metadata_outstanding: u32,
    /// Old segments whose indexes were built again and are in memory.
    pub(super) rebuilt: Vec<Offset>,
    /// Marks given out and not taken back.
    in_flight: u32,
    /// Files to close once no mark is in flight: their syncs must find them open.
    to_close: Vec<FileId>,
    /// Index entries that a mark in flight makes durable.
    indexes: Vec<(u64, Offset, SyncedIndex)>,
}

impl FlushState {
    /// Notes a completed creation or removal in the folder.
    pub(super) const fn dir_changed(&mut self) {
        self.dir_changes += 1;
    }

    /// Notes a truncation: marks in flight no longer say what they said.
    pub(super) fn truncated(&mut self) {
        self.truncations += 1;
        self.indexes.clear();
    }

    /// Notes that a segment's indexes were built again.
    pub(super) fn index_rebuilt(&mut self, base: Offset) {
        if !self.rebuilt.contains(&base) {
            self.rebuilt.push(base);
        }
    }

    /// Notes that the folder, after this many changes, and its parent were synced.
    pub(super) fn all_synced(&mut self, changes: u64) {
        self.dir_synced(changes);
        self.parent_unsynced = false;
    }

    /// Returns how many changes of the folder completed.
    pub(super) const fn dir_changes(&self) -> u64 {
        self.dir_changes
    }

    /// Notes that the folder was synced after this many changes.
    pub(super) fn dir_synced(&mut self, changes: u64) {
        self.dir_synced = self.dir_synced.max(changes);
    }

    pub(super) const fn dir_is_synced(&self) -> bool {
        self.dir_synced == self.dir_changes
    }
}

impl Log {
    /// Adds what must be synced so that every written record becomes durable; `None` when all of it is.
    ///
    /// Give the mark back with [`Log::flush_done`] when the whole set was synced. When the sync fails, give the log
    /// directory up with [`Log::fail`].
    pub fn flush_set(&mut self, set: &mut FlushSet) -> Option<FlushMark> {
        if !matches!(self.state, State::Open) || !self.needs_flush() {
            return None;
        }
        let id = self.flush.next_mark;
        self.flush.next_mark += 1;
        self.flush.in_flight += 1;
        for at in (0..self.segments.len()).rev() {
            if self.segment_end(at) <= self.flushed_end {
                break;
            }
            let segment = &self.segments[at];
            if let (true, Some(file)) = (segment.written > 0, segment.log.id) {
                set.files.push(SyncTarget {
                    file,
                    generation: segment.log.generation,
                });
            }
        }
        for at in self.indexes_in_memory() {
            self.add_indexes(set, at, id);
        }
        let metadata = self
            .flush
            .metadata
            .filter(|_| self.flush.metadata_outstanding == 0);
        if let Some(file) = metadata {
            set.files.push(SyncTarget {
                file,
                generation: Generation::default(),
            });
        }
        if !self.flush.dir_is_synced() && !self.planted.has(Planted::B44) {
            set.add_dir(self.dir.clone());
        }
        if self.flush.parent_unsynced {
            set.add_dir(self.dir.parent());
        }
        Some(FlushMark {
            id,
            end: self.written_end,
            truncations: self.flush.truncations,
            dir_changes: self.flush.dir_changes,
            parent: self.flush.parent_unsynced,
            metadata: metadata.is_some(),
        })
    }

    /// Returns the places of the segments whose indexes are in memory, the last ones first. All but a few old segments
    /// whose indexes were built again stand at the end.
    fn indexes_in_memory(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.segments.len())
            .rev()
            .take_while(|at| self.segments[*at].memory().is_some())
            .collect();
        for base in &self.flush.rebuilt {
            let place = self
                .segments
                .binary_search_by_key(base, |segment| segment.base);
            if let Ok(at) = place
                && self.segments[at].memory().is_some()
                && !places.contains(&at)
            {
                places.push(at);
            }
        }
        places
    }

    fn add_indexes(&mut self, set: &mut FlushSet, at: usize, id: u64) {
        let segment = &self.segments[at];
        let Some(index) = segment.memory() else {
            return;
        };
        let (times, offsets) = index.unsynced();
        for (kind, is_wanted) in [
            (FileKind::TimeIndex, times),
            (FileKind::OffsetIndex, offsets),
        ] {
            let handle = segment.handle(kind);
            if let (true, Some(file)) = (is_wanted, handle.id) {
                set.files.push(SyncTarget {
                    file,
                    generation: handle.generation,
                });
            }
        }
        if times || offsets {
            let synced = index.synced_by_now();
            self.flush.indexes.push((id, segment.base, synced));
        }
    }

    /// Lets go of the in-memory indexes of sealed segments whose files are durable, the oldest first: those in memory
    /// stay together.
    fn release_indexes(&mut self) {
        let active = self.segments.len().saturating_sub(1);
        let mut may_release = true;
        for at in self.indexes_in_memory().into_iter().rev() {
            let is_flushed = self.segment_end(at) <= self.flushed_end;
            let base = self.segments[at].base;
            let is_rebuilt = self.flush.rebuilt.contains(&base);
            if at == active || !is_flushed || !(may_release || is_rebuilt) {
                may_release = false;
            } else if self.segments[at].release_index() {
                self.flush.rebuilt.retain(|rebuilt| *rebuilt != base);
            } else if !is_rebuilt {
                may_release = false;
            }
        }
    }

    /// Closes a file that is no longer part of the log, as soon as no sync in flight names it.
    pub(super) fn close_file(&mut self, cx: &mut LogContext<'_>, file: FileId) {
        if self.flush.in_flight == 0 {
            self.submit(cx.storage, FileOp::Close { file }, Pending::Ignored);
        } else {
            self.flush.to_close.push(file);
        }
    }

    /// Returns whether a flush would make anything durable that is not yet.
    #[must_use]
    pub fn needs_flush(&self) -> bool {
        self.written_end > self.flushed_end
            || self.indexes_need_flush()
            || (self.is_emptying() && self.removals == 0)
            || (self.closing
                && (!self.flush.dir_is_synced()
                    || self.flush.parent_unsynced
                    || self.flush.metadata.is_some()))
    }

    /// Takes a mark back: everything in its set is durable.
    pub fn flush_done(&mut self, cx: &mut LogContext<'_>, mark: FlushMark) {
        if !matches!(self.state, State::Open | State::Opening(_)) {
            return;
        }
        self.flush.in_flight = self.flush.in_flight.saturating_sub(1);
        if self.flush.in_flight == 0 {
            for file in std::mem::take(&mut self.flush.to_close) {
                self.submit(cx.storage, FileOp::Close { file }, Pending::Ignored);
            }
        }
        self.flush.dir_synced(mark.dir_changes);
        self.settle_emptied();
        if mark.parent {
            self.flush.parent_unsynced = false;
        }
        let metadata = self.flush.metadata.take_if(|_| mark.metadata);
        if let Some(file) = metadata {
            self.submit(cx.storage, FileOp::Close { file }, Pending::Ignored);
        }
        if mark.truncations == self.flush.truncations {
            self.flushed_end = self.flushed_end.max(mark.end);
        }
        let mut synced = Vec::new();
        self.flush.indexes.retain(|entry| {
            let is_this = entry.0 == mark.id;
            if is_this {
                synced.push((entry.1, entry.2));
            }
            !is_this
        });
        for (base, upto) in synced {
            let Ok(at) = self
                .segments
                .binary_search_by_key(&base, |segment| segment.base)
            else {
                continue;
            };
            if let Some(index) = self.segments[at].memory_mut() {
                index.synced(upto);
            }
            if self.closing || at + 1 < self.segments.len() {
                self.write_times(cx, at);
            }
            self.write_offsets(cx, at);
        }
        self.release_indexes();
        self.maybe_closed(cx);
    }

    /// Returns the offset up to which the recovery-point checkpoint may be moved: records, their epochs and the indexes
    /// of the segments before are durable.
    #[must_use]
    pub fn recovery_point(&self) -> Offset {
        if self.planted.has(Planted::B34) {
            return self.written_end;
        }
        if !self.opened {
            // What was known of it before still holds, and the next start needs it to tell damage from a torn tail.
            return self.hint.recovery_point;
        }
        let mut point = self.flushed_end;
        if let Some(start) = self.epoch_file.first_unrecorded(&self.epochs) {
            point = point.min(start.max(self.start));
        }
        let sealed = self.segments.len().saturating_sub(1);
        for (at, segment) in self.segments[..sealed].iter().enumerate().rev() {
            match segment.memory() {
                Some(index) if !index.is_durable() => {
                    point = point.min(self.segment_end(at).saturating_sub(1));
                }
                Some(_) => {}
                None => break,
            }
        }
        let point = point.max(self.hint.recovery_point.min(self.flushed_end));
        self.emptied.map_or(point, |kept| point.min(kept))
    }

    /// Returns the offset up to which the synced mark may be moved: all records below are durable, and none comes back that
    /// was removed.
    #[must_use]
    pub fn synced_mark(&self) -> Offset {
        self.emptied
            .map_or(self.flushed_end, |kept| self.flushed_end.min(kept))
    }

    /// Returns whether everything was removed and a power loss may still bring it back: a flush is wanted.
    #[must_use]
    pub const fn is_emptying(&self) -> bool {
        self.emptied.is_some()
    }

    /// Takes note that the removal of everything is durable, if it is.
    pub(super) fn settle_emptied(&mut self) {
        if self.removals == 0 && self.flush.dir_is_synced() {
            self.emptied = None;
        }
    }

    /// Writes the index entries that wait in memory; a checkpoint of the recovery point calls this before a flush.
    pub fn write_indexes(&mut self, cx: &mut LogContext<'_>) {
        if !matches!(self.state, State::Open) {
            return;
        }
        for at in self.indexes_in_memory() {
            self.write_times(cx, at);
        }
        self.retry_epochs(cx);
    }

    /// Prepares a clean stop: all index entries, the largest timestamp of the active segment among them, are written.
    ///
    /// Flush until [`Log::needs_flush`] is false; [`LogEvent::Closed`] says that all of it is durable.
    pub fn close(&mut self, cx: &mut LogContext<'_>) {
        if !matches!(self.state, State::Open) {
            return;
        }
        self.closing = true;
        if let Some(at) = self.segments.len().checked_sub(1) {
            self.seal(cx, at);
        }
        // What found no space before is tried again.
        self.write_indexes(cx);
        self.maybe_closed(cx);
    }

    fn maybe_closed(&mut self, cx: &mut LogContext<'_>) {
        let is_idle = self.in_flight.is_empty()
            && !self.needs_flush()
            && self.epoch_file.is_idle()
            && self
                .segments
                .iter()
                .filter_map(|segment| segment.memory())
                .all(|index| index.is_durable());
        if self.closing && is_idle {
            self.closing = false;
            cx.events.push(LogEvent::Closed);
        }
    }

    /// Tells a closing log that one of its writes completed.
    pub(super) fn poll_close(&mut self, cx: &mut LogContext<'_>) {
        if self.closing {
            self.maybe_closed(cx);
        }
    }

    fn indexes_need_flush(&self) -> bool {
        self.indexes_in_memory()
            .into_iter()
            .filter_map(|at| self.segments[at].memory())
            .any(|index| {
                let (times, offsets) = index.unsynced();
                times || offsets
            })
    }
}
