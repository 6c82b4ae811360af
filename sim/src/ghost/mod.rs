//! What checkers know: the history in tables, and the truth about disks, kept outside the system under test.

use std::collections::{BTreeMap, BTreeSet};

use seedlog_core::{
    event::{Event, StartReason},
    ids::{Epoch, NodeId},
};

use crate::{
    batch::{SeenRecord, ValueId},
    checker::{NodeChange, Phase, Seen},
    disk::{BatchMark, Disk},
    history::{Acked, Acks, Note, Outcome, Place, Places, Values, WriteId},
    marks,
    node::Probe,
    time::SimTime,
};

mod batches;
mod copies;
mod promise;

pub use copies::{Committed, Copy, InSync, safe_end};
pub use promise::Promise;

use copies::Copies;
use promise::Losses;

/// The batches of all partitions of a scenario on one disk, by place, in order of offset.
pub type LogView = BTreeMap<Place, Vec<BatchMark>>;

/// Reads the batches that a disk holds of each place.
#[must_use]
pub fn view(places: &Places, disk: &Disk) -> LogView {
    let logs = places.all().map(|place| {
        let folder = places.partition(place).to_string();
        let marks = disk
            .segments(&folder)
            .into_iter()
            .flat_map(|id| disk.batches(id).to_vec());
        (place, marks.collect())
    });
    logs.collect()
}

/// Returns the batches of a folder that end at or after an offset, in order.
#[must_use]
pub fn marks_from(disk: &Disk, folder: &str, from: i64) -> Vec<BatchMark> {
    let mut found = Vec::new();
    for segment in disk.segments(folder).into_iter().rev() {
        let marks = disk.batches(segment);
        let first = marks.partition_point(|mark| mark.last < from);
        found.extend(marks[first..].iter().rev().copied());
        if first > 0 {
            break;
        }
    }
    found.reverse();
    found
}

/// One produce as the checkers know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Where to.
    pub place: Place,
    /// How sure.
    pub acks: Acks,
    /// What.
    pub values: Values,
    /// Timestamp of all records.
    pub timestamp: i64,
    /// When it began.
    pub invoked: SimTime,
    /// How often it left for a broker.
    pub transmissions: u32,
    /// What the producer knows.
    pub outcome: Option<Outcome>,
    /// The acknowledgement and when it left the broker.
    pub acked: Option<(Acked, SimTime)>,
    /// The leader epoch of the broker that acknowledged it, where it is known.
    pub acked_in: Option<Epoch>,
    /// The producer is done with it.
    pub settled: bool,
}

/// Why something that was acknowledged may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excuse {
    /// It was not synced when its machine lost power, and nothing more was promised.
    Unsynced,
    /// Its bytes went bad at rest, and the broker says so.
    Damaged,
    /// It was cut with bytes that went bad at rest, and the disk said of none of them that they were synced.
    PastMark,
    /// The disk lied or was replaced: no promise holds.
    Beyond,
    /// Retention or DeleteRecords removed it.
    Trimmed,
    /// Only a leader had it that lost its leadership before it was committed, and nobody waited for more.
    Failover,
    /// A leader was elected that misses records, as the topic's configuration allows.
    Unclean,
}

/// What is known of one partition.
#[derive(Clone, Debug)]
struct Known {
    promise: Promise,
    losses: Losses,
    copies: Copies,
    /// First offset, moved by rule.
    start: i64,
    /// Nodes on which bytes went bad.
    damaged: BTreeSet<usize>,
    /// Nodes on which bytes went bad since the log last opened.
    unseen: BTreeSet<usize>,
    /// The synced mark that the next opening of a log with such bytes finds, by node.
    mark: BTreeMap<usize, i64>,
    /// When the only copy opened with such bytes, and from where on damage could pass for a torn tail then.
    past_mark: Vec<(SimTime, i64)>,
    /// The same of the last opening on each node, if there were such bytes.
    opened_past: BTreeMap<usize, i64>,
    /// Nodes that cannot serve it.
    offline: BTreeSet<usize>,
    read: BTreeMap<i64, SeenRecord>,
    drained: Option<(i64, i64)>,
    unreadable: Option<i16>,
}

