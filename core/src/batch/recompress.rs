//! Rewriting a batch with another codec, for topics whose `compression.type` is not `producer`.

use super::builder::{BatchBuilder, BuildError, NewRecord, ProducerState};
use super::codec::Compression;
use super::header::{BatchHeader, TimestampType};
use super::record::{OpenError, RecordFault, Records};
use super::stored::Batch;

/// Why a batch cannot be rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecompressError {
    /// The records cannot be unpacked.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A record cannot be parsed.
    #[error("record {index}: {fault}")]
    Record {
        /// Its place in the batch.
        index: i32,
        /// What is wrong.
        fault: RecordFault,
    },
    /// A record cannot be written again.
    #[error("record {index}: {error}")]
    Build {
        /// Its place in the batch.
        index: i32,
        /// Why.
        error: BuildError,
    },
}

/// Rewrites a batch with the given codec; records of at most `bytes_max` bytes are unpacked for it.
///
/// Offsets, timestamps, record headers, the producer's fields and the leader epoch stay. Where the
/// header declares offsets without a gap the records are numbered anew, as Kafka does. The delete
/// horizon is lost, as in Kafka: only the cleaner sets it, and the cleaner does not come here.
///
/// A control batch without compression stays as it is, and so does a batch that has the codec.
pub fn recompress(
    batch: &Batch,
    to: Compression,
    bytes_max: usize,
) -> Result<Batch, RecompressError> {
    let header = batch.header();
    let append_time = match header.attributes().timestamp_type() {
        TimestampType::CreateTime => None,
        TimestampType::LogAppendTime => Some(header.max_timestamp()),
    };
    if keeps_codec(header, to) {
        return Ok(batch.clone());
    }
    rebuild(batch, to, append_time, bytes_max)
}

/// Tells whether a batch may stay as it is in a topic with this codec.
pub(super) fn keeps_codec(header: BatchHeader<'_>, to: Compression) -> bool {
    let attributes = header.attributes();
    let is_plain_control = attributes.is_control() && attributes.codec_id() == 0;
    attributes.codec() == Some(to.codec()) || is_plain_control
}

/// Writes all records of a batch again, with the broker's time if one is given.
pub(super) fn rebuild(
    batch: &Batch,
    to: Compression,
    append_time: Option<i64>,
    bytes_max: usize,
) -> Result<Batch, RecompressError> {
    let header = batch.header();
    let records = Records::from_parts(header, batch.body(), bytes_max)?;
    let attributes = header.attributes();
    let mut builder = BatchBuilder::new(to)
        .base_offset(header.base_offset())
        .leader_epoch(header.partition_leader_epoch())
        .producer(ProducerState {
            producer_id: header.producer_id(),
            producer_epoch: header.producer_epoch(),
            base_sequence: header.base_sequence(),
        })
        .transactional(attributes.is_transactional())
        .control(attributes.is_control());
    if let Some(now_ms) = append_time {
        builder = builder.log_append_time(now_ms);
    }
    let has_no_gaps = i64::from(header.last_offset_delta()) + 1 == i64::from(header.count());
    let mut headers = Vec::new();
    for (index, record) in (0..).zip(&records) {
        let record = record.map_err(|fault| RecompressError::Record { index, fault })?;
        headers.clear();
        headers.extend(record.headers);
        let new = NewRecord {
            timestamp: record.timestamp,
            key: record.key,
            value: record.value,
            headers: &headers,
        };
        let delta = if has_no_gaps {
            index
        } else {
            delta_of(header, record.offset)
                .map_err(|error| RecompressError::Build { index, error })?
        };
        builder
            .append_at(delta, &new)
            .map_err(|error| RecompressError::Build { index, error })?;
    }
    let index = header.count();
    builder
        .extend_to(header.last_offset_delta())
        .and_then(|()| builder.build_batch())
        .map_err(|error| RecompressError::Build { index, error })
}

fn delta_of(header: BatchHeader<'_>, offset: i64) -> Result<i32, BuildError> {
    i32::try_from(offset - header.base_offset()).map_err(|_| BuildError::TooLarge)
}
