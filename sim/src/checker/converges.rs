//! What a healed cluster reaches: LeaderElected, HWProgress, IsrRegrow, MetadataConverges and CommitReachesEnd.
//!
//! They are judged after the drain, when everything had time to settle. Where so many copies are gone that no promise is left,
//! nothing is demanded.

use std::collections::BTreeMap;

use super::{Checker, Seen, Verdict};
use crate::{
    ghost::{Copy, Ghost},
    history::Place,
    time::SimTime,
};

/// LeaderElected: every partition has a leader that runs.
#[derive(Debug)]
pub(super) struct LeaderElected;

/// HWProgress: the high watermark reaches the leader's end when enough replicas are in sync.
#[derive(Debug)]
pub(super) struct HwProgress;

/// IsrRegrow: all replicas that run get back into the in-sync replicas.
#[derive(Debug)]
pub(super) struct IsrRegrow;

/// MetadataConverges: all brokers know the same leader, epochs and in-sync replicas.
#[derive(Debug)]
pub(super) struct MetadataConverges;

/// CommitReachesEnd: all replicas of the metadata log reach its end.
#[derive(Debug, Default)]
pub(super) struct CommitReachesEnd {
    /// The end of the quorum leader's log: each time with the highest end seen up to it.
    ends: Vec<(SimTime, i64)>,
    committed: BTreeMap<usize, i64>,
}

/// Returns the places with several copies of which something is demanded.
fn demanded(ghost: &Ghost) -> impl Iterator<Item = Place> {
    let places = ghost.places().all();
    places.filter(|place| {
        let is_whole = !ghost.is_damaged(*place) && !ghost.is_offline(*place);
        ghost.promise(*place).copies > 1 && is_whole && !ghost.is_beyond_any()
    })
}

fn leader(ghost: &Ghost, place: Place) -> Option<(usize, &Copy)> {
    let copies = ghost.copies(place).iter();
    let leaders = copies.filter(|(_, copy)| copy.runs && copy.leads);
    let newest = leaders.max_by_key(|(_, copy)| copy.epoch);
    newest.map(|(node, copy)| (*node, copy))
}

impl Checker for LeaderElected {
    fn name(&self) -> &'static str {
        "LeaderElected"
    }

    fn see(&mut self, _ghost: &Ghost, _seen: &Seen<'_>, _verdict: &mut Verdict<'_>) {}

    fn judge(&mut self, ghost: &Ghost, verdict: &mut Verdict<'_>) {
        for place in demanded(ghost) {
            let known = ghost.copies(place).values().map(|copy| copy.epoch).max();
            let led = leader(ghost, place).map(|(_, copy)| copy.epoch);
            if led.is_none() || led < known {
                verdict.fail(
                    "every partition has a leader once the faults are over",
                    format!(
                        "{}: led in epoch {led:?}, known epoch {known:?}",
                        ghost.places().partition(place)
                    ),
                );
                return;
            }
        }
    }
}

impl Checker for HwProgress {
    fn name(&self) -> &'static str {
        "HWProgress"
    }

    fn see(&mut self, _ghost: &Ghost, _seen: &Seen<'_>, _verdict: &mut Verdict<'_>) {}

    fn judge(&mut self, ghost: &Ghost, verdict: &mut Verdict<'_>) {
        for place in demanded(ghost) {
            let Some((node, copy)) = leader(ghost, place) else {
                continue;
            };
            let enough = copy.isr.len() >= ghost.promise(place).min_isr;
            if enough && copy.high_watermark < copy.end {
                verdict.fail(
                    "the high watermark reaches the log end when enough replicas are in sync",
                    format!(
                        "node {node} {} in epoch {}: high watermark {}, end {}, in sync {:?}",
                        ghost.places().partition(place),
                        copy.epoch.0,
                        copy.high_watermark,
                        copy.end,
                        copy.isr
                    ),
                );
                return;
            }
        }
    }
}

impl Checker for IsrRegrow {
    fn name(&self) -> &'static str {
        "IsrRegrow"
    }

    fn see(&mut self, _ghost: &Ghost, _seen: &Seen<'_>, _verdict: &mut Verdict<'_>) {}

    fn judge(&mut self, ghost: &Ghost, verdict: &mut Verdict<'_>) {
        for place in demanded(ghost) {
            let running = ghost
                .copies(place)
                .values()
                .filter(|copy| copy.runs)
                .count();
            let Some((node, copy)) = leader(ghost, place) else {
                continue;
            };
            if copy.isr.len() < running {
                verdict.fail(
                    "all replicas that run get back into the in-sync replicas",
                    format!(
                        "node {node} {} in epoch {}: {:?} in sync of {running} that run",
                        ghost.places().partition(place),
                        copy.epoch.0,
                        copy.isr
                    ),
                );
                return;
            }
        }
    }
}

impl Checker for MetadataConverges {
    fn name(&self) -> &'static str {
        "MetadataConverges"
    }

    fn see(&mut self, _ghost: &Ghost, _seen: &Seen<'_>, _verdict: &mut Verdict<'_>) {}

    fn judge(&mut self, ghost: &Ghost, verdict: &mut Verdict<'_>) {
        for place in demanded(ghost) {
            let running = ghost.copies(place).iter().filter(|(_, copy)| copy.runs);
            let known = running
                .map(|(node, copy)| (*node, (copy.epoch, copy.leader, copy.partition_epoch)));
            let known: Vec<_> = known.collect();
            let differ = known.windows(2).find(|pair| pair[0].1 != pair[1].1);
            if let Some(differ) = differ {
                verdict.fail(
                    "all brokers know the same leader and epochs once the faults are over",
                    format!("{}: {differ:?}", ghost.places().partition(place)),
                );
                return;
            }
        }
    }
}

