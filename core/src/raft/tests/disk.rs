//! A disk in memory that knows what is synced: the page cache, and what a power loss leaves of it.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::storage::{DirEntry, EntryKind, FaultKind, FileId, FileOp, OpResult, StorageFault};

/// A small generator, so that a seed tells the whole run.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % sides.max(1)
    }
}

#[derive(Clone, Debug, Default)]
struct Content {
    cached: Vec<u8>,
    durable: Vec<u8>,
}

/// A change of a folder's entries that is not durable yet.
#[derive(Clone, Debug)]
enum Change {
    Link(String, Node),
    Unlink(String),
    Rename(String, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    File(usize),
    Dir,
}

/// What a sync promises: the state of its files and folders when it was submitted.
#[derive(Clone, Debug, Default)]
pub(super) struct Promise {
    files: Vec<(usize, Vec<u8>)>,
    dirs: Vec<(String, usize)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    contents: Vec<Content>,
    /// Entries by whole path, as everybody sees them.
    cached: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    /// Changes by folder, in order, that are not durable.
    changes: BTreeMap<String, Vec<Change>>,
    open: BTreeMap<FileId, usize>,
    /// How often files were damaged or cut behind the program's back is up to the test; this counts syncs done.
    pub(super) syncs: usize,
}

impl Disk {
    /// Does an operation in the page cache. A sync makes durable what it promised.
    pub(super) fn run(&mut self, op: FileOp, promise: Promise) -> Result<OpResult, StorageFault> {
        let not_found = StorageFault::new(FaultKind::NotFound);
        match op {
            FileOp::List { dir } => return self.list(dir.relative()).ok_or(not_found),
            FileOp::CreateDir { dir } => {
                if !self.cached.contains_key(dir.relative()) {
                    self.change(Change::Link(dir.relative().into(), Node::Dir));
                }
            }
            FileOp::Open { file, path, create } => {
                let path = path.relative().to_owned();
                if !self.cached.contains_key(&path) {
                    if !create || !self.is_dir(parent(&path)) {
                        return Err(not_found);
                    }
                    self.contents.push(Content::default());
                    let node = Node::File(self.contents.len() - 1);
                    self.change(Change::Link(path.clone(), node));
                }
                let Some(Node::File(content)) = self.cached.get(&path) else {
                    return Err(not_found);
                };
                self.open.insert(file, *content);
                let len = self.contents[*content].cached.len() as u64;
                return Ok(OpResult::Opened { len });
            }
            FileOp::Write { file, at, data } => {
                let cached = self.cached_mut(file)?;
                let at = usize::try_from(at).unwrap();
                let bytes = [data.head.as_slice(), &data.body].concat();
                cached.resize(cached.len().max(at + bytes.len()), 0);
                cached[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            FileOp::Read { file, at, len } => {
                let cached = self.cached_mut(file)?;
                let at = usize::try_from(at).unwrap().min(cached.len());
                let end = (at + usize::try_from(len).unwrap()).min(cached.len());
                return Ok(OpResult::Data(Bytes::copy_from_slice(&cached[at..end])));
            }
            FileOp::Truncate { file, len } => {
                self.cached_mut(file)?
                    .resize(usize::try_from(len).unwrap(), 0);
            }
            FileOp::Sync { .. } => self.keep(promise),
            FileOp::Rename { from, to } => {
                let (from, to) = (from.relative().to_owned(), to.relative().to_owned());
                if !self.cached.contains_key(&from) {
                    return Err(not_found);
                }
                self.change(Change::Rename(from, to));
            }
            FileOp::Remove { path } => {
                if !self.cached.contains_key(path.relative()) {
                    return Err(not_found);
                }
                self.change(Change::Unlink(path.relative().into()));
            }
            FileOp::RemoveDir { dir } => {
                // Whoever finds the folder again after a power loss finds it as it was when it was last synced.
                self.changes.remove(dir.relative());
                self.change(Change::Unlink(dir.relative().into()));
            }
            FileOp::Close { file } => {
                self.open.remove(&file);
            }
        }
        Ok(OpResult::Done)
    }

    /// Notes what a sync submitted now promises: what has completed by now.
    pub(super) fn promise(&self, op: &FileOp) -> Promise {
        let FileOp::Sync { files, dirs } = op else {
            return Promise::default();
        };
        let content = |content: &usize| (*content, self.contents[*content].cached.clone());
        Promise {
            files: files
                .iter()
                .filter_map(|target| self.open.get(&target.file).map(content))
                .collect(),
            dirs: dirs
                .iter()
                .map(|dir| {
                    let changes = self.changes.get(dir.relative()).map_or(0, Vec::len);
                    (dir.relative().to_owned(), changes)
                })
                .collect(),
        }
    }

    fn keep(&mut self, promise: Promise) {
        self.syncs += 1;
        for (content, bytes) in promise.files {
            self.contents[content].durable = bytes;
        }
        for (dir, changes) in promise.dirs {
            // Another sync of the folder may have come first and taken some of the changes.
            let pending = self.changes.entry(dir).or_default();
            let taken: Vec<_> = pending.drain(..changes.min(pending.len())).collect();
            for change in taken {
                apply(&mut self.durable, &change);
            }
        }
    }

    /// Ends the process: the page cache stays.
    pub(super) fn kill(&mut self) {
        self.open.clear();
    }

    /// Cuts the power: of what was not synced, the dice keep what they like.
    pub(super) fn power_loss(&mut self, dice: &mut Dice) {
        self.open.clear();
        for content in &mut self.contents {
            let mut kept = content.durable.clone();
            match dice.roll(4) {
                0 => {}
                1 => kept.clone_from(&content.cached),
                2 => {
                    // A torn tail: some bytes beyond what was synced.
                    let cut = dice.roll(content.cached.len() + 1);
                    if cut > kept.len() && content.cached.starts_with(&kept) {
                        kept.extend_from_slice(&content.cached[kept.len()..cut]);
                    }
                }
                _ => {
                    // The length is known, some of the bytes are not.
                    if content.cached.starts_with(&kept) {
                        let from = kept.len();
                        kept.resize(content.cached.len(), 0);
                        let hole = from + dice.roll(kept.len() - from + 1);
                        kept[hole..].copy_from_slice(&content.cached[hole..]);
                    }
                }
            }
            *content = Content {
                cached: kept.clone(),
                durable: kept,
            };
        }
        for changes in self.changes.values() {
            for change in changes {
                if dice.roll(2) == 0 {
                    apply(&mut self.durable, change);
                }
            }
        }
        self.changes.clear();
        let entries = self.durable.clone();
        self.durable
            .retain(|path, _| ancestors(path).all(|dir| entries.get(dir) == Some(&Node::Dir)));
        self.cached = self.durable.clone();
    }

    /// Cuts the power: nothing that was not synced stays.
    pub(super) fn power_loss_total(&mut self) {
        for content in &mut self.contents {
            content.cached.clone_from(&content.durable);
        }
        self.changes.clear();
        self.power_loss(&mut Dice::new(0));
    }

    /// Returns what a total power loss would leave of a file.
    pub(super) fn durable_content(&self, path: &str) -> Option<&[u8]> {
        let is_there = ancestors(path).all(|dir| self.durable.get(dir) == Some(&Node::Dir));
        match self.durable.get(path) {
            Some(Node::File(content)) if is_there => Some(&self.contents[*content].durable),
            _ => None,
        }
    }

    /// Returns the files in a folder.
    pub(super) fn files(&self, dir: &str) -> Vec<String> {
        let files = self
            .cached
            .iter()
            .filter(|(path, node)| parent(path) == dir && matches!(node, Node::File(_)));
        files.map(|(path, _)| path.clone()).collect()
    }

    /// Changes a file behind the program's back, durably.
    pub(super) fn tamper(&mut self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let Some(Node::File(content)) = self.cached.get(path) else {
            panic!("no file {path}");
        };
        let content = &mut self.contents[*content];
        change(&mut content.cached);
        content.durable.clone_from(&content.cached);
    }

    /// Removes a file behind the program's back, durably.
    pub(super) fn remove(&mut self, path: &str) {
        self.cached.remove(path);
        self.durable.remove(path);
    }

    /// Puts a file there behind the program's back, durably.
    pub(super) fn put(&mut self, path: &str, bytes: &[u8]) {
        let content = Content {
            cached: bytes.to_vec(),
            durable: bytes.to_vec(),
        };
        self.contents.push(content);
        let node = Node::File(self.contents.len() - 1);
        self.cached.insert(path.into(), node);
        self.durable.insert(path.into(), node);
    }

    fn list(&self, dir: &str) -> Option<OpResult> {
        if !self.is_dir(dir) {
            return None;
        }
        let entries = self.cached.iter().filter(|(path, _)| parent(path) == dir);
        let entries = entries.map(|(path, node)| DirEntry {
            name: path
                .rsplit_once('/')
                .map_or(path.as_str(), |(_, name)| name)
                .to_owned(),
            kind: match node {
                Node::Dir => EntryKind::Dir,
                Node::File(content) => EntryKind::File {
                    len: self.contents[*content].cached.len() as u64,
                },
            },
        });
        Some(OpResult::Listing(entries.collect()))
    }

    fn is_dir(&self, dir: &str) -> bool {
        dir.is_empty() || self.cached.get(dir) == Some(&Node::Dir)
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.cached, &change);
        let path = match &change {
            Change::Link(path, _) | Change::Unlink(path) | Change::Rename(path, _) => path,
        };
        self.changes
            .entry(parent(path).to_owned())
            .or_default()
            .push(change);
    }

    fn cached_mut(&mut self, file: FileId) -> Result<&mut Vec<u8>, StorageFault> {
        let content = self.open.get(&file);
        let content = content.ok_or(StorageFault::new(FaultKind::Io))?;
        Ok(&mut self.contents[*content].cached)
    }
}

fn apply(entries: &mut BTreeMap<String, Node>, change: &Change) {
    match change {
        Change::Link(path, node) => {
            entries.insert(path.clone(), *node);
        }
        Change::Unlink(path) => {
            let inside = format!("{path}/");
            entries.retain(|entry, _| entry != path && !entry.starts_with(&inside));
        }
        Change::Rename(from, to) => {
            if let Some(node) = entries.remove(from) {
                entries.insert(to.clone(), node);
            }
        }
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}
