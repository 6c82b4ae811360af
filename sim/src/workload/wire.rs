//! Requests as frames, answers as plain values.

use bytes::Bytes;
use seedlog_core::{
    ids::Uuid,
    protocol::{
        ClientRequest, ErrorCode, decode_response, encode_request,
        messages::{
            AlterConfigsResource, AlterableConfig, CreatableTopic, CreatableTopicConfig,
            CreateTopicsRequestData, ElectLeadersRequestData, FetchRequestData,
            IncrementalAlterConfigsRequestData, ListOffsetsPartition, ListOffsetsRequestData,
            ListOffsetsTopic, MetadataRequestData, MetadataRequestTopic, MetadataResponsePartition,
            ProduceRequestData,
            elect_leaders_request::TopicPartitions,
            wire::{
                fetch_request::{FetchPartition, FetchTopic},
                produce_request::{PartitionProduceData, TopicProduceData},
            },
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
    metadata: i16,
    /// Whether it says in which epoch it believes that a leader leads.
    is_fenced: bool,
}

/// What a client knows of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) leader: Option<usize>,
    pub(super) epoch: i32,
    pub(super) topic_id: Uuid,
    pub(super) replicas: usize,
    pub(super) in_sync: usize,
}

impl Found {
    /// The only node leads everything.
    pub(super) const ALONE: Self = Self {
        leader: Some(0),
        epoch: -1,
        topic_id: Uuid([0; 16]),
        replicas: 1,
        in_sync: 1,
    };

    fn of(topic_id: Uuid, part: &MetadataResponsePartition) -> Self {
        Self {
            leader: node(part.leader_id),
            epoch: part.leader_epoch,
            topic_id,
            replicas: part.replica_nodes.len(),
            in_sync: part.isr_nodes.len(),
        }
    }
}

/// What a Metadata answer told.
#[derive(Clone, Debug)]
pub(super) struct Described {
    pub(super) brokers: Vec<usize>,
    /// For each target.
    pub(super) found: Vec<Option<Found>>,
}

/// How a fetch asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchOptions<'a> {
    pub(super) max_wait_ms: i32,
    pub(super) max_bytes: i32,
    pub(super) found: Option<Found>,
    pub(super) rack: Option<&'a str>,
}

/// What a fetch told.
#[derive(Clone, Debug)]
pub(super) struct Fetched {
    pub(super) code: i16,
    pub(super) high_watermark: i64,
    pub(super) log_start: i64,
    pub(super) records: Bytes,
    /// Where the leader would rather have it read (KIP-392).
    pub(super) read_replica: Option<usize>,
}

impl Versions {
    fn draw(stream: &mut Stream) -> Self {
        let mut version =
            |low: u64, high: u64| i16::try_from(stream.within(low..=high)).unwrap_or(i16::MAX);
        Self {
            produce: version(3, 12),
            fetch: version(4, 12),
            list_offsets: version(1, 10),
            create_topics: version(2, 7),
            metadata: 13,
            is_fenced: false,
        }
    }

    /// Draws the versions for so many nodes; some matter only where there is more than one.
    pub(super) fn for_nodes(nodes: usize, stream: &mut Stream) -> Self {
        let mut versions = Self::draw(stream);
        if nodes > 1 {
            versions.metadata = i16::try_from(stream.within(10..=13)).unwrap_or(13);
            versions.is_fenced = stream.one_in(2);
        }
        versions
    }

    /// Makes fetches know racks.
    pub(super) fn with_racks(mut self) -> Self {
        self.fetch = self.fetch.max(11);
        self
    }

