//! AckHonest: when a leader's high watermark passes a record, and with it an answer to acks=-1 leaves, every in-sync replica has
//! the record where its rule wants it.

use std::collections::BTreeMap;

use super::{Checker, Seen, Verdict};
use crate::{ghost::Ghost, history::Place};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct AckHonest {
    /// The high watermark looked at last.
    looked: BTreeMap<(usize, Place), i64>,
}

impl Checker for AckHonest {
    fn name(&self) -> &'static str {
        "AckHonest"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        let Seen::Probe { node, probe, .. } = seen else {
            return;
        };
        for partition in probe.partitions.iter().filter(|p| p.leads && !p.offline) {
            let Some(place) = partition.place else {
                continue;
            };
            let now = partition.high_watermark;
            let before = self.looked.insert((*node, place), now).unwrap_or_default();
            if now <= before || ghost.promise(place).copies == 1 || ghost.is_damaged(place) {
                continue;
            }
            for member in partition.isr.iter().filter_map(|id| ghost.node(*id)) {
                let excused = ghost.is_beyond(member) || ghost.has_gap(member, place);
                let safe = ghost.safe_end(member, place);
                if !excused && safe.is_some_and(|safe| safe < now) {
                    verdict.fail(
                        format!(
                            "what the high watermark passes is {} on every in-sync replica",
                            if partition.durable { "durable" } else { "written" }
                        ),
                        format!(
                            "node {node} {} moves to {now} in epoch {}; node {member} is in sync and has it up to {safe:?}",
                            partition.partition, partition.leader_epoch.0
                        ),
                    );
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seedlog_core::ids::NodeId;

    use crate::{
        checker::{
            NodeChange,
            bench::{Bench, REPLICATED, log_of_epochs, sound},
        },
        disk::Survival,
        ghost::Promise,
        node::PartitionProbe,
        random::Streams,
    };

    fn led(durable: bool, high_watermark: i64) -> PartitionProbe {
        PartitionProbe {
            durable,
            high_watermark,
            isr: vec![NodeId(1), NodeId(2)],
            ..sound()
        }
    }

    fn follower(durable: bool, end: i64) -> PartitionProbe {
        PartitionProbe {
            durable,
            leads: false,
            end,
            written: end,
            flushed: end,
            high_watermark: 0,
            ..sound()
        }
    }

    fn bench(promise: Promise, batches: &[(i64, i64, i32)]) -> Bench<AckHonest> {
        let mut bench = Bench::of(AckHonest::default(), promise);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0), (5, 10, 0)]);
        let mut stream = Streams::new(1).stream("loss");
        bench.disk.lose_power(Survival::Everything, &mut stream);
        bench.probe(led(promise.durable, 5));
        bench.on(1);
        log_of_epochs(&mut bench.disk, batches);
        let end = batches.last().map_or(0, |(_, end, _)| *end);
        bench.probe(follower(promise.durable, end));
        bench.on(0);
        bench.probe(led(promise.durable, 10));
        bench
    }

    #[test]
    fn record_that_a_member_lacks_is_rejected() {
        assert!(bench(REPLICATED, &[(0, 5, 0), (5, 10, 0)]).is_ok());
        assert!(bench(REPLICATED, &[(0, 5, 0)]).rejects("node 1 is in sync"));
    }

    #[test]
    fn record_that_a_member_did_not_sync_is_rejected_under_durable() {
        let durable = Promise {
            durable: true,
            ..REPLICATED
        };
        let written_only = [(0, 5, 0), (5, 10, 0)];
        assert!(bench(durable, &written_only).rejects("has it up to Some(0)"));
    }

    #[test]
    fn copy_of_a_member_that_ends_in_the_step_in_which_it_told_of_it_counts() {
        for is_written in [false, true] {
            let mut bench = Bench::of(AckHonest::default(), REPLICATED);
            log_of_epochs(&mut bench.disk, &[(0, 5, 0), (5, 10, 0)]);
            bench.probe(led(false, 5));
            bench.on(1);
            log_of_epochs(&mut bench.disk, &[(0, 5, 0)]);
            bench.probe(follower(false, 5));
            if is_written {
                log_of_epochs(&mut bench.disk, &[(0, 5, 0), (5, 10, 0)]);
            }
            bench.node(NodeChange::Crashed);
            bench.on(0);
            bench.probe(led(false, 10));
            assert_eq!(bench.is_ok(), is_written);
        }
    }
}
