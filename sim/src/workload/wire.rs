//! Requests as frames, answers as plain values.

use bytes::Bytes;
use seedlog_core::protocol::{
    ClientRequest, ErrorCode, decode_response, encode_request,
    messages::{
        CreatableTopic, CreatableTopicConfig, CreateTopicsRequestData, FetchRequestData,
        ListOffsetsPartition, ListOffsetsRequestData, ListOffsetsTopic, ProduceRequestData,
        wire::{
            fetch_request::{FetchPartition, FetchTopic},
            produce_request::{PartitionProduceData, TopicProduceData},
        },
    },
};

use crate::{
    history::{Acked, Acks, Outcome, Place},
    random::Stream,
};

/// A partition to talk about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its place in the scenario.
    pub place: Place,
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub partition: i32,
}

/// The versions that one client speaks: names, not topic ids.
#[derive(Clone, Copy, Debug)]
pub(super) struct Versions {
    produce: i16,
    fetch: i16,
    list_offsets: i16,
    create_topics: i16,
}

/// What a fetch told.
#[derive(Clone, Debug)]
pub(super) struct Fetched {
    pub(super) code: i16,
    pub(super) high_watermark: i64,
    pub(super) log_start: i64,
    pub(super) records: Bytes,
}

impl Versions {
    pub(super) fn draw(stream: &mut Stream) -> Self {
        let mut version =
            |low: u64, high: u64| i16::try_from(stream.within(low..=high)).unwrap_or(i16::MAX);
        Self {
            produce: version(3, 12),
            fetch: version(4, 12),
            list_offsets: version(1, 10),
            create_topics: version(2, 7),
        }
    }

