//! VoteOnce: with one disk a node votes for at most one candidate in an epoch, and its epoch never goes back.

use std::collections::BTreeMap;

use seedlog_core::ids::{Epoch, NodeId};

use super::{Checker, NodeChange, Seen, Verdict};
use crate::ghost::Ghost;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct VoteOnce {
    nodes: BTreeMap<usize, Ballot>,
}

#[derive(Clone, Copy, Debug)]
struct Ballot {
    epoch: Epoch,
    voted: Option<NodeId>,
}

impl Checker for VoteOnce {
    fn name(&self) -> &'static str {
        "VoteOnce"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        match seen {
            // What a start has not read yet is no vote.
            Seen::Probe { node, probe, .. }
                if probe.quorum.voted_epoch > Epoch(0) && !ghost.is_beyond(*node) =>
            {
                let now = Ballot {
                    epoch: probe.quorum.voted_epoch,
                    voted: probe.quorum.voted,
                };
                if let Some(before) = self.nodes.insert(*node, now) {
                    compare(*node, before, now, verdict);
                }
            }
            Seen::Node {
                node,
                change: NodeChange::Wiped,
                ..
            } => {
                self.nodes.remove(node);
            }
            _ => {}
        }
    }
}

fn compare(node: usize, before: Ballot, now: Ballot, verdict: &mut Verdict<'_>) {
    if now.epoch < before.epoch {
        verdict.fail(
            "the epoch of a node's durable vote never goes back",
            format!("node {node}: {} after {}", now.epoch.0, before.epoch.0),
        );
    }
    let changed = before.voted.is_some() && now.voted != before.voted;
    if now.epoch == before.epoch && changed {
        verdict.fail(
            "a node votes for at most one candidate in an epoch",
            format!(
                "node {node} in epoch {}: {:?} after {:?}",
                now.epoch.0, now.voted, before.voted
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checker::bench::Bench, node::QuorumProbe};

    fn vote(epoch: i32, voted: Option<i32>) -> QuorumProbe {
        QuorumProbe {
            voted_epoch: Epoch(epoch),
            voted: voted.map(NodeId),
            ..QuorumProbe::default()
        }
    }

    #[test]
    fn second_vote_in_an_epoch_is_rejected_over_a_restart_too() {
        let mut bench = Bench::new(VoteOnce::default(), true);
        bench.quorum(vote(3, None));
        bench.quorum(vote(3, Some(1)));
        bench.quorum(vote(4, Some(2)));
        assert!(bench.is_ok());
        bench.node(NodeChange::Started);
        bench.quorum(vote(0, None));
        assert!(bench.is_ok(), "nothing was read yet");
        bench.quorum(vote(4, Some(1)));
        assert!(bench.rejects("in epoch 4"));
    }

    #[test]
    fn epoch_that_goes_back_is_rejected() {
        let mut bench = Bench::new(VoteOnce::default(), true);
        bench.quorum(vote(4, Some(2)));
        bench.quorum(vote(3, None));
        assert!(bench.rejects("3 after 4"));
    }
}
