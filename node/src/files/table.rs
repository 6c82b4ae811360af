//! Which file an id names, and which of them are open in the operating system.

use std::{
    cell::Cell,
    collections::{BTreeMap, HashMap, VecDeque},
    fs::{File, OpenOptions},
    io,
    path::PathBuf,
    rc::Rc,
    sync::Arc,
};

use seedlog_core::storage::{FileId, FilePath, StorageOp};

/// Files by id. Descriptors are a cache: the least recently used one is closed when there are too many.
#[derive(Debug)]
pub(crate) struct Table {
    dirs: Vec<PathBuf>,
    entries: HashMap<FileId, Entry>,
    /// Ids by path, for renames and removals; several ids may name one path.
    by_path: BTreeMap<FilePath, Vec<FileId>>,
    /// Ids that may hold a descriptor, in the order in which they are considered for closing.
    ring: VecDeque<FileId>,
    open: usize,
    open_max: usize,
}

/// What is known about a file.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Where it is; `None` once removed, when only the open descriptor still reaches it.
    path: Option<FilePath>,
    handle: Option<Arc<File>>,
    /// Used since it was last considered for closing.
    used: bool,
    /// Written since its last sync: its descriptor is the one that would report a failed write-back.
    pub(crate) dirty: bool,
    /// A worker performs an operation; later ones wait to keep their order.
    pub(crate) busy: bool,
    /// Operations that wait.
    pub(crate) waiting: VecDeque<StorageOp>,
    /// What truncations did, shared with ranges that wait to be sent.
    pub(crate) cuts: Rc<Cuts>,
}

/// The truncations of a file since it was opened.
#[derive(Debug)]
pub(crate) struct Cuts {
    count: Cell<u64>,
    lowest: Cell<u64>,
}

impl Cuts {
    /// Notes a truncation to `len` bytes.
    pub(crate) fn cut(&self, len: u64) {
        self.count.set(self.count.get() + 1);
        self.lowest.set(self.lowest.get().min(len));
    }

    /// Counts the truncations so far.
    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }

    /// Returns whether bytes below `end` are still those of the time when `count` was read.
    pub(crate) fn kept(&self, count: u64, end: u64) -> bool {
        self.count.get() == count || end <= self.lowest.get()
    }
}

impl Table {
    /// Makes an empty table over log directories that holds at most `open_max` descriptors, or more while all are needed.
    pub(crate) fn new(dirs: Vec<PathBuf>, open_max: usize) -> Self {
        Self {
            dirs,
            entries: HashMap::new(),
            by_path: BTreeMap::new(),
            ring: VecDeque::new(),
            open: 0,
            open_max,
        }
    }

    /// Finds the place of a path in the file system.
    pub(crate) fn locate(&self, path: &FilePath) -> io::Result<PathBuf> {
        let dir = self.dirs.get(usize::from(path.log_dir().0));
        let dir = dir.ok_or(io::ErrorKind::NotFound)?;
        Ok(match path.relative() {
            "" => dir.clone(),
            relative => dir.join(relative),
        })
    }

    /// Opens a file under a new id and returns its length.
    pub(crate) fn open(&mut self, id: FileId, path: FilePath, create: bool) -> io::Result<u64> {
        let handle = OpenOptions::new()
            .read(true)
            .write(true)
            .create(create)
            .truncate(false)
            .open(self.locate(&path)?)?;
        let metadata = handle.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        self.make_room();
        self.by_path.entry(path.clone()).or_default().push(id);
        self.entries.insert(
            id,
            Entry {
                path: Some(path),
                handle: Some(Arc::new(handle)),
                used: true,
                dirty: false,
                busy: false,
                waiting: VecDeque::new(),
                cuts: Rc::new(Cuts {
                    count: Cell::new(0),
                    lowest: Cell::new(u64::MAX),
                }),
            },
        );
        self.ring.push_back(id);
        self.open += 1;
        Ok(metadata.len())
    }

    /// Returns what is known about a file.
    pub(crate) fn entry(&mut self, id: FileId) -> Option<&mut Entry> {
        self.entries.get_mut(&id)
    }

