//! What brokers say to one another about partitions, between this module's types and Kafka's messages: a follower's Fetch and
//! ListOffsets, a leader's AlterPartition.

use std::collections::BTreeMap;

use super::{
    AlterPartitionAsk, EpochEnd, FetchAnswer, FetchAsk, FetchedPartition, LeaderOffset, OffsetAsk,
    PartitionAltered, TopicIdPartition,
};
use crate::{
    ids::{Epoch, NodeId, Offset, TopicName, Uuid},
    protocol::{
        ErrorCode, KafkaString,
        messages::{
            AlterPartitionRequestData, AlterPartitionResponseData, FetchRequestData,
            FetchResponseData, ListOffsetsPartition, ListOffsetsRequestData,
            ListOffsetsResponseData, ListOffsetsTopic, alter_partition_request,
            wire::{fetch_request, fetch_response},
        },
    },
};

/// The version of Fetch that followers send.
pub const FETCH: i16 = 18;
/// The version of ListOffsets that followers send.
pub const LIST_OFFSETS: i16 = 11;

/// ListOffsets' timestamp for the log end.
const LATEST: i64 = -1;
/// ListOffsets' timestamp for the log start.
const EARLIEST: i64 = -2;
/// "Not known".
const UNKNOWN: i32 = -1;

/// Who asks, and how much it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follower {
    /// The broker.
    pub node: NodeId,
    /// Its epoch: a fetch of an earlier incarnation proves nothing (KIP-903).
    pub broker_epoch: i64,
    /// Its log directory (KIP-858).
    pub directory: Uuid,
    /// `replica.fetch.max.bytes`.
    pub partition_bytes_max: i32,
    /// `replica.fetch.response.max.bytes`.
    pub answer_bytes_max: i32,
    /// `replica.fetch.min.bytes`.
    pub answer_bytes_min: i32,
}

/// Writes a fetch.
#[must_use]
pub fn fetch_request(follower: &Follower, ask: &FetchAsk) -> FetchRequestData {
    let mut topics: BTreeMap<Uuid, Vec<fetch_request::FetchPartition>> = BTreeMap::new();
    for want in &ask.wanted {
        let position = &want.position;
        let partition = fetch_request::FetchPartition::default()
            .with_partition(want.partition.partition)
            .with_current_leader_epoch(position.leader_epoch.0)
            .with_fetch_offset(position.offset)
            .with_last_fetched_epoch(position.last_fetched_epoch.map_or(UNKNOWN, |epoch| epoch.0))
            .with_log_start_offset(position.log_start)
            .with_partition_max_bytes(follower.partition_bytes_max)
            .with_replica_directory_id(follower.directory.into())
            .with_high_watermark(position.high_watermark);
        topics
            .entry(want.partition.topic_id)
            .or_default()
            .push(partition);
    }
    let mut forgotten: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
    for partition in &ask.forgotten {
        forgotten
            .entry(partition.topic_id)
            .or_default()
            .push(partition.partition);
    }
    let topics = topics.into_iter().map(|(topic_id, partitions)| {
        fetch_request::FetchTopic::default()
            .with_topic_id(topic_id.into())
            .with_partitions(partitions)
    });
    let forgotten = forgotten.into_iter().map(|(topic_id, partitions)| {
        fetch_request::ForgottenTopic::default()
            .with_topic_id(topic_id.into())
            .with_partitions(partitions)
    });
    let replica = fetch_request::ReplicaState::default()
        .with_replica_id(follower.node.0)
        .with_replica_epoch(follower.broker_epoch);
    FetchRequestData::default()
        .with_replica_state(replica)
        .with_max_wait_ms(i32::try_from(ask.max_wait_ms).unwrap_or(i32::MAX))
        .with_min_bytes(follower.answer_bytes_min)
        .with_max_bytes(follower.answer_bytes_max)
        .with_session_id(ask.session_id)
        .with_session_epoch(ask.session_epoch)
        .with_topics(topics.collect())
        .with_forgotten_topics_data(forgotten.collect())
}

/// Reads the answer to a fetch.
#[must_use]
pub fn fetch_answer(answer: FetchResponseData) -> FetchAnswer {
    let mut partitions = Vec::new();
    for topic in answer.responses {
        let topic_id = Uuid::from(topic.topic_id);
        for partition in topic.partitions {
            let key = TopicIdPartition {
                topic_id,
                partition: partition.partition_index,
            };
            partitions.push((key, fetched(partition)));
        }
    }
    FetchAnswer {
        error: code(answer.error_code),
        session_id: answer.session_id,
        partitions,
    }
}

