//! Where a consumer reads from: `replica.selector.class` (KIP-392).

use std::collections::BTreeMap;

use crate::{
    frontend::Services,
    ids::NodeId,
    replication::{FetchClaim, Partition, ReadableReplica, preferred_read_replica},
};

/// Returns a live follower in the consumer's rack that holds what it asks for, where this broker leads and stands elsewhere.
pub(super) fn find(
    services: &Services<'_>,
    partition: &Partition,
    claim: &FetchClaim,
    client_rack: &str,
    listener: &str,
) -> Option<NodeId> {
    let leadership = partition.leadership()?;
    let racks: BTreeMap<NodeId, &str> = services
        .cluster
        .live_brokers(listener)
        .map(|(node, _, rack)| (node, rack.unwrap_or_default()))
        .collect();
    let leader_rack = racks.get(&partition.assignment().local).copied();
    let followers: Vec<ReadableReplica<'_>> = leadership
        .readable_followers(claim.fetch_offset)
        .filter_map(|(node, follower)| {
            Some(ReadableReplica {
                node,
                rack: racks.get(&node)?,
                end: follower.end()?,
                caught_up: follower.caught_up(),
            })
        })
        .collect();
    preferred_read_replica(client_rack, leader_rack.unwrap_or_default(), &followers)
}
