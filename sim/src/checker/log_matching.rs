//! LogMatching: equal epoch and offset on two copies of a partition imply equal records up to there.
//!
//! A batch is named by its epoch and its first offset: whoever has it has the same bytes, behind the same batch.

use super::{Checker, Seen, Verdict};
use crate::ghost::Ghost;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LogMatching;

impl Checker for LogMatching {
    fn name(&self) -> &'static str {
        "LogMatching"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        let Seen::Probe { node, probe, .. } = seen else {
            return;
        };
        for place in probe
            .partitions
            .iter()
            .filter_map(|partition| partition.place)
        {
            let mismatch = ghost.mismatch(place).filter(|_| !ghost.is_damaged(place));
            if let Some(mismatch) = mismatch {
                verdict.fail(
                    "what has the same epoch and offset on two copies is the same, and so is all before it",
                    format!("node {node} {}: {mismatch}", ghost.places().partition(place)),
                );
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::bench::{Bench, REPLICATED, log_of_epochs, sound};

    fn copies(one: &[(i64, i64, i32)], other: &[(i64, i64, i32)]) -> Bench<LogMatching> {
        let mut bench = Bench::of(LogMatching, REPLICATED);
        for (node, batches) in [one, other].into_iter().enumerate() {
            bench.on(node);
            log_of_epochs(&mut bench.disk, batches);
            bench.probe(sound());
        }
        bench
    }

    #[test]
    fn prefixes_and_diverging_ends_are_accepted() {
        let one = [(0, 5, 0), (5, 10, 0)];
        assert!(copies(&one, &[(0, 5, 0)]).is_ok());
        assert!(copies(&one, &[(0, 5, 0), (5, 8, 1)]).is_ok());
    }

    #[test]
    fn two_batches_of_one_epoch_and_offset_are_rejected() {
        let bad = copies(&[(0, 5, 0), (5, 10, 1)], &[(0, 5, 0), (5, 9, 1)]);
        assert!(bad.rejects("offset 5 of epoch 1"));
    }

    #[test]
    fn equal_batch_behind_another_one_is_rejected() {
        let bad = copies(&[(0, 5, 0), (5, 10, 2)], &[(0, 5, 1), (5, 10, 2)]);
        assert!(bad.rejects("offset 5 of epoch 2"));
    }
}
