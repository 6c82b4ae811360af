//! Record batches for requests, good ones and precisely broken ones, and a readable view of those in answers.

use std::io::Write as _;

use serde_json::{Value, json};

use crate::wire::{Input, hex};

/// The compression codecs, by their number in the attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    Gzip = 1,
    Snappy = 2,
    Lz4 = 3,
    Zstd = 4,
}

/// A record before it is written into a batch.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) offset_delta: i32,
    pub(crate) timestamp_delta: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
}

/// A record batch of version 2. What is not overridden is derived, so that the batch is valid.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    pub(crate) base_offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) magic: i8,
    pub(crate) attributes: i16,
    pub(crate) last_offset_delta: Option<i32>,
    pub(crate) base_timestamp: i64,
    pub(crate) max_timestamp: Option<i64>,
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
    pub(crate) base_sequence: i32,
    pub(crate) records: Vec<Record>,
    pub(crate) count: Option<i32>,
    /// The records' bytes, instead of the encoded (and compressed) `records`.
    pub(crate) payload: Option<Vec<u8>>,
    pub(crate) crc: Option<u32>,
    pub(crate) length: Option<i32>,
}

/// A moment in 2026 to which record timestamps are relative: fixed, so that both brokers see the same.
pub(crate) const EPOCH_MS: i64 = 1_780_000_000_000;

impl Batch {
    /// A batch of one record for each value, one millisecond apart from `EPOCH_MS` on.
    pub(crate) fn of(values: &[&str]) -> Self {
        let record = |(i, value): (usize, &&str)| Record {
            offset_delta: i32::try_from(i).expect("few records"),
            timestamp_delta: i64::try_from(i).expect("few records"),
            key: None,
            value: Some(value.as_bytes().to_vec()),
            headers: Vec::new(),
        };
        Self {
            base_offset: 0,
            leader_epoch: -1,
            magic: 2,
            attributes: 0,
            last_offset_delta: None,
            base_timestamp: EPOCH_MS,
            max_timestamp: None,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            records: values.iter().enumerate().map(record).collect(),
            count: None,
            payload: None,
            crc: None,
            length: None,
        }
    }

    /// A batch of `count` small records.
    pub(crate) fn with_records(count: usize) -> Self {
        let values: Vec<String> = (0..count).map(|i| format!("value-{i}")).collect();
        Self::of(&values.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Starts the timestamps at another moment.
    pub(crate) fn at(mut self, base_timestamp: i64) -> Self {
        self.base_timestamp = base_timestamp;
        self
    }

    /// Compresses the records.
    pub(crate) fn compressed(mut self, compression: Compression) -> Self {
        self.payload = Some(compress(compression, &self.encoded_records()));
        self.attributes |= compression as i16;
        self
    }

    /// Changes any field.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The batch's bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let last = self.records.last().map_or(-1, |record| record.offset_delta);
        let max = self
            .records
            .iter()
            .map(|record| record.timestamp_delta)
            .max()
            .unwrap_or_default();
        let count = i32::try_from(self.records.len()).expect("few records");
        let payload = self
            .payload
            .clone()
            .unwrap_or_else(|| self.encoded_records());
        let mut checked = Vec::new();
        checked.extend(self.attributes.to_be_bytes());
        checked.extend(self.last_offset_delta.unwrap_or(last).to_be_bytes());
        checked.extend(self.base_timestamp.to_be_bytes());
        checked.extend(
            self.max_timestamp
                .unwrap_or_else(|| self.base_timestamp.saturating_add(max))
                .to_be_bytes(),
        );
        checked.extend(self.producer_id.to_be_bytes());
        checked.extend(self.producer_epoch.to_be_bytes());
        checked.extend(self.base_sequence.to_be_bytes());
        checked.extend(self.count.unwrap_or(count).to_be_bytes());
        checked.extend(payload);
        let length = i32::try_from(checked.len() + 9).expect("a small batch");
        let mut out = Vec::new();
        out.extend(self.base_offset.to_be_bytes());
        out.extend(self.length.unwrap_or(length).to_be_bytes());
        out.extend(self.leader_epoch.to_be_bytes());
        out.extend(self.magic.to_be_bytes());
        out.extend(
            self.crc
                .unwrap_or_else(|| crc32c::crc32c(&checked))
                .to_be_bytes(),
        );
        out.extend(checked);
        out
    }

    /// The batch as a request's `records` field.
    pub(crate) fn hex(&self) -> Value {
        hex(&self.bytes()).into()
    }

    /// The records' bytes before compression.
    pub(crate) fn encoded_records(&self) -> Vec<u8> {
        self.records.iter().flat_map(Record::bytes).collect()
    }
}

impl Record {
    /// The record's bytes with its length in front.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut body = vec![0];
        put_varint(&mut body, self.timestamp_delta);
        put_varint(&mut body, self.offset_delta.into());
        put_bytes(&mut body, self.key.as_deref());
        put_bytes(&mut body, self.value.as_deref());
        put_varint(&mut body, size(self.headers.len()));
        for (key, value) in &self.headers {
            put_bytes(&mut body, Some(key.as_bytes()));
            put_bytes(&mut body, value.as_deref());
        }
        let mut out = Vec::new();
        put_varint(&mut out, size(body.len()));
        out.extend(body);
        out
    }
}

