//! Whole brokers that reach one another over links that only delay, each on a disk in memory.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::tests::{Disk, produce_request};
use super::*;
use crate::{
    ids::{ConnectionId, NodeId, Uuid},
    planted::PlantedSet,
    protocol::{
        self, ClientRequest, KafkaString, decode_response, encode_request,
        messages::{
            CreatableTopic, CreateTopicsRequestData, CreateTopicsResponseData,
            DescribeQuorumRequestData, MetadataRequestData, MetadataRequestTopic,
            MetadataResponseData, quorum::describe_quorum_request,
        },
    },
    storage::{Completion, Frame, Part},
    time::Timestamp,
};

const CLIENT: ConnectionId = ConnectionId(1);

struct Seated {
    broker: Option<Broker>,
    disk: Disk,
    events: Vec<Event>,
    answers: VecDeque<Bytes>,
    /// Whom each connection reaches: the other node and its number for it.
    links: BTreeMap<ConnectionId, (usize, ConnectionId)>,
    next_accepted: u64,
    incarnation: u8,
}

/// Something under way to a node.
struct Parcel {
    at: Instant,
    to: usize,
    incarnation: u8,
    input: Input,
}

struct Net {
    nodes: Vec<Seated>,
    parcels: Vec<Parcel>,
    now: Now,
    correlation_id: i32,
    properties: BTreeMap<String, String>,
}

const DELAY_MS: u64 = 1;
/// More turns than this in one moment are a loop.
const TURNS_MAX: usize = 10_000;

fn node_id(at: usize) -> NodeId {
    NodeId(i32::try_from(at).unwrap() + 1)
}

impl Net {
    fn new(count: usize) -> Self {
        let seated = || Seated {
            broker: None,
            disk: Disk::default(),
            events: Vec::new(),
            answers: VecDeque::new(),
            links: BTreeMap::new(),
            next_accepted: 10,
            incarnation: 0,
        };
        let properties = [
            ("default.replication.factor", "3"),
            ("min.insync.replicas", "2"),
        ];
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let mut net = Self {
            nodes: (0..count).map(|_| seated()).collect(),
            parcels: Vec::new(),
            now: Now {
                instant: Instant::ORIGIN,
                wall: Timestamp::from_millis(1_700_000_000_000),
            },
            correlation_id: 0,
            properties: properties.into_iter().map(own).collect(),
        };
        for at in 0..count {
            net.start(at);
        }
        net
    }

    fn start(&mut self, at: usize) {
        let listener = |name: &str, advertised_port, kind| Listener {
            name: name.into(),
            advertised_host: format!("node-{at}"),
            advertised_port,
            kind,
        };
        let voter = |at| Voter {
            node_id: node_id(at),
            host: format!("node-{at}"),
            port: 9093,
        };
        let config = BrokerConfig {
            node_id: node_id(at),
            listeners: vec![
                listener("PLAINTEXT", 9092, protocol::Listener::Broker),
                listener("CONTROLLER", 9093, protocol::Listener::Controller),
            ],
            voters: (0..self.nodes.len()).map(voter).collect(),
            rack: None,
            log_dirs: 1,
            properties: self.properties.clone(),
            planted: PlantedSet::NONE,
        };
        let node = &mut self.nodes[at];
        node.incarnation += 1;
        let seed = u8::try_from(at).unwrap() * 16 + node.incarnation;
        let identity = Identity {
            incarnation: Uuid::from_random([seed; 16]),
            seed: [seed; 32],
        };
        node.broker = Some(Broker::new(config, identity, self.now));
        self.drain(at);
        self.feed(
            at,
            Input::Connected {
                connection: CLIENT,
                peer: std::net::SocketAddr::from(([127, 0, 0, 1], 5000)),
                listener: 0,
            },
        );
    }

    fn kill(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.broker = None;
        node.incarnation += 1;
        for (other, connection) in std::mem::take(&mut node.links).into_values() {
            self.nodes[other].links.remove(&connection);
            self.send(other, Input::Closed { connection });
        }
    }