fn fetched(partition: fetch_response::PartitionData) -> FetchedPartition {
    let diverging = &partition.diverging_epoch;
    let parts_at = (diverging.epoch >= 0 || diverging.end_offset >= 0).then_some(EpochEnd {
        epoch: Epoch(diverging.epoch),
        end_offset: diverging.end_offset,
    });
    FetchedPartition {
        error: code(partition.error_code),
        high_watermark: partition.high_watermark,
        log_start: partition.log_start_offset,
        diverging: parts_at,
        records: partition.records.unwrap_or_default(),
    }
}

/// An error that this release does not know is one that may pass.
fn code(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError)
}

/// Writes a question about a leader's offsets.
#[must_use]
pub fn offset_request(
    follower: &Follower,
    topic: &TopicName,
    ask: &OffsetAsk,
) -> ListOffsetsRequestData {
    let timestamp = match ask.question.which {
        LeaderOffset::End => LATEST,
        LeaderOffset::Start => EARLIEST,
    };
    let partition = ListOffsetsPartition {
        partition_index: ask.partition.partition,
        current_leader_epoch: ask.question.leader_epoch.0,
        timestamp,
        ..ListOffsetsPartition::default()
    };
    let topic = ListOffsetsTopic {
        name: KafkaString::from(topic.as_str().to_owned()),
        partitions: vec![partition],
        ..ListOffsetsTopic::default()
    };
    ListOffsetsRequestData {
        replica_id: follower.node.0,
        topics: vec![topic],
        ..ListOffsetsRequestData::default()
    }
}

/// Reads the answer to a question about offsets, which named one partition.
///
/// # Errors
/// The error that the leader answered.
pub fn offset_answer(answer: &ListOffsetsResponseData) -> Result<Offset, ErrorCode> {
    let mut partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    let partition = partitions.next().ok_or(ErrorCode::UnknownServerError)?;
    match code(partition.error_code) {
        ErrorCode::None => Ok(partition.offset),
        error => Err(error),
    }
}

/// Writes a proposal of in-sync sets.
#[must_use]
pub fn alter_request(
    node: NodeId,
    broker_epoch: i64,
    ask: &AlterPartitionAsk,
) -> AlterPartitionRequestData {
    let mut topics: BTreeMap<Uuid, Vec<alter_partition_request::PartitionData>> = BTreeMap::new();
    for alteration in &ask.alterations {
        let proposal = &alteration.proposal;
        let member = |member: &super::IsrMember| {
            alter_partition_request::BrokerState::default()
                .with_broker_id(member.node.0)
                .with_broker_epoch(member.broker_epoch)
        };
        let partition = alter_partition_request::PartitionData::default()
            .with_partition_index(alteration.partition.partition)
            .with_leader_epoch(proposal.id.leader_epoch.0)
            .with_partition_epoch(proposal.partition_epoch)
            .with_new_isr_with_epochs(proposal.isr.iter().map(member).collect());
        topics
            .entry(alteration.partition.topic_id)
            .or_default()
            .push(partition);
    }
    let topics = topics.into_iter().map(|(topic_id, partitions)| {
        alter_partition_request::TopicData::default()
            .with_topic_id(topic_id.into())
            .with_partitions(partitions)
    });
    AlterPartitionRequestData::default()
        .with_broker_id(node.0)
        .with_broker_epoch(broker_epoch)
        .with_topics(topics.collect())
}

/// Reads the answer to a proposal.
///
/// # Errors
/// The error of the whole.
pub fn alter_answer(
    answer: &AlterPartitionResponseData,
) -> Result<Vec<PartitionAltered>, ErrorCode> {
    let whole = code(answer.error_code);
    if whole != ErrorCode::None {
        return Err(whole);
    }
    let altered = answer.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| PartitionAltered {
            partition: TopicIdPartition {
                topic_id: Uuid::from(topic.topic_id),
                partition: partition.partition_index,
            },
            error: code(partition.error_code),
            leader_epoch: Epoch(partition.leader_epoch),
            partition_epoch: partition.partition_epoch,
        })
    });
    Ok(altered.collect())
}
