//! Opening the files of segments on first use, removing them, and what it means when a file cannot be opened or cut.

use crate::{
    event::OfflineReason,
    ids::Offset,
    storage::{FaultKind, FileId, FileOp, FilePath, OpResult, StorageFault, StorageQueue},
};

use super::{
    event::LogContext,
    machine::{Log, Pending, Remover},
    recovery::Slot,
    segment::{FileKind, Segment},
};

impl Log {
    /// Opens a file of a segment unless it is open. Operations submitted afterwards find it open, or fail.
    pub(super) fn ensure_open(
        &mut self,
        storage: &mut StorageQueue,
        at: usize,
        kind: FileKind,
    ) -> Option<FileId> {
        let dir = self.dir.clone();
        let segment = self.segments.get_mut(at)?;
        if let Some(file) = segment.handle(kind).id {
            return Some(file);
        }
        let file = storage.new_file();
        segment.handle_mut(kind).id = Some(file);
        let path = segment.path(&dir, kind);
        let base = segment.base;
        // A missing `.log` is a fault; an old index that is missing must be built again, one in memory is written.
        let create = kind != FileKind::Log && segment.memory().is_some();
        let pending = Pending::Opened {
            segment: base,
            kind,
            create,
        };
        // What a failed write may have left behind the good entries must not be taken for entries.
        let mut cut = None;
        if create {
            segment.handle_mut(kind).bump();
            let generation = segment.handle(kind).generation.0;
            if let Some(index) = segment.memory_mut() {
                index.cut_submitted(kind, generation);
                cut = Some(index.written_len(kind));
            }
        }
        let cut_pending = Pending::Cut {
            path: path.clone(),
            segment: base,
            kind,
            generation: segment.handle(kind).generation.0,
        };
        let op = FileOp::Open { file, path, create };
        self.submit(storage, op, pending);
        if let Some(len) = cut {
            self.submit(storage, FileOp::Truncate { file, len }, cut_pending);
        }
        Some(file)
    }

    /// Removes a file of a segment that is no longer part of the log. Nothing orders the creation of a file with the removal of its
    /// name: where the first is still under way, the second waits for it.
    pub(super) fn remove_file(
        &mut self,
        cx: &mut LogContext<'_>,
        segment: &Segment,
        kind: FileKind,
        remover: Remover,
    ) {
        let path = segment.path(&self.dir, kind);
        let creation = self.pending.values_mut().rev().find(|pending| {
            matches!(
                pending,
                Pending::Opened { segment: base, kind: opened, create: true }
                    if *base == segment.base && *opened == kind
            )
        });
        match creation {
            Some(creation) => *creation = Pending::Doomed { path, remover },
            None => self.submit_removal(cx, path, remover),
        }
    }

    pub(super) fn submit_removal(
        &mut self,
        cx: &mut LogContext<'_>,
        path: FilePath,
        remover: Remover,
    ) {
        let pending = match remover {
            Remover::Undo => Pending::Removal { path: path.clone() },
            Remover::Recovery => Pending::Recovery(Slot::May),
        };
        self.submit(cx.storage, FileOp::Remove { path }, pending);
    }

    pub(super) fn on_cut(
        &mut self,
        cx: &mut LogContext<'_>,
        path: FilePath,
        base: Offset,
        (kind, generation): (FileKind, u32),
        result: Result<OpResult, StorageFault>,
    ) {
        let index = self
            .segment_at(base)
            .and_then(|segment| segment.memory_mut());
        match (result, index) {
            (Ok(_), Some(index)) => index.cut_completed(kind, generation),
            // A file that could not be created needs no cut.
            (Err(fault), index) if fault.kind == FaultKind::NotFound => {
                if let Some(index) = index {
                    index.cut_void(kind, generation);
                }
            }
            (Err(fault), _) => self.go_offline(cx, path, None, OfflineReason::Fault(fault)),
            (Ok(_), None) => {}
        }
    }

    pub(super) fn on_file_opened(
        &mut self,
        cx: &mut LogContext<'_>,
        base: Offset,
        kind: FileKind,
        create: bool,
        result: Result<OpResult, StorageFault>,
    ) {
        let dir = self.dir.clone();
        let Some(segment) = self.segment_at(base) else {
            return;
        };
        match result {
            Ok(_) if create => self.flush.dir_changed(),
            Ok(_) => {}
            Err(fault) => {
                let path = segment.path(&dir, kind);
                segment.handle_mut(kind).id = None;
                // An index that is gone fails the operation behind it, which then writes or builds it again.
                if create && kind == FileKind::Log {
                    if let Some(at) = self.first_write_to(base) {
                        self.undo(cx, at, fault);
                    }
                } else if kind == FileKind::Log {
                    let reason = match fault.kind {
                        FaultKind::NotFound => OfflineReason::Missing,
                        FaultKind::NoSpace | FaultKind::Denied | FaultKind::Io => {
                            OfflineReason::Fault(fault)
                        }
                    };
                    self.go_offline(cx, path, None, reason);
                }
            }
        }
    }
}