    fn send(&mut self, to: usize, input: Input) {
        self.parcels.push(Parcel {
            at: self.now.instant.plus_millis(DELAY_MS),
            to,
            incarnation: self.nodes[to].incarnation,
            input,
        });
    }

    fn feed(&mut self, at: usize, input: Input) {
        if let Some(broker) = &mut self.nodes[at].broker {
            broker.handle(self.now, input);
            self.drain(at);
        }
    }

    fn drain(&mut self, at: usize) {
        loop {
            let mut done = Vec::new();
            while let Some(output) = self.nodes[at].broker.as_mut().and_then(Broker::poll_output) {
                match output {
                    Output::Storage(op) => {
                        let result = self.nodes[at].disk.perform(op.op);
                        done.push(Completion { id: op.id, result });
                    }
                    Output::Send { connection, frame } => self.carry(at, connection, frame),
                    Output::Event(event) => self.nodes[at].events.push(event),
                    Output::Stopped => self.nodes[at].broker = None,
                    Output::Dial {
                        connection,
                        host,
                        port,
                        ..
                    } => self.dial(at, connection, &host, port),
                    Output::Close { connection } => self.hang_up(at, connection),
                    Output::PauseReading { .. } | Output::ResumeReading { .. } => {}
                }
            }
            if done.is_empty() {
                return;
            }
            if let Some(broker) = &mut self.nodes[at].broker {
                broker.handle(self.now, Input::StorageMany(done));
            }
        }
    }

    fn dial(&mut self, from: usize, connection: ConnectionId, host: &str, port: u16) {
        let to = (0..self.nodes.len())
            .find(|at| format!("node-{at}") == host)
            .unwrap();
        if self.nodes[to].broker.is_none() {
            return self.send(from, Input::Closed { connection });
        }
        let other = &mut self.nodes[to];
        other.next_accepted += 1;
        let accepted = ConnectionId(other.next_accepted);
        other.links.insert(accepted, (from, connection));
        self.nodes[from].links.insert(connection, (to, accepted));
        let connected = Input::Connected {
            connection: accepted,
            peer: std::net::SocketAddr::from(([127, 0, 0, 1], 6000)),
            listener: u16::from(port == 9093),
        };
        self.send(to, connected);
        self.send(from, Input::Dialled { connection });
    }

    fn hang_up(&mut self, at: usize, connection: ConnectionId) {
        if let Some((other, theirs)) = self.nodes[at].links.remove(&connection) {
            self.nodes[other].links.remove(&theirs);
            self.send(other, Input::Closed { connection: theirs });
        }
    }

    fn carry(&mut self, at: usize, connection: ConnectionId, frame: Frame) {
        let bytes = self.bytes(at, frame).slice(4..);
        if connection == CLIENT {
            self.nodes[at].answers.push_back(bytes);
        } else if let Some((other, theirs)) = self.nodes[at].links.get(&connection).copied() {
            let connection = theirs;
            self.send(other, Input::Frame { connection, bytes });
        }
    }

    fn bytes(&mut self, at: usize, frame: Frame) -> Bytes {
        let parts = match frame {
            Frame::Whole(bytes) => return bytes,
            Frame::Parts(parts) => parts,
        };
        let mut whole = Vec::new();
        for part in parts {
            match part {
                Part::Bytes(bytes) => whole.extend_from_slice(&bytes),
                Part::File(range) => {
                    let content = self.nodes[at].disk.content(range.file);
                    let from = usize::try_from(range.at).unwrap();
                    let len = usize::try_from(range.len).unwrap();
                    whole.extend_from_slice(&content[from..from + len]);
                }
            }
        }
        Bytes::from(whole)
    }

