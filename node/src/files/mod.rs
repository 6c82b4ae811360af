//! The file operations of the core, performed on a real file system.
//!
//! What does not block is done at once and completes in the same turn: opening, writing to the page cache, reading what the
//! page cache holds, truncating, renaming, listing. What blocks goes to worker threads: syncs, reads that miss the page cache,
//! removal of whole folders. Operations on one file keep their order across the two: while a worker reads a file, later
//! operations on it wait. A sync stands outside that order, as its contract allows: it covers what had completed before it
//! was submitted, and writes that follow do not wait for it.
//!
//! Where there is nobody to keep waiting the thread itself waits for syncs, which saves two wake-ups of a thread in each: before
//! the node serves anybody, and while only one connection is in use and one file is synced again and again, whose next answer
//! needs the sync anyway. All that are due at the end of a turn are done beside each other.

use std::{
    fs::{self, File},
    io::{self, IoSlice},
    path::PathBuf,
    rc::Rc,
    sync::Arc,
};

use seedlog_core::{
    ids::ConnectionId,
    storage::{
        Completion, DirEntry, EntryKind, FileId, FileOp, FilePath, FileRange, OpId, OpResult,
        StorageFault, StorageOp, WriteData,
    },
};
use tokio::sync::mpsc::UnboundedSender;

mod fault;
mod lock;
mod pending;
mod reading;
mod syncing;
mod table;
mod workers;

pub use lock::LogDirError;
pub(crate) use {fault::fault, reading::fill_cached, table::Cuts, workers::Done};

use crate::shard::Buffers;
use lock::{DirLock, LOCK_FILE};
use pending::{PendingWrites, WAITING_BYTES_MAX, write_all};
use syncing::Usual;
use table::Table;
use workers::{Job, Workers};

/// All files of this process's log directories.
#[derive(Debug)]
pub struct Files {
    table: Table,
    workers: Workers,
    pending: PendingWrites,
    above: FoldersAbove,
    /// Whether clients are served.
    is_serving: bool,
    /// Whether at most one connection is in use.
    is_alone: bool,
    usual: Usual,
    /// Syncs that this thread will wait for, with their files and folders.
    waiting: Vec<(OpId, Vec<Arc<File>>, Vec<PathBuf>)>,
    /// Memory for reads: that of the last one is in the processor's cache, and new memory costs more than the read itself.
    buffers: Buffers,
    _locks: Vec<DirLock>,
}

/// Folders above the log directories that got new entries at the start. Every sync covers them until one that did has succeeded:
/// a file is only as durable as the path that leads to it.
#[derive(Debug, Default)]
struct FoldersAbove {
    unsynced: Vec<PathBuf>,
    syncs: Vec<OpId>,
}

impl FoldersAbove {
    fn on_done(&mut self, completion: &Completion) {
        if self.syncs.contains(&completion.id) && completion.result.is_ok() {
            *self = Self::default();
        }
    }
}

/// A range of a file on its way to a socket. It keeps the file open and remembers whether the file was cut meanwhile.
#[derive(Debug)]
pub(crate) struct OpenRange {
    /// Which file, for the report when it cannot be read.
    pub(crate) id: FileId,
    /// The open file.
    pub(crate) source: Arc<File>,
    /// Position of the next byte to send.
    pub(crate) at: u64,
    /// How many bytes are left.
    pub(crate) left: usize,
    cuts: Rc<Cuts>,
    cuts_seen: u64,
}

impl OpenRange {
    /// Returns whether the bytes left are still those that were promised.
    pub(crate) fn is_intact(&self) -> bool {
        let left = u64::try_from(self.left).unwrap_or(u64::MAX);
        self.cuts.kept(self.cuts_seen, self.at.saturating_add(left))
    }

    /// Passes over bytes that were sent.
    pub(crate) fn advance(&mut self, count: usize) {
        self.at = self
            .at
            .saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        self.left = self.left.saturating_sub(count);
    }
}

impl Files {
    /// Locks the log directories, creating missing ones, and holds at most `open_max` files open while it can.
    ///
    /// Results of work that blocks arrive at `done` and go back in by [`on_done`](Self::on_done).
    pub(crate) fn open(
        dirs: &[PathBuf],
        open_max: usize,
        done: UnboundedSender<Done>,
    ) -> Result<Self, LogDirError> {
        let mut above = FoldersAbove::default();
        let mut locks = Vec::with_capacity(dirs.len());
        for dir in dirs {
            locks.push(DirLock::take(dir, &mut above.unsynced)?);
        }
        let mut workers = Workers::new(done);
        workers.start_few();
        Ok(Self {
            table: Table::new(dirs.to_vec(), open_max),
            workers,
            pending: PendingWrites::default(),
            above,
            is_serving: false,
            is_alone: false,
            usual: Usual::default(),
            waiting: Vec::new(),
            buffers: Buffers::default(),
            _locks: locks,
        })
    }

