//! MinIsrCommit: the high watermark moves only while so many replicas are in sync as `min.insync.replicas` wants.

use std::{collections::BTreeMap, ops::Range};

use seedlog_core::ids::Epoch;

use super::{Checker, Seen, Verdict};
use crate::{ghost::Ghost, history::Place};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct MinIsrCommit {
    /// Each leader as it was seen last.
    looked: BTreeMap<(usize, Place), Look>,
    /// How many replicas are in sync as of each partition epoch that any node has shown.
    sizes: BTreeMap<(Place, i32), usize>,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    epoch: Epoch,
    high_watermark: i64,
    partition_epoch: i32,
    in_sync: usize,
}

impl Checker for MinIsrCommit {
    fn name(&self) -> &'static str {
        "MinIsrCommit"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        let Seen::Probe { node, probe, .. } = seen else {
            return;
        };
        for partition in probe.partitions.iter().filter(|p| !p.offline) {
            let Some(place) = partition.place else {
                continue;
            };
            let now = Look {
                epoch: partition.leader_epoch,
                high_watermark: partition.high_watermark,
                partition_epoch: partition.partition_epoch,
                in_sync: partition.isr.len(),
            };
            self.sizes.insert((place, now.partition_epoch), now.in_sync);
            // Whose only copy it is may say so or not.
            if !partition.leads || ghost.promise(place).copies == 1 {
                continue;
            }
            let min_isr = ghost.promise(place).min_isr;
            let Some(before) = self.looked.insert((*node, place), now) else {
                continue;
            };
            // Changes of the in-sync replicas may come in the same step as the move, several at once.
            let too_few = now.in_sync < min_isr && before.in_sync < min_isr;
            let moved = before.epoch == now.epoch && now.high_watermark > before.high_watermark;
            let between = before.partition_epoch + 1..now.partition_epoch;
            if moved && too_few && !self.may_have_had(place, between, min_isr) {
                verdict.fail(
                    "the high watermark moves only while enough replicas are in sync",
                    format!(
                        "node {node} {}: from {} to {} in epoch {} with {:?} in sync as of partition epoch {}, after {}",
                        partition.partition,
                        before.high_watermark,
                        now.high_watermark,
                        now.epoch.0,
                        partition.isr,
                        now.partition_epoch,
                        before.partition_epoch
                    ),
                );
                return;
            }
        }
    }
}

impl MinIsrCommit {
    /// Whether so many replicas were in sync as of some of these partition epochs, or nobody has shown how many.
    fn may_have_had(&self, place: Place, mut epochs: Range<i32>, enough: usize) -> bool {
        epochs.any(|epoch| {
            let size = self.sizes.get(&(place, epoch));
            size.is_none_or(|size| *size >= enough)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seedlog_core::ids::NodeId;

    use crate::{
        checker::bench::{Bench, REPLICATED, sound},
        node::PartitionProbe,
    };

    fn led(high_watermark: i64, isr: &[i32]) -> PartitionProbe {
        PartitionProbe {
            high_watermark,
            isr: isr.iter().map(|node| NodeId(*node)).collect(),
            ..sound()
        }
    }

    fn as_of(partition_epoch: i32, probe: PartitionProbe) -> PartitionProbe {
        PartitionProbe {
            partition_epoch,
            ..probe
        }
    }

    #[test]
    fn move_with_too_few_in_sync_is_rejected() {
        let mut bench = Bench::of(MinIsrCommit::default(), REPLICATED);
        bench.probe(led(3, &[1, 2, 3]));
        bench.probe(led(5, &[1, 2]));
        bench.probe(led(5, &[1]));
        assert!(bench.is_ok());
        bench.probe(led(6, &[1]));
        assert!(bench.rejects("from 5 to 6"));
    }

    #[test]
    fn move_between_two_changes_of_one_step_is_accepted() {
        let mut bench = Bench::of(MinIsrCommit::default(), REPLICATED);
        bench.probe(as_of(7, led(5, &[1])));
        bench.probe(as_of(9, led(6, &[1])));
        assert!(bench.is_ok(), "[1, 2] may have been in sync as of 8");
    }

    #[test]
    fn move_over_changes_that_all_left_too_few_is_rejected() {
        let mut bench = Bench::of(MinIsrCommit::default(), REPLICATED);
        bench.probe(as_of(7, led(5, &[1])));
        bench.on(1);
        bench.probe(PartitionProbe {
            leads: false,
            ..as_of(8, led(0, &[2]))
        });
        bench.on(0);
        bench.probe(as_of(9, led(6, &[1])));
        assert!(bench.rejects("from 5 to 6"));
    }

    #[test]
    fn move_with_one_change_that_leaves_too_few_is_rejected() {
        let mut bench = Bench::of(MinIsrCommit::default(), REPLICATED);
        bench.probe(as_of(7, led(5, &[1])));
        bench.probe(as_of(8, led(6, &[2])));
        assert!(bench.rejects("from 5 to 6"));
    }
}
