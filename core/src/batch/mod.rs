//! Record batches v2: the unit that producers send, the log stores and consumers read.
//!
//! With default topic settings a batch stays the producer's bytes from socket to disk to consumer.
//! [`validate_produce`] checks it from its 61-byte header and its checksum and does no work per
//! record; [`Batch::assign`] sets base offset and leader epoch, which the checksum does not cover;
//! [`BatchIter`] walks batches again when they are read or recovered. Everything here is a pure
//! function of bytes, and no bytes make it panic.
//!
//! # What runs per record, and when
//!
//! Records are looked at only where a topic asks for it (`compression.type`, compaction,
//! `message.timestamp.before.max.ms`, the deep check) or where the header gives reason to: the max
//! timestamp lies below the base, as clients send it that never compute it; a timestamp is out of
//! range; the batch claims to be stamped by the broker. Then [`Records`] unpacks them, into a
//! bounded number of bytes, and the header's max timestamp is set from what was found, as Kafka
//! does for every batch.
//!
//! # Error codes
//!
//! [`BatchError::kafka_code`] answers as Kafka 4.3 does, in Kafka's order of checks:
//!
//! | refused because | code |
//! | --- | --- |
//! | no records, no complete batch | `INVALID_RECORD` |
//! | length below 14, magic below 0 or above 2 | `CORRUPT_MESSAGE` |
//! | magic 0 or 1 | `INVALID_RECORD` |
//! | Zstandard before Produce version 7 | `UNSUPPORTED_COMPRESSION_TYPE` |
//! | a second batch | `INVALID_RECORD` |
//! | base offset other than 0 | `INVALID_RECORD` |
//! | above `max.message.bytes`, as sent or recompressed | `MESSAGE_TOO_LARGE` |
//! | smaller than a header, checksum | `CORRUPT_MESSAGE` |
//! | codec 5 to 7 | `UNSUPPORTED_COMPRESSION_TYPE` |
//! | count, last offset delta, control batch, missing sequence | `INVALID_RECORD` |
//! | record malformed, key missing in a compacted topic | `INVALID_RECORD` |
//! | timestamp out of range or stamped as the broker | `INVALID_TIMESTAMP` |
//! | above `segment.bytes` | `RECORD_LIST_TOO_LARGE` |
//!
//! `UNSUPPORTED_FOR_MESSAGE_FORMAT` cannot arise any more: only format 2 is stored. Answers that
//! differ from Kafka's on purpose:
//!
//! - Codec 5 to 7, records that cannot be unpacked, negative timestamps in a recompressed batch:
//!   Kafka stumbles over its own exception and answers `UNKNOWN_SERVER_ERROR`. Here the answer says
//!   what is wrong; neither is retried by clients.
//! - Records that unpack beyond the bound are `MESSAGE_TOO_LARGE`; Kafka 4.3 has no bound.
//! - At most [`REJECTED_RECORDS_MAX`] records are named in one answer.
//! - The deep check refuses offset deltas that do not count up by one. Kafka answers
//!   `UNKNOWN_SERVER_ERROR` where the batch is compressed and stores it as it is, with offsets that
//!   consumers stumble over, where it is not.
//! - Records are parsed as strictly in a compressed batch as in a plain one; Kafka skips fields of
//!   the former without comparing them with the record's size.
//! - Header keys are bytes: a recompressed batch keeps a key that is not UTF-8, where Kafka writes
//!   replacement characters.
//!
//! # What a malicious batch with a valid checksum can do
//!
//! The price of not reading records is that their bytes are believed to be what the header says.
//! A producer that may write to a topic can, without the deep check:
//!
//! - store records that do not parse or unpack: consumers fail at that batch until they seek past
//!   it; look-ups by time and compaction must expect it and do. Kafka refuses such a batch.
//! - give offset deltas that are out of order or beyond the batch: consumers see odd offsets, but
//!   the log does not: offsets of other batches come from headers alone. In Kafka the same holds
//!   for uncompressed batches.
//! - understate the max timestamp, though not below the base: look-ups by time may miss records,
//!   retention by time may remove the segment sooner. Overstating it is bounded by
//!   `message.timestamp.after.max.ms`. Kafka computes it from the records.
//! - send a decompression bomb to consumers: here it costs nothing unless the batch is unpacked,
//!   and then it is bounded. Kafka unpacks every compressed batch.
//!
//! It can never change another producer's batches, the offsets the log assigns, or what is
//! replicated, and every one of these is confined to topics that the producer may write to. The
//! deep check per topic closes them all, at Kafka's price.

mod builder;
mod codec;
pub mod control;
mod crc;
mod error;
mod header;
mod lookup;
mod recompress;
mod record;
mod scan;
mod stored;
mod validate;
mod varint;

#[cfg(test)]
mod tests;

pub use builder::{BatchBuilder, BuildError, NewRecord, ProducerState};
pub use codec::{CodecError, Compression, compress, decompress};
pub use error::{
    BatchError, CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE,
    RECORD_LIST_TOO_LARGE, REJECTED_RECORDS_MAX, RejectReason, RejectedRecord,
    UNSUPPORTED_COMPRESSION_TYPE,
};
pub use header::{
    Attributes, BatchHeader, CompressionType, HEADER_SIZE, HeaderFault, LOG_OVERHEAD, MAGIC_V2,
    NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, TimestampType,
    increment_sequence,
};
pub use lookup::{TimestampOffset, first_at_or_after, max_timestamp};
pub use recompress::{RecompressError, recompress};
pub use record::{Headers, OpenError, Record, RecordFault, RecordHeader, RecordIter, Records};
pub use scan::{BatchIter, BatchView, ScanFault, ScanFaultKind, batch_size};
pub use stored::Batch;
pub use validate::{ProduceRules, deep_check, validate_produce};
