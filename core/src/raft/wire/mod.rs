//! Between the quorum's own types and Kafka's messages: pure conversions, in both directions, for the one partition of the
//! metadata log.
//!
//! What is written is filled for the newest version ([`VOTE`], [`BEGIN_QUORUM_EPOCH`], [`END_QUORUM_EPOCH`], [`FETCH`],
//! [`FETCH_SNAPSHOT`]), which is the version that replicas speak to each other. What is read may be of any version: a field that
//! an older one lacks reads as unknown.

mod describe;
mod elections;
mod fetch;
mod serving;
mod snapshots;

use crate::{
    ids::{Epoch, NodeId, Uuid},
    protocol::{ErrorCode, KafkaString, KafkaUuid},
};

pub use self::{
    describe::{asks_for_metadata_quorum, describe_quorum_response, unknown_quorum},
    elections::{
        begin_request, begin_response, end_request, end_response, read_begin_request,
        read_begin_response, read_end_request, read_end_response, read_vote_request,
        read_vote_response, vote_request, vote_response,
    },
    fetch::{
        fetch_request, fetch_response, is_metadata_fetch, read_fetch_request, read_fetch_response,
    },
    serving::PeerCall,
    snapshots::{
        fetch_snapshot_request, fetch_snapshot_response, read_fetch_snapshot_request,
        read_fetch_snapshot_response,
    },
};

use super::{
    messages::{PeerReply, ReplyBody},
    voters::{Endpoint, ReplicaKey},
};

/// The version of Vote that is sent.
pub const VOTE: i16 = 2;
/// The version of BeginQuorumEpoch that is sent.
pub const BEGIN_QUORUM_EPOCH: i16 = 1;
/// The version of EndQuorumEpoch that is sent.
pub const END_QUORUM_EPOCH: i16 = 1;
/// The version of Fetch that is sent.
pub const FETCH: i16 = 18;
/// The version of FetchSnapshot that is sent.
pub const FETCH_SNAPSHOT: i16 = 1;

/// Why a message is not one of the quorum's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireFault {
    /// It does not speak of exactly the one partition of the metadata log; Kafka answers INVALID_REQUEST.
    #[error("not about partition 0 of __cluster_metadata alone")]
    Partition,
    /// A field holds what no replica sends.
    #[error("field {field} is out of range")]
    Field {
        /// Its name in Kafka's schema.
        field: &'static str,
    },
    /// An error code that this release does not know.
    #[error("error code {code} is unknown")]
    ErrorCode {
        /// The code.
        code: i16,
    },
}

/// Name of the metadata topic.
const TOPIC: &str = "__cluster_metadata";
const PARTITION: i32 = 0;
const NOBODY: i32 = -1;

fn text(value: &str) -> KafkaString {
    KafkaString::from(value.to_owned())
}

fn topic() -> KafkaString {
    text(TOPIC)
}

fn cluster(id: Option<&String>) -> Option<KafkaString> {
    id.map(|id| text(id))
}

fn read_cluster(id: Option<&KafkaString>) -> Option<String> {
    id.map(|id| id.as_str().to_owned())
}

/// Returns the only partition of the only topic, or says that there are others.
fn only<'a, T, P>(
    topics: &'a [T],
    partitions: impl Fn(&'a T) -> (bool, &'a [P]),
    index: impl Fn(&P) -> i32,
) -> Result<&'a P, WireFault> {
    let [topic] = topics else {
        return Err(WireFault::Partition);
    };
    let (is_metadata, partitions) = partitions(topic);
    match partitions {
        [partition] if is_metadata && index(partition) == PARTITION => Ok(partition),
        _ => Err(WireFault::Partition),
    }
}

fn node(id: i32, field: &'static str) -> Result<NodeId, WireFault> {
    if id < 0 {
        return Err(WireFault::Field { field });
    }
    Ok(NodeId(id))
}

fn maybe_node(id: i32) -> Option<NodeId> {
    (id >= 0).then_some(NodeId(id))
}

fn node_or_nobody(id: Option<NodeId>) -> i32 {
    id.map_or(NOBODY, |id| id.0)
}

fn epoch(value: i32, field: &'static str) -> Result<Epoch, WireFault> {
    if value < 0 {
        return Err(WireFault::Field { field });
    }
    Ok(Epoch(value))
}

fn directory(id: KafkaUuid) -> Uuid {
    Uuid::from(id)
}

/// Reads who is meant; nobody in particular when the id is negative.
fn maybe_voter(id: i32, directory_id: KafkaUuid) -> Option<ReplicaKey> {
    maybe_node(id).map(|id| ReplicaKey {
        id,
        directory: directory(directory_id),
    })
}

fn error(code: i16) -> Result<ErrorCode, WireFault> {
    ErrorCode::from_code(code).ok_or(WireFault::ErrorCode { code })
}

/// The part of an answer that is alike in all of them.
struct Head {
    /// The error of the whole message.
    error: i16,
    /// What stands in the partition, if there is one.
    partition: Option<HeadPartition>,
}

struct HeadPartition {
    error: i16,
    leader: i32,
    epoch: i32,
}

impl Head {
    fn read(&self, body: ReplyBody) -> Result<PeerReply, WireFault> {
        let whole = error(self.error)?;
        let Some(partition) = &self.partition else {
            if whole.is_error() {
                return Ok(PeerReply {
                    error: whole,
                    epoch: None,
                    leader: None,
                    body,
                });
            }
            return Err(WireFault::Partition);
        };
        let inner = error(partition.error)?;
        Ok(PeerReply {
            error: if whole.is_error() { whole } else { inner },
            epoch: (partition.epoch >= 0).then_some(Epoch(partition.epoch)),
            leader: maybe_node(partition.leader),
            body,
        })
    }
}

/// Whether the error of an answer is that of the whole message: then nothing is said of a partition.
fn is_whole(reply: &PeerReply) -> bool {
    reply.epoch.is_none()
}

fn epoch_or_none(epoch: Option<Epoch>) -> i32 {
    epoch.map_or(-1, |epoch| epoch.0)
}

/// Says where a node listens, by host and port.
fn listeners(endpoints: &[Endpoint]) -> impl Iterator<Item = (KafkaString, KafkaString, u16)> {
    endpoints
        .iter()
        .map(|endpoint| (text(&endpoint.name), text(&endpoint.host), endpoint.port))
}

#[cfg(test)]
mod tests;
