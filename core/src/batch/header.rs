//! The 61-byte header of a record batch v2: where each field lies and what it means.
//!
//! [`BatchHeader`] is a view, not a copy: each accessor reads one big-endian field. The layout:
//!
//! ```text
//!  0 base offset i64        23 last offset delta i32     57 record count i32
//!  8 batch length i32       27 base timestamp i64        61 records
//! 12 leader epoch i32       35 max timestamp i64
//! 16 magic i8               43 producer id i64
//! 17 crc u32                51 producer epoch i16
//! 21 attributes i16         53 base sequence i32
//! ```
//!
//! The batch length counts the bytes after itself, and the CRC-32C covers everything from the
//! attributes on. Base offset, length, leader epoch and magic are therefore outside the checksum:
//! the leader may set them without touching what the producer signed.

use crate::ids::{Epoch, Offset};

/// Bytes of a batch header, from the base offset to the record count.
pub const HEADER_SIZE: usize = 61;

/// Bytes of the base offset and the batch length, which the batch length does not count.
pub const LOG_OVERHEAD: usize = 12;

/// The only record format that Seedlog stores.
pub const MAGIC_V2: i8 = 2;

/// Stands for "no producer id": the batch is not idempotent.
pub const NO_PRODUCER_ID: i64 = -1;

/// Stands for "no producer epoch".
pub const NO_PRODUCER_EPOCH: i16 = -1;

/// Stands for "no sequence number".
pub const NO_SEQUENCE: i32 = -1;

/// Stands for "no timestamp".
pub const NO_TIMESTAMP: i64 = -1;

/// Stands for "no leader epoch", as clients send it.
pub const NO_LEADER_EPOCH: Epoch = Epoch(-1);

pub(super) const LENGTH_AT: usize = 8;
pub(super) const LEADER_EPOCH_AT: usize = 12;
pub(super) const MAGIC_AT: usize = 16;
pub(super) const CRC_AT: usize = 17;
pub(super) const ATTRIBUTES_AT: usize = 21;
pub(super) const LAST_OFFSET_DELTA_AT: usize = 23;
pub(super) const BASE_TIMESTAMP_AT: usize = 27;
pub(super) const MAX_TIMESTAMP_AT: usize = 35;
pub(super) const PRODUCER_ID_AT: usize = 43;
pub(super) const PRODUCER_EPOCH_AT: usize = 51;
pub(super) const BASE_SEQUENCE_AT: usize = 53;
pub(super) const COUNT_AT: usize = 57;

/// Smallest value of the length field: the header without the twelve bytes it does not count.
pub(super) const MIN_BATCH_LENGTH: i32 = 49;

/// How the records of a batch are compressed; three bits of the attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CompressionType {
    /// Records stand as they are.
    None,
    /// One gzip stream (RFC 1952).
    Gzip,
    /// Snappy, in xerial blocks or raw.
    Snappy,
    /// One LZ4 frame.
    Lz4,
    /// Zstandard frames (KIP-110, Produce v7 and later).
    Zstd,
}

