//! LeaderCompleteness for the controller quorum: whoever leads it has every committed entry of the metadata log.

use std::collections::BTreeMap;

use seedlog_core::ids::Epoch;

use super::{
    Checker, Seen, Verdict,
    metadata_log::{Committed, MetadataLogs},
};
use crate::ghost::Ghost;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct QuorumCompleteness {
    logs: MetadataLogs,
    committed: Committed,
    /// The epoch in which each node was looked at last.
    looked: BTreeMap<usize, Epoch>,
    newest: Epoch,
}

impl Checker for QuorumCompleteness {
    fn name(&self) -> &'static str {
        "LeaderCompleteness"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        let (node, probe, disk) = match seen {
            Seen::Node { node, change, disk } => {
                return self.logs.change(*node, change, disk);
            }
            Seen::Probe { node, probe, disk } if !ghost.is_beyond(*node) => (*node, *probe, *disk),
            _ => return,
        };
        let start = probe.quorum.log_start;
        if let Some((before, now)) = self.logs.see(node, probe, disk) {
            let applied = self.logs.between(node, before.max(start), now);
            // That two of them differ is ReplayEqual's.
            let _ = self.committed.add(applied);
        }
        let epoch = probe.quorum.epoch;
        let leads = probe.quorum.leader.and_then(|id| ghost.node(id)) == Some(node);
        if !leads || epoch < self.newest || self.looked.insert(node, epoch) == Some(epoch) {
            return;
        }
        self.newest = epoch;
        let mut committed = self.committed.from(start).iter();
        if let Some(missing) = committed.find(|batch| !self.logs.holds(node, batch)) {
            verdict.fail(
                "a new leader of the quorum has every committed entry",
                format!(
                    "node {node} leads in epoch {} with end {}: {}..={} of epoch {} is committed and not what it has",
                    epoch.0, probe.quorum.log_end, missing.base, missing.last, missing.epoch
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
    fn leader_without_a_committed_entry_is_rejected() {
        for (end, is_ok) in [(6, true), (5, false)] {
            let mut bench = Bench::of(QuorumCompleteness::default(), REPLICATED);
            metadata(&mut bench.disk, &[(0, 5, 1), (5, 6, 1)]);
            bench.quorum_of((1, 1), 6, 6);
            bench.on(1);
            let held = [(0, 5, 1), (5, 6, 1)];
            let count = if end == 6 { 2 } else { 1 };
            metadata(&mut bench.disk, &held[..count]);
            bench.quorum_of((1, 1), end, 5);
            assert!(bench.is_ok());
            bench.quorum_of((2, 2), end, 5);
            assert_eq!(bench.is_ok(), is_ok);
        }
    }
}
