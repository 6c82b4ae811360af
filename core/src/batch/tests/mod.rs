//! Tests of record batches: against Kafka's own bytes, against each other, against damage.

mod hostile;
mod kafka_bytes;
mod round_trip;
mod rules;
mod walk;

use bytes::Bytes;

use super::header::CompressionType;
use super::{BatchBuilder, Compression, NewRecord, RecordHeader, Records};

pub(super) const CODECS: [CompressionType; 5] = [
    CompressionType::None,
    CompressionType::Gzip,
    CompressionType::Snappy,
    CompressionType::Lz4,
    CompressionType::Zstd,
];

/// Broker time of the fixtures.
pub(super) const NOW_MS: i64 = 1_700_000_009_999;

/// A record that owns its bytes, to compare with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) offset: i64,
    pub(super) timestamp: i64,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// Reads all records of a batch.
pub(super) fn records_of(batch: &[u8]) -> Vec<Owned> {
    Records::open(batch, 1 << 24)
        .expect("records open")
        .iter()
        .map(|record| {
            let record = record.expect("record parses");
            Owned {
                offset: record.offset,
                timestamp: record.timestamp,
                key: record.key.map(<[u8]>::to_vec),
                value: record.value.map(<[u8]>::to_vec),
                headers: record
                    .headers
                    .map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec)))
                    .collect(),
            }
        })
        .collect()
}

/// The four records of the fixtures: key and value, no key, null value with two headers, empty key
/// and value.
pub(super) fn fixture_builder(compression: Compression) -> BatchBuilder {
    let headers = [
        RecordHeader {
            key: b"h1",
            value: Some(b"x"),
        },
        RecordHeader {
            key: b"h2",
            value: None,
        },
    ];
    let long = b"value zero value zero value zero value zero";
    let mut builder = BatchBuilder::new(compression);
    let records = [
        (
            1_700_000_000_000,
            Some(&b"k0"[..]),
            Some(&long[..]),
            &[][..],
        ),
        (1_700_000_000_500, None, Some(&b"no key"[..]), &[][..]),
        (1_700_000_000_250, Some(&b"k2"[..]), None, &headers[..]),
        (1_700_000_000_500, Some(&b""[..]), Some(&b""[..]), &[][..]),
    ];
    for (timestamp, key, value, headers) in records {
        builder
            .append(&NewRecord {
                timestamp,
                key,
                value,
                headers,
            })
            .expect("record fits");
    }
    builder
}

/// One small batch with `count` records of growing timestamps.
pub(super) fn plain_batch(base_offset: i64, count: i32) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None).base_offset(base_offset);
    for at in 0..count {
        builder
            .append(&NewRecord {
                timestamp: 1_000 + i64::from(at),
                value: Some(b"value"),
                ..NewRecord::default()
            })
            .expect("record fits");
    }
    builder.build().expect("batch builds")
}

/// Computes the checksum of changed bytes anew, as an attacker would.
pub(super) fn sign(batch: &mut [u8]) {
    let crc = super::scan::checksum(batch);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}

/// Gives a copy with some bytes overwritten and a valid checksum.
pub(super) fn forged(batch: &[u8], at: usize, bytes: &[u8]) -> Bytes {
    let mut copy = batch.to_vec();
    copy[at..at + bytes.len()].copy_from_slice(bytes);
    sign(&mut copy);
    Bytes::from(copy)
}