fn size(length: usize) -> i64 {
    i64::try_from(length).expect("a small record")
}

fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    put_varint(out, bytes.map_or(-1, |bytes| size(bytes.len())));
    out.extend(bytes.unwrap_or_default());
}

/// Appends a zigzag variable-length integer.
pub(crate) fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut zigzag = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while zigzag >= 0x80 {
        out.push(zigzag.to_le_bytes()[0] | 0x80);
        zigzag >>= 7;
    }
    out.push(zigzag.to_le_bytes()[0]);
}

/// Compresses as Kafka's clients do, Snappy in the framing of the Java library.
pub(crate) fn compress(compression: Compression, bytes: &[u8]) -> Vec<u8> {
    match compression {
        Compression::Gzip => {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(bytes).expect("writing to memory");
            encoder.finish().expect("writing to memory")
        }
        Compression::Snappy => {
            let block = snap::raw::Encoder::new()
                .compress_vec(bytes)
                .expect("a small batch");
            let mut out = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
            out.extend(
                u32::try_from(block.len())
                    .expect("a small batch")
                    .to_be_bytes(),
            );
            out.extend(block);
            out
        }
        Compression::Lz4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(bytes).expect("writing to memory");
            encoder.finish().expect("writing to memory")
        }
        Compression::Zstd => zstd::bulk::compress(bytes, 3).expect("compression in memory"),
    }
}

/// A readable form of a `records` field: each batch's header and body, and what is left at the end.
pub(crate) fn view(records: &[u8]) -> Value {
    let mut batches = Vec::new();
    let mut rest = records;
    while let Some((batch, after)) = split(rest) {
        batches.push(header(batch).unwrap_or_else(|_| json!({ "bytes": hex(batch) })));
        rest = after;
    }
    if !rest.is_empty() {
        batches.push(json!({ "partial": hex(rest) }));
    }
    batches.into()
}

fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = i32::from_be_bytes(bytes.get(8..12)?.try_into().ok()?);
    bytes.split_at_checked(usize::try_from(length).ok()?.checked_add(12)?)
}

fn header(batch: &[u8]) -> Result<Value, String> {
    let mut input = Input { rest: batch };
    let base_offset = i64::from_be_bytes(input.array()?);
    let length = i32::from_be_bytes(input.array()?);
    let leader_epoch = i32::from_be_bytes(input.array()?);
    let magic = i8::from_be_bytes(input.array()?);
    let crc = u32::from_be_bytes(input.array()?);
    let valid = crc == crc32c::crc32c(input.rest);
    let attributes = i16::from_be_bytes(input.array()?);
    let last_offset_delta = i32::from_be_bytes(input.array()?);
    let base_timestamp = i64::from_be_bytes(input.array()?);
    let max_timestamp = i64::from_be_bytes(input.array()?);
    let producer_id = i64::from_be_bytes(input.array()?);
    let producer_epoch = i16::from_be_bytes(input.array()?);
    let base_sequence = i32::from_be_bytes(input.array()?);
    let count = i32::from_be_bytes(input.array()?);
    // Broker-made timestamps are the wall clock, and the checksum covers them.
    let append_time = attributes & 8 != 0;
    Ok(json!({
        "baseOffset": base_offset, "length": length, "leaderEpoch": leader_epoch, "magic": magic,
        "crc": if append_time { json!(if valid { "<valid>" } else { "<wrong>" }) } else { crc.into() },
        "attributes": attributes, "lastOffsetDelta": last_offset_delta, "baseTimestamp": base_timestamp,
        "maxTimestamp": if append_time { json!("<now>") } else { max_timestamp.into() },
        "producerId": producer_id, "producerEpoch": producer_epoch, "baseSequence": base_sequence,
        "count": count, "payload": hex(input.rest),
    }))
}
