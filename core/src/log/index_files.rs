//! Writing index entries in chunks, time entries first, and letting go of indexes that are durable.

use crate::{
    event::OfflineReason,
    ids::Offset,
    storage::{FaultKind, FileOp, OpResult, StorageFault, WriteData},
};

use super::{
    event::LogContext,
    machine::{Log, Pending},
    segment::FileKind,
};

/// How many offset entries wait in memory before a chunk is written: 4 KiB of them.
const CHUNK_ENTRIES: usize = 512;

impl Log {
    /// Writes a chunk of the active segment's time index once enough entries wait.
    pub(super) fn write_index_chunk(&mut self, cx: &mut LogContext<'_>, at: usize) {
        let waits = self.segments[at]
            .memory()
            .is_some_and(|index| index.uncovered() >= CHUNK_ENTRIES);
        if waits {
            self.write_times(cx, at);
        }
    }

    /// Writes all time entries that were not written yet; offset entries follow once these are durable.
    pub(super) fn write_times(&mut self, cx: &mut LogContext<'_>, at: usize) {
        // A file that could not be created before is tried again, even when there is nothing to write.
        for kind in [FileKind::TimeIndex, FileKind::OffsetIndex] {
            if self.segments[at].memory().is_some() {
                self.ensure_open(cx.storage, at, kind);
            }
        }
        let Some(index) = self.segments[at].memory_mut() else {
            return;
        };
        if let Some((position, bytes)) = index.take_times() {
            let upto = index.time_file.submitted;
            let covered = index.covered_submitted();
            self.write_index(
                cx,
                at,
                FileKind::TimeIndex,
                (position, bytes),
                (upto, covered),
            );
        } else {
            self.write_offsets(cx, at);
        }
    }

    /// Writes the offset entries whose time entries are durable.
    pub(super) fn write_offsets(&mut self, cx: &mut LogContext<'_>, at: usize) {
        let Some(index) = self.segments[at].memory_mut() else {
            return;
        };
        if let Some((position, bytes)) = index.take_offsets() {
            let upto = index.offset_file.submitted;
            self.write_index(cx, at, FileKind::OffsetIndex, (position, bytes), (upto, 0));
        }
    }

    fn write_index(
        &mut self,
        cx: &mut LogContext<'_>,
        at: usize,
        kind: FileKind,
        (position, bytes): (u64, bytes::Bytes),
        (upto, covered): (usize, usize),
    ) {
        let Some(file) = self.ensure_open(cx.storage, at, kind) else {
            return;
        };
        let segment = &self.segments[at];
        let pending = Pending::IndexWrite {
            segment: segment.base,
            kind,
            generation: segment.handle(kind).generation.0,
            upto,
            covered,
        };
        let op = FileOp::Write {
            file,
            at: position,
            data: WriteData::from_body(bytes),
        };
        self.submit(cx.storage, op, pending);
    }

    pub(super) fn on_index_written(
        &mut self,
        cx: &mut LogContext<'_>,
        base: Offset,
        (kind, generation): (FileKind, u32),
        (upto, covered): (usize, usize),
        result: Result<OpResult, StorageFault>,
    ) {
        let dir = self.dir.clone();
        let Some(segment) = self.segment_at(base) else {
            return;
        };
        // Written before a truncation: what is left of it was counted there.
        if segment.handle(kind).generation.0 != generation {
            return;
        }
        let path = segment.path(&dir, kind);
        let is_missing = matches!(&result, Err(fault) if fault.kind == FaultKind::NotFound);
        if result.is_err() {
            // Later writes in flight may succeed behind a gap: they are submitted again too.
            segment.offset_index.bump();
            segment.time_index.bump();
            if is_missing {
                segment.handle_mut(kind).id = None;
            }
        }
        let Some(index) = segment.memory_mut() else {
            return;
        };
        match (result, kind) {
            (Ok(_), FileKind::TimeIndex) => index.times_written(upto, covered),
            (Ok(_), FileKind::OffsetIndex | FileKind::Log) => index.offsets_written(upto),
            // The recovery point stays behind an index that is not durable; the next chunk tries again.
            (Err(fault), _) if fault.kind == FaultKind::NoSpace || is_missing => {
                index.write_failed();
            }
            (Err(fault), _) => self.go_offline(cx, path, None, OfflineReason::Fault(fault)),
        }
    }
}
