//! Which replica a consumer should read from: one in its own rack, if any is near enough to the leader (KIP-392).

use super::{FollowerProgress, Leadership};
use crate::{
    ids::{NodeId, Offset},
    time::Instant,
};

/// A replica that a consumer could read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadableReplica<'a> {
    /// The broker.
    pub node: NodeId,
    /// Its rack; empty if it names none.
    pub rack: &'a str,
    /// One past its last record.
    pub end: Offset,
    /// When it last held everything that the leader had; `None` for the leader itself.
    pub caught_up: Option<Instant>,
}

impl Leadership {
    /// Returns the followers that may serve a consumer at this offset. A follower outside the ISR may lag for ever, and one
    /// that does not hold the offset cannot serve it.
    pub fn readable_followers(
        &self,
        fetch_offset: Offset,
    ) -> impl Iterator<Item = (NodeId, &FollowerProgress)> {
        let isr = self.isr();
        self.followers().filter(move |(node, follower)| {
            isr.contains(node)
                && follower.end().is_some_and(|end| end >= fetch_offset)
                && follower
                    .log_start()
                    .is_some_and(|start| start <= fetch_offset)
        })
    }
}

/// Selects as Kafka's `RackAwareReplicaSelector` does: the leader if it stands in the consumer's rack, else the follower of
/// that rack that has the most, else `None`: the consumer stays with the leader.
#[must_use]
pub fn preferred_read_replica(
    client_rack: &str,
    leader_rack: &str,
    followers: &[ReadableReplica<'_>],
) -> Option<NodeId> {
    if client_rack.is_empty() || client_rack == leader_rack {
        return None;
    }
    followers
        .iter()
        .filter(|replica| replica.rack == client_rack)
        .max_by_key(|replica| (replica.end, replica.caught_up, replica.node))
        .map(|replica| replica.node)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(node: i32, rack: &'static str, end: Offset) -> ReadableReplica<'static> {
        ReadableReplica {
            node: NodeId(node),
            rack,
            end,
            caught_up: Some(Instant::ORIGIN),
        }
    }

    #[test]
    fn consumer_reads_from_its_rack_and_there_from_whoever_has_most() {
        let followers = [
            replica(2, "a", 10),
            replica(3, "b", 10),
            replica(4, "b", 12),
        ];
        let preferred = |rack, leader| preferred_read_replica(rack, leader, &followers);
        assert_eq!(preferred("b", "c"), Some(NodeId(4)));
        assert_eq!(preferred("a", "c"), Some(NodeId(2)));
        assert_eq!(preferred("b", "b"), None, "the leader is as near");
        assert_eq!(preferred("d", "c"), None, "nobody is near");
        assert_eq!(preferred("", ""), None, "the consumer names no rack");
    }
}
