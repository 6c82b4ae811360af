//! Files and folders of one disk, and the entry changes that a power loss may still undo.

use std::collections::{BTreeMap, BTreeSet};

use seedlog_core::storage::{FilePath, LogDirId};

use super::file::{Content, Survival};
use crate::random::Stream;

/// A file or folder, whatever its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InodeId(pub(super) u32);

#[derive(Clone, Debug)]
pub(super) struct Inode {
    pub(super) body: Body,
    /// Where it is linked, if it is.
    pub(super) parent: Option<(InodeId, String)>,
    /// How many open file ids name it.
    pub(super) handles: u32,
    /// Highest change whose completion was handed out.
    pub(super) completed: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    File(Content),
    Dir(BTreeMap<String, InodeId>),
}

/// One change of folder entries that happens whole or not at all.
#[derive(Clone, Debug)]
struct Edit {
    seq: u64,
    completed: Option<u64>,
    items: Vec<EditItem>,
}

#[derive(Clone, Debug)]
struct EditItem {
    dir: InodeId,
    name: String,
    before: Option<InodeId>,
}

/// The folder structure.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    inodes: BTreeMap<InodeId, Inode>,
    next: u32,
    edits: Vec<Edit>,
}

impl Tree {
    pub(super) fn new(log_dirs: u16) -> Self {
        let mut tree = Self {
            inodes: BTreeMap::new(),
            next: ROOTS,
            edits: Vec::new(),
        };
        for dir in 0..log_dirs {
            tree.inodes
                .insert(root(LogDirId(dir)), Inode::new(Body::Dir(BTreeMap::new())));
        }
        tree
    }

    pub(super) fn inode(&self, id: InodeId) -> Option<&Inode> {
        self.inodes.get(&id)
    }

    pub(super) fn inode_mut(&mut self, id: InodeId) -> Option<&mut Inode> {
        self.inodes.get_mut(&id)
    }

    pub(super) fn file_mut(&mut self, id: InodeId) -> Option<&mut Content> {
        match &mut self.inodes.get_mut(&id)?.body {
            Body::File(content) => Some(content),
            Body::Dir(_) => None,
        }
    }

    pub(super) fn file(&self, id: InodeId) -> Option<&Content> {
        match &self.inodes.get(&id)?.body {
            Body::File(content) => Some(content),
            Body::Dir(_) => None,
        }
    }

    pub(super) fn entries(&self, id: InodeId) -> Option<&BTreeMap<String, InodeId>> {
        match &self.inodes.get(&id)?.body {
            Body::Dir(entries) => Some(entries),
            Body::File(_) => None,
        }
    }

    /// Finds what a path names.
    pub(super) fn resolve(&self, path: &FilePath) -> Option<InodeId> {
        let mut at = root(path.log_dir());
        self.inodes.get(&at)?;
        for name in path.relative().split('/').filter(|name| !name.is_empty()) {
            at = *self.entries(at)?.get(name)?;
        }
        Some(at)
    }

    /// Finds a folder by its path, in each log directory that has it.
    pub(super) fn folders(&self, path: &str) -> impl Iterator<Item = &BTreeMap<String, InodeId>> {
        let roots = self.inodes.range(..InodeId(ROOTS)).map(|(id, _)| *id);
        roots.filter_map(move |mut at| {
            for name in path.split('/').filter(|name| !name.is_empty()) {
                at = *self.entries(at)?.get(name)?;
            }
            self.entries(at)
        })
    }

    /// Makes a new inode and links it.
    pub(super) fn create(&mut self, seq: u64, dir: InodeId, name: &str, body: Body) -> InodeId {
        let id = InodeId(self.next);
        self.next += 1;
        self.inodes.insert(id, Inode::new(body));
        let item = self.link(dir, name, Some(id));
        self.push_edit(seq, vec![item]);
        id
    }

    /// Removes an entry.
    pub(super) fn unlink(&mut self, seq: u64, dir: InodeId, name: &str) {
        let item = self.link(dir, name, None);
        self.push_edit(seq, vec![item]);
    }

    /// Moves an entry, replacing what is at the destination; one atomic change.
    pub(super) fn rename(
        &mut self,
        seq: u64,
        from: (InodeId, &str),
        to: (InodeId, &str),
        moved: InodeId,
    ) {
        let gone = self.link(from.0, from.1, None);
        let come = self.link(to.0, to.1, Some(moved));
        self.push_edit(seq, vec![gone, come]);
    }

