//! UncleanExclusion: a copy that lost committed records leads only when it has them again, and no leader that may miss some is
//! elected unless the topic's configuration asks for it or nobody else is left.
//!
//! Nobody is left once the broker of every eligible copy restarted uncleanly (KIP-966): the last leader is elected then. What it
//! lost may go under `replicated`; under `durable` nobody lost anything, and a leader that misses something is wrong all the same.

use std::collections::BTreeSet;

use seedlog_core::{
    event::Event,
    ids::{Epoch, NodeId, TopicPartition},
};

use super::{Checker, Seen, Verdict};
use crate::{
    ghost::{Ghost, Ruling},
    history::Place,
};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct UncleanExclusion {
    /// Elections that were judged when the first node heard of them.
    judged: BTreeSet<(Place, Epoch)>,
}

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
            } => self.election(ghost, *node, (partition, *leader, *epoch), verdict),
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

impl UncleanExclusion {
    fn election(
        &mut self,
        ghost: &Ghost,
        node: usize,
        (partition, leader, epoch): (&TopicPartition, NodeId, Epoch),
        verdict: &mut Verdict<'_>,
    ) {
        let Some(place) = ghost.places().place(partition) else {
            return;
        };
        let promise = ghost.promise(place);
        // Who hears of it later, or again after a restart, says nothing about what the elected one had then.
        let is_first = self.judged.insert((place, epoch));
        if !is_first || promise.copies == 1 || promise.unclean {
            return;
        }
        let told = format!(
            "node {node} heard that {} was elected for {partition} in epoch {}",
            leader.0, epoch.0
        );
        let ruling = ghost.unclean_election(place, epoch);
        if ruling != Some(&Ruling::Allowed) {
            verdict.fail(
                "a leader that may miss committed records is elected only on request, or when nobody else is left",
                format!("{told}: {ruling:?}"),
            );
            return;
        }
        let committed = ghost.committed_end(place);
        let elected = ghost.node(leader);
        let end = elected.and_then(|elected| ghost.log_end(elected, place));
        if end.is_none_or(|end| end < committed) {
            verdict.fail(
                "the last leader misses nothing but what its broker lost with leave",
                format!("{told}: it ends at {end:?}, committed up to {committed}"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seedlog_core::storage::{FileId, FileOp, FilePath, LogDirId};

    use crate::{
        checker::{
            NodeChange,
            bench::{Bench, REPLICATED, log_of_epochs, partition, sound},
        },
        disk::Disk,
        ghost::Promise,
        node::PartitionProbe,
    };

    const DURABLE: Promise = Promise {
        durable: true,
        ..REPLICATED
    };

    fn elected(leader: i32, epoch: i32) -> Event {
        Event::LeaderElectedUncleanly {
            partition: partition(),
            leader: NodeId(leader),
            epoch: Epoch(epoch),
        }
    }

    fn restarted(bench: &mut Bench<UncleanExclusion>) {
        bench.node(NodeChange::Crashed);
        bench.node(NodeChange::Started);
    }

    #[test]
    fn unclean_election_is_rejected_unless_asked_for() {
        for unclean in [false, true] {
            let promise = Promise {
                unclean,
                ..REPLICATED
            };
            let mut bench = Bench::of(UncleanExclusion::default(), promise);
            log_of_epochs(&mut bench.disk, &[(0, 5, 0), (5, 10, 0)]);
            bench.probe(sound());
            bench.event(elected(2, 4));
            assert_eq!(bench.is_ok(), unclean);
        }
    }

    #[test]
    fn unclean_election_beside_an_eligible_copy_is_rejected_though_it_misses_nothing() {
        let mut bench = Bench::of(UncleanExclusion::default(), REPLICATED);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0), (5, 10, 0)]);
        bench.probe(sound());
        bench.event(elected(1, 3));
        assert!(bench.rejects("heard that 1 was elected for t-0 in epoch 3"));
    }

    #[test]
    fn election_heard_again_is_not_judged_by_what_was_committed_since() {
        let mut bench = Bench::of(UncleanExclusion::default(), REPLICATED);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0)]);
        bench.probe(PartitionProbe {
            end: 5,
            written: 5,
            flushed: 5,
            high_watermark: 5,
            ..sound()
        });
        restarted(&mut bench);
        bench.event(elected(1, 1));
        bench.on(1);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0), (5, 10, 1)]);
        bench.probe(PartitionProbe {
            leader_epoch: Epoch(1),
            ..sound()
        });
        bench.event(elected(1, 1));
        assert!(bench.is_ok());
    }

    /// Two copies in sync and one that was not; the disk of the last leader loses what is committed in a power loss, and the process of the
    /// other ends, with or without the marker of a clean stop.
    fn after_a_loss(promise: Promise, other_is_clean: bool) -> Bench<UncleanExclusion> {
        let in_sync = PartitionProbe {
            isr: vec![NodeId(1), NodeId(2)],
            durable: promise.durable,
            ..sound()
        };
        let follower = PartitionProbe {
            leads: false,
            ..in_sync.clone()
        };
        let mut bench = Bench::of(UncleanExclusion::default(), promise);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0), (5, 10, 0)]);
        bench.probe(in_sync);
        bench.on(2);
        restarted(&mut bench);
        bench.on(1);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0), (5, 10, 0)]);
        bench.probe(follower);
        if other_is_clean {
            let open = FileOp::Open {
                file: FileId(9),
                path: FilePath::root(LogDirId(0)).join(".kafka_cleanshutdown"),
                create: true,
            };
            bench.disk.apply(&open).unwrap();
            bench.node(NodeChange::Stopped);
            bench.node(NodeChange::Started);
        } else {
            restarted(&mut bench);
        }
        bench.on(0);
        let before = bench.view();
        bench.disk = Disk::new(1);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0)]);
        bench.lose_power(&before);
        bench.node(NodeChange::Started);
        bench.probe(PartitionProbe {
            leads: false,
            end: 5,
            written: 5,
            flushed: 5,
            high_watermark: 5,
            ..sound()
        });
        bench
    }

    #[test]
    fn last_leader_is_elected_once_no_eligible_copy_stopped_cleanly() {
        let mut bench = after_a_loss(REPLICATED, false);
        bench.event(elected(1, 1));
        assert!(bench.is_ok());
    }

    #[test]
    fn last_leader_with_a_loss_is_not_elected_beside_a_copy_that_stopped_cleanly() {
        let mut bench = after_a_loss(REPLICATED, true);
        bench.event(elected(1, 1));
        assert!(bench.rejects("heard that 1 was elected"));
    }

    #[test]
    fn copy_that_was_not_eligible_is_never_elected_as_the_last_leader() {
        let mut bench = after_a_loss(REPLICATED, false);
        bench.event(elected(3, 1));
        assert!(bench.rejects("heard that 3 was elected"));
    }

    #[test]
    fn loss_of_the_last_leader_is_no_excuse_under_durable() {
        let mut bench = after_a_loss(DURABLE, false);
        bench.event(elected(1, 1));
        assert!(bench.rejects("it ends at Some(5), committed up to 10"));
    }

    #[test]
    fn copy_that_lost_committed_records_must_not_lead() {
        let mut bench = Bench::of(UncleanExclusion::default(), REPLICATED);
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
