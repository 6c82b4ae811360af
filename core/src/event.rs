//! What people and checkers want to know. Events carry no duty: a driver may drop them all.

use std::fmt;

use crate::{
    ids::{ConnectionId, Epoch, NodeId, Offset, TopicPartition},
    replication::PayloadFault,
    storage::{FilePath, StorageFault},
};

/// Something that happened inside a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Clients can connect: storage is recovered and this broker is unfenced.
    Ready,
    /// A log opened; what recovery found and did.
    LogOpened {
        /// The partition.
        partition: TopicPartition,
        /// First offset.
        start: Offset,
        /// One past the last offset.
        end: Offset,
        /// Whether the batches past the recovery point were read and checked.
        recovered: bool,
    },
    /// Recovery cut a tail that was never known to be synced.
    TailCut {
        /// The partition.
        partition: TopicPartition,
        /// The segment.
        file: FilePath,
        /// Position of the first byte cut.
        at: u64,
        /// How many bytes were cut.
        bytes: u64,
        /// The log end after the cut.
        end: Offset,
    },
    /// An index was missing or wrong and was built again from the log.
    IndexRebuilt {
        /// The partition.
        partition: TopicPartition,
        /// The index file.
        file: FilePath,
    },
    /// A partition cannot be served any more.
    PartitionOffline {
        /// The partition.
        partition: TopicPartition,
        /// The file at fault.
        file: FilePath,
        /// Position of the damage, where it is known.
        at: Option<u64>,
        /// What is wrong.
        reason: OfflineReason,
    },
    /// A segment was rolled.
    SegmentRolled {
        /// The partition.
        partition: TopicPartition,
        /// Base offset of the new segment.
        base: Offset,
    },
    /// The log start moved.
    LogStartMoved {
        /// The partition.
        partition: TopicPartition,
        /// The new first offset.
        start: Offset,
        /// Why.
        reason: StartReason,
    },
    /// This broker leads a partition in an epoch.
    BecameLeader {
        /// The partition.
        partition: TopicPartition,
        /// Its epoch.
        epoch: Epoch,
        /// The log end at that moment.
        start: Offset,
    },
    /// A partition got a leader that may miss committed records.
    LeaderElectedUncleanly {
        /// The partition.
        partition: TopicPartition,
        /// Its leader.
        leader: NodeId,
        /// Its epoch.
        epoch: Epoch,
    },
    /// The quorum has agreed on a change of a partition, here as it is after it.
    PartitionChanged {
        /// The partition.
        partition: TopicPartition,
        /// Rises with each change.
        partition_epoch: i32,
        /// Its leader, if it has one.
        leader: Option<NodeId>,
        /// Its leader epoch.
        epoch: Epoch,
        /// The in-sync replicas.
        isr: Vec<NodeId>,
    },
    /// This broker follows another in an epoch.
    BecameFollower {
        /// The partition.
        partition: TopicPartition,
        /// Its epoch.
        epoch: Epoch,
        /// The leader.
        leader: NodeId,
        /// The log end at that moment.
        end: Offset,
    },
    /// A follower's log is not a prefix of its leader's and is cut.
    LogDiverged {
        /// The partition.
        partition: TopicPartition,
        /// The leader epoch.
        epoch: Epoch,
        /// The log end before.
        end: Offset,
        /// Where it is cut.
        to: Offset,
        /// The high watermark before. What was below it and goes had been lost by an unclean election or a broken disk.
        high_watermark: Offset,
    },
    /// A leader asks the controller to change the in-sync replicas.
    IsrProposed {
        /// The partition.
        partition: TopicPartition,
        /// The leader epoch.
        epoch: Epoch,
        /// The new in-sync replicas.
        isr: Vec<NodeId>,
    },
    /// A follower does not take what its leader sent.
    PayloadRefused {
        /// The partition.
        partition: TopicPartition,
        /// The leader.
        leader: NodeId,
        /// What is wrong.
        fault: PayloadFault,
    },
    /// The high watermark moved.
    HighWatermark {
        /// The partition.
        partition: TopicPartition,
        /// Its new value.
        offset: Offset,
    },
    /// A whole log directory failed and is given up.
    LogDirFailed {
        /// What was being done.
        path: FilePath,
        /// Why it failed.
        fault: StorageFault,
    },
    /// A record's timestamp lies further in the future than the broker's clock allows for retention to work.
    FutureTimestamp {
        /// The partition.
        partition: TopicPartition,
        /// Base offset of the batch.
        offset: Offset,
        /// Its largest timestamp, in milliseconds.
        timestamp: i64,
    },
    /// Another node of the controller quorum is not what this one's settings take it for, or the other way round.
    QuorumWarning {
        /// What was seen and what to do next.
        message: String,
    },
    /// Bytes that an answer promised could not be read; the connection was closed.
    RangeUnreadable {
        /// The file.
        file: crate::storage::FileId,
        /// Why.
        fault: StorageFault,
    },
    /// A connection was closed by this side.
    ConnectionRefused {
        /// The connection.
        connection: ConnectionId,
        /// Why, in words for the log.
        reason: String,
    },
    /// A clean shutdown was marked, or was found at start.
    CleanShutdown {
        /// Whether the marker was found at start and its broker epoch is plausible.
        found: bool,
    },
    /// The broker cannot go on; the process should end with this message.
    Fatal {
        /// What happened and what to do next.
        message: String,
    },
}

/// Why a partition went offline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfflineReason {
    /// Bytes below the synced mark fail their check.
    Damaged,
    /// A file below the synced mark is missing or short.
    Missing,
    /// The storage failed.
    Fault(StorageFault),
}

impl fmt::Display for OfflineReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged => f.write_str("bytes known to be synced are damaged"),
            Self::Missing => f.write_str("bytes known to be synced are missing"),
            Self::Fault(fault) => fault.fmt(f),
        }
    }
}

/// Why a log start moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartReason {
    /// `retention.ms`.
    RetentionTime,
    /// `retention.bytes`.
    RetentionSize,
    /// A DeleteRecords request.
    DeleteRecords,
    /// The leader's log begins there.
    LeaderLogStart,
    /// A snapshot of the metadata took the place of its log's first records.
    Snapshot,
}
