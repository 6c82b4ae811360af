//! File operations and their completions.

use std::fmt;

use bytes::Bytes;

use super::{FileId, FilePath, Generation, OpId, WriteData};

/// An operation together with the id under which it will complete.
#[derive(Clone, Debug)]
pub struct StorageOp {
    /// Where the completion goes.
    pub id: OpId,
    /// What to do.
    pub op: FileOp,
}

/// What a driver can do with files. It never interprets a byte.
#[derive(Clone, Debug)]
pub enum FileOp {
    /// Lists the entries of a folder, in any order; [`FaultKind::NotFound`] when it does not exist.
    List {
        /// The folder.
        dir: FilePath,
    },
    /// Creates a folder; fine if it exists. Its parent must exist.
    CreateDir {
        /// The folder.
        dir: FilePath,
    },
    /// Binds `file` to a path and answers with the file's length.
    Open {
        /// The id by which later operations name the file.
        file: FileId,
        /// Where it is.
        path: FilePath,
        /// Whether to create it when missing; else [`FaultKind::NotFound`].
        create: bool,
    },
    /// Writes bytes at a position; a gap before it reads as zeros. All bytes are written or the operation fails.
    Write {
        /// The file.
        file: FileId,
        /// Position of the first byte.
        at: u64,
        /// The bytes.
        data: WriteData,
    },
    /// Reads bytes; fewer than asked for only at the end of the file.
    Read {
        /// The file.
        file: FileId,
        /// Position of the first byte.
        at: u64,
        /// How many at most.
        len: u32,
    },
    /// Cuts or extends (with zeros) the file to a length.
    Truncate {
        /// The file.
        file: FileId,
        /// Its new length.
        len: u64,
    },
    /// Makes files' contents and lengths, and folders' entries, durable; fails as a whole if any part fails.
    Sync {
        /// The files.
        files: Vec<SyncTarget>,
        /// The folders whose entries must survive.
        dirs: Vec<FilePath>,
    },
    /// Renames a file or folder, replacing a file at the destination. Open files below it stay bound.
    Rename {
        /// The present path.
        from: FilePath,
        /// The new path, in the same log directory.
        to: FilePath,
    },
    /// Removes a file; open ids of it can still be read until closed. [`FaultKind::NotFound`] when missing.
    Remove {
        /// The file.
        path: FilePath,
    },
    /// Removes a folder with all it holds; fine if missing.
    RemoveDir {
        /// The folder.
        dir: FilePath,
    },
    /// Forgets a file id.
    Close {
        /// The file.
        file: FileId,
    },
}

impl FileOp {
    /// Returns the one file whose content an operation reads or changes; a sync has many, and a folder's operation none.
    #[must_use]
    pub const fn file(&self) -> Option<FileId> {
        match self {
            Self::Open { file, .. }
            | Self::Write { file, .. }
            | Self::Read { file, .. }
            | Self::Truncate { file, .. }
            | Self::Close { file } => Some(*file),
            Self::List { .. }
            | Self::CreateDir { .. }
            | Self::Sync { .. }
            | Self::Rename { .. }
            | Self::Remove { .. }
            | Self::RemoveDir { .. } => None,
        }
    }
}

/// A file to sync, and the generation for which the caller counts the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncTarget {
    /// The file.
    pub file: FileId,
    /// Its generation when the sync was submitted.
    pub generation: Generation,
}

/// The end of an operation.
#[derive(Clone, Debug)]
pub struct Completion {
    /// Which operation.
    pub id: OpId,
    /// How it ended.
    pub result: Result<OpResult, StorageFault>,
}

/// What a successful operation answers with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpResult {
    /// Nothing but success.
    Done,
    /// Entries of a listed folder.
    Listing(Vec<DirEntry>),
    /// Length of the opened file.
    Opened {
        /// Bytes in the file.
        len: u64,
    },
    /// Bytes read.
    Data(Bytes),
}

impl OpResult {
    /// Returns the bytes of a read; empty for any other operation.
    #[must_use]
    pub fn into_data(self) -> Bytes {
        match self {
            Self::Data(bytes) => bytes,
            Self::Done | Self::Listing(_) | Self::Opened { .. } => super::EMPTY,
        }
    }
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name within the folder.
    pub name: String,
    /// File or folder.
    pub kind: EntryKind,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file of this many bytes.
    File {
        /// Its length.
        len: u64,
    },
    /// A folder.
    Dir,
}

/// The world failed an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageFault {
    /// In what way.
    pub kind: FaultKind,
    /// The operating system's error number, 0 when there is none.
    pub os_code: i32,
}

impl StorageFault {
    /// Makes a fault without an error number of the operating system.
    #[must_use]
    pub const fn new(kind: FaultKind) -> Self {
        Self { kind, os_code: 0 }
    }
}

/// Ways in which storage fails, as far as the core decides by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The file or folder does not exist.
    NotFound,
    /// No space left, or a quota reached.
    NoSpace,
    /// No permission, or a read-only file system.
    Denied,
    /// Anything else: the device failed.
    Io,
}

impl fmt::Display for StorageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            FaultKind::NotFound => "no such file or folder",
            FaultKind::NoSpace => "no space left",
            FaultKind::Denied => "permission denied or read-only file system",
            FaultKind::Io => "input/output error",
        })?;
        if self.os_code != 0 {
            write!(f, " (os error {})", self.os_code)?;
        }
        Ok(())
    }
}
