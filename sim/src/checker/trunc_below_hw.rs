//! TruncBelowHW: no copy cuts off a committed record that it has.

use std::collections::BTreeMap;

use super::{Checker, NodeChange, Seen, Verdict};
use crate::{ghost::Ghost, history::Place};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct TruncBelowHw {
    /// Up to where each copy held what is committed.
    held: BTreeMap<(usize, Place), i64>,
}

impl Checker for TruncBelowHw {
    fn name(&self) -> &'static str {
        "TruncBelowHW"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        match seen {
            Seen::Probe { node, probe, .. } => {
                for partition in probe.partitions.iter().filter(|p| !p.offline) {
                    let Some(place) = partition.place else {
                        continue;
                    };
                    let now = ghost.holds(*node, place);
                    let before = self.held.insert((*node, place), now);
                    let committed = ghost.committed_end(place);
                    // What is no longer committed was lost with leave; what the log start passed is trimmed.
                    let before = before.unwrap_or_default().min(committed);
                    let excused = ghost.is_beyond(*node) || ghost.is_damaged(place);
                    if now < before && partition.end < before && !excused {
                        verdict.fail(
                            "no copy cuts off a committed record that it has",
                            format!(
                                "node {node} {} in epoch {}: the log ends at {} now, and held what is committed up to {before}",
                                partition.partition, partition.leader_epoch.0, partition.end
                            ),
                        );
                    }
                }
            }
            // What a power loss takes is no cut.
            Seen::Node {
                node,
                change:
                    NodeChange::LostPower { .. } | NodeChange::LostDirty { .. } | NodeChange::Wiped,
                ..
            } => self.held.retain(|(known, _), _| known != node),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::bench::{Bench, REPLICATED, log_of_epochs, sound},
        disk::Disk,
        node::PartitionProbe,
    };

    fn ended(end: i64) -> PartitionProbe {
        PartitionProbe {
            leads: false,
            end,
            written: end,
            flushed: end.min(10),
            high_watermark: end.min(10),
            ..sound()
        }
    }

    #[test]
    fn cut_below_what_is_committed_is_rejected_and_above_it_accepted() {
        let mut bench = Bench::of(TruncBelowHw::default(), REPLICATED);
        let all = [(0, 5, 0), (5, 10, 0)];
        log_of_epochs(&mut bench.disk, &all);
        bench.probe(sound());
        bench.on(1);
        log_of_epochs(&mut bench.disk, &all);
        log_of_epochs(&mut bench.disk, &[(10, 12, 0)]);
        bench.probe(ended(12));
        bench.disk = Disk::new(1);
        log_of_epochs(&mut bench.disk, &all);
        bench.probe(ended(10));
        assert!(bench.is_ok());
        bench.disk = Disk::new(1);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0)]);
        bench.probe(ended(5));
        assert!(bench.rejects("ends at 5 now"));
    }
}
