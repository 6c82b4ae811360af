//! Why a replica stops: each reason by its name, with what to do next.

use crate::{
    batch::BuildError,
    event::OfflineReason,
    ids::{Epoch, NodeId, Offset, Uuid},
    log::{AppendError, ReadError},
    storage::{FilePath, StorageFault},
};

use super::{entry::EntryFault, quorum_state::StateFault, snapshot::SnapshotFault};

/// A reason to stop. Nothing is repaired by guessing: what is lost here may be what a promise rests on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error(
        "{path}: {fault}; the metadata log's directory cannot be used, repair it and start again"
    )]
    Storage { path: FilePath, fault: StorageFault },

    #[error(
        "{path} is damaged: {fault}; it holds this node's vote and must not be removed, restore it from a backup"
    )]
    State { path: FilePath, fault: StateFault },

    #[error(
        "{path} is missing although the metadata log holds records; it holds this node's vote, restore it from a backup"
    )]
    StateMissing { path: FilePath },

    #[error(
        "{path} knows epoch {state} but the metadata log epoch {log}: one of them is from an older copy of the disk; \
         restore both from the same time"
    )]
    StateBehind {
        path: FilePath,
        state: Epoch,
        log: Epoch,
    },

    #[error(
        "{folder} was in use, but meta.properties beside it is missing or damaged; it holds this node's identity, restore it from \
         a backup"
    )]
    IdentityLost { folder: FilePath },

    #[error(
        "node {node} is a voter with directory id {recorded} but its directory has id {own}: this is another disk; \
         put the old one back"
    )]
    OtherDirectory {
        node: NodeId,
        recorded: Uuid,
        own: Uuid,
    },

    #[error(
        "node {node} is named in controller.quorum.voters but is not among the cluster's committed voters; \
         the setting of another cluster, or a removed voter"
    )]
    NotAVoter { node: NodeId },

    #[error(
        "node {node} with directory id {directory} is a voter of the cluster, but its metadata log is empty: what it voted \
         and held is gone, and it must not vote again; restore the directory, or start the node with a new one"
    )]
    Emptied { node: NodeId, directory: Uuid },

    #[error(
        "node {node} leads the quorum of another cluster than {cluster}; check cluster.id and controller.quorum.voters"
    )]
    StrangeQuorum { node: NodeId, cluster: String },

    #[error(
        "the leader's log parts from this one in epoch {epoch} at offset {leader}, but everything below {committed} is \
         committed here: committed records were lost elsewhere; keep this copy and restore the others from backups"
    )]
    Diverged {
        committed: Offset,
        leader: Offset,
        epoch: Epoch,
    },

    #[error("the metadata log belongs to another cluster: {reason}; check log.dirs and cluster.id")]
    OtherCluster { reason: String },

    #[error(
        "{path} is damaged: {fault}; no older snapshot together with the log, which starts at offset {log_start}, \
         replaces it, restore it from a backup"
    )]
    Snapshot {
        path: FilePath,
        fault: SnapshotFault,
        log_start: Offset,
    },

    #[error(
        "the metadata log starts at offset {log_start} but the latest snapshot ends at {snapshot}: records between \
         them are missing, restore them from a backup"
    )]
    Hole { snapshot: Offset, log_start: Offset },

    #[error(
        "the metadata log ends at offset {log_end} but was snapshotted up to {snapshot}: synced records are missing, \
         restore them from a backup"
    )]
    LogShort { log_end: Offset, snapshot: Offset },

    #[error(
        "the metadata log is damaged at offset {offset}: {fault}; these records were synced, restore the log from a backup"
    )]
    Damaged { offset: Offset, fault: EntryFault },

    #[error(
        "the metadata log is damaged at offset {expected}: a batch of offset {found} and epoch {epoch} follows there; \
         restore the log from a backup"
    )]
    Sequence {
        expected: Offset,
        found: Offset,
        epoch: Epoch,
    },

    #[error(
        "the metadata log holds records but names no voters; it was not written by a quorum like this one"
    )]
    NoVoters,

    #[error(
        "{file}{position}: {reason}; the metadata log cannot be used, restore it from a backup"
    )]
    Offline {
        file: FilePath,
        position: Position,
        reason: OfflineReason,
    },

    #[error(
        "epoch {epoch} is the last one that there is; this cluster has held too many elections"
    )]
    NoMoreEpochs { epoch: Epoch },

    #[error("metadata cannot be written: {0}")]
    Build(#[from] BuildError),

    #[error("the metadata log takes no entry: {error}; restart this node")]
    Append { error: AppendError },

    #[error("the metadata log cannot be read: {error}; restart this node")]
    Read { error: ReadError },
}

/// A position in a file, where it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position(pub(super) Option<u64>);

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |at| write!(f, " at byte {at}"))
    }
}
