//! What checkers know: the history in tables, and the truth about disks, kept outside the system under test.

use std::collections::{BTreeMap, BTreeSet};

use seedlog_core::event::{Event, StartReason};

use crate::{
    batch::{SeenRecord, ValueId},
    checker::{NodeChange, Phase, Seen},
    disk::{BatchMark, Disk},
    history::{Acked, Acks, Note, Outcome, Place, Places, Values, WriteId},
    marks,
    time::SimTime,
};

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
}

/// What is known of one partition.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Whether a copy counts only when flushed.
    durable: bool,
    /// Lowest offset that a power loss took from the unsynced end, and when.
    lost: Vec<(SimTime, i64)>,
    /// First offset, moved by rule.
    start: i64,
    damaged: bool,
    /// Bytes went bad since the log last opened.
    is_unseen: bool,
    /// The synced mark that the next opening of a log with such bytes finds.
    mark: Option<i64>,
    /// When the log opened with such bytes, and from where on damage could pass for a torn tail then.
    past_mark: Vec<(SimTime, i64)>,
    /// The same of the last opening, if there were such bytes.
    opened_past: Option<i64>,
    offline: bool,
    read: BTreeMap<i64, SeenRecord>,
    drained: Option<(i64, i64)>,
    unreadable: Option<i16>,
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
    /// What failed syncs took from the page cache under a process that still runs: each place and the lowest offset.
    taken: BTreeMap<usize, Vec<(Place, i64)>>,
}

impl Ghost {
    /// Knows the partitions of a scenario, and for each whether a copy counts only when flushed.
    #[must_use]
    pub fn new(places: Places, durable: &[bool]) -> Self {
        let known = durable.iter().map(|durable| Known {
            durable: *durable,
            ..Known::default()
        });
        Self {
            known: known.collect(),
            places,
            writes: BTreeMap::new(),
            by_value: BTreeMap::new(),
            phase: Phase::SetUp,
            phase_since: SimTime::START,
            beyond: BTreeSet::new(),
            taken: BTreeMap::new(),
        }
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
                self.note(at, left, note);
            }
            Seen::Event { event, .. } => self.event(at, event),
            Seen::Node { node, change, disk } => self.node(at, *node, change, disk),
            Seen::Probe { .. } => {}
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
        self.known[place.0].durable
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

    /// Returns whether bytes of a partition went bad at rest.
    #[must_use]
    pub fn is_damaged(&self, place: Place) -> bool {
        self.known[place.0].damaged
    }

    /// Returns whether the broker reported the partition as offline.
    #[must_use]
    pub fn is_offline(&self, place: Place) -> bool {
        self.known[place.0].offline
    }

    /// Returns whether a node's disk broke every promise.
    #[must_use]
    pub fn is_beyond(&self, node: usize) -> bool {
        self.beyond.contains(&node)
    }

    /// Returns whether any node's disk broke every promise.
    #[must_use]
    pub fn is_beyond_any(&self) -> bool {
        !self.beyond.is_empty()
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
        let lost = self.known[place.0].lost.iter();
        lost.filter(|(at, _)| *at >= since)
            .map(|(_, from)| *from)
            .min()
    }

    /// Returns from where on the last opening of a log could take damage for a torn tail, if bytes had gone bad: past the
    /// marks as they stood on the disk.
    #[must_use]
    pub fn opened_past(&self, place: Place) -> Option<i64> {
        self.known[place.0].opened_past
    }

    /// Returns why the record at an offset may be missing though it was acknowledged at `acked`.
    #[must_use]
    pub fn excuse(&self, place: Place, offset: i64, acked: SimTime) -> Option<Excuse> {
        let known = &self.known[place.0];
        if !self.beyond.is_empty() {
            return Some(Excuse::Beyond);
        }
        if offset < known.start {
            return Some(Excuse::Trimmed);
        }
        if known.damaged && known.offline {
            return Some(Excuse::Damaged);
        }
        let mut past_mark = known.past_mark.iter();
        if past_mark.any(|(at, from)| acked <= *at && *from <= offset) {
            return Some(Excuse::PastMark);
        }
        let lost = self
            .lost_since(place, acked)
            .is_some_and(|from| from <= offset);
        (lost && !known.durable).then_some(Excuse::Unsynced)
    }

    fn note(&mut self, at: SimTime, left: SimTime, note: &Note) {
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
                        write.acked = Some((*acked, left));
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

    fn event(&mut self, at: SimTime, event: &Event) {
        match event {
            Event::PartitionOffline { partition, .. } => {
                if let Some(place) = self.places.place(partition) {
                    self.known[place.0].offline = true;
                }
            }
            Event::LogOpened { partition, end, .. } => {
                if let Some(place) = self.places.place(partition) {
                    let known = &mut self.known[place.0];
                    known.offline = false;
                    known.is_unseen = false;
                    known.opened_past = known.mark.take().map(|mark| mark.max(*end));
                    known
                        .past_mark
                        .extend(known.opened_past.map(|from| (at, from)));
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

    fn node(&mut self, at: SimTime, node: usize, change: &NodeChange<'_>, disk: &Disk) {
        match change {
            NodeChange::LostPower { before, .. } => {
                self.lose(at, before, disk);
                self.taken.remove(&node);
            }
            NodeChange::LostDirty { before } => {
                let lost = self.lose(at, before, disk);
                self.taken.entry(node).or_default().extend(lost);
            }
            NodeChange::Damaged(done) => {
                let folder = done.path.split('/').next().unwrap_or_default();
                for place in self.places.all() {
                    if self.places.partition(place).to_string() == folder {
                        let hit = done.path.ends_with(".log");
                        self.known[place.0].damaged |= hit;
                        self.known[place.0].is_unseen |= hit;
                    }
                }
            }
            NodeChange::Wiped | NodeChange::Lied => {
                self.beyond.insert(node);
            }
            NodeChange::Started => {
                for place in self.places.all() {
                    let known = &mut self.known[place.0];
                    if known.is_unseen {
                        known.mark = Some(marks::synced(disk, self.places.partition(place)));
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
                    self.known[place.0].lost.push((at, from));
                }
            }
            NodeChange::Ready | NodeChange::StopAsked => {}
        }
    }

    /// Notes what is gone from the disk that was there before; returns each place and its lowest lost offset.
    fn lose(&mut self, at: SimTime, before: &LogView, disk: &Disk) -> Vec<(Place, i64)> {
        let after = view(&self.places, disk);
        let mut all = Vec::new();
        for (place, marks) in before {
            let left = after.get(place).map_or(&[][..], Vec::as_slice);
            let left: BTreeSet<u64> = left.iter().map(|mark| mark.digest).collect();
            let lost = marks.iter().find(|mark| !left.contains(&mark.digest));
            if let Some(lost) = lost {
                self.known[place.0].lost.push((at, lost.base));
                all.push((*place, lost.base));
            }
        }
        all
    }
}
