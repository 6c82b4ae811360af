//! Many incarnations of one log under drawn work, faults and crashes, against a model that knows what must be there.

use std::collections::BTreeSet;

use crate::{
    batch::CompressionType,
    event::StartReason,
    ids::{Epoch, Offset},
    log::scan::BatchFacts,
    log::{AppendBatch, AppendError, LogConfig, LogEvent, LookupTarget, OpenHint, ReadRequest},
    storage::{FaultKind, FileOp},
    time::Timestamp,
};

use super::{
    disk::{Disk, Draw, Keep},
    host::{Host, TOPIC_ID, batch_of, fresh},
    layout::check_layout,
};

/// What must be there.
#[derive(Clone, Debug, Default)]
struct Model {
    /// Stored bytes of each batch, by base offset, with the offset after it.
    batches: Vec<(Offset, Offset, Vec<u8>)>,
    /// Every batch that was ever appended: what was not synced may come back after a crash in another mixture.
    ever: BTreeSet<Vec<u8>>,
    start: Offset,
    flushed: Offset,
    checkpoint: Offset,
    epoch: i32,
}

impl Model {
    fn truncate(&mut self, end: Offset) {
        self.batches.retain(|(_, next, _)| *next <= end);
        self.flushed = self.flushed.min(end);
        self.checkpoint = self.checkpoint.min(end);
    }

    fn bytes(&self, start: Offset, end: Offset) -> Vec<u8> {
        self.batches
            .iter()
            .filter(|(_, next, _)| *next > start && *next <= end)
            .flat_map(|(.., bytes)| bytes.clone())
            .collect()
    }
}

fn is_growth(op: &FileOp) -> bool {
    matches!(op, FileOp::Write { .. } | FileOp::Open { create: true, .. })
}

