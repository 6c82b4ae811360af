//! New partitions: checks of manual assignments, and the records.

use super::{ApiError, ErrorCode};
use crate::{
    controller::{
        image::MetadataImage,
        records::{PartitionV1, Record},
    },
    ids::{Epoch, NodeId, Uuid},
};

/// Checks one manual assignment; `replication_factor` is that of the partitions before it.
pub(super) fn check_assignment(
    image: &MetadataImage,
    replicas: &[i32],
    replication_factor: Option<usize>,
) -> Result<Vec<NodeId>, ApiError> {
    let refuse = |message: String| Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
    if replicas.is_empty() {
        return refuse(
            "The manual partition assignment includes an empty replica list.".to_owned(),
        );
    }
    let mut sorted = replicas.to_vec();
    sorted.sort_unstable();
    let mut previous = None;
    for broker in sorted {
        if image.broker(NodeId(broker)).is_none() {
            return refuse(format!(
                "The manual partition assignment includes broker {broker}, but no such broker is registered."
            ));
        }
        if previous == Some(broker) {
            return refuse(format!(
                "The manual partition assignment includes the broker {broker} more than once."
            ));
        }
        previous = Some(broker);
    }
    if let Some(factor) = replication_factor
        && factor != replicas.len()
    {
        return refuse(format!(
            "The manual partition assignment includes a partition with {} replica(s), but this is not consistent with \
             previous partitions, which have {factor} replica(s).",
            replicas.len()
        ));
    }
    Ok(replicas.iter().copied().map(NodeId).collect())
}

/// Makes the record of a new partition, led by its first live replica; `None` if no replica is live.
pub(super) fn partition_record(
    image: &MetadataImage,
    topic_id: Uuid,
    partition_id: i32,
    replicas: Vec<NodeId>,
) -> Option<Record> {
    let active = |id: &NodeId| {
        image
            .broker(*id)
            .is_some_and(super::super::image::BrokerImage::is_active)
    };
    let isr: Vec<NodeId> = replicas.iter().copied().filter(active).collect();
    let leader = *isr.first()?;
    let directories = replicas
        .iter()
        .map(|id| default_directory(image, *id))
        .collect();
    let record = PartitionV1 {
        topic_id,
        partition_id,
        replicas,
        directories,
        isr,
        elr: Vec::new(),
        last_known_elr: Vec::new(),
        removing_replicas: Vec::new(),
        adding_replicas: Vec::new(),
        leader,
        leader_recovering: false,
        leader_epoch: Epoch(0),
        partition_epoch: 0,
    };
    Some(record.into())
}

/// Returns the directory that a replica will be put in, if the broker has no choice; the zero id if it will choose.
pub(super) fn default_directory(image: &MetadataImage, broker: NodeId) -> Uuid {
    match image
        .broker(broker)
        .map(|broker| broker.log_dirs.as_slice())
    {
        Some([only]) => *only,
        _ => Uuid::ZERO,
    }
}
