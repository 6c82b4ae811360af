//! What a log costs when it is large: on a disk that holds gigabytes because it makes them up when they are read.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;

use crate::{
    batch::{BatchBuilder, Compression, NewRecord},
    ids::Offset,
    log::{
        FetchSlice, Log, LogConfig, LogContext, LogEvent, OpenHint, ReadId, ReadOutcome,
        ReadRequest,
    },
    planted::PlantedSet,
    storage::{
        Completion, DirEntry, EntryKind, FaultKind, FileId, FileOp, OpResult, Owner, Part,
        StorageFault, StorageQueue,
    },
    time::{Instant, Now, Timestamp},
};

use super::host::{dir, partition};

const BATCH_BYTES: u64 = 16 << 10;
const SEGMENT_BYTES: u64 = 8 << 20;
const BATCHES_PER_SEGMENT: u64 = SEGMENT_BYTES / BATCH_BYTES;
const TIMESTAMP: i64 = 1_700_000_000_000;

/// A folder of sealed segments and a last one that is partly full. Each batch holds one record.
struct Vast {
    batches: u64,
    template: Vec<u8>,
    open: BTreeMap<FileId, String>,
    reads: u64,
    bytes: u64,
}

/// What something cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    reads: u64,
    bytes: u64,
}

impl Vast {
    fn new(batches: u64) -> Self {
        let (open, reads, bytes) = (BTreeMap::new(), 0, 0);
        let template = template();
        Self {
            batches,
            template,
            open,
            reads,
            bytes,
        }
    }

    fn names(&self) -> Vec<(String, u64)> {
        let mut names = vec![
            ("leader-epoch-checkpoint".to_owned(), 8),
            ("partition.metadata".to_owned(), 43),
        ];
        for segment in 0..self.batches.div_ceil(BATCHES_PER_SEGMENT) {
            let base = segment * BATCHES_PER_SEGMENT;
            let held = (self.batches - base).min(BATCHES_PER_SEGMENT);
            names.push((format!("{base:020}.log"), held * BATCH_BYTES));
            names.push((format!("{base:020}.index"), (held - 1) * 8));
            names.push((format!("{base:020}.timeindex"), 12));
        }
        names
    }

    fn content(&self, name: &str, at: u64, len: u64) -> Vec<u8> {
        let Some((digits, kind)) = name.split_once('.') else {
            return b"0\n1\n1 0\n".to_vec();
        };
        let Ok(base) = digits.parse::<u64>() else {
            return b"version: 0\ntopic_id: BwcHBwcHBwcHBwcHBwcHBw".to_vec();
        };
        let all = |each: u64, make: &dyn Fn(u64) -> Vec<u8>| {
            let (first, last) = (at / each, (at + len).div_ceil(each));
            let whole: Vec<u8> = (first..last).flat_map(make).collect();
            let skip = usize::try_from(at - first * each).unwrap();
            whole[skip..skip + usize::try_from(len).unwrap()].to_vec()
        };
        match kind {
            "log" => all(BATCH_BYTES, &|number| {
                let mut batch = self.template.clone();
                batch[..8].copy_from_slice(&(base + number).to_be_bytes());
                batch
            }),
            "index" => all(8, &|number| {
                let relative = u32::try_from(number + 1).unwrap();
                let position = u32::try_from((number + 1) * BATCH_BYTES).unwrap();
                [relative.to_be_bytes(), position.to_be_bytes()].concat()
            }),
            _ => all(12, &|_| {
                [TIMESTAMP.to_be_bytes().as_slice(), &[0; 4]].concat()
            }),
        }
    }

    fn perform(&mut self, op: FileOp) -> Result<OpResult, StorageFault> {
        match op {
            FileOp::List { .. } => {
                let entries = self.names().into_iter().map(|(name, len)| DirEntry {
                    name,
                    kind: EntryKind::File { len },
                });
                Ok(OpResult::Listing(entries.collect()))
            }
            FileOp::Open { file, path, .. } => {
                let name = path.name().to_owned();
                let mut names = self.names().into_iter();
                let found = names.find(|(known, _)| *known == name);
                let (name, len) = found.ok_or(StorageFault::new(FaultKind::NotFound))?;
                self.open.insert(file, name);
                Ok(OpResult::Opened { len })
            }
            FileOp::Read { file, at, len } => {
                self.reads += 1;
                self.bytes += u64::from(len);
                let content = self.content(&self.open[&file], at, u64::from(len));
                Ok(OpResult::Data(Bytes::from(content)))
            }
            _ => Ok(OpResult::Done),
        }
    }
}

/// A batch with one record that is exactly as long as all others; what differs between them lies outside its checksum.
fn template() -> Vec<u8> {
    let made = |value_bytes: usize| {
        let value = vec![b'v'; value_bytes];
        let mut builder = BatchBuilder::new(Compression::None);
        let record = NewRecord {
            timestamp: TIMESTAMP,
            key: None,
            value: Some(&value),
            headers: &[],
        };
        builder.append(&record).unwrap();
        builder.build().unwrap().to_vec()
    };
    let wanted = usize::try_from(BATCH_BYTES).unwrap();
    let around = made(wanted - 200).len() - (wanted - 200);
    let mut batch = made(wanted - around);
    assert_eq!(batch.len(), wanted);
    batch[12..16].copy_from_slice(&1_i32.to_be_bytes());
    batch
}

