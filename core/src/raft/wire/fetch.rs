//! Fetch of the metadata log. Requests are read into and answers written from the structs of the hot path, in which records are
//! slots; a replica's own requests and the answers to them are the wire crate's.

use crate::{
    ids::{NodeId, Offset, Uuid},
    protocol::{
        EpochEndOffset, FetchPartitionResponse, FetchRecords, FetchRequest, FetchResponse,
        FetchTopicResponse, Few, LeaderIdAndEpoch, SnapshotId as WireSnapshotId,
        messages::{FetchRequestData, FetchResponseData, wire},
    },
    raft::{
        messages::{FetchLogReply, FetchLogRequest, FetchNews, LogPosition, PeerReply, ReplyBody},
        snapshot::SnapshotId,
        voters::ReplicaKey,
    },
    storage::Part,
};

use super::{
    Head, HeadPartition, PARTITION, TOPIC, WireFault, cluster, directory, epoch, epoch_or_none,
    is_whole, node_or_nobody, only, read_cluster,
};

/// The high watermark of a sender that does not know the field (KIP-1166).
const UNKNOWN: i64 = i64::MAX;
const NONE: i64 = -1;

/// Writes a fetch.
#[must_use]
pub fn fetch_request(request: &FetchLogRequest) -> FetchRequestData {
    let last_epoch = if request.fetch.end == 0 {
        -1
    } else {
        request.fetch.epoch.0
    };
    let max_bytes = i32::try_from(request.max_bytes).unwrap_or(i32::MAX);
    let partition = wire::fetch_request::FetchPartition::default()
        .with_partition(PARTITION)
        .with_current_leader_epoch(request.epoch.0)
        .with_fetch_offset(request.fetch.end)
        .with_last_fetched_epoch(last_epoch)
        .with_partition_max_bytes(max_bytes)
        .with_replica_directory_id(request.replica.directory.into())
        .with_high_watermark(request.high_watermark.unwrap_or(UNKNOWN));
    let topic = wire::fetch_request::FetchTopic::default()
        .with_topic_id(Uuid::METADATA_TOPIC.into())
        .with_partitions(vec![partition]);
    let replica =
        wire::fetch_request::ReplicaState::default().with_replica_id(request.replica.id.0);
    FetchRequestData::default()
        .with_cluster_id(cluster(request.cluster_id.as_ref()))
        .with_replica_state(replica)
        .with_max_wait_ms(i32::try_from(request.max_wait_ms).unwrap_or(i32::MAX))
        .with_max_bytes(max_bytes)
        .with_topics(vec![topic])
}

/// Returns whether a Fetch request is about the metadata log: the controller's listener serves no other.
#[must_use]
pub fn is_metadata_fetch(request: &FetchRequest) -> bool {
    let metadata = Uuid::METADATA_TOPIC.into();
    request
        .topics
        .iter()
        .any(|topic| topic.topic_id == metadata || topic.topic.as_str() == TOPIC)
}

/// Reads a fetch.
///
/// # Errors
/// Says what in it no replica sends.
pub fn read_fetch_request(request: &FetchRequest) -> Result<FetchLogRequest, WireFault> {
    let metadata = Uuid::METADATA_TOPIC.into();
    let partition = only(
        &request.topics[..],
        |topic| {
            let is_metadata = topic.topic_id == metadata || topic.topic.as_str() == TOPIC;
            (is_metadata, &topic.partitions[..])
        },
        |partition| partition.partition,
    )?;
    let end = partition.fetch_offset;
    if end < 0 {
        return Err(WireFault::Field {
            field: "FetchOffset",
        });
    }
    let last_epoch = partition.last_fetched_epoch.max(0);
    let bytes = partition.partition_max_bytes.min(request.max_bytes);
    let known = partition.high_watermark;
    Ok(FetchLogRequest {
        cluster_id: read_cluster(request.cluster_id.as_ref()),
        replica: ReplicaKey {
            // An admin tool that reads the log is nobody, and fetches like an observer.
            id: NodeId(request.replica_id),
            directory: directory(partition.replica_directory_id),
        },
        epoch: epoch(partition.current_leader_epoch, "CurrentLeaderEpoch")?,
        fetch: LogPosition {
            epoch: epoch(last_epoch, "LastFetchedEpoch")?,
            end,
        },
        high_watermark: (known != UNKNOWN).then_some(known.max(NONE)),
        max_wait_ms: u64::try_from(request.max_wait_ms).unwrap_or(0),
        max_bytes: u32::try_from(bytes).unwrap_or(0),
    })
}

