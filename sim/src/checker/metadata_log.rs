//! What every node's disk holds of the metadata log, and what of it is committed: read from the disks, whatever the nodes say.

use std::collections::BTreeMap;

use super::NodeChange;
use crate::{
    disk::{BatchMark, Disk},
    ghost::marks_from,
    node::Probe,
};

/// The folder of the metadata log.
pub(super) const FOLDER: &str = "__cluster_metadata-0";

/// A batch of the metadata log on one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) base: i64,
    pub(super) last: i64,
    pub(super) epoch: i32,
    pub(super) is_durable: bool,
    digest: u64,
}

impl Held {
    const fn of(mark: &BatchMark) -> Self {
        Self {
            base: mark.base,
            last: mark.last,
            epoch: mark.leader_epoch,
            is_durable: mark.durable.is_some(),
            digest: mark.digest,
        }
    }

    /// Whether it is the same entry, byte for byte.
    pub(super) const fn is(&self, other: &Self) -> bool {
        self.base == other.base && self.digest == other.digest
    }
}

/// The metadata log of one node.
#[derive(Debug, Default)]
struct Log {
    batches: Vec<Held>,
    /// The log end and the flushed end for which it was read last.
    looked: Option<(i64, i64)>,
    /// The committed end shown last.
    committed: i64,
}

impl Log {
    fn read(&mut self, disk: &Disk) {
        let durable = self.batches.iter().take_while(|held| held.is_durable);
        self.batches.truncate(durable.count());
        loop {
            let last = self.batches.last().copied();
            let marks = marks_from(disk, FOLDER, last.map_or(0, |held| held.base));
            let mut marks = marks.iter().map(Held::of);
            match last {
                Some(last) if !marks.next().is_some_and(|mark| mark.is(&last)) => {
                    self.batches.pop();
                }
                _ => {
                    self.batches.extend(marks);
                    return;
                }
            }
        }
    }

    fn at(&self, base: i64) -> Option<&Held> {
        let at = self.batches.partition_point(|held| held.base < base);
        self.batches.get(at).filter(|held| held.base == base)
    }
}

/// The metadata logs of all nodes.
#[derive(Debug, Default)]
pub(super) struct MetadataLogs {
    logs: BTreeMap<usize, Log>,
}

impl MetadataLogs {
    /// Takes in a node's state; returns the committed ends before and after it if that rose.
    pub(super) fn see(&mut self, node: usize, probe: &Probe, disk: &Disk) -> Option<(i64, i64)> {
        let log = self.logs.entry(node).or_default();
        let ends = (probe.quorum.log_end, probe.quorum.flushed);
        let (before, now) = (log.committed, probe.committed_metadata);
        log.committed = now;
        if now != before || log.looked != Some(ends) {
            log.looked = Some(ends);
            log.read(disk);
        }
        (now > before).then_some((before, now))
    }

    /// Takes note of what happens to a node. One that ends in the middle of a step may have told others of a sync that it never
    /// showed, so its disk is looked at once more.
    pub(super) fn change(&mut self, node: usize, change: &NodeChange<'_>, disk: &Disk) {
        if let Some(log) = self.logs.get_mut(&node)
            && change.ends_process()
        {
            log.read(disk);
        }
        match change {
            NodeChange::Wiped => {
                self.logs.remove(&node);
            }
            NodeChange::Started | NodeChange::LostPower { .. } => {
                if let Some(log) = self.logs.get_mut(&node) {
                    log.committed = 0;
                    log.looked = None;
                }
            }
            _ => {}
        }
    }

    /// Returns a node's batches that end before an offset and do not begin before another.
    pub(super) fn between(&self, node: usize, from: i64, until: i64) -> &[Held] {
        let Some(log) = self.logs.get(&node) else {
            return &[];
        };
        let first = log.batches.partition_point(|held| held.base < from);
        let end = log.batches.partition_point(|held| held.last < until);
        log.batches.get(first..end).unwrap_or_default()
    }

    /// Returns how many nodes hold a batch durably.
    pub(super) fn holders(&self, batch: &Held) -> usize {
        let holds = |log: &&Log| {
            let own = log.at(batch.base);
            own.is_some_and(|own| own.is(batch) && own.is_durable)
        };
        self.logs.values().filter(holds).count()
    }

    /// Returns whether a node holds a batch.
    pub(super) fn holds(&self, node: usize, batch: &Held) -> bool {
        let own = self.logs.get(&node).and_then(|log| log.at(batch.base));
        own.is_some_and(|own| own.is(batch))
    }
}

/// The committed metadata log: what a node was the first to call committed.
#[derive(Debug, Default)]
pub(super) struct Committed {
    batches: Vec<Held>,
}

impl Committed {
    /// Adds what a node calls committed by now; returns the first of these batches that is another than the one committed there.
    pub(super) fn add(&mut self, own: &[Held]) -> Option<(Held, Held)> {
        for held in own {
            let at = self.batches.partition_point(|known| known.last < held.base);
            match self.batches.get(at) {
                Some(known) if !known.is(held) => return Some((*held, *known)),
                Some(_) => {}
                None => self.batches.push(*held),
            }
        }
        None
    }

    /// Returns the committed batches from an offset on.
    pub(super) fn from(&self, offset: i64) -> &[Held] {
        let first = self.batches.partition_point(|held| held.last < offset);
        self.batches.get(first..).unwrap_or_default()
    }
}
