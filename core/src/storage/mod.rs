//! The storage boundary: the core decides every byte on disk, a driver only performs [`FileOp`]s.
//!
//! A machine submits operations to the [`StorageQueue`]; the broker hands them to its driver as outputs and routes each
//! [`Completion`] back to the machine that owns it. What the host must guarantee, in production and in simulation alike:
//!
//! 1. Operations on one file take effect in the order of their submission, and complete in that order. A [`FileOp::Sync`]
//!    stands outside this order: what follows it does not wait for it.
//! 2. Operations on different files, or on folders, are not ordered. A machine that needs an order waits for a completion.
//! 3. A [`FileOp::Sync`] makes durable at least what had *completed* on the named files before it was submitted, and the
//!    entries (creations, renames, removals) of the named folders that had completed before it. Nothing else is durable:
//!    not even the existence of a file whose folder was never synced.
//! 4. Every operation completes exactly once, with its result or with a [`StorageFault`]. It may take any time.
//! 5. After a failed `Sync` the host has forgotten which bytes are durable; the core gives up that log directory.

use std::{collections::VecDeque, fmt, sync::Arc};

use bytes::Bytes;

mod atomic_file;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod op;
mod part;

pub use atomic_file::{AtomicFile, ReadFile, ReadProgress};
pub use op::{
    Completion, DirEntry, EntryKind, FaultKind, FileOp, OpResult, StorageFault, StorageOp,
    SyncTarget,
};
pub use part::{FileRange, Frame, Head, Part, WriteData};

/// One of the broker's data directories (`log.dirs`), by its position in the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogDirId(pub u16);

/// A file or folder below a log directory; cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePath {
    dir: LogDirId,
    path: Arc<str>,
}

impl FilePath {
    /// Names the log directory itself.
    #[must_use]
    pub fn root(dir: LogDirId) -> Self {
        Self {
            dir,
            path: Arc::from(""),
        }
    }

    /// Names an entry of this folder.
    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        let path = if self.path.is_empty() {
            Arc::from(name)
        } else {
            Arc::from(format!("{}/{name}", self.path))
        };
        Self {
            dir: self.dir,
            path,
        }
    }

    /// Returns the folder that holds this entry; the root holds itself.
    #[must_use]
    pub fn parent(&self) -> Self {
        let path = self.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        Self {
            dir: self.dir,
            path: Arc::from(path),
        }
    }

    /// Returns the last component, empty for the root.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path
            .rsplit_once('/')
            .map_or(&*self.path, |(_, name)| name)
    }

    /// Returns the log directory.
    #[must_use]
    pub const fn log_dir(&self) -> LogDirId {
        self.dir
    }

    /// Returns the path relative to the log directory, with `/` between components, empty for the root.
    #[must_use]
    pub fn relative(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.path.is_empty() {
            "."
        } else {
            &self.path
        })
    }
}

impl fmt::Debug for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{self}", self.dir.0)
    }
}

/// A file that the core has opened; never reused within one incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

/// How often a file was truncated; a promise about bytes of an earlier generation is void.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u32);

/// The machine that submitted an operation and gets its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u32);

impl Owner {
    /// Nobody waits for the completion: a close, a removal whose failure changes nothing.
    pub const NOBODY: Self = Self(0);
}

/// A submitted operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId {
    /// Who gets the completion.
    pub owner: Owner,
    /// Counts all operations of this incarnation.
    pub seq: u64,
}

/// Operations on their way to the driver, in order.
#[derive(Debug, Default)]
pub struct StorageQueue {
    ops: VecDeque<StorageOp>,
    next_file: u64,
    next_op: u64,
}

impl StorageQueue {
    /// Reserves an id for a file about to be opened.
    pub const fn new_file(&mut self) -> FileId {
        self.next_file += 1;
        FileId(self.next_file)
    }

    /// Submits an operation; its completion goes to `owner`.
    pub fn submit(&mut self, owner: Owner, op: FileOp) -> OpId {
        self.next_op += 1;
        let id = OpId {
            owner,
            seq: self.next_op,
        };
        self.ops.push_back(StorageOp { id, op });
        id
    }

    /// Takes the oldest operation that the driver has not seen yet.
    pub fn pop(&mut self) -> Option<StorageOp> {
        self.ops.pop_front()
    }

    /// Returns whether nothing waits to be handed to the driver.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }
}

/// An empty byte string, for results that carry nothing.
pub(crate) const EMPTY: Bytes = Bytes::new();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_join_and_split_at_slashes() {
        let root = FilePath::root(LogDirId(0));
        let folder = root.join("orders-0");
        let file = folder.join("00000000000000000000.log");
        assert_eq!(file.relative(), "orders-0/00000000000000000000.log");
        assert_eq!(file.parent(), folder);
        assert_eq!(folder.parent(), root);
        assert_eq!(root.parent(), root);
        assert_eq!(file.name(), "00000000000000000000.log");
        assert_eq!(root.name(), "");
    }

    #[test]
    fn operations_leave_in_submission_order() {
        let mut queue = StorageQueue::default();
        let root = FilePath::root(LogDirId(0));
        let first = queue.submit(Owner(1), FileOp::List { dir: root.clone() });
        let second = queue.submit(Owner(2), FileOp::CreateDir { dir: root });
        assert_eq!(queue.pop().map(|op| op.id), Some(first));
        assert_eq!(queue.pop().map(|op| op.id), Some(second));
        assert!(queue.is_empty());
    }
}
