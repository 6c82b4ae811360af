//! All batches of a partition that were ever seen on a disk, by epoch and offset, whoever cut them off since.

use std::collections::{BTreeMap, BTreeSet};

use super::marks_from;
use crate::disk::{BatchMark, Disk};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Batches {
    known: BTreeMap<(i64, i32), Known>,
    digests: BTreeSet<u64>,
    /// Up to where each disk was looked at.
    looked: BTreeMap<usize, i64>,
    mismatch: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    digest: u64,
    /// Epoch and first offset of the batch before it, if there was one.
    before: Option<(i64, i32)>,
    node: usize,
}

impl Batches {
    /// Looks at what is new on a disk whose log ends at `end`.
    pub(super) fn see(&mut self, node: usize, disk: &Disk, folder: &str, end: i64) {
        let looked = self.looked.entry(node).or_default();
        let from = (*looked).min(end);
        *looked = end;
        // One batch more, to know what is before the first new one.
        let marks = marks_from(disk, folder, from.saturating_sub(1));
        let mut before: Option<&BatchMark> = None;
        for mark in &marks {
            if mark.last >= from {
                self.note(node, mark, before);
            }
            before = Some(mark);
        }
    }

    fn note(&mut self, node: usize, mark: &BatchMark, before: Option<&BatchMark>) {
        let before = before.filter(|before| before.last + 1 == mark.base);
        let now = Known {
            digest: mark.digest,
            before: before.map(|before| (before.base, before.leader_epoch)),
            node,
        };
        self.digests.insert(mark.digest);
        let known = self
            .known
            .entry((mark.base, mark.leader_epoch))
            .or_insert(now);
        let same_before = known.before == now.before || known.before.is_none() || before.is_none();
        if known.digest != now.digest || !same_before {
            let what = if same_before {
                "differs"
            } else {
                "follows another batch"
            };
            self.mismatch = Some(format!(
                "the batch at offset {} of epoch {} {what} on nodes {} and {node}: {known:?}, {now:?}",
                mark.base, mark.leader_epoch, known.node
            ));
        } else if known.before.is_none() {
            known.before = now.before;
        }
    }

    /// A disk changed without its broker: it is looked at anew.
    pub(super) fn forget(&mut self, node: usize) {
        self.looked.remove(&node);
    }

    /// Whether a batch was ever seen.
    pub(super) fn has(&self, digest: u64) -> bool {
        self.digests.contains(&digest)
    }

    pub(super) fn mismatch(&self) -> Option<&str> {
        self.mismatch.as_deref()
    }
}
