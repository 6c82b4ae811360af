//! A whole broker on a disk in memory that does everything at once.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::*;
use crate::{
    batch::{BatchBuilder, Compression, NewRecord},
    ids::{ConnectionId, NodeId, Uuid},
    planted::PlantedSet,
    protocol::{
        KafkaString,
        messages::{
            CreatableTopic, CreateTopicsRequestData, DeleteTopicsRequestData, FetchRequestData,
            ListOffsetsPartition, ListOffsetsRequestData, ListOffsetsTopic, MetadataRequestData,
            MetadataRequestTopic, ProduceRequestData,
            wire::{
                fetch_request::{FetchPartition, FetchTopic},
                produce_request::{PartitionProduceData, TopicProduceData},
            },
        },
        {self, ClientRequest, decode_response, encode_request},
    },
    storage::{
        Completion, DirEntry, EntryKind, FaultKind, FileId, FileOp, Frame, OpResult, Part,
        StorageFault,
    },
    time::Timestamp,
};

pub(super) const CLIENT: ConnectionId = ConnectionId(1);
/// The connection on the listener of the quorum.
pub(super) const CONTROLLER: ConnectionId = ConnectionId(2);

/// Files by path; survives the broker.
#[derive(Default)]
pub(super) struct Disk {
    files: BTreeMap<String, Vec<u8>>,
    dirs: std::collections::BTreeSet<String>,
    open: BTreeMap<FileId, String>,
    writes: usize,
    syncs: usize,
}

impl Disk {
    pub(super) fn perform(&mut self, op: FileOp) -> Result<OpResult, StorageFault> {
        match op {
            FileOp::List { dir } => Ok(OpResult::Listing(self.list(dir.relative())?)),
            FileOp::CreateDir { dir } => {
                self.dirs.insert(dir.relative().to_owned());
                Ok(OpResult::Done)
            }
            FileOp::Open { file, path, create } => {
                let path = path.relative().to_owned();
                if !create && !self.files.contains_key(&path) {
                    return Err(StorageFault::new(FaultKind::NotFound));
                }
                let len = self.files.entry(path.clone()).or_default().len() as u64;
                self.open.insert(file, path);
                Ok(OpResult::Opened { len })
            }
            FileOp::Write { file, at, data } => {
                self.writes += 1;
                let content = self.content(file);
                let end = at as usize + data.len();
                content.resize(content.len().max(end), 0);
                let bytes = [data.head.as_slice(), &data.body].concat();
                content[at as usize..end].copy_from_slice(&bytes);
                Ok(OpResult::Done)
            }
            FileOp::Read { file, at, len } => {
                let content = self.content(file);
                let from = content.len().min(at as usize);
                let to = content.len().min(from + len as usize);
                Ok(OpResult::Data(Bytes::copy_from_slice(&content[from..to])))
            }
            FileOp::Truncate { file, len } => {
                self.content(file).resize(len as usize, 0);
                Ok(OpResult::Done)
            }
            FileOp::Rename { from, to } => {
                self.rename(from.relative(), to.relative());
                Ok(OpResult::Done)
            }
            FileOp::Remove { path } => {
                let gone = self.files.remove(path.relative());
                gone.map(|_| OpResult::Done)
                    .ok_or(StorageFault::new(FaultKind::NotFound))
            }
            FileOp::RemoveDir { dir } => {
                let prefix = format!("{}/", dir.relative());
                self.files.retain(|path, _| !path.starts_with(&prefix));
                self.dirs.retain(|path| path != dir.relative());
                Ok(OpResult::Done)
            }
            FileOp::Sync { .. } => {
                self.syncs += 1;
                Ok(OpResult::Done)
            }
            FileOp::Close { .. } => Ok(OpResult::Done),
        }
    }

    pub(super) fn content(&mut self, file: FileId) -> &mut Vec<u8> {
        let path = self.open[&file].clone();
        self.files.entry(path).or_default()
    }

