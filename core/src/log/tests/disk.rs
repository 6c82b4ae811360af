//! A disk that tells apart what is in the page cache and what is durable, per file and per directory entry.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::storage::{
    DirEntry, EntryKind, FaultKind, FileId, FileOp, FilePath, OpResult, StorageFault,
};

#[derive(Clone, Debug)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Truncate { len: usize },
}

#[derive(Clone, Debug, Default)]
struct Inode {
    cache: Vec<u8>,
    durable: Vec<u8>,
    /// Changes that are not durable, with the tick of their completion.
    unsynced: Vec<(u64, Change)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    File(usize),
    Dir(usize),
}

#[derive(Clone, Debug)]
enum EntryChange {
    Link(String, Node),
    Unlink(String),
    Rename(String, String),
}

#[derive(Clone, Debug, Default)]
struct Dir {
    cache: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    unsynced: Vec<(u64, EntryChange)>,
}

/// What a power loss keeps of what was not synced.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keep {
    /// Everything: only the process died.
    All,
    /// Nothing.
    None,
    /// A subset drawn from this seed.
    Some(u64),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    inodes: Vec<Inode>,
    dirs: Vec<Dir>,
    open: BTreeMap<FileId, usize>,
    pub(crate) tick: u64,
}

fn fault(kind: FaultKind) -> StorageFault {
    StorageFault::new(kind)
}

