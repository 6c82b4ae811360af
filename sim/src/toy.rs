//! A toy broker for the simulator's own tests: small enough to be right by inspection, with bugs that can be switched on.
//!
//! One segment per partition, one epoch, no indexes; it speaks just enough of the protocol for the workloads.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use seedlog_core::{
    broker::{Input, Output},
    event::Event,
    ids::{ConnectionId, Epoch, NodeId, TopicName, TopicPartition},
    protocol::{
        DecodeLimits, ErrorCode, FetchPartitionResponse, FetchRecords, FetchResponse,
        FetchTopicResponse, Few, FramePart, Listener, ProducePartitionResponse, ProduceResponse,
        ProduceTopicResponse, Request, RequestBody, decode_request, encode_fetch_response,
        encode_response,
        messages::{
            CreatableTopicResult, CreateTopicsResponseData, ListOffsetsPartitionResponse,
            ListOffsetsResponseData, ListOffsetsTopicResponse,
        },
    },
    storage::{
        Completion, EntryKind, FileId, FileOp, FilePath, Frame, Generation, LogDirId, OpResult,
        Owner, StorageQueue, SyncTarget, WriteData,
    },
    time::{Instant, Now},
};

use crate::{
    batch::BatchHeader,
    digest::Digest,
    node::{Node, PartitionProbe, Probe, Release},
};

/// What the toy does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// Answers when written, under `durable` too.
    AckBeforeSync,
    /// Never syncs folders.
    NoFolderSync,
    /// Forgets the last batch at each start.
    CutsAtStart,
    /// Panics at the hundredth produce.
    Panics,
    /// Gives two batches the same offset once.
    SameOffset,
    /// Answers no fetch after the first restart.
    Mute,
}

#[derive(Debug)]
struct Log {
    partition: TopicPartition,
    file: FileId,
    durable: bool,
    bytes: Vec<u8>,
    ends: Vec<(i64, usize)>,
    end: i64,
    written: i64,
    flushed: i64,
    waiting: VecDeque<(i64, Slot, Bytes)>,
    open: bool,
}

/// The place of an answer in the order of its connection.
type Slot = (ConnectionId, u64);

#[derive(Debug)]
enum Doing {
    ListRoot,
    ListFolder(TopicPartition),
    MakeFolder(TopicPartition),
    Open(usize),
    Load(usize),
    Cut(usize),
    Write(usize, i64),
    Sync(Vec<(usize, i64)>),
}

#[derive(Debug)]
pub(crate) struct Toy {
    bug: Bug,
    queue: StorageQueue,
    doing: BTreeMap<u64, Doing>,
    out: VecDeque<Output>,
    logs: Vec<Log>,
    starting: usize,
    syncing: bool,
    creating: Vec<(usize, Slot, Bytes)>,
    slots: BTreeMap<ConnectionId, VecDeque<(u64, Option<Bytes>)>>,
    next_slot: u64,
    stopping: bool,
    produced: u32,
    restarted: bool,
    failed: bool,
}

/// Starts toys with a bug.
pub(crate) fn release(bug: Bug) -> Release {
    Release::new("toy", move |_, _, _| Box::new(Toy::new(bug)))
}

impl Toy {
    fn new(bug: Bug) -> Self {
        let mut toy = Self {
            bug,
            queue: StorageQueue::default(),
            doing: BTreeMap::new(),
            out: VecDeque::new(),
            logs: Vec::new(),
            starting: 1,
            syncing: false,
            creating: Vec::new(),
            slots: BTreeMap::new(),
            next_slot: 0,
            stopping: false,
            produced: 0,
            restarted: false,
            failed: false,
        };
        toy.submit(Doing::ListRoot, FileOp::List { dir: root() });
        toy
    }

    fn submit(&mut self, doing: Doing, op: FileOp) {
        let id = self.queue.submit(Owner(0), op);
        self.doing.insert(id.seq, doing);
    }