    fn list(&self, dir: &str) -> Result<Vec<DirEntry>, StorageFault> {
        if !dir.is_empty() && !self.dirs.iter().any(|known| known == dir) {
            return Err(StorageFault::new(FaultKind::NotFound));
        }
        let prefix = if dir.is_empty() {
            String::new()
        } else {
            format!("{dir}/")
        };
        let inside = |path: &str| {
            let name = path.strip_prefix(&prefix)?;
            (!name.is_empty() && !name.contains('/')).then(|| name.to_owned())
        };
        let files = self.files.iter().filter_map(|(path, content)| {
            let kind = EntryKind::File {
                len: content.len() as u64,
            };
            Some(DirEntry {
                name: inside(path)?,
                kind,
            })
        });
        let dirs = self.dirs.iter().filter_map(|path| {
            Some(DirEntry {
                name: inside(path)?,
                kind: EntryKind::Dir,
            })
        });
        Ok(files.chain(dirs).collect())
    }

    fn rename(&mut self, from: &str, to: &str) {
        let prefix = format!("{from}/");
        let moved = |path: &str| match path.strip_prefix(&prefix) {
            Some(rest) => format!("{to}/{rest}"),
            None if path == from => to.to_owned(),
            None => path.to_owned(),
        };
        self.files = std::mem::take(&mut self.files)
            .into_iter()
            .map(|(path, c)| (moved(&path), c))
            .collect();
        self.dirs = self.dirs.iter().map(|path| moved(path)).collect();
        for path in self.open.values_mut() {
            *path = moved(path);
        }
    }
}

/// A broker, its disk, and what it said.
pub(super) struct Host {
    broker: Broker,
    disk: Disk,
    now: Now,
    pub(super) sent: VecDeque<Bytes>,
    pub(super) events: Vec<Event>,
    stopped: bool,
    correlation_id: i32,
    /// How many times something waited for syncs: those that run beside each other count once.
    sync_rounds: usize,
}

