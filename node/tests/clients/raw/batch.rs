//! Record batches by hand.

use super::bytes::{Input, Output, count};

/// A record batch as it stands on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
}

impl Batch {
    /// Makes an uncompressed batch without keys; each value is one record, and all share a timestamp.
    pub(crate) fn of(values: &[Vec<u8>], timestamp: i64) -> Self {
        let last = i32::try_from(values.len()).expect("few records") - 1;
        let mut checked = Output::default();
        checked
            .i16(0)
            .i32(last)
            .i64(timestamp)
            .i64(timestamp)
            .i64(-1)
            .i16(-1)
            .i32(-1)
            .i32(last + 1);
        for (delta, value) in values.iter().enumerate() {
            // Attributes, timestamp delta, offset delta, no key, the value, no headers.
            let mut record = Output::default();
            record.bytes.extend([0, 0]);
            record
                .varint(count(delta).into())
                .varint(-1)
                .varint(count(value.len()).into());
            record.bytes.extend(value);
            record.bytes.push(0);
            checked.varint(count(record.bytes.len()).into());
            checked.bytes.extend(record.bytes);
        }
        let mut out = Output::default();
        out.i64(0)
            .i32(count(checked.bytes.len() + 9))
            .i32(-1)
            .bytes
            .push(2);
        out.bytes
            .extend(crc32c::crc32c(&checked.bytes).to_be_bytes());
        out.bytes.extend(checked.bytes);
        Self { bytes: out.bytes }
    }

    /// Cuts records into batches; a partial one at the end is left out.
    pub(crate) fn split(mut records: &[u8]) -> Vec<Self> {
        let mut out = Vec::new();
        while let Some(length) = records.get(8..12) {
            let length = u32::from_be_bytes(length.try_into().expect("four bytes"));
            let size = usize::try_from(length).expect("a size") + 12;
            let Some((batch, rest)) = records.split_at_checked(size) else {
                break;
            };
            out.push(Self {
                bytes: batch.to_vec(),
            });
            records = rest;
        }
        out
    }

    /// What a broker must keep as the producer wrote it.
    pub(crate) fn kept_bytes(&self) -> &[u8] {
        &self.bytes[16..]
    }

    pub(crate) fn base_offset(&self) -> i64 {
        Input::of(&self.bytes).i64()
    }

    /// The offset after the batch's last record.
    pub(crate) fn next_offset(&self) -> i64 {
        self.base_offset() + i64::from(Input::of(&self.bytes[23..]).i32()) + 1
    }

    pub(crate) fn leader_epoch(&self) -> i32 {
        Input::of(&self.bytes[12..]).i32()
    }

    /// The codec's name.
    pub(crate) fn codec(&self) -> &'static str {
        ["none", "gzip", "snappy", "lz4", "zstd", "5?", "6?", "7?"][usize::from(self.bytes[22] & 7)]
    }

    /// The values of an uncompressed batch; the checksum is checked.
    pub(crate) fn values(&self) -> Vec<Vec<u8>> {
        assert_eq!(self.codec(), "none");
        let crc = u32::from_be_bytes(self.bytes[17..21].try_into().expect("four bytes"));
        assert_eq!(
            crc32c::crc32c(&self.bytes[21..]),
            crc,
            "the batch at {} is damaged",
            self.base_offset()
        );
        let mut input = Input::of(&self.bytes[57..]);
        let records = Input::of(&self.bytes[57..]).i32();
        let _count = input.i32();
        (0..records)
            .map(|_| {
                let (_size, _attributes, _time, _offset) = (
                    input.varint(),
                    input.take(1),
                    input.varint(),
                    input.varint(),
                );
                let key = input.varint();
                assert_eq!(key, -1, "these records have no key");
                let size = input.varint();
                let value = input.take(usize::try_from(size).expect("a value")).to_vec();
                assert_eq!(input.varint(), 0, "these records have no headers");
                value
            })
            .collect()
    }
}
