//! Who leads a partition, what its copies hold and what is committed of it: read off the probes and disks of all nodes, asked of
//! none.

use std::collections::BTreeMap;

use seedlog_core::ids::{Epoch, NodeId};

use super::{batches::Batches, marks_from};
use crate::{
    disk::{BatchMark, Disk},
    node::PartitionProbe,
    time::SimTime,
};

/// A batch below some leader's high watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Offset of its first record.
    pub base: i64,
    /// Offset of its last record.
    pub last: i64,
    /// Epoch of the leader that appended it.
    pub epoch: i32,
    /// Digest of its bytes.
    pub digest: u64,
}

impl Committed {
    const fn of(mark: &BatchMark) -> Self {
        Self {
            base: mark.base,
            last: mark.last,
            epoch: mark.leader_epoch,
            digest: mark.digest,
        }
    }

    /// Whether a batch on a disk is this one.
    #[must_use]
    pub const fn is(&self, mark: &BatchMark) -> bool {
        self.digest == mark.digest && self.base == mark.base
    }
}

/// The in-sync replicas that the controller has committed, as far as any node has heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InSync {
    /// The partition epoch.
    pub partition_epoch: i32,
    /// The members, by their place in the cluster.
    pub members: Vec<usize>,
}

/// One copy, as its node was seen last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Whether its process runs, as far as was seen.
    pub runs: bool,
    /// Whether the node believes to lead.
    pub leads: bool,
    /// The leader epoch that it knows.
    pub epoch: Epoch,
    /// The leader that it knows.
    pub leader: Option<NodeId>,
    /// The partition epoch that it knows.
    pub partition_epoch: i32,
    /// The in-sync replicas that it knows.
    pub isr: Vec<NodeId>,
    /// Its high watermark.
    pub high_watermark: i64,
    /// One past its last record.
    pub end: i64,
    /// Up to where its disk holds records as their rule wants it.
    pub safe: i64,
    /// Up to where its disk holds what is committed.
    pub holds: i64,
    /// Written and flushed ends at which its disk was looked at last.
    looked: (i64, i64),
}

/// One partition over all nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    /// For each node since when it leads in which epoch, or in none.
    leads: BTreeMap<usize, Vec<(SimTime, Option<Epoch>)>>,
    /// Who leads in each epoch, first seen.
    leaders: BTreeMap<Epoch, usize>,
    committed: Vec<Committed>,
    copies: BTreeMap<usize, Copy>,
    isr: Option<InSync>,
    pub(super) batches: Batches,
}

impl Copies {
    /// Takes in who leads.
    pub(super) fn lead(&mut self, at: SimTime, node: usize, probe: &PartitionProbe) {
        if !probe.leads {
            self.end_leadership(at, node);
            return;
        }
        let epoch = probe.leader_epoch;
        let own = self.leads.entry(node).or_default();
        if own.last().is_none_or(|(_, last)| *last != Some(epoch)) {
            own.push((at, Some(epoch)));
            self.leaders.entry(epoch).or_insert(node);
        }
    }

    fn end_leadership(&mut self, at: SimTime, node: usize) {
        if let Some(own) = self.leads.get_mut(&node)
            && own.last().is_some_and(|(_, last)| last.is_some())
        {
            own.push((at, None));
        }
    }

    /// Takes in what a copy holds, and by a leader what is committed.
    pub(super) fn look(
        &mut self,
        node: usize,
        probe: &PartitionProbe,
        isr: impl FnOnce(&[NodeId]) -> Vec<usize>,
        disk: &Disk,
    ) {
        let is_news = self
            .isr
            .as_ref()
            .is_none_or(|known| known.partition_epoch < probe.partition_epoch);
        if is_news && !probe.isr.is_empty() {
            self.isr = Some(InSync {
                partition_epoch: probe.partition_epoch,
                members: isr(&probe.isr),
            });
        }
        let copy = self.copies.entry(node).or_insert_with(|| Copy::of(probe));
        let is_cut = probe.end < copy.end;
        let has_moved = copy.looked != (probe.written, probe.flushed);
        copy.see(probe);
        if is_cut || has_moved {
            let folder = probe.partition.to_string();
            let copy_end = if is_cut { probe.end } else { copy.holds };
            copy.safe = safe_end(disk, &folder, probe.durable);
            copy.looked = (probe.written, probe.flushed);
            copy.holds = copy.holds.min(copy_end);
            self.batches.see(node, disk, &folder, probe.end);
        }
        let leads_now = probe.leads && self.newest() == Some(probe.leader_epoch);
        if leads_now && probe.high_watermark > self.end() {
            self.commit(&probe.partition.to_string(), probe.high_watermark, disk);
        }
        self.compare(node, probe, disk);
    }

    /// Finds out up to where a copy holds what is committed.
    fn compare(&mut self, node: usize, probe: &PartitionProbe, disk: &Disk) {
        let end = self.end();
        let Some(copy) = self.copies.get_mut(&node) else {
            return;
        };
        let until = end.min(probe.end);
        if copy.holds >= until {
            return;
        }
        let from = copy.holds.max(probe.start);
        let marks = marks_from(disk, &probe.partition.to_string(), from);
        let mut marks = marks.iter();
        let first = self.committed.partition_point(|batch| batch.last < from);
        copy.holds = from.min(until);
        for batch in &self.committed[first..] {
            if !marks.next().is_some_and(|mark| batch.is(mark)) {
                break;
            }
            copy.holds = batch.last + 1;
        }
    }

