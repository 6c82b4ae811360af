//! ReplayEqual: what two nodes apply of the metadata log up to the same offset is the same, byte for byte, also after restarts.

use super::{
    Checker, Seen, Verdict,
    metadata_log::{Committed, MetadataLogs},
};
use crate::ghost::Ghost;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ReplayEqual {
    logs: MetadataLogs,
    committed: Committed,
}

impl Checker for ReplayEqual {
    fn name(&self) -> &'static str {
        "ReplayEqual"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        let (node, probe, disk) = match seen {
            Seen::Node { node, change, disk } => {
                return self.logs.change(*node, change, disk);
            }
            Seen::Probe { node, probe, disk } if !ghost.is_beyond(*node) => (*node, *probe, *disk),
            _ => return,
        };
        let Some((before, now)) = self.logs.see(node, probe, disk) else {
            return;
        };
        let from = before.max(probe.quorum.log_start);
        let applied = self.logs.between(node, from, now);
        if let Some((own, known)) = self.committed.add(applied) {
            verdict.fail(
                "all nodes apply the same metadata in the same order",
                format!(
                    "node {node} applied {}..={} of epoch {}, others {}..={} of epoch {}",
                    own.base, own.last, own.epoch, known.base, known.last, known.epoch
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::bench::{Bench, REPLICATED, metadata};

    #[test]
    fn nodes_that_apply_different_entries_are_rejected() {
        for (epoch, is_ok) in [(1, true), (2, false)] {
            let mut bench = Bench::of(ReplayEqual::default(), REPLICATED);
            metadata(&mut bench.disk, &[(0, 5, 1), (5, 6, 1)]);
            bench.quorum_of((1, 1), 6, 6);
            bench.on(1);
            metadata(&mut bench.disk, &[(0, 5, 1), (5, 6, epoch)]);
            bench.quorum_of((2, 2), 6, 5);
            assert!(bench.is_ok());
            bench.quorum_of((2, 2), 6, 6);
            assert_eq!(bench.is_ok(), is_ok);
        }
    }
}
