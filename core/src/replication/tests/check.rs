//! What must hold after every step, and what must have come about at rest. The ghost of what is committed is kept out here:
//! a check that asked the machines could not see them wrong.

use std::collections::BTreeMap;

use crate::{
    ids::{Epoch, NodeId, Offset},
    replication::{Acknowledged, Acks, FlushRule},
};

use super::{
    cluster::{Cluster, MIN_ISR, REPLICAS},
    node::{self, Stored},
};

#[derive(Clone, Copy, Debug)]
struct Ack {
    node: NodeId,
    request: u64,
    base_offset: Offset,
}

pub(super) struct Checks {
    rule: FlushRule,
    is_touched: bool,
    /// Every batch that a leader's high watermark has passed.
    committed: BTreeMap<Offset, Stored>,
    /// Records below are deleted on request.
    deleted: Offset,
    /// High watermarks seen, by node, incarnation and epoch.
    watermarks: BTreeMap<(NodeId, u64, Epoch), Offset>,
    sent: BTreeMap<u64, Acks>,
    acks: Vec<Ack>,
}

type Logs = BTreeMap<NodeId, Vec<Stored>>;

impl Checks {
    pub(super) const fn new(rule: FlushRule) -> Self {
        Self {
            rule,
            is_touched: true,
            committed: BTreeMap::new(),
            deleted: 0,
            watermarks: BTreeMap::new(),
            sent: BTreeMap::new(),
            acks: Vec::new(),
        }
    }

    /// Notes that something moved which the invariants are about.
    pub(super) const fn touch(&mut self) {
        self.is_touched = true;
    }

    pub(super) fn sent(&mut self, request: u64, acks: Acks) {
        self.sent.insert(request, acks);
    }

    pub(super) fn acknowledged(&mut self, node: NodeId, request: u64, done: Option<Acknowledged>) {
        let acks = self.sent.remove(&request);
        if let (Some(done), Some(Acks::All)) = (done, acks) {
            self.is_touched = true;
            self.acks.push(Ack {
                node,
                request,
                base_offset: done.base_offset,
            });
        }
    }

    pub(super) fn deleted_before(&mut self, offset: Offset) {
        self.deleted = self.deleted.max(offset);
        self.is_touched = true;
    }

    pub(super) fn check(cluster: &mut Cluster) -> Result<(), String> {
        if !std::mem::take(&mut cluster.checks.is_touched) {
            return Ok(());
        }
        let logs: Logs = cluster
            .nodes
            .iter()
            .map(|(id, node)| {
                // What a log that begins anew has let go of may still lie there.
                let open = node.broker.as_ref().map(node::Broker::partition);
                let open = open.filter(|partition| partition.log().is_open());
                let start = open.map_or(0, |partition| partition.log().start());
                let start = start.max(node.marks.log_start);
                (*id, node::content(&node.disk, start))
            })
            .collect();
        Self::watermarks(cluster, &logs)?;
        Self::strong_isr(cluster, &logs)?;
        Self::log_matching(&logs, cluster.checks.deleted)?;
        Self::leaders(cluster)?;
        Self::honest_acks(cluster, &logs)
    }

    /// HWMonotonic, MinIsrCommit, CommittedAgreement: and what the high watermarks say is committed from now on.
    fn watermarks(cluster: &mut Cluster, logs: &Logs) -> Result<(), String> {
        for (id, node) in &cluster.nodes {
            let Some(broker) = &node.broker else { continue };
            let partition = broker.partition();
            let high_watermark = partition.high_watermark();
            if partition.log().is_open() && high_watermark > partition.log().end() {
                return Err(format!("HWSound: {id} has {high_watermark} past its end"));
            }
            if partition.log().is_open() && high_watermark < partition.log().start() {
                return Err(format!(
                    "HWSound: {id} has {high_watermark} below its start"
                ));
            }
            let checks = &mut cluster.checks;
            let mut moved = true;
            if let Some(leadership) = partition.leadership() {
                let key = (*id, broker.incarnation, leadership.epoch());
                let before = checks.watermarks.insert(key, high_watermark);
                if before.is_some_and(|before| before > high_watermark) {
                    return Err(format!(
                        "HWMonotonic: {before:?} to {high_watermark} on {id}"
                    ));
                }
                moved = before.is_some_and(|before| before < high_watermark);
                if moved && leadership.isr().len() < MIN_ISR {
                    return Err(format!("MinIsrCommit: {id} at {high_watermark}"));
                }
            }
            let leads = partition.leadership().is_some();
            for stored in logs[id]
                .iter()
                .filter(|stored| stored.next <= high_watermark)
            {
                match checks.committed.get(&stored.base) {
                    Some(known) if known != stored => {
                        return Err(format!(
                            "CommittedAgreement: {id} has {stored:?}, committed was {known:?}"
                        ));
                    }
                    None if leads && moved && stored.base >= checks.deleted => {
                        checks.committed.insert(stored.base, *stored);
                    }
                    Some(_) | None => {}
                }
            }
        }
        Ok(())
    }

