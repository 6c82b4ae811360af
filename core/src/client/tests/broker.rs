//! Brokers as a test writes them: logs, leaders, and what goes wrong next.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::{
    batch::{Batch, BatchIter},
    client::Address,
    ids::{Epoch, NodeId, Offset, TopicName, TopicPartition, Uuid},
    protocol::{
        ApiKey, DecodeLimits, ErrorCode, FetchPartitionResponse, FetchRecords, FetchRequest,
        FetchResponse, FetchTopicResponse, Few, FramePart, KafkaString, Listener,
        ProducePartitionResponse, ProduceRequest, ProduceResponse, ProduceTopicResponse, Request,
        RequestBody, ResponseBody, api_versions, decode_request, encode_fetch_response,
        encode_response,
        messages::{
            ApiVersionsResponseData, CreatableTopicResult, CreateTopicsRequestData,
            CreateTopicsResponseData, DeletableTopicResult, DeleteTopicsRequestData,
            DeleteTopicsResponseData, DescribeConfigsRequestData, DescribeConfigsResourceResult,
            DescribeConfigsResponseData, DescribeConfigsResult, ListOffsetsPartitionResponse,
            ListOffsetsRequestData, ListOffsetsResponseData, ListOffsetsTopicResponse,
            MetadataRequestData, MetadataResponseBroker, MetadataResponseData,
            MetadataResponsePartition, MetadataResponseTopic,
        },
        unsupported_api_versions_response,
    },
};

/// What a broker does after a request.
pub(super) enum Reaction {
    Answer { after_ms: u64, bytes: Bytes },
    Hangup,
}

/// What goes wrong with the next request of an API.
#[derive(Clone, Debug)]
pub(super) enum Mishap {
    /// Answers each partition with an error, without doing anything.
    Refuse(ErrorCode),
    /// Does it, but hangs up instead of answering.
    DoAndHangUp,
    /// Hangs up without doing anything.
    HangUp,
    /// Does it, but never answers.
    DoSilently,
    /// Answers with these bytes after the correlation id.
    Garbage(Bytes),
}

/// A partition's log.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    pub(super) batches: Vec<Bytes>,
    pub(super) start: Offset,
    pub(super) end: Offset,
    pub(super) leader: i32,
    pub(super) epoch: i32,
}

impl Log {
    /// Appends a batch as a broker does.
    pub(super) fn append(&mut self, bytes: &Bytes) -> Offset {
        let base = self.end;
        let mut batch = Batch::split(bytes).unwrap();
        assert!(batch.assign(base, Epoch(self.epoch)));
        let stored = batch.to_bytes();
        let next = BatchIter::new(&stored, 0).next().unwrap().unwrap();
        self.end = next.header().next_offset().unwrap();
        self.batches.push(stored.clone());
        base
    }

    fn read(&self, offset: Offset, max: usize) -> Bytes {
        let mut bytes = Vec::new();
        for stored in &self.batches {
            let batch = BatchIter::new(stored, 0).next().unwrap().unwrap();
            let behind = batch.header().next_offset().unwrap() > offset;
            if behind && (bytes.is_empty() || bytes.len() < max) {
                bytes.extend_from_slice(stored);
            }
        }
        // An answer of limited size ends where it ends, but the first batch is whole.
        let whole = crate::batch::batch_size(&bytes).ok().flatten().unwrap_or(0);
        bytes.truncate(max.max(whole));
        bytes.into()
    }
}

/// All brokers, and the truth about their topics.
#[derive(Debug, Default)]
pub(super) struct Cast {
    pub(super) brokers: BTreeMap<NodeId, Address>,
    pub(super) down: Vec<i32>,
    pub(super) logs: BTreeMap<TopicPartition, Log>,
    pub(super) mishaps: VecDeque<(ApiKey, Mishap)>,
    pub(super) requests: Vec<(NodeId, Request)>,
    /// The newest version of ApiVersions that is understood.
    pub(super) api_versions_max: i16,
    /// Caps on single APIs, as an older broker has them.
    pub(super) caps: BTreeMap<i16, i16>,
}

pub(super) fn topic_partition(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition {
        topic: TopicName::new(topic),
        partition,
    }
}

fn topic_id(topic: &str) -> Uuid {
    let mut id = [9; 16];
    for (at, byte) in topic.bytes().enumerate() {
        id[at % 16] ^= byte;
    }
    Uuid(id)
}

