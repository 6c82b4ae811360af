//! TruncConverges: a follower comes to an end with cutting: a bounded number of times in one leader epoch.

use std::collections::BTreeMap;

use seedlog_core::ids::Epoch;

use super::{Checker, NodeChange, Seen, Verdict};
use crate::{ghost::Ghost, history::Place};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct TruncConverges {
    copies: BTreeMap<(usize, Place), Cuts>,
}

/// How often a copy was cut in an epoch.
#[derive(Clone, Copy, Debug)]
struct Cuts {
    epoch: Epoch,
    written: i64,
    count: u32,
}

impl Checker for TruncConverges {
    fn name(&self) -> &'static str {
        "TruncConverges"
    }

    fn see(&mut self, _ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        match seen {
            Seen::Probe { node, probe, .. } => {
                for partition in probe.partitions.iter().filter(|p| !p.offline) {
                    let Some(place) = partition.place else {
                        continue;
                    };
                    let fresh = Cuts {
                        epoch: partition.leader_epoch,
                        written: partition.written,
                        count: 0,
                    };
                    let cuts = self.copies.entry((*node, place)).or_insert(fresh);
                    if cuts.epoch != partition.leader_epoch {
                        *cuts = fresh;
                    }
                    // What could not be written is taken back, and fetched again for as long as a disk is full.
                    let is_cut = !partition.leads && partition.end < cuts.written;
                    cuts.count += u32::from(is_cut);
                    cuts.written = partition.written;
                    if cuts.count > CUTS_MAX {
                        verdict.fail(
                            "a follower agrees with its leader after a bounded number of cuts",
                            format!(
                                "node {node} {} was cut {} times in epoch {}",
                                partition.partition, cuts.count, cuts.epoch.0
                            ),
                        );
                        return;
                    }
                }
            }
            Seen::Node {
                node,
                change: NodeChange::Started,
                ..
            } => self.copies.retain(|(known, _), _| known != node),
            _ => {}
        }
    }
}

/// One cut for each epoch that two logs may disagree about is due; no run has more epochs than this between two copies.
const CUTS_MAX: u32 = 30;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::bench::{Bench, REPLICATED, sound},
        node::PartitionProbe,
    };

    #[test]
    fn endless_cutting_is_rejected_and_one_cut_in_each_epoch_is_not() {
        for moves in [true, false] {
            let mut bench = Bench::of(TruncConverges::default(), REPLICATED);
            for round in 0..40 {
                for end in [12, 10] {
                    bench.probe(PartitionProbe {
                        leads: false,
                        end,
                        written: end,
                        leader_epoch: Epoch(if moves { round } else { 0 }),
                        ..sound()
                    });
                }
            }
            assert_eq!(bench.is_ok(), moves);
        }
    }

    #[test]
    fn taking_back_what_a_full_disk_did_not_take_is_no_cut() {
        let mut bench = Bench::of(TruncConverges::default(), REPLICATED);
        for _ in 0..40 {
            for end in [12, 10] {
                bench.probe(PartitionProbe {
                    leads: false,
                    end,
                    written: 10,
                    ..sound()
                });
            }
        }
        assert!(bench.is_ok());
    }
}