fn apply(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { at, bytes } => {
            if content.len() < at + bytes.len() {
                content.resize(at + bytes.len(), 0);
            }
            content[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        Change::Truncate { len } => content.resize(*len, 0),
    }
}

fn apply_entry(entries: &mut BTreeMap<String, Node>, change: &EntryChange) {
    match change {
        EntryChange::Link(name, node) => {
            entries.insert(name.clone(), *node);
        }
        EntryChange::Unlink(name) => {
            entries.remove(name);
        }
        EntryChange::Rename(from, to) => {
            if let Some(node) = entries.remove(from) {
                entries.insert(to.clone(), node);
            }
        }
    }
}

impl Disk {
    pub(crate) fn new() -> Self {
        Self {
            dirs: vec![Dir::default()],
            ..Self::default()
        }
    }

    fn dir(&self, path: &FilePath) -> Option<usize> {
        let mut at = 0;
        for name in path.relative().split('/').filter(|name| !name.is_empty()) {
            match self.dirs[at].cache.get(name)? {
                Node::Dir(dir) => at = *dir,
                Node::File(_) => return None,
            }
        }
        Some(at)
    }

    fn change_entry(&mut self, dir: usize, change: EntryChange) {
        apply_entry(&mut self.dirs[dir].cache, &change);
        let tick = self.tick;
        self.dirs[dir].unsynced.push((tick, change));
    }

    fn inode(&mut self, file: FileId) -> Result<&mut Inode, StorageFault> {
        let at = *self
            .open
            .get(&file)
            .ok_or_else(|| fault(FaultKind::NotFound))?;
        Ok(&mut self.inodes[at])
    }

    /// Performs an operation that was submitted at `submitted`.
    pub(crate) fn perform(
        &mut self,
        op: &FileOp,
        submitted: u64,
    ) -> Result<OpResult, StorageFault> {
        self.tick += 1;
        let tick = self.tick;
        match op {
            FileOp::List { dir } => self.list(dir),
            FileOp::CreateDir { dir } => self.create_dir(dir),
            FileOp::Open { file, path, create } => self.open_file(*file, path, *create),
            FileOp::Write { file, at, data } => {
                let mut bytes = data.head.as_slice().to_vec();
                bytes.extend_from_slice(&data.body);
                let at = usize::try_from(*at).unwrap();
                let inode = self.inode(*file)?;
                let change = Change::Write { at, bytes };
                apply(&mut inode.cache, &change);
                inode.unsynced.push((tick, change));
                Ok(OpResult::Done)
            }
            FileOp::Read { file, at, len } => {
                let inode = self.inode(*file)?;
                let from = usize::try_from(*at).unwrap().min(inode.cache.len());
                let to = (from + usize::try_from(*len).unwrap()).min(inode.cache.len());
                Ok(OpResult::Data(Bytes::copy_from_slice(
                    &inode.cache[from..to],
                )))
            }
            FileOp::Truncate { file, len } => {
                let len = usize::try_from(*len).unwrap();
                let inode = self.inode(*file)?;
                let change = Change::Truncate { len };
                apply(&mut inode.cache, &change);
                inode.unsynced.push((tick, change));
                Ok(OpResult::Done)
            }
            FileOp::Sync { files, dirs } => self.sync(files, dirs, submitted),
            FileOp::Rename { from, to } => self.rename(from, to),
            FileOp::Remove { path } => {
                let dir = self
                    .dir(&path.parent())
                    .ok_or_else(|| fault(FaultKind::NotFound))?;
                if !self.dirs[dir].cache.contains_key(path.name()) {
                    return Err(fault(FaultKind::NotFound));
                }
                self.change_entry(dir, EntryChange::Unlink(path.name().to_owned()));
                Ok(OpResult::Done)
            }
            FileOp::RemoveDir { dir: path } => {
                if let Some(dir) = self.dir(&path.parent()) {
                    self.change_entry(dir, EntryChange::Unlink(path.name().to_owned()));
                }
                Ok(OpResult::Done)
            }
            FileOp::Close { file } => {
                self.open.remove(file);
                Ok(OpResult::Done)
            }
        }
    }

    fn list(&self, path: &FilePath) -> Result<OpResult, StorageFault> {
        let dir = self.dir(path).ok_or_else(|| fault(FaultKind::NotFound))?;
        let entries = self.dirs[dir]
            .cache
            .iter()
            .rev()
            .map(|(name, node)| DirEntry {
                name: name.clone(),
                kind: match node {
                    Node::File(inode) => EntryKind::File {
                        len: u64::try_from(self.inodes[*inode].cache.len()).unwrap(),
                    },
                    Node::Dir(_) => EntryKind::Dir,
                },
            });
        Ok(OpResult::Listing(entries.collect()))
    }

    fn create_dir(&mut self, path: &FilePath) -> Result<OpResult, StorageFault> {
        let parent = self
            .dir(&path.parent())
            .ok_or_else(|| fault(FaultKind::NotFound))?;
        if self.dir(path).is_none() {
            self.dirs.push(Dir::default());
            let node = Node::Dir(self.dirs.len() - 1);
            self.change_entry(parent, EntryChange::Link(path.name().to_owned(), node));
        }
        Ok(OpResult::Done)
    }

    fn open_file(
        &mut self,
        file: FileId,
        path: &FilePath,
        create: bool,
    ) -> Result<OpResult, StorageFault> {
        let dir = self
            .dir(&path.parent())
            .ok_or_else(|| fault(FaultKind::NotFound))?;
        let inode = match self.dirs[dir].cache.get(path.name()) {
            Some(Node::File(inode)) => *inode,
            Some(Node::Dir(_)) => return Err(fault(FaultKind::Io)),
            None if create => {
                self.inodes.push(Inode::default());
                let inode = self.inodes.len() - 1;
                self.change_entry(
                    dir,
                    EntryChange::Link(path.name().to_owned(), Node::File(inode)),
                );
                inode
            }
            None => return Err(fault(FaultKind::NotFound)),
        };
        assert!(
            self.open.insert(file, inode).is_none(),
            "file ids are never reused"
        );
        let len = u64::try_from(self.inodes[inode].cache.len()).unwrap();
        Ok(OpResult::Opened { len })
    }

    fn sync(
        &mut self,
        files: &[crate::storage::SyncTarget],
        dirs: &[FilePath],
        submitted: u64,
    ) -> Result<OpResult, StorageFault> {
        for target in files {
            let inode = self.inode(target.file)?;
            let mut later = Vec::new();
            for (tick, change) in std::mem::take(&mut inode.unsynced) {
                // Only what had completed before the sync was submitted is promised.
                if tick <= submitted && later.is_empty() {
                    apply(&mut inode.durable, &change);
                } else {
                    later.push((tick, change));
                }
            }
            inode.unsynced = later;
        }
        for path in dirs {
            let at = self.dir(path).ok_or_else(|| fault(FaultKind::NotFound))?;
            let dir = &mut self.dirs[at];
            let mut later = Vec::new();
            for (tick, change) in std::mem::take(&mut dir.unsynced) {
                if tick <= submitted {
                    apply_entry(&mut dir.durable, &change);
                } else {
                    later.push((tick, change));
                }
            }
            dir.unsynced = later;
        }
        Ok(OpResult::Done)
    }

    fn rename(&mut self, from: &FilePath, to: &FilePath) -> Result<OpResult, StorageFault> {
        assert_eq!(from.parent(), to.parent(), "renames stay within a folder");
        let dir = self
            .dir(&from.parent())
            .ok_or_else(|| fault(FaultKind::NotFound))?;
        if !self.dirs[dir].cache.contains_key(from.name()) {
            return Err(fault(FaultKind::NotFound));
        }
        let change = EntryChange::Rename(from.name().to_owned(), to.name().to_owned());
        self.change_entry(dir, change);
        Ok(OpResult::Done)
    }

    /// The process dies; with it, unless `Keep::All`, what was not synced.
    pub(crate) fn crash(&mut self, keep: Keep) {
        self.open.clear();
        let mut draw = match keep {
            Keep::All => return,
            Keep::None => None,
            Keep::Some(seed) => Some(Draw(seed | 1)),
        };
        let mut kept = || {
            draw.as_mut()
                .is_some_and(|draw| draw.next().is_multiple_of(2))
        };
        for inode in &mut self.inodes {
            for (_, change) in std::mem::take(&mut inode.unsynced) {
                if kept() {
                    apply(&mut inode.durable, &change);
                }
            }
            inode.cache = inode.durable.clone();
        }
        for dir in &mut self.dirs {
            for (_, change) in std::mem::take(&mut dir.unsynced) {
                if kept() {
                    apply_entry(&mut dir.durable, &change);
                }
            }
            dir.cache = dir.durable.clone();
        }
    }

    /// Shows the files of a folder.
    pub(crate) fn files(&self, path: &FilePath) -> BTreeMap<String, Vec<u8>> {
        let Some(dir) = self.dir(path) else {
            return BTreeMap::new();
        };
        self.dirs[dir]
            .cache
            .iter()
            .filter_map(|(name, node)| match node {
                Node::File(inode) => Some((name.clone(), self.inodes[*inode].cache.clone())),
                Node::Dir(_) => None,
            })
            .collect()
    }

    /// Shows the names in a folder.
    pub(crate) fn names(&self, path: &FilePath) -> Vec<String> {
        self.dir(path)
            .map(|dir| self.dirs[dir].cache.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// Puts other bytes into a file, durably; removes it when there are none.
    pub(crate) fn damage(&mut self, path: &FilePath, bytes: Option<Vec<u8>>) {
        let dir = self.dir(&path.parent()).unwrap();
        let Some(bytes) = bytes else {
            self.dirs[dir].cache.remove(path.name());
            self.dirs[dir].durable.remove(path.name());
            return;
        };
        let Some(Node::File(inode)) = self.dirs[dir].cache.get(path.name()) else {
            panic!("no file {path}");
        };
        self.inodes[*inode].cache.clone_from(&bytes);
        self.inodes[*inode].durable = bytes;
    }

    /// Reads through an open file, as a driver does for a promised range.
    pub(crate) fn range(&self, file: FileId, at: u64, len: u32) -> Vec<u8> {
        let inode = &self.inodes[self.open[&file]];
        let from = usize::try_from(at).unwrap();
        inode.cache[from..from + usize::try_from(len).unwrap()].to_vec()
    }
}

/// A small generator, stable for ever.
#[derive(Clone, Debug)]
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub(crate) fn below(&mut self, max: u64) -> u64 {
        self.next() % max
    }
}
