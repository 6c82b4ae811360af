//! FetchSnapshot.

use bytes::{Bytes, BytesMut};

use crate::{
    ids::NodeId,
    protocol::messages::quorum::{
        fetch_snapshot_request as request, fetch_snapshot_response as answer,
    },
    raft::{
        messages::{FetchSnapshotRequest, PeerReply, ReplyBody, SnapshotPiece},
        snapshot::SnapshotId,
        voters::ReplicaKey,
    },
    storage::Part,
};

use super::{
    Head, HeadPartition, PARTITION, TOPIC, WireFault, cluster, directory, epoch, epoch_or_none,
    is_whole, node_or_nobody, only, read_cluster, topic,
};

/// Writes a FetchSnapshot request.
#[must_use]
pub fn fetch_snapshot_request(from: &FetchSnapshotRequest) -> request::FetchSnapshotRequestData {
    let id = request::SnapshotId::default()
        .with_end_offset(from.snapshot.end_offset)
        .with_epoch(from.snapshot.epoch.0);
    let partition = request::PartitionSnapshot::default()
        .with_partition(PARTITION)
        .with_current_leader_epoch(from.epoch.0)
        .with_snapshot_id(id)
        .with_position(i64::try_from(from.position).unwrap_or(i64::MAX))
        .with_replica_directory_id(from.replica.directory.into());
    let data = request::TopicSnapshot::default()
        .with_name(topic())
        .with_partitions(vec![partition]);
    request::FetchSnapshotRequestData::default()
        .with_cluster_id(cluster(from.cluster_id.as_ref()))
        .with_replica_id(from.replica.id.0)
        .with_max_bytes(i32::try_from(from.max_bytes).unwrap_or(i32::MAX))
        .with_topics(vec![data])
}

/// Reads a FetchSnapshot request.
///
/// # Errors
/// Says what in it no replica sends.
pub fn read_fetch_snapshot_request(
    data: &request::FetchSnapshotRequestData,
) -> Result<FetchSnapshotRequest, WireFault> {
    let partition = only(
        &data.topics,
        |topic| (topic.name.as_str() == TOPIC, &topic.partitions[..]),
        |partition| partition.partition,
    )?;
    let out_of_range = |field| WireFault::Field { field };
    Ok(FetchSnapshotRequest {
        cluster_id: read_cluster(data.cluster_id.as_ref()),
        replica: ReplicaKey {
            id: NodeId(data.replica_id),
            directory: directory(partition.replica_directory_id),
        },
        epoch: epoch(partition.current_leader_epoch, "CurrentLeaderEpoch")?,
        snapshot: SnapshotId {
            end_offset: partition.snapshot_id.end_offset,
            epoch: epoch(partition.snapshot_id.epoch, "SnapshotId")?,
        },
        position: u64::try_from(partition.position).map_err(|_| out_of_range("Position"))?,
        max_bytes: u32::try_from(data.max_bytes).map_err(|_| out_of_range("MaxBytes"))?,
    })
}

/// Writes the answer to a FetchSnapshot request. The piece is bytes, as this replica's answers are.
#[must_use]
pub fn fetch_snapshot_response(reply: &PeerReply) -> answer::FetchSnapshotResponseData {
    let ReplyBody::FetchSnapshot(piece) = &reply.body else {
        return answer::FetchSnapshotResponseData::default().with_error_code(reply.error.code());
    };
    if is_whole(reply) {
        return answer::FetchSnapshotResponseData::default().with_error_code(reply.error.code());
    }
    let id = answer::SnapshotId::default()
        .with_end_offset(piece.snapshot.end_offset)
        .with_epoch(piece.snapshot.epoch.0);
    let leader = answer::LeaderIdAndEpoch::default()
        .with_leader_id(node_or_nobody(reply.leader))
        .with_leader_epoch(epoch_or_none(reply.epoch));
    let mut partition = answer::PartitionSnapshot::default()
        .with_index(PARTITION)
        .with_error_code(reply.error.code())
        .with_snapshot_id(id)
        .with_current_leader(leader)
        .with_size(i64::try_from(piece.size).unwrap_or(i64::MAX))
        .with_position(i64::try_from(piece.position).unwrap_or(i64::MAX));
    // Null is not allowed here, unlike in Fetch.
    partition.unaligned_records = Some(joined(&piece.bytes));
    let data = answer::TopicSnapshot::default()
        .with_name(topic())
        .with_partitions(vec![partition]);
    answer::FetchSnapshotResponseData::default().with_topics(vec![data])
}

fn joined(parts: &[Part]) -> Bytes {
    let bytes: Vec<&Bytes> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Bytes(bytes) => Some(bytes),
            Part::File(_) => None,
        })
        .collect();
    match bytes.as_slice() {
        [] => Bytes::new(),
        [only] => (*only).clone(),
        many => {
            let mut joined = BytesMut::new();
            for bytes in many {
                joined.extend_from_slice(bytes);
            }
            joined.freeze()
        }
    }
}

/// Reads the answer to a FetchSnapshot request.
///
/// # Errors
/// Says what in it no replica sends.
pub fn read_fetch_snapshot_response(
    data: &answer::FetchSnapshotResponseData,
) -> Result<PeerReply, WireFault> {
    let partition = only(
        &data.topics,
        |topic| (topic.name.as_str() == TOPIC, &topic.partitions[..]),
        |partition| partition.index,
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
    let out_of_range = |field| WireFault::Field { field };
    let mut piece = SnapshotPiece {
        snapshot: SnapshotId {
            end_offset: 0,
            epoch: crate::ids::Epoch(0),
        },
        size: 0,
        position: 0,
        bytes: Vec::new(),
    };
    if let Some(partition) = partition {
        piece.snapshot = SnapshotId {
            end_offset: partition.snapshot_id.end_offset,
            epoch: epoch(partition.snapshot_id.epoch, "SnapshotId")?,
        };
        piece.size = u64::try_from(partition.size).map_err(|_| out_of_range("Size"))?;
        piece.position = u64::try_from(partition.position).map_err(|_| out_of_range("Position"))?;
        let bytes = partition.unaligned_records.iter();
        piece.bytes = bytes.map(|bytes| Part::Bytes(bytes.clone())).collect();
    }
    head.read(ReplyBody::FetchSnapshot(piece))
}