impl Checker for CommitReachesEnd {
    fn name(&self) -> &'static str {
        "CommitReachesEnd"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        match seen {
            Seen::Probe { node, probe, .. } => {
                self.committed.insert(*node, probe.committed_metadata);
                let leads = probe.quorum.leader.and_then(|id| ghost.node(id)) == Some(*node);
                let end = probe.quorum.log_end;
                if leads && self.ends.last().is_none_or(|(_, last)| *last != end) {
                    self.ends.push((verdict.at(), end));
                }
            }
            Seen::Node { node, change, .. } if change.ends_process() => {
                self.committed.remove(node);
            }
            _ => {}
        }
    }

    fn judge(&mut self, ghost: &Ghost, verdict: &mut Verdict<'_>) {
        // What was appended only just now may be under way.
        let calm = verdict.at().as_nanos().saturating_sub(CALM_NANOS);
        let known = self.ends.partition_point(|(at, _)| at.as_nanos() <= calm);
        let Some((at, end)) = known.checked_sub(1).map(|last| self.ends[last]) else {
            return;
        };
        if ghost.is_beyond_any() {
            return;
        }
        for (node, committed) in &self.committed {
            if *committed < end {
                verdict.fail(
                    "all replicas of the metadata log reach its end once the faults are over",
                    format!(
                        "node {node} is at {committed}; the leader's log ends at {end} since {at}"
                    ),
                );
                return;
            }
        }
    }
}

const CALM_NANOS: u64 = 5_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use seedlog_core::ids::{Epoch, NodeId};

    use crate::{
        checker::{
            NodeChange,
            bench::{Bench, REPLICATED, sound},
        },
        node::{PartitionProbe, QuorumProbe},
    };

    fn copy(leads: bool, epoch: i32, isr: &[i32]) -> PartitionProbe {
        PartitionProbe {
            leads,
            leader_epoch: Epoch(epoch),
            leader: Some(NodeId(1)),
            partition_epoch: epoch,
            isr: isr.iter().map(|node| NodeId(*node)).collect(),
            ..sound()
        }
    }

    /// Judges what two nodes look like in the end.
    fn judged<C: Checker>(checker: C, first: PartitionProbe, second: PartitionProbe) -> Bench<C> {
        let mut bench = Bench::of(checker, REPLICATED);
        bench.probe(first);
        bench.on(1);
        bench.probe(second);
        bench.judge();
        bench
    }

    #[test]
    fn partition_without_a_leader_of_its_epoch_is_rejected() {
        let led = judged(
            LeaderElected,
            copy(true, 3, &[1, 2]),
            copy(false, 3, &[1, 2]),
        );
        assert!(led.is_ok());
        let old = judged(
            LeaderElected,
            copy(true, 3, &[1, 2]),
            copy(false, 4, &[1, 2]),
        );
        assert!(old.rejects("known epoch"));
        let mut bench = Bench::of(LeaderElected, REPLICATED);
        bench.probe(copy(true, 3, &[1]));
        bench.node(NodeChange::Crashed);
        bench.judge();
        assert!(bench.rejects("led in epoch None"));
    }

    #[test]
    fn watermark_that_stays_behind_is_rejected_when_enough_are_in_sync() {
        let behind = |isr: &[i32]| PartitionProbe {
            high_watermark: 7,
            ..copy(true, 3, isr)
        };
        let follower = || copy(false, 3, &[]);
        assert!(judged(HwProgress, behind(&[1]), follower()).is_ok());
        assert!(judged(HwProgress, behind(&[1, 2]), follower()).rejects("high watermark 7"));
    }

    #[test]
    fn replica_that_runs_and_stays_out_is_rejected() {
        let follower = || copy(false, 3, &[]);
        assert!(judged(IsrRegrow, copy(true, 3, &[1, 2]), follower()).is_ok());
        assert!(judged(IsrRegrow, copy(true, 3, &[1]), follower()).rejects("of 2 that run"));
    }

    #[test]
    fn brokers_that_know_different_epochs_are_rejected() {
        let same = judged(MetadataConverges, copy(true, 3, &[1]), copy(false, 3, &[1]));
        assert!(same.is_ok());
        let other = judged(MetadataConverges, copy(true, 3, &[1]), copy(false, 2, &[1]));
        assert!(!other.is_ok());
    }

    #[test]
    fn replica_of_the_metadata_log_that_stays_behind_is_rejected() {
        for committed in [9, 10] {
            let mut bench = Bench::of(CommitReachesEnd::default(), REPLICATED);
            bench.committed_metadata = 10;
            bench.quorum(QuorumProbe {
                epoch: Epoch(1),
                leader: Some(NodeId(1)),
                log_end: 10,
                ..QuorumProbe::default()
            });
            bench.on(1);
            bench.committed_metadata = committed;
            bench.quorum(QuorumProbe::default());
            bench.pass_millis(6_000);
            bench.judge();
            assert_eq!(bench.is_ok(), committed == 10);
        }
    }
}
