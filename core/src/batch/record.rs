//! The records inside a batch: unpacking with a bound, and walking them without copying.
//!
//! Nothing here runs on the hot path of produce or fetch. It serves what cannot be answered from
//! headers: look-ups by time, keys of compacted topics, recompression, the metadata log, clients.

use std::borrow::Cow;

use super::codec::{CodecError, decompress};
use super::header::{BatchHeader, CompressionType, HEADER_SIZE, TimestampType};
use super::varint;
use crate::ids::Offset;

/// What is wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// The batch ends inside the record, or before the last of the records it declares.
    #[error("the batch ends too early")]
    Truncated,
    /// A variable-length integer does not end.
    #[error("a variable-length integer does not end")]
    Varint,
    /// The declared size differs from what the fields take.
    #[error("the declared size does not fit the fields")]
    Size,
    /// A header count or the size of a header key is negative or impossible.
    #[error("the headers are malformed")]
    Headers,
    /// The offset lies beyond the largest one.
    #[error("the offset overflows")]
    Offset,
    /// Bytes follow the last record that the batch declares.
    #[error("bytes follow the last record")]
    TrailingBytes,
}

/// Why the records of a batch cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The codec bits hold 5, 6 or 7.
    #[error("codec {id} does not exist")]
    UnknownCodec {
        /// The three bits.
        id: u8,
    },
    /// The bytes are not a whole batch.
    #[error("the batch is not complete")]
    Incomplete,
    /// The codec cannot unpack them, or not within the bound.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// The unpacked records of one batch.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    data: Cow<'a, [u8]>,
    base_offset: Offset,
    base_timestamp: i64,
    /// Under `LogAppendTime` this, and not the record's own, is its timestamp.
    append_time: Option<i64>,
    count: i32,
}

impl<'a> Records<'a> {
    /// Opens the records of the whole batch in `batch`. Uncompressed records are borrowed;
    /// compressed ones are unpacked into at most `bytes_max` bytes.
    pub fn open(batch: &'a [u8], bytes_max: usize) -> Result<Self, OpenError> {
        let header = BatchHeader::read(batch).map_err(|_| OpenError::Incomplete)?;
        let body = batch
            .get(HEADER_SIZE..header.total_size())
            .ok_or(OpenError::Incomplete)?;
        Self::from_parts(header, body, bytes_max)
    }

    /// Opens records that are held apart from their header.
    pub fn from_parts(
        header: BatchHeader<'_>,
        body: &'a [u8],
        bytes_max: usize,
    ) -> Result<Self, OpenError> {
        let attributes = header.attributes();
        let codec = attributes.codec().ok_or_else(|| OpenError::UnknownCodec {
            id: attributes.codec_id(),
        })?;
        let data = match codec {
            CompressionType::None => Cow::Borrowed(body),
            // A batch emptied by compaction keeps its codec bits but has nothing to unpack.
            _ if header.count() == 0 && body.is_empty() => Cow::Borrowed(body),
            _ => Cow::Owned(decompress(codec, body, bytes_max)?),
        };
        Ok(Self {
            data,
            base_offset: header.base_offset(),
            base_timestamp: header.base_timestamp(),
            append_time: match attributes.timestamp_type() {
                TimestampType::LogAppendTime => Some(header.max_timestamp()),
                TimestampType::CreateTime => None,
            },
            count: header.count(),
        })
    }

    /// Gives the size of the records without compression.
    pub fn unpacked_size(&self) -> usize {
        self.data.len()
    }

    /// Walks the records.
    pub fn iter(&self) -> RecordIter<'_> {
        RecordIter {
            rest: &self.data,
            base_offset: self.base_offset,
            base_timestamp: self.base_timestamp,
            append_time: self.append_time,
            left: self.count,
        }
    }
}

impl<'r> IntoIterator for &'r Records<'_> {
    type Item = Result<Record<'r>, RecordFault>;
    type IntoIter = RecordIter<'r>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Walks the records of a batch; ends after the first fault.
#[derive(Debug, Clone)]
pub struct RecordIter<'a> {
    rest: &'a [u8],
    base_offset: Offset,
    base_timestamp: i64,
    append_time: Option<i64>,
    left: i32,
}