impl Host {
    pub(super) fn start(disk: Disk, seed: u8, properties: &[(&str, &str)]) -> Self {
        let listener = |name: &str, advertised_port, kind| Listener {
            name: name.into(),
            advertised_host: "localhost".into(),
            advertised_port,
            kind,
        };
        let listeners = vec![
            listener("PLAINTEXT", 9092, protocol::Listener::Broker),
            listener("CONTROLLER", 9093, protocol::Listener::Controller),
        ];
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let config = BrokerConfig {
            node_id: NodeId(1),
            listeners,
            voters: Vec::new(),
            rack: None,
            log_dirs: 1,
            properties: properties.iter().map(own).collect(),
            planted: PlantedSet::NONE,
        };
        let identity = Identity {
            incarnation: Uuid::from_random([seed; 16]),
            seed: [seed; 32],
        };
        let now = Now {
            instant: Instant::ORIGIN,
            wall: Timestamp::from_millis(1_700_000_000_000),
        };
        let broker = Broker::new(config, identity, now);
        let mut host = Self {
            broker,
            disk: Disk {
                open: BTreeMap::new(),
                ..disk
            },
            now,
            sent: VecDeque::new(),
            events: Vec::new(),
            stopped: false,
            correlation_id: 0,
            sync_rounds: 0,
        };
        host.drain();
        let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 5000));
        for (connection, listener) in [(CLIENT, 0), (CONTROLLER, 1)] {
            host.handle(Input::Connected {
                connection,
                peer,
                listener,
            });
        }
        host
    }

    pub(super) fn handle(&mut self, input: Input) {
        self.broker.handle(self.now, input);
        self.drain();
    }

    /// Carries outputs out until there are none; syncs begin together, when nothing else is left to do.
    fn drain(&mut self) {
        let mut syncs = Vec::new();
        loop {
            let mut done = Vec::new();
            while let Some(output) = self.broker.poll_output() {
                match output {
                    Output::Storage(op) if matches!(op.op, FileOp::Sync { .. }) => {
                        let result = self.disk.perform(op.op);
                        syncs.push(Completion { id: op.id, result });
                    }
                    Output::Storage(op) => {
                        let result = self.disk.perform(op.op);
                        done.push(Completion { id: op.id, result });
                    }
                    Output::Send { frame, .. } => {
                        let bytes = self.bytes(frame);
                        self.sent.push_back(bytes);
                    }
                    Output::Event(event) => self.events.push(event),
                    Output::Stopped => self.stopped = true,
                    Output::Dial { .. } => panic!("a quorum of one has nobody to call"),
                    Output::Close { .. }
                    | Output::PauseReading { .. }
                    | Output::ResumeReading { .. } => {}
                }
            }
            if done.is_empty() {
                if syncs.is_empty() {
                    return;
                }
                self.sync_rounds += 1;
                done = std::mem::take(&mut syncs);
            }
            self.broker.handle(self.now, Input::StorageMany(done));
        }
    }

    fn bytes(&mut self, frame: Frame) -> Bytes {
        let parts = match frame {
            Frame::Whole(bytes) => return bytes,
            Frame::Parts(parts) => parts,
        };
        let mut whole = Vec::new();
        for part in parts {
            match part {
                Part::Bytes(bytes) => whole.extend_from_slice(&bytes),
                Part::File(range) => {
                    let content = self.disk.content(range.file);
                    let from = range.at as usize;
                    whole.extend_from_slice(&content[from..from + range.len as usize]);
                }
            }
        }
        Bytes::from(whole)
    }

    pub(super) fn ask<R: ClientRequest>(&mut self, version: i16, request: &R) -> R::Response {
        self.ask_on(CLIENT, version, request)
            .expect("an answer at once")
    }

    /// Asks on a connection; no answer when it was closed instead.
    pub(super) fn ask_on<R: ClientRequest>(
        &mut self,
        connection: ConnectionId,
        version: i16,
        request: &R,
    ) -> Option<R::Response> {
        self.correlation_id += 1;
        let frame = encode_request(version, self.correlation_id, "test", request).unwrap();
        self.handle(Input::Frame {
            connection,
            bytes: frame.slice(4..),
        });
        let answer = self.sent.pop_front()?;
        Some(decode_response::<R>(version, &answer.slice(4..)).unwrap().1)
    }

    pub(super) fn wait(&mut self, millis: u64) {
        self.now.instant = self.now.instant.plus_millis(millis);
        while self
            .broker
            .deadline()
            .is_some_and(|deadline| deadline <= self.now.instant)
        {
            self.handle(Input::Timeout);
        }
    }

    pub(super) fn produce(&mut self, topic: &str, acks: i16, values: &[&str]) -> (i16, i64) {
        let answer = self.ask(9, &produce_request(topic, acks, values));
        let partition = &answer.responses[0].partition_responses[0];
        (partition.error_code, partition.base_offset)
    }

    fn end_offset(&mut self, topic: &str) -> i64 {
        let partition = ListOffsetsPartition {
            partition_index: 0,
            timestamp: -1,
            ..ListOffsetsPartition::default()
        };
        let topic = ListOffsetsTopic {
            name: KafkaString::from(topic.to_owned()),
            partitions: vec![partition],
            ..ListOffsetsTopic::default()
        };
        let request = ListOffsetsRequestData {
            replica_id: -1,
            topics: vec![topic],
            ..ListOffsetsRequestData::default()
        };
        self.ask(5, &request).topics[0].partitions[0].offset
    }

    pub(super) fn fetch(&mut self, topic: &str, offset: i64) -> Option<Bytes> {
        let partition = FetchPartition {
            fetch_offset: offset,
            partition_max_bytes: 1 << 20,
            ..FetchPartition::default()
        };
        let topic = FetchTopic {
            topic: KafkaString::from(topic.to_owned()),
            partitions: vec![partition],
            ..FetchTopic::default()
        };
        let request = FetchRequestData {
            max_wait_ms: 0,
            min_bytes: 1,
            max_bytes: 1 << 20,
            topics: vec![topic],
            ..FetchRequestData::default()
        };
        self.ask(11, &request).responses[0].partitions[0]
            .records
            .clone()
    }

    pub(super) fn create(&mut self, topic: &str) {
        let wanted = CreatableTopic {
            name: KafkaString::from(topic.to_owned()),
            num_partitions: 1,
            replication_factor: 1,
            ..CreatableTopic::default()
        };
        let request = CreateTopicsRequestData {
            topics: vec![wanted],
            timeout_ms: 1000,
            ..CreateTopicsRequestData::default()
        };
        let answer = self.ask(5, &request);
        assert_eq!(answer.topics[0].error_code, 0);
    }

    fn stop(mut self) -> Disk {
        self.handle(Input::Stop);
        assert!(self.stopped, "{:?}", self.broker.stage);
        self.disk
    }
}

