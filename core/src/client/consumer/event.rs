//! What a consumer tells.

use bytes::Bytes;

use crate::{
    batch::{OpenError, RecordFault, ScanFaultKind, TimestampType},
    client::Header,
    ids::{Epoch, Offset, TopicPartition},
    protocol::ErrorCode,
    time::Timestamp,
};

/// Where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAt {
    /// At this offset.
    Offset(Offset),
    /// At the first offset.
    Beginning,
    /// At the end: with what is written from now on.
    End,
    /// At the first record with this timestamp or a later one; at the end if there is none.
    Timestamp(Timestamp),
}

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumedRecord {
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// Its key.
    pub key: Option<Bytes>,
    /// Its value.
    pub value: Option<Bytes>,
    /// Its headers in order.
    pub headers: Vec<Header>,
}

/// The records of one batch, as far as they lie at or behind the position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumedBatch {
    /// The partition.
    pub partition: TopicPartition,
    /// The records in order; never empty.
    pub records: Vec<ConsumedRecord>,
    /// The epoch of the leader that appended the batch.
    pub leader_epoch: Epoch,
    /// Whose clock the timestamps come from.
    pub timestamp_type: TimestampType,
    /// The position behind the batch.
    pub next_offset: Offset,
    /// The high watermark of the answer that carried the batch.
    pub high_watermark: Offset,
}

/// What a fetch answer says about a partition, records apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchAnswer {
    /// The partition.
    pub partition: TopicPartition,
    /// The offset that was asked for.
    pub fetch_offset: Offset,
    /// The error, or none.
    pub error: ErrorCode,
    /// The high watermark; -1 with an error.
    pub high_watermark: Offset,
    /// The log start offset; -1 with an error.
    pub log_start_offset: Offset,
    /// The last stable offset; -1 with an error.
    pub last_stable_offset: Offset,
    /// Bytes of records.
    pub bytes: usize,
}

/// Why reading of a partition stopped. A new start goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConsumeFault {
    /// The broker refuses and will not change its mind.
    #[error("the broker answers {0}")]
    Refused(ErrorCode),
    /// The log does not hold the position, and `auto.offset.reset` is `none`.
    #[error("the log does not hold the position")]
    OutOfRange,
    /// A batch is damaged.
    #[error("a batch is damaged: {0}")]
    Damaged(ScanFaultKind),
    /// The records of a batch cannot be unpacked.
    #[error("a batch cannot be unpacked: {0}")]
    Unreadable(OpenError),
    /// A record cannot be parsed.
    #[error("a record is malformed: {0}")]
    Malformed(RecordFault),
}

/// What a consumer tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsumerEvent {
    /// Records.
    Batch(ConsumedBatch),
    /// A partition's position was looked up, at first or after a reset.
    Positioned {
        /// The partition.
        partition: TopicPartition,
        /// What was looked up.
        start: StartAt,
        /// The position.
        offset: Offset,
    },
    /// A fetch answer came, with or without records.
    Answer(FetchAnswer),
    /// The position lies outside of the log; it is reset, unless `Stopped` follows.
    OutOfRange {
        /// The partition.
        partition: TopicPartition,
        /// The position.
        offset: Offset,
    },
    /// The position has come to the high watermark.
    EndOfPartition {
        /// The partition.
        partition: TopicPartition,
        /// The position.
        offset: Offset,
    },
    /// Reading of a partition stopped.
    Stopped {
        /// The partition.
        partition: TopicPartition,
        /// The position: the batch at fault, or where the broker refused.
        offset: Option<Offset>,
        /// Why.
        fault: ConsumeFault,
    },
}
