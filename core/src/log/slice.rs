//! What a fetch is answered with: batches taken from bytes that were read, or a range of the file.

use bytes::Bytes;

use crate::{
    ids::Offset,
    storage::{FileRange, Part},
};

use super::{
    event::{FetchSlice, ReadRequest},
    read::Walk,
    scan::{BatchFacts, crc_fits},
};

/// Batches chosen for a slice.
pub(super) struct Taken {
    /// Where the first begins in the bytes that were read.
    pub(super) from: usize,
    /// Bytes of all of them.
    pub(super) size: usize,
    base: Offset,
    /// Offset after the last.
    pub(super) next: Offset,
    /// No more is to be taken.
    pub(super) is_done: bool,
}

impl Taken {
    pub(super) const fn new(offset: Offset) -> Self {
        Self {
            from: 0,
            size: 0,
            base: offset,
            next: offset,
            is_done: false,
        }
    }

    pub(super) fn add(
        &mut self,
        request: &ReadRequest,
        facts: &BatchFacts,
        at: usize,
        batch: &[u8],
    ) -> Walk {
        let max = usize::try_from(request.max_bytes).unwrap_or(usize::MAX);
        let is_first = self.size == 0;
        let fits = self.size + batch.len() <= max || (is_first && request.min_one_batch);
        if facts.next() > request.limit || !fits {
            self.is_done = true;
            return Walk::Stop;
        }
        if !crc_fits(batch) {
            // What is good before it is served; the next fetch names the damage.
            return Walk::Stop;
        }
        if is_first {
            self.from = at;
            self.base = facts.base;
        }
        self.size += batch.len();
        self.next = facts.next();
        Walk::On
    }

    pub(super) fn slice(&self, bytes: &Bytes) -> FetchSlice {
        if self.size == 0 {
            return FetchSlice::empty(self.next);
        }
        FetchSlice {
            parts: vec![Part::Bytes(bytes.slice(self.from..self.from + self.size))],
            size: self.size,
            base_offset: self.base,
            next_offset: self.next,
        }
    }
}

impl FetchSlice {
    pub(super) fn empty(offset: Offset) -> Self {
        Self {
            parts: Vec::new(),
            size: 0,
            base_offset: offset,
            next_offset: offset,
        }
    }

    pub(super) fn ranged(base: Offset, next: Offset, range: FileRange) -> Self {
        if range.len == 0 {
            return Self::empty(next);
        }
        Self {
            size: usize::try_from(range.len).unwrap_or(0),
            parts: vec![Part::File(range)],
            base_offset: base,
            next_offset: next,
        }
    }
}