    /// Returns the open file of an id, opening it again if its descriptor was closed.
    pub(crate) fn handle(&mut self, id: FileId) -> io::Result<Arc<File>> {
        let entry = self.entries.get_mut(&id).ok_or(io::ErrorKind::NotFound)?;
        entry.used = true;
        if let Some(handle) = &entry.handle {
            return Ok(Arc::clone(handle));
        }
        let path = entry.path.clone().ok_or(io::ErrorKind::NotFound)?;
        let place = self.locate(&path)?;
        let handle = Arc::new(OpenOptions::new().read(true).write(true).open(place)?);
        self.make_room();
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.handle = Some(Arc::clone(&handle));
            self.ring.push_back(id);
            self.open += 1;
        }
        Ok(handle)
    }

    /// Forgets an id.
    pub(crate) fn close(&mut self, id: FileId) {
        let Some(entry) = self.entries.remove(&id) else {
            return;
        };
        if entry.handle.is_some() {
            self.open -= 1;
        }
        if let Some(path) = entry.path {
            self.unbind(&path, id);
        }
        // Its place in the ring goes when the ring is next turned, or here when the ring is mostly such places.
        if self.ring.len() > 64 && self.ring.len() > self.open * 2 {
            let entries = &self.entries;
            self.ring
                .retain(|id| entries.get(id).is_some_and(|entry| entry.handle.is_some()));
        }
    }

    /// Prepares for the removal of a file or folder: files open below it stay readable by their ids, and only by them.
    pub(crate) fn detach(&mut self, path: &FilePath) -> Vec<FileId> {
        let ids = self.below(path);
        for id in &ids {
            // Fails only when the file is gone already; then there is nothing to keep.
            let _ = self.handle(*id);
        }
        ids
    }

    /// Notes that the files of these ids were removed.
    pub(crate) fn removed(&mut self, ids: &[FileId]) {
        for id in ids {
            let path = self.entries.get_mut(id).and_then(|entry| entry.path.take());
            if let Some(path) = path {
                self.unbind(&path, *id);
            }
        }
    }

    /// Notes a rename: files open at or below `from` are found below `to` from now on.
    pub(crate) fn renamed(&mut self, from: &FilePath, to: &FilePath) {
        for id in self.below(from) {
            let Some(old) = self
                .entries
                .get_mut(&id)
                .and_then(|entry| entry.path.take())
            else {
                continue;
            };
            let rest = old.relative().get(from.relative().len()..).unwrap_or("");
            let new = match rest.strip_prefix('/') {
                Some(rest) => to.join(rest),
                None => to.clone(),
            };
            self.unbind(&old, id);
            self.by_path.entry(new.clone()).or_default().push(id);
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.path = Some(new);
            }
        }
    }

    /// Returns the ids of the files at or below a path.
    fn below(&self, path: &FilePath) -> Vec<FileId> {
        let mut ids = self.by_path.get(path).cloned().unwrap_or_default();
        let folder = format!("{}/", path.relative());
        let inside = self
            .by_path
            .range(path.join("")..)
            .take_while(|(inner, _)| {
                inner.log_dir() == path.log_dir() && inner.relative().starts_with(&folder)
            });
        ids.extend(inside.flat_map(|(_, ids)| ids));
        ids
    }

    fn unbind(&mut self, path: &FilePath, id: FileId) {
        if let Some(ids) = self.by_path.get_mut(path) {
            ids.retain(|bound| *bound != id);
            if ids.is_empty() {
                self.by_path.remove(path);
            }
        }
    }

    /// Closes descriptors until one more fits: first unused clean ones, then used or dirty ones; never the last way to reach
    /// a removed file. A descriptor that is in use elsewhere closes when that use ends.
    fn make_room(&mut self) {
        let mut steps = self.ring.len() * 3;
        while self.open >= self.open_max && steps > 0 {
            steps -= 1;
            let Some(id) = self.ring.pop_front() else {
                return;
            };
            let Some(entry) = self.entries.get_mut(&id) else {
                continue;
            };
            if entry.handle.is_none() {
                continue;
            }
            let spared = entry.used || (entry.dirty && steps > self.ring.len());
            if spared || entry.path.is_none() {
                entry.used = false;
                self.ring.push_back(id);
            } else {
                entry.handle = None;
                self.open -= 1;
            }
        }
    }
}
