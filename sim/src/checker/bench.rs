//! A bench for checkers: hand-made histories, good and bad.

use std::collections::BTreeMap;

use seedlog_core::{
    event::Event,
    ids::{Epoch, NodeId, TopicName, TopicPartition},
    storage::{FileId, FileOp, FilePath, LogDirId, OpResult, WriteData},
};

use super::{Cause, Checker, Findings, Moment, NodeChange, Phase, Seen, Verdict};
use crate::{
    batch::{self, SeenRecord, ValueId},
    disk::{Disk, Loss, Survival},
    ghost::{self, Ghost, LogView, Promise},
    history::{Acked, Acks, Note, Outcome, Place, Places, Values, WriteId},
    node::{AssignmentProbe, PartitionProbe, Probe, QuorumProbe},
    random::Streams,
    time::SimTime,
};

/// One checker before one partition, on one node unless others are stepped to.
pub(super) struct Bench<C> {
    checker: C,
    ghost: Ghost,
    findings: Findings,
    /// The disk of the present node.
    pub(super) disk: Disk,
    node: usize,
    other_disks: BTreeMap<usize, Disk>,
    now: SimTime,
    pub(super) committed_metadata: i64,
}

impl<C: Checker> Bench<C> {
    pub(super) fn new(checker: C, durable: bool) -> Self {
        Self::of(checker, Promise::single(durable))
    }

    pub(super) fn of(checker: C, promise: Promise) -> Self {
        let nodes = (1..).map(NodeId).take(promise.copies).collect();
        let places = Places::new(vec![partition()]);
        Self {
            checker,
            ghost: Ghost::new(places, &[promise]).of_nodes(nodes),
            findings: Findings::default(),
            disk: Disk::new(1),
            node: 0,
            other_disks: BTreeMap::new(),
            now: SimTime::START,
            committed_metadata: 0,
        }
    }

    /// Goes to another node: what follows happens there.
    pub(super) fn on(&mut self, node: usize) {
        if node != self.node {
            let there = self.other_disks.remove(&node);
            let here = std::mem::replace(&mut self.disk, there.unwrap_or_else(|| Disk::new(1)));
            self.other_disks.insert(self.node, here);
            self.node = node;
        }
    }

    /// The batches that the disk holds.
    pub(super) fn view(&self) -> LogView {
        ghost::view(self.ghost.places(), &self.disk)
    }

    pub(super) fn phase(&mut self, phase: Phase) {
        self.see(&Seen::Phase(phase));
    }

    pub(super) fn note(&mut self, note: Note) {
        self.caused_note(note, None);
    }

    pub(super) fn caused_note(&mut self, note: Note, step: Option<u64>) {
        let (note, left) = (&note, self.now);
        let disk = self.disk.clone();
        let node = self.node;
        let cause = step.map(|step| Cause {
            node,
            left,
            step,
            disk: &disk,
        });
        self.see(&Seen::Note {
            client: 0,
            note,
            cause,
        });
    }

    /// A note that an answer caused which left the broker at some time before.
    pub(super) fn late_note(&mut self, note: &Note, left: SimTime) {
        let disk = self.disk.clone();
        let cause = Some(Cause {
            node: self.node,
            left,
            step: disk.step(),
            disk: &disk,
        });
        self.see(&Seen::Note {
            client: 0,
            note,
            cause,
        });
    }

    pub(super) const fn now(&self) -> SimTime {
        self.now
    }

    pub(super) fn event(&mut self, event: Event) {
        let (node, event) = (self.node, &event);
        self.see(&Seen::Event { node, event });
    }

    pub(super) fn node(&mut self, change: NodeChange<'_>) {
        let disk = self.disk.clone();
        let disk = &disk;
        let node = self.node;
        self.see(&Seen::Node { node, change, disk });
    }

    pub(super) fn probe(&mut self, probe: PartitionProbe) {
        self.show(&Probe {
            committed_metadata: self.committed_metadata,
            assigned: vec![AssignmentProbe {
                partition: probe.partition.clone(),
                partition_epoch: probe.partition_epoch,
                epoch: probe.leader_epoch,
                isr: probe.isr.clone(),
            }],
            partitions: vec![probe],
            ..Probe::default()
        });
    }

    pub(super) fn quorum(&mut self, quorum: QuorumProbe) {
        self.show(&Probe {
            committed_metadata: self.committed_metadata,
            quorum,
            ..Probe::default()
        });
    }

    /// A replica of the quorum in an epoch with a leader: its log is durable, and committed up to an offset.
    pub(super) fn quorum_of(&mut self, (epoch, leader): (i32, i32), end: i64, committed: i64) {
        self.committed_metadata = committed;
        self.quorum(QuorumProbe {
            epoch: Epoch(epoch),
            leader: Some(NodeId(leader)),
            log_end: end,
            flushed: end,
            ..QuorumProbe::default()
        });
    }

    fn show(&mut self, probe: &Probe) {
        let (node, disk) = (self.node, &self.disk.clone());
        self.see(&Seen::Probe { node, probe, disk });
    }

    /// The machine loses power: all that `before` has and the disk has not is lost.
    pub(super) fn lose_power(&mut self, before: &LogView) {
        let loss = Loss {
            files: 1,
            entries: 0,
        };
        self.node(NodeChange::LostPower { before, loss });
    }

    pub(super) fn judge(&mut self) {
        let mut verdict = Verdict::new("bench", moment(self.now), &mut self.findings);
        self.checker.judge(&self.ghost, &mut verdict);
    }

    pub(super) fn pass_millis(&mut self, millis: u64) {
        self.now = self.now.plus_millis(millis);
    }