struct Storm {
    draw: Draw,
    host: Host,
    model: Model,
    config: LogConfig,
    what: String,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let mut draw = Draw(seed * 2_654_435_761 + 1);
        let config = LogConfig {
            segment_bytes: [300, 700, 2000][usize::try_from(draw.below(3)).unwrap()],
            index_interval_bytes: [1, 100, 500][usize::try_from(draw.below(3)).unwrap()],
            segment_index_bytes: [24, 1 << 20][usize::try_from(draw.below(2)).unwrap()],
            file_delete_delay_ms: 10,
            ..LogConfig::default()
        };
        let mut host = Host::opened(Disk::new(), config.clone(), fresh());
        host.order = Some(Draw(draw.next() | 1));
        Self {
            host,
            model: Model {
                epoch: 1,
                ..Model::default()
            },
            config,
            draw,
            what: format!("seed {seed}"),
        }
    }

    /// Takes over what the log said since the last time.
    fn settle(&mut self) {
        for event in std::mem::take(&mut self.host.events) {
            match event {
                LogEvent::AppendFailed { from, .. } => self.model.truncate(from),
                LogEvent::Offline { file, at, reason } => {
                    panic!("{}: offline at {file} {at:?}: {reason}", self.what)
                }
                LogEvent::StartMoved { start, .. } => self.model.start = start,
                _ => {}
            }
        }
        let end = self
            .model
            .batches
            .last()
            .map_or(self.model.start, |last| last.1);
        if self.host.log.is_open() {
            self.model.flushed = self.model.flushed.max(self.host.log.flushed_end());
            assert_eq!(
                self.host.log.end(),
                end.max(self.host.log.start()),
                "{}",
                self.what
            );
            let log = &self.host.log;
            assert!(log.flushed_end() <= log.written_end() && log.written_end() <= log.end());
            assert!(log.recovery_point() <= log.flushed_end(), "{}", self.what);
        }
    }

    fn append(&mut self) {
        let at = self.draw.next() & 0xffff;
        let timestamps: Vec<i64> = (0..=self.draw.below(3))
            .map(|_| i64::try_from(self.draw.below(400)).unwrap())
            .collect();
        let bytes = batch_of(
            &timestamps,
            i64::try_from(at).unwrap(),
            CompressionType::None,
        );
        let batch = AppendBatch::split(&bytes).unwrap();
        let epoch = Epoch(self.model.epoch);
        match self.host.with(|log, cx| log.append(cx, batch, epoch)) {
            Ok(appended) => {
                let mut stored = bytes.to_vec();
                stored[..8].copy_from_slice(&appended.base_offset.to_be_bytes());
                stored[12..16].copy_from_slice(&epoch.0.to_be_bytes());
                let next = appended.last_offset + 1;
                self.model.ever.insert(stored.clone());
                self.model
                    .batches
                    .push((appended.base_offset, next, stored));
            }
            Err(error) => assert_eq!(error, AppendError::NotOpen, "{}", self.what),
        }
    }

    fn some_steps(&mut self) {
        self.host.budget = self.draw.below(12);
        self.host.run();
        self.host.budget = u64::MAX;
        self.settle();
    }

    fn run(&mut self) {
        self.host.run();
        self.settle();
    }

    fn read(&mut self) {
        self.run();
        let (start, end) = (self.host.log.start(), self.host.log.written_end());
        if start >= end {
            return;
        }
        let span = u64::try_from(end - start).unwrap();
        let offset = start + i64::try_from(self.draw.below(span)).unwrap();
        let request = ReadRequest {
            max_bytes: u32::try_from(self.draw.below(900)).unwrap(),
            ..self.host.request(offset)
        };
        let slice = self.host.read(request).unwrap();
        let bytes = self.host.bytes(&slice);
        assert!(slice.base_offset <= offset && slice.next_offset > offset);
        let expected = self.model.bytes(slice.base_offset, slice.next_offset);
        assert_eq!(bytes, expected, "{}", self.what);
        let time = i64::try_from(self.draw.below(400)).unwrap();
        let found = self.host.lookup(LookupTarget::Timestamp(time)).unwrap();
        assert!(found.is_none_or(|found| found.timestamp >= time && found.offset >= start));
        self.settle();
    }

    fn truncate(&mut self) {
        self.run();
        let (start, end) = (self.host.log.start(), self.host.log.end());
        if !self.host.log.is_open() || start >= end {
            return;
        }
        let bases: Vec<Offset> = self.model.batches.iter().map(|batch| batch.0).collect();
        let max = u64::try_from(bases.len()).unwrap();
        let offset = bases[usize::try_from(self.draw.below(max)).unwrap()];
        if offset < start {
            return;
        }
        // The host lowers its checkpoint durably first.
        self.model.checkpoint = self.model.checkpoint.min(offset);
        self.host.with(|log, cx| log.truncate_to(cx, offset));
        self.model.truncate(offset);
        self.some_steps();
        if self.draw.below(2) == 0 {
            self.run();
        }
    }

    fn full_disk(&mut self) {
        self.host.fail = Some((is_growth, FaultKind::NoSpace));
        for _ in 0..self.draw.below(4) {
            self.append();
        }
        self.some_steps();
        self.run();
        self.host.fail = None;
        self.run();
    }

    fn checkpoint(&mut self) {
        self.host.with(|log, cx| log.write_indexes(cx));
        self.some_steps();
        self.host.flush();
        self.some_steps();
        if self.host.log.is_open() {
            self.model.checkpoint = self.model.checkpoint.max(self.host.log.recovery_point());
        }
    }

    fn act(&mut self) {
        match self.draw.below(24) {
            0..=8 => self.append(),
            9..=11 => self.some_steps(),
            12..=14 => self.host.flush(),
            15 => self.checkpoint(),
            16 => self.read(),
            17 => self.full_disk(),
            18 => {
                self.run();
                let to = self.host.log.start() + i64::try_from(self.draw.below(8)).unwrap();
                let to = to.min(self.host.log.flushed_end());
                self.host
                    .with(|log, cx| log.delete_before(cx, to, StartReason::DeleteRecords));
                self.settle();
            }
            19 => {
                self.model.epoch += 1;
                let epoch = Epoch(self.model.epoch);
                self.host.with(|log, cx| log.assign_epoch(cx, epoch));
            }
            20 => self.truncate(),
            21 => {
                self.host.now.instant = self.host.now.instant.plus_millis(6);
                self.host.with(|log, cx| log.on_timeout(cx));
            }
            22 if self.draw.below(3) == 0 => self.reopen_cleanly(),
            _ => self.crash(),
        }
        self.settle();
    }

    fn reopen_cleanly(&mut self) {
        self.run();
        if !self.host.log.is_open() {
            return;
        }
        let host = std::mem::replace(&mut self.host, Host::new(self.config.clone(), fresh()));
        let (disk, hint) = host.stop();
        self.model.checkpoint = hint.recovery_point;
        self.model.flushed = hint.recovery_point;
        self.reopen(disk, hint);
    }

    fn crash(&mut self) {
        if self.draw.below(3) > 0 {
            return;
        }
        self.settle();
        let keep = match self.draw.below(4) {
            0 => Keep::All,
            1 => Keep::None,
            _ => Keep::Some(self.draw.next()),
        };
        let mut disk = self.host.disk.clone();
        disk.crash(keep);
        let hint = OpenHint {
            log_start: self.model.start,
            recovery_point: self.model.checkpoint,
            synced: self.model.flushed,
            clean: false,
            fresh: Some(TOPIC_ID),
        };
        self.reopen(disk, hint);
    }

    /// What was flushed must be there byte for byte; behind it only what was once appended, and it is what counts now.
    fn compare(&mut self, end: Offset) {
        let all = self.host.read_all().unwrap();
        let mut found = Vec::new();
        let mut at = 0;
        while at < all.len() {
            let facts = BatchFacts::read(&all[at..]).unwrap();
            let size = usize::try_from(facts.size).unwrap();
            let bytes = all[at..at + size].to_vec();
            let is_known = self.model.ever.contains(&bytes);
            assert!(is_known, "{}: {facts:?} is invented", self.what);
            found.push((facts.base, facts.next(), bytes));
            at += size;
        }
        let start = self.host.log.start();
        let certain = |batches: &[(Offset, Offset, Vec<u8>)], flushed: Offset| {
            batches
                .iter()
                .filter(|(_, next, _)| *next > start && *next <= flushed)
                .cloned()
                .collect::<Vec<_>>()
        };
        let flushed = self.model.flushed;
        assert_eq!(
            certain(&found, flushed),
            certain(&self.model.batches, flushed),
            "{}",
            self.what
        );
        self.model.batches = found;
        self.model.truncate(end);
    }

    fn reopen(&mut self, disk: Disk, hint: OpenHint) {
        self.host = Host::on(disk, self.config.clone(), hint);
        self.host.now.wall = Timestamp::from_millis(1000);
        self.host.order = Some(Draw(self.draw.next() | 1));
        self.host.open();
        self.host.run();
        assert!(
            self.host.log.is_open(),
            "{} {hint:?}: {:?}",
            self.what,
            self.host.events
        );
        let end = self.host.log.end();
        assert!(
            end >= self.model.flushed,
            "{}: lost {end} of {:?}",
            self.what,
            self.model.flushed
        );
        self.compare(end);
        self.settle();
    }
}

#[test]
fn log_keeps_its_promises_through_any_weather() {
    for seed in 1..=150 {
        let mut storm = Storm::new(seed);
        for at in 0..160 {
            storm.what = format!("seed {seed} act {at}");
            storm.act();
        }
        storm.run();
        storm.host.flush_all();
        storm.settle();
        check_layout(&storm.host, &storm.what);
        let end = storm.host.log.end();
        let all = storm.host.read_all().unwrap();
        assert_eq!(all, storm.model.bytes(storm.host.log.start(), end));
    }
}
