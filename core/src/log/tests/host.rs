//! A host for one log: performs its operations, in any order the contract allows, and remembers what it said.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;

use crate::{
    batch::{BatchBuilder, Compression, CompressionType, NewRecord},
    ids::{Epoch, Offset, TopicName, TopicPartition, Uuid},
    log::{
        AppendBatch, AppendError, Appended, FetchSlice, FlushMark, FlushSet, FoundOffset, Log,
        LogConfig, LogContext, LogEvent, LookupOutcome, LookupTarget, OpenHint, ReadError, ReadId,
        ReadOutcome, ReadRequest,
    },
    planted::PlantedSet,
    storage::{
        Completion, FaultKind, FileOp, FilePath, LogDirId, Owner, Part, StorageFault, StorageOp,
        StorageQueue,
    },
    time::{Instant, Now, Timestamp},
};

use super::disk::{Disk, Draw, Keep};

pub(super) const TOPIC_ID: Uuid = Uuid([7; 16]);

/// Which operation fails, and how.
pub(super) type FailRule = fn(&FileOp) -> bool;

pub(super) struct Host {
    pub(super) log: Log,
    pub(super) disk: Disk,
    pub(super) queue: StorageQueue,
    pub(super) events: Vec<LogEvent>,
    pub(super) now: Now,
    pub(super) planted: PlantedSet,
    /// Operations submitted and not performed, with the tick of their submission.
    waiting: Vec<(u64, StorageOp)>,
    mark: Option<(FlushMark, u64)>,
    /// Draws the order of operations; in order without it.
    pub(super) order: Option<Draw>,
    /// How many operations may still be performed.
    pub(super) budget: u64,
    pub(super) performed: u64,
    pub(super) reads: u64,
    pub(super) read_bytes: u64,
    pub(super) fail: Option<(FailRule, FaultKind)>,
    next_id: u64,
}

pub(super) fn partition() -> TopicPartition {
    TopicPartition {
        topic: TopicName::new("orders"),
        partition: 0,
    }
}

pub(super) fn dir() -> FilePath {
    FilePath::root(LogDirId(0)).join("orders-0")
}

pub(super) fn small_config() -> LogConfig {
    LogConfig {
        segment_bytes: 700,
        index_interval_bytes: 100,
        ..LogConfig::default()
    }
}

pub(super) fn fresh() -> OpenHint {
    OpenHint {
        fresh: Some(TOPIC_ID),
        ..OpenHint::default()
    }
}

/// Makes a batch of records with these timestamps; the values are drawn from `seed`.
pub(super) fn batch_of(timestamps: &[i64], seed: i64, codec: CompressionType) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::of(codec));
    for (at, timestamp) in timestamps.iter().enumerate() {
        let value = format!("value {seed} {at}");
        builder
            .append(&NewRecord {
                timestamp: *timestamp,
                key: None,
                value: Some(value.as_bytes()),
                headers: &[],
            })
            .unwrap();
    }
    builder.build().unwrap()
}

pub(super) fn batch(seed: i64) -> Bytes {
    batch_of(&[1000 + seed, 1001 + seed], seed, CompressionType::None)
}

impl Host {
    pub(super) fn new(config: LogConfig, hint: OpenHint) -> Self {
        Self::on(Disk::new(), config, hint)
    }

    pub(super) fn on(disk: Disk, config: LogConfig, hint: OpenHint) -> Self {
        Self {
            log: Log::new(partition(), dir(), Owner(1), Arc::new(config), hint),
            disk,
            queue: StorageQueue::default(),
            events: Vec::new(),
            now: Now {
                instant: Instant::ORIGIN,
                wall: Timestamp::from_millis(1_000_000),
            },
            planted: PlantedSet::NONE,
            waiting: Vec::new(),
            mark: None,
            order: None,
            budget: u64::MAX,
            performed: 0,
            reads: 0,
            read_bytes: 0,
            fail: None,
            next_id: 0,
        }
    }

    /// Opens a log on this disk and runs to the end of it.
    pub(super) fn opened(disk: Disk, config: LogConfig, hint: OpenHint) -> Self {
        let mut host = Self::on(disk, config, hint);
        host.open();
        host.run();
        host
    }