/// Writes the answer to a fetch: the answer, whose records are slot 0, and the parts that go there.
#[must_use]
pub fn fetch_response(reply: &PeerReply) -> (FetchResponse, Vec<Part>) {
    if is_whole(reply) {
        let answer = FetchResponse {
            error_code: reply.error,
            ..FetchResponse::default()
        };
        return (answer, Vec::new());
    }
    let empty = FetchLogReply::default();
    let body = match &reply.body {
        ReplyBody::Fetch(body) => body,
        ReplyBody::Vote { .. }
        | ReplyBody::BeginQuorumEpoch
        | ReplyBody::EndQuorumEpoch
        | ReplyBody::FetchSnapshot(_) => &empty,
    };
    let mut partition = FetchPartitionResponse {
        partition_index: PARTITION,
        error_code: reply.error,
        high_watermark: body.high_watermark.unwrap_or(NONE),
        last_stable_offset: body.high_watermark.unwrap_or(NONE),
        log_start_offset: body.log_start,
        current_leader: LeaderIdAndEpoch {
            leader_id: node_or_nobody(reply.leader),
            leader_epoch: epoch_or_none(reply.epoch),
        },
        ..FetchPartitionResponse::default()
    };
    let mut parts = Vec::new();
    match &body.news {
        FetchNews::Records(records) => {
            parts.clone_from(records);
            let len = parts.iter().map(Part::len).sum();
            partition.records = Some(FetchRecords { slot: 0, len });
        }
        FetchNews::Diverging(own) => {
            partition.diverging_epoch = EpochEndOffset {
                epoch: own.epoch.0,
                end_offset: own.end,
            };
        }
        FetchNews::Snapshot(id) => {
            partition.snapshot_id = WireSnapshotId {
                end_offset: id.end_offset,
                epoch: id.epoch.0,
            };
        }
    }
    let topic = FetchTopicResponse {
        topic: super::topic(),
        topic_id: Uuid::METADATA_TOPIC.into(),
        partitions: Few::from(vec![partition]),
    };
    let answer = FetchResponse {
        topics: Few::from(vec![topic]),
        ..FetchResponse::default()
    };
    (answer, parts)
}

/// Reads the answer to a fetch.
///
/// # Errors
/// Says what in it no replica sends.
pub fn read_fetch_response(data: &FetchResponseData) -> Result<PeerReply, WireFault> {
    let metadata = Uuid::METADATA_TOPIC.into();
    let partition = only(
        &data.responses,
        |topic| {
            let is_metadata = topic.topic_id == metadata || topic.topic.as_str() == TOPIC;
            (is_metadata, &topic.partitions[..])
        },
        |partition| partition.partition_index,
    )
    .ok();
    let head = Head {
        error: data.error_code,
        partition: partition.map(|partition| HeadPartition {
            error: partition.error_code,
            leader: partition.current_leader.leader_id,
            epoch: partition.current_leader.leader_epoch,
        }),
    };
    let body = match partition {
        Some(partition) => body(partition)?,
        None => FetchLogReply::default(),
    };
    head.read(ReplyBody::Fetch(body))
}

fn body(partition: &wire::fetch_response::PartitionData) -> Result<FetchLogReply, WireFault> {
    let diverging = &partition.diverging_epoch;
    let snapshot = &partition.snapshot_id;
    let news = if diverging.epoch >= 0 && diverging.end_offset >= 0 {
        FetchNews::Diverging(LogPosition {
            epoch: epoch(diverging.epoch, "DivergingEpoch")?,
            end: diverging.end_offset,
        })
    } else if snapshot.epoch >= 0 && snapshot.end_offset >= 0 {
        FetchNews::Snapshot(SnapshotId {
            end_offset: snapshot.end_offset,
            epoch: epoch(snapshot.epoch, "SnapshotId")?,
        })
    } else {
        let records = partition.records.iter().filter(|bytes| !bytes.is_empty());
        FetchNews::Records(records.map(|bytes| Part::Bytes(bytes.clone())).collect())
    };
    let known: Offset = partition.high_watermark;
    Ok(FetchLogReply {
        high_watermark: (known >= 0).then_some(known),
        log_start: partition.log_start_offset.max(0),
        news,
    })
}