    fn stored(&mut self, done: Completion) {
        let Some(doing) = self.doing.remove(&done.id.seq) else {
            return;
        };
        let result = match done.result {
            Ok(result) => result,
            Err(fault) => return self.fail(&format!("{doing:?}: {fault}")),
        };
        match (doing, result) {
            (Doing::ListRoot, OpResult::Listing(entries)) => {
                self.starting = 0;
                for entry in entries.iter().filter(|entry| entry.kind == EntryKind::Dir) {
                    if let Some((topic, number)) = entry.name.rsplit_once('-') {
                        let partition = TopicPartition {
                            topic: TopicName::new(topic),
                            partition: number.parse().unwrap_or_default(),
                        };
                        self.restarted = true;
                        self.starting += 1;
                        let dir = folder(&partition);
                        self.submit(Doing::ListFolder(partition), FileOp::List { dir });
                    }
                }
                self.maybe_ready();
            }
            (Doing::ListFolder(partition), _) | (Doing::MakeFolder(partition), _) => {
                self.open(partition);
            }
            (Doing::Open(log), OpResult::Opened { len }) => {
                let file = self.logs[log].file;
                let len = u32::try_from(len).unwrap_or(u32::MAX);
                self.submit(Doing::Load(log), FileOp::Read { file, at: 0, len });
            }
            (Doing::Load(log), OpResult::Data(bytes)) => self.load(log, bytes),
            (Doing::Cut(log), _) => self.sync(vec![log]),
            (Doing::Write(log, end), _) => self.wrote(log, end),
            (Doing::Sync(covered), _) => self.synced(covered),
            (doing, result) => self.fail(&format!("{doing:?} answered by {result:?}")),
        }
    }

    fn open(&mut self, partition: TopicPartition) {
        let file = self.queue.new_file();
        let path = folder(&partition).join("00000000000000000000.log");
        let log = self.logs.len();
        self.logs.push(Log {
            durable: !partition.topic.as_str().starts_with('r'),
            partition,
            file,
            bytes: Vec::new(),
            ends: Vec::new(),
            end: 0,
            written: 0,
            flushed: 0,
            waiting: VecDeque::new(),
            open: false,
        });
        let create = true;
        self.submit(Doing::Open(log), FileOp::Open { file, path, create });
    }

    fn load(&mut self, log: usize, bytes: Bytes) {
        let known = &mut self.logs[log];
        let mut at = 0;
        while let Some(header) = BatchHeader::read(&bytes[at..]) {
            if !BatchHeader::is_intact(&bytes[at..]) || header.base != known.end {
                break;
            }
            at += header.size;
            known.end = header.last + 1;
            known.ends.push((known.end, at));
        }
        if self.bug == Bug::CutsAtStart && known.ends.len() > 1 {
            known.ends.pop();
            (known.end, at) = known.ends[known.ends.len() - 1];
        }
        known.bytes = bytes[..at].to_vec();
        let (file, len) = (known.file, u64::try_from(at).unwrap_or(u64::MAX));
        self.submit(Doing::Cut(log), FileOp::Truncate { file, len });
    }

    fn sync(&mut self, logs: Vec<usize>) {
        self.syncing = true;
        let files = logs.iter().map(|log| SyncTarget {
            file: self.logs[*log].file,
            generation: Generation(0),
        });
        let files = files.collect();
        let mut dirs: Vec<FilePath> = logs
            .iter()
            .map(|log| folder(&self.logs[*log].partition))
            .collect();
        dirs.push(root());
        if self.bug == Bug::NoFolderSync {
            dirs.clear();
        }
        let covered = logs.iter().map(|log| {
            let known = &self.logs[*log];
            let end = if known.open { known.written } else { known.end };
            (*log, end)
        });
        let covered = covered.collect();
        self.submit(Doing::Sync(covered), FileOp::Sync { files, dirs });
    }

    fn wrote(&mut self, log: usize, end: i64) {
        let known = &mut self.logs[log];
        known.written = known.written.max(end);
        if !known.durable || self.bug == Bug::AckBeforeSync {
            self.answer(log);
        }
        self.maybe_sync();
    }

