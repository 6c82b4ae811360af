//! Replaces a small file so that a crash leaves the old content or the new, never a mixture and never neither.

use bytes::Bytes;

use super::{Completion, SyncTarget, WriteData};
use super::{FileId, FileOp, FilePath, Generation, OpId, Owner, StorageFault, StorageQueue};

/// The replacement of one file: write `<name>.tmp`, sync it, rename it over the file, sync the folder.
///
/// The owner feeds completions in until [`AtomicFile::on_completion`] says that the new content is durable.
#[derive(Debug)]
pub struct AtomicFile {
    owner: Owner,
    path: FilePath,
    temporary: FilePath,
    content: Bytes,
    file: FileId,
    is_first: bool,
    step: Step,
    waiting_for: OpId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Open,
    Cut,
    Write,
    Sync,
    Rename,
    SyncDir,
    Done,
}

impl AtomicFile {
    /// Starts to replace `path` by `content`.
    pub fn start(storage: &mut StorageQueue, owner: Owner, path: FilePath, content: Bytes) -> Self {
        let temporary = Self::temporary(&path);
        Self::start_under(storage, owner, path, temporary, content)
    }

    /// Starts to replace `path` by `content`, which is prepared under the name `temporary` in the same folder.
    pub fn start_under(
        storage: &mut StorageQueue,
        owner: Owner,
        path: FilePath,
        temporary: FilePath,
        content: Bytes,
    ) -> Self {
        let file = storage.new_file();
        let open = FileOp::Open {
            file,
            path: temporary.clone(),
            create: true,
        };
        let waiting_for = storage.submit(owner, open);
        Self {
            owner,
            path,
            temporary,
            content,
            file,
            is_first: false,
            step: Step::Open,
            waiting_for,
        }
    }

    /// Starts to write `path` where there is no such file yet, with one sync of file and folder together instead of two in a row.
    ///
    /// A crash leaves no file, or one that is empty or torn: whoever reads it must take that for none, and may do so only
    /// where nothing rests on the file yet.
    pub fn start_first(
        storage: &mut StorageQueue,
        owner: Owner,
        path: FilePath,
        content: Bytes,
    ) -> Self {
        let mut first = Self::start_under(storage, owner, path.clone(), path, content);
        first.is_first = true;
        first
    }

    /// Returns the name under which new content is prepared; a leftover of it means nothing.
    #[must_use]
    pub fn temporary(path: &FilePath) -> FilePath {
        path.parent().join(&format!("{}.tmp", path.name()))
    }

    /// Returns whether a completion belongs to this replacement.
    #[must_use]
    pub fn awaits(&self, id: OpId) -> bool {
        self.waiting_for == id
    }

    /// Returns the file being replaced.
    #[must_use]
    pub const fn path(&self) -> &FilePath {
        &self.path
    }

    /// Takes the completion of the current step and submits the next; `Ok(true)` once the content is durable.
    ///
    /// # Errors
    /// Returns the fault that stopped the replacement; the old content is still in place or already replaced.
    pub fn on_completion(
        &mut self,
        storage: &mut StorageQueue,
        completion: Completion,
    ) -> Result<bool, StorageFault> {
        debug_assert_eq!(
            self.waiting_for, completion.id,
            "a completion of somebody else"
        );
        completion.result?;
        let (next, op) = match self.step {
            // A leftover may be longer than the new content.
            Step::Open => (
                Step::Cut,
                FileOp::Truncate {
                    file: self.file,
                    len: 0,
                },
            ),
            Step::Cut => {
                let data = WriteData::from_body(self.content.clone());
                (
                    Step::Write,
                    FileOp::Write {
                        file: self.file,
                        at: 0,
                        data,
                    },
                )
            }
            Step::Write => (Step::Sync, self.sync()),
            Step::Sync if self.is_first => {
                storage.submit(Owner::NOBODY, FileOp::Close { file: self.file });
                self.step = Step::Done;
                return Ok(true);
            }
            Step::Sync => {
                storage.submit(Owner::NOBODY, FileOp::Close { file: self.file });
                (
                    Step::Rename,
                    FileOp::Rename {
                        from: self.temporary.clone(),
                        to: self.path.clone(),
                    },
                )
            }
            Step::Rename => (
                Step::SyncDir,
                FileOp::Sync {
                    files: vec![],
                    dirs: vec![self.path.parent()],
                },
            ),
            Step::SyncDir | Step::Done => {
                self.step = Step::Done;
                return Ok(true);
            }
        };
        self.step = next;
        self.waiting_for = storage.submit(self.owner, op);
        Ok(false)
    }

