//! Writing `leader-epoch-checkpoint`: a new file beside the old one, synced, renamed over it, folder synced.

use crate::{
    event::OfflineReason,
    ids::{Epoch, Offset},
    storage::{
        FaultKind, FileId, FileOp, Generation, OpResult, StorageFault, SyncTarget, WriteData,
    },
};

use super::{
    checkpoint::encode_epochs,
    epoch_cache::EpochCache,
    event::{LogContext, LogEvent},
    machine::{Log, Pending, State},
};

/// The file's name.
pub(super) const EPOCH_FILE: &str = "leader-epoch-checkpoint";
const EPOCH_FILE_NEW: &str = "leader-epoch-checkpoint.tmp";

/// How far the table on disk is.
#[derive(Debug, Default)]
pub(super) struct EpochFile {
    /// The table that is durable.
    durable: Vec<(Epoch, Offset)>,
    /// The table being written.
    writing: Option<Writing>,
    /// The last attempt failed for want of space, or the table changed while another was being written.
    is_stale: bool,
}

#[derive(Debug)]
struct Writing {
    entries: Vec<(Epoch, Offset)>,
    file: FileId,
    step: Step,
    outstanding: u32,
    dir_changes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Write,
    Sync,
    Rename,
    SyncDir,
}

impl EpochFile {
    /// Takes over the table that was read from the file.
    pub(super) fn loaded(&mut self, entries: Vec<(Epoch, Offset)>) {
        self.durable = entries;
    }

    /// Returns where the first epoch begins that the durable table does not have.
    pub(super) fn first_unrecorded(&self, cache: &EpochCache) -> Option<Offset> {
        let is_known = |entry: &&(Epoch, Offset)| {
            self.durable
                .binary_search_by_key(&entry.0, |known| known.0)
                .is_ok_and(|at| self.durable[at].1 <= entry.1)
        };
        let unknown = cache.entries().iter().find(|entry| !is_known(entry))?;
        Some(unknown.1)
    }

    /// Returns whether the durable table is the one that was last asked for.
    pub(super) const fn is_idle(&self) -> bool {
        self.writing.is_none() && !self.is_stale
    }

    /// Returns the latest durable epoch.
    pub(super) fn durable_epoch(&self) -> Option<Epoch> {
        self.durable.last().map(|(epoch, _)| *epoch)
    }
}

impl Log {
    /// Notes that this broker leads, or follows, in `epoch` from the log end on (KIP-101).
    ///
    /// Recorded at the moment of becoming leader, even when the epoch stays empty; [`LogEvent::EpochRecorded`] says when
    /// it is durable.
    pub fn assign_epoch(&mut self, cx: &mut LogContext<'_>, epoch: Epoch) {
        if !matches!(self.state, State::Open) {
            return;
        }
        if self.epochs.latest().is_some_and(|latest| latest >= epoch) {
            self.say_recorded(cx);
            return;
        }
        if self.epochs.assign(epoch, self.end) {
            self.write_epochs(cx);
        }
    }

    /// Returns whether every epoch is durable in the checkpoint file.
    #[must_use]
    pub fn epochs_recorded(&self) -> bool {
        self.epoch_file.first_unrecorded(&self.epochs).is_none()
    }

    /// Writes the present table, after the one being written.
    pub(super) fn write_epochs(&mut self, cx: &mut LogContext<'_>) {
        self.epoch_file.is_stale = true;
        self.retry_epochs(cx);
    }

    /// Writes the table if the file does not have it.
    pub(super) fn retry_epochs(&mut self, cx: &mut LogContext<'_>) {
        if self.epoch_file.writing.is_some()
            || !self.epoch_file.is_stale
            || !matches!(self.state, State::Open)
        {
            return;
        }
        self.epoch_file.is_stale = false;
        let file = cx.storage.new_file();
        let entries = self.epochs.entries().to_vec();
        let text = encode_epochs(&entries);
        self.epoch_file.writing = Some(Writing {
            entries,
            file,
            step: Step::Write,
            outstanding: 3,
            dir_changes: 0,
        });
        let open = FileOp::Open {
            file,
            path: self.dir.join(EPOCH_FILE_NEW),
            create: true,
        };
        let write = FileOp::Write {
            file,
            at: 0,
            data: WriteData::from_body(text.into_bytes().into()),
        };
        self.submit(cx.storage, open, Pending::Epochs);
        self.submit(
            cx.storage,
            FileOp::Truncate { file, len: 0 },
            Pending::Epochs,
        );
        self.submit(cx.storage, write, Pending::Epochs);
    }

    pub(super) fn on_epoch_step(
        &mut self,
        cx: &mut LogContext<'_>,
        result: Result<OpResult, StorageFault>,
    ) {
        let path = self.dir.join(EPOCH_FILE);
        let Some(writing) = self.epoch_file.writing.as_mut() else {
            return;
        };
        if let Err(fault) = result {
            let step = writing.step;
            // What else is in flight of this attempt completes unknown to us.
            self.epoch_file.writing = None;
            self.epoch_file.is_stale = true;
            self.pending
                .retain(|_, pending| !matches!(pending, Pending::Epochs));
            match step {
                Step::Sync | Step::SyncDir => self.sync_failed(cx, path, fault),
                Step::Write | Step::Rename if fault.kind == FaultKind::NoSpace => {}
                Step::Write | Step::Rename => {
                    self.go_offline(cx, path, None, OfflineReason::Fault(fault));
                }
            }
            return;
        }
        writing.outstanding = writing.outstanding.saturating_sub(1);
        if writing.outstanding > 0 {
            return;
        }
        writing.outstanding = 1;
        let file = writing.file;
        let op = match writing.step {
            Step::Write => {
                writing.step = Step::Sync;
                FileOp::Sync {
                    files: vec![SyncTarget {
                        file,
                        generation: Generation::default(),
                    }],
                    dirs: Vec::new(),
                }
            }
            Step::Sync => {
                writing.step = Step::Rename;
                FileOp::Rename {
                    from: self.dir.join(EPOCH_FILE_NEW),
                    to: path,
                }
            }
            Step::Rename => {
                writing.step = Step::SyncDir;
                writing.dir_changes = self.flush.dir_changes();
                FileOp::Sync {
                    files: Vec::new(),
                    dirs: vec![self.dir.clone()],
                }
            }
            Step::SyncDir => {
                self.epochs_written(cx, file);
                return;
            }
        };
        self.submit(cx.storage, op, Pending::Epochs);
    }

    fn epochs_written(&mut self, cx: &mut LogContext<'_>, file: FileId) {
        self.submit(cx.storage, FileOp::Close { file }, Pending::Ignored);
        if let Some(writing) = self.epoch_file.writing.take() {
            self.epoch_file.durable = writing.entries;
            self.flush.dir_synced(writing.dir_changes);
        }
        self.say_recorded(cx);
        self.retry_epochs(cx);
        self.poll_close(cx);
    }

    fn say_recorded(&self, cx: &mut LogContext<'_>) {
        if let Some(epoch) = self.epoch_file.durable_epoch() {
            cx.events.push(LogEvent::EpochRecorded { epoch });
        }
    }
}
