//! What checkers know: the history in tables, and the truth about disks, kept outside the system under test.

use std::collections::{BTreeMap, BTreeSet};

use seedlog_core::{
    event::{Event, StartReason},
    ids::{Epoch, NodeId, TopicPartition},
};

use crate::{
    batch::{SeenRecord, ValueId},
    checker::{Phase, Seen},
    disk::{BatchMark, Disk},
    history::{Acked, Acks, Note, Outcome, Place, Places, Values, WriteId},
    node::Probe,
    time::SimTime,
};

mod asking;
mod batches;
mod changes;
mod copies;
mod eligible;
mod excuse;
mod known;
mod promise;

pub use copies::{Committed, Copy, InSync, safe_end};
pub use eligible::Ruling;
pub use excuse::Excuse;
pub use promise::Promise;

use eligible::InSyncSet;
use known::Known;

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

    /// Returns whether the leader that was elected in an epoch, though it may miss records, might be.
    #[must_use]
    pub fn unclean_election(&self, place: Place, epoch: Epoch) -> Option<&Ruling> {
        self.known[place.0].unclean.get(&epoch)
    }

    /// Somebody has heard of an in-sync set, of a partition epoch and a leader epoch.
    fn see_in_sync(
        &mut self,
        partition: &TopicPartition,
        (partition_epoch, epoch): (i32, Epoch),
        isr: &[NodeId],
    ) {
        let Some(place) = self.places.place(partition) else {
            return;
        };
        let known = &mut self.known[place.0];
        if known.eligible.is_news(partition_epoch) {
            let places = isr
                .iter()
                .filter_map(|id| self.nodes.iter().position(|node| node == id));
            let set = InSyncSet {
                partition_epoch,
                epoch,
                members: places.collect(),
            };
            known.eligible.see_in_sync(set, known.promise.min_isr);
        }
    }

    fn probe(&mut self, at: SimTime, node: usize, probe: &Probe, disk: &Disk) {
        for assigned in &probe.assigned {
            let epochs = (assigned.partition_epoch, assigned.epoch);
            self.see_in_sync(&assigned.partition, epochs, &assigned.isr);
        }
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
            Event::LeaderElectedUncleanly {
                partition,
                leader,
                epoch,
            } => {
                if let Some(place) = self.places.place(partition) {
                    let leader = self.node(*leader);
                    self.known[place.0].elect_uncleanly(at, leader, *epoch);
                }
            }
            Event::PartitionChanged {
                partition,
                partition_epoch,
                epoch,
                isr,
                ..
            } => self.see_in_sync(partition, (*partition_epoch, *epoch), isr),
            Event::LogOpened { partition, end, .. } => {
                if let Some(place) = self.places.place(partition) {
                    let known = &mut self.known[place.0];
                    known.eligible.open(node);
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
}
