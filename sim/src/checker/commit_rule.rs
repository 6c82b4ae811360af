//! CommitRule: a leader of the controller quorum commits by an entry of its own epoch that a majority of the voters holds durably,
//! the very entry and not just as many.

use std::collections::BTreeMap;

use seedlog_core::ids::Epoch;

use super::{Checker, Seen, Verdict, metadata_log::MetadataLogs};
use crate::ghost::Ghost;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct CommitRule {
    logs: MetadataLogs,
    /// The epoch in which each node led when it was seen last.
    leads: BTreeMap<usize, Epoch>,
}

impl Checker for CommitRule {
    fn name(&self) -> &'static str {
        "CommitRule"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        let (node, probe, disk) = match seen {
            Seen::Node { node, change, disk } => {
                self.logs.change(*node, change, disk);
                self.leads.remove(node);
                return;
            }
            Seen::Probe { node, probe, disk } => (*node, *probe, *disk),
            _ => return,
        };
        let moved = self.logs.see(node, probe, disk);
        let epoch = probe.quorum.epoch;
        let leader = probe.quorum.leader.and_then(|id| ghost.node(id));
        let led = if leader == Some(node) {
            self.leads.insert(node, epoch)
        } else {
            self.leads.remove(&node)
        };
        // What a follower was told may come in the step in which it begins to lead.
        let leads = leader == Some(node) && led == Some(epoch);
        let (Some((before, now)), true) = (moved, leads && !ghost.is_beyond(node)) else {
            return;
        };
        let last = self.logs.between(node, before, now).last();
        let Some(last) = last.filter(|last| last.last + 1 == now) else {
            return;
        };
        if last.epoch != epoch.0 {
            verdict.fail(
                "a leader of the quorum commits by an entry of its own epoch",
                format!(
                    "node {node} in epoch {}: committed up to {now} by an entry of epoch {}",
                    epoch.0, last.epoch
                ),
            );
        }
        let holders = self.logs.holders(last);
        if holders < ghost.majority() {
            verdict.fail(
                "a majority of the voters holds durably what is committed",
                format!(
                    "node {node} in epoch {}: {holders} hold the entry {}..={} of epoch {} up to which it commits",
                    epoch.0, last.base, last.last, last.epoch
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::{
        NodeChange,
        bench::{Bench, REPLICATED, metadata},
    };

    #[test]
    fn entry_of_an_older_epoch_commits_nothing() {
        for (epoch, is_ok) in [(1, false), (2, true)] {
            let mut bench = Bench::of(CommitRule::default(), REPLICATED);
            for node in [1, 2, 0] {
                bench.on(node);
                metadata(&mut bench.disk, &[(0, 5, 1), (5, 6, epoch)]);
                bench.quorum_of((2, 1), 6, 0);
            }
            bench.quorum_of((2, 1), 6, 6);
            assert_eq!(bench.is_ok(), is_ok);
        }
    }

    #[test]
    fn copies_that_are_not_the_leaders_commit_nothing() {
        let mut bench = Bench::of(CommitRule::default(), REPLICATED);
        for (node, epoch) in [(1, 1), (2, 1), (0, 2)] {
            bench.on(node);
            metadata(&mut bench.disk, &[(0, 5, 1), (5, 6, epoch)]);
            bench.quorum_of((2, 1), 6, 0);
        }
        bench.quorum_of((2, 1), 6, 6);
        assert!(bench.rejects("1 hold the entry 5..=5 of epoch 2"));
    }

    #[test]
    fn sync_counts_of_a_voter_that_ends_in_the_step_in_which_it_told_of_it() {
        for is_synced in [false, true] {
            let mut bench = Bench::of(CommitRule::default(), REPLICATED);
            bench.on(1);
            metadata(&mut bench.disk, &[(0, 5, 1)]);
            bench.quorum_of((2, 1), 5, 0);
            bench.on(2);
            metadata(&mut bench.disk, &[(0, 5, 1)]);
            bench.quorum_of((2, 1), 5, 0);
            bench.on(1);
            if is_synced {
                metadata(&mut bench.disk, &[(0, 5, 1), (5, 6, 2)]);
            }
            bench.node(NodeChange::Crashed);
            bench.on(0);
            metadata(&mut bench.disk, &[(0, 5, 1), (5, 6, 2)]);
            bench.quorum_of((2, 1), 6, 0);
            bench.quorum_of((2, 1), 6, 6);
            assert_eq!(bench.is_ok(), is_synced);
        }
    }
}
