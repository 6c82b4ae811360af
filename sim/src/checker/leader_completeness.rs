//! LeaderCompleteness: the leader of the newest epoch has every committed record, with equal epoch and bytes.

use std::collections::BTreeMap;

use seedlog_core::ids::Epoch;

use super::{Checker, Seen, Verdict};
use crate::{
    disk::Disk,
    ghost::{self, Ghost},
    history::Place,
    node::PartitionProbe,
};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LeaderCompleteness {
    /// The epoch in which each node was looked at last.
    looked: BTreeMap<(usize, Place), Epoch>,
}

impl Checker for LeaderCompleteness {
    fn name(&self) -> &'static str {
        "LeaderCompleteness"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        let Seen::Probe { node, probe, disk } = seen else {
            return;
        };
        for partition in probe.partitions.iter().filter(|partition| partition.leads) {
            let Some(place) = partition.place else {
                continue;
            };
            let looked = self.looked.insert((*node, place), partition.leader_epoch);
            // A node that comes late leads only in its own belief.
            let is_first = looked != Some(partition.leader_epoch);
            if is_first && ghost.leader(place) == Some(*node) && ghost.promise(place).copies > 1 {
                compare(ghost, *node, (place, partition), disk, verdict);
            }
        }
    }
}

fn compare(
    ghost: &Ghost,
    node: usize,
    (place, probe): (Place, &PartitionProbe),
    disk: &Disk,
    verdict: &mut Verdict<'_>,
) {
    if ghost.is_beyond(node) || ghost.is_damaged(place) {
        return;
    }
    let marks = ghost::marks_from(disk, &probe.partition.to_string(), probe.start);
    let mut own = marks.iter();
    let committed = ghost.committed(place).iter();
    for batch in committed.filter(|batch| batch.last >= probe.start) {
        if !own.any(|mark| batch.is(mark)) {
            verdict.fail(
                "a new leader has every committed record",
                format!(
                    "node {node} leads {} in epoch {} with end {}: offsets {}..={} of epoch {} are committed and not what it has",
                    probe.partition, probe.leader_epoch.0, probe.end, batch.base, batch.last, batch.epoch
                ),
            );
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::bench::{Bench, REPLICATED, log_of_epochs, sound};

    fn led(epoch: i32, high_watermark: i64, end: i64) -> PartitionProbe {
        PartitionProbe {
            leader_epoch: Epoch(epoch),
            high_watermark,
            end,
            written: end,
            flushed: end,
            ..sound()
        }
    }

    /// Node 0 has committed ten records; node 1 leads after it with these batches.
    fn after(batches: &[(i64, i64, i32)], end: i64) -> Bench<LeaderCompleteness> {
        let mut bench = Bench::of(LeaderCompleteness::default(), REPLICATED);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0), (5, 10, 0)]);
        bench.probe(led(0, 10, 10));
        bench.on(1);
        log_of_epochs(&mut bench.disk, batches);
        bench.probe(led(1, 3, end));
        bench
    }

    #[test]
    fn leader_with_all_that_is_committed_is_accepted() {
        assert!(after(&[(0, 5, 0), (5, 10, 0), (10, 12, 0)], 12).is_ok());
    }

    #[test]
    fn leader_with_a_short_or_another_log_is_rejected() {
        assert!(after(&[(0, 5, 0)], 5).rejects("offsets 5..=9"));
        assert!(after(&[(0, 5, 0), (5, 10, 1)], 10).rejects("offsets 5..=9"));
    }

    #[test]
    fn uncommitted_record_may_be_missing() {
        let mut bench = Bench::of(LeaderCompleteness::default(), REPLICATED);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0), (5, 10, 0)]);
        bench.probe(led(0, 5, 10));
        bench.on(1);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0)]);
        bench.probe(led(1, 3, 5));
        assert!(bench.is_ok());
    }
}
