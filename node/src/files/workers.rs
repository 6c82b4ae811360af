//! Threads for what blocks: syncs, reads that miss the page cache, removal of whole folders.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, Thread},
};

use bytes::Bytes;
use seedlog_core::{
    ids::ConnectionId,
    storage::{Completion, FileId, OpId, OpResult, StorageFault},
};
use tokio::sync::mpsc::UnboundedSender;

use super::fault::fault;

/// Work for a thread that may block.
#[derive(Debug)]
pub(crate) enum Job {
    /// Make one file of a set durable.
    SyncFile(Arc<SyncSet>, Arc<File>),
    /// Make the entries of one folder of a set durable.
    SyncDir(Arc<SyncSet>, PathBuf),
    /// Read for the core.
    Read {
        id: OpId,
        file: FileId,
        source: Arc<File>,
        at: u64,
        len: usize,
    },
    /// Bring bytes that a connection is about to send into the page cache.
    Warm {
        connection: ConnectionId,
        source: Arc<File>,
        at: u64,
        len: usize,
    },
    /// Remove a folder with all it holds.
    RemoveDir { id: OpId, path: PathBuf },
}

/// The end of some work.
#[derive(Debug)]
pub(crate) enum Done {
    /// An operation of the core; the file whose later operations may go on, if any.
    Storage(Completion, Option<FileId>),
    /// Bytes are in the page cache, or cannot be read.
    Warmed(ConnectionId, Result<(), StorageFault>),
}

/// The files and folders of one sync; ends when the last of them has.
#[derive(Debug)]
pub(crate) struct SyncSet {
    end: End,
    open: AtomicUsize,
    error: Mutex<Option<io::Error>>,
}

/// Who learns of the end of a set.
#[derive(Debug)]
enum End {
    /// The core, by the completion of this operation.
    Completion(OpId),
    /// A thread that waits for it.
    Waiter(Thread),
}

impl SyncSet {
    /// Starts a set of `parts` files and folders that is an operation of the core.
    pub(crate) fn new(id: OpId, parts: usize) -> Arc<Self> {
        Self::start(End::Completion(id), parts)
    }

    /// Starts a set of `parts` files and folders whose end this thread waits for.
    pub(crate) fn awaited(parts: usize) -> Arc<Self> {
        Self::start(End::Waiter(thread::current()), parts)
    }

    fn start(end: End, parts: usize) -> Arc<Self> {
        Arc::new(Self {
            end,
            open: AtomicUsize::new(parts),
            error: Mutex::new(None),
        })
    }

    /// Notes the end of one part; the last one yields the completion of the whole, or wakes who waits for it.
    fn end(&self, result: io::Result<()>) -> Option<Done> {
        if let Err(error) = result {
            locked(&self.error).get_or_insert(error);
        }
        if self.open.fetch_sub(1, Ordering::AcqRel) > 1 {
            return None;
        }
        match &self.end {
            End::Completion(id) => {
                let result = self.take_result().map_err(|error| fault(&error));
                Some(Done::Storage(Completion { id: *id, result }, None))
            }
            End::Waiter(thread) => {
                thread.unpark();
                None
            }
        }
    }

    fn take_result(&self) -> io::Result<OpResult> {
        match locked(&self.error).take() {
            None => Ok(OpResult::Done),
            Some(error) => Err(error),
        }
    }

    fn wait(&self) -> io::Result<OpResult> {
        while self.open.load(Ordering::Acquire) > 0 {
            thread::park();
        }
        self.take_result()
    }
}

/// A pool that starts threads only when all that it has are busy.
#[derive(Debug)]
pub(crate) struct Workers {
    shared: Arc<Shared>,
    threads: usize,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    done: UnboundedSender<Done>,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Threads that sleep.
    idle: usize,
    /// Threads with a job.
    busy: usize,
    closed: bool,
}

impl Workers {
    /// Makes a pool without threads whose results go to `done`.
    pub(crate) fn new(done: UnboundedSender<Done>) -> Self {
        Self {
            shared: Arc::new(Shared {
                queue: Mutex::default(),
                wake: Condvar::new(),
                done,
            }),
            threads: 0,
        }
    }