impl Cast {
    /// Brokers with these ids, and a topic `t` whose partitions they lead in turn.
    pub(super) fn new(ids: &[i32], partitions: i32) -> Self {
        let mut cast = Self {
            api_versions_max: 4,
            ..Self::default()
        };
        for id in ids {
            let port = 9_000 + u16::try_from(*id).unwrap();
            cast.brokers.insert(NodeId(*id), Address::new("b", port));
        }
        for partition in 0..partitions {
            let leader = ids[usize::try_from(partition).unwrap() % ids.len()];
            let log = Log {
                leader,
                epoch: 3,
                ..Log::default()
            };
            cast.logs.insert(topic_partition("t", partition), log);
        }
        cast
    }

    pub(super) fn bootstrap(&self) -> Vec<Address> {
        self.brokers.values().cloned().collect()
    }

    pub(super) fn listening(&self, to: &Address) -> Option<NodeId> {
        let found = self.brokers.iter().find(|(_, address)| *address == to);
        found
            .map(|(id, _)| *id)
            .filter(|id| !self.down.contains(&id.0))
    }

    pub(super) fn asked(&self, api: ApiKey) -> usize {
        let requests = self.requests.iter();
        requests.filter(|(_, r)| r.header.api == api).count()
    }

    pub(super) fn react(&mut self, node: NodeId, frame: &Bytes) -> VecDeque<Reaction> {
        let answer = |bytes: Bytes| VecDeque::from([Reaction::Answer { after_ms: 0, bytes }]);
        let version = i16::from_be_bytes(*frame[2..].first_chunk().unwrap());
        let id = i32::from_be_bytes(*frame[4..].first_chunk().unwrap());
        if frame.starts_with(&ApiKey::ApiVersions.key().to_be_bytes())
            && version > self.api_versions_max
        {
            return answer(unsupported_api_versions_response(id).slice(4..));
        }
        let request = decode_request(frame, &DecodeLimits::new(Listener::Broker)).unwrap();
        self.requests.push((node, request.clone()));
        let api = request.header.api;
        let due = self.mishaps.front().is_some_and(|(of, _)| *of == api);
        let mishap = due.then(|| self.mishaps.pop_front().unwrap().1);
        let refusal = match mishap {
            Some(Mishap::HangUp) => return VecDeque::from([Reaction::Hangup]),
            Some(Mishap::Garbage(bytes)) => {
                let mut frame = id.to_be_bytes().to_vec();
                frame.extend_from_slice(&bytes);
                return answer(frame.into());
            }
            Some(Mishap::Refuse(error)) => error,
            _ => ErrorCode::None,
        };
        let acks_none = matches!(&request.body, RequestBody::Produce(body) if body.acks == 0);
        let (after_ms, bytes) = self.answer(node, &request, refusal);
        match mishap {
            Some(Mishap::DoAndHangUp) => VecDeque::from([Reaction::Hangup]),
            Some(Mishap::DoSilently) => VecDeque::new(),
            _ if acks_none => VecDeque::new(),
            _ => VecDeque::from([Reaction::Answer {
                after_ms,
                bytes: bytes.slice(4..),
            }]),
        }
    }

    fn answer(&mut self, node: NodeId, request: &Request, refusal: ErrorCode) -> (u64, Bytes) {
        let (version, id) = (request.header.version, request.header.correlation_id);
        let body: ResponseBody = match &request.body {
            RequestBody::ApiVersions(_) => self.versions(refusal).into(),
            RequestBody::Metadata(body) => self.metadata(body).into(),
            RequestBody::ListOffsets(body) => self.offsets(node, body, refusal).into(),
            RequestBody::Produce(body) => self.produce(node, body, refusal).into(),
            RequestBody::CreateTopics(body) => create_topics(body, refusal).into(),
            RequestBody::DeleteTopics(body) => delete_topics(body, refusal).into(),
            RequestBody::DescribeConfigs(body) => describe_configs(node, body).into(),
            RequestBody::Fetch(body) => return self.fetch(node, (version, id), body, refusal),
            other => panic!("no answer for {:?}", other.api()),
        };
        (0, encode_response(version, id, body).unwrap())
    }

    fn versions(&self, refusal: ErrorCode) -> ApiVersionsResponseData {
        let mut api_keys = api_versions(Listener::Broker);
        for line in &mut api_keys {
            if let Some(cap) = self.caps.get(&line.api_key) {
                line.max_version = *cap;
            }
        }
        ApiVersionsResponseData {
            error_code: refusal.code(),
            api_keys,
            ..Default::default()
        }
    }

