//! What must hold of a quorum, kept outside of it: who led, who voted, what was committed.
//!
//! The names are those of the failure model. A violation is noted, not panicked on, so that a planted bug can be told by the name
//! of what caught it.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{
    ids::{Epoch, NodeId, Offset},
    raft::{Phase, RaftEvent, RaftProbe, ReplicaKey, entry::Content},
};

use super::node::{Live, Node};

/// The checker's own memory.
#[derive(Debug, Default)]
pub(super) struct Ghost {
    /// Every committed record, by its offset.
    pub(super) committed: BTreeMap<Offset, (Epoch, Bytes)>,
    /// Up to where any leader has committed, and the batches up to there by their ends.
    pub(super) end: Offset,
    batches: BTreeMap<Offset, Epoch>,
    leaders: BTreeMap<Epoch, (NodeId, u64)>,
    votes: BTreeMap<(ReplicaKey, Epoch), ReplicaKey>,
    pub(super) violation: Option<(&'static str, String)>,
    /// Commits of a leader that need a look at all disks.
    pub(super) unchecked: Option<(NodeId, Epoch, Offset)>,
}

impl Ghost {
    pub(super) fn violate(&mut self, name: &'static str, what: String) {
        self.violation.get_or_insert((name, what));
    }

    fn demand(&mut self, holds: bool, name: &'static str, what: impl FnOnce() -> String) {
        if !holds {
            self.violate(name, what());
        }
    }

    /// A replica gives its vote.
    pub(super) fn on_vote(&mut self, voter: ReplicaKey, epoch: Epoch, candidate: ReplicaKey) {
        let given = *self.votes.entry((voter, epoch)).or_insert(candidate);
        self.demand(given == candidate, "VoteOnce", || {
            format!("{voter:?} votes for {candidate:?} after {given:?} in epoch {epoch}")
        });
    }

    pub(super) fn on_event(&mut self, node: NodeId, event: &RaftEvent) {
        match event {
            RaftEvent::Committed {
                base_offset,
                epoch,
                records,
            } => {
                for (offset, record) in (*base_offset..).zip(records) {
                    let new = (*epoch, record.clone());
                    let known = self.committed.entry(offset).or_insert_with(|| new.clone());
                    let is_same = *known == new;
                    self.demand(is_same, "CommittedAgreement", || {
                        format!("node {node} commits {new:?} at {offset}")
                    });
                }
            }
            RaftEvent::SnapshotLoaded {
                end_offset,
                records,
                ..
            } => {
                let known = self.committed.range(..*end_offset);
                let is_same = known.map(|(_, (_, record))| record).eq(records);
                self.demand(is_same, "SnapshotLog", || {
                    format!("node {node} loads another state at {end_offset}")
                });
            }
            RaftEvent::Founding
            | RaftEvent::BecameLeader { .. }
            | RaftEvent::LostLeadership { .. }
            | RaftEvent::LeaderChanged { .. }
            | RaftEvent::Warning { .. }
            | RaftEvent::SnapshotNeeded { .. }
            | RaftEvent::Closed
            | RaftEvent::Notice(_)
            | RaftEvent::Fatal { .. } => {}
        }
    }

    /// Looks at a replica after an input.
    pub(super) fn on_step(&mut self, node: &mut Node) {
        let (id, incarnation) = (node.key.id, node.incarnations);
        let Some(live) = &mut node.live else {
            return;
        };
        let probe = live.raft.probe();
        let is_running = matches!(live.raft.phase, Phase::Running);
        if live.fatal.is_some() || !is_running || !live.raft.log.is_open() {
            return;
        }
        self.check_bounds(id, live, &probe);
        if probe.role == "Leader" {
            let who = (id, incarnation);
            let is_new = !self.leaders.contains_key(&probe.epoch);
            let leader = *self.leaders.entry(probe.epoch).or_insert(who);
            self.demand(leader == who, "ElectionSafety", || {
                format!("{who:?} leads epoch {} after {leader:?}", probe.epoch)
            });
            if is_new {
                self.check_leader(id, live);
            }
            if probe.high_watermark > self.end {
                let new = self.end + 1..=probe.high_watermark;
                let held = live.batches.iter().filter(|(end, _)| new.contains(end));
                self.batches.extend(held);
                self.end = probe.high_watermark;
                self.unchecked = Some((id, probe.epoch, self.end));
            }
        }
        let end = self.end;
        self.demand(probe.high_watermark <= end, "HWSound", || {
            format!("node {id} has committed more than any leader")
        });
        live.seen = Some(probe);
        live.batches = live
            .raft
            .uncommitted
            .iter()
            .map(|entry| (entry.next_offset, entry.epoch))
            .collect();
    }

    fn check_bounds(&mut self, id: NodeId, live: &Live, probe: &RaftProbe) {
        let snapshot_end = probe.latest_snapshot.map_or(0, |id| id.end_offset);
        let is_covered = probe.log_start <= snapshot_end || live.raft.is_busy();
        self.demand(is_covered, "SnapshotLog", || {
            format!(
                "node {id}: a hole between {snapshot_end} and {}",
                probe.log_start
            )
        });
        let is_ordered =
            probe.log_start <= probe.high_watermark && probe.high_watermark <= probe.log_end;
        self.demand(is_ordered || live.raft.is_busy(), "HWSound", || {
            format!("node {id}: {probe:?}")
        });
        let Some(seen) = &live.seen else {
            return;
        };
        self.demand(
            probe.high_watermark >= seen.high_watermark && probe.epoch >= seen.epoch,
            "HWSound",
            || format!("node {id}: {probe:?} after {seen:?}"),
        );
        let lost = live
            .batches
            .iter()
            .find(|(end, epoch)| **end > probe.log_end && self.batches.get(end) == Some(epoch));
        let is_replaced = probe.log_end == snapshot_end;
        self.demand(lost.is_none() || is_replaced, "TruncBelowHW", || {
            format!("node {id} ends at {} without {lost:?}", probe.log_end)
        });
    }

    /// A new leader has every committed record.
    fn check_leader(&mut self, id: NodeId, live: &Live) {
        let held: BTreeMap<Offset, (Epoch, Bytes)> = live
            .raft
            .uncommitted
            .iter()
            .flat_map(|entry| {
                let records = match &entry.content {
                    Content::Data(records) => records.clone(),
                    Content::Control(_) => Vec::new(),
                };
                (entry.base_offset..).zip(records.into_iter().map(|record| (entry.epoch, record)))
            })
            .collect();
        let missing = self
            .committed
            .range(live.raft.high_watermark()..)
            .find(|(offset, record)| held.get(offset) != Some(record))
            .map(|(offset, _)| *offset);
        let is_short = live.raft.probe().log_end < self.end;
        if missing.is_some() || is_short {
            let what = format!("node {id} leads without {missing:?}, {}", self.end);
            self.violate("LeaderCompleteness", what);
        }
    }

    /// Looks at all disks after a leader has committed: a majority holds the entry durably, and it is of the leader's epoch.
    pub(super) fn check_commit(&mut self, nodes: &[Node], voters: usize) {
        let Some((leader, epoch, end)) = self.unchecked.take() else {
            return;
        };
        let holders = nodes[..voters].iter().filter(|node| {
            let (batches, snapshot) = node.durable_log();
            snapshot >= end || batches.contains(&(epoch, end))
        });
        let holders = holders.count();
        self.demand(holders > voters / 2, "CommitRule", || {
            format!("node {leader} commits {end} in epoch {epoch}, durable on {holders} disks")
        });
    }
}