    /// Lets time pass until `done` or for so long; whether it was done.
    fn run(&mut self, millis: u64, mut done: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now.instant.plus_millis(millis);
        let (mut since, mut turns) = (self.now.instant, 0);
        loop {
            turns = if since == self.now.instant {
                turns + 1
            } else {
                0
            };
            since = self.now.instant;
            assert!(
                turns < TURNS_MAX,
                "time stands still: {:#?}",
                self.deadlines()
            );
            if done(self) {
                return true;
            }
            let parcel = self.parcels.iter().map(|parcel| parcel.at).min();
            let brokers = self.nodes.iter().filter_map(|node| node.broker.as_ref());
            let due = brokers.filter_map(Broker::deadline).min();
            let next = parcel.into_iter().chain(due).min().unwrap_or(end).min(end);
            if next > self.now.instant {
                let passed = next.since(self.now.instant).as_millis();
                self.now.instant = next;
                let wall = self.now.wall.as_millis() + i64::try_from(passed).unwrap();
                self.now.wall = Timestamp::from_millis(wall);
            }
            if self.now.instant >= end {
                return done(self);
            }
            if let Some(at) = self
                .parcels
                .iter()
                .position(|parcel| parcel.at <= self.now.instant)
            {
                let parcel = self.parcels.remove(at);
                if self.nodes[parcel.to].incarnation == parcel.incarnation {
                    self.feed(parcel.to, parcel.input);
                }
                continue;
            }
            for at in 0..self.nodes.len() {
                let deadline = self.nodes[at].broker.as_ref().and_then(Broker::deadline);
                if deadline.is_some_and(|deadline| deadline <= self.now.instant) {
                    self.feed(at, Input::Timeout);
                }
            }
        }
    }

