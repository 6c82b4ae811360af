//! What the model disk knows about log files: each batch, when it was written, and since when it is durable.
//!
//! The broker never sees this. It is the truth against which its promises are measured.

use std::collections::BTreeMap;

use super::tree::{InodeId, Tree};
use crate::{batch::BatchHeader, digest::Digest};

/// One batch in a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchMark {
    /// Offset of its first record.
    pub base: i64,
    /// Offset of its last record.
    pub last: i64,
    /// Epoch of the leader that appended it.
    pub leader_epoch: i32,
    /// Position of its first byte.
    pub at: usize,
    /// Position after its last byte.
    pub end: usize,
    /// Digest of its bytes.
    pub digest: u64,
    /// The disk's step at which it was written to the page cache.
    pub written: u64,
    /// The disk's step since which it survives a power loss; `None` while it may not.
    pub durable: Option<u64>,
}

/// Batches of all log files, by file.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    files: BTreeMap<InodeId, Vec<BatchMark>>,
}

impl Ledger {
    /// Whether a file name is a log segment's.
    pub(super) fn is_log(name: &str) -> bool {
        name.strip_suffix(".log")
            .is_some_and(|stem| stem.len() == 20 && stem.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// Notes that a log file changed from position `from` on. A batch whose bytes are the same as before keeps its stamps: a
    /// power loss brings back either what was written or what was there, and that is the same.
    pub(super) fn changed(&mut self, tree: &Tree, id: InodeId, from: usize, step: u64) {
        let Some(bytes) = tree.file(id).map(|content| content.bytes()) else {
            return;
        };
        let marks = self.files.entry(id).or_default();
        let kept = marks.partition_point(|mark| mark.end <= from && mark.end <= bytes.len());
        let before = marks.split_off(kept);
        extend(marks, bytes, step);
        for mark in &mut marks[kept..] {
            let old = before.binary_search_by_key(&mark.at, |old| old.at);
            if let Ok(old) = old.map(|at| before[at])
                && (old.end, old.digest) == (mark.end, mark.digest)
            {
                (mark.written, mark.durable) = (old.written, old.durable);
            }
        }
    }

    /// Stamps what became durable in a file by a sync of it or of a folder above it.
    pub(super) fn synced(&mut self, tree: &Tree, id: InodeId, step: u64) {
        let Some(marks) = self.files.get_mut(&id) else {
            return;
        };
        if marks.last().is_none_or(|mark| mark.durable.is_some()) || !tree.is_linked_durably(id) {
            return;
        }
        let prefix = tree.file(id).map_or(0, |content| content.synced_prefix());
        for mark in marks.iter_mut().rev() {
            if mark.durable.is_some() {
                break;
            }
            if mark.end <= prefix {
                mark.durable = Some(step);
            }
        }
    }

    /// Compares with what a power loss left: what is still there is durable now.
    pub(super) fn settle(&mut self, tree: &Tree, step: u64) {
        self.files.retain(|id, _| tree.inode(*id).is_some());
        for (id, marks) in &mut self.files {
            let bytes = tree.file(*id).map_or(&[][..], |content| content.bytes());
            keep_intact(marks, bytes);
            extend(marks, bytes, step);
            for mark in marks {
                mark.durable.get_or_insert(step);
            }
        }
    }

    /// Forgets the batches that damage at rest took.
    pub(super) fn settle_damage(&mut self, tree: &Tree, id: InodeId) {
        if tree.inode(id).is_none() {
            self.files.remove(&id);
        } else if let Some(marks) = self.files.get_mut(&id) {
            keep_intact(
                marks,
                tree.file(id).map_or(&[][..], |content| content.bytes()),
            );
        }
    }

    /// Returns the batches of a file.
    pub(super) fn marks(&self, id: InodeId) -> &[BatchMark] {
        self.files.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Returns the log files known.
    pub(super) fn files(&self) -> impl Iterator<Item = InodeId> + '_ {
        self.files.keys().copied()
    }
}

/// Reads whole batches after the last known one.
fn extend(marks: &mut Vec<BatchMark>, bytes: &[u8], step: u64) {
    let mut at = marks.last().map_or(0, |mark| mark.end);
    while let Some(header) = BatchHeader::read(&bytes[at.min(bytes.len())..]) {
        let end = at + header.size;
        // A power loss leaves headers without their records.
        if !BatchHeader::is_intact(&bytes[at..end]) {
            break;
        }
        marks.push(BatchMark {
            base: header.base,
            last: header.last,
            leader_epoch: header.leader_epoch,
            at,
            end,
            digest: Digest::of(&bytes[at..end]),
            written: step,
            durable: None,
        });
        at = end;
    }
}

fn keep_intact(marks: &mut Vec<BatchMark>, bytes: &[u8]) {
    let intact = marks.iter().position(|mark| {
        bytes
            .get(mark.at..mark.end)
            .is_none_or(|batch| Digest::of(batch) != mark.digest)
    });
    marks.truncate(intact.unwrap_or(marks.len()));
}
