//! Why a produced batch is refused, and the error code Kafka answers with.

use super::codec::CodecError;
use super::header::HeaderFault;
use super::record::RecordFault;

/// Why the records of one partition in a Produce request are refused.
///
/// [`kafka_code`](Self::kafka_code) gives the error code for the wire; the table stands in the
/// documentation of [the module](super).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The records are null, empty, or cut off within the first batch.
    #[error("no complete record batch")]
    NoBatch,
    /// More than one batch, which Produce v3 and later do not allow.
    #[error("more than one record batch for a partition")]
    MultipleBatches,
    /// Message format 0 or 1.
    #[error("magic {magic} is no longer accepted")]
    OldMagic {
        /// The magic byte.
        magic: i8,
    },
    /// The header cannot be one.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// A client must send base offset 0.
    #[error("base offset {base_offset} of a produced batch is not 0")]
    BaseOffset {
        /// What it sent.
        base_offset: i64,
    },
    /// The batch is larger than `max.message.bytes`, as sent or as recompressed.
    #[error("batch of {size} bytes is larger than max.message.bytes {max}")]
    TooLarge {
        /// Size of the batch with its header.
        size: usize,
        /// The topic's limit.
        max: usize,
    },
    /// Written with the topic's codec, the batch would outgrow its 32-bit length field.
    #[error("the recompressed batch is too large for its format")]
    FormatLimit,
    /// The batch does not fit into a segment.
    #[error("batch of {size} bytes is larger than segment.bytes {max}")]
    LargerThanSegment {
        /// Size of the batch with its header.
        size: usize,
        /// The topic's segment size.
        max: usize,
    },
    /// The checksum does not fit the bytes.
    #[error("stored crc {stored:#010x} but the bytes give {computed:#010x}")]
    Crc {
        /// What the header says.
        stored: u32,
        /// What the bytes give.
        computed: u32,
    },
    /// The codec bits hold 5, 6 or 7.
    #[error("codec {id} does not exist")]
    UnknownCodec {
        /// The three bits.
        id: u8,
    },
    /// Zstandard in a Produce request older than version 7.
    #[error("zstd needs Produce version 7")]
    ZstdNotAllowed,
    /// The last offset delta is negative.
    #[error("last offset delta {delta} is negative")]
    OffsetRange {
        /// The delta.
        delta: i32,
    },
    /// The record count is not positive.
    #[error("record count {count} is not positive")]
    Count {
        /// The count.
        count: i32,
    },
    /// Count and last offset delta do not fit each other.
    #[error("record count {count} does not fit last offset delta {delta}")]
    CountMismatch {
        /// The count.
        count: i32,
        /// The delta; should be one less.
        delta: i32,
    },
    /// Only the broker writes control batches.
    #[error("clients may not write control batches")]
    ControlBatch,
    /// An idempotent producer must number its batches.
    #[error("base sequence {sequence} of an idempotent batch is negative")]
    Sequence {
        /// The base sequence.
        sequence: i32,
    },
    /// The records of the batch could not be unpacked.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// A record cannot be parsed; the rest of the batch was not looked at.
    #[error("record {index}: {fault}")]
    Malformed {
        /// Its place in the batch.
        index: i32,
        /// What is wrong.
        fault: RecordFault,
    },
    /// Records can be parsed but break a rule of the topic.
    #[error("{} records were rejected", errors.len())]
    Rejected {
        /// Up to [`REJECTED_RECORDS_MAX`] of them, in order.
        errors: Vec<RejectedRecord>,
    },
}

/// How many rejected records are named in one answer; Kafka names all of them, at the cost of an
/// answer that a client can make larger than its request.
pub const REJECTED_RECORDS_MAX: usize = 1_000;

/// One record that breaks a rule of its topic; an entry of `record_errors` in the Produce answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RejectedRecord {
    /// Its place in the batch.
    pub batch_index: i32,
    /// Which rule it breaks.
    pub reason: RejectReason,
}

/// Which rule of the topic a record breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RejectReason {
    /// Compacted topics need a key in every record.
    #[error("compacted topic cannot accept a record without a key")]
    MissingKey,
    /// The timestamp is too old or too far ahead.
    #[error("timestamp {timestamp} is not within [{min}, {max}]")]
    TimestampOutOfRange {
        /// The record's timestamp.
        timestamp: i64,
        /// The oldest one allowed.
        min: i64,
        /// The newest one allowed.
        max: i64,
    },
    /// A client marked its batch as stamped by the broker.
    #[error("a producer may not set the timestamp type to LogAppendTime")]
    LogAppendTime,
    /// Offsets within the batch do not count up by one.
    #[error("offset delta {delta} does not fit the record's place")]
    OffsetDelta {
        /// The delta found.
        delta: i64,
    },
}

impl RejectReason {
    const fn is_timestamp(self) -> bool {
        match self {
            Self::TimestampOutOfRange { .. } | Self::LogAppendTime => true,
            Self::MissingKey | Self::OffsetDelta { .. } => false,
        }
    }
}

/// Kafka's code for a batch whose bytes are damaged; clients retry it.
pub const CORRUPT_MESSAGE: i16 = 2;
/// Kafka's code for a batch above `max.message.bytes`.
pub const MESSAGE_TOO_LARGE: i16 = 10;
/// Kafka's code for a batch above `segment.bytes`.
pub const RECORD_LIST_TOO_LARGE: i16 = 18;
/// Kafka's code for timestamps out of range.
pub const INVALID_TIMESTAMP: i16 = 32;
/// Kafka's code for a codec the request may not use.
pub const UNSUPPORTED_COMPRESSION_TYPE: i16 = 76;
/// Kafka's code for a batch that breaks a rule; clients do not retry it.
pub const INVALID_RECORD: i16 = 87;

impl BatchError {
    /// Gives the error code of the Produce answer.
    pub fn kafka_code(&self) -> i16 {
        match self {
            Self::Header(_) | Self::Crc { .. } => CORRUPT_MESSAGE,
            Self::TooLarge { .. }
            | Self::FormatLimit
            | Self::Codec(CodecError::OutputLimit { .. }) => MESSAGE_TOO_LARGE,
            Self::LargerThanSegment { .. } => RECORD_LIST_TOO_LARGE,
            Self::UnknownCodec { .. } | Self::ZstdNotAllowed => UNSUPPORTED_COMPRESSION_TYPE,
            Self::Rejected { errors } if errors.iter().any(|e| e.reason.is_timestamp()) => {
                INVALID_TIMESTAMP
            }
            Self::NoBatch
            | Self::MultipleBatches
            | Self::OldMagic { .. }
            | Self::BaseOffset { .. }
            | Self::OffsetRange { .. }
            | Self::Count { .. }
            | Self::CountMismatch { .. }
            | Self::ControlBatch
            | Self::Sequence { .. }
            | Self::Codec(_)
            | Self::Malformed { .. }
            | Self::Rejected { .. } => INVALID_RECORD,
        }
    }

    /// Gives the records to name in `record_errors`; empty unless single records are at fault.
    pub fn rejected_records(&self) -> &[RejectedRecord] {
        match self {
            Self::Rejected { errors } => errors,
            _ => &[],
        }
    }
}