    fn push_edit(&mut self, seq: u64, items: Vec<EditItem>) {
        self.edits.push(Edit {
            seq,
            completed: None,
            items,
        });
    }

    fn link(&mut self, dir: InodeId, name: &str, target: Option<InodeId>) -> EditItem {
        let before = self.set_entry(dir, name, target);
        EditItem {
            dir,
            name: name.to_owned(),
            before,
        }
    }

    fn set_entry(&mut self, dir: InodeId, name: &str, target: Option<InodeId>) -> Option<InodeId> {
        let before = match self.inodes.get_mut(&dir).map(|inode| &mut inode.body) {
            Some(Body::Dir(entries)) => match target {
                Some(target) => entries.insert(name.to_owned(), target),
                None => entries.remove(name),
            },
            Some(Body::File(_)) | None => None,
        };
        if let Some(old) = before.and_then(|id| self.inodes.get_mut(&id))
            && old
                .parent
                .as_ref()
                .is_some_and(|(d, n)| *d == dir && n == name)
        {
            old.parent = None;
        }
        if let Some(new) = target.and_then(|id| self.inodes.get_mut(&id)) {
            new.parent = Some((dir, name.to_owned()));
        }
        before
    }

    /// Notes that the completion of the changes of operation `seq` was handed out, as the `completed`-th step.
    pub(super) fn complete(&mut self, seq: u64, completed: u64) {
        for edit in self.edits.iter_mut().rev() {
            if edit.seq == seq {
                edit.completed = Some(completed);
            } else if edit.seq < seq {
                break;
            }
        }
    }

    /// Makes durable the entries of a folder that completed before step `submitted`, or all of them.
    pub(super) fn sync_dir(&mut self, dir: InodeId, submitted: Option<u64>) {
        let mut durable = BTreeSet::new();
        for edit in self.edits.iter_mut().rev() {
            let covered = submitted.is_none_or(|submitted| {
                edit.completed
                    .is_some_and(|completed| completed < submitted)
            });
            edit.items.retain(|item| {
                if item.dir != dir {
                    return true;
                }
                if covered {
                    durable.insert(item.name.clone());
                }
                !durable.contains(&item.name)
            });
        }
        self.edits.retain(|edit| !edit.items.is_empty());
        self.sweep();
    }

    /// Whether a power loss could change any entry.
    pub(super) fn entries_are_synced(&self) -> bool {
        self.edits.is_empty()
    }

    /// Whether the present name of an inode, and of every folder above it, is on disk.
    pub(super) fn is_linked_durably(&self, id: InodeId) -> bool {
        let mut at = id;
        while let Some((dir, name)) = self.inodes.get(&at).and_then(|inode| inode.parent.as_ref()) {
            let pending = self
                .edits
                .iter()
                .flat_map(|edit| &edit.items)
                .any(|item| item.dir == *dir && item.name == *name);
            if pending {
                return false;
            }
            at = *dir;
        }
        is_root(at, &self.inodes)
    }

    /// Undoes unsynced entry changes as `survival` says. Returns how many were undone.
    pub(super) fn lose_edits(&mut self, survival: Survival, stream: &mut Stream) -> usize {
        let edits = std::mem::take(&mut self.edits);
        let prefix = stream.index(edits.len() + 1);
        let mut broken = BTreeSet::new();
        let mut undone = Vec::new();
        for (rank, edit) in edits.into_iter().enumerate() {
            let survives = match survival {
                Survival::Nothing => false,
                Survival::Everything => true,
                Survival::Prefix => rank < prefix,
                Survival::Scattered | Survival::Mixed => stream.one_in(2),
            };
            let depends = edit
                .items
                .iter()
                .any(|item| broken.contains(&(item.dir, item.name.clone())));
            if !survives || depends {
                broken.extend(edit.items.iter().map(|item| (item.dir, item.name.clone())));
                undone.push(edit);
            }
        }
        for edit in undone.iter().rev() {
            for item in edit.items.iter().rev() {
                self.set_entry(item.dir, &item.name, item.before);
            }
        }
        undone.len()
    }