    /// Hands over jobs.
    pub(crate) fn submit(&mut self, jobs: impl IntoIterator<Item = Job>) {
        let (waiting, idle, busy) = {
            let mut queue = locked(&self.shared.queue);
            queue.jobs.extend(jobs);
            (queue.jobs.len(), queue.idle, queue.busy)
        };
        for _ in 0..waiting.min(idle) {
            self.shared.wake.notify_one();
        }
        // To start a thread takes longer than many a sync that it would spare the others: one more at a time, where it is missed.
        let free = self.threads.saturating_sub(busy);
        if waiting > free && self.threads < THREADS_MAX {
            self.start_thread();
        }
    }

    /// Starts the first few threads, so that they are there when the first jobs come.
    pub(crate) fn start_few(&mut self) {
        while self.threads < THREADS_FEW && self.start_thread() {}
    }

    /// Performs the jobs of an [awaited](SyncSet::awaited) set, with this thread among the others, and waits for their end.
    pub(crate) fn perform_awaited(
        &mut self,
        set: &SyncSet,
        jobs: Vec<Job>,
    ) -> io::Result<OpResult> {
        let mut jobs = jobs.into_iter();
        let own = jobs.next();
        let is_shared = jobs.len() > 0;
        if is_shared {
            self.submit(jobs);
        }
        if let Some(own) = own {
            self.shared.perform(own);
        }
        if is_shared {
            self.shared.drain();
        }
        set.wait()
    }

    /// Starts a thread; without any, the work is done by the caller, because a job must end.
    fn start_thread(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        let started = thread::Builder::new()
            .name("seedlog-disk".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || shared.work());
        match started {
            Ok(_) => self.threads += 1,
            Err(error) => {
                tracing::warn!(%error, threads = self.threads, "cannot start another disk thread");
                if self.threads == 0 {
                    self.shared.drain();
                }
                return false;
            }
        }
        true
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        locked(&self.shared.queue).closed = true;
        self.shared.wake.notify_all();
    }
}

impl Shared {
    fn work(&self) {
        let mut queue = locked(&self.queue);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                queue.busy += 1;
                drop(queue);
                self.perform(job);
                queue = locked(&self.queue);
                queue.busy -= 1;
            } else if queue.closed {
                return;
            } else {
                queue.idle += 1;
                queue = self
                    .wake
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
            }
        }
    }

    fn drain(&self) {
        loop {
            let Some(job) = locked(&self.queue).jobs.pop_front() else {
                return;
            };
            self.perform(job);
        }
    }

    fn perform(&self, job: Job) {
        let done = match job {
            Job::SyncFile(set, file) => set.end(file.sync_data()),
            Job::SyncDir(set, path) => {
                set.end(File::open(path).and_then(|folder| folder.sync_all()))
            }
            Job::Read {
                id,
                file,
                source,
                at,
                len,
            } => {
                let result = read_at_most(&source, at, len).map(OpResult::Data);
                let result = result.map_err(|error| fault(&error));
                Some(Done::Storage(Completion { id, result }, Some(file)))
            }
            Job::Warm {
                connection,
                source,
                at,
                len,
            } => Some(Done::Warmed(connection, warm(&source, at, len))),
            Job::RemoveDir { id, path } => {
                let result = remove_dir(&path).map_err(|error| fault(&error));
                let result = result.map(|()| OpResult::Done);
                Some(Done::Storage(Completion { id, result }, None))
            }
        };
        if let Some(done) = done {
            // The receiver is gone only when the shard is; nobody waits then.
            let _ = self.done.send(done);
        }
    }
}

/// Reads up to `len` bytes; fewer only at the end of the file.
pub(crate) fn read_at_most(source: &File, at: u64, len: usize) -> io::Result<Bytes> {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while filled < len {
        let position = at.saturating_add(u64::try_from(filled).unwrap_or(u64::MAX));
        match source.read_at(&mut bytes[filled..], position) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(Bytes::from(bytes))
}

/// Reads bytes to have them in the page cache and to learn whether they can be read at all.
fn warm(source: &File, at: u64, len: usize) -> Result<(), StorageFault> {
    let bytes = read_at_most(source, at, len).map_err(|error| fault(&error))?;
    if bytes.len() < len {
        return Err(fault(&io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(())
}

fn remove_dir(path: &PathBuf) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Syncs of several files overlap in the device; more threads than this gain nothing on any disk that was measured.
const THREADS_MAX: usize = 8;

/// So many threads are started before there is work for them.
const THREADS_FEW: usize = 3;

/// The deepest call is the removal of nested folders, two levels deep in Kafka's layout.
const STACK_BYTES: usize = 128 * 1024;
