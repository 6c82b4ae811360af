//! A client that costs as little as possible, so that the subject is what limits.

use std::{
    io::{BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
};

use bytes::Bytes;
use seedlog_core::protocol::{
    ClientRequest, KafkaString, decode_response, encode_request,
    messages::{
        CreatableTopic, CreateTopicsRequestData, FetchRequestData, MetadataRequestData,
        MetadataRequestTopic, ProduceRequestData,
        wire::fetch_request::{FetchPartition, FetchTopic},
    },
};

use crate::batch::{PRODUCE_VERSION, Request, TOPIC, batch_bytes};

/// A connection to a subject.
pub(crate) struct Client {
    stream: TcpStream,
    answers: BufReader<TcpStream>,
    answer: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let answers = BufReader::with_capacity(64 << 10, stream.try_clone().unwrap());
        Self {
            stream,
            answers,
            answer: Vec::new(),
        }
    }

    /// Creates the topic that is produced to.
    pub(crate) fn create_topic(&mut self, partitions: usize) {
        let request = CreateTopicsRequestData {
            timeout_ms: 30_000,
            topics: vec![CreatableTopic {
                name: topic(),
                num_partitions: i32::try_from(partitions).unwrap(),
                replication_factor: 1,
                ..Default::default()
            }],
            ..Default::default()
        };
        let answer = self.ask(5, &request);
        let codes: Vec<i16> = answer.topics.iter().map(|topic| topic.error_code).collect();
        assert_eq!(codes, [0], "the topic was not created");
    }

    /// Asks for the topic until it has a leader, which creates it.
    pub(crate) fn await_topic(&mut self) {
        let request = MetadataRequestData {
            topics: Some(vec![MetadataRequestTopic {
                name: Some(topic()),
                ..Default::default()
            }]),
            allow_auto_topic_creation: true,
            ..Default::default()
        };
        loop {
            let answer = self.ask(9, &request);
            let mut partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
            if partitions.any(|partition| partition.error_code == 0 && partition.leader_id >= 0) {
                return;
            }
        }
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn ask<R: ClientRequest>(&mut self, version: i16, request: &R) -> R::Response {
        let bytes = encode_request(version, 1, "bench", request).unwrap();
        self.stream.write_all(&bytes).unwrap();
        self.receive();
        let answer = Bytes::copy_from_slice(&self.answer);
        decode_response::<R>(version, &answer).unwrap().1
    }

    fn receive(&mut self) {
        let mut length = [0; 4];
        self.answers.read_exact(&mut length).unwrap();
        self.answer.resize(u32::from_be_bytes(length) as usize, 0);
        self.answers.read_exact(&mut self.answer).unwrap();
    }

    /// Sends requests in turn until `bytes` are sent, with `in_flight` unanswered at a time; returns how many were answered.
    pub(crate) fn produce(
        &mut self,
        requests: &[Request],
        bytes: u64,
        in_flight: usize,
        is_kafka: bool,
    ) -> u64 {
        let request_bytes = requests[0].bytes.len() as u64;
        let count = bytes.div_ceil(request_bytes);
        let mut sent = 0;
        for answered in 0..count {
            while sent < count && sent - answered < in_flight as u64 {
                let request = &requests[(sent % requests.len() as u64) as usize];
                self.stream.write_all(&request.bytes).unwrap();
                sent += 1;
            }
            self.receive();
            if is_kafka && answered % 64 == 0 {
                self.check_produced();
            }
        }
        count
    }

    fn check_produced(&self) {
        let answer = Bytes::copy_from_slice(&self.answer);
        let (_, answer) = decode_response::<ProduceRequestData>(PRODUCE_VERSION, &answer).unwrap();
        let partitions = answer
            .responses
            .iter()
            .flat_map(|topic| &topic.partition_responses);
        let codes: Vec<i16> = partitions.map(|partition| partition.error_code).collect();
        assert_eq!(codes, [0], "a batch was refused");
    }

    /// Fetches from the beginning of the log, again and again, until `bytes` came; returns requests and bytes.
    pub(crate) fn fetch(&mut self, bytes: u64, chunk: usize) -> (u64, u64) {
        let (mut requests, mut received, mut offset) = (0, 0, 0);
        while received < bytes {
            let answer = self.ask(FETCH_VERSION, &fetch(offset, chunk));
            requests += 1;
            let partition = &answer.responses[0].partitions[0];
            assert_eq!(partition.error_code, 0, "a fetch was refused");
            let mut records = partition.records.as_deref().unwrap_or_default();
            received += records.len() as u64;
            if records.is_empty() {
                assert_ne!(offset, 0, "the log is empty");
                offset = 0;
            }
            while records.len() >= 27 && records.len() >= batch_bytes(records) {
                let base = i64::from_be_bytes(records[..8].try_into().unwrap());
                let last_delta = i32::from_be_bytes(records[23..27].try_into().unwrap());
                offset = base + i64::from(last_delta) + 1;
                records = &records[batch_bytes(records)..];
            }
        }
        (requests, received)
    }

    /// Fetches from a floor, whose requests are a position and a length.
    pub(crate) fn fetch_from_floor(&mut self, bytes: u64, chunk: usize, file: u64) -> (u64, u64) {
        let (mut requests, mut received, mut at) = (0, 0, 0);
        while received < bytes {
            let len = (chunk as u64).min(file - at);
            let mut request = [0; 12];
            request[..8].copy_from_slice(&at.to_be_bytes());
            request[8..].copy_from_slice(&u32::try_from(len).unwrap().to_be_bytes());
            self.stream.write_all(&request).unwrap();
            self.receive();
            requests += 1;
            received += len;
            at = (at + len) % file;
        }
        (requests, received)
    }
}

/// The topic that is produced to.
pub(crate) fn topic() -> KafkaString {
    KafkaString::from(TOPIC.to_owned())
}

fn fetch(offset: i64, chunk: usize) -> FetchRequestData {
    let chunk = i32::try_from(chunk).unwrap();
    FetchRequestData {
        replica_id: -1,
        max_wait_ms: 100,
        min_bytes: 0,
        max_bytes: chunk,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: topic(),
            partitions: vec![FetchPartition {
                partition: 0,
                current_leader_epoch: -1,
                fetch_offset: offset,
                log_start_offset: -1,
                partition_max_bytes: chunk,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

const FETCH_VERSION: i16 = 11;
