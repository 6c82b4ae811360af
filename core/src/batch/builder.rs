//! Making batches: clients, tests, the metadata log, and the broker when it must rewrite one.

use bytes::Bytes;

use super::codec::{CodecError, Compression, compress};
use super::header::{
    ATTRIBUTES_AT, Attributes, BASE_SEQUENCE_AT, BASE_TIMESTAMP_AT, COUNT_AT, CRC_AT, HEADER_SIZE,
    LAST_OFFSET_DELTA_AT, LEADER_EPOCH_AT, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT, MAGIC_V2,
    MAX_TIMESTAMP_AT, NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE,
    NO_TIMESTAMP, PRODUCER_EPOCH_AT, PRODUCER_ID_AT, TimestampType,
};
use super::record::{RecordHeader, write_record};
use super::stored::Batch;
use super::varint;
use crate::ids::{Epoch, Offset};

/// Who writes a batch, for idempotence and transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerState {
    /// The producer id, or [`NO_PRODUCER_ID`].
    pub producer_id: i64,
    /// Its epoch, or [`NO_PRODUCER_EPOCH`].
    pub producer_epoch: i16,
    /// Sequence number of the first record, or [`NO_SEQUENCE`].
    pub base_sequence: i32,
}

impl ProducerState {
    /// A producer without idempotence.
    pub const NONE: Self = Self {
        producer_id: NO_PRODUCER_ID,
        producer_epoch: NO_PRODUCER_EPOCH,
        base_sequence: NO_SEQUENCE,
    };
}

/// One record to append.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NewRecord<'a> {
    /// The timestamp, not negative but for [`NO_TIMESTAMP`].
    pub timestamp: i64,
    /// The key, or null.
    pub key: Option<&'a [u8]>,
    /// The value, or null.
    pub value: Option<&'a [u8]>,
    /// The headers in order.
    pub headers: &'a [RecordHeader<'a>],
}

/// Why a batch cannot be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// No record was appended.
    #[error("a batch needs a record")]
    Empty,
    /// A timestamp below -1.
    #[error("timestamp {timestamp} is negative")]
    NegativeTimestamp {
        /// The timestamp.
        timestamp: i64,
    },
    /// Offsets within a batch only grow.
    #[error("offset delta {offset_delta} is not behind the last record")]
    OffsetOrder {
        /// The delta.
        offset_delta: i32,
    },
    /// The batch outgrew what its 32-bit fields can say, or its offsets the largest one.
    #[error("the batch is too large for its format")]
    TooLarge,
    /// The codec refused.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// Collects records and makes one batch of them.
///
/// Offsets count up by one from the base unless gaps are asked for. As in Kafka's producer,
/// timestamp deltas count from the first record's, whether or not it is the smallest.
#[derive(Debug, Clone)]
pub struct BatchBuilder {
    compression: Compression,
    base_offset: Offset,
    leader_epoch: Epoch,
    producer: ProducerState,
    flags: Attributes,
    append_time: Option<i64>,
    records: Vec<u8>,
    count: i32,
    next_delta: i32,
    base_timestamp: i64,
    max_timestamp: i64,
}

impl BatchBuilder {
    /// Starts an empty batch at offset 0 without producer id, as clients send it.
    pub const fn new(compression: Compression) -> Self {
        Self {
            compression,
            base_offset: 0,
            leader_epoch: NO_LEADER_EPOCH,
            producer: ProducerState::NONE,
            flags: Attributes::with_codec(compression.codec()),
            append_time: None,
            records: Vec::new(),
            count: 0,
            next_delta: 0,
            base_timestamp: NO_TIMESTAMP,
            max_timestamp: NO_TIMESTAMP,
        }
    }

    /// Sets the offset of the first record.
    #[must_use]
    pub const fn base_offset(mut self, base_offset: Offset) -> Self {
        self.base_offset = base_offset;
        self
    }

    /// Sets the epoch of the leader that appends the batch.
    #[must_use]
    pub const fn leader_epoch(mut self, leader_epoch: Epoch) -> Self {
        self.leader_epoch = leader_epoch;
        self
    }

    /// Names the producer.
    #[must_use]
    pub const fn producer(mut self, producer: ProducerState) -> Self {
        self.producer = producer;
        self
    }

    /// Makes the batch part of a transaction.
    #[must_use]
    pub const fn transactional(mut self, yes: bool) -> Self {
        self.flags = self.flags.with_transactional(yes);
        self
    }

    /// Makes it a control batch; its records come from [`control`](super::control).
    #[must_use]
    pub const fn control(mut self, yes: bool) -> Self {
        self.flags = self.flags.with_control(yes);
        self
    }

    /// Stamps the batch with the broker's time.
    #[must_use]
    pub const fn log_append_time(mut self, now_ms: i64) -> Self {
        self.flags = self.flags.with_timestamp_type(TimestampType::LogAppendTime);
        self.append_time = Some(now_ms);
        self
    }

    /// Appends a record at the next offset.
    pub fn append(&mut self, record: &NewRecord<'_>) -> Result<(), BuildError> {
        self.append_at(self.next_delta, record)
    }

