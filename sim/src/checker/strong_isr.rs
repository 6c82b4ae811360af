//! StrongIsr: every in-sync replica, as the controller has committed them, holds all that is committed.

use std::collections::BTreeMap;

use super::{Checker, Seen, Verdict};
use crate::{ghost::Ghost, history::Place};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct StrongIsr {
    /// The committed end and the partition epoch looked at last.
    looked: BTreeMap<Place, (i64, i32)>,
}

impl Checker for StrongIsr {
    fn name(&self) -> &'static str {
        "StrongIsr"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        let Seen::Probe { probe, .. } = seen else {
            return;
        };
        for place in probe
            .partitions
            .iter()
            .filter_map(|partition| partition.place)
        {
            let Some(isr) = ghost.isr(place) else {
                continue;
            };
            let committed = ghost.committed_end(place);
            let now = (committed, isr.partition_epoch);
            if self.looked.insert(place, now) == Some(now) || ghost.is_damaged(place) {
                continue;
            }
            for member in isr.members.iter().copied() {
                // A copy that lost records with its power waits to be taken out: it is UncleanExclusion's.
                let excused = ghost.is_beyond(member) || ghost.has_gap(member, place);
                let end = ghost.log_end(member, place);
                if !excused && end.is_some_and(|end| end < committed) {
                    verdict.fail(
                        "every in-sync replica holds all that is committed",
                        format!(
                            "{} is committed up to {committed}; node {member} is in sync in partition epoch {} and ends at {end:?}",
                            ghost.places().partition(place),
                            isr.partition_epoch
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
        checker::bench::{Bench, REPLICATED, log_of_epochs, sound},
        node::PartitionProbe,
    };

    fn with_isr(partition_epoch: i32, isr: &[i32]) -> PartitionProbe {
        PartitionProbe {
            partition_epoch,
            isr: isr.iter().map(|node| NodeId(*node)).collect(),
            ..sound()
        }
    }

    fn short() -> PartitionProbe {
        PartitionProbe {
            leads: false,
            end: 5,
            written: 5,
            flushed: 5,
            high_watermark: 5,
            ..with_isr(0, &[1])
        }
    }

    #[test]
    fn member_that_lacks_a_committed_record_is_rejected() {
        let mut bench = Bench::of(StrongIsr::default(), REPLICATED);
        bench.on(1);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0)]);
        bench.probe(short());
        bench.on(0);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0), (5, 10, 0)]);
        bench.probe(with_isr(1, &[1]));
        assert!(bench.is_ok());
        bench.probe(with_isr(2, &[1, 2]));
        assert!(bench.rejects("node 1 is in sync"));
    }
}