    fn synced(&mut self, covered: Vec<(usize, i64)>) {
        self.syncing = false;
        for (log, end) in covered {
            let known = &mut self.logs[log];
            known.flushed = known.flushed.max(end);
            if !known.open {
                known.open = true;
                known.written = known.end;
                if self.starting != usize::MAX {
                    self.starting -= 1;
                }
                self.out.push_back(Output::Event(Event::LogOpened {
                    partition: known.partition.clone(),
                    start: 0,
                    end: known.end,
                    recovered: true,
                }));
                self.maybe_ready();
            }
            self.answer(log);
        }
        let (done, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.creating)
            .into_iter()
            .partition(|(last, ..)| self.logs.get(*last).is_some_and(|log| log.open));
        self.creating = waiting;
        for (_, slot, frame) in done {
            self.send(slot, frame);
        }
        self.maybe_sync();
    }

    fn maybe_sync(&mut self) {
        let behind = |log: &Log| log.open && log.flushed < log.written;
        let dirty: Vec<usize> = (0..self.logs.len())
            .filter(|log| behind(&self.logs[*log]))
            .collect();
        if self.syncing {
            return;
        }
        if !dirty.is_empty() {
            self.sync(dirty);
        } else if self.stopping && self.logs.iter().all(|log| log.waiting.is_empty()) {
            self.out.push_back(Output::Stopped);
        }
    }

    fn answer(&mut self, log: usize) {
        let counted = self.high_watermark(log);
        while let Some((end, ..)) = self.logs[log].waiting.front()
            && *end <= counted
        {
            let (_, slot, frame) = self.logs[log].waiting.pop_front().unwrap();
            self.send(slot, frame);
        }
    }

    fn high_watermark(&self, log: usize) -> i64 {
        let log = &self.logs[log];
        if log.durable && self.bug != Bug::AckBeforeSync {
            log.flushed
        } else {
            log.written
        }
    }

    fn maybe_ready(&mut self) {
        if self.starting == 0 {
            self.out.push_back(Output::Event(Event::Ready));
            self.starting = usize::MAX;
        }
    }

    fn fail(&mut self, message: &str) {
        let message = message.to_owned();
        self.failed = true;
        self.out.push_back(Output::Event(Event::Fatal { message }));
        self.out.push_back(Output::Stopped);
    }

    fn request(&mut self, connection: ConnectionId, frame: &Bytes) {
        let Ok(request) = decode_request(frame, &DecodeLimits::new(Listener::Broker)) else {
            self.out.push_back(Output::Close { connection });
            return;
        };
        if self.starting != usize::MAX {
            self.out.push_back(Output::Close { connection });
            return;
        }
        self.next_slot += 1;
        let slot = (connection, self.next_slot);
        let silent = matches!(&request.body, RequestBody::Produce(body) if body.acks == 0);
        if !silent {
            let slots = self.slots.entry(connection).or_default();
            slots.push_back((self.next_slot, None));
        }
        match &request.body {
            RequestBody::Produce(_) => self.produce(slot, &request),
            RequestBody::Fetch(_) => self.fetch(slot, &request),
            RequestBody::ListOffsets(_) => self.list_offsets(slot, &request),
            RequestBody::CreateTopics(_) => self.create_topics(slot, &request),
            _ => self.out.push_back(Output::Close { connection }),
        }
    }

    fn find(&self, topic: &str, number: i32) -> Option<usize> {
        self.logs.iter().position(|log| {
            log.open && log.partition.topic.as_str() == topic && log.partition.partition == number
        })
    }

