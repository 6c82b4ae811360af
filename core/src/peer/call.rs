//! What goes over a link, and how it ends.

use bytes::Bytes;

use crate::ids::{ConnectionId, NodeId};

/// What a connection to another node is for; each lane is a connection of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Votes, and the log of the controller quorum.
    Quorum,
    /// Data of partitions that the other node leads.
    Replication,
    /// Requests for the active controller: registration, heartbeats, in-sync sets, what clients ask.
    Controller,
}

impl Lane {
    /// All lanes.
    pub const ALL: [Self; 3] = [Self::Quorum, Self::Replication, Self::Controller];
}

/// A call's number, chosen by whoever calls; its answer carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A request to another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Kafka's key of the API.
    pub api_key: i16,
    /// The version of the request and of its answer.
    pub version: i16,
    /// The request, without its header.
    pub body: Bytes,
    /// How long to wait for the answer, from now on.
    pub timeout_ms: u64,
    /// The largest answer that is taken, its header included.
    pub answer_bytes_max: usize,
}

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// Nobody said how to reach the node; the call was not sent.
    #[error("the node has no address on this lane")]
    NoAddress,
    /// As many calls wait for this link as may; the call was not sent.
    #[error("too many calls wait for the node")]
    Overloaded,
    /// The request does not fit a frame; it was not sent.
    #[error("the request is too long for a frame")]
    TooLong,
    /// The connection could not be made or is gone; the other node may have acted on the call.
    #[error("the connection is lost")]
    LinkLost,
    /// The answer did not come in time; the other node may have acted on the call.
    #[error("no answer came in time")]
    TimedOut,
    /// The answer cannot be one; the other node may have acted on the call.
    #[error("the answer is damaged or larger than allowed")]
    Malformed,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which call.
    pub id: CallId,
    /// Whom it went to.
    pub node: NodeId,
    /// The answer's body, or why there is none.
    pub outcome: Result<Bytes, CallError>,
}

/// What the links want done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerOutput {
    /// Make a connection, and tell [`Peers::on_dialled`](super::Peers::on_dialled) or
    /// [`Peers::on_closed`](super::Peers::on_closed).
    Dial {
        /// The connection's number, never used before.
        connection: ConnectionId,
        /// A name or an address.
        host: String,
        /// The port.
        port: u16,
        /// The largest frame that may come, its length prefix not counted.
        frame_bytes_max: usize,
    },
    /// Send one frame.
    Send {
        /// The connection; gone is fine.
        connection: ConnectionId,
        /// The frame with its length prefix.
        frame: Bytes,
    },
    /// Close a connection, or give up making it. Nothing about it is expected any more.
    Close {
        /// The connection.
        connection: ConnectionId,
    },
}