    fn metadata(&self, body: &MetadataRequestData) -> MetadataResponseData {
        let brokers = self.brokers.iter();
        let brokers = brokers.map(|(id, address)| MetadataResponseBroker {
            node_id: id.0,
            host: KafkaString::from(address.host.to_string()),
            port: i32::from(address.port),
            ..Default::default()
        });
        let topics = body.topics.as_deref().unwrap_or_default().iter();
        let topics = topics.map(|topic| self.topic(topic.name.as_ref().unwrap().as_str()));
        MetadataResponseData {
            brokers: brokers.collect(),
            controller_id: self.brokers.keys().next().unwrap().0,
            topics: topics.collect(),
            ..Default::default()
        }
    }

    fn topic(&self, name: &str) -> MetadataResponseTopic {
        let logs = self.logs.iter().filter(|(of, _)| of.topic.as_str() == name);
        let partitions: Vec<_> = logs
            .map(|(of, log)| MetadataResponsePartition {
                partition_index: of.partition,
                leader_id: log.leader,
                leader_epoch: log.epoch,
                replica_nodes: vec![log.leader],
                isr_nodes: vec![log.leader],
                ..Default::default()
            })
            .collect();
        let error = if partitions.is_empty() {
            ErrorCode::UnknownTopicOrPartition
        } else {
            ErrorCode::None
        };
        MetadataResponseTopic {
            error_code: error.code(),
            name: Some(KafkaString::from(name.to_owned())),
            topic_id: topic_id(name).into(),
            partitions,
            ..Default::default()
        }
    }

    fn led_by(&self, node: NodeId, partition: &TopicPartition) -> ErrorCode {
        match self.logs.get(partition) {
            None => ErrorCode::UnknownTopicOrPartition,
            Some(log) if log.leader != node.0 => ErrorCode::NotLeaderOrFollower,
            Some(_) => ErrorCode::None,
        }
    }

    fn name(&self, name: &KafkaString, id: Uuid) -> TopicName {
        let topics = self.logs.keys().map(|of| &of.topic);
        let by_id = topics.clone().find(|topic| topic_id(topic.as_str()) == id);
        by_id
            .cloned()
            .unwrap_or_else(|| TopicName::new(name.as_str()))
    }