    fn produce(&mut self, slot: Slot, request: &Request) {
        let RequestBody::Produce(body) = &request.body else {
            return;
        };
        self.produced += 1;
        assert!(
            self.bug != Bug::Panics || self.produced < 100,
            "a toy's panic"
        );
        let topic = &body.topics[0];
        let part = &topic.partitions[0];
        let log = self.find(topic.name.as_str(), part.index);
        let records = part.records.clone().unwrap_or_default();
        let (code, base, end) = match (log, BatchHeader::read(&records)) {
            (Some(log), Some(header)) => {
                let (base, end) = self.append(log, header, &records);
                (ErrorCode::None, base, end)
            }
            _ => (ErrorCode::UnknownTopicOrPartition, -1, 0),
        };
        if body.acks == 0 {
            return;
        }
        let answer = ProduceResponse {
            topics: Few::one(ProduceTopicResponse {
                name: topic.name.clone(),
                partitions: Few::one(ProducePartitionResponse {
                    index: part.index,
                    error_code: code,
                    base_offset: base,
                    log_append_time_ms: -1,
                    log_start_offset: 0,
                    record_errors: Vec::new(),
                    error_message: None,
                    current_leader: Default::default(),
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let header = &request.header;
        let frame = encode_response(header.version, header.correlation_id, answer.into()).unwrap();
        match log.filter(|_| code == ErrorCode::None) {
            Some(log) => self.logs[log].waiting.push_back((end, slot, frame)),
            None => self.send(slot, frame),
        }
    }

    fn append(&mut self, log: usize, header: BatchHeader, records: &Bytes) -> (i64, i64) {
        let same = self.bug == Bug::SameOffset && self.produced == 50;
        let known = &mut self.logs[log];
        let mut base = known.end;
        if same && known.ends.len() > 1 {
            let (_, at) = known.ends[known.ends.len() - 2];
            base = known.ends[known.ends.len() - 2].0;
            known.bytes.truncate(at);
            known.ends.pop();
        }
        let mut bytes = records.to_vec();
        bytes[..8].copy_from_slice(&base.to_be_bytes());
        bytes[12..16].copy_from_slice(&0_i32.to_be_bytes());
        let at = u64::try_from(known.bytes.len()).unwrap();
        known.bytes.extend_from_slice(&bytes);
        known.end = base + header.last + 1;
        known.ends.push((known.end, known.bytes.len()));
        let (file, end) = (known.file, known.end);
        let data = WriteData::from_body(bytes.into());
        self.submit(Doing::Write(log, end), FileOp::Write { file, at, data });
        (base, end)
    }

    fn fetch(&mut self, slot: Slot, request: &Request) {
        let RequestBody::Fetch(body) = &request.body else {
            return;
        };
        if self.bug == Bug::Mute && self.restarted {
            return;
        }
        let topic = &body.topics[0];
        let part = &topic.partitions[0];
        let log = self.find(topic.topic.as_str(), part.partition);
        let mut slice = Bytes::new();
        let mut high_watermark = -1;
        let mut code = ErrorCode::UnknownTopicOrPartition;
        if let Some(log) = log {
            high_watermark = self.high_watermark(log);
            code = ErrorCode::None;
            let known = &self.logs[log];
            if part.fetch_offset > high_watermark {
                code = ErrorCode::OffsetOutOfRange;
            } else {
                let first = known
                    .ends
                    .partition_point(|(end, _)| *end <= part.fetch_offset);
                let last = known
                    .ends
                    .partition_point(|(end, _)| *end <= high_watermark);
                let last = last.min(first + 5).max(first);
                let at = |rank: usize| rank.checked_sub(1).map_or(0, |rank| known.ends[rank].1);
                slice = Bytes::copy_from_slice(&known.bytes[at(first)..at(last)]);
            }
        }
        let answer = FetchResponse {
            topics: Few::one(FetchTopicResponse {
                topic: topic.topic.clone(),
                partitions: Few::one(FetchPartitionResponse {
                    partition_index: part.partition,
                    error_code: code,
                    high_watermark,
                    last_stable_offset: high_watermark,
                    log_start_offset: 0,
                    records: Some(FetchRecords {
                        slot: 0,
                        len: slice.len(),
                    }),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let header = &request.header;
        let parts = encode_fetch_response(header.version, header.correlation_id, &answer).unwrap();
        let mut whole = BytesMut::new();
        for part in parts.parts {
            match part {
                FramePart::Head(bytes) => whole.extend_from_slice(&bytes),
                FramePart::Records(_) => whole.extend_from_slice(&slice),
            }
        }
        self.send(slot, whole.freeze());
    }

    fn list_offsets(&mut self, slot: Slot, request: &Request) {
        let RequestBody::ListOffsets(body) = &request.body else {
            return;
        };
        let topic = &body.topics[0];
        let part = &topic.partitions[0];
        let log = self.find(topic.name.as_str(), part.partition_index);
        let answer = ListOffsetsResponseData {
            topics: vec![ListOffsetsTopicResponse {
                name: topic.name.clone(),
                partitions: vec![ListOffsetsPartitionResponse {
                    partition_index: part.partition_index,
                    error_code: if log.is_some() { 0 } else { 3 },
                    offset: match log {
                        Some(log) if part.timestamp == -1 => self.high_watermark(log),
                        Some(_) => 0,
                        None => -1,
                    },
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let header = &request.header;
        let frame = encode_response(header.version, header.correlation_id, answer.into()).unwrap();
        self.send(slot, frame);
    }

    fn create_topics(&mut self, slot: Slot, request: &Request) {
        let RequestBody::CreateTopics(body) = &request.body else {
            return;
        };
        let mut topics = Vec::new();
        let mut made = 0;
        for topic in &body.topics {
            let known = self.find(topic.name.as_str(), 0).is_some();
            topics.push(CreatableTopicResult {
                name: topic.name.clone(),
                error_code: if known { 36 } else { 0 },
                ..Default::default()
            });
            for partition in (0..topic.num_partitions).filter(|_| !known) {
                made += 1;
                let partition = TopicPartition {
                    topic: TopicName::new(topic.name.as_str()),
                    partition,
                };
                let dir = folder(&partition);
                self.submit(Doing::MakeFolder(partition), FileOp::CreateDir { dir });
            }
        }
        let answer = CreateTopicsResponseData {
            topics,
            ..Default::default()
        };
        let header = &request.header;
        let frame = encode_response(header.version, header.correlation_id, answer.into()).unwrap();
        if made == 0 {
            self.send(slot, frame);
        } else {
            let last = self.logs.len() + made - 1;
            self.creating.push((last, slot, frame));
        }
    }

    fn send(&mut self, (connection, number): Slot, frame: Bytes) {
        let slots = self.slots.entry(connection).or_default();
        if let Some(slot) = slots.iter_mut().find(|(slot, _)| *slot == number) {
            slot.1 = Some(frame);
        }
        while let Some((_, Some(_))) = slots.front() {
            let (_, frame) = slots.pop_front().unwrap();
            self.out.push_back(Output::Send {
                connection,
                frame: Frame::Whole(frame.unwrap()),
            });
        }
    }
}

impl Node for Toy {
    fn handle(&mut self, _now: Now, input: Input) {
        if self.failed {
            return;
        }
        match input {
            Input::Frame { connection, bytes } => self.request(connection, &bytes),
            Input::Storage(done) => self.stored(done),
            Input::StorageMany(done) => done.into_iter().for_each(|done| self.stored(done)),
            Input::Stop => {
                self.stopping = true;
                self.maybe_sync();
            }
            _ => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        if let Some(output) = self.out.pop_front() {
            return Some(output);
        }
        self.queue.pop().map(Output::Storage)
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn probe(&self, probe: &mut Probe) {
        probe.partitions.clear();
        for (index, log) in self.logs.iter().enumerate().filter(|(_, log)| log.open) {
            probe.partitions.push(PartitionProbe {
                partition: log.partition.clone(),
                place: None,
                start: 0,
                end: log.end,
                written: log.written,
                flushed: log.flushed,
                high_watermark: self.high_watermark(index),
                leader_epoch: Epoch(0),
                leads: true,
                leader: None,
                partition_epoch: 0,
                isr: vec![NodeId(1)],
                epochs: vec![(Epoch(0), 0)],
                offline: false,
                durable: log.durable,
            });
        }
    }

    fn state_hash(&self) -> u64 {
        let mut digest = Digest::new();
        for log in &self.logs {
            digest.bytes(&log.bytes);
        }
        digest.value()
    }
}

fn root() -> FilePath {
    FilePath::root(LogDirId(0))
}

fn folder(partition: &TopicPartition) -> FilePath {
    root().join(&partition.to_string())
}
