//! CommittedAgreement: below its own high watermark each copy holds what is committed, byte for byte.

use std::collections::BTreeMap;

use super::{Checker, NodeChange, Seen, Verdict};
use crate::{
    disk::Disk,
    ghost::{self, Ghost},
    history::Place,
    node::PartitionProbe,
    time::SimTime,
};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct CommittedAgreement {
    /// Up to where each copy was compared.
    agreed: BTreeMap<(usize, Place), i64>,
}

impl Checker for CommittedAgreement {
    fn name(&self) -> &'static str {
        "CommittedAgreement"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        match seen {
            Seen::Probe { node, probe, disk } if !ghost.is_beyond(*node) => {
                for partition in probe.partitions.iter().filter(|p| !p.offline) {
                    if let Some(place) = partition.place {
                        self.compare(ghost, *node, (place, partition), disk, verdict);
                    }
                }
            }
            Seen::Node {
                node,
                change: NodeChange::Started,
                ..
            } => self.agreed.retain(|(known, _), _| known != node),
            _ => {}
        }
    }
}

impl CommittedAgreement {
    fn compare(
        &mut self,
        ghost: &Ghost,
        node: usize,
        (place, probe): (Place, &PartitionProbe),
        disk: &Disk,
        verdict: &mut Verdict<'_>,
    ) {
        let agreed = self.agreed.entry((node, place)).or_insert(0);
        let until = probe.high_watermark.min(ghost.committed_end(place));
        if until <= *agreed || ghost.is_damaged(place) {
            return;
        }
        let from = (*agreed).max(probe.start);
        *agreed = until;
        let marks = ghost::marks_from(disk, &probe.partition.to_string(), from);
        for mark in marks.iter().take_while(|mark| mark.last < until) {
            let committed = ghost.committed_at(place, mark.base);
            // What was committed before a log start that moved is not looked at.
            let differs = committed.is_some_and(|batch| !batch.is(mark));
            // A copy that kept what enough others lost holds it until its leader says otherwise.
            let start = SimTime::START;
            let was_lost = || ghost.excuse(place, mark.base, start).is_some();
            if differs && mark.base >= ghost.start(place) && !was_lost() {
                verdict.fail(
                    "all copies are equal below the smaller of their high watermarks",
                    format!(
                        "node {node} {}: offsets {}..={} of epoch {} differ from what is committed: {committed:?}",
                        probe.partition, mark.base, mark.last, mark.leader_epoch
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
    use seedlog_core::ids::Epoch;

    use crate::checker::bench::{Bench, REPLICATED, log_of_epochs, sound};

    fn follower(high_watermark: i64) -> PartitionProbe {
        PartitionProbe {
            leads: false,
            high_watermark,
            leader_epoch: Epoch(1),
            ..sound()
        }
    }

    #[test]
    fn copy_that_differs_below_its_watermark_is_rejected() {
        let mut bench = Bench::of(CommittedAgreement::default(), REPLICATED);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0), (5, 10, 1)]);
        bench.probe(PartitionProbe {
            leader_epoch: Epoch(1),
            ..sound()
        });
        bench.on(1);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0), (5, 10, 0)]);
        bench.probe(follower(5));
        assert!(bench.is_ok(), "what lies above may still be cut");
        bench.probe(follower(10));
        assert!(bench.rejects("offsets 5..=9 of epoch 0"));
    }

    #[test]
    fn equal_copies_are_accepted() {
        let mut bench = Bench::of(CommittedAgreement::default(), REPLICATED);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0), (5, 10, 1)]);
        bench.probe(sound());
        bench.on(1);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0), (5, 10, 1)]);
        bench.probe(follower(10));
        assert!(bench.is_ok());
    }
}
