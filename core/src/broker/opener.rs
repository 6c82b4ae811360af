//! Opens logs in the background, a few at a time.
//!
//! A log opens on its first use. What must be opened even if nobody uses it (after an unclean stop, so that the next clean
//! stop can vouch for it; for retention) goes through here, so that ten thousand recoveries do not start at once.

use std::collections::{BTreeSet, VecDeque};

use crate::replication::SlotId;

/// How many logs open at once.
const CONCURRENT_MAX: usize = 8;

/// Logs that wait to be opened.
#[derive(Debug, Default)]
pub(super) struct Opener {
    waiting: VecDeque<SlotId>,
    opening: BTreeSet<SlotId>,
}

impl Opener {
    /// Adds a log.
    pub(super) fn push(&mut self, slot: SlotId) {
        self.waiting.push_back(slot);
    }

    /// Takes the next log to open, if another may be opened now.
    pub(super) fn next(&mut self) -> Option<SlotId> {
        if self.opening.len() >= CONCURRENT_MAX {
            return None;
        }
        self.waiting.pop_front()
    }

    /// Notes that a log has started to open.
    pub(super) fn started(&mut self, slot: SlotId) {
        self.opening.insert(slot);
    }

    /// Notes that a log is open, or never will be.
    pub(super) fn finished(&mut self, slot: SlotId) {
        self.opening.remove(&slot);
    }
}
