//! Deleting segments from the front, and whole logs.
//!
//! A segment leaves in stages, each complete before the next: the log start is moved; if all segments go, an empty one
//! takes their place and its entry is synced; the files are renamed to `.deleted`; the folder is synced; after
//! `file.delete.delay.ms` the files are removed. Whatever subset of one stage a power loss keeps, a `.deleted` file tells
//! recovery that all segments up to it are gone.

use crate::{
    event::OfflineReason,
    ids::{Offset, Uuid},
    storage::{FaultKind, FileId, FileOp, FilePath, OpResult, StorageFault},
    time::Instant,
};

use super::{
    event::{LogContext, LogEvent, ReadError},
    machine::{Log, Pending, State},
    segment::{FileKind, Segment, file_name},
};

/// Segments, or a folder, on their way out.
#[derive(Debug)]
pub(super) struct Deletion {
    stage: Stage,
    outstanding: u32,
    /// Base offsets of the segments; none when the folder goes.
    segments: Vec<Offset>,
    files: Vec<FileId>,
    dir_changes: u64,
    due: Option<Instant>,
    /// The folder, renamed.
    folder: Option<FilePath>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The segment that takes their place is synced.
    Successor,
    Rename,
    Sync,
    Delay,
    Remove,
}

impl Deletion {
    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }
}

impl Log {
    /// Deletes the first `count` segments, which lie wholly below the log start.
    pub(super) fn delete_front(&mut self, cx: &mut LogContext<'_>, count: usize) {
        if count == 0 {
            return;
        }
        if count == self.segments.len() {
            if self.segments.last().is_some_and(|last| last.size == 0) {
                return self.delete_front(cx, count - 1);
            }
            // The log end must not vanish with the last segment.
            self.seal(cx, count - 1);
            let end = self.end;
            self.create_segment(cx, end);
        }
        let gone: Vec<_> = self.segments.drain(..count).collect();
        let first_kept = self
            .segments
            .first()
            .map_or(self.end, |segment| segment.base);
        self.tail.drop_before(first_kept);
        self.known.retain(|(_, segment, _)| *segment >= first_kept);
        self.in_flight.retain(|write| write.segment() >= first_kept);
        let files = gone
            .iter()
            .flat_map(|segment| FileKind::ALL.map(|kind| segment.handle(kind).id))
            .flatten()
            .collect();
        let deletion = Deletion {
            stage: Stage::Successor,
            outstanding: 0,
            segments: gone.iter().map(|segment| segment.base).collect(),
            files,
            dir_changes: 0,
            due: None,
            folder: None,
        };
        let id = self.new_job();
        self.advance_deletion(cx, id, deletion);
    }

    fn advance_deletion(&mut self, cx: &mut LogContext<'_>, id: u64, mut deletion: Deletion) {
        while deletion.outstanding == 0 {
            match deletion.stage {
                Stage::Successor if self.is_successor_unsynced() => {
                    self.sync_folder(cx, id, &mut deletion);
                    break;
                }
                Stage::Successor => {
                    deletion.stage = Stage::Rename;
                    self.rename_segments(cx, id, &mut deletion);
                }
                Stage::Rename => {
                    deletion.stage = Stage::Sync;
                    self.sync_folder(cx, id, &mut deletion);
                }
                Stage::Sync => {
                    deletion.stage = Stage::Delay;
                    let delay = self.config.file_delete_delay_ms;
                    deletion.due = Some(cx.now.instant.plus_millis(delay));
                    if deletion.folder.is_some() {
                        cx.events.push(LogEvent::Unlinked);
                    }
                    break;
                }
                Stage::Delay => break,
                Stage::Remove => return self.deletion_done(cx, &deletion),
            }
        }
        self.deletions.insert(id, deletion);
    }

    /// Returns whether the entry of the first segment that stays may still be lost.
    fn is_successor_unsynced(&self) -> bool {
        let is_opening = |segment: &Segment| self.is_opening(segment.base);
        matches!(self.state, State::Open)
            && (!self.flush.dir_is_synced() || self.segments.first().is_some_and(is_opening))
    }

    fn is_opening(&self, base: Offset) -> bool {
        self.pending.values().any(|pending| {
            matches!(pending, Pending::Opened { segment, kind: FileKind::Log, .. } if *segment == base)
        })
    }

    fn sync_folder(&mut self, cx: &mut LogContext<'_>, id: u64, deletion: &mut Deletion) {
        deletion.outstanding = 1;
        deletion.dir_changes = self.flush.dir_changes();
        let dir = if deletion.folder.is_some() {
            self.dir.parent()
        } else {
            self.dir.clone()
        };
        let sync = FileOp::Sync {
            files: Vec::new(),
            dirs: vec![dir],
        };
        self.submit(cx.storage, sync, Pending::Deletion(id));
    }