    pub(super) fn produce(
        self,
        correlation: i32,
        target: &Target,
        acks: Acks,
        timeout_ms: i32,
        records: Bytes,
    ) -> Bytes {
        let request = ProduceRequestData {
            acks: acks.wire(),
            timeout_ms,
            topic_data: vec![TopicProduceData {
                name: target.topic.clone().into(),
                partition_data: vec![PartitionProduceData {
                    index: target.partition,
                    records: Some(records),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        frame(self.produce, correlation, &request)
    }

    /// Reads a produce answer; `Err` says what is wrong with it.
    pub(super) fn produced(self, bytes: &Bytes, target: &Target) -> Result<Outcome, String> {
        let answer = decode::<ProduceRequestData>(self.produce, bytes)?;
        let topic = answer
            .responses
            .iter()
            .find(|topic| topic.name.as_str() == target.topic);
        let part = topic.and_then(|topic| {
            let mut parts = topic.partition_responses.iter();
            parts.find(|part| part.index == target.partition)
        });
        let part = part.ok_or_else(|| format!("produce answer without {target:?}"))?;
        Ok(match part.error_code {
            0 => Outcome::Ok(Acked {
                base: part.base_offset,
                append_time: part.log_append_time_ms,
                log_start: part.log_start_offset,
            }),
            code if STORED_NOTHING.contains(&code) => Outcome::Failed(code),
            code => Outcome::Unknown(code),
        })
    }

    pub(super) fn fetch(
        self,
        correlation: i32,
        target: &Target,
        from: i64,
        max_wait_ms: i32,
        max_bytes: i32,
    ) -> Bytes {
        let request = FetchRequestData {
            replica_id: -1,
            max_wait_ms,
            min_bytes: 1,
            max_bytes,
            session_id: 0,
            session_epoch: -1,
            topics: vec![FetchTopic {
                topic: target.topic.clone().into(),
                partitions: vec![FetchPartition {
                    partition: target.partition,
                    current_leader_epoch: -1,
                    fetch_offset: from,
                    last_fetched_epoch: -1,
                    log_start_offset: -1,
                    partition_max_bytes: max_bytes,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        frame(self.fetch, correlation, &request)
    }

    pub(super) fn fetched(self, bytes: &Bytes, target: &Target) -> Result<Fetched, String> {
        let answer = decode::<FetchRequestData>(self.fetch, bytes)?;
        if answer.error_code != 0 {
            return Ok(Fetched {
                code: answer.error_code,
                high_watermark: -1,
                log_start: -1,
                records: Bytes::new(),
            });
        }
        let topic = answer
            .responses
            .iter()
            .find(|topic| topic.topic.as_str() == target.topic);
        let part = topic.and_then(|topic| {
            let mut parts = topic.partitions.iter();
            parts.find(|part| part.partition_index == target.partition)
        });
        let part = part.ok_or_else(|| format!("fetch answer without {target:?}"))?;
        Ok(Fetched {
            code: part.error_code,
            high_watermark: part.high_watermark,
            // Versions before 5 do not say it.
            log_start: if self.fetch < 5 {
                -1
            } else {
                part.log_start_offset
            },
            records: part.records.clone().unwrap_or_default(),
        })
    }

    pub(super) fn list_offsets(self, correlation: i32, target: &Target, timestamp: i64) -> Bytes {
        let request = ListOffsetsRequestData {
            replica_id: -1,
            topics: vec![ListOffsetsTopic {
                name: target.topic.clone().into(),
                partitions: vec![ListOffsetsPartition {
                    partition_index: target.partition,
                    current_leader_epoch: -1,
                    timestamp,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        frame(self.list_offsets, correlation, &request)
    }

    /// Reads a ListOffsets answer: the offset, or the error code.
    pub(super) fn listed(self, bytes: &Bytes, target: &Target) -> Result<Result<i64, i16>, String> {
        let answer = decode::<ListOffsetsRequestData>(self.list_offsets, bytes)?;
        let topic = answer
            .topics
            .iter()
            .find(|topic| topic.name.as_str() == target.topic);
        let part = topic.and_then(|topic| {
            let mut parts = topic.partitions.iter();
            parts.find(|part| part.partition_index == target.partition)
        });
        let part = part.ok_or_else(|| format!("ListOffsets answer without {target:?}"))?;
        Ok(match part.error_code {
            0 => Ok(part.offset),
            code => Err(code),
        })
    }

    pub(super) fn create_topics(
        self,
        correlation: i32,
        topics: &[super::TopicPlan],
        timeout_ms: i32,
    ) -> Bytes {
        let topics = topics.iter().map(|topic| CreatableTopic {
            name: topic.name.clone().into(),
            num_partitions: topic.partitions,
            replication_factor: topic.replication_factor,
            configs: topic
                .configs
                .iter()
                .map(|(name, value)| CreatableTopicConfig {
                    name: name.clone().into(),
                    value: Some(value.clone().into()),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        });
        let request = CreateTopicsRequestData {
            topics: topics.collect(),
            timeout_ms,
            ..Default::default()
        };
        frame(self.create_topics, correlation, &request)
    }

    /// Reads a CreateTopics answer: the first error that is not "exists already".
    pub(super) fn created(self, bytes: &Bytes) -> Result<Option<i16>, String> {
        let answer = decode::<CreateTopicsRequestData>(self.create_topics, bytes)?;
        let mut codes = answer.topics.iter().map(|topic| topic.error_code);
        Ok(codes.find(|code| *code != 0 && *code != TOPIC_ALREADY_EXISTS))
    }
}

fn frame<R: ClientRequest>(version: i16, correlation: i32, request: &R) -> Bytes {
    encode_request(version, correlation, CLIENT_ID, request)
        .expect("workloads fill only fields that their version has")
}

fn decode<R: ClientRequest>(version: i16, bytes: &Bytes) -> Result<R::Response, String> {
    decode_response::<R>(version, bytes)
        .map(|(_, answer)| answer)
        .map_err(|error| error.to_string())
}

const CLIENT_ID: &str = "workload";
const TOPIC_ALREADY_EXISTS: i16 = 36;
/// OFFSET_OUT_OF_RANGE.
pub(super) const OUT_OF_RANGE: i16 = 1;

/// Whether Kafka's producer sends again after this error.
pub(super) fn is_retriable(code: i16) -> bool {
    ErrorCode::from_code(code).is_some_and(ErrorCode::is_retriable)
}

/// Errors of a produce that rule out that this transmission was stored: CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION,
/// LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, MESSAGE_TOO_LARGE, INVALID_TOPIC_EXCEPTION, RECORD_LIST_TOO_LARGE,
/// NOT_ENOUGH_REPLICAS, INVALID_REQUIRED_ACKS, TOPIC_AUTHORIZATION_FAILED, INVALID_TIMESTAMP, UNSUPPORTED_VERSION,
/// UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD, UNKNOWN_TOPIC_ID.
const STORED_NOTHING: &[i16] = &[2, 3, 5, 6, 10, 17, 18, 19, 21, 29, 32, 35, 43, 76, 87, 100];