    pub(super) fn with<T>(&mut self, call: impl FnOnce(&mut Log, &mut LogContext<'_>) -> T) -> T {
        let mut cx = LogContext {
            now: self.now,
            storage: &mut self.queue,
            events: &mut self.events,
            planted: self.planted,
        };
        let result = call(&mut self.log, &mut cx);
        let tick = self.disk.tick;
        while let Some(op) = self.queue.pop() {
            self.waiting.push((tick, op));
        }
        result
    }

    pub(super) fn open(&mut self) {
        self.with(|log, cx| log.open(cx));
    }

    /// Performs operations until none is left or the budget is used up; false in the second case.
    pub(super) fn run(&mut self) -> bool {
        while !self.waiting.is_empty() {
            if self.budget == 0 {
                return false;
            }
            self.step();
        }
        true
    }

    /// Performs one operation: with an order, any whose file has no older one waiting.
    pub(super) fn step(&mut self) {
        let at = self.pick();
        let (submitted, op) = self.waiting.remove(at);
        self.budget -= 1;
        self.performed += 1;
        if let FileOp::Read { len, .. } = op.op {
            self.reads += 1;
            self.read_bytes += u64::from(len);
        }
        let result = match self.fail {
            Some((rule, kind)) if rule(&op.op) => Err(StorageFault::new(kind)),
            _ => self.disk.perform(&op.op, submitted),
        };
        if let Some((mark, seq)) = self.mark
            && seq == op.id.seq
        {
            self.mark = None;
            match result {
                Ok(_) => self.with(|log, cx| log.flush_done(cx, mark)),
                Err(fault) => self.with(|log, cx| log.fail(cx, fault)),
            }
            return;
        }
        let completion = Completion { id: op.id, result };
        self.with(|log, cx| log.on_completion(cx, completion));
    }

    fn pick(&mut self) -> usize {
        let Some(order) = &mut self.order else {
            return 0;
        };
        let choices: Vec<usize> = (0..self.waiting.len())
            .filter(|at| {
                let file = self.waiting[*at].1.op.file();
                file.is_none()
                    || self.waiting[..*at]
                        .iter()
                        .all(|(_, older)| older.op.file() != file)
            })
            .collect();
        let max = u64::try_from(choices.len()).unwrap();
        choices[usize::try_from(order.below(max)).unwrap()]
    }

    pub(super) fn append(&mut self, bytes: &Bytes) -> Result<Appended, AppendError> {
        let batch = AppendBatch::split(bytes).unwrap();
        self.with(|log, cx| log.append(cx, batch, Epoch(1)))
    }

    /// Submits a flush, if one is needed and none is in flight.
    pub(super) fn flush(&mut self) {
        if self.mark.is_some() {
            return;
        }
        let mut set = FlushSet::default();
        let Some(mark) = self.log.flush_set(&mut set) else {
            return;
        };
        let id = self.queue.submit(Owner(99), set.into_op());
        self.mark = Some((mark, id.seq));
        self.with(|_, _| {});
    }

    /// Flushes until nothing is left to flush; false when the budget is used up.
    pub(super) fn flush_all(&mut self) -> bool {
        for _ in 0..1000 {
            if !self.run() {
                return false;
            }
            if !self.log.needs_flush() || !self.log.is_open() {
                return true;
            }
            self.flush();
        }
        panic!("flushing does not end");
    }

    pub(super) fn read(&mut self, request: ReadRequest) -> Result<FetchSlice, ReadError> {
        match self.with(|log, cx| log.read(cx, request)) {
            ReadOutcome::Ready(slice) => Ok(slice),
            ReadOutcome::Failed(error) => Err(error),
            ReadOutcome::Pending => {
                assert!(self.run());
                let done = self.events.iter().rev().find_map(|event| match event {
                    LogEvent::ReadDone { id, result } if *id == request.id => Some(result.clone()),
                    _ => None,
                });
                done.expect("a pending read ends")
            }
        }
    }

    pub(super) fn request(&mut self, offset: Offset) -> ReadRequest {
        self.next_id += 1;
        ReadRequest {
            offset,
            max_bytes: 1 << 20,
            min_one_batch: true,
            limit: Offset::MAX,
            settled: Offset::MAX,
            id: ReadId(self.next_id),
        }
    }

    pub(super) fn bytes(&self, slice: &FetchSlice) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in &slice.parts {
            match part {
                Part::Bytes(part) => bytes.extend_from_slice(part),
                Part::File(range) => {
                    bytes.extend(self.disk.range(range.file, range.at, range.len));
                }
            }
        }
        assert_eq!(bytes.len(), slice.size);
        bytes
    }

    /// Reads everything from the start to the end.
    pub(super) fn read_all(&mut self) -> Result<Vec<u8>, ReadError> {
        let mut all = Vec::new();
        let mut offset = self.log.start();
        while offset < self.log.end() {
            let request = self.request(offset);
            let slice = self.read(request)?;
            assert!(
                slice.next_offset > offset,
                "a reader must get on at {offset}"
            );
            all.extend(self.bytes(&slice));
            offset = slice.next_offset;
        }
        Ok(all)
    }

    pub(super) fn lookup(
        &mut self,
        target: LookupTarget,
    ) -> Result<Option<FoundOffset>, ReadError> {
        self.next_id += 1;
        let id = ReadId(self.next_id);
        match self.with(|log, cx| log.lookup_time(cx, id, target)) {
            LookupOutcome::Ready(found) => Ok(found),
            LookupOutcome::Failed(error) => Err(error),
            LookupOutcome::Pending => {
                assert!(self.run());
                let done = self.events.iter().rev().find_map(|event| match event {
                    LogEvent::LookupDone { id: done, result } if *done == id => Some(*result),
                    _ => None,
                });
                done.expect("a pending look-up ends")
            }
        }
    }

    /// Closes in good order and hands the disk over, with the hint of a clean shutdown.
    pub(super) fn stop(mut self) -> (Disk, OpenHint) {
        self.with(|log, cx| log.close(cx));
        assert!(self.flush_all());
        assert!(self.events.contains(&LogEvent::Closed), "a close ends");
        let hint = OpenHint {
            log_start: self.log.start(),
            recovery_point: self.log.recovery_point(),
            synced: self.log.flushed_end(),
            clean: true,
            fresh: None,
        };
        assert_eq!(hint.recovery_point, self.log.end());
        let mut disk = self.disk;
        disk.crash(Keep::All);
        (disk, hint)
    }

    pub(super) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.disk.files(&dir())
    }
}