    fn offsets(
        &self,
        node: NodeId,
        body: &ListOffsetsRequestData,
        refusal: ErrorCode,
    ) -> ListOffsetsResponseData {
        let topics = body.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|asked| {
                let of = topic_partition(topic.name.as_str(), asked.partition_index);
                let error = match refusal {
                    ErrorCode::None => self.led_by(node, &of),
                    refusal => refusal,
                };
                let log = self.logs.get(&of).cloned().unwrap_or_default();
                let offset = match asked.timestamp {
                    _ if error.is_error() => -1,
                    -2 => log.start,
                    -1 => log.end,
                    at => log.by_time(at).unwrap_or(-1),
                };
                ListOffsetsPartitionResponse {
                    partition_index: asked.partition_index,
                    error_code: error.code(),
                    offset,
                    ..Default::default()
                }
            });
            ListOffsetsTopicResponse {
                name: topic.name.clone(),
                partitions: partitions.collect(),
                ..Default::default()
            }
        });
        ListOffsetsResponseData {
            topics: topics.collect(),
            ..Default::default()
        }
    }

    fn produce(
        &mut self,
        node: NodeId,
        body: &ProduceRequest,
        refusal: ErrorCode,
    ) -> ProduceResponse {
        let mut topics = Vec::new();
        for topic in &body.topics {
            let name = self.name(&topic.name, topic.topic_id.into());
            let mut partitions = Vec::new();
            for asked in &topic.partitions {
                let of = topic_partition(name.as_str(), asked.index);
                let error = match refusal {
                    ErrorCode::None => self.led_by(node, &of),
                    refusal => refusal,
                };
                let base_offset = match self.logs.get_mut(&of) {
                    Some(log) if !error.is_error() => log.append(asked.records.as_ref().unwrap()),
                    _ => -1,
                };
                partitions.push(ProducePartitionResponse {
                    index: asked.index,
                    error_code: error,
                    base_offset,
                    ..Default::default()
                });
            }
            topics.push(ProduceTopicResponse {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                partitions: partitions.into_iter().collect(),
            });
        }
        ProduceResponse {
            topics: topics.into_iter().collect(),
            ..Default::default()
        }
    }

    fn fetch(
        &self,
        node: NodeId,
        (version, id): (i16, i32),
        body: &FetchRequest,
        refusal: ErrorCode,
    ) -> (u64, Bytes) {
        let mut slots: Vec<Bytes> = Vec::new();
        let mut wait = true;
        let mut topics = Vec::new();
        for topic in &body.topics {
            let name = self.name(&topic.topic, topic.topic_id.into());
            let mut partitions = Vec::new();
            for asked in &topic.partitions {
                let of = topic_partition(name.as_str(), asked.partition);
                let log = self.logs.get(&of).cloned().unwrap_or_default();
                let error = match (refusal, self.led_by(node, &of)) {
                    (ErrorCode::None, ErrorCode::None) => {
                        if (log.start..=log.end).contains(&asked.fetch_offset) {
                            ErrorCode::None
                        } else {
                            ErrorCode::OffsetOutOfRange
                        }
                    }
                    (ErrorCode::None, error) | (error, _) => error,
                };
                let max = usize::try_from(asked.partition_max_bytes).unwrap();
                let bytes = match error {
                    ErrorCode::None => log.read(asked.fetch_offset, max),
                    _ => Bytes::new(),
                };
                wait &= bytes.is_empty() && !error.is_error();
                let records = FetchRecords {
                    slot: u32::try_from(slots.len()).unwrap(),
                    len: bytes.len(),
                };
                slots.push(bytes);
                let known = |offset| if error.is_error() { -1 } else { offset };
                partitions.push(FetchPartitionResponse {
                    partition_index: asked.partition,
                    error_code: error,
                    high_watermark: known(log.end),
                    last_stable_offset: known(log.end),
                    log_start_offset: known(log.start),
                    records: Some(records),
                    ..Default::default()
                });
            }
            topics.push(FetchTopicResponse {
                topic: topic.topic.clone(),
                topic_id: topic.topic_id,
                partitions: partitions.into_iter().collect(),
            });
        }
        let topics: Few<FetchTopicResponse> = topics.into_iter().collect();
        let answer = FetchResponse {
            topics,
            ..Default::default()
        };
        let frame = encode_fetch_response(version, id, &answer).unwrap();
        let mut bytes = Vec::new();
        for part in frame.parts {
            match part {
                FramePart::Head(head) => bytes.extend_from_slice(&head),
                FramePart::Records(records) => {
                    bytes.extend_from_slice(&slots[usize::try_from(records.slot).unwrap()]);
                }
            }
        }
        let after = if wait {
            u64::try_from(body.max_wait_ms).unwrap()
        } else {
            0
        };
        (after, bytes.into())
    }
}

fn create_topics(body: &CreateTopicsRequestData, refusal: ErrorCode) -> CreateTopicsResponseData {
    let topics = body.topics.iter().map(|topic| CreatableTopicResult {
        name: topic.name.clone(),
        error_code: refusal.code(),
        num_partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        ..Default::default()
    });
    CreateTopicsResponseData {
        topics: topics.collect(),
        ..Default::default()
    }
}

fn delete_topics(body: &DeleteTopicsRequestData, refusal: ErrorCode) -> DeleteTopicsResponseData {
    let by_state = body.topics.iter().map(|topic| topic.name.clone());
    let names = by_state.chain(body.topic_names.iter().cloned().map(Some));
    let responses = names.map(|name| DeletableTopicResult {
        name,
        error_code: refusal.code(),
        ..Default::default()
    });
    DeleteTopicsResponseData {
        responses: responses.collect(),
        ..Default::default()
    }
}

/// Every resource has one setting, which tells who answered.
fn describe_configs(
    node: NodeId,
    body: &DescribeConfigsRequestData,
) -> DescribeConfigsResponseData {
    let results = body.resources.iter().map(|resource| DescribeConfigsResult {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
        configs: vec![DescribeConfigsResourceResult {
            name: KafkaString::from_static("answered.by"),
            value: Some(KafkaString::from(node.to_string())),
            ..Default::default()
        }],
        ..Default::default()
    });
    DescribeConfigsResponseData {
        results: results.collect(),
        ..Default::default()
    }
}

impl Log {
    fn by_time(&self, at: i64) -> Option<Offset> {
        self.batches.iter().find_map(|bytes| {
            let records = crate::batch::Records::open(bytes, usize::MAX).unwrap();
            let mut records = records.iter().map(Result::unwrap);
            records
                .find(|record| record.timestamp >= at)
                .map(|record| record.offset)
        })
    }
}
