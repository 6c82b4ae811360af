//! A model disk: page cache and durable state apart, per file and per directory entry.
//!
//! A process crash keeps the cache. A power loss keeps only what a sync covered, and of the rest any subset of sectors, any
//! file length and any dependency-closed subset of entry changes that the drawn [`Survival`] leaves. This module is the file
//! system at the instant an operation takes effect; when that is, and whether it fails, is decided by [`Device`].

use std::collections::BTreeMap;

use bytes::Bytes;
use seedlog_core::storage::{
    DirEntry, EntryKind, FaultKind, FileId, FileOp, FilePath, OpResult, StorageFault,
};

use crate::random::Stream;

mod damage;
mod device;
mod file;
mod ledger;
#[cfg(test)]
mod tests;
mod tree;

pub use damage::{Damage, DamageDone};
pub use device::{Device, DeviceEvent, DiskFault, DiskTally, InFlight, Latency};
pub use file::Survival;
pub use ledger::BatchMark;
pub use tree::InodeId;

use file::Content;
use ledger::Ledger;
use tree::{Body, Tree};

/// Files and folders of one node, cache and durable state.
#[derive(Clone, Debug)]
pub struct Disk {
    tree: Tree,
    ledger: Ledger,
    handles: BTreeMap<FileId, InodeId>,
    /// Counts everything that took effect or completed; orders changes, completions and syncs.
    step: u64,
    capacity: Option<u64>,
    /// After a failed sync the cache shows what the disk holds.
    reverts: bool,
}

/// What a sync promised to cover when it was submitted.
#[derive(Clone, Debug)]
pub(super) struct SyncScope {
    files: Vec<(InodeId, u64)>,
    dirs: Vec<FilePath>,
    submitted: u64,
}

/// What a power loss took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Files whose visible bytes changed.
    pub files: usize,
    /// Entry changes undone.
    pub entries: usize,
}

impl Loss {
    /// Whether anything was lost.
    #[must_use]
    pub const fn is_loss(self) -> bool {
        self.files > 0 || self.entries > 0
    }
}

impl Disk {
    /// Makes an empty disk with some log directories.
    #[must_use]
    pub fn new(log_dirs: u16) -> Self {
        Self {
            tree: Tree::new(log_dirs),
            ledger: Ledger::default(),
            handles: BTreeMap::new(),
            step: 0,
            capacity: None,
            reverts: false,
        }
    }

    /// Lets the cache fall back to what the disk holds when a sync fails, instead of keeping what was not written.
    pub const fn revert_on_failed_sync(&mut self, reverts: bool) {
        self.reverts = reverts;
    }

    /// Limits how many bytes all files may hold together.
    pub const fn limit(&mut self, capacity: Option<u64>) {
        self.capacity = capacity;
    }

