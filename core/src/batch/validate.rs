//! The checks of a produced batch: from its header alone, and record by record where a topic asks
//! for it or the header gives reason to.

use bytes::Bytes;

use super::builder::BuildError;
use super::codec::Compression;
use super::error::{BatchError, REJECTED_RECORDS_MAX, RejectReason, RejectedRecord};
use super::header::{
    ATTRIBUTES_AT, Attributes, BatchHeader, CompressionType, HEADER_SIZE, HeaderFault, LENGTH_AT,
    LOG_OVERHEAD, MAGIC_AT, MAGIC_V2, NO_TIMESTAMP, TimestampType,
};
use super::recompress::{RecompressError, keeps_codec, rebuild};
use super::record::{OpenError, Record, Records};
use super::scan::checksum;
use super::stored::Batch;

/// What a topic, and the version of the request, demand of a produced batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProduceRules {
    /// Whether the request may carry Zstandard: Produce version 7 and later (KIP-110).
    pub zstd_allowed: bool,
    /// `max.message.bytes`: the largest batch with its header, as sent and as stored.
    pub max_message_bytes: usize,
    /// `segment.bytes`: a batch must fit into one segment.
    pub segment_bytes: usize,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
    /// Whether `cleanup.policy` contains `compact`: every record needs a key.
    pub compacted: bool,
    /// `compression.type` with its level; `None` stands for `producer`.
    pub compression: Option<Compression>,
    /// Whether to look at every record even if nothing else asks for it. Kafka always does.
    pub deep_check: bool,
    /// Largest unpacked size of a batch that must be unpacked.
    pub unpacked_bytes_max: usize,
}

impl Default for ProduceRules {
    /// Kafka's defaults; unpacking is bounded at 100 times the largest message.
    fn default() -> Self {
        Self {
            zstd_allowed: true,
            max_message_bytes: 1_048_588,
            segment_bytes: 1_073_741_824,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            compacted: false,
            compression: None,
            deep_check: false,
            unpacked_bytes_max: 104_858_800,
        }
    }
}

/// Checks the records that a client sends for one partition and prepares them for the log: stamped
/// and recompressed as the topic says, still without their final offset and leader epoch.
///
/// `None` stands for null records. A cut-off batch behind the first one is dropped, as in Kafka.
/// The order of the checks is Kafka's, so that a batch with several faults gets the same answer.
pub fn validate_produce(
    records: Option<&Bytes>,
    rules: &ProduceRules,
    now_ms: i64,
) -> Result<Batch, BatchError> {
    let records = records.ok_or(BatchError::NoBatch)?;
    let bytes = only_batch(records, rules)?;
    let header = check_envelope(&bytes, rules)?;
    check_header(header)?;
    let is_walked = needs_walk(header, rules, now_ms);
    let walked = if is_walked {
        Some(walk(header, &bytes[HEADER_SIZE..], rules, now_ms)?)
    } else {
        None
    };
    let mut batch = Batch::split(&bytes).ok_or(BatchError::NoBatch)?;
    let append_time = match rules.timestamp_type {
        TimestampType::LogAppendTime => Some(now_ms),
        TimestampType::CreateTime => None,
    };
    match rules.compression {
        Some(to) if !keeps_codec(header, to) => {
            batch = rebuild(&batch, to, append_time, rules.unpacked_bytes_max)?;
            check_size(batch.size(), rules.max_message_bytes)?;
        }
        _ => match (append_time, walked) {
            (Some(now_ms), _) => batch.restamp(TimestampType::LogAppendTime, now_ms),
            (None, Some(max)) => batch.restamp(TimestampType::CreateTime, max),
            (None, None) => {}
        },
    }
    if batch.size() > rules.segment_bytes {
        return Err(BatchError::LargerThanSegment {
            size: batch.size(),
            max: rules.segment_bytes,
        });
    }
    Ok(batch)
}

/// Walks all records of a checked batch: bounds, offsets that count up, keys where the topic needs
/// them, timestamps. Gives the largest timestamp, which the header must carry.
pub fn deep_check(batch: &Batch, rules: &ProduceRules, now_ms: i64) -> Result<i64, BatchError> {
    let rules = ProduceRules {
        deep_check: true,
        ..*rules
    };
    walk(batch.header(), batch.body(), &rules, now_ms)
}