    /// What each broker waits for, by the machine that does.
    fn deadlines(&self) -> Vec<[(&'static str, Option<Instant>); 7]> {
        let brokers = self.nodes.iter().filter_map(|node| node.broker.as_ref());
        let of = |broker: &Broker| {
            let cluster = broker.cluster.as_ref();
            [
                ("partitions", broker.partitions.deadline()),
                ("frontend", broker.frontend.deadline()),
                ("cluster", cluster.and_then(|cluster| cluster.deadline())),
                ("links", broker.links.deadline()),
                ("fetchers", broker.fetchers.deadline()),
                ("proposals", broker.isr_proposals.deadline()),
                ("marks", broker.synced_marks.deadline()),
            ]
        };
        brokers.map(of).collect()
    }

    fn ask<R: ClientRequest>(&mut self, at: usize, version: i16, request: &R) -> R::Response {
        self.correlation_id += 1;
        let frame = encode_request(version, self.correlation_id, "test", request).unwrap();
        self.nodes[at].answers.clear();
        self.feed(
            at,
            Input::Frame {
                connection: CLIENT,
                bytes: frame.slice(4..),
            },
        );
        assert!(
            self.run(30_000, |net| !net.nodes[at].answers.is_empty()),
            "no answer"
        );
        let answer = self.nodes[at].answers.pop_front().unwrap();
        decode_response::<R>(version, &answer).unwrap().1
    }

    fn is_ready(&self, at: usize) -> bool {
        self.nodes[at].events.contains(&Event::Ready)
    }

    fn await_ready(&mut self) {
        let all = |net: &Self| (0..net.nodes.len()).all(|at| net.is_ready(at));
        let ready = self.run(30_000, all);
        let events: Vec<_> = self.nodes.iter().map(|node| node.events.clone()).collect();
        assert!(ready, "{events:#?}");
    }

    fn create(&mut self, at: usize, topic: &str) -> CreateTopicsResponseData {
        let topic = CreatableTopic {
            name: KafkaString::from(topic.to_owned()),
            num_partitions: 1,
            replication_factor: 3,
            ..CreatableTopic::default()
        };
        let request = CreateTopicsRequestData {
            topics: vec![topic],
            timeout_ms: 10_000,
            ..CreateTopicsRequestData::default()
        };
        self.ask(at, 7, &request)
    }

    fn describe(&mut self, at: usize, topic: &str) -> MetadataResponseData {
        let topic = MetadataRequestTopic {
            name: Some(KafkaString::from(topic.to_owned())),
            ..MetadataRequestTopic::default()
        };
        let request = MetadataRequestData {
            topics: Some(vec![topic]),
            ..MetadataRequestData::default()
        };
        self.ask(at, 12, &request)
    }

    fn leader(&mut self, at: usize, topic: &str) -> Option<usize> {
        let answer = self.describe(at, topic);
        let partition = answer.topics[0].partitions.first()?;
        usize::try_from(partition.leader_id - 1).ok()
    }

    /// Produces through whoever leads, as a client does that asks until it is answered.
    fn produce(&mut self, asked: usize, topic: &str, value: &str) -> i64 {
        for _ in 0..200 {
            if let Some(leader) = self.leader(asked, topic)
                && self.nodes[leader].broker.is_some()
            {
                let answer = self.ask(leader, 9, &produce_request(topic, -1, &[value]));
                let partition = &answer.responses[0].partition_responses[0];
                if partition.error_code == 0 {
                    return partition.base_offset;
                }
            }
            self.run(100, |_| false);
        }
        panic!("{topic} takes no records");
    }
}

#[test]
fn three_empty_directories_become_a_cluster_that_replicates() {
    let mut net = Net::new(3);
    net.await_ready();
    let created = net.create(0, "orders");
    assert_eq!(created.topics[0].error_code, 0, "{created:?}");
    net.run(1_000, |_| false);
    assert_eq!(net.produce(0, "orders", "one"), 0);
    assert_eq!(net.produce(1, "orders", "two"), 1);
    net.run(2_000, |_| false);
    for node in &net.nodes {
        let probe = node.broker.as_ref().unwrap().probe();
        let partition = &probe.partitions[0];
        assert_eq!(partition.end, 2, "{partition:?}");
        assert_eq!(partition.high_watermark, 2, "{partition:?}");
    }
}

#[test]
fn every_broker_asks_the_quorums_leader_to_describe_it() {
    let mut net = Net::new(3);
    net.await_ready();
    let partition = describe_quorum_request::PartitionData::default().with_partition_index(0);
    let topic = describe_quorum_request::TopicData::default()
        .with_topic_name(KafkaString::from("__cluster_metadata".to_owned()))
        .with_partitions(vec![partition]);
    let request = DescribeQuorumRequestData::default().with_topics(vec![topic]);
    for version in 0..=2 {
        let leaders: Vec<_> = (0..3)
            .map(|at| {
                let answer = net.ask(at, version, &request);
                let partition = &answer.topics[0].partitions[0];
                assert_eq!(partition.error_code, 0, "{answer:?}");
                assert_eq!(partition.current_voters.len(), 3, "{answer:?}");
                (partition.leader_id, partition.leader_epoch)
            })
            .collect();
        assert_eq!(leaders[0], leaders[1]);
        assert_eq!(leaders[0], leaders[2]);
    }
}

#[test]
fn cluster_goes_on_without_any_one_of_its_brokers() {
    for victim in 0..3 {
        let mut net = Net::new(3);
        net.await_ready();
        net.create(0, "orders");
        net.run(1_000, |_| false);
        assert_eq!(net.produce(0, "orders", "one"), 0);
        net.kill(victim);
        let asked = (victim + 1) % 3;
        // A produce that was told to have timed out may be in the log all the same.
        let second = net.produce(asked, "orders", "two");
        assert!(second >= 1, "without {victim}");
        net.start(victim);
        net.nodes[victim].events.clear();
        let ready = net.run(60_000, |net| net.is_ready(victim));
        assert!(ready, "{:?}", net.nodes[victim].events);
        assert!(net.produce(victim, "orders", "three") > second);
        net.run(5_000, |_| false);
        let answer = net.describe(asked, "orders");
        let partition = &answer.topics[0].partitions[0];
        assert_eq!(partition.isr_nodes.len(), 3, "{answer:?}");
    }
}
