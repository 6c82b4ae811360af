//! Records on their way in, and what became of them.

use bytes::Bytes;

use crate::{
    ids::{Offset, TopicName, TopicPartition},
    protocol::ErrorCode,
    time::Timestamp,
};

/// A header of a record: a name and a value that may be null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name.
    pub key: Bytes,
    /// The value.
    pub value: Option<Bytes>,
}

/// A record to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceRecord {
    /// The topic.
    pub topic: TopicName,
    /// The partition; without one the key decides, and without a key whoever's turn it is.
    pub partition: Option<i32>,
    /// The timestamp; without one the time of sending.
    pub timestamp: Option<Timestamp>,
    /// The key.
    pub key: Option<Bytes>,
    /// The value.
    pub value: Option<Bytes>,
    /// The headers in order.
    pub headers: Vec<Header>,
    /// The caller's own number, which comes back with the report.
    pub token: u64,
}

impl ProduceRecord {
    /// Makes a record of a value alone.
    #[must_use]
    pub const fn new(topic: TopicName, value: Bytes, token: u64) -> Self {
        Self {
            topic,
            partition: None,
            timestamp: None,
            key: None,
            value: Some(value),
            headers: Vec::new(),
            token,
        }
    }

    /// Returns an upper bound of the bytes the record takes in a batch.
    #[must_use]
    pub fn size_max(&self) -> usize {
        let field = |bytes: &Option<Bytes>| VARINT_MAX + bytes.as_ref().map_or(0, Bytes::len);
        let header = |header: &Header| VARINT_MAX + header.key.len() + field(&header.value);
        RECORD_OVERHEAD_MAX
            + field(&self.key)
            + field(&self.value)
            + self.headers.iter().map(header).sum::<usize>()
    }
}

const VARINT_MAX: usize = 5;
/// Size, attributes, timestamp delta, offset delta and number of headers at their longest.
const RECORD_OVERHEAD_MAX: usize = 5 + 1 + 10 + 5 + 5;

/// Why a record was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// `buffer.memory` is used up; try again after a report.
    #[error("buffer.memory is used up by records that are not answered yet")]
    BufferFull {
        /// The record, given back.
        record: Box<ProduceRecord>,
    },
    /// The record can never fit a request.
    #[error("a record of {size} bytes is larger than max.request.size {max}")]
    TooLarge {
        /// Its size, overhead included.
        size: usize,
        /// The limit.
        max: usize,
    },
    /// The timestamp lies before 1970.
    #[error("timestamp {timestamp} is negative")]
    NegativeTimestamp {
        /// The timestamp.
        timestamp: Timestamp,
    },
    /// The partition is a negative number.
    #[error("partition {partition} is negative")]
    NegativePartition {
        /// The partition.
        partition: i32,
    },
}

/// What became of the records of a batch; checkers tell the four apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Written and confirmed, the first record at this offset and the others behind it.
    Delivered {
        /// The offset of the first record; -1 where an old broker did not tell.
        base_offset: Offset,
        /// The broker's time, if the topic stamps records with it.
        log_append_time: Option<Timestamp>,
        /// The log start offset at that moment; -1 where an old broker did not tell.
        log_start_offset: Offset,
    },
    /// Handed out with `acks=0`: it may be written or not, and nobody will ever tell.
    Unacknowledged,
    /// Definitely not written.
    Failed(Failure),
    /// Written or not, once or several times: a transmission was lost or timed out.
    Unknown(Failure),
}

/// Why a batch was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The broker's last answer.
    #[error("{0}")]
    Refused(ErrorCode),
    /// `delivery.timeout.ms` passed; with the broker's last answer, if there was one.
    #[error("delivery.timeout.ms passed (last error: {0})")]
    TimedOut(ErrorCode),
    /// The topic or partition did not become known in time.
    #[error("topic or partition is not known to the cluster ({0})")]
    NoSuchPartition(ErrorCode),
    /// The connection was lost and `retries` is used up.
    #[error("the connection was lost")]
    ConnectionLost,
    /// The records cannot be packed or the request cannot be written.
    #[error("the records cannot be encoded")]
    Unencodable,
}

/// One record of a batch that was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The caller's number of the record.
    pub token: u64,
    /// Its timestamp as it was sent.
    pub timestamp: Timestamp,
}

/// The end of a batch: every record that was taken comes back in exactly one report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryReport {
    /// The partition; `None` if it was not even chosen.
    pub partition: Option<TopicPartition>,
    /// The records in order of their offsets.
    pub records: Vec<Sent>,
    /// What became of them.
    pub outcome: Outcome,
    /// How often the batch was transmitted: the log may hold each record as often as that, but for
    /// transmissions that were refused.
    pub transmissions: u32,
    /// How many of the transmissions were answered with an error that excludes a write.
    pub refusals: u32,
}

impl DeliveryReport {
    /// Lists the records with offset and timestamp as the log has them, if they were delivered.
    pub fn delivered(&self) -> impl Iterator<Item = (u64, Offset, Timestamp)> + '_ {
        let placed = match self.outcome {
            Outcome::Delivered {
                base_offset,
                log_append_time,
                ..
            } if base_offset >= 0 => Some((base_offset, log_append_time)),
            _ => None,
        };
        placed.into_iter().flat_map(|(base, append_time)| {
            (base..).zip(&self.records).map(move |(offset, record)| {
                let timestamp = append_time.unwrap_or(record.timestamp);
                (record.token, offset, timestamp)
            })
        })
    }
}