    /// Appends a record at an offset counted from the base, behind all others; the gap is what
    /// compaction leaves.
    pub fn append_at(
        &mut self,
        offset_delta: i32,
        record: &NewRecord<'_>,
    ) -> Result<(), BuildError> {
        if offset_delta < self.next_delta {
            return Err(BuildError::OffsetOrder { offset_delta });
        }
        if record.timestamp < NO_TIMESTAMP {
            return Err(BuildError::NegativeTimestamp {
                timestamp: record.timestamp,
            });
        }
        let next_delta = offset_delta.checked_add(1).ok_or(BuildError::TooLarge)?;
        let base_timestamp = self.base_timestamp_with(record.timestamp);
        write_record(
            &mut self.records,
            offset_delta,
            record.timestamp.wrapping_sub(base_timestamp),
            record.key,
            record.value,
            record.headers,
        )
        .ok_or(BuildError::TooLarge)?;
        self.base_timestamp = base_timestamp;
        self.max_timestamp = self.max_timestamp.max(record.timestamp);
        // Never more records than deltas, so this cannot overflow before the line above fails.
        self.count += 1;
        self.next_delta = next_delta;
        Ok(())
    }

    /// Lets the batch end at an offset behind its last record, as compaction must: the offset after
    /// a batch never moves.
    pub fn extend_to(&mut self, last_offset_delta: i32) -> Result<(), BuildError> {
        let next = last_offset_delta
            .checked_add(1)
            .ok_or(BuildError::TooLarge)?;
        self.next_delta = self.next_delta.max(next);
        Ok(())
    }

    /// Gives the number of records so far.
    pub const fn count(&self) -> i32 {
        self.count
    }

    /// Gives the size of the batch so far; with compression, before it.
    pub fn size(&self) -> usize {
        HEADER_SIZE + self.records.len()
    }

    /// Tells whether the batch stays within `size_max` with one more record. The first always
    /// fits, or nothing could be sent when the limit is small. Compression is not foreseen.
    pub fn has_room_for(&self, record: &NewRecord<'_>, size_max: usize) -> bool {
        self.count == 0 || self.size().saturating_add(self.size_of(record)) <= size_max
    }

    /// Builds the batch as two pieces.
    pub fn build_batch(&self) -> Result<Batch, BuildError> {
        if self.count == 0 {
            return Err(BuildError::Empty);
        }
        let body = match self.compression {
            Compression::None => Bytes::copy_from_slice(&self.records),
            other => Bytes::from(compress(other, &self.records)?),
        };
        let head = self.head(&body)?;
        Ok(Batch::from_parts(head, body))
    }

    /// Builds the batch in one piece.
    pub fn build(&self) -> Result<Bytes, BuildError> {
        Ok(self.build_batch()?.to_bytes())
    }

    fn base_timestamp_with(&self, timestamp: i64) -> i64 {
        if self.count == 0 {
            timestamp
        } else {
            self.base_timestamp
        }
    }

    fn size_of(&self, record: &NewRecord<'_>) -> usize {
        let base_timestamp = self.base_timestamp_with(record.timestamp);
        let delta = record.timestamp.wrapping_sub(base_timestamp);
        let field = |bytes: Option<&[u8]>| match bytes {
            None => 1,
            Some(bytes) => length_size(bytes.len()) + bytes.len(),
        };
        let headers = record.headers.iter();
        let body = 1
            + varint::size_of(delta)
            + varint::size_of(i64::from(self.next_delta))
            + field(record.key)
            + field(record.value)
            + length_size(record.headers.len())
            + headers
                .map(|h| field(Some(h.key)) + field(h.value))
                .sum::<usize>();
        length_size(body) + body
    }

    fn head(&self, body: &Bytes) -> Result<[u8; HEADER_SIZE], BuildError> {
        let length = HEADER_SIZE - LOG_OVERHEAD + body.len();
        let length = i32::try_from(length).map_err(|_| BuildError::TooLarge)?;
        let last_delta = self.next_delta - 1;
        let end = self.base_offset.checked_add(i64::from(self.next_delta));
        if end.is_none() {
            return Err(BuildError::TooLarge);
        }
        let mut head = [0; HEADER_SIZE];
        let mut put = |at: usize, field: &[u8]| head[at..at + field.len()].copy_from_slice(field);
        put(0, &self.base_offset.to_be_bytes());
        put(LENGTH_AT, &length.to_be_bytes());
        put(LEADER_EPOCH_AT, &self.leader_epoch.0.to_be_bytes());
        put(MAGIC_AT, &MAGIC_V2.to_be_bytes());
        put(ATTRIBUTES_AT, &self.flags.bits().to_be_bytes());
        put(LAST_OFFSET_DELTA_AT, &last_delta.to_be_bytes());
        put(BASE_TIMESTAMP_AT, &self.base_timestamp.to_be_bytes());
        let max_timestamp = self.append_time.unwrap_or(self.max_timestamp);
        put(MAX_TIMESTAMP_AT, &max_timestamp.to_be_bytes());
        put(PRODUCER_ID_AT, &self.producer.producer_id.to_be_bytes());
        put(
            PRODUCER_EPOCH_AT,
            &self.producer.producer_epoch.to_be_bytes(),
        );
        put(BASE_SEQUENCE_AT, &self.producer.base_sequence.to_be_bytes());
        put(COUNT_AT, &self.count.to_be_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&head[ATTRIBUTES_AT..]), body);
        head[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_be_bytes());
        Ok(head)
    }
}

fn length_size(length: usize) -> usize {
    varint::size_of(i64::try_from(length).unwrap_or(i64::MAX))
}