    /// Drops memory that no read has needed for a while.
    pub(crate) fn shrink(&mut self) {
        self.buffers.shrink();
    }

    /// Notes that clients depend on this thread from now on.
    pub(crate) const fn begin_service(&mut self) {
        self.is_serving = true;
    }

    /// Notes whether at most one connection is in use, which nothing but its own requests can hold up.
    pub(crate) const fn be_alone(&mut self, is_alone: bool) {
        self.is_alone = is_alone;
    }

    /// Performs an operation, or hands it to a worker; what completes at once is appended to `completed`. A write may wait for
    /// others until [`write_pending`](Self::write_pending).
    pub(crate) fn submit(&mut self, op: StorageOp, completed: &mut Vec<Completion>) {
        if let Some(entry) = file_of(&op.op).and_then(|file| self.table.entry(file))
            && entry.busy
        {
            entry.waiting.push_back(op);
            return;
        }
        let StorageOp { id, op } = op;
        match op {
            FileOp::Write { file, at, data } if data.len() <= WAITING_BYTES_MAX => {
                if !self.pending.continues(file, at, &data) {
                    self.write_pending(completed);
                }
                self.pending.push(id, file, at, data);
            }
            op => {
                // Whatever follows a write, on its file or not, finds it done.
                self.write_pending(completed);
                if let Some(result) = self.perform(id, op) {
                    let result = result.map_err(|error| fault(&error));
                    completed.push(Completion { id, result });
                }
            }
        }
    }

    /// Performs writes that wait; their completions are appended.
    pub(crate) fn write_pending(&mut self, completed: &mut Vec<Completion>) {
        self.with_pending(|pending, file| pending.perform(file, completed));
    }

    /// Performs writes that wait, and keeps their completions until [`write_pending`](Self::write_pending).
    pub(crate) fn write_early(&mut self) {
        self.with_pending(PendingWrites::perform_early);
    }

