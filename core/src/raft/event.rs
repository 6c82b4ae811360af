//! What the quorum's replica says to its host.

use bytes::Bytes;

use crate::{
    event::Event,
    ids::{Epoch, NodeId, Offset},
};

/// Something that happened; to be applied in the order of its coming.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RaftEvent {
    /// A snapshot was loaded: forget all state and take this instead.
    SnapshotLoaded {
        /// One past the last offset that it replaces.
        end_offset: Offset,
        /// Epoch of the entry before that.
        epoch: Epoch,
        /// The metadata records.
        records: Vec<Bytes>,
    },
    /// Records are committed: every future leader has them.
    Committed {
        /// Offset of the first.
        base_offset: Offset,
        /// Epoch of the leader that appended them.
        epoch: Epoch,
        /// The metadata records of one append.
        records: Vec<Bytes>,
    },
    /// The folder is empty and this replica founds its cluster alone: write its new identity and say with
    /// [`Raft::identity_written`](super::Raft::identity_written) when that is durable. Nothing counts before.
    Founding,
    /// This replica leads, and every record committed before has been said: it may decide and append.
    BecameLeader {
        /// Its epoch.
        epoch: Epoch,
    },
    /// This replica leads no more: nothing of what it appended and was not told committed may be relied on.
    LostLeadership {
        /// The epoch that it led.
        epoch: Epoch,
    },
    /// The epoch or what is known of its leader has changed.
    LeaderChanged {
        /// The epoch.
        epoch: Epoch,
        /// Its leader, where known.
        leader: Option<NodeId>,
    },
    /// Another node is not what this one's settings take it for, or the other way round; somebody should look.
    Warning {
        /// What was seen and what to do next.
        message: String,
    },
    /// The log has grown: write the state as it is at this point of the events with
    /// [`Raft::write_snapshot`](super::Raft::write_snapshot).
    SnapshotNeeded {
        /// One past the last offset that the state reflects.
        at: Offset,
    },
    /// Everything asked for by a close is durable.
    Closed,
    /// For people and checkers; to be passed on as it is.
    Notice(Event),
    /// This replica cannot go on.
    Fatal {
        /// What happened and what to do next.
        message: String,
    },
}

/// Why records were not appended; nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// This replica does not lead, or not yet with all that was committed before it.
    #[error("not the leader of epoch {epoch}")]
    NotLeader {
        /// The epoch this replica knows.
        epoch: Epoch,
        /// Its leader, where known.
        leader: Option<NodeId>,
    },
    /// There is nothing to append.
    #[error("an append needs a record")]
    Empty,
    /// The records do not fit into one batch, and only a batch is atomic.
    #[error("the records are larger than a batch of the metadata log may be")]
    TooLarge,
}
