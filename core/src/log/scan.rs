//! Walking stored batches, and the rules by which each must continue the one before.

use crate::{
    batch::{BatchHeader, HEADER_SIZE, TimestampType},
    ids::{Epoch, Offset},
};

/// Bytes of a batch header.
pub const HEADER_BYTES: usize = HEADER_SIZE;

const CRC_AT: usize = 17;
const ATTRIBUTES_AT: usize = 21;

/// What a log needs to know of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchFacts {
    /// Offset of the first record.
    pub(super) base: Offset,
    /// Offset of the last record.
    pub(super) last: Offset,
    /// Bytes of header and records.
    pub(super) size: u32,
    /// The epoch of the leader that appended it.
    pub(super) epoch: Epoch,
    /// The largest timestamp.
    pub(super) max_timestamp: i64,
    /// Whether the timestamp is the broker's.
    pub(super) log_append_time: bool,
}

impl BatchFacts {
    /// Reads a header; `None` when it cannot be one.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let header = BatchHeader::read(bytes).ok()?;
        let (base, delta) = (header.base_offset(), header.last_offset_delta());
        let last = header.last_offset()?;
        let is_batch = base >= 0 && delta >= 0 && last < i64::MAX;
        let size = u32::try_from(header.total_size()).ok()?;
        is_batch.then(|| Self {
            base,
            last,
            size,
            epoch: header.partition_leader_epoch(),
            max_timestamp: header.max_timestamp(),
            log_append_time: header.attributes().timestamp_type() == TimestampType::LogAppendTime,
        })
    }

    /// Returns the offset after the last record.
    pub(super) const fn next(&self) -> Offset {
        self.last.saturating_add(1)
    }
}

/// Returns whether the checksum of a whole batch fits its bytes.
pub(super) fn crc_fits(batch: &[u8]) -> bool {
    let stored = batch
        .get(CRC_AT..)
        .and_then(|rest| rest.first_chunk::<4>())
        .map(|crc| u32::from_be_bytes(*crc));
    let computed = batch.get(ATTRIBUTES_AT..).map(crc32c::crc32c);
    stored.is_some() && stored == computed
}

/// What stands at a position of a chunk of a `.log` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A whole batch; its checksum was not looked at.
    Batch(BatchFacts),
    /// The chunk ends here, or within a batch of at least `need` bytes that may go on after the chunk.
    Cut {
        /// Bytes to read from this position on to see the whole batch, as far as known.
        need: u32,
    },
    /// No batch.
    Bad,
}

/// Looks at the front of `bytes`, of which the file holds `file_left`.
pub(super) fn look(bytes: &[u8], file_left: u64) -> Found {
    let need = if bytes.len() < HEADER_BYTES {
        61
    } else {
        match BatchFacts::read(bytes) {
            None => return Found::Bad,
            Some(facts) if usize::try_from(facts.size).is_ok_and(|size| size <= bytes.len()) => {
                return Found::Batch(facts);
            }
            Some(facts) => facts.size,
        }
    };
    if u64::from(need) > file_left {
        Found::Bad
    } else {
        Found::Cut { need }
    }
}

/// How the next batch must continue those before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    /// The offset that the next batch begins with, where known.
    next: Option<Offset>,
    /// The last offset that the next batch must have, where an index entry says so.
    last: Option<Offset>,
    epoch: Epoch,
    may_skip: bool,
}

impl Chain {
    /// Expects a batch that begins with `next`; `may_skip` for compacted logs.
    pub(super) const fn at(next: Offset, may_skip: bool) -> Self {
        Self {
            next: Some(next),
            last: None,
            epoch: Epoch(-1),
            may_skip,
        }
    }

    /// Expects a batch that ends with `last`, as an index entry says.
    pub(super) const fn ending(last: Offset, may_skip: bool) -> Self {
        Self {
            next: None,
            last: Some(last),
            epoch: Epoch(-1),
            may_skip,
        }
    }

    /// Expects the first batch of the next segment.
    pub(super) const fn skip_to(&mut self, base: Offset) {
        self.next = Some(base);
    }

    /// Returns the offset that the next batch begins with, where known.
    pub(super) const fn next(&self) -> Option<Offset> {
        self.next
    }

    /// Takes the next batch; false when it cannot stand here.
    pub(super) fn accept(&mut self, batch: &BatchFacts) -> bool {
        let begins = self
            .next
            .is_none_or(|next| batch.base == next || (self.may_skip && batch.base > next));
        let ends = self.last.is_none_or(|last| batch.last == last);
        if !begins || !ends || batch.epoch < self.epoch {
            return false;
        }
        self.next = Some(batch.next());
        self.last = None;
        self.epoch = batch.epoch;
        true
    }
}