impl<'a> RecordIter<'a> {
    fn step(&mut self) -> Result<Record<'a>, RecordFault> {
        let size = varint::read_i32(&mut self.rest).ok_or(if self.rest.is_empty() {
            RecordFault::Truncated
        } else {
            RecordFault::Varint
        })?;
        let size = usize::try_from(size).map_err(|_| RecordFault::Size)?;
        let (body, rest) = self
            .rest
            .split_at_checked(size)
            .ok_or(RecordFault::Truncated)?;
        let record = self.parse(body)?;
        self.rest = rest;
        if self.left == 1 && !rest.is_empty() {
            return Err(RecordFault::TrailingBytes);
        }
        Ok(record)
    }

    fn parse(&self, mut body: &'a [u8]) -> Result<Record<'a>, RecordFault> {
        let (&attributes, rest) = body.split_first().ok_or(RecordFault::Size)?;
        body = rest;
        let timestamp_delta = varint::read_i64(&mut body).ok_or(RecordFault::Varint)?;
        let offset_delta = varint::read_i32(&mut body).ok_or(RecordFault::Varint)?;
        let key = take_field(&mut body)?;
        let value = take_field(&mut body)?;
        let headers = Headers::take(&mut body)?;
        if !body.is_empty() {
            return Err(RecordFault::Size);
        }
        Ok(Record {
            attributes,
            offset: self
                .base_offset
                .checked_add(i64::from(offset_delta))
                .ok_or(RecordFault::Offset)?,
            // Kafka's sum wraps; a refusal here would make records unreadable that it serves.
            timestamp: self
                .append_time
                .unwrap_or_else(|| self.base_timestamp.wrapping_add(timestamp_delta)),
            key,
            value,
            headers,
        })
    }
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Result<Record<'a>, RecordFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left <= 0 {
            return None;
        }
        let step = self.step();
        self.left = if step.is_ok() { self.left - 1 } else { 0 };
        Some(step)
    }
}

/// One record, borrowed from its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Attribute bits; none is in use.
    pub attributes: u8,
    /// The offset in the partition.
    pub offset: Offset,
    /// The timestamp that consumers see.
    pub timestamp: i64,
    /// The key, or null.
    pub key: Option<&'a [u8]>,
    /// The value, or null: a tombstone in compacted topics.
    pub value: Option<&'a [u8]>,
    /// The headers in order.
    pub headers: Headers<'a>,
}

/// The headers of one record, already checked, decoded when walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Headers<'a> {
    bytes: &'a [u8],
    left: usize,
}

impl<'a> Headers<'a> {
    fn take(body: &mut &'a [u8]) -> Result<Self, RecordFault> {
        let count = varint::read_i32(body).ok_or(RecordFault::Varint)?;
        let count = usize::try_from(count).map_err(|_| RecordFault::Headers)?;
        // Each takes at least two bytes, so a count that cannot fit is refused before the loop.
        if count > body.len() / 2 {
            return Err(RecordFault::Headers);
        }
        let bytes = *body;
        for _ in 0..count {
            take_field(body)?.ok_or(RecordFault::Headers)?;
            take_field(body)?;
        }
        Ok(Self {
            bytes: &bytes[..bytes.len() - body.len()],
            left: count,
        })
    }

    /// Gives the number of headers not walked yet.
    pub const fn len(&self) -> usize {
        self.left
    }

    /// Tells whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = RecordHeader<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let key = take_field(&mut self.bytes).ok().flatten()?;
        let value = take_field(&mut self.bytes).ok()?;
        Some(RecordHeader { key, value })
    }
}

/// One header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader<'a> {
    /// The name; UTF-8 by contract, not checked.
    pub key: &'a [u8],
    /// The value, or null.
    pub value: Option<&'a [u8]>,
}

/// Takes a field behind its length; any negative length means null, as in Kafka.
fn take_field<'a>(body: &mut &'a [u8]) -> Result<Option<&'a [u8]>, RecordFault> {
    let length = varint::read_i32(body).ok_or(RecordFault::Varint)?;
    let Ok(length) = usize::try_from(length) else {
        return Ok(None);
    };
    let (field, rest) = body.split_at_checked(length).ok_or(RecordFault::Size)?;
    *body = rest;
    Ok(Some(field))
}

/// Appends one record to an unpacked records section.
pub(super) fn write_record(
    out: &mut Vec<u8>,
    offset_delta: i32,
    timestamp_delta: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &[RecordHeader<'_>],
) -> Option<()> {
    let mut body =
        Vec::with_capacity(key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len) + 32);
    body.push(0);
    varint::write_i64(&mut body, timestamp_delta);
    varint::write_i32(&mut body, offset_delta);
    write_field(&mut body, key)?;
    write_field(&mut body, value)?;
    varint::write_i32(&mut body, i32::try_from(headers.len()).ok()?);
    for header in headers {
        write_field(&mut body, Some(header.key))?;
        write_field(&mut body, header.value)?;
    }
    varint::write_i32(out, i32::try_from(body.len()).ok()?);
    out.extend_from_slice(&body);
    Some(())
}

fn write_field(out: &mut Vec<u8>, field: Option<&[u8]>) -> Option<()> {
    let Some(bytes) = field else {
        varint::write_i32(out, -1);
        return Some(());
    };
    varint::write_i32(out, i32::try_from(bytes.len()).ok()?);
    out.extend_from_slice(bytes);
    Some(())
}