pub(super) fn produce_request(topic: &str, acks: i16, values: &[&str]) -> ProduceRequestData {
    let mut batch = BatchBuilder::new(Compression::None);
    for value in values {
        let record = NewRecord {
            timestamp: 1_700_000_000_000,
            key: None,
            value: Some(value.as_bytes()),
            headers: &[],
        };
        batch.append(&record).unwrap();
    }
    let partition = PartitionProduceData {
        index: 0,
        records: Some(batch.build().unwrap()),
        ..PartitionProduceData::default()
    };
    let topic = TopicProduceData {
        name: KafkaString::from(topic.to_owned()),
        partition_data: vec![partition],
        ..TopicProduceData::default()
    };
    ProduceRequestData {
        acks,
        timeout_ms: 1000,
        topic_data: vec![topic],
        ..ProduceRequestData::default()
    }
}

#[test]
fn empty_directory_becomes_a_serving_broker() {
    let host = Host::start(Disk::default(), 1, &[]);
    assert!(host.events.contains(&Event::Ready), "{:?}", host.events);
    assert!(host.disk.files.contains_key("meta.properties"));
}

#[test]
fn first_batch_on_an_empty_directory_waits_for_few_syncs_in_a_row() {
    let mut host = Host::start(Disk::default(), 1, &[]);
    let ready = host.events.iter().position(|event| *event == Event::Ready);
    assert!(ready.is_some(), "{:?}", host.events);
    // Identity, vote, first entries and registration beside each other, and then the second half of the epoch's file.
    assert_eq!(host.sync_rounds, 2);
    host.create("orders");
    assert_eq!(host.sync_rounds, 3);
    assert_eq!(host.produce("orders", 1, &["a"]), (0, 0));
    // The batch, and the second half of its epoch's file.
    assert_eq!(host.sync_rounds, 5);
}

#[test]
fn writes_that_end_together_share_a_sync() {
    let mut host = Host::start(Disk::default(), 1, &[]);
    host.create("orders");
    assert_eq!(host.produce("orders", 1, &["a"]), (0, 0));
    let before = host.disk.syncs;
    for number in 0..5 {
        let request = produce_request("orders", 1, &["b"]);
        let frame = encode_request(9, 100 + number, "test", &request).unwrap();
        let input = Input::Frame {
            connection: CLIENT,
            bytes: frame.slice(4..),
        };
        host.broker.handle(host.now, input);
    }
    host.drain();
    assert_eq!(host.sent.len(), 5);
    assert_eq!(host.disk.syncs, before + 1);
}

#[test]
fn first_start_that_died_over_its_meta_properties_is_repeated() {
    for torn in ["", "#\ncluster.id=x", "\0\0\0\0"] {
        let mut disk = Disk::default();
        let content = torn.as_bytes().to_vec();
        disk.files.insert("meta.properties".into(), content);
        disk.dirs.insert("lost+found".into());
        let host = Host::start(disk, 1, &[]);
        assert!(host.events.contains(&Event::Ready), "{:?}", host.events);
    }
}