    /// Whether nothing was found so far.
    pub(super) fn is_ok(&self) -> bool {
        self.findings.failed.is_empty()
    }

    /// Whether the checker found something that says `words`.
    pub(super) fn rejects(&self, words: &str) -> bool {
        let found = self.findings.failed.iter();
        found
            .into_iter()
            .any(|finding| finding.seen.contains(words))
    }

    pub(super) fn allowed(&self) -> u64 {
        self.findings.allowed.values().sum()
    }

    /// A write of some values is invoked and sent once.
    pub(super) fn write(&mut self, write: u64, acks: Acks, count: u32) {
        self.note(Note::Invoked {
            write: WriteId(write),
            place: Place(0),
            acks,
            values: Values {
                first: ValueId(write),
                count,
            },
            timestamp: 0,
        });
        self.note(Note::Transmitted {
            write: WriteId(write),
        });
    }

    /// A write is acknowledged.
    pub(super) fn ack(&mut self, write: u64, base: i64) {
        self.caused_ack(write, base, None);
    }

    pub(super) fn caused_ack(&mut self, write: u64, base: i64, step: Option<u64>) {
        let write = WriteId(write);
        let outcome = Outcome::Ok(Acked {
            base,
            append_time: -1,
            log_start: 0,
        });
        self.caused_note(Note::Answered { write, outcome }, step);
    }

    /// A read from an offset finds values.
    pub(super) fn read(&mut self, from: i64, values: &[u64]) {
        let high_watermark = from + i64::try_from(values.len()).unwrap();
        self.note(Note::Polled {
            place: Place(0),
            from,
            records: records(from, values),
            high_watermark,
            log_start: 0,
            asked: self.now.as_nanos(),
        });
    }

    /// The drain reads values from offset 0.
    pub(super) fn drain(&mut self, values: &[u64]) {
        self.phase(Phase::Drain);
        self.read(0, values);
        self.note(Note::Drained {
            place: Place(0),
            start: 0,
            end: i64::try_from(values.len()).unwrap(),
        });
        self.judge();
    }

    fn see(&mut self, seen: &Seen<'_>) {
        self.now = self.now.plus_millis(1);
        self.ghost.see(self.now, seen);
        let mut verdict = Verdict::new("bench", moment(self.now), &mut self.findings);
        self.checker.see(&self.ghost, seen, &mut verdict);
    }
}

pub(super) fn records(from: i64, values: &[u64]) -> Vec<SeenRecord> {
    let numbered = (from..).zip(values);
    numbered
        .map(|(offset, value)| SeenRecord {
            offset,
            value: Some(ValueId(*value)),
            timestamp: 0,
            leader_epoch: 0,
        })
        .collect()
}

/// Three copies, of which two have what is committed.
pub(super) const REPLICATED: Promise = Promise {
    durable: false,
    copies: 3,
    min_isr: 2,
    unclean: false,
};

/// A sound partition of ten records.
pub(super) fn sound() -> PartitionProbe {
    PartitionProbe {
        partition: partition(),
        place: Some(Place(0)),
        start: 0,
        end: 10,
        written: 10,
        flushed: 10,
        high_watermark: 10,
        leader_epoch: Epoch(0),
        leads: true,
        leader: Some(NodeId(1)),
        partition_epoch: 0,
        isr: vec![NodeId(1)],
        epochs: vec![(Epoch(0), 0)],
        offline: false,
        durable: true,
    }
}

pub(super) fn partition() -> TopicPartition {
    TopicPartition {
        topic: TopicName::new("t"),
        partition: 0,
    }
}

const fn moment(at: SimTime) -> Moment {
    Moment { at, step: 0 }
}

/// Appends batches, each from its first offset up to its end, to the log of the partition.
pub(super) fn log(disk: &mut Disk, batches: &[(i64, i64)]) {
    let of_epoch_0: Vec<(i64, i64, i32)> =
        batches.iter().map(|(base, end)| (*base, *end, 0)).collect();
    log_of_epochs(disk, &of_epoch_0);
}

/// Appends batches with leader epochs.
pub(super) fn log_of_epochs(disk: &mut Disk, batches: &[(i64, i64, i32)]) {
    append(disk, "t-0", batches);
}

/// Appends batches with leader epochs to the metadata log, durably.
pub(super) fn metadata(disk: &mut Disk, batches: &[(i64, i64, i32)]) {
    append(disk, "__cluster_metadata-0", batches);
    let mut stream = Streams::new(1).stream("loss");
    disk.lose_power(Survival::Everything, &mut stream);
}

fn append(disk: &mut Disk, folder: &str, batches: &[(i64, i64, i32)]) {
    let folder = FilePath::root(LogDirId(0)).join(folder);
    let path = folder.join("00000000000000000000.log");
    let file = FileId(1);
    let open = FileOp::Open {
        file,
        path,
        create: true,
    };
    disk.apply(&FileOp::CreateDir { dir: folder }).unwrap();
    let OpResult::Opened { len: mut at } = disk.apply(&open).unwrap() else {
        panic!("open answers with a length");
    };
    for (base, end, epoch) in batches {
        let values: Vec<ValueId> = (*base..*end)
            .map(|offset| ValueId(u64::try_from(offset).unwrap()))
            .collect();
        let mut bytes = batch::encode(&values, 8, 0).to_vec();
        bytes[..8].copy_from_slice(&base.to_be_bytes());
        bytes[12..16].copy_from_slice(&epoch.to_be_bytes());
        let len = u64::try_from(bytes.len()).unwrap();
        let data = WriteData::from_body(bytes.into());
        disk.apply(&FileOp::Write { file, at, data }).unwrap();
        at += len;
    }
}
