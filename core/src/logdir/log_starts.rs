//! Moves of log starts: durable in the checkpoint first, visible and effective afterwards.
//!
//! A log start that readers have seen must never go back, not even by a power loss, so the checkpoint is written and synced
//! before the log deletes anything.

use std::collections::BTreeMap;

use crate::ids::Offset;

/// Log starts that are wanted, and those that are being made durable; `K` names a log.
#[derive(Debug)]
pub struct LogStarts<K> {
    wanted: BTreeMap<K, Offset>,
    writing: BTreeMap<K, Offset>,
}

impl<K: Ord + Copy> Default for LogStarts<K> {
    fn default() -> Self {
        Self {
            wanted: BTreeMap::new(),
            writing: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Copy> LogStarts<K> {
    /// Asks for a log's start to move to an offset; it never moves back.
    pub fn want(&mut self, log: K, offset: Offset) {
        let wanted = self.wanted.entry(log).or_insert(offset);
        *wanted = offset.max(*wanted);
    }

    /// Returns whether a new checkpoint should be written now.
    #[must_use]
    pub fn is_due(&self) -> bool {
        !self.wanted.is_empty() && self.writing.is_empty()
    }

    /// Takes what the next checkpoint will make durable.
    pub fn begin(&mut self) {
        debug_assert!(self.writing.is_empty(), "one checkpoint at a time");
        self.writing = std::mem::take(&mut self.wanted);
    }

    /// Returns the start that the checkpoint under way gives a log, where it moves one.
    #[must_use]
    pub fn moved(&self, log: K) -> Option<Offset> {
        self.writing.get(&log).copied()
    }

    /// Takes the moves that are durable now.
    pub fn finish(&mut self) -> BTreeMap<K, Offset> {
        std::mem::take(&mut self.writing)
    }

    /// Forgets a log that is gone.
    pub fn forget(&mut self, log: K) {
        self.wanted.remove(&log);
        self.writing.remove(&log);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_asked_for_while_a_checkpoint_is_written_wait_for_the_next() {
        let mut starts = LogStarts::default();
        starts.want(1_u32, 5);
        starts.want(1, 3);
        assert!(starts.is_due());
        starts.begin();
        assert_eq!(starts.moved(1), Some(5));
        starts.want(1, 9);
        assert!(!starts.is_due(), "one checkpoint at a time");
        assert_eq!(starts.finish(), BTreeMap::from([(1, 5)]));
        assert!(starts.is_due());
    }
}