    /// The process died at `step`: open ids are gone, and what it did is the past that any later sync covers.
    pub(super) fn forget_handles(&mut self, step: u64) {
        for inode in self.inodes.values_mut() {
            inode.handles = 0;
            inode.completed = step;
        }
        for edit in &mut self.edits {
            edit.completed.get_or_insert(step);
        }
        self.sweep();
    }

    /// A file disappears from the disk, durably.
    pub(super) fn lose_file(&mut self, id: InodeId) {
        if let Some((dir, name)) = self.inodes.get(&id).and_then(|inode| inode.parent.clone()) {
            self.set_entry(dir, &name, None);
            for edit in &mut self.edits {
                edit.items
                    .retain(|item| item.dir != dir || item.name != name);
            }
            self.edits.retain(|edit| !edit.items.is_empty());
            self.sweep();
        }
    }

    /// Forgets which entry changes are unsynced: what the disk shows is what it holds.
    pub(super) fn settle(&mut self) {
        self.edits.clear();
        for inode in self.inodes.values_mut() {
            inode.handles = 0;
            inode.completed = 0;
        }
        self.sweep();
    }

    /// Frees inodes that nothing can name any more.
    pub(super) fn sweep(&mut self) {
        let kept: BTreeSet<InodeId> = self
            .edits
            .iter()
            .flat_map(|edit| &edit.items)
            .filter_map(|item| item.before)
            .collect();
        loop {
            let before = self.inodes.len();
            let alive: BTreeSet<InodeId> = self.inodes.keys().copied().collect();
            self.inodes.retain(|id, inode| {
                let linked = inode
                    .parent
                    .as_ref()
                    .is_some_and(|(dir, _)| alive.contains(dir));
                linked || inode.handles > 0 || kept.contains(id) || inode.is_root(*id)
            });
            if self.inodes.len() == before {
                break;
            }
        }
    }

    /// Returns all files that have a name, with their folder's name and their own, in order of path.
    pub(super) fn walk(&self) -> Vec<(String, InodeId)> {
        let mut found = Vec::new();
        for (id, inode) in &self.inodes {
            if inode.is_root(*id) {
                self.walk_into(*id, "", &mut found);
            }
        }
        found
    }

    fn walk_into(&self, dir: InodeId, prefix: &str, found: &mut Vec<(String, InodeId)>) {
        let Some(entries) = self.entries(dir) else {
            return;
        };
        for (name, id) in entries {
            let path = if prefix.is_empty() {
                name.clone()
            } else {
                format!("{prefix}/{name}")
            };
            match self.inodes.get(id).map(|inode| &inode.body) {
                Some(Body::File(_)) => found.push((path, *id)),
                Some(Body::Dir(_)) => self.walk_into(*id, &path, found),
                None => {}
            }
        }
    }

    /// Returns all files, named or only open.
    pub(super) fn files_mut(&mut self) -> impl Iterator<Item = (InodeId, &mut Content)> {
        self.inodes
            .iter_mut()
            .filter_map(|(id, inode)| match &mut inode.body {
                Body::File(content) => Some((*id, content)),
                Body::Dir(_) => None,
            })
    }

    /// Returns how many bytes the files with a name or an open id hold.
    pub(super) fn used(&self) -> u64 {
        let held = self
            .inodes
            .values()
            .filter(|inode| inode.parent.is_some() || inode.handles > 0);
        let bytes = held.map(|inode| match &inode.body {
            Body::File(content) => u64::try_from(content.len()).unwrap_or(u64::MAX),
            Body::Dir(_) => 0,
        });
        bytes.sum()
    }
}

impl Inode {
    fn new(body: Body) -> Self {
        Self {
            body,
            parent: None,
            handles: 0,
            completed: 0,
        }
    }

    fn is_root(&self, id: InodeId) -> bool {
        self.parent.is_none() && matches!(self.body, Body::Dir(_)) && id.0 < ROOTS
    }
}

fn is_root(id: InodeId, inodes: &BTreeMap<InodeId, Inode>) -> bool {
    inodes.get(&id).is_some_and(|inode| inode.is_root(id))
}

pub(super) const fn root(dir: LogDirId) -> InodeId {
    InodeId(dir.0 as u32)
}

/// Ids below are roots of log directories. A folder lost with its entry is never one of them.
const ROOTS: u32 = 1 << 16;
