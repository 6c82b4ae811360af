//! The answer to DescribeQuorum.

use crate::{
    protocol::{
        ErrorCode,
        messages::quorum::{
            describe_quorum_request as question, describe_quorum_response as answer,
        },
    },
    raft::{
        description::{QuorumDescription, ReplicaProgress},
        voters::VoterSet,
    },
};

use super::{PARTITION, TOPIC, listeners, only, text, topic};

/// Says whether a DescribeQuorum request asks for the one quorum that there is.
#[must_use]
pub fn asks_for_metadata_quorum(request: &question::DescribeQuorumRequestData) -> bool {
    let partition = only(
        &request.topics,
        |topic| (topic.topic_name.as_str() == TOPIC, &topic.partitions[..]),
        |partition| partition.partition_index,
    );
    partition.is_ok()
}

/// Writes the answer to a DescribeQuorum request for anything else.
#[must_use]
pub fn unknown_quorum(
    request: &question::DescribeQuorumRequestData,
) -> answer::DescribeQuorumResponseData {
    let partition = |partition: &question::PartitionData| {
        answer::PartitionData::default()
            .with_partition_index(partition.partition_index)
            .with_error_code(ErrorCode::UnknownTopicOrPartition.code())
            .with_error_message(Some(text(
                "This server does not host this topic-partition.",
            )))
    };
    let topics = request.topics.iter().map(|topic| {
        answer::TopicData::default()
            .with_topic_name(topic.topic_name.clone())
            .with_partitions(topic.partitions.iter().map(partition).collect())
    });
    unrefused().with_topics(topics.collect())
}

/// Writes the answer to a DescribeQuorum request for the metadata log, for a version; without a description this node does not
/// lead, and says so.
#[must_use]
pub fn describe_quorum_response(
    description: Option<&QuorumDescription>,
    voters: &VoterSet,
    version: i16,
) -> answer::DescribeQuorumResponseData {
    let data = unrefused();
    let partition = answer::PartitionData::default().with_partition_index(PARTITION);
    let Some(described) = description else {
        let partition = partition
            .with_error_code(ErrorCode::NotLeaderOrFollower.code())
            .with_leader_id(super::NOBODY);
        return data.with_topics(vec![metadata(partition)]);
    };
    let state = |progress: &ReplicaProgress| state(progress, version);
    let partition = partition
        .with_error_message(Some(text("")))
        .with_leader_id(described.leader.0)
        .with_leader_epoch(described.epoch.0)
        .with_high_watermark(described.high_watermark)
        .with_current_voters(described.voters.iter().map(state).collect())
        .with_observers(described.observers.iter().map(state).collect());
    let data = data.with_topics(vec![metadata(partition)]);
    if version < NODES_FROM {
        return data;
    }
    let nodes = voters.iter().map(|voter| {
        let listeners = listeners(&voter.endpoints).map(|(name, host, port)| {
            answer::Listener::default()
                .with_name(name)
                .with_host(host)
                .with_port(port)
        });
        answer::Node::default()
            .with_node_id(voter.id.0)
            .with_listeners(listeners.collect())
    });
    data.with_nodes(nodes.collect())
}

/// The first version with times of fetches.
const TIMES_FROM: i16 = 1;
/// The first version with directory ids and the nodes' listeners.
const NODES_FROM: i16 = 2;

/// An answer without an error of its own; Kafka says that with an empty text, although null would be allowed.
fn unrefused() -> answer::DescribeQuorumResponseData {
    answer::DescribeQuorumResponseData::default().with_error_message(Some(text("")))
}

fn metadata(partition: answer::PartitionData) -> answer::TopicData {
    answer::TopicData::default()
        .with_topic_name(topic())
        .with_partitions(vec![partition])
}

fn state(progress: &ReplicaProgress, version: i16) -> answer::ReplicaState {
    let mut state = answer::ReplicaState::default()
        .with_replica_id(progress.replica.id.0)
        .with_log_end_offset(progress.log_end);
    if version >= TIMES_FROM {
        state = state
            .with_last_fetch_timestamp(progress.last_fetch.as_millis())
            .with_last_caught_up_timestamp(progress.last_caught_up.as_millis());
    }
    if version >= NODES_FROM {
        state = state.with_replica_directory_id(progress.replica.directory.into());
    }
    state
}