    fn rename_segments(&mut self, cx: &mut LogContext<'_>, id: u64, deletion: &mut Deletion) {
        for base in &deletion.segments {
            for kind in FileKind::ALL {
                let name = file_name(*base, kind);
                let rename = FileOp::Rename {
                    from: self.dir.join(&name),
                    to: self.dir.join(&format!("{name}.deleted")),
                };
                deletion.outstanding += 1;
                self.submit(cx.storage, rename, Pending::Deletion(id));
            }
        }
    }

    pub(super) fn on_deletion_step(
        &mut self,
        cx: &mut LogContext<'_>,
        id: u64,
        result: Result<OpResult, StorageFault>,
    ) {
        let Some(mut deletion) = self.deletions.remove(&id) else {
            return;
        };
        deletion.outstanding = deletion.outstanding.saturating_sub(1);
        let dir = self.dir.clone();
        match (result, deletion.stage) {
            (Ok(_), Stage::Successor | Stage::Sync) if deletion.folder.is_none() => {
                self.flush.dir_synced(deletion.dir_changes);
            }
            (Ok(_), _) => {}
            (Err(fault), _) if fault.kind == FaultKind::NotFound => {}
            (Err(fault), Stage::Successor | Stage::Sync) => {
                return self.sync_failed(cx, dir, fault);
            }
            (Err(fault), Stage::Rename | Stage::Delay | Stage::Remove) => {
                return self.go_offline(cx, dir, None, OfflineReason::Fault(fault));
            }
        }
        self.advance_deletion(cx, id, deletion);
    }

    /// Removes what has been `.deleted` for long enough.
    pub(super) fn run_due_deletions(&mut self, cx: &mut LogContext<'_>) {
        let is_due = |deletion: &Deletion| deletion.due.is_some_and(|due| due <= cx.now.instant);
        let due: Vec<u64> = self
            .deletions
            .iter()
            .filter(|(_, deletion)| is_due(deletion))
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            let Some(mut deletion) = self.deletions.remove(&id) else {
                continue;
            };
            deletion.due = None;
            deletion.stage = Stage::Remove;
            for file in std::mem::take(&mut deletion.files) {
                self.submit(cx.storage, FileOp::Close { file }, Pending::Ignored);
            }
            let mut ops = Vec::new();
            if let Some(dir) = deletion.folder.clone() {
                ops.push(FileOp::RemoveDir { dir });
            }
            for base in &deletion.segments {
                for kind in FileKind::ALL {
                    let name = format!("{}.deleted", file_name(*base, kind));
                    ops.push(FileOp::Remove {
                        path: self.dir.join(&name),
                    });
                }
            }
            for op in ops {
                deletion.outstanding += 1;
                self.submit(cx.storage, op, Pending::Deletion(id));
            }
            self.advance_deletion(cx, id, deletion);
        }
    }

    fn deletion_done(&mut self, cx: &mut LogContext<'_>, deletion: &Deletion) {
        if deletion.folder.is_some() {
            self.state = State::Deleted;
            cx.events.push(LogEvent::Deleted);
        }
    }

    /// Deletes the whole log: its folder is renamed to `<topic>-<partition>.<id>-delete`, then removed after
    /// `file.delete.delay.ms`; [`LogEvent::Deleted`] says when. Works on a closed and on an offline log too.
    ///
    /// The host removes folders of this form that it finds at start.
    pub fn delete(&mut self, cx: &mut LogContext<'_>) {
        if matches!(self.state, State::Deleting | State::Deleted) {
            return;
        }
        self.state = State::Deleting;
        self.pending.clear();
        self.in_flight.clear();
        self.deletions.clear();
        self.retention = None;
        self.fail_jobs(cx, ReadError::Offline);
        let files = self
            .segments
            .iter()
            .flat_map(|segment| FileKind::ALL.map(|kind| segment.handle(kind).id))
            .flatten()
            .collect();
        let to = self.dir.parent().join(&self.delete_name());
        let id = self.new_job();
        let deletion = Deletion {
            stage: Stage::Rename,
            outstanding: 1,
            segments: Vec::new(),
            files,
            dir_changes: 0,
            due: None,
            folder: Some(to.clone()),
        };
        self.segments.clear();
        self.tail.clear();
        self.kept.clear();
        self.known.clear();
        let from = self.dir.clone();
        self.submit(
            cx.storage,
            FileOp::Rename { from, to },
            Pending::Deletion(id),
        );
        self.deletions.insert(id, deletion);
    }

    /// Kafka's name for the folder of a deleted partition, at most 255 characters.
    fn delete_name(&self) -> String {
        let Uuid(id) = self.topic_id.unwrap_or(Uuid::ZERO);
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let suffix = format!("-{}.{hex}-delete", self.partition.partition);
        let topic = self.partition.topic.as_str();
        let room = 255_usize.saturating_sub(suffix.len());
        let kept = topic.get(..room.min(topic.len())).unwrap_or(topic);
        format!("{kept}{suffix}")
    }
}
