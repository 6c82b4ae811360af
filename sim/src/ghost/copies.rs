//! Who leads a partition, and what is committed of it: read off the probes and disks of all nodes, asked of none.

use std::collections::BTreeMap;

use seedlog_core::ids::Epoch;

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

/// One partition over all nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    /// For each node since when it leads in which epoch.
    leads: BTreeMap<usize, Vec<(SimTime, Epoch)>>,
    /// Who leads in each epoch, first seen.
    leaders: BTreeMap<Epoch, usize>,
    committed: Vec<Committed>,
}

impl Copies {
    /// Takes in a leader's state.
    pub(super) fn lead(
        &mut self,
        at: SimTime,
        node: usize,
        probe: &PartitionProbe,
        disk: &Disk,
        follows_content: bool,
    ) {
        let epoch = probe.leader_epoch;
        let own = self.leads.entry(node).or_default();
        if own.last().is_none_or(|(_, last)| *last != epoch) {
            own.push((at, epoch));
            self.leaders.entry(epoch).or_insert(node);
        }
        let is_newest = self.newest() == Some(epoch);
        if follows_content && is_newest && probe.high_watermark > self.end() {
            self.commit(&probe.partition.to_string(), probe.high_watermark, disk);
        }
    }

    fn commit(&mut self, folder: &str, high_watermark: i64, disk: &Disk) {
        let end = self.end();
        let mut new = Vec::new();
        for segment in disk.segments(folder).into_iter().rev() {
            let marks = disk.batches(segment).iter().rev();
            let fresh = marks
                .filter(|mark| mark.last < high_watermark)
                .take_while(|mark| mark.base >= end);
            new.extend(fresh.map(Committed::of));
            let first = disk.batches(segment).first();
            if first.is_some_and(|first| first.base <= end) {
                break;
            }
        }
        new.reverse();
        self.committed.extend(new);
    }

    /// Returns one past the last committed offset.
    pub(super) fn end(&self) -> i64 {
        self.committed.last().map_or(0, |batch| batch.last + 1)
    }

    pub(super) fn committed(&self) -> &[Committed] {
        &self.committed
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
    }

    /// Returns the epoch in which a node led at a time, or believed so.
    pub(super) fn leadership(&self, node: usize, at: SimTime) -> Option<Epoch> {
        let own = self.leads.get(&node)?;
        let known = own.partition_point(|(since, _)| *since <= at);
        known.checked_sub(1).map(|last| own[last].1)
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