    /// Returns how many bytes the files hold.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.tree.used()
    }

    /// Returns the step count: changes, completions and syncs so far.
    #[must_use]
    pub const fn step(&self) -> u64 {
        self.step
    }

    /// Reads a file's bytes as the page cache shows them.
    #[must_use]
    pub fn read_file(&self, path: &str) -> Option<&[u8]> {
        let (_, id) = self
            .tree
            .walk()
            .into_iter()
            .find(|(name, _)| name == path)?;
        self.tree.file(id).map(|content| content.bytes())
    }

    /// Returns all paths with their files, in order.
    #[must_use]
    pub fn files(&self) -> Vec<(String, InodeId)> {
        self.tree.walk()
    }

    /// Returns a file's bytes and how many of its first are on disk, entries included.
    #[must_use]
    pub fn content(&self, id: InodeId) -> Option<(&[u8], usize)> {
        let content = self.tree.file(id)?;
        let durable = if self.tree.is_linked_durably(id) {
            content.synced_prefix()
        } else {
            0
        };
        Some((content.bytes(), durable))
    }

    /// Returns the batches of a log file.
    #[must_use]
    pub fn batches(&self, id: InodeId) -> &[BatchMark] {
        self.ledger.marks(id)
    }

    /// Returns the log segments in a folder, in order of their names.
    #[must_use]
    pub fn segments(&self, folder: &str) -> Vec<InodeId> {
        let mut found = Vec::new();
        for entries in self.tree.folders(folder) {
            let logs = entries.iter().filter(|(name, _)| Ledger::is_log(name));
            found.extend(logs.map(|(_, id)| *id));
        }
        found
    }

    /// The process died: open files are forgotten, the cache stays.
    pub fn crash(&mut self) {
        self.handles.clear();
        self.step += 1;
        self.tree.forget_handles(self.step);
    }

    /// The machine died: what no sync covered is lost as `survival` says.
    pub fn lose_power(&mut self, survival: Survival, stream: &mut Stream) -> Loss {
        self.handles.clear();
        let mut loss = Loss {
            files: 0,
            entries: self.tree.lose_edits(survival, stream),
        };
        for (_, content) in self.tree.files_mut() {
            if content.lose_power(survival, stream) {
                loss.files += 1;
            }
        }
        self.tree.settle();
        self.step += 1;
        self.ledger.settle(&self.tree, self.step);
        loss
    }

    /// Whether a power loss now could change anything.
    #[must_use]
    pub fn is_synced(&mut self) -> bool {
        self.tree.entries_are_synced()
            && self
                .tree
                .files_mut()
                .all(|(_, content)| content.is_synced())
    }

    pub(super) fn inode_of(&self, file: FileId) -> Option<InodeId> {
        self.handles.get(&file).copied()
    }

    /// Notes that the completion of an operation was handed out.
    pub(super) fn complete(&mut self, effect: u64, inode: Option<InodeId>) {
        self.step += 1;
        self.tree.complete(effect, self.step);
        if let Some(inode) = inode.and_then(|id| self.tree.inode_mut(id)) {
            inode.completed = inode.completed.max(effect);
        }
    }

    /// Fixes what a sync must cover, at its submission.
    pub(super) fn sync_scope(&mut self, files: &[FileId], dirs: &[FilePath]) -> SyncScope {
        self.step += 1;
        let files = files.iter().filter_map(|file| {
            let id = *self.handles.get(file)?;
            Some((id, self.tree.inode(id)?.completed))
        });
        SyncScope {
            files: files.collect(),
            dirs: dirs.to_vec(),
            submitted: self.step,
        }
    }

    /// Makes durable exactly what a sync must cover, or all that is there now.
    pub(super) fn sync(&mut self, scope: &SyncScope, everything: bool) {
        self.step += 1;
        let mut touched: Vec<InodeId> = scope.files.iter().map(|(id, _)| *id).collect();
        for (id, mark) in &scope.files {
            let mark = if everything { u64::MAX } else { *mark };
            if let Some(content) = self.tree.file_mut(*id) {
                content.sync(mark);
            }
        }
        for dir in &scope.dirs {
            if let Some(id) = self.tree.resolve(dir) {
                self.tree
                    .sync_dir(id, (!everything).then_some(scope.submitted));
            }
        }
        if !scope.dirs.is_empty() {
            touched = self.ledger.files().collect();
        }
        for id in touched {
            self.ledger.synced(&self.tree, id, self.step);
        }
    }

    /// A sync failed: its files' dirty pages are forgotten.
    pub(super) fn fail_sync(&mut self, scope: &SyncScope) {
        self.step += 1;
        for (id, _) in &scope.files {
            if let Some(content) = self.tree.file_mut(*id) {
                content.drop_dirty(self.reverts);
            }
        }
        if self.reverts {
            for (id, _) in &scope.files {
                self.ledger.changed(&self.tree, *id, 0, self.step);
                self.ledger.synced(&self.tree, *id, self.step);
            }
        }
    }

    /// Lets an operation other than a sync take effect.
    pub(crate) fn apply(&mut self, op: &FileOp) -> Result<OpResult, StorageFault> {
        self.step += 1;
        match op {
            FileOp::List { dir } => self.list(dir),
            FileOp::CreateDir { dir } => self.create_dir(dir),
            FileOp::Open { file, path, create } => self.open(*file, path, *create),
            FileOp::Write { file, at, data } => {
                let parts = [data.head.as_slice(), &data.body[..]];
                self.write(*file, *at, parts)
            }
            FileOp::Read { file, at, len } => self.read(*file, *at, *len).map(OpResult::Data),
            FileOp::Truncate { file, len } => self.truncate(*file, *len),
            FileOp::Sync { .. } => Ok(OpResult::Done),
            FileOp::Rename { from, to } => self.rename(from, to),
            FileOp::Remove { path } => self.remove(path),
            FileOp::RemoveDir { dir } => self.remove_dir(dir),
            FileOp::Close { file } => {
                self.close(*file);
                Ok(OpResult::Done)
            }
        }
    }

    /// Reads bytes of an open file.
    ///
    /// # Errors
    ///
    /// Fails when the id names no open file.
    pub fn read(&self, file: FileId, at: u64, len: u32) -> Result<Bytes, StorageFault> {
        let id = self.handles.get(&file).ok_or(NOT_FOUND)?;
        let bytes = self.tree.file(*id).ok_or(NOT_FOUND)?.bytes();
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        let to = from.saturating_add(len as usize).min(bytes.len());
        Ok(Bytes::copy_from_slice(&bytes[from..to]))
    }

    /// Writes only the first bytes of a write, as a process that dies within the call.
    pub(super) fn write_torn(&mut self, op: &FileOp, keep: usize) {
        if let FileOp::Write { file, at, data } = op {
            self.step += 1;
            let head = data.head.as_slice();
            let head = &head[..keep.min(head.len())];
            let body = &data.body[..(keep - head.len()).min(data.body.len())];
            // A torn write has no completion that could report its failure.
            let _ = self.write(*file, *at, [head, body]);
        }
    }

    fn list(&self, dir: &FilePath) -> Result<OpResult, StorageFault> {
        let id = self.tree.resolve(dir).ok_or(NOT_FOUND)?;
        let entries = self.tree.entries(id).ok_or(NOT_A_DIR)?;
        let entries = entries.iter().map(|(name, id)| DirEntry {
            name: name.clone(),
            kind: self
                .tree
                .file(*id)
                .map_or(EntryKind::Dir, |content| EntryKind::File {
                    len: wide(content.len()),
                }),
        });
        Ok(OpResult::Listing(entries.collect()))
    }

    fn create_dir(&mut self, dir: &FilePath) -> Result<OpResult, StorageFault> {
        if let Some(id) = self.tree.resolve(dir) {
            return match self.tree.entries(id) {
                Some(_) => Ok(OpResult::Done),
                None => Err(EXISTS),
            };
        }
        let parent = self.folder(&dir.parent())?;
        let body = Body::Dir(BTreeMap::new());
        self.tree.create(self.step, parent, dir.name(), body);
        Ok(OpResult::Done)
    }

    fn open(
        &mut self,
        file: FileId,
        path: &FilePath,
        create: bool,
    ) -> Result<OpResult, StorageFault> {
        let id = match self.tree.resolve(path) {
            Some(id) => id,
            None if create => {
                let parent = self.folder(&path.parent())?;
                let body = Body::File(Content::default());
                self.tree.create(self.step, parent, path.name(), body)
            }
            None => return Err(NOT_FOUND),
        };
        let len = wide(self.tree.file(id).ok_or(IS_A_DIR)?.len());
        self.handles.insert(file, id);
        if let Some(inode) = self.tree.inode_mut(id) {
            inode.handles += 1;
        }
        Ok(OpResult::Opened { len })
    }

    fn write(
        &mut self,
        file: FileId,
        at: u64,
        parts: [&[u8]; 2],
    ) -> Result<OpResult, StorageFault> {
        let id = *self.handles.get(&file).ok_or(NOT_FOUND)?;
        let at = usize::try_from(at).map_err(|_| NO_SPACE)?;
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let end = at
            .checked_add(len)
            .filter(|end| *end <= FILE_MAX)
            .ok_or(NO_SPACE)?;
        let used = self.capacity.map(|capacity| (capacity, self.tree.used()));
        let step = self.step;
        let content = self.tree.file_mut(id).ok_or(NOT_FOUND)?;
        if let Some((capacity, used)) = used
            && used + wide(end.saturating_sub(content.len())) > capacity
        {
            return Err(NO_SPACE);
        }
        content.write(step, at, parts);
        self.note_change(id, at);
        Ok(OpResult::Done)
    }

    fn truncate(&mut self, file: FileId, len: u64) -> Result<OpResult, StorageFault> {
        let id = *self.handles.get(&file).ok_or(NOT_FOUND)?;
        let len = usize::try_from(len)
            .ok()
            .filter(|len| *len <= FILE_MAX)
            .ok_or(NO_SPACE)?;
        let step = self.step;
        let content = self.tree.file_mut(id).ok_or(NOT_FOUND)?;
        let from = len.min(content.len());
        content.truncate(step, len);
        self.note_change(id, from);
        Ok(OpResult::Done)
    }

    fn note_change(&mut self, id: InodeId, from: usize) {
        let is_log = self
            .tree
            .inode(id)
            .and_then(|inode| inode.parent.as_ref())
            .is_some_and(|(_, name)| Ledger::is_log(name));
        if is_log {
            self.ledger.changed(&self.tree, id, from, self.step);
        }
    }

    fn rename(&mut self, from: &FilePath, to: &FilePath) -> Result<OpResult, StorageFault> {
        let moved = self.tree.resolve(from).ok_or(NOT_FOUND)?;
        let old_dir = self.folder(&from.parent())?;
        let new_dir = self.folder(&to.parent())?;
        match self.tree.resolve(to) {
            Some(there) if there == moved => return Ok(OpResult::Done),
            Some(there)
                if self
                    .tree
                    .entries(there)
                    .is_some_and(|entries| !entries.is_empty()) =>
            {
                return Err(NOT_EMPTY);
            }
            Some(_) | None => {}
        }
        let step = self.step;
        self.tree
            .rename(step, (old_dir, from.name()), (new_dir, to.name()), moved);
        if Ledger::is_log(to.name()) {
            self.ledger.changed(&self.tree, moved, 0, step);
        }
        Ok(OpResult::Done)
    }

    fn remove(&mut self, path: &FilePath) -> Result<OpResult, StorageFault> {
        let id = self.tree.resolve(path).ok_or(NOT_FOUND)?;
        if self.tree.file(id).is_none() {
            return Err(IS_A_DIR);
        }
        let parent = self.folder(&path.parent())?;
        self.tree.unlink(self.step, parent, path.name());
        Ok(OpResult::Done)
    }

    fn remove_dir(&mut self, dir: &FilePath) -> Result<OpResult, StorageFault> {
        let Some(id) = self.tree.resolve(dir) else {
            return Ok(OpResult::Done);
        };
        self.remove_inside(id);
        if !dir.relative().is_empty() {
            let parent = self.folder(&dir.parent())?;
            self.tree.unlink(self.step, parent, dir.name());
        }
        Ok(OpResult::Done)
    }

    fn remove_inside(&mut self, dir: InodeId) {
        let entries: Vec<(String, InodeId)> = self
            .tree
            .entries(dir)
            .map(|entries| {
                entries
                    .iter()
                    .map(|(name, id)| (name.clone(), *id))
                    .collect()
            })
            .unwrap_or_default();
        for (name, id) in entries {
            self.remove_inside(id);
            self.tree.unlink(self.step, dir, &name);
        }
    }

    fn close(&mut self, file: FileId) {
        if let Some(inode) = self
            .handles
            .remove(&file)
            .and_then(|id| self.tree.inode_mut(id))
        {
            inode.handles = inode.handles.saturating_sub(1);
        }
    }

    fn folder(&self, path: &FilePath) -> Result<InodeId, StorageFault> {
        let id = self.tree.resolve(path).ok_or(NOT_FOUND)?;
        self.tree.entries(id).map(|_| id).ok_or(NOT_A_DIR)
    }
}

fn wide(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

const fn fault(kind: FaultKind, os_code: i32) -> StorageFault {
    StorageFault { kind, os_code }
}

const NOT_FOUND: StorageFault = fault(FaultKind::NotFound, 2);
const NO_SPACE: StorageFault = fault(FaultKind::NoSpace, 28);
const EXISTS: StorageFault = fault(FaultKind::Io, 17);
const NOT_A_DIR: StorageFault = fault(FaultKind::Io, 20);
const IS_A_DIR: StorageFault = fault(FaultKind::Io, 21);
const NOT_EMPTY: StorageFault = fault(FaultKind::Io, 39);
/// A model disk keeps files in memory; a write beyond this is refused as a full disk.
const FILE_MAX: usize = 256 << 20;