#[test]
fn damaged_meta_properties_of_a_used_directory_is_refused() {
    let host = Host::start(Disk::default(), 1, &[]);
    let mut disk = host.stop();
    let content = disk.files.get_mut("meta.properties").unwrap();
    content.truncate(20);
    let host = Host::start(disk, 2, &[]);
    assert!(host.stopped);
    assert!(!host.events.contains(&Event::Ready), "{:?}", host.events);
}

#[test]
fn produced_records_come_back_byte_for_byte_and_after_a_clean_restart_too() {
    let mut host = Host::start(Disk::default(), 1, &[]);
    host.create("orders");
    assert_eq!(host.produce("orders", -1, &["a", "b"]), (0, 0));
    assert_eq!(host.produce("orders", 1, &["c"]), (0, 2));
    assert_eq!(host.end_offset("orders"), 3);
    let before = host.fetch("orders", 0).unwrap();
    let disk = host.stop();
    assert!(disk.files.contains_key(".kafka_cleanshutdown"));
    let mut host = Host::start(disk, 2, &[]);
    assert!(
        !host.disk.files.contains_key(".kafka_cleanshutdown"),
        "removed before the first write"
    );
    assert!(
        host.events.contains(&Event::CleanShutdown { found: true }),
        "{:?}",
        host.events
    );
    assert_eq!(host.end_offset("orders"), 3);
    assert_eq!(host.fetch("orders", 0).unwrap(), before);
    assert_eq!(host.produce("orders", -1, &["d"]), (0, 3));
}

#[test]
fn killed_process_recovers_what_it_acknowledged() {
    let mut host = Host::start(Disk::default(), 1, &[]);
    host.create("orders");
    assert_eq!(host.produce("orders", 1, &["a", "b"]), (0, 0));
    let mut host = Host::start(host.disk, 2, &[]);
    assert_eq!(host.end_offset("orders"), 2);
    assert_eq!(host.produce("orders", 1, &["c"]), (0, 2));
}

#[test]
fn metadata_request_creates_a_missing_topic_and_answers_with_its_leader() {
    let mut host = Host::start(Disk::default(), 1, &[]);
    let topic = MetadataRequestTopic {
        name: Some(KafkaString::from("fresh".to_owned())),
        ..MetadataRequestTopic::default()
    };
    let request = MetadataRequestData {
        topics: Some(vec![topic]),
        allow_auto_topic_creation: true,
        ..MetadataRequestData::default()
    };
    let answer = host.ask(8, &request);
    assert_eq!(answer.topics[0].error_code, 0);
    assert_eq!(answer.topics[0].partitions[0].leader_id, 1);
    assert_eq!(answer.brokers[0].port, 9092);
    let request = MetadataRequestData {
        allow_auto_topic_creation: false,
        ..request
    };
    let request = MetadataRequestData {
        topics: request.topics.map(|mut topics| {
            topics[0].name = Some(KafkaString::from("absent".to_owned()));
            topics
        }),
        ..request
    };
    assert_eq!(host.ask(8, &request).topics[0].error_code, 3);
}

#[test]
fn topic_created_anew_under_its_old_name_starts_empty_also_after_a_crash() {
    let mut host = Host::start(Disk::default(), 1, &[]);
    host.create("orders");
    assert_eq!(host.produce("orders", -1, &["a", "b"]), (0, 0));
    host.wait(61_000);
    let mark = &host.disk.files["recovery-point-offset-checkpoint"];
    assert!(String::from_utf8_lossy(mark).contains("orders 0 2"));
    let request = DeleteTopicsRequestData {
        topic_names: vec![KafkaString::from("orders".to_owned())],
        timeout_ms: 1000,
        ..DeleteTopicsRequestData::default()
    };
    assert_eq!(host.ask(3, &request).responses[0].error_code, 0);
    host.create("orders");
    assert_eq!(host.produce("orders", -1, &["c"]), (0, 0));
    let mut host = Host::start(host.disk, 2, &[]);
    assert_eq!(host.end_offset("orders"), 1);
    let left = host
        .disk
        .dirs
        .iter()
        .filter(|dir| dir.starts_with("orders-0"))
        .count();
    assert_eq!(left, 1, "{:?}", host.disk.dirs);
}