    fn with_pending(&mut self, act: impl FnOnce(&mut PendingWrites, io::Result<&File>)) {
        let Some(file) = self.pending.file() else {
            return;
        };
        let handle = self.table.handle(file);
        if let Some(entry) = self.table.entry(file) {
            entry.dirty = true;
        }
        let handle = handle
            .as_deref()
            .map_err(|error| match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => error.kind().into(),
            });
        act(&mut self.pending, handle);
    }

    /// Notes that a worker ended an operation: its completion is appended, then those of operations that waited for it.
    pub(crate) fn on_done(
        &mut self,
        completion: Completion,
        file: Option<FileId>,
        completed: &mut Vec<Completion>,
    ) {
        self.above.on_done(&completion);
        completed.push(completion);
        let Some(file) = file else { return };
        if let Some(entry) = self.table.entry(file) {
            entry.busy = false;
        }
        while let Some(entry) = self.table.entry(file)
            && !entry.busy
            && let Some(op) = entry.waiting.pop_front()
        {
            // A read that misses the page cache makes the file busy again; the rest waits on in its order.
            self.submit(op, completed);
        }
        self.write_pending(completed);
    }

    /// Pins a range that a frame promised.
    pub(crate) fn resolve(&mut self, range: &FileRange) -> Result<OpenRange, StorageFault> {
        let source = self
            .table
            .handle(range.file)
            .map_err(|error| fault(&error))?;
        let entry = self.table.entry(range.file);
        let cuts = entry.map(|entry| Rc::clone(&entry.cuts));
        let cuts = cuts.ok_or_else(|| fault(&io::ErrorKind::NotFound.into()))?;
        Ok(OpenRange {
            id: range.file,
            source,
            at: range.at,
            left: usize::try_from(range.len).unwrap_or(usize::MAX),
            cuts_seen: cuts.count(),
            cuts,
        })
    }

    /// Has a worker bring bytes into the page cache for a connection.
    pub(crate) fn warm(
        &mut self,
        connection: ConnectionId,
        source: Arc<File>,
        at: u64,
        len: usize,
    ) {
        self.workers.submit([Job::Warm {
            connection,
            source,
            at,
            len,
        }]);
    }

    /// Performs an operation; `None` when a worker does.
    fn perform(&mut self, id: OpId, op: FileOp) -> Option<io::Result<OpResult>> {
        let done = |()| OpResult::Done;
        Some(match op {
            FileOp::List { dir } => self.list(&dir).map(OpResult::Listing),
            FileOp::CreateDir { dir } => self.create_dir(&dir).map(done),
            FileOp::Open { file, path, create } => self
                .table
                .open(file, path, create)
                .map(|len| OpResult::Opened { len }),
            FileOp::Write { file, at, data } => self.write(file, at, &data).map(done),
            FileOp::Read { file, at, len } => return self.read(id, file, at, len),
            FileOp::Truncate { file, len } => self.truncate(file, len).map(done),
            FileOp::Sync { files, dirs } => return self.sync(id, &files, &dirs),
            FileOp::Rename { from, to } => self.rename(&from, &to).map(done),
            FileOp::Remove { path } => self.remove(&path).map(done),
            FileOp::RemoveDir { dir } => return self.remove_dir(id, &dir),
            FileOp::Close { file } => {
                self.table.close(file);
                Ok(OpResult::Done)
            }
        })
    }

    fn list(&self, dir: &FilePath) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(self.table.locate(dir)?)? {
            let entry = entry?;
            // A name that is not text is none of ours, and the core could not ask for it.
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if dir.relative().is_empty() && name == LOCK_FILE {
                continue;
            }
            let metadata = match fs::metadata(entry.path()) {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let kind = if metadata.is_dir() {
                EntryKind::Dir
            } else {
                let len = metadata.len();
                EntryKind::File { len }
            };
            entries.push(DirEntry { name, kind });
        }
        Ok(entries)
    }

    fn create_dir(&self, dir: &FilePath) -> io::Result<()> {
        let place = self.table.locate(dir)?;
        match fs::create_dir(&place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && place.is_dir() => Ok(()),
            result => result,
        }
    }

    fn write(&mut self, file: FileId, at: u64, data: &WriteData) -> io::Result<()> {
        let handle = self.table.handle(file)?;
        if let Some(entry) = self.table.entry(file) {
            entry.dirty = true;
        }
        let slices = &mut [IoSlice::new(data.head.as_slice()), IoSlice::new(&data.body)];
        write_all(&handle, at, slices).1
    }

    fn truncate(&mut self, file: FileId, len: u64) -> io::Result<()> {
        let handle = self.table.handle(file)?;
        if let Some(entry) = self.table.entry(file) {
            entry.dirty = true;
            entry.cuts.cut(len);
        }
        handle.set_len(len)
    }

    fn rename(&mut self, from: &FilePath, to: &FilePath) -> io::Result<()> {
        let (old, new) = (self.table.locate(from)?, self.table.locate(to)?);
        let replaced = self.table.detach(to);
        fs::rename(old, new)?;
        if from != to {
            self.table.removed(&replaced);
            self.table.renamed(from, to);
        }
        Ok(())
    }

    fn remove(&mut self, path: &FilePath) -> io::Result<()> {
        let place = self.table.locate(path)?;
        let ids = self.table.detach(path);
        fs::remove_file(place)?;
        self.table.removed(&ids);
        Ok(())
    }

    fn remove_dir(&mut self, id: OpId, dir: &FilePath) -> Option<io::Result<OpResult>> {
        let path = match self.table.locate(dir) {
            Ok(path) => path,
            Err(error) => return Some(Err(error)),
        };
        let ids = self.table.detach(dir);
        self.table.removed(&ids);
        self.workers.submit([Job::RemoveDir { id, path }]);
        None
    }
}

/// Returns the one file that an operation works on, if its order among others matters.
const fn file_of(op: &FileOp) -> Option<FileId> {
    match op {
        FileOp::Write { file, .. }
        | FileOp::Read { file, .. }
        | FileOp::Truncate { file, .. }
        | FileOp::Close { file } => Some(*file),
        FileOp::List { .. }
        | FileOp::CreateDir { .. }
        | FileOp::Open { .. }
        | FileOp::Sync { .. }
        | FileOp::Rename { .. }
        | FileOp::Remove { .. }
        | FileOp::RemoveDir { .. } => None,
    }
}

/// Finds out how many files this process may open, after asking for as many as its hard limit allows.
pub(crate) fn descriptors_max() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    current.map_or(usize::MAX, |current| {
        usize::try_from(current).unwrap_or(usize::MAX)
    })
}

#[cfg(test)]
mod tests;