impl Known {
    fn new(promise: Promise) -> Self {
        Self {
            promise,
            losses: Losses::default(),
            copies: Copies::default(),
            start: 0,
            damaged: BTreeSet::new(),
            unseen: BTreeSet::new(),
            mark: BTreeMap::new(),
            past_mark: Vec::new(),
            opened_past: BTreeMap::new(),
            offline: BTreeSet::new(),
            read: BTreeMap::new(),
            drained: None,
            unreadable: None,
        }
    }

    /// A node lost what it had of some offsets.
    fn lose(&mut self, at: SimTime, node: usize, range: (i64, i64), by_disk: bool) {
        self.copies.cut(node, range.0);
        let from = self.losses.lose(self.promise, at, node, range, by_disk);
        if let Some(from) = from {
            self.copies.forget(from);
        }
    }
}

/// Shared ghost state.
#[derive(Debug)]
pub struct Ghost {
    places: Places,
    known: Vec<Known>,
    writes: BTreeMap<WriteId, Write>,
    by_value: BTreeMap<ValueId, WriteId>,
    phase: Phase,
    phase_since: SimTime,
    beyond: BTreeSet<usize>,
    /// Node ids, by place in the cluster.
    nodes: Vec<NodeId>,
    /// What failed syncs took from the page cache under a process that still runs: each place and the lowest offset.
    taken: BTreeMap<usize, Vec<(Place, i64)>>,
}

impl Ghost {
    /// Knows the partitions of a scenario, and what is promised of each.
    #[must_use]
    pub fn new(places: Places, promises: &[Promise]) -> Self {
        let known = promises.iter().map(|promise| Known::new(*promise));
        Self {
            known: known.collect(),
            places,
            writes: BTreeMap::new(),
            by_value: BTreeMap::new(),
            phase: Phase::SetUp,
            phase_since: SimTime::START,
            beyond: BTreeSet::new(),
            nodes: vec![NodeId(1)],
            taken: BTreeMap::new(),
        }
    }

    /// Knows the nodes of the cluster, each a voter of the controller quorum, by their ids.
    #[must_use]
    pub fn of_nodes(mut self, nodes: Vec<NodeId>) -> Self {
        self.nodes = nodes;
        self
    }

    /// Takes in what happened.
    pub fn see(&mut self, at: SimTime, seen: &Seen<'_>) {
        match seen {
            Seen::Phase(phase) => {
                self.phase = *phase;
                self.phase_since = at;
            }
            Seen::Note { note, cause, .. } => {
                // What counts is when the broker said it, not when the client heard it.
                let left = cause.map_or(at, |cause| cause.left);
                self.note(at, (left, cause.map(|cause| cause.node)), note);
            }
            Seen::Event { node, event } => self.event(at, *node, event),
            Seen::Node { node, change, disk } => self.changed(at, *node, change, disk),
            Seen::Probe { node, probe, disk } => self.probe(at, *node, probe, disk),
        }
    }

    /// Returns the partitions.
    #[must_use]
    pub const fn places(&self) -> &Places {
        &self.places
    }

    /// Returns the present phase and since when.
    #[must_use]
    pub const fn phase(&self) -> (Phase, SimTime) {
        (self.phase, self.phase_since)
    }

    /// Returns whether a copy of this partition counts only when flushed.
    #[must_use]
    pub fn is_durable(&self, place: Place) -> bool {
        self.known[place.0].promise.durable
    }

    /// Returns what is promised of a partition.
    #[must_use]
    pub fn promise(&self, place: Place) -> Promise {
        self.known[place.0].promise
    }

    /// Returns what is committed of a partition with several copies, in order.
    #[must_use]
    pub fn committed(&self, place: Place) -> &[Committed] {
        self.known[place.0].copies.committed()
    }

