//! A batch as two pieces, header and records, so that a header can be rewritten without copying
//! or reading the records.

use bytes::{Bytes, BytesMut};

use super::crc::shift;
use super::header::{
    ATTRIBUTES_AT, Attributes, BatchHeader, CRC_AT, HEADER_SIZE, LEADER_EPOCH_AT, MAX_TIMESTAMP_AT,
    TimestampType,
};
use crate::ids::{Epoch, Offset};

/// A checked batch: its header, free to be patched, and the untouched bytes of its records.
///
/// The records are a reference-counted slice of what the producer sent; both pieces together are
/// what goes to disk, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    head: [u8; HEADER_SIZE],
    body: Bytes,
}

impl Batch {
    /// Splits the bytes of exactly one batch; `None` when their number is not what its header says.
    pub fn split(bytes: &Bytes) -> Option<Self> {
        let header = BatchHeader::read(bytes).ok()?;
        (header.total_size() == bytes.len()).then(|| Self {
            head: *header.bytes(),
            body: bytes.slice(HEADER_SIZE..),
        })
    }

    pub(super) const fn from_parts(head: [u8; HEADER_SIZE], body: Bytes) -> Self {
        Self { head, body }
    }

    /// Gives the header.
    pub const fn header(&self) -> BatchHeader<'_> {
        BatchHeader::trusted(&self.head)
    }

    /// Gives the bytes of the header, to be written first.
    pub const fn head(&self) -> &[u8; HEADER_SIZE] {
        &self.head
    }

    /// Gives the bytes of the records, to be written after the header.
    pub const fn body(&self) -> &Bytes {
        &self.body
    }

    /// Gives the size of header and records.
    pub fn size(&self) -> usize {
        HEADER_SIZE + self.body.len()
    }

    /// Copies both pieces into one.
    pub fn to_bytes(&self) -> Bytes {
        let mut whole = BytesMut::with_capacity(self.size());
        whole.extend_from_slice(&self.head);
        whole.extend_from_slice(&self.body);
        whole.freeze()
    }

    /// Sets the offset of the first record and the epoch of the leader that appends it: bytes
    /// before the checksum, so it stays valid. False, and nothing changes, when the offset is
    /// negative or the last record would lie beyond the largest offset.
    #[must_use]
    pub fn assign(&mut self, base_offset: Offset, leader_epoch: Epoch) -> bool {
        let delta = i64::from(self.header().last_offset_delta());
        // The end offset of the log must be a number too.
        let end = base_offset
            .checked_add(delta)
            .and_then(|last| last.checked_add(1));
        if base_offset < 0 || end.is_none() {
            return false;
        }
        self.head[..8].copy_from_slice(&base_offset.to_be_bytes());
        self.head[LEADER_EPOCH_AT..LEADER_EPOCH_AT + 4]
            .copy_from_slice(&leader_epoch.0.to_be_bytes());
        true
    }

    /// Sets timestamp type and max timestamp and computes the checksum anew. The base timestamp
    /// and the records' deltas stay, as in Kafka: under `LogAppendTime` readers ignore them.
    ///
    /// Costs nothing per byte: the checksum of the records follows from the old one.
    pub fn restamp(&mut self, kind: TimestampType, max_timestamp: i64) {
        let header = self.header();
        if header.attributes().timestamp_type() == kind && header.max_timestamp() == max_timestamp {
            return;
        }
        let attributes = header.attributes().with_timestamp_type(kind);
        self.rewrite(attributes, max_timestamp);
    }

    fn rewrite(&mut self, attributes: Attributes, max_timestamp: i64) {
        let old_crc = self.header().crc();
        let old_head_crc = crc32c::crc32c(&self.head[ATTRIBUTES_AT..]);
        self.head[ATTRIBUTES_AT..ATTRIBUTES_AT + 2]
            .copy_from_slice(&attributes.bits().to_be_bytes());
        self.head[MAX_TIMESTAMP_AT..MAX_TIMESTAMP_AT + 8]
            .copy_from_slice(&max_timestamp.to_be_bytes());
        let new_head_crc = crc32c::crc32c(&self.head[ATTRIBUTES_AT..]);
        // crc(head ++ body) = shift(crc(head), len(body)) ^ crc(body), so what changes is the
        // shifted difference of the two head checksums.
        let shifted = shift(old_head_crc ^ new_head_crc, self.body.len());
        let crc = old_crc ^ shifted;
        self.head[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_be_bytes());
    }
}
