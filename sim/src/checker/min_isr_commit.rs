//! MinIsrCommit: the high watermark moves only while so many replicas are in sync as `min.insync.replicas` wants.

use std::collections::BTreeMap;

use seedlog_core::ids::Epoch;

use super::{Checker, Seen, Verdict};
use crate::{ghost::Ghost, history::Place};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct MinIsrCommit {
    /// Epoch, high watermark and in-sync replicas of each leader, as seen last.
    looked: BTreeMap<(usize, Place), (Epoch, i64, usize)>,
}

impl Checker for MinIsrCommit {
    fn name(&self) -> &'static str {
        "MinIsrCommit"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        let Seen::Probe { node, probe, .. } = seen else {
            return;
        };
        for partition in probe.partitions.iter().filter(|p| p.leads && !p.offline) {
            let Some(place) = partition.place else {
                continue;
            };
            // Whose only copy it is may say so or not.
            if ghost.promise(place).copies == 1 {
                continue;
            }
            let min_isr = ghost.promise(place).min_isr;
            let in_sync = partition.isr.len();
            let now = (partition.leader_epoch, partition.high_watermark, in_sync);
            let Some((epoch, before, were)) = self.looked.insert((*node, place), now) else {
                continue;
            };
            // A change of the in-sync replicas may come in the same step as the move.
            let too_few = in_sync < min_isr && were < min_isr;
            let moved = epoch == partition.leader_epoch && partition.high_watermark > before;
            if moved && too_few {
                verdict.fail(
                    "the high watermark moves only while enough replicas are in sync",
                    format!(
                        "node {node} {}: from {before} to {} in epoch {} with {:?} in sync",
                        partition.partition, partition.high_watermark, epoch.0, partition.isr
                    ),
                );
                return;
            }
        }
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
}
