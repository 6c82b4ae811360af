//! Vote, BeginQuorumEpoch, EndQuorumEpoch.

use crate::{
    ids::{Epoch, NodeId},
    protocol::messages::quorum::{
        begin_quorum_epoch_request as begin, begin_quorum_epoch_response as begin_answer,
        end_quorum_epoch_request as end, end_quorum_epoch_response as end_answer,
        vote_request as vote, vote_response as vote_answer,
    },
    raft::{
        messages::{
            BeginQuorumEpochRequest, EndQuorumEpochRequest, LogPosition, PeerReply, ReplyBody,
            VoteRequest,
        },
        voters::{Endpoint, ReplicaKey},
    },
};

use super::{
    Head, HeadPartition, PARTITION, TOPIC, WireFault, cluster, directory, epoch, epoch_or_none,
    is_whole, listeners, maybe_voter, node, node_or_nobody, only, read_cluster, topic,
};

/// Writes a Vote request.
#[must_use]
pub fn vote_request(request: &VoteRequest) -> vote::VoteRequestData {
    let partition = vote::PartitionData::default()
        .with_partition_index(PARTITION)
        .with_replica_epoch(request.epoch.0)
        .with_replica_id(request.candidate.id.0)
        .with_replica_directory_id(request.candidate.directory.into())
        .with_voter_directory_id(
            request
                .voter
                .map(|voter| voter.directory)
                .unwrap_or_default()
                .into(),
        )
        .with_last_offset_epoch(request.last.epoch.0)
        .with_last_offset(request.last.end)
        .with_pre_vote(request.is_pre_vote);
    let data = vote::TopicData::default()
        .with_topic_name(topic())
        .with_partitions(vec![partition]);
    vote::VoteRequestData::default()
        .with_cluster_id(cluster(request.cluster_id.as_ref()))
        .with_voter_id(node_or_nobody(request.voter.map(|voter| voter.id)))
        .with_topics(vec![data])
}

/// Reads a Vote request.
///
/// # Errors
/// Says what in it no replica sends.
pub fn read_vote_request(data: &vote::VoteRequestData) -> Result<VoteRequest, WireFault> {
    let partition = only(
        &data.topics,
        |topic| (topic.topic_name.as_str() == TOPIC, &topic.partitions[..]),
        |partition| partition.partition_index,
    )?;
    let end = partition.last_offset;
    if end < 0 {
        return Err(WireFault::Field {
            field: "LastOffset",
        });
    }
    Ok(VoteRequest {
        cluster_id: read_cluster(data.cluster_id.as_ref()),
        voter: maybe_voter(data.voter_id, partition.voter_directory_id),
        candidate: ReplicaKey {
            id: node(partition.replica_id, "ReplicaId")?,
            directory: directory(partition.replica_directory_id),
        },
        epoch: epoch(partition.replica_epoch, "ReplicaEpoch")?,
        last: LogPosition {
            epoch: epoch(partition.last_offset_epoch, "LastOffsetEpoch")?,
            end,
        },
        is_pre_vote: partition.pre_vote,
    })
}

/// Writes the answer to a Vote request.
#[must_use]
pub fn vote_response(reply: &PeerReply) -> vote_answer::VoteResponseData {
    if is_whole(reply) {
        return vote_answer::VoteResponseData::default().with_error_code(reply.error.code());
    }
    let partition = vote_answer::PartitionData::default()
        .with_partition_index(PARTITION)
        .with_error_code(reply.error.code())
        .with_leader_id(node_or_nobody(reply.leader))
        .with_leader_epoch(epoch_or_none(reply.epoch))
        .with_vote_granted(reply.body == ReplyBody::Vote { granted: true });
    let data = vote_answer::TopicData::default()
        .with_topic_name(topic())
        .with_partitions(vec![partition]);
    vote_answer::VoteResponseData::default().with_topics(vec![data])
}

