//! The checkpoint files of a log directory, each replaced atomically, one replacement of each at a time.

use bytes::Bytes;

use super::files;
use crate::storage::{AtomicFile, Completion, FilePath, OpId, Owner, StorageFault, StorageQueue};

/// One of the checkpoint files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckpointKind {
    /// Recovery points.
    RecoveryPoint,
    /// Log starts.
    LogStart,
    /// High watermarks.
    HighWatermark,
    /// The clean-shutdown marker: not a checkpoint, but written in the same way, last.
    CleanShutdown,
    /// `meta.properties`: written once, and again when the cluster has a name.
    MetaProperties,
}

impl CheckpointKind {
    /// Returns the file's name.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::RecoveryPoint => files::RECOVERY_POINT,
            Self::LogStart => files::LOG_START,
            Self::HighWatermark => files::HIGH_WATERMARK,
            Self::CleanShutdown => files::CLEAN_SHUTDOWN,
            Self::MetaProperties => files::META_PROPERTIES,
        }
    }
}

/// Writes checkpoint files.
#[derive(Debug)]
pub struct Checkpoints {
    owner: Owner,
    root: FilePath,
    writing: Vec<(CheckpointKind, AtomicFile)>,
}

impl Checkpoints {
    /// Makes a writer for one log directory.
    #[must_use]
    pub const fn new(owner: Owner, root: FilePath) -> Self {
        Self {
            owner,
            root,
            writing: Vec::new(),
        }
    }

    /// Returns whether a file is being replaced.
    #[must_use]
    pub fn is_writing(&self, kind: CheckpointKind) -> bool {
        self.writing.iter().any(|(writing, _)| *writing == kind)
    }

    /// Starts to replace a file; does nothing if that is under way.
    pub fn write(&mut self, storage: &mut StorageQueue, kind: CheckpointKind, content: Bytes) {
        if self.is_writing(kind) {
            return;
        }
        let path = self.root.join(kind.file_name());
        let file = AtomicFile::start(storage, self.owner, path, content);
        self.writing.push((kind, file));
    }

    /// Writes the first `meta.properties` of a new directory. Nothing in there rests on it before it is durable, so a torn one
    /// is known for what it is.
    pub fn write_identity(&mut self, storage: &mut StorageQueue, content: Bytes) {
        let kind = CheckpointKind::MetaProperties;
        let path = self.root.join(kind.file_name());
        let file = AtomicFile::start_first(storage, self.owner, path, content);
        self.writing.push((kind, file));
    }

    /// Returns whether a completion belongs here.
    #[must_use]
    pub fn awaits(&self, id: OpId) -> bool {
        self.writing.iter().any(|(_, file)| file.awaits(id))
    }

    /// Takes a completion; returns the file that is durably replaced now.
    ///
    /// # Errors
    /// Names the file that could not be replaced, and why.
    pub fn on_completion(
        &mut self,
        storage: &mut StorageQueue,
        completion: Completion,
    ) -> Result<Option<CheckpointKind>, (CheckpointKind, StorageFault)> {
        let Some(at) = self
            .writing
            .iter()
            .position(|(_, file)| file.awaits(completion.id))
        else {
            return Ok(None);
        };
        let (kind, file) = &mut self.writing[at];
        let kind = *kind;
        match file.on_completion(storage, completion) {
            Ok(false) => Ok(None),
            Ok(true) => {
                self.writing.swap_remove(at);
                Ok(Some(kind))
            }
            Err(fault) => {
                self.writing.swap_remove(at);
                Err((kind, fault))
            }
        }
    }
}
