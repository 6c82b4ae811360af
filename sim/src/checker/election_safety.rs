//! ElectionSafety: at most one leader per epoch, of the controller quorum and of each partition, over all incarnations.

use std::collections::BTreeMap;

use seedlog_core::ids::{Epoch, NodeId};

use super::{Checker, Seen, Verdict};
use crate::{ghost::Ghost, history::Place};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ElectionSafety {
    quorum: BTreeMap<Epoch, (usize, NodeId)>,
    partitions: BTreeMap<(Place, Epoch), usize>,
}

impl Checker for ElectionSafety {
    fn name(&self) -> &'static str {
        "ElectionSafety"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        let Seen::Probe { node, probe, .. } = seen else {
            return;
        };
        if let Some(leader) = probe.quorum.leader {
            let epoch = probe.quorum.epoch;
            let (first, known) = *self.quorum.entry(epoch).or_insert((*node, leader));
            if known != leader {
                verdict.fail(
                    "the controller quorum has at most one leader in an epoch",
                    format!(
                        "epoch {}: node {first} knows {} as its leader, node {node} {}",
                        epoch.0, known.0, leader.0
                    ),
                );
            }
        }
        for partition in &probe.partitions {
            let Some(place) = partition.place.filter(|_| partition.leads) else {
                continue;
            };
            let epoch = partition.leader_epoch;
            let known = *self.partitions.entry((place, epoch)).or_insert(*node);
            if known != *node {
                verdict.fail(
                    "a partition has at most one leader in an epoch",
                    format!(
                        "{} epoch {}: nodes {known} and {node}",
                        ghost.places().partition(place),
                        epoch.0
                    ),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::bench::{Bench, sound},
        node::{PartitionProbe, QuorumProbe},
    };

    #[test]
    fn two_leaders_of_one_partition_epoch_are_rejected() {
        let mut bench = Bench::new(ElectionSafety::default(), true);
        bench.probe(sound());
        bench.on(1);
        bench.probe(PartitionProbe {
            leader_epoch: Epoch(1),
            ..sound()
        });
        assert!(bench.is_ok(), "another epoch");
        bench.probe(sound());
        assert!(bench.rejects("nodes 0 and 1"));
    }

    #[test]
    fn two_leaders_of_one_quorum_epoch_are_rejected() {
        let led = |epoch, leader| QuorumProbe {
            epoch: Epoch(epoch),
            leader: Some(NodeId(leader)),
            ..QuorumProbe::default()
        };
        let mut bench = Bench::new(ElectionSafety::default(), true);
        bench.quorum(led(3, 1));
        bench.on(1);
        bench.quorum(led(3, 1));
        bench.quorum(led(4, 2));
        assert!(bench.is_ok());
        bench.quorum(led(3, 2));
        assert!(bench.rejects("epoch 3"));
    }
}
