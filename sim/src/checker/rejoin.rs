//! Rejoin: a restarted node starts, or says by name why it cannot; it does not die again and again.

use std::collections::BTreeMap;

use super::{Checker, NodeChange, Phase, Seen, Verdict};
use crate::ghost::Ghost;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Rejoin {
    nodes: BTreeMap<usize, State>,
}

#[derive(Clone, Debug, Default)]
struct State {
    ready: bool,
    /// Starts in the healed cluster that ended before it was ready.
    failed_starts: u32,
    words: Option<String>,
    damaged: bool,
}

impl Checker for Rejoin {
    fn name(&self) -> &'static str {
        "Rejoin"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        let Seen::Node { node, change, .. } = seen else {
            return;
        };
        let state = self.nodes.entry(*node).or_default();
        match change {
            NodeChange::Ready => {
                state.ready = true;
                state.failed_starts = 0;
                state.words = None;
            }
            NodeChange::Damaged(done) => state.damaged |= !is_made_again(&done.path),
            NodeChange::Wiped | NodeChange::Lied => state.damaged = true,
            NodeChange::GaveUp(words) => {
                state.ready = false;
                state.words = Some((*words).to_owned());
                if words.is_empty() {
                    verdict.fail(
                        "a broker that cannot go on says why",
                        format!("node {node} stopped without a word"),
                    );
                }
                let (phase, _) = ghost.phase();
                if phase >= Phase::Settle {
                    state.failed_starts += 1;
                }
                if state.failed_starts > STARTS_MAX && !state.damaged {
                    verdict.fail(
                        "a node whose disk is well starts once the faults are over",
                        format!("node {node} gave up {} times: {words}", state.failed_starts),
                    );
                }
            }
            NodeChange::LostDirty { .. } => {}
            NodeChange::StopOverdue => {
                state.ready = false;
                let (phase, _) = ghost.phase();
                if ghost.majority() > 1 && phase < Phase::Settle {
                    // Its leaderships wait for a controller, and there may be none.
                    verdict.allow("orderly stop that waited for the controller too long");
                    return;
                }
                verdict.fail(
                    "a broker that is asked to stop in good order does so",
                    format!("node {node} had to be killed"),
                );
            }
            NodeChange::Started
            | NodeChange::Crashed
            | NodeChange::LostPower { .. }
            | NodeChange::StopAsked
            | NodeChange::Stopped
            | NodeChange::Panicked(_) => state.ready = false,
        }
    }

    fn judge(&mut self, _ghost: &Ghost, verdict: &mut Verdict<'_>) {
        for (node, state) in &self.nodes {
            let reported = state.damaged && state.words.is_some();
            if state.ready || reported {
                continue;
            }
            verdict.fail(
                "a restarted node is ready in the end, or says by name why it cannot be",
                format!("node {node} is not; its last words: {:?}", state.words),
            );
        }
    }
}

const STARTS_MAX: u32 = 3;

/// Whether a start makes a file again from the log: its damage keeps no node from starting.
fn is_made_again(path: &str) -> bool {
    path.ends_with(".index") || path.ends_with(".timeindex")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checker::bench::Bench, disk::DamageDone};

    #[test]
    fn crash_loop_is_rejected() {
        let mut bench = Bench::new(Rejoin::default(), true);
        bench.phase(Phase::Settle);
        for _ in 0..5 {
            bench.node(NodeChange::Started);
            bench.node(NodeChange::GaveUp("recovery failed"));
        }
        assert!(bench.rejects("gave up 4 times"));
    }

    #[test]
    fn silent_stop_is_rejected() {
        let mut bench = Bench::new(Rejoin::default(), true);
        bench.node(NodeChange::GaveUp(""));
        assert!(bench.rejects("without a word"));
    }

    #[test]
    fn stop_without_an_end_is_rejected() {
        let mut bench = Bench::new(Rejoin::default(), true);
        bench.node(NodeChange::StopAsked);
        bench.node(NodeChange::StopOverdue);
        assert!(bench.rejects("had to be killed"));
    }

    #[test]
    fn node_that_never_comes_back_is_rejected() {
        let mut bench = Bench::new(Rejoin::default(), true);
        bench.node(NodeChange::Started);
        bench.judge();
        assert!(bench.rejects("node 0 is not"));
    }

    #[test]
    fn named_unrecoverable_state_is_accepted_when_the_disk_was_damaged() {
        let mut bench = Bench::new(Rejoin::default(), true);
        let done = DamageDone {
            path: "meta.properties".to_owned(),
            at: 3,
        };
        bench.node(NodeChange::Damaged(&done));
        bench.node(NodeChange::Started);
        bench.node(NodeChange::GaveUp("meta.properties is unreadable"));
        bench.judge();
        assert!(bench.is_ok());
    }

    #[test]
    fn damaged_index_excuses_no_node_that_never_comes_back() {
        let mut bench = Bench::new(Rejoin::default(), true);
        let done = DamageDone {
            path: "t-0/00000000000000000000.timeindex".to_owned(),
            at: 3,
        };
        bench.node(NodeChange::Damaged(&done));
        bench.node(NodeChange::Started);
        bench.node(NodeChange::GaveUp("quorum-state is from an older disk"));
        bench.judge();
        assert!(bench.rejects("node 0 is not"));
    }

    #[test]
    fn restart_that_becomes_ready_is_accepted() {
        let mut bench = Bench::new(Rejoin::default(), true);
        bench.node(NodeChange::Started);
        bench.node(NodeChange::Ready);
        bench.node(NodeChange::Crashed);
        bench.node(NodeChange::Started);
        bench.node(NodeChange::Ready);
        bench.judge();
        assert!(bench.is_ok());
    }
}
