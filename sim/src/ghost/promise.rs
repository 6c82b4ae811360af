//! What is promised of a partition, and from which losses on the promise no longer holds.

use std::collections::BTreeMap;

use crate::time::SimTime;

/// What is promised of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Whether a copy counts only when flushed.
    pub durable: bool,
    /// How many copies there are.
    pub copies: usize,
    /// How many of them have what is committed (`min.insync.replicas`).
    pub min_isr: usize,
    /// Whether a leader may be elected that misses committed records (`unclean.leader.election.enable`).
    pub unclean: bool,
}

impl Promise {
    /// What a single copy promises.
    #[must_use]
    pub const fn single(durable: bool) -> Self {
        Self {
            durable,
            copies: 1,
            min_isr: 1,
            unclean: false,
        }
    }
}

/// Offsets that were lost against no promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    pub(super) at: SimTime,
    pub(super) from: i64,
    pub(super) to: i64,
    /// A leader was elected that misses records, as the topic's configuration allows.
    pub(super) unclean: bool,
}

/// What one copy had and has no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    from: i64,
    to: i64,
    /// The disk itself is gone, or went bad: no sync helps.
    by_disk: bool,
}

/// What each copy of a partition lost and did not get again, and what was lost with leave.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    gaps: BTreeMap<usize, Gap>,
    lost: Vec<Loss>,
}

impl Losses {
    /// A node lost what it had of offsets `from..to`. Returns from where on that is more than the promise covers.
    ///
    /// A record that is committed has `min_isr` copies at least: it may be missing only when so many of them are gone at once.
    pub(super) fn lose(
        &mut self,
        promise: Promise,
        at: SimTime,
        node: usize,
        (from, to): (i64, i64),
        by_disk: bool,
    ) -> Option<i64> {
        if promise.durable && !by_disk {
            return None;
        }
        if promise.copies == 1 {
            self.allow(at, from, to);
            return Some(from);
        }
        let gap = self.gaps.entry(node).or_insert(Gap { from, to, by_disk });
        gap.from = gap.from.min(from);
        gap.to = gap.to.max(to);
        gap.by_disk |= by_disk;
        let mut starts: Vec<i64> = self.gaps.values().map(|gap| gap.from).collect();
        let mut ends: Vec<i64> = self.gaps.values().map(|gap| gap.to).collect();
        starts.sort_unstable();
        ends.sort_unstable_by(|one, other| other.cmp(one));
        let last = promise.min_isr.checked_sub(1)?;
        let (from, to) = (*starts.get(last)?, *ends.get(last)?);
        (from < to).then(|| {
            self.allow(at, from, to);
            from
        })
    }

    fn allow(&mut self, at: SimTime, from: i64, to: i64) {
        self.lost.push(Loss {
            at,
            from,
            to,
            unclean: false,
        });
    }

    /// A copy leads because nobody else is left: what it lost is lost for all. Returns from where on, if the promise lets it go.
    pub(super) fn give_up(&mut self, promise: Promise, at: SimTime, node: usize) -> Option<i64> {
        if promise.durable {
            return None;
        }
        let gap = self.gaps.remove(&node)?;
        self.allow(at, gap.from, gap.to);
        Some(gap.from)
    }

    /// A leader was elected that may miss committed records, with leave.
    pub(super) fn elect_uncleanly(&mut self, at: SimTime) {
        self.lost.push(Loss {
            at,
            from: 0,
            to: i64::MAX,
            unclean: true,
        });
    }

    /// Returns the first offset that a node lost and did not get again.
    pub(super) fn gap(&self, node: usize) -> Option<i64> {
        self.gaps.get(&node).map(|gap| gap.from)
    }

    /// A node has everything below an offset again.
    pub(super) fn regain(&mut self, node: usize, below: i64) {
        let Some(gap) = self.gaps.get_mut(&node) else {
            return;
        };
        gap.from = gap.from.max(below);
        if gap.from >= gap.to {
            self.gaps.remove(&node);
        }
    }

    /// Returns what was lost with leave at or after a time.
    pub(super) fn since(&self, since: SimTime) -> impl Iterator<Item = &Loss> {
        self.lost.iter().filter(move |loss| loss.at >= since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLICATED: Promise = Promise {
        durable: false,
        copies: 3,
        min_isr: 2,
        unclean: false,
    };

    fn at(millis: u64) -> SimTime {
        SimTime::from_millis(millis)
    }

    #[test]
    fn one_copy_of_two_is_no_excuse_and_both_at_once_are() {
        let mut losses = Losses::default();
        assert_eq!(losses.lose(REPLICATED, at(1), 0, (10, 20), false), None);
        assert_eq!(losses.since(at(0)).count(), 0);
        assert_eq!(losses.lose(REPLICATED, at(2), 1, (15, 25), false), Some(15));
        let lost: Vec<_> = losses
            .since(at(0))
            .map(|loss| (loss.from, loss.to))
            .collect();
        assert_eq!(lost, [(15, 20)]);
        assert_eq!(losses.since(at(3)).count(), 0);
    }

    #[test]
    fn copy_that_was_got_again_does_not_count() {
        let mut losses = Losses::default();
        losses.lose(REPLICATED, at(1), 0, (10, 20), false);
        losses.regain(0, 20);
        assert_eq!(losses.lose(REPLICATED, at(2), 1, (15, 25), false), None);
    }

    #[test]
    fn what_the_last_leader_lost_is_excused_under_replicated_only() {
        let mut losses = Losses::default();
        losses.lose(REPLICATED, at(1), 0, (10, 20), false);
        assert_eq!(losses.give_up(REPLICATED, at(2), 1), None, "it has all");
        assert_eq!(losses.give_up(REPLICATED, at(2), 0), Some(10));
        let lost: Vec<_> = losses.since(at(2)).collect();
        assert_eq!(lost.len(), 1);
        assert_eq!((lost[0].from, lost[0].to), (10, 20));
        assert_eq!(losses.gap(0), None, "what it has is all there is");
        let durable = Promise {
            durable: true,
            ..REPLICATED
        };
        let mut losses = Losses::default();
        losses.lose(durable, at(1), 0, (10, 20), true);
        assert_eq!(losses.give_up(durable, at(2), 0), None);
        assert_eq!(losses.since(at(0)).count(), 0);
    }

    #[test]
    fn power_losses_excuse_nothing_under_durable_and_lost_disks_do() {
        let durable = Promise {
            durable: true,
            ..REPLICATED
        };
        let mut losses = Losses::default();
        for node in 0..3 {
            assert_eq!(losses.lose(durable, at(1), node, (0, 9), false), None);
        }
        assert_eq!(losses.lose(durable, at(2), 0, (0, 9), true), None);
        assert_eq!(losses.lose(durable, at(2), 1, (0, 7), true), Some(0));
    }
}