    /// StrongIsr: who may be elected holds all that is committed. TruncBelowHW, LeaderCompleteness and UncleanExclusion
    /// follow.
    fn strong_isr(cluster: &Cluster, logs: &Logs) -> Result<(), String> {
        let controller = &cluster.controller;
        let electable = controller.partition.isr.iter().chain(&controller.elr);
        let checks = &cluster.checks;
        for id in electable {
            let start = cluster.nodes[id].marks.log_start.max(checks.deleted);
            for (base, committed) in checks.committed.range(start..) {
                let log = &logs[id];
                let at = log.binary_search_by_key(base, |stored| stored.base);
                if at.is_ok_and(|at| log[at] == *committed) {
                    continue;
                }
                return Err(format!(
                    "StrongIsr: {id} of {:?} and {:?} lacks {committed:?}; its log ends with {:?}",
                    controller.partition,
                    controller.elr,
                    log.last()
                ));
            }
        }
        Ok(())
    }

    /// LogMatching: where two logs hold a batch of the same epoch at the same offset, they are equal before.
    fn log_matching(logs: &Logs, deleted: Offset) -> Result<(), String> {
        for (one, first) in logs {
            for (other, second) in logs.range(NodeId(one.0 + 1)..) {
                let is_equal = |stored: &&Stored| {
                    let at = second.binary_search_by_key(&stored.base, |other| other.base);
                    at.is_ok_and(|at| second[at].epoch == stored.epoch)
                };
                let Some(last) = first.iter().rev().find(is_equal) else {
                    continue;
                };
                // Segments below a log start go one by one.
                let from = first[0].base.max(second[0].base).max(deleted);
                let part = |log: &'_ [Stored]| {
                    let part = log.iter().copied();
                    part.filter(|stored| stored.base >= from && stored.base <= last.base)
                        .collect::<Vec<_>>()
                };
                if part(first) != part(second) {
                    return Err(format!("LogMatching: {one} and {other} up to {last:?}"));
                }
            }
        }
        Ok(())
    }

    /// MatchSound and QuorumSuperset, for the leader that the controller knows.
    fn leaders(cluster: &Cluster) -> Result<(), String> {
        let controller = &cluster.controller;
        for (id, node) in &cluster.nodes {
            let Some(broker) = &node.broker else { continue };
            let Some(leadership) = broker.partition().leadership() else {
                continue;
            };
            if leadership.epoch() != controller.partition.epoch {
                continue;
            }
            let maximal = leadership.maximal_isr();
            let mut electable = controller.partition.isr.iter().chain(&controller.elr);
            if controller.partition.isr.len() >= MIN_ISR
                && let Some(missing) = electable.find(|member| !maximal.contains(member))
            {
                return Err(format!("QuorumSuperset: {id} does not count {missing}"));
            }
            for (follower, progress) in leadership.followers() {
                let Some(other) = &cluster.nodes[&follower].broker else {
                    continue;
                };
                let partition = other.partition();
                let is_same = progress.broker_epoch() == Some(other.epoch)
                    && partition.assignment().epoch == leadership.epoch()
                    && partition.log().is_open();
                let held = match cluster.checks.rule {
                    FlushRule::Durable => partition.log().flushed_end(),
                    FlushRule::Replicated => partition.log().written_end(),
                };
                // A log that begins within a batch is begun anew with the whole of it: it goes back, but only over what is
                // deleted.
                let held = held
                    .max(broker.partition().log().start())
                    .max(cluster.checks.deleted);
                if is_same && progress.end().is_some_and(|end| end > held) {
                    return Err(format!(
                        "MatchSound: {id} counts {:?} of {follower}, which holds {held}",
                        progress.end()
                    ));
                }
            }
        }
        Ok(())
    }

    /// AckHonest: what is acknowledged to acks=-1 is committed at the offset that was told.
    fn honest_acks(cluster: &mut Cluster, logs: &Logs) -> Result<(), String> {
        for ack in std::mem::take(&mut cluster.checks.acks) {
            if ack.base_offset < cluster.checks.deleted {
                continue;
            }
            let is_it = |stored: &&Stored| stored.base == ack.base_offset;
            let own = logs[&ack.node].iter().find(is_it);
            if own.is_none() || cluster.checks.committed.get(&ack.base_offset) != own {
                return Err(format!("AckHonest: {ack:?} is not committed"));
            }
            let _ = ack.request;
        }
        Ok(())
    }

    /// IsrRegrow, HWProgress, TruncConverges, AlterPartitionClears.
    pub(super) fn at_rest(cluster: &Cluster) -> Result<(), String> {
        let partition = &cluster.controller.partition;
        if partition.isr.len() != REPLICAS.len() {
            return Err(format!("IsrRegrow: {partition:?}"));
        }
        let leader = partition.leader.ok_or("LeaderElected: there is none")?;
        let end_of = |id: &NodeId| {
            let broker = cluster.nodes[id].broker.as_ref()?;
            let partition = broker.partition();
            Some((partition.log().end(), partition.high_watermark()))
        };
        let ends: Vec<_> = REPLICAS.iter().map(end_of).collect();
        let expected = end_of(&leader);
        let (end, high_watermark) = expected.ok_or("LeaderElected: it is down")?;
        if end != high_watermark || ends.iter().any(|found| *found != expected) {
            return Err(format!(
                "HWProgress or TruncConverges: {ends:?}, led by {leader}"
            ));
        }
        let leadership = cluster.nodes[&leader].broker.as_ref();
        let leadership = leadership.and_then(|broker| broker.partition().leadership());
        if leadership.is_none_or(crate::replication::Leadership::is_changing) {
            return Err("AlterPartitionClears: a change is still in flight".to_owned());
        }
        Ok(())
    }
}