#[test]
fn heartbeats_keep_a_lone_broker_unfenced_for_ever() {
    let mut host = Host::start(Disk::default(), 1, &[]);
    host.create("orders");
    for _ in 0..60 {
        host.wait(1_000);
    }
    // Even if the whole process slept longer than its session.
    host.wait(60_000);
    assert_eq!(host.produce("orders", -1, &["a"]), (0, 0));
    let epochs: Vec<_> = host
        .broker
        .probe()
        .partitions
        .iter()
        .map(|p| p.leader_epoch)
        .collect();
    assert_eq!(epochs, [Some(crate::ids::Epoch(0))]);
}

const ORDERS_LOG: &str = "orders-0/00000000000000000000.log";

/// Produces three batches, ends without a stop, damages the log as told, and starts again; the recovery point is still 0.
fn killed_and_damaged(damage: impl FnOnce(&mut Vec<u8>)) -> (Host, Vec<u8>) {
    let mut host = Host::start(Disk::default(), 1, &[]);
    host.create("orders");
    for at in 0..3 {
        assert_eq!(host.produce("orders", -1, &["a"]), (0, at));
    }
    damage(host.disk.files.get_mut(ORDERS_LOG).unwrap());
    let left = host.disk.files[ORDERS_LOG].clone();
    (Host::start(host.disk, 2, &[]), left)
}

#[test]
fn damage_to_the_last_acknowledged_record_is_reported_and_not_cut() {
    let last_batch = |log: &[u8]| log.len() / 3 * 2;
    let (host, left) = killed_and_damaged(|log| *log.last_mut().unwrap() ^= 1);
    let offline = host.events.iter().find_map(|event| match event {
        Event::PartitionOffline { at, .. } => *at,
        _ => None,
    });
    assert_eq!(offline, Some(last_batch(&left) as u64), "{:?}", host.events);
    assert_eq!(host.disk.files[ORDERS_LOG], left);
    let (host, left) = killed_and_damaged(|log| log.truncate(last_batch(log)));
    assert!(
        host.events
            .iter()
            .any(|event| matches!(event, Event::PartitionOffline { .. })),
        "{:?}",
        host.events
    );
    assert_eq!(host.disk.files[ORDERS_LOG], left);
}

#[test]
fn torn_tail_behind_the_last_acknowledged_record_is_cut() {
    let (mut host, _) = killed_and_damaged(|log| log.extend([0; 40]));
    assert_eq!(host.produce("orders", -1, &["b"]), (0, 3));
}

#[test]
fn synced_mark_costs_a_group_commit_one_write_and_no_sync() {
    let mut host = Host::start(Disk::default(), 1, &[]);
    host.create("orders");
    assert_eq!(host.produce("orders", -1, &["a"]), (0, 0));
    host.wait(1_000);
    let before = (host.disk.writes, host.disk.syncs);
    for at in 1..=50 {
        assert_eq!(host.produce("orders", -1, &["a"]), (0, at));
    }
    let after = (host.disk.writes - before.0, host.disk.syncs - before.1);
    assert_eq!(after, (100, 50), "the log's own and the mark's");
    let syncs = host.disk.syncs;
    host.wait(100);
    assert_eq!(host.disk.syncs, syncs + 1, "one for all marks");
    host.wait(400);
    assert_eq!(host.disk.syncs, syncs + 1, "and none without news");
}