/// Reads the answer to a Vote request.
///
/// # Errors
/// Says what in it no replica sends.
pub fn read_vote_response(data: &vote_answer::VoteResponseData) -> Result<PeerReply, WireFault> {
    let partition = only(
        &data.topics,
        |topic| (topic.topic_name.as_str() == TOPIC, &topic.partitions[..]),
        |partition| partition.partition_index,
    )
    .ok();
    let head = Head {
        error: data.error_code,
        partition: partition.map(|partition| HeadPartition {
            error: partition.error_code,
            leader: partition.leader_id,
            epoch: partition.leader_epoch,
        }),
    };
    let granted = partition.is_some_and(|partition| partition.vote_granted);
    head.read(ReplyBody::Vote { granted })
}

/// Writes a BeginQuorumEpoch request.
#[must_use]
pub fn begin_request(request: &BeginQuorumEpochRequest) -> begin::BeginQuorumEpochRequestData {
    let partition = begin::PartitionData::default()
        .with_partition_index(PARTITION)
        .with_voter_directory_id(
            request
                .voter
                .map(|voter| voter.directory)
                .unwrap_or_default()
                .into(),
        )
        .with_leader_id(request.leader.0)
        .with_leader_epoch(request.epoch.0);
    let data = begin::TopicData::default()
        .with_topic_name(topic())
        .with_partitions(vec![partition]);
    let endpoints = listeners(&request.endpoints).map(|(name, host, port)| {
        begin::LeaderEndpoint::default()
            .with_name(name)
            .with_host(host)
            .with_port(port)
    });
    begin::BeginQuorumEpochRequestData::default()
        .with_cluster_id(cluster(request.cluster_id.as_ref()))
        .with_voter_id(node_or_nobody(request.voter.map(|voter| voter.id)))
        .with_topics(vec![data])
        .with_leader_endpoints(endpoints.collect())
}

/// Reads a BeginQuorumEpoch request.
///
/// # Errors
/// Says what in it no replica sends.
pub fn read_begin_request(
    data: &begin::BeginQuorumEpochRequestData,
) -> Result<BeginQuorumEpochRequest, WireFault> {
    let partition = only(
        &data.topics,
        |topic| (topic.topic_name.as_str() == TOPIC, &topic.partitions[..]),
        |partition| partition.partition_index,
    )?;
    let (leader, epoch) = leader(partition.leader_id, partition.leader_epoch)?;
    Ok(BeginQuorumEpochRequest {
        cluster_id: read_cluster(data.cluster_id.as_ref()),
        voter: maybe_voter(data.voter_id, partition.voter_directory_id),
        leader,
        epoch,
        endpoints: data
            .leader_endpoints
            .iter()
            .map(|endpoint| Endpoint {
                name: endpoint.name.as_str().to_owned(),
                host: endpoint.host.as_str().to_owned(),
                port: endpoint.port,
            })
            .collect(),
    })
}

fn leader(id: i32, leader_epoch: i32) -> Result<(NodeId, Epoch), WireFault> {
    Ok((node(id, "LeaderId")?, epoch(leader_epoch, "LeaderEpoch")?))
}

/// Writes the answer to a BeginQuorumEpoch request.
#[must_use]
pub fn begin_response(reply: &PeerReply) -> begin_answer::BeginQuorumEpochResponseData {
    let answer = begin_answer::BeginQuorumEpochResponseData::default();
    if is_whole(reply) {
        return answer.with_error_code(reply.error.code());
    }
    let partition = begin_answer::PartitionData::default()
        .with_partition_index(PARTITION)
        .with_error_code(reply.error.code())
        .with_leader_id(node_or_nobody(reply.leader))
        .with_leader_epoch(epoch_or_none(reply.epoch));
    let data = begin_answer::TopicData::default()
        .with_topic_name(topic())
        .with_partitions(vec![partition]);
    answer.with_topics(vec![data])
}

/// Reads the answer to a BeginQuorumEpoch request.
///
/// # Errors
/// Says what in it no replica sends.
pub fn read_begin_response(
    data: &begin_answer::BeginQuorumEpochResponseData,
) -> Result<PeerReply, WireFault> {
    let partition = only(
        &data.topics,
        |topic| (topic.topic_name.as_str() == TOPIC, &topic.partitions[..]),
        |partition| partition.partition_index,
    )
    .ok();
    let head = Head {
        error: data.error_code,
        partition: partition.map(|partition| HeadPartition {
            error: partition.error_code,
            leader: partition.leader_id,
            epoch: partition.leader_epoch,
        }),
    };
    head.read(ReplyBody::BeginQuorumEpoch)
}

