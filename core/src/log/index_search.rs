//! Bisection over an index file by bounded reads: the cost does not grow with the log, and nothing is mapped or kept.

/// How many entries one read brings at most; the smallest range worth bisecting further.
const BLOCK_ENTRIES: u32 = 512;

/// A search for the last entry whose key is at most the target, and for the entry after it.
#[derive(Clone, Debug)]
pub(super) struct IndexSearch<E> {
    target: i64,
    /// Entries below are at most the target.
    low: u32,
    /// Entries from here on are above the target.
    high: u32,
    /// The entry before `low`, once seen.
    floor: Option<E>,
    /// The entry at `high`, once seen.
    ceiling: Option<E>,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchStep {
    /// Read this many entries from this one on and feed them.
    Read {
        /// Number of the first entry.
        first: u32,
        /// How many.
        count: u32,
    },
    /// The search is over.
    Done,
}

impl<E: Copy> IndexSearch<E> {
    /// Begins a search over a file of `entries` entries.
    pub(super) const fn new(target: i64, entries: u32) -> Self {
        Self {
            target,
            low: 0,
            high: entries,
            floor: None,
            ceiling: None,
        }
    }

    /// Says which entries to read next.
    pub(super) const fn step(&self) -> SearchStep {
        let left = self.high - self.low;
        if left == 0 {
            return SearchStep::Done;
        }
        if left <= BLOCK_ENTRIES {
            return SearchStep::Read {
                first: self.low,
                count: left,
            };
        }
        SearchStep::Read {
            first: self.low + (left - BLOCK_ENTRIES) / 2,
            count: BLOCK_ENTRIES,
        }
    }

    /// Takes the entries asked for, with their keys. False when they cannot be part of a sorted index.
    pub(super) fn feed(&mut self, entries: &[E], key: impl Fn(&E) -> i64) -> bool {
        let SearchStep::Read { first, count } = self.step() else {
            return false;
        };
        let sorted = entries
            .windows(2)
            .all(|pair| matches!(pair, [a, b] if key(a) < key(b)));
        if !sorted || u32::try_from(entries.len()) != Ok(count) {
            return false;
        }
        let within = entries.partition_point(|entry| key(entry) <= self.target);
        let Ok(below) = u32::try_from(within) else {
            return false;
        };
        if let Some(last_below) = within.checked_sub(1) {
            self.low = first + below;
            self.floor = Some(entries[last_below]);
        }
        if let Some(above) = entries.get(within) {
            self.high = first + below;
            self.ceiling = Some(*above);
        }
        true
    }

    /// Returns the last entry at most the target.
    pub(super) const fn floor(&self) -> Option<E> {
        self.floor
    }

    /// Returns the first entry above the target.
    pub(super) const fn ceiling(&self) -> Option<E> {
        self.ceiling
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(keys: &[i64], target: i64) -> (Option<i64>, Option<i64>, u32) {
        let mut search = IndexSearch::new(target, u32::try_from(keys.len()).unwrap());
        let mut reads = 0;
        while let SearchStep::Read { first, count } = search.step() {
            let first = usize::try_from(first).unwrap();
            let count = usize::try_from(count).unwrap();
            assert!(search.feed(&keys[first..first + count], |key| *key));
            reads += 1;
        }
        (search.floor(), search.ceiling(), reads)
    }

    #[test]
    fn search_finds_floor_and_ceiling_in_few_reads() {
        let keys: Vec<i64> = (0..100_000).map(|at| at * 10).collect();
        for target in [-1, 0, 5, 10, 4_999, 500_000, 999_989, 999_990, 2_000_000] {
            let floor = keys.iter().rev().find(|key| **key <= target).copied();
            let ceiling = keys.iter().find(|key| **key > target).copied();
            let (found_floor, found_ceiling, reads) = search(&keys, target);
            assert_eq!((found_floor, found_ceiling), (floor, ceiling), "{target}");
            assert!(reads <= 10, "{reads} reads");
        }
        assert_eq!(search(&[], 5), (None, None, 0));
        assert_eq!(search(&[7], 5), (None, Some(7), 1));
    }

    #[test]
    fn entries_out_of_order_are_refused() {
        let mut search = IndexSearch::new(5, 3);
        assert!(!search.feed(&[1, 3, 2], |key| *key));
        assert!(!search.feed(&[1, 3], |key| *key), "fewer than asked for");
    }
}