struct Reader {
    log: Log,
    disk: Vast,
    queue: StorageQueue,
    events: Vec<LogEvent>,
}

impl Reader {
    /// Opens the log as after a clean stop.
    fn open(batches: u64) -> Self {
        let config = LogConfig {
            segment_bytes: u32::try_from(SEGMENT_BYTES).unwrap(),
            ..LogConfig::default()
        };
        let hint = OpenHint {
            recovery_point: Offset::try_from(batches).unwrap(),
            clean: true,
            ..OpenHint::default()
        };
        let log = Log::new(partition(), dir(), Owner(1), Arc::new(config), hint);
        let mut reader = Self {
            log,
            disk: Vast::new(batches),
            queue: StorageQueue::default(),
            events: Vec::new(),
        };
        reader.run(Log::open);
        assert!(reader.log.is_open(), "{:?}", reader.events);
        assert_eq!(reader.log.end(), Offset::try_from(batches).unwrap());
        reader
    }

    fn run<T>(&mut self, call: impl FnOnce(&mut Log, &mut LogContext<'_>) -> T) -> T {
        let mut cx = LogContext {
            now: Now {
                instant: Instant::ORIGIN,
                wall: Timestamp::from_millis(TIMESTAMP),
            },
            storage: &mut self.queue,
            events: &mut self.events,
            planted: PlantedSet::NONE,
        };
        let result = call(&mut self.log, &mut cx);
        while let Some(op) = cx.storage.pop() {
            let result = self.disk.perform(op.op);
            self.log
                .on_completion(&mut cx, Completion { id: op.id, result });
        }
        result
    }

    fn fetch(&mut self, offset: Offset) -> FetchSlice {
        let request = ReadRequest {
            offset,
            max_bytes: 128 << 10,
            min_one_batch: true,
            limit: Offset::MAX,
            settled: Offset::MAX,
            id: ReadId(1),
        };
        match self.run(|log, cx| log.read(cx, request)) {
            ReadOutcome::Ready(slice) => slice,
            ReadOutcome::Failed(error) => panic!("{error}"),
            ReadOutcome::Pending => match self.events.pop() {
                Some(LogEvent::ReadDone { result, .. }) => result.unwrap(),
                other => panic!("{other:?}"),
            },
        }
    }

    /// Fetches where `offset` lies and says what was read for it, what the node sends from the file included.
    fn cost_of_fetch(&mut self, offset: Offset) -> Cost {
        let before = self.cost();
        let slice = self.fetch(offset);
        assert_eq!(slice.base_offset, offset);
        let sent = slice.parts.iter().map(|part| match part {
            Part::Bytes(_) => 0,
            Part::File(range) => u64::from(range.len),
        });
        let sent: u64 = sent.sum();
        let after = self.cost();
        Cost {
            reads: after.reads - before.reads,
            bytes: after.bytes - before.bytes + sent,
        }
    }

    const fn cost(&self) -> Cost {
        Cost {
            reads: self.disk.reads,
            bytes: self.disk.bytes,
        }
    }
}

/// Ten megabytes and ten gigabytes; the last segments are filled equally far.
const SIZES: [u64; 2] = [BATCHES_PER_SEGMENT + 128, 1_280 * BATCHES_PER_SEGMENT + 128];

#[test]
fn bytes_read_per_fetch_do_not_grow_with_the_log() {
    let costs = SIZES.map(|batches| {
        let mut reader = Reader::open(batches);
        let end = Offset::try_from(batches).unwrap();
        let sealed = Offset::try_from(BATCHES_PER_SEGMENT).unwrap();
        let somewhere = (end / sealed / 2) * sealed + sealed / 3;
        // The last record, an offset that nobody has read near, and where that reader goes on, twice.
        [end - 1, somewhere, somewhere + 8, somewhere + 16, somewhere]
            .map(|offset| reader.cost_of_fetch(offset))
    });
    assert_eq!(costs[0], costs[1]);
    let largest = costs[0].iter().map(|cost| cost.bytes).max().unwrap();
    assert!(largest < 300 << 10, "{costs:?}");
}

#[test]
fn bytes_read_by_a_clean_start_do_not_grow_with_the_log() {
    let costs = SIZES.map(|batches| Reader::open(batches).cost());
    assert_eq!(costs[0], costs[1]);
    assert!(costs[0].bytes < 64 << 10, "{costs:?}");
}

#[test]
fn what_was_checked_once_is_sent_from_the_file_afterwards() {
    let mut reader = Reader::open(SIZES[0]);
    let is_ranged = |slice: &FetchSlice| matches!(slice.parts[..], [Part::File(_)]);
    let first = reader.fetch(8);
    assert!(!is_ranged(&first));
    let mut offset = first.next_offset;
    while offset < 200 {
        let slice = reader.fetch(offset);
        assert!(!is_ranged(&slice), "nobody has seen {offset}");
        offset = slice.next_offset;
    }
    // Again: what begins where the reader is known to be needs only the next header.
    let again = reader.fetch(first.next_offset);
    assert!(is_ranged(&again));
    assert_eq!(again.next_offset, first.next_offset + 8);
    let before = reader.cost();
    let next = reader.fetch(again.next_offset);
    assert!(is_ranged(&next));
    assert!(
        reader.cost().bytes - before.bytes < 5000,
        "{:?}",
        reader.cost()
    );
}