/// Finds the single batch, with Kafka's view of where batches end.
fn only_batch(records: &Bytes, rules: &ProduceRules) -> Result<Bytes, BatchError> {
    let (size, magic) = next_batch(records)?.ok_or(BatchError::NoBatch)?;
    if magic != MAGIC_V2 {
        return Err(BatchError::OldMagic { magic });
    }
    let bytes = records.slice(..size);
    let is_zstd = attributes(&bytes).codec() == Some(CompressionType::Zstd);
    if is_zstd && !rules.zstd_allowed {
        return Err(BatchError::ZstdNotAllowed);
    }
    match next_batch(&records[size..])? {
        None => Ok(bytes),
        Some(_) => Err(BatchError::MultipleBatches),
    }
}

/// Reads size and magic of a complete batch; `None` when the bytes end inside it. The smallest
/// length is that of format 0, because the magic is known only later.
fn next_batch(bytes: &[u8]) -> Result<Option<(usize, i8)>, HeaderFault> {
    const MIN_LENGTH_V0: i32 = 14;
    let Some(length) = bytes.get(LENGTH_AT..).and_then(<[u8]>::first_chunk::<4>) else {
        return Ok(None);
    };
    let length = i32::from_be_bytes(*length);
    let size = usize::try_from(length)
        .ok()
        .filter(|_| length >= MIN_LENGTH_V0)
        .ok_or(HeaderFault::Length { length })?
        .saturating_add(LOG_OVERHEAD);
    let Some(magic) = bytes.get(MAGIC_AT) else {
        return Ok(None);
    };
    let magic = i8::from_be_bytes([*magic]);
    if !(0..=MAGIC_V2).contains(&magic) {
        return Err(HeaderFault::Magic { magic });
    }
    Ok((bytes.len() >= size).then_some((size, magic)))
}

/// Reads the attributes of a batch that may be too small to have a whole header.
fn attributes(bytes: &[u8]) -> Attributes {
    let bits = bytes
        .get(ATTRIBUTES_AT..)
        .and_then(<[u8]>::first_chunk::<2>);
    Attributes::from_bits(bits.map_or(0, |bits| i16::from_be_bytes(*bits)))
}

/// Base offset, size and checksum.
fn check_envelope<'a>(
    bytes: &'a Bytes,
    rules: &ProduceRules,
) -> Result<BatchHeader<'a>, BatchError> {
    let base_offset = bytes.first_chunk::<8>().map(|b| i64::from_be_bytes(*b));
    if let Some(base_offset) = base_offset.filter(|offset| *offset != 0) {
        return Err(BatchError::BaseOffset { base_offset });
    }
    check_size(bytes.len(), rules.max_message_bytes)?;
    let header = BatchHeader::read(bytes)?;
    let (stored, computed) = (header.crc(), checksum(bytes));
    if stored != computed {
        return Err(BatchError::Crc { stored, computed });
    }
    Ok(header)
}

fn check_size(size: usize, max: usize) -> Result<(), BatchError> {
    if size > max {
        return Err(BatchError::TooLarge { size, max });
    }
    Ok(())
}

/// What the fields of a client's header must be, whatever the topic.
fn check_header(header: BatchHeader<'_>) -> Result<(), BatchError> {
    let attributes = header.attributes();
    if attributes.codec().is_none() {
        return Err(BatchError::UnknownCodec {
            id: attributes.codec_id(),
        });
    }
    let (delta, count) = (header.last_offset_delta(), header.count());
    if delta < 0 {
        return Err(BatchError::OffsetRange { delta });
    }
    if count <= 0 {
        return Err(BatchError::Count { count });
    }
    if count - 1 != delta {
        return Err(BatchError::CountMismatch { count, delta });
    }
    if attributes.is_control() {
        return Err(BatchError::ControlBatch);
    }
    if header.has_producer_id() && header.base_sequence() < 0 {
        return Err(BatchError::Sequence {
            sequence: header.base_sequence(),
        });
    }
    Ok(())
}