    fn commit(&mut self, folder: &str, high_watermark: i64, disk: &Disk) {
        let end = self.end();
        let marks = marks_from(disk, folder, end);
        let fresh = marks
            .iter()
            .filter(|mark| mark.base >= end && mark.last < high_watermark);
        self.committed.extend(fresh.map(Committed::of));
    }

    /// A process ended, maybe in the middle of a step in which it had told others what it has: `safe` is where its disk holds
    /// the log up to.
    pub(super) fn end_process(&mut self, at: SimTime, node: usize, safe: i64) {
        self.end_leadership(at, node);
        if let Some(copy) = self.copies.get_mut(&node) {
            copy.runs = false;
            copy.leads = false;
            copy.safe = safe;
        }
    }

    /// A copy lost what it had from an offset on.
    pub(super) fn cut(&mut self, node: usize, from: i64) {
        if let Some(copy) = self.copies.get_mut(&node) {
            copy.end = copy.end.min(from);
            copy.safe = copy.safe.min(from);
            copy.holds = copy.holds.min(from);
            copy.looked = (-1, -1);
        }
        self.batches.forget(node);
    }

    /// Returns one past the last committed offset.
    pub(super) fn end(&self) -> i64 {
        self.committed.last().map_or(0, |batch| batch.last + 1)
    }

    pub(super) fn committed(&self) -> &[Committed] {
        &self.committed
    }

    pub(super) const fn isr(&self) -> Option<&InSync> {
        self.isr.as_ref()
    }

    pub(super) const fn copies(&self) -> &BTreeMap<usize, Copy> {
        &self.copies
    }

    /// Returns the committed batch that covers an offset.
    pub(super) fn covering(&self, offset: i64) -> Option<&Committed> {
        let at = self.committed.partition_point(|batch| batch.last < offset);
        self.committed.get(at).filter(|batch| batch.base <= offset)
    }

    /// Forgets what is committed from an offset on: it may be lost.
    pub(super) fn forget(&mut self, from: i64) {
        let keep = self.committed.partition_point(|batch| batch.last < from);
        self.committed.truncate(keep);
        let end = self.end();
        for copy in self.copies.values_mut() {
            copy.holds = copy.holds.min(end);
        }
    }

    /// Returns the epoch in which a node led at a time, or believed so.
    pub(super) fn leadership(&self, node: usize, at: SimTime) -> Option<Epoch> {
        let own = self.leads.get(&node)?;
        let known = own.partition_point(|(since, _)| *since <= at);
        let last = known.checked_sub(1)?;
        let (since, epoch) = own[last];
        // What was said in the step that ended it was said before.
        let before = (since == at).then(|| last.checked_sub(1)).flatten();
        epoch.or_else(|| before.and_then(|before| own[before].1))
    }

    /// Returns the newest epoch that anybody led in.
    pub(super) fn newest(&self) -> Option<Epoch> {
        self.leaders.last_key_value().map(|(epoch, _)| *epoch)
    }

    /// Returns who leads in the newest epoch.
    pub(super) fn leader(&self) -> Option<usize> {
        self.leaders.last_key_value().map(|(_, node)| *node)
    }

    /// Returns in how many epochs somebody led.
    pub(super) fn leaderships(&self) -> usize {
        self.leaders.len()
    }
}

impl Copy {
    fn of(probe: &PartitionProbe) -> Self {
        Self {
            runs: true,
            leads: probe.leads,
            epoch: probe.leader_epoch,
            leader: probe.leader,
            partition_epoch: probe.partition_epoch,
            isr: probe.isr.clone(),
            high_watermark: probe.high_watermark,
            end: probe.end,
            safe: 0,
            holds: 0,
            looked: (-1, -1),
        }
    }

    fn see(&mut self, probe: &PartitionProbe) {
        self.runs = true;
        self.leads = probe.leads;
        self.epoch = probe.leader_epoch;
        self.leader = probe.leader;
        self.high_watermark = probe.high_watermark;
        self.end = probe.end;
        if self.partition_epoch != probe.partition_epoch {
            self.partition_epoch = probe.partition_epoch;
            self.isr.clone_from(&probe.isr);
        }
    }
}

/// Returns one past the last offset before which a folder's records are all where a rule wants them.
#[must_use]
pub fn safe_end(disk: &Disk, folder: &str, durable: bool) -> i64 {
    let mut end = 0;
    for segment in disk.segments(folder) {
        let marks = disk.batches(segment);
        // What is durable of a file is its front.
        let safe = if durable && marks.last().is_some_and(|mark| mark.durable.is_none()) {
            marks.partition_point(|mark| mark.durable.is_some())
        } else {
            marks.len()
        };
        if let Some(mark) = safe.checked_sub(1).and_then(|last| marks.get(last)) {
            end = mark.last + 1;
        }
        if safe < marks.len() {
            return end;
        }
    }
    end
}
