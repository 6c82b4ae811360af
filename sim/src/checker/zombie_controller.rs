//! ZombieController: no effect of an uncommitted decision is seen. A partition epoch that brokers know stands for one leader, one
//! leader epoch and one set of in-sync replicas, whoever led the quorum when it was made.

use std::collections::BTreeMap;

use seedlog_core::ids::{Epoch, NodeId};

use super::{Checker, Seen, Verdict};
use crate::{ghost::Ghost, history::Place, node::PartitionProbe};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ZombieController {
    decided: BTreeMap<(Place, i32), Decided>,
    /// The partition epoch of each copy looked at last.
    looked: BTreeMap<(usize, Place), i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Decided {
    by: usize,
    leader: Option<NodeId>,
    epoch: Epoch,
    isr: Vec<NodeId>,
}

impl Decided {
    fn of(by: usize, probe: &PartitionProbe) -> Self {
        let mut isr = probe.isr.clone();
        isr.sort_unstable();
        Self {
            by,
            leader: probe.leader,
            epoch: probe.leader_epoch,
            isr,
        }
    }

    fn is(&self, other: &Self) -> bool {
        (self.leader, self.epoch, &self.isr) == (other.leader, other.epoch, &other.isr)
    }
}

impl Checker for ZombieController {
    fn name(&self) -> &'static str {
        "ZombieController"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        let (node, probe) = match seen {
            Seen::Probe { node, probe, .. } => (*node, *probe),
            Seen::Node { node, change, .. } if change.ends_process() => {
                self.looked.retain(|(known, _), _| known != node);
                return;
            }
            _ => return,
        };
        for partition in probe.partitions.iter().filter(|p| !p.offline) {
            let Some(place) = partition.place else {
                continue;
            };
            let epoch = partition.partition_epoch;
            if self.looked.insert((node, place), epoch) == Some(epoch) {
                continue;
            }
            let own = Decided::of(node, partition);
            let known = self.decided.entry((place, epoch));
            let known = known.or_insert_with(|| own.clone());
            if !known.is(&own) {
                verdict.fail(
                    "all brokers know the same of a partition in the same partition epoch",
                    format!(
                        "{} in partition epoch {epoch}: {known:?} and {own:?}",
                        ghost.places().partition(place)
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
    use crate::checker::bench::{Bench, REPLICATED, sound};

    #[test]
    fn two_decisions_of_one_partition_epoch_are_rejected() {
        let of = |partition_epoch, isr: &[i32]| PartitionProbe {
            partition_epoch,
            isr: isr.iter().map(|node| NodeId(*node)).collect(),
            ..sound()
        };
        let mut bench = Bench::of(ZombieController::default(), REPLICATED);
        bench.probe(of(3, &[1, 2]));
        bench.on(1);
        bench.probe(of(3, &[2, 1]));
        bench.probe(of(4, &[1]));
        assert!(bench.is_ok());
        bench.on(2);
        bench.probe(of(4, &[1, 2]));
        assert!(bench.rejects("in partition epoch 4"));
    }
}