    fn sync(&self) -> FileOp {
        let target = SyncTarget {
            file: self.file,
            generation: Generation::default(),
        };
        let folder = self.is_first.then(|| self.path.parent());
        FileOp::Sync {
            files: vec![target],
            dirs: folder.into_iter().collect(),
        }
    }
}

/// The reading of one small file as a whole.
#[derive(Debug)]
pub struct ReadFile {
    owner: Owner,
    file: FileId,
    waiting_for: OpId,
    reading: bool,
    len_max: u32,
}

/// How the reading of a small file went on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadProgress {
    /// Another completion is needed.
    Pending,
    /// The file does not exist.
    Missing,
    /// The file is larger than any valid one.
    TooLarge,
    /// The whole content.
    Content(Bytes),
}

impl ReadFile {
    /// Starts to read `path`, of at most `len_max` bytes.
    pub fn start(storage: &mut StorageQueue, owner: Owner, path: FilePath, len_max: u32) -> Self {
        let file = storage.new_file();
        let waiting_for = storage.submit(
            owner,
            FileOp::Open {
                file,
                path,
                create: false,
            },
        );
        Self {
            owner,
            file,
            waiting_for,
            reading: false,
            len_max,
        }
    }

    /// Returns whether a completion belongs to this reading.
    #[must_use]
    pub fn awaits(&self, id: OpId) -> bool {
        self.waiting_for == id
    }

    /// Takes the completion of the current step.
    ///
    /// # Errors
    /// Returns the fault of the storage; a missing file is a result, not a fault.
    pub fn on_completion(
        &mut self,
        storage: &mut StorageQueue,
        completion: Completion,
    ) -> Result<ReadProgress, StorageFault> {
        use super::{FaultKind, OpResult};
        if self.reading {
            storage.submit(Owner::NOBODY, FileOp::Close { file: self.file });
            return completion
                .result
                .map(|result| ReadProgress::Content(result.into_data()));
        }
        match completion.result {
            Ok(OpResult::Opened { len }) => match u32::try_from(len) {
                Ok(len) if len <= self.len_max => {
                    self.reading = true;
                    let read = FileOp::Read {
                        file: self.file,
                        at: 0,
                        len,
                    };
                    self.waiting_for = storage.submit(self.owner, read);
                    Ok(ReadProgress::Pending)
                }
                _ => {
                    storage.submit(Owner::NOBODY, FileOp::Close { file: self.file });
                    Ok(ReadProgress::TooLarge)
                }
            },
            Err(StorageFault {
                kind: FaultKind::NotFound,
                ..
            }) => Ok(ReadProgress::Missing),
            Err(fault) => Err(fault),
            Ok(OpResult::Done | OpResult::Listing(_) | OpResult::Data(_)) => {
                Err(StorageFault::new(FaultKind::Io))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{LogDirId, OpResult};

    #[test]
    fn content_is_synced_before_the_rename_and_the_folder_after_it() {
        let mut storage = StorageQueue::default();
        let path = FilePath::root(LogDirId(0)).join("meta.properties");
        let content = Bytes::from_static(b"version=1\n");
        let mut replace = AtomicFile::start(&mut storage, Owner(7), path, content);
        let mut seen = Vec::new();
        loop {
            let Some(op) = storage.pop() else { break };
            seen.push(match op.op {
                FileOp::Open { .. } => "open",
                FileOp::Truncate { .. } => "cut",
                FileOp::Write { .. } => "write",
                FileOp::Sync { ref files, .. } if !files.is_empty() => "sync file",
                FileOp::Sync { .. } => "sync folder",
                FileOp::Rename { .. } => "rename",
                FileOp::Close { .. } => "close",
                _ => "other",
            });
            if replace.awaits(op.id) {
                let completion = Completion {
                    id: op.id,
                    result: Ok(OpResult::Done),
                };
                if replace
                    .on_completion(&mut storage, completion)
                    .expect("no fault was injected")
                {
                    seen.push("durable");
                }
            }
        }
        let order = [
            "open",
            "cut",
            "write",
            "sync file",
            "close",
            "rename",
            "sync folder",
            "durable",
        ];
        assert_eq!(seen, order);
    }
}