impl CompressionType {
    /// Finds the codec with this number, if there is one; 5 to 7 fit the bits but mean nothing.
    pub const fn from_id(id: u8) -> Option<Self> {
        match id {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Gives the number that stands in the attributes.
    pub const fn id(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// Gives Kafka's name, as producers write it in `compression.type`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// Whose clock the timestamps of a batch come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// The producer's; each record has its own.
    CreateTime,
    /// The broker's; every record has the max timestamp of the header.
    LogAppendTime,
}

/// The attribute bits of a batch.
///
/// Kafka reads the low byte alone; the upper bits are carried along but never looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attributes(i16);

impl Attributes {
    const CODEC: i16 = 0x07;
    const LOG_APPEND_TIME: i16 = 0x08;
    const TRANSACTIONAL: i16 = 0x10;
    const CONTROL: i16 = 0x20;
    const DELETE_HORIZON: i16 = 0x40;

    /// Takes the bits as they stand in a header.
    pub const fn from_bits(bits: i16) -> Self {
        Self(bits)
    }

    /// Starts a set of attributes with nothing but a codec.
    pub const fn with_codec(codec: CompressionType) -> Self {
        Self(match codec {
            CompressionType::None => 0,
            CompressionType::Gzip => 1,
            CompressionType::Snappy => 2,
            CompressionType::Lz4 => 3,
            CompressionType::Zstd => 4,
        })
    }

    /// Gives the bits as they stand in a header.
    pub const fn bits(self) -> i16 {
        self.0
    }

    /// Gives the number of the codec, known or not.
    pub fn codec_id(self) -> u8 {
        let [_, low] = (self.0 & Self::CODEC).to_be_bytes();
        low
    }

    /// Gives the codec, unless the number means nothing.
    pub fn codec(self) -> Option<CompressionType> {
        CompressionType::from_id(self.codec_id())
    }

    /// Tells whose clock the timestamps come from.
    pub const fn timestamp_type(self) -> TimestampType {
        if self.0 & Self::LOG_APPEND_TIME == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Tells whether the batch belongs to a transaction.
    pub const fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    /// Tells whether the batch holds control records: markers, leader changes, snapshot frames.
    pub const fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    /// Tells whether the base timestamp is the time after which tombstones may go (KIP-534).
    pub const fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON != 0
    }

    /// Replaces the timestamp type and drops the upper bits, which Kafka loses too when it
    /// computes attributes anew.
    #[must_use]
    pub const fn with_timestamp_type(self, kind: TimestampType) -> Self {
        let kept = self.0 & 0x77;
        match kind {
            TimestampType::CreateTime => Self(kept),
            TimestampType::LogAppendTime => Self(kept | Self::LOG_APPEND_TIME),
        }
    }

    /// Marks the batch as part of a transaction, or not.
    #[must_use]
    pub const fn with_transactional(self, yes: bool) -> Self {
        if yes {
            Self(self.0 | Self::TRANSACTIONAL)
        } else {
            Self(self.0 & !Self::TRANSACTIONAL)
        }
    }

    /// Marks the batch as a control batch, or not.
    #[must_use]
    pub const fn with_control(self, yes: bool) -> Self {
        if yes {
            Self(self.0 | Self::CONTROL)
        } else {
            Self(self.0 & !Self::CONTROL)
        }
    }
}

/// What keeps a run of bytes from being a batch header at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderFault {
    /// Fewer bytes than a header has.
    #[error("{have} bytes are fewer than a batch header")]
    TooShort {
        /// How many there are.
        have: usize,
    },
    /// The length field is negative or smaller than the rest of the header.
    #[error("batch length {length} is below the minimum")]
    Length {
        /// The length field.
        length: i32,
    },
    /// The format is not version 2.
    #[error("magic {magic} is not 2")]
    Magic {
        /// The magic byte.
        magic: i8,
    },
}

/// A view of the header of one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader<'a>(&'a [u8; HEADER_SIZE]);

impl<'a> BatchHeader<'a> {
    /// Looks at the first 61 bytes and checks the length field and the magic byte; the bytes after
    /// the header need not be there.
    pub fn read(bytes: &'a [u8]) -> Result<Self, HeaderFault> {
        let header = bytes
            .first_chunk::<HEADER_SIZE>()
            .ok_or(HeaderFault::TooShort { have: bytes.len() })?;
        let view = Self(header);
        if view.batch_length() < MIN_BATCH_LENGTH {
            return Err(HeaderFault::Length {
                length: view.batch_length(),
            });
        }
        if view.magic() != MAGIC_V2 {
            return Err(HeaderFault::Magic {
                magic: view.magic(),
            });
        }
        Ok(view)
    }

    /// Looks at a header that this crate wrote or already checked.
    pub(super) const fn trusted(header: &'a [u8; HEADER_SIZE]) -> Self {
        Self(header)
    }

    /// Gives the bytes of the header.
    pub const fn bytes(&self) -> &'a [u8; HEADER_SIZE] {
        self.0
    }

    /// Gives the offset of the first record the batch was written with; compaction may have
    /// removed that record, but never moves the base.
    pub fn base_offset(&self) -> Offset {
        i64_at(self.0, 0)
    }

    /// Gives the length field: the bytes that follow it.
    pub fn batch_length(&self) -> i32 {
        i32_at(self.0, LENGTH_AT)
    }

    /// Gives the size of the whole batch with its header.
    pub fn total_size(&self) -> usize {
        usize::try_from(self.batch_length()).map_or(HEADER_SIZE, |length| length + LOG_OVERHEAD)
    }

    /// Gives the epoch of the leader that appended the batch.
    pub fn partition_leader_epoch(&self) -> Epoch {
        Epoch(i32_at(self.0, LEADER_EPOCH_AT))
    }

    /// Gives the version of the record format.
    pub fn magic(&self) -> i8 {
        i8::from_be_bytes([self.0[MAGIC_AT]])
    }

    /// Gives the stored checksum.
    pub fn crc(&self) -> u32 {
        let b = self.0;
        u32::from_be_bytes([b[CRC_AT], b[CRC_AT + 1], b[CRC_AT + 2], b[CRC_AT + 3]])
    }

    /// Gives codec, timestamp type and flags.
    pub fn attributes(&self) -> Attributes {
        Attributes(i16_at(self.0, ATTRIBUTES_AT))
    }

    /// Gives the last offset, counted from the base; survives compaction.
    pub fn last_offset_delta(&self) -> i32 {
        i32_at(self.0, LAST_OFFSET_DELTA_AT)
    }

    /// Gives the offset of the last record, unless it lies beyond the largest offset.
    pub fn last_offset(&self) -> Option<Offset> {
        self.base_offset()
            .checked_add(i64::from(self.last_offset_delta()))
    }

    /// Gives the offset after the last record, unless it lies beyond the largest offset.
    pub fn next_offset(&self) -> Option<Offset> {
        self.last_offset()?.checked_add(1)
    }

    /// Gives the timestamp that the records' deltas count from.
    pub fn base_timestamp(&self) -> i64 {
        i64_at(self.0, BASE_TIMESTAMP_AT)
    }

    /// Gives the largest timestamp, or the append time of every record under `LogAppendTime`.
    pub fn max_timestamp(&self) -> i64 {
        i64_at(self.0, MAX_TIMESTAMP_AT)
    }

    /// Gives the time after which compaction may drop tombstones, if the batch carries one.
    pub fn delete_horizon(&self) -> Option<i64> {
        self.attributes()
            .has_delete_horizon()
            .then(|| self.base_timestamp())
    }

    /// Gives the producer id, or [`NO_PRODUCER_ID`].
    pub fn producer_id(&self) -> i64 {
        i64_at(self.0, PRODUCER_ID_AT)
    }

    /// Tells whether an idempotent producer wrote the batch.
    pub fn has_producer_id(&self) -> bool {
        self.producer_id() > NO_PRODUCER_ID
    }

    /// Gives the producer epoch, or [`NO_PRODUCER_EPOCH`].
    pub fn producer_epoch(&self) -> i16 {
        i16_at(self.0, PRODUCER_EPOCH_AT)
    }

    /// Gives the sequence number of the first record, or [`NO_SEQUENCE`].
    pub fn base_sequence(&self) -> i32 {
        i32_at(self.0, BASE_SEQUENCE_AT)
    }

    /// Gives the sequence number of the last record; sequences wrap from the largest `i32` to 0.
    pub fn last_sequence(&self) -> i32 {
        let base = self.base_sequence();
        if base == NO_SEQUENCE {
            return NO_SEQUENCE;
        }
        increment_sequence(base, self.last_offset_delta())
    }

    /// Gives the number of records; zero is possible after compaction.
    pub fn count(&self) -> i32 {
        i32_at(self.0, COUNT_AT)
    }
}

/// Adds to a sequence number, wrapping from the largest `i32` to 0 as producers do.
pub fn increment_sequence(sequence: i32, by: i32) -> i32 {
    let wrapped = (i64::from(sequence) + i64::from(by)).rem_euclid(1 << 31);
    i32::try_from(wrapped).unwrap_or(NO_SEQUENCE)
}

fn i16_at(header: &[u8; HEADER_SIZE], at: usize) -> i16 {
    i16::from_be_bytes([header[at], header[at + 1]])
}

fn i32_at(b: &[u8; HEADER_SIZE], at: usize) -> i32 {
    i32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

fn i64_at(header: &[u8; HEADER_SIZE], at: usize) -> i64 {
    let mut field = [0; 8];
    field.copy_from_slice(&header[at..at + 8]);
    i64::from_be_bytes(field)
}
