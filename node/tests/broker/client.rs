//! A client of raw frames.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use seedlog_core::{
    batch::{BatchBuilder, BatchIter, Compression, NewRecord, Records},
    protocol::{
        ClientRequest, KafkaString, decode_response, encode_request,
        messages::{
            FetchRequestData, MetadataRequestData, MetadataRequestTopic, ProduceRequestData,
            wire::{
                fetch_request::{FetchPartition, FetchTopic},
                produce_request::{PartitionProduceData, TopicProduceData},
            },
        },
    },
};

use crate::process::PATIENCE;

/// A connection.
pub(crate) struct Client {
    stream: TcpStream,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream }
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask<R: ClientRequest>(
        &mut self,
        version: i16,
        request: &R,
    ) -> io::Result<R::Response> {
        self.send(version, request)?;
        self.receive::<R>(version)
    }

    pub(crate) fn send<R: ClientRequest>(&mut self, version: i16, request: &R) -> io::Result<()> {
        let bytes = encode_request(version, 1, "test", request).unwrap();
        self.stream.write_all(&bytes)
    }

    pub(crate) fn receive<R: ClientRequest>(&mut self, version: i16) -> io::Result<R::Response> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut answer)?;
        let (_, response) = decode_response::<R>(version, &Bytes::from(answer)).unwrap();
        Ok(response)
    }

    /// Asks for a topic until it has a leader, which creates it.
    pub(crate) fn await_topic(&mut self, topic: &str) {
        let request = MetadataRequestData {
            topics: Some(vec![MetadataRequestTopic {
                name: Some(name(topic)),
                ..Default::default()
            }]),
            allow_auto_topic_creation: true,
            ..Default::default()
        };
        loop {
            let answer = self.ask(9, &request).unwrap();
            let mut partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
            if partitions.any(|partition| partition.error_code == 0 && partition.leader_id >= 0) {
                return;
            }
        }
    }

    /// Produces one record and returns its offset.
    pub(crate) fn produce(&mut self, topic: &str, value: &[u8]) -> io::Result<i64> {
        let answer = self.ask(PRODUCE_VERSION, &produce(topic, value))?;
        let partition = &answer.responses[0].partition_responses[0];
        assert_eq!(partition.error_code, 0, "a batch was refused");
        Ok(partition.base_offset)
    }

    /// Fetches the records' batches from an offset on, as they lie in the log.
    pub(crate) fn fetch(&mut self, topic: &str, offset: i64) -> io::Result<Bytes> {
        let answer = self.ask(FETCH_VERSION, &fetch(topic, offset))?;
        let partition = &answer.responses[0].partitions[0];
        assert_eq!(partition.error_code, 0, "a fetch was refused");
        Ok(partition.records.clone().unwrap_or_default())
    }
}

/// A request to append one record.
pub(crate) fn produce(topic: &str, value: &[u8]) -> ProduceRequestData {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let record = NewRecord {
        timestamp: i64::try_from(now.as_millis()).unwrap(),
        key: None,
        value: Some(value),
        headers: &[],
    };
    let mut builder = BatchBuilder::new(Compression::None);
    builder.append(&record).unwrap();
    ProduceRequestData {
        acks: 1,
        timeout_ms: 30_000,
        topic_data: vec![TopicProduceData {
            name: name(topic),
            partition_data: vec![PartitionProduceData {
                records: Some(builder.build().unwrap()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn fetch(topic: &str, offset: i64) -> FetchRequestData {
    FetchRequestData {
        replica_id: -1,
        max_wait_ms: 0,
        min_bytes: 0,
        max_bytes: 50 << 20,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: name(topic),
            partitions: vec![FetchPartition {
                current_leader_epoch: -1,
                fetch_offset: offset,
                log_start_offset: -1,
                partition_max_bytes: 1 << 20,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Unpacks batches: offset and value of each record; a batch that was cut at the end of the answer is left out.
pub(crate) fn records(batches: &[u8]) -> Vec<(i64, Vec<u8>)> {
    let mut found = Vec::new();
    for batch in BatchIter::new(batches, 0).map_while(Result::ok) {
        batch.check_crc().unwrap();
        let records = Records::open(batch.bytes(), 1 << 20).unwrap();
        for record in &records {
            let record = record.unwrap();
            found.push((record.offset, record.value.unwrap_or_default().to_vec()));
        }
    }
    found
}

fn name(topic: &str) -> KafkaString {
    KafkaString::from(topic.to_owned())
}

pub(crate) const PRODUCE_VERSION: i16 = 8;
const FETCH_VERSION: i16 = 11;