    pub(super) fn metadata(self, correlation: i32, targets: &[Target]) -> Bytes {
        let mut names: Vec<&str> = targets.iter().map(|target| target.topic.as_str()).collect();
        names.dedup();
        let topics = names.into_iter().map(|name| MetadataRequestTopic {
            name: Some(name.to_owned().into()),
            ..Default::default()
        });
        let request = MetadataRequestData {
            topics: Some(topics.collect()),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        frame(self.metadata, correlation, &request)
    }

    pub(super) fn described(self, bytes: &Bytes, targets: &[Target]) -> Result<Described, String> {
        let answer = decode::<MetadataRequestData>(self.metadata, bytes)?;
        let find = |target: &Target| {
            let topic = answer.topics.iter().find(|topic| {
                topic.error_code == 0
                    && topic
                        .name
                        .as_ref()
                        .is_some_and(|name| name.as_str() == target.topic)
            })?;
            let mut parts = topic.partitions.iter();
            let part = parts.find(|part| part.partition_index == target.partition)?;
            Some(Found::of(Uuid::from(topic.topic_id), part))
        };
        let brokers = answer.brokers.iter();
        Ok(Described {
            brokers: brokers.filter_map(|broker| node(broker.node_id)).collect(),
            found: targets.iter().map(find).collect(),
        })
    }

    /// Returns the epoch that a request names, if it names one.
    fn epoch(self, version: i16, since: i16, found: Option<Found>) -> i32 {
        let named = self.is_fenced && version >= since;
        found.filter(|_| named).map_or(-1, |found| found.epoch)
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
        options: FetchOptions<'_>,
    ) -> Bytes {
        let FetchOptions {
            max_wait_ms,
            max_bytes,
            found,
            rack,
        } = options;
        let request = FetchRequestData {
            replica_id: -1,
            max_wait_ms,
            min_bytes: 1,
            max_bytes,
            session_id: 0,
            session_epoch: -1,
            rack_id: rack.unwrap_or_default().to_owned().into(),
            topics: vec![FetchTopic {
                topic: target.topic.clone().into(),
                partitions: vec![FetchPartition {
                    partition: target.partition,
                    current_leader_epoch: self.epoch(self.fetch, 9, found),
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
                read_replica: None,
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
            read_replica: node(part.preferred_read_replica),
        })
    }

    pub(super) fn list_offsets(
        self,
        correlation: i32,
        target: &Target,
        found: Option<Found>,
        timestamp: i64,
    ) -> Bytes {
        let request = ListOffsetsRequestData {
            replica_id: -1,
            topics: vec![ListOffsetsTopic {
                name: target.topic.clone().into(),
                partitions: vec![ListOffsetsPartition {
                    partition_index: target.partition,
                    current_leader_epoch: self.epoch(self.list_offsets, 4, found),
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

impl Versions {
    /// Has the preferred replica of a partition elected.
    pub(super) fn elect(self, correlation: i32, target: &Target) -> Bytes {
        let request = ElectLeadersRequestData {
            election_type: PREFERRED,
            topic_partitions: Some(vec![TopicPartitions {
                topic: target.topic.clone().into(),
                partitions: vec![target.partition],
                ..Default::default()
            }]),
            timeout_ms: 10_000,
            ..Default::default()
        };
        frame(ELECT_LEADERS, correlation, &request)
    }

    pub(super) fn elected(self, bytes: &Bytes) -> Result<(), String> {
        decode::<ElectLeadersRequestData>(ELECT_LEADERS, bytes).map(|_| ())
    }

    /// Changes a setting of a topic.
    pub(super) fn configure(
        self,
        correlation: i32,
        target: &Target,
        name: &str,
        value: &str,
    ) -> Bytes {
        let request = IncrementalAlterConfigsRequestData {
            resources: vec![AlterConfigsResource {
                resource_type: TOPIC,
                resource_name: target.topic.clone().into(),
                configs: vec![AlterableConfig {
                    name: name.to_owned().into(),
                    config_operation: SET,
                    value: Some(value.to_owned().into()),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            validate_only: false,
            ..Default::default()
        };
        frame(ALTER_CONFIGS, correlation, &request)
    }

    pub(super) fn configured(self, bytes: &Bytes) -> Result<(), String> {
        decode::<IncrementalAlterConfigsRequestData>(ALTER_CONFIGS, bytes).map(|_| ())
    }
}

/// The version of ElectLeaders that workloads speak, and its type of a preferred election.
const ELECT_LEADERS: i16 = 2;
const PREFERRED: i8 = 0;
/// The version of IncrementalAlterConfigs that workloads speak, its type of a topic and its operation that sets.
const ALTER_CONFIGS: i16 = 1;
const TOPIC: i8 = 2;
const SET: i8 = 0;

/// Returns the index of a node by its id; nodes are numbered from 1.
fn node(id: i32) -> Option<usize> {
    usize::try_from(id).ok()?.checked_sub(1)
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

/// Whether an error says that what the client knows of leaders is wrong or missing: UNKNOWN_TOPIC_OR_PARTITION,
/// LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, REPLICA_NOT_AVAILABLE, KAFKA_STORAGE_ERROR, FENCED_LEADER_EPOCH,
/// UNKNOWN_LEADER_EPOCH, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID.
pub(super) fn is_misled(code: i16) -> bool {
    matches!(code, 3 | 5 | 6 | 9 | 56 | 74 | 75 | 100 | 103)
}

/// Errors of a produce that rule out that this transmission was stored: CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION,
/// LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, MESSAGE_TOO_LARGE, INVALID_TOPIC_EXCEPTION, RECORD_LIST_TOO_LARGE,
/// NOT_ENOUGH_REPLICAS, INVALID_REQUIRED_ACKS, TOPIC_AUTHORIZATION_FAILED, INVALID_TIMESTAMP, UNSUPPORTED_VERSION,
/// UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD, UNKNOWN_TOPIC_ID.
const STORED_NOTHING: &[i16] = &[2, 3, 5, 6, 10, 17, 18, 19, 21, 29, 32, 35, 43, 76, 87, 100];
