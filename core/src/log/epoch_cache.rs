//! The leader epochs of a log and where each begins (KIP-101).
//!
//! Both columns grow strictly. The table must equal the one recomputed from the batches, plus the entry of the current
//! leadership: it is trimmed by every truncation and every move of the log start, even when no record goes with it.

use crate::ids::{Epoch, Offset};

/// The table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EpochCache {
    entries: Vec<(Epoch, Offset)>,
}

impl EpochCache {
    /// Takes a parsed checkpoint, whose columns grow.
    pub(super) const fn from_entries(entries: Vec<(Epoch, Offset)>) -> Self {
        Self { entries }
    }

    /// Returns the entries in order.
    pub(super) fn entries(&self) -> &[(Epoch, Offset)] {
        &self.entries
    }

    /// Returns the latest epoch.
    pub(super) fn latest(&self) -> Option<Epoch> {
        self.entries.last().map(|(epoch, _)| *epoch)
    }

    /// Notes that `epoch` begins at `start`; entries that contradict it go. Returns whether anything changed.
    pub(super) fn assign(&mut self, epoch: Epoch, start: Offset) -> bool {
        if epoch.0 < 0 || start < 0 {
            return false;
        }
        if let Some((latest, first)) = self.entries.last()
            && *latest == epoch
            && *first <= start
        {
            return false;
        }
        while self
            .entries
            .last()
            .is_some_and(|(known, first)| *known >= epoch || *first >= start)
        {
            self.entries.pop();
        }
        self.entries.push((epoch, start));
        true
    }

    /// Removes the entries that begin at or after `end`. Returns whether anything changed.
    pub(super) fn truncate_from_end(&mut self, end: Offset) -> bool {
        let keep = self.entries.partition_point(|(_, start)| *start < end);
        let changed = keep < self.entries.len();
        self.entries.truncate(keep);
        changed
    }

    /// Removes what lies wholly before `start`, whose epoch then begins there. Returns whether anything changed.
    pub(super) fn truncate_from_start(&mut self, start: Offset) -> bool {
        let below = self.entries.partition_point(|(_, first)| *first <= start);
        let Some(last_below) = below.checked_sub(1) else {
            return false;
        };
        if last_below == 0 && self.entries[0].1 == start {
            return false;
        }
        self.entries.drain(..last_below);
        self.entries[0].1 = start;
        true
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Returns the epoch that holds `offset`, `None` before the first entry.
    pub(super) fn epoch_for(&self, offset: Offset) -> Option<Epoch> {
        let below = self.entries.partition_point(|(_, first)| *first <= offset);
        below.checked_sub(1).map(|at| self.entries[at].0)
    }

    /// Returns the first entry.
    pub(super) fn earliest(&self) -> Option<(Epoch, Offset)> {
        self.entries.first().copied()
    }

    /// Answers OffsetForLeaderEpoch: the largest known epoch at most `epoch`, and where it ends. `None` where Kafka
    /// answers with undefined epoch and offset.
    pub(super) fn end_of(&self, epoch: Epoch, log_end: Offset) -> Option<(Epoch, Offset)> {
        if epoch.0 < 0 {
            return None;
        }
        if self.latest() == Some(epoch) {
            return Some((epoch, log_end));
        }
        let higher = self.entries.partition_point(|(known, _)| *known <= epoch);
        let (_, end) = self.entries.get(higher)?;
        Some(match higher.checked_sub(1) {
            Some(floor) => (self.entries[floor].0, *end),
            None => (epoch, *end),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(entries: &[(i32, i64)]) -> EpochCache {
        let mut cache = EpochCache::default();
        for (epoch, start) in entries {
            cache.assign(Epoch(*epoch), *start);
        }
        cache
    }

    fn entries(cache: &EpochCache) -> Vec<(i32, i64)> {
        let plain = |(epoch, start): &(Epoch, Offset)| (epoch.0, *start);
        cache.entries().iter().map(plain).collect()
    }

    #[test]
    fn both_columns_stay_strictly_increasing() {
        let mut cache = cache(&[(0, 0), (2, 10)]);
        assert!(!cache.assign(Epoch(2), 15), "the epoch already began");
        assert!(cache.assign(Epoch(3), 10), "epoch 2 stayed empty");
        assert_eq!(entries(&cache), [(0, 0), (3, 10)]);
        assert!(cache.assign(Epoch(1), 5));
        assert_eq!(entries(&cache), [(0, 0), (1, 5)]);
    }

    #[test]
    fn truncation_trims_entries_even_when_no_record_goes() {
        let mut cache = cache(&[(0, 0), (1, 10), (2, 20)]);
        assert!(cache.truncate_from_end(20));
        assert_eq!(entries(&cache), [(0, 0), (1, 10)]);
        assert!(!cache.truncate_from_end(20));
    }

    #[test]
    fn start_move_keeps_the_epoch_of_the_new_start() {
        let mut cache = cache(&[(0, 0), (1, 10), (2, 20)]);
        assert!(cache.truncate_from_start(15));
        assert_eq!(entries(&cache), [(1, 15), (2, 20)]);
        assert!(!cache.truncate_from_start(15));
        assert!(cache.truncate_from_start(20));
        assert_eq!(entries(&cache), [(2, 20)]);
        assert!(!cache.truncate_from_start(3));
    }

    #[test]
    fn end_of_an_epoch_is_the_start_of_the_next_known_one() {
        let cache = cache(&[(1, 10), (4, 20), (6, 30)]);
        assert_eq!(cache.end_of(Epoch(6), 99), Some((Epoch(6), 99)));
        assert_eq!(cache.end_of(Epoch(5), 99), Some((Epoch(4), 30)));
        assert_eq!(cache.end_of(Epoch(1), 99), Some((Epoch(1), 20)));
        assert_eq!(cache.end_of(Epoch(0), 99), Some((Epoch(0), 10)));
        assert_eq!(cache.end_of(Epoch(7), 99), None);
        assert_eq!(cache.end_of(Epoch(-1), 99), None);
    }

    #[test]
    fn epoch_of_an_offset_is_that_of_the_last_start_before_it() {
        let cache = cache(&[(1, 10), (4, 20)]);
        assert_eq!(cache.epoch_for(9), None);
        assert_eq!(cache.epoch_for(10), Some(Epoch(1)));
        assert_eq!(cache.epoch_for(25), Some(Epoch(4)));
    }
}