    /// Returns the committed batch that covers an offset.
    #[must_use]
    pub fn committed_at(&self, place: Place, offset: i64) -> Option<&Committed> {
        self.known[place.0].copies.covering(offset)
    }

    /// Returns one past the last committed offset of a partition with several copies.
    #[must_use]
    pub fn committed_end(&self, place: Place) -> i64 {
        self.known[place.0].copies.end()
    }

    /// Returns the leader epoch in which a node led a partition at a time, or believed so.
    #[must_use]
    pub fn leadership(&self, node: usize, place: Place, at: SimTime) -> Option<Epoch> {
        self.known[place.0].copies.leadership(node, at)
    }

    /// Returns a node's place in the cluster.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<usize> {
        self.nodes.iter().position(|known| *known == id)
    }

    /// Returns how many voters make a majority of the controller quorum.
    #[must_use]
    pub const fn majority(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// Returns all copies of a partition, as they were seen last.
    #[must_use]
    pub fn copies(&self, place: Place) -> &BTreeMap<usize, Copy> {
        self.known[place.0].copies.copies()
    }

    fn copy(&self, node: usize, place: Place) -> Option<&Copy> {
        self.copies(place).get(&node)
    }

    /// Returns one past the last record of a copy.
    #[must_use]
    pub fn log_end(&self, node: usize, place: Place) -> Option<i64> {
        self.copy(node, place).map(|copy| copy.end)
    }

    /// Returns up to where a copy is where its rule wants it.
    #[must_use]
    pub fn safe_end(&self, node: usize, place: Place) -> Option<i64> {
        self.copy(node, place).map(|copy| copy.safe)
    }

    /// Returns up to where a copy holds what is committed.
    #[must_use]
    pub fn holds(&self, node: usize, place: Place) -> i64 {
        self.copy(node, place).map_or(0, |copy| copy.holds)
    }

    /// Returns the first offset that a copy lost and did not get again.
    #[must_use]
    pub fn gap(&self, node: usize, place: Place) -> Option<i64> {
        self.known[place.0].losses.gap(node)
    }

    /// Returns whether a copy lost something and did not get it again.
    #[must_use]
    pub fn has_gap(&self, node: usize, place: Place) -> bool {
        self.gap(node, place).is_some()
    }

    /// Returns the in-sync replicas that the controller has committed, as far as any node has heard.
    #[must_use]
    pub fn isr(&self, place: Place) -> Option<&InSync> {
        self.known[place.0].copies.isr()
    }

    /// Returns whether some disk ever held a batch of these bytes.
    #[must_use]
    pub fn was_written(&self, place: Place, digest: u64) -> bool {
        self.known[place.0].copies.batches.has(digest)
    }

    /// Returns by what two copies of a partition differ though they should not.
    #[must_use]
    pub fn mismatch(&self, place: Place) -> Option<&str> {
        self.known[place.0].copies.batches.mismatch()
    }

    /// Returns who leads a partition in its newest epoch.
    #[must_use]
    pub fn leader(&self, place: Place) -> Option<usize> {
        self.known[place.0].copies.leader()
    }

    /// Returns in how many epochs partitions had a leader, all together.
    #[must_use]
    pub fn leaderships(&self) -> usize {
        self.known
            .iter()
            .map(|known| known.copies.leaderships())
            .sum()
    }

    /// Returns a produce.
    #[must_use]
    pub fn write(&self, write: WriteId) -> Option<&Write> {
        self.writes.get(&write)
    }

    /// Returns all produces, in order.
    pub fn writes(&self) -> impl Iterator<Item = (WriteId, &Write)> {
        self.writes.iter().map(|(id, write)| (*id, write))
    }

    /// Returns which produce carries a value.
    #[must_use]
    pub fn writer_of(&self, value: ValueId) -> Option<(WriteId, &Write)> {
        let (_, id) = self.by_value.range(..=value).next_back()?;
        let write = self.writes.get(id)?;
        (value.0 < write.values.first.0 + u64::from(write.values.count)).then_some((*id, write))
    }

    /// Returns what the drain read of a partition.
    #[must_use]
    pub fn drained(&self, place: Place) -> &BTreeMap<i64, SeenRecord> {
        &self.known[place.0].read
    }

    /// Returns start and high watermark of a fully drained partition.
    #[must_use]
    pub fn drained_bounds(&self, place: Place) -> Option<(i64, i64)> {
        self.known[place.0].drained
    }

    /// Returns whether bytes of a partition went bad at rest, on any node.
    #[must_use]
    pub fn is_damaged(&self, place: Place) -> bool {
        !self.known[place.0].damaged.is_empty()
    }

    /// Returns whether so many brokers reported the partition as offline that the rest cannot commit anything.
    #[must_use]
    pub fn is_offline(&self, place: Place) -> bool {
        let Promise {
            copies, min_isr, ..
        } = self.promise(place);
        self.known[place.0].offline.len() + min_isr > copies
    }

    /// Returns whether a node's disk broke every promise.
    #[must_use]
    pub fn is_beyond(&self, node: usize) -> bool {
        self.beyond.contains(&node)
    }

    /// Returns whether the disks of so many nodes broke every promise that some partition has none left.
    #[must_use]
    pub fn is_beyond_any(&self) -> bool {
        let mut known = self.known.iter();
        known.any(|known| self.beyond.len() >= known.promise.min_isr)
    }

    /// Returns the error that readers of the drain get, if they get one.
    #[must_use]
    pub fn unreadable(&self, place: Place) -> Option<i16> {
        self.known[place.0].unreadable
    }

    /// Returns the first offset that retention and DeleteRecords left.
    #[must_use]
    pub fn start(&self, place: Place) -> i64 {
        self.known[place.0].start
    }

    /// Returns the lowest offset that a power loss since `since` took from the unsynced end.
    #[must_use]
    pub fn lost_since(&self, place: Place, since: SimTime) -> Option<i64> {
        let lost = self.known[place.0].losses.since(since);
        lost.map(|loss| loss.from).min()
    }

    /// Returns from where on the last opening of a log on a node could take damage for a torn tail, if bytes had gone bad: past the
    /// marks as they stood on the disk.
    #[must_use]
    pub fn opened_past(&self, node: usize, place: Place) -> Option<i64> {
        self.known[place.0].opened_past.get(&node).copied()
    }

    /// Returns why the record at an offset may be missing though it was acknowledged at `acked`.
    #[must_use]
    pub fn excuse(&self, place: Place, offset: i64, acked: SimTime) -> Option<Excuse> {
        let known = &self.known[place.0];
        if self.beyond.len() >= known.promise.min_isr {
            return Some(Excuse::Beyond);
        }
        if offset < known.start {
            return Some(Excuse::Trimmed);
        }
        if known.damaged.len() >= known.promise.min_isr && self.is_offline(place) {
            return Some(Excuse::Damaged);
        }
        let mut past_mark = known.past_mark.iter();
        if past_mark.any(|(at, from)| acked <= *at && *from <= offset) {
            return Some(Excuse::PastMark);
        }
        let mut lost = known.losses.since(acked);
        let loss = lost.find(|loss| loss.from <= offset && offset < loss.to)?;
        Some(if loss.unclean {
            Excuse::Unclean
        } else {
            Excuse::Unsynced
        })
    }

    /// Returns why the record at an offset may be missing though its leader, and nobody else, acknowledged it in an epoch.
    #[must_use]
    pub fn excuse_of_leader(
        &self,
        place: Place,
        offset: i64,
        acked: SimTime,
        epoch: Option<Epoch>,
    ) -> Option<Excuse> {
        let excuse = self.excuse(place, offset, acked);
        let known = &self.known[place.0];
        let Some(epoch) = epoch.filter(|_| excuse.is_none() && known.promise.copies > 1) else {
            return excuse;
        };
        // What was committed in the end is safe, whoever acknowledged it.
        let mut covering = known.copies.covering(offset).into_iter();
        let is_committed = covering.any(|batch| batch.epoch == epoch.0);
        let is_deposed = known.copies.newest().is_some_and(|newest| newest > epoch);
        (is_deposed && !is_committed).then_some(Excuse::Failover)
    }

    /// Returns why a record that a write was acknowledged with may be missing.
    #[must_use]
    pub fn excuse_of(&self, write: &Write, offset: i64) -> Option<Excuse> {
        let (_, at) = write.acked?;
        if write.acks == Acks::Leader {
            self.excuse_of_leader(write.place, offset, at, write.acked_in)
        } else {
            self.excuse(write.place, offset, at)
        }
    }

    fn probe(&mut self, at: SimTime, node: usize, probe: &Probe, disk: &Disk) {
        for partition in &probe.partitions {
            let Some(place) = partition.place.filter(|_| !partition.offline) else {
                continue;
            };
            let known = &mut self.known[place.0];
            known.copies.lead(at, node, partition);
            if known.promise.copies > 1 && !self.beyond.contains(&node) {
                let places = |isr: &[NodeId]| {
                    let known = isr.iter();
                    known
                        .filter_map(|id| self.nodes.iter().position(|node| node == id))
                        .collect()
                };
                known.copies.look(node, partition, places, disk);
            }
            if let Some(gap) = known.losses.gap(node) {
                let held = known.copies.copies().get(&node).map(|copy| copy.holds);
                if let Some(held) = held.filter(|held| *held > gap) {
                    known.losses.regain(node, held);
                }
            }
        }
    }

    fn note(&mut self, at: SimTime, (left, by): (SimTime, Option<usize>), note: &Note) {
        match note {
            Note::Invoked {
                write,
                place,
                acks,
                values,
                timestamp,
            } => {
                self.by_value.insert(values.first, *write);
                self.writes.insert(
                    *write,
                    Write {
                        place: *place,
                        acks: *acks,
                        values: *values,
                        timestamp: *timestamp,
                        invoked: at,
                        transmissions: 0,
                        outcome: None,
                        acked: None,
                        acked_in: None,
                        settled: false,
                    },
                );
            }
            Note::Transmitted { write } => {
                if let Some(write) = self.writes.get_mut(write) {
                    write.transmissions += 1;
                }
            }
            Note::Answered { write, outcome } => {
                if let Some(write) = self.writes.get_mut(write) {
                    write.outcome = Some(*outcome);
                    if let Outcome::Ok(acked) = outcome {
                        let copies = &self.known[write.place.0].copies;
                        write.acked = Some((*acked, left));
                        write.acked_in = by.and_then(|node| copies.leadership(node, left));
                    }
                }
            }
            Note::Settled { write, .. } => {
                if let Some(write) = self.writes.get_mut(write) {
                    write.settled = true;
                }
            }
            Note::Polled { place, records, .. } if self.phase == Phase::Drain => {
                let known = &mut self.known[place.0];
                known
                    .read
                    .extend(records.iter().map(|record| (record.offset, *record)));
            }
            Note::Drained { place, start, end } => {
                self.known[place.0].drained = Some((*start, *end));
            }
            Note::Unreadable { place, code } => self.known[place.0].unreadable = Some(*code),
            Note::Polled { .. }
            | Note::Overdue { .. }
            | Note::Bounds { .. }
            | Note::TopicsReady
            | Note::Garbled { .. } => {}
        }
    }

    fn event(&mut self, at: SimTime, node: usize, event: &Event) {
        match event {
            Event::PartitionOffline { partition, .. } => {
                if let Some(place) = self.places.place(partition) {
                    self.known[place.0].offline.insert(node);
                }
            }
            Event::LeaderElectedUncleanly { partition, .. } => {
                if let Some(place) = self.places.place(partition) {
                    let known = &mut self.known[place.0];
                    if known.promise.unclean {
                        known.losses.elect_uncleanly(at);
                        known.copies.forget(0);
                    }
                }
            }
            Event::LogOpened { partition, end, .. } => {
                if let Some(place) = self.places.place(partition) {
                    let known = &mut self.known[place.0];
                    known.offline.remove(&node);
                    known.unseen.remove(&node);
                    known.opened_past.remove(&node);
                    if let Some(mark) = known.mark.remove(&node) {
                        let from = mark.max(*end);
                        known.opened_past.insert(node, from);
                        if known.promise.copies == 1 {
                            known.past_mark.push((at, from));
                        } else {
                            known.lose(at, node, (from, i64::MAX), true);
                        }
                    }
                }
            }
            Event::LogStartMoved {
                partition,
                start,
                reason:
                    StartReason::RetentionTime | StartReason::RetentionSize | StartReason::DeleteRecords,
            } => {
                if let Some(place) = self.places.place(partition) {
                    let known = &mut self.known[place.0];
                    known.start = known.start.max(*start);
                }
            }
            _ => {}
        }
    }

    fn changed(&mut self, at: SimTime, node: usize, change: &NodeChange<'_>, disk: &Disk) {
        if change.ends_process() {
            for known in &mut self.known {
                known.copies.end_process(at, node);
            }
        }
        match change {
            NodeChange::LostPower { before, .. } => {
                self.lose(at, node, before, disk, false);
                self.taken.remove(&node);
            }
            NodeChange::LostDirty { before } => {
                let lost = self.lose(at, node, before, disk, true);
                self.taken.entry(node).or_default().extend(lost);
            }
            NodeChange::Damaged(done) => {
                let folder = done.path.split('/').next().unwrap_or_default();
                for place in self.places.all() {
                    let is_own = self.places.partition(place).to_string() == folder;
                    if is_own && done.path.ends_with(".log") {
                        self.known[place.0].damaged.insert(node);
                        self.known[place.0].unseen.insert(node);
                    }
                }
            }
            NodeChange::Wiped | NodeChange::Lied => {
                self.beyond.insert(node);
                for known in self
                    .known
                    .iter_mut()
                    .filter(|known| known.promise.copies > 1)
                {
                    known.lose(at, node, (0, i64::MAX), true);
                }
            }
            NodeChange::Started => {
                for place in self.places.all() {
                    let known = &mut self.known[place.0];
                    if known.unseen.contains(&node) {
                        let mark = marks::synced(disk, self.places.partition(place));
                        known.mark.insert(node, mark);
                    }
                }
            }
            // Until it hears of the failed sync a process writes on behind the hole that it left, and so does what it writes
            // go: the loss reaches to the end of that process.
            NodeChange::Crashed
            | NodeChange::Stopped
            | NodeChange::StopOverdue
            | NodeChange::GaveUp(_)
            | NodeChange::Panicked(_) => {
                for (place, from) in self.taken.remove(&node).unwrap_or_default() {
                    self.known[place.0].lose(at, node, (from, i64::MAX), false);
                }
            }
            NodeChange::Ready | NodeChange::StopAsked => {}
        }
    }

    /// Notes what is gone from a node's disk that was there before, and what may go on being lost; returns each place and its
    /// lowest lost offset.
    fn lose(
        &mut self,
        at: SimTime,
        node: usize,
        before: &LogView,
        disk: &Disk,
        goes_on: bool,
    ) -> Vec<(Place, i64)> {
        let after = view(&self.places, disk);
        let mut all = Vec::new();
        for (place, marks) in before {
            let left = after.get(place).map_or(&[][..], Vec::as_slice);
            let left: BTreeSet<u64> = left.iter().map(|mark| mark.digest).collect();
            let lost = marks.iter().find(|mark| !left.contains(&mark.digest));
            if let Some(lost) = lost {
                let known = &mut self.known[place.0];
                let is_only = known.promise.copies == 1;
                let end = marks.last().map_or(i64::MAX, |mark| mark.last + 1);
                let to = if goes_on || is_only { i64::MAX } else { end };
                known.lose(at, node, (lost.base, to), false);
                all.push((*place, lost.base));
            }
        }
        all
    }
}
