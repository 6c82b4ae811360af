//! Requests, made once and sent again and again.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use seedlog_core::{
    batch::{BatchBuilder, Compression, NewRecord},
    protocol::{
        KafkaString, encode_request,
        messages::wire::produce_request::{
            PartitionProduceData, ProduceRequestData, TopicProduceData,
        },
    },
};

/// A produce request and where its batch begins; the partition's number stands a few bytes before it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) bytes: Bytes,
    pub(crate) batch_at: usize,
}

impl Request {
    /// Makes a request of about `request_bytes` for one partition, in records of one kibibyte.
    pub(crate) fn new(request_bytes: usize, partition: usize, acks: i16) -> Self {
        let batch = batch(request_bytes);
        let request = ProduceRequestData {
            acks,
            timeout_ms: 30_000,
            topic_data: vec![TopicProduceData {
                name: KafkaString::from(TOPIC.to_owned()),
                partition_data: vec![PartitionProduceData {
                    index: i32::try_from(partition).unwrap(),
                    records: Some(batch.clone()),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let bytes = encode_request(PRODUCE_VERSION, 1, "bench", &request).unwrap();
        let batch_at = bytes
            .windows(batch.len())
            .position(|window| window == batch)
            .expect("the batch is in the request");
        Self { bytes, batch_at }
    }
}

/// Makes a batch that is about `request_bytes` long with the request around it.
pub(crate) fn batch(request_bytes: usize) -> Bytes {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let timestamp = i64::try_from(now.as_millis()).unwrap();
    let records = (request_bytes / 1024).max(1);
    // A record has about ten bytes around its value, a batch and a request about 150.
    let value_bytes = (request_bytes - 150) / records - 10;
    let value: Vec<u8> = (0..=250).cycle().take(value_bytes).collect();
    let mut builder = BatchBuilder::new(Compression::None);
    for _ in 0..records {
        let record = NewRecord {
            timestamp,
            key: None,
            value: Some(&value),
            headers: &[],
        };
        builder.append(&record).unwrap();
    }
    builder.build().unwrap()
}

/// Returns how long a batch is, by its own header.
pub(crate) fn batch_bytes(batch: &[u8]) -> usize {
    12 + u32::from_be_bytes(batch[8..12].try_into().unwrap()) as usize
}

pub(crate) const TOPIC: &str = "bench";
pub(crate) const PRODUCE_VERSION: i16 = 8;