/// Decides whether the header can be trusted to speak for its records.
fn needs_walk(header: BatchHeader<'_>, rules: &ProduceRules, now_ms: i64) -> bool {
    if rules.compacted || rules.deep_check {
        return true;
    }
    if header.attributes().timestamp_type() == TimestampType::LogAppendTime {
        return true;
    }
    let (base, max) = (header.base_timestamp(), header.max_timestamp());
    // The header knows the largest timestamp but not the smallest, so a lower bound needs a look
    // at each. A max below the base was never computed: some clients leave it at -1.
    rules.timestamp_type == TimestampType::CreateTime
        && (rules.timestamp_before_max_ms != i64::MAX
            || max < base
            || is_out_of_range(base, rules, now_ms)
            || is_out_of_range(max, rules, now_ms))
}

/// Kafka's arithmetic, wrapping included, so that absurd timestamps get the same answer.
fn is_out_of_range(timestamp: i64, rules: &ProduceRules, now_ms: i64) -> bool {
    let age = now_ms.wrapping_sub(timestamp);
    timestamp != NO_TIMESTAMP
        && (age > rules.timestamp_before_max_ms
            || age.wrapping_neg() > rules.timestamp_after_max_ms)
}

fn walk(
    header: BatchHeader<'_>,
    body: &[u8],
    rules: &ProduceRules,
    now_ms: i64,
) -> Result<i64, BatchError> {
    let records = Records::from_parts(header, body, rules.unpacked_bytes_max)?;
    let stamped_by_client = header.attributes().timestamp_type() == TimestampType::LogAppendTime;
    let is_renumbered = rules.compression.is_some_and(|to| !keeps_codec(header, to));
    let mut max_timestamp = NO_TIMESTAMP;
    let mut errors = Vec::new();
    for (index, record) in (0..).zip(&records) {
        let record = record.map_err(|fault| BatchError::Malformed { index, fault })?;
        max_timestamp = max_timestamp.max(record.timestamp);
        let delta = record.offset.wrapping_sub(header.base_offset());
        let reason = if rules.deep_check && !is_renumbered && delta != i64::from(index) {
            Some(RejectReason::OffsetDelta { delta })
        } else {
            reject_reason(&record, rules, now_ms, stamped_by_client)
        };
        if let Some(reason) = reason {
            errors.push(RejectedRecord {
                batch_index: index,
                reason,
            });
            if errors.len() == REJECTED_RECORDS_MAX {
                break;
            }
        }
    }
    if errors.is_empty() {
        Ok(max_timestamp)
    } else {
        Err(BatchError::Rejected { errors })
    }
}

fn reject_reason(
    record: &Record<'_>,
    rules: &ProduceRules,
    now_ms: i64,
    stamped_by_client: bool,
) -> Option<RejectReason> {
    if rules.compacted && record.key.is_none() {
        return Some(RejectReason::MissingKey);
    }
    let timestamp = record.timestamp;
    if rules.timestamp_type == TimestampType::CreateTime && timestamp != NO_TIMESTAMP {
        // The client's stamp of its own time is accepted here and only its flag removed.
        return is_out_of_range(timestamp, rules, now_ms).then(|| {
            RejectReason::TimestampOutOfRange {
                timestamp,
                min: now_ms.saturating_sub(rules.timestamp_before_max_ms),
                max: now_ms.saturating_add(rules.timestamp_after_max_ms),
            }
        });
    }
    stamped_by_client.then_some(RejectReason::LogAppendTime)
}

impl From<OpenError> for BatchError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::UnknownCodec { id } => Self::UnknownCodec { id },
            OpenError::Incomplete => Self::NoBatch,
            OpenError::Codec(error) => Self::Codec(error),
        }
    }
}

impl From<RecompressError> for BatchError {
    fn from(error: RecompressError) -> Self {
        match error {
            RecompressError::Open(error) => error.into(),
            RecompressError::Record { index, fault } => Self::Malformed { index, fault },
            RecompressError::Build { index, error } => match error {
                BuildError::Codec(error) => Self::Codec(error),
                BuildError::NegativeTimestamp { timestamp } => Self::Rejected {
                    errors: vec![RejectedRecord {
                        batch_index: index,
                        reason: RejectReason::TimestampOutOfRange {
                            timestamp,
                            min: 0,
                            max: i64::MAX,
                        },
                    }],
                },
                BuildError::Empty => Self::Count { count: 0 },
                BuildError::OffsetOrder { .. } | BuildError::TooLarge => Self::FormatLimit,
            },
        }
    }
}