/// Writes an EndQuorumEpoch request.
#[must_use]
pub fn end_request(request: &EndQuorumEpochRequest) -> end::EndQuorumEpochRequestData {
    let candidates = request.preferred.iter().map(|key| {
        end::ReplicaInfo::default()
            .with_candidate_id(key.id.0)
            .with_candidate_directory_id(key.directory.into())
    });
    let partition = end::PartitionData::default()
        .with_partition_index(PARTITION)
        .with_leader_id(request.leader.0)
        .with_leader_epoch(request.epoch.0)
        .with_preferred_candidates(candidates.collect());
    let data = end::TopicData::default()
        .with_topic_name(topic())
        .with_partitions(vec![partition]);
    let endpoints = listeners(&request.endpoints).map(|(name, host, port)| {
        end::LeaderEndpoint::default()
            .with_name(name)
            .with_host(host)
            .with_port(port)
    });
    end::EndQuorumEpochRequestData::default()
        .with_cluster_id(cluster(request.cluster_id.as_ref()))
        .with_topics(vec![data])
        .with_leader_endpoints(endpoints.collect())
}

/// Reads an EndQuorumEpoch request; version 0 names successors without their directories.
///
/// # Errors
/// Says what in it no replica sends.
pub fn read_end_request(
    data: &end::EndQuorumEpochRequestData,
) -> Result<EndQuorumEpochRequest, WireFault> {
    let partition = only(
        &data.topics,
        |topic| (topic.topic_name.as_str() == TOPIC, &topic.partitions[..]),
        |partition| partition.partition_index,
    )?;
    let (leader, epoch) = leader(partition.leader_id, partition.leader_epoch)?;
    let candidates = partition.preferred_candidates.iter().map(|candidate| {
        let directory = directory(candidate.candidate_directory_id);
        (candidate.candidate_id, directory)
    });
    let successors = partition
        .preferred_successors
        .iter()
        .map(|id| (*id, crate::ids::Uuid::ZERO));
    let preferred = candidates.chain(successors).map(|(id, directory)| {
        let id = node(id, "CandidateId")?;
        Ok(ReplicaKey { id, directory })
    });
    Ok(EndQuorumEpochRequest {
        cluster_id: read_cluster(data.cluster_id.as_ref()),
        leader,
        epoch,
        preferred: preferred.collect::<Result<_, WireFault>>()?,
        endpoints: data
            .leader_endpoints
            .iter()
            .map(|endpoint| Endpoint {
                name: endpoint.name.as_str().to_owned(),
                host: endpoint.host.as_str().to_owned(),
                port: endpoint.port,
            })
            .collect(),
    })
}

/// Writes the answer to an EndQuorumEpoch request.
#[must_use]
pub fn end_response(reply: &PeerReply) -> end_answer::EndQuorumEpochResponseData {
    let answer = end_answer::EndQuorumEpochResponseData::default();
    if is_whole(reply) {
        return answer.with_error_code(reply.error.code());
    }
    let partition = end_answer::PartitionData::default()
        .with_partition_index(PARTITION)
        .with_error_code(reply.error.code())
        .with_leader_id(node_or_nobody(reply.leader))
        .with_leader_epoch(epoch_or_none(reply.epoch));
    let data = end_answer::TopicData::default()
        .with_topic_name(topic())
        .with_partitions(vec![partition]);
    answer.with_topics(vec![data])
}

/// Reads the answer to an EndQuorumEpoch request.
///
/// # Errors
/// Says what in it no replica sends.
pub fn read_end_response(
    data: &end_answer::EndQuorumEpochResponseData,
) -> Result<PeerReply, WireFault> {
    let partition = only(
        &data.topics,
        |topic| (topic.topic_name.as_str() == TOPIC, &topic.partitions[..]),
        |partition| partition.partition_index,
    )
    .ok();
    let head = Head {
        error: data.error_code,
        partition: partition.map(|partition| HeadPartition {
            error: partition.error_code,
            leader: partition.leader_id,
            epoch: partition.leader_epoch,
        }),
    };
    head.read(ReplyBody::EndQuorumEpoch)
}
