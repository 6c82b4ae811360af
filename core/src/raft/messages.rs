//! What the replicas of the quorum say to each other, in types: every request is a question to one replica, every reply answers
//! one request.
//!
//! The forms are those of Kafka's messages Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch and FetchSnapshot for the one partition
//! of the metadata log; [`wire`](super::wire) converts them.

use crate::{
    ids::{Epoch, NodeId, Offset},
    protocol::ErrorCode,
    storage::Part,
};

use super::{
    snapshot::SnapshotId,
    voters::{Endpoint, ReplicaKey},
};

/// A call that this replica made: the number under which its reply counts.
///
/// The first number of an incarnation is drawn, so that the reply to a call of an earlier one answers nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// The host's name for a peer's request that waits for its reply; unique within an incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerTicket(pub u64);

/// A call will not be answered: the link broke, or could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLost;

/// The last entry of a log, by which logs are compared: first the epoch, then the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    /// Epoch of the last entry.
    pub epoch: Epoch,
    /// The offset after it.
    pub end: Offset,
}

/// A question to one replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerRequest {
    /// A candidate asks for a vote, or whether it would get one.
    Vote(VoteRequest),
    /// A new leader says so.
    BeginQuorumEpoch(BeginQuorumEpochRequest),
    /// A leader leads no more.
    EndQuorumEpoch(EndQuorumEpochRequest),
    /// A replica asks for what follows its copy, and promises that its copy is durable.
    Fetch(FetchLogRequest),
    /// A replica asks for a piece of a snapshot.
    FetchSnapshot(FetchSnapshotRequest),
}

/// See [`PeerRequest::Vote`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoteRequest {
    /// The cluster that the candidate belongs to, once it knows.
    pub cluster_id: Option<String>,
    /// Who is asked; the directory is zero where the candidate does not know it.
    pub voter: Option<ReplicaKey>,
    /// Who asks.
    pub candidate: ReplicaKey,
    /// The epoch of the vote; of a pre-vote the candidate's present one.
    pub epoch: Epoch,
    /// The candidate's log.
    pub last: LogPosition,
    /// Nothing is promised and no epoch begins (KIP-996).
    pub is_pre_vote: bool,
}

/// See [`PeerRequest::BeginQuorumEpoch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeginQuorumEpochRequest {
    /// The leader's cluster, once it knows.
    pub cluster_id: Option<String>,
    /// Who is told.
    pub voter: Option<ReplicaKey>,
    /// The leader.
    pub leader: NodeId,
    /// Its epoch.
    pub epoch: Epoch,
    /// Where it listens.
    pub endpoints: Vec<Endpoint>,
}

/// See [`PeerRequest::EndQuorumEpoch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndQuorumEpochRequest {
    /// The leader's cluster.
    pub cluster_id: Option<String>,
    /// The leader that was.
    pub leader: NodeId,
    /// Its epoch.
    pub epoch: Epoch,
    /// Who should stand for election, the one with the longest copy first.
    pub preferred: Vec<ReplicaKey>,
    /// Where the leader listens.
    pub endpoints: Vec<Endpoint>,
}

/// See [`PeerRequest::Fetch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchLogRequest {
    /// The replica's cluster, once it knows.
    pub cluster_id: Option<String>,
    /// Who fetches.
    pub replica: ReplicaKey,
    /// The epoch that it knows.
    pub epoch: Epoch,
    /// Its log: everything before is durable there.
    pub fetch: LogPosition,
    /// The high watermark that it knows (KIP-1166); none when it cannot say, so that no change of it is worth an answer.
    pub high_watermark: Option<Offset>,
    /// How long it waits for news.
    pub max_wait_ms: u64,
    /// How much it takes.
    pub max_bytes: u32,
}

/// See [`PeerRequest::FetchSnapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchSnapshotRequest {
    /// The replica's cluster, once it knows.
    pub cluster_id: Option<String>,
    /// Who fetches.
    pub replica: ReplicaKey,
    /// The epoch that it knows.
    pub epoch: Epoch,
    /// Which snapshot.
    pub snapshot: SnapshotId,
    /// The first byte.
    pub position: u64,
    /// How much it takes.
    pub max_bytes: u32,
}

/// An answer, with what its sender knows of the quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerReply {
    /// Whether the request was taken.
    pub error: ErrorCode,
    /// The sender's epoch; none where the request did not get as far as that.
    pub epoch: Option<Epoch>,
    /// The leader of that epoch, where the sender knows it.
    pub leader: Option<NodeId>,
    /// The rest.
    pub body: ReplyBody,
}

/// What an answer says beside the quorum's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyBody {
    /// To [`PeerRequest::Vote`].
    Vote {
        /// Whether the vote is given, or would be.
        granted: bool,
    },
    /// To [`PeerRequest::BeginQuorumEpoch`].
    BeginQuorumEpoch,
    /// To [`PeerRequest::EndQuorumEpoch`].
    EndQuorumEpoch,
    /// To [`PeerRequest::Fetch`].
    Fetch(FetchLogReply),
    /// To [`PeerRequest::FetchSnapshot`].
    FetchSnapshot(SnapshotPiece),
}

/// What a leader answers to a fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchLogReply {
    /// The leader's high watermark; none when it knows none yet in its epoch.
    pub high_watermark: Option<Offset>,
    /// The leader's log start.
    pub log_start: Offset,
    /// What to do.
    pub news: FetchNews,
}

/// What a fetching replica learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchNews {
    /// Whole batches that follow its copy; none of them when there is nothing new. A reply that was received holds bytes only.
    Records(Vec<Part>),
    /// Its copy is not the leader's: the largest epoch up to its own that the leader has, and where that ends there.
    Diverging(LogPosition),
    /// What follows its copy is gone from the leader's log: this snapshot holds it.
    Snapshot(SnapshotId),
}

impl Default for FetchNews {
    fn default() -> Self {
        Self::Records(Vec::new())
    }
}

/// A piece of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotPiece {
    /// Which snapshot.
    pub snapshot: SnapshotId,
    /// Size of the whole.
    pub size: u64,
    /// The first byte of this piece.
    pub position: u64,
    /// The piece. A reply that was received holds bytes only.
    pub bytes: Vec<Part>,
}

impl PeerRequest {
    /// Returns the cluster that the sender belongs to, where it says.
    #[must_use]
    pub fn cluster_id(&self) -> Option<&str> {
        let cluster_id = match self {
            Self::Vote(request) => &request.cluster_id,
            Self::BeginQuorumEpoch(request) => &request.cluster_id,
            Self::EndQuorumEpoch(request) => &request.cluster_id,
            Self::Fetch(request) => &request.cluster_id,
            Self::FetchSnapshot(request) => &request.cluster_id,
        };
        cluster_id.as_deref()
    }

    /// Returns the body of an answer that says nothing.
    #[must_use]
    pub fn empty_body(&self) -> ReplyBody {
        match self {
            Self::Vote(_) => ReplyBody::Vote { granted: false },
            Self::BeginQuorumEpoch(_) => ReplyBody::BeginQuorumEpoch,
            Self::EndQuorumEpoch(_) => ReplyBody::EndQuorumEpoch,
            Self::Fetch(_) => ReplyBody::Fetch(FetchLogReply::default()),
            Self::FetchSnapshot(request) => ReplyBody::FetchSnapshot(SnapshotPiece {
                snapshot: request.snapshot,
                size: 0,
                position: request.position,
                bytes: Vec::new(),
            }),
        }
    }
}
