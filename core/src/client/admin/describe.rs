//! The cluster as its operators see it: who leads the quorum, which brokers are there.

use super::{AdminAnswer, ApiError, Unit, answer::Told};
use crate::{
    client::Address,
    ids::{Epoch, NodeId, Offset, Uuid},
    protocol::{
        ErrorCode, KafkaString,
        messages::{
            DescribeClusterRequestData, DescribeClusterResponseData, DescribeQuorumRequestData,
            DescribeQuorumResponseData,
            quorum::{describe_quorum_request as question, describe_quorum_response as told},
        },
    },
    time::Timestamp,
};

/// The topic whose only partition is the metadata log.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// The controller quorum, as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumStatus {
    /// Who leads it.
    pub leader: NodeId,
    /// Since which epoch.
    pub leader_epoch: Epoch,
    /// One past the last offset of the metadata log that is committed.
    pub high_watermark: Offset,
    /// Who votes.
    pub voters: Vec<QuorumReplica>,
    /// Who else follows the log.
    pub observers: Vec<QuorumReplica>,
}

/// How far a replica of the metadata log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuorumReplica {
    /// The node.
    pub id: NodeId,
    /// Its directory; zero where the answer does not tell.
    pub directory: Uuid,
    /// One past the last offset that it holds; -1 if the leader has not heard of it.
    pub log_end: Offset,
    /// When it asked the leader last.
    pub last_fetch: Option<Timestamp>,
    /// When it last had all that the leader had.
    pub last_caught_up: Option<Timestamp>,
}

/// A registered broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerStatus {
    /// The broker.
    pub id: NodeId,
    /// Where clients find it.
    pub address: Address,
    /// Its rack.
    pub rack: Option<String>,
    /// Whether the controller keeps it from leading, for it is not heard of or not ready.
    pub is_fenced: bool,
}

/// Who is registered: brokers that are down too, where the answer can tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokersStatus {
    /// The cluster's id.
    pub cluster_id: String,
    /// The brokers, by their number.
    pub brokers: Vec<BrokerStatus>,
    /// Whether brokers that are fenced are among them; Kafka tells from 4.0 on.
    pub lists_fenced: bool,
}

/// The first version of DescribeCluster that can list fenced brokers.
const FENCED_FROM: i16 = 2;

pub(super) fn ask_brokers(version: i16) -> DescribeClusterRequestData {
    DescribeClusterRequestData {
        // Brokers, not controllers.
        endpoint_type: 1,
        include_fenced_brokers: version >= FENCED_FROM,
        ..Default::default()
    }
}

pub(super) fn brokers(answer: DescribeClusterResponseData, version: i16) -> Told {
    let error = answer.error_code;
    let message = answer.error_message.as_ref().map(|text| text.as_str());
    let refused = ApiError::of(error, message);
    let status = refused.map(|()| {
        let brokers = answer.brokers.iter().filter_map(|broker| {
            let port = u16::try_from(broker.port).ok()?;
            Some(BrokerStatus {
                id: NodeId(broker.broker_id),
                address: Address::new(broker.host.as_str(), port),
                rack: broker.rack.as_ref().map(ToString::to_string),
                is_fenced: broker.is_fenced,
            })
        });
        let mut brokers: Vec<_> = brokers.collect();
        brokers.sort_by_key(|broker| broker.id);
        BrokersStatus {
            cluster_id: answer.cluster_id.to_string(),
            brokers,
            lists_fenced: version >= FENCED_FROM,
        }
    });
    let write = |answer: &mut AdminAnswer| *answer = AdminAnswer::Brokers(Some(status));
    vec![(Unit::Whole, code(error), Box::new(write))]
}

pub(super) fn ask_quorum() -> DescribeQuorumRequestData {
    let partition = question::PartitionData::default().with_partition_index(0);
    let topic = question::TopicData::default()
        .with_topic_name(KafkaString::from(METADATA_TOPIC.to_owned()))
        .with_partitions(vec![partition]);
    DescribeQuorumRequestData::default().with_topics(vec![topic])
}

pub(super) fn quorum(answer: DescribeQuorumResponseData) -> Told {
    let message = |text: &Option<KafkaString>| text.as_ref().map(ToString::to_string);
    let partition = answer
        .topics
        .first()
        .and_then(|topic| topic.partitions.first());
    let (error, said) = match partition {
        Some(partition) if answer.error_code == 0 => {
            (partition.error_code, message(&partition.error_message))
        }
        None if answer.error_code == 0 => (ErrorCode::UnknownServerError.code(), None),
        _ => (answer.error_code, message(&answer.error_message)),
    };
    let described = match (ApiError::of(error, said.as_deref()), partition) {
        (Ok(()), Some(partition)) => Ok(status(partition)),
        (Err(refusal), _) => Err(refusal),
        // Without a partition there is an error, so this is never seen.
        (Ok(()), None) => return Vec::new(),
    };
    let write = |answer: &mut AdminAnswer| *answer = AdminAnswer::Quorum(Some(described));
    vec![(Unit::Whole, code(error), Box::new(write))]
}

fn status(partition: &told::PartitionData) -> QuorumStatus {
    let replicas = |states: &[told::ReplicaState]| states.iter().map(replica).collect();
    QuorumStatus {
        leader: NodeId(partition.leader_id),
        leader_epoch: Epoch(partition.leader_epoch),
        high_watermark: partition.high_watermark,
        voters: replicas(&partition.current_voters),
        observers: replicas(&partition.observers),
    }
}

fn replica(state: &told::ReplicaState) -> QuorumReplica {
    let time = |millis: i64| (millis >= 0).then(|| Timestamp::from_millis(millis));
    QuorumReplica {
        id: NodeId(state.replica_id),
        directory: Uuid::from(state.replica_directory_id),
        log_end: state.log_end_offset,
        last_fetch: time(state.last_fetch_timestamp),
        last_caught_up: time(state.last_caught_up_timestamp),
    }
}

fn code(number: i16) -> ErrorCode {
    ErrorCode::from_code(number).unwrap_or(ErrorCode::UnknownServerError)
}
