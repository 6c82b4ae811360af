//! UncleanExclusion: a copy that lost committed records leads only when it has them again, and no leader that may miss some is
//! elected unless the topic's configuration asks for it.

use seedlog_core::event::Event;

use super::{Checker, Seen, Verdict};
use crate::ghost::Ghost;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct UncleanExclusion;

impl Checker for UncleanExclusion {
    fn name(&self) -> &'static str {
        "UncleanExclusion"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        match seen {
            Seen::Event {
                node,
                event:
                    Event::LeaderElectedUncleanly {
                        partition,
                        leader,
                        epoch,
                    },
            } => {
                // The last copies may be elected though they restarted uncleanly: it counts what they miss in truth.
                let misses = |place| {
                    let committed = ghost.committed_end(place);
                    let elected = ghost.node(*leader);
                    let end = elected.and_then(|elected| ghost.log_end(elected, place));
                    end.is_none_or(|end| end < committed)
                };
                let place = ghost.places().place(partition);
                let is_demanded = |place| {
                    let promise = ghost.promise(place);
                    promise.copies > 1 && !promise.unclean
                };
                if place.is_some_and(|place| is_demanded(place) && misses(place)) {
                    verdict.fail(
                        "a leader that misses committed records is elected only on request",
                        format!(
                            "node {node} elected {} for {partition} in epoch {}",
                            leader.0, epoch.0
                        ),
                    );
                }
            }
            Seen::Probe { node, probe, .. } => {
                for partition in probe.partitions.iter().filter(|p| p.leads && !p.offline) {
                    let Some(place) = partition.place else {
                        continue;
                    };
                    let committed = ghost.committed_end(place);
                    let gap = ghost.gap(*node, place).filter(|gap| *gap < committed);
                    let is_newest = ghost.leader(place) == Some(*node);
                    if let Some(gap) = gap.filter(|_| is_newest && partition.end < committed) {
                        verdict.fail(
                            "a copy that lost committed records does not lead before it has them again",
                            format!(
                                "node {node} {} in epoch {}: lost from {gap} on, ends at {}, committed up to {committed}",
                                partition.partition, partition.leader_epoch.0, partition.end
                            ),
                        );
                        return;
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seedlog_core::ids::{Epoch, NodeId};

    use crate::{
        checker::bench::{Bench, REPLICATED, log_of_epochs, partition, sound},
        disk::Disk,
        ghost::Promise,
        node::PartitionProbe,
    };

    #[test]
    fn unclean_election_is_rejected_unless_asked_for() {
        for unclean in [false, true] {
            let promise = Promise {
                unclean,
                ..REPLICATED
            };
            let mut bench = Bench::of(UncleanExclusion, promise);
            log_of_epochs(&mut bench.disk, &[(0, 5, 0), (5, 10, 0)]);
            bench.probe(sound());
            bench.event(Event::LeaderElectedUncleanly {
                partition: partition(),
                leader: NodeId(1),
                epoch: Epoch(3),
            });
            assert!(bench.is_ok(), "it misses nothing");
            bench.event(Event::LeaderElectedUncleanly {
                partition: partition(),
                leader: NodeId(2),
                epoch: Epoch(4),
            });
            assert_eq!(bench.is_ok(), unclean);
        }
    }

    #[test]
    fn copy_that_lost_committed_records_must_not_lead() {
        let mut bench = Bench::of(UncleanExclusion, REPLICATED);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0), (5, 10, 0)]);
        bench.probe(sound());
        bench.on(1);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0), (5, 10, 0)]);
        let before = bench.view();
        bench.disk = Disk::new(1);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0)]);
        bench.lose_power(&before);
        bench.probe(PartitionProbe {
            leader_epoch: Epoch(1),
            end: 5,
            written: 5,
            flushed: 5,
            high_watermark: 5,
            ..sound()
        });
        assert!(bench.rejects("lost from 5 on"));
    }
}
