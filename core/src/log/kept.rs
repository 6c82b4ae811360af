//! The newest batches with their bytes: what followers read before it is settled, without a read.
//!
//! A range of the file must not be promised of what a truncation may still replace, so a follower is sent bytes of that. They pass
//! through here on their way to the disk anyway; only a leader with followers keeps them, and only until they are settled.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::{ids::Offset, storage::Part};

use super::event::{FetchSlice, ReadRequest};

/// How much is kept of one log; what followers lag behind further is read.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// Batches that are smaller than this on average are sent as one part.
const COPIED_BELOW: usize = 16 << 10;

#[derive(Clone, Debug)]
struct KeptBatch {
    base: Offset,
    next: Offset,
    head: Bytes,
    body: Bytes,
}

impl KeptBatch {
    fn size(&self) -> usize {
        self.head.len() + self.body.len()
    }
}

/// The batches, consecutive and in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    is_wanted: bool,
    batches: VecDeque<KeptBatch>,
    size: usize,
}

impl Kept {
    /// Returns whether batches are to be kept.
    pub(super) const fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Begins to keep batches, or stops.
    pub(super) fn want(&mut self, is_wanted: bool) {
        self.is_wanted = is_wanted;
        if !is_wanted {
            self.batches = VecDeque::new();
            self.size = 0;
        }
    }

    /// Adds the next batch.
    pub(super) fn push(&mut self, (base, next): (Offset, Offset), head: &[u8], body: Bytes) {
        let head = Bytes::copy_from_slice(head);
        let batch = KeptBatch {
            base,
            next,
            head,
            body,
        };
        self.size += batch.size();
        self.batches.push_back(batch);
        while self.size > KEPT_BYTES_MAX {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.batches.pop_front() {
            self.size -= first.size();
        }
    }

    /// Lets go of batches wholly below an offset: ranges of the file may stand for them.
    pub(super) fn settle(&mut self, below: Offset) {
        while self
            .batches
            .front()
            .is_some_and(|batch| batch.next <= below)
        {
            self.drop_first();
        }
    }

    /// Forgets batches that reach `end` or beyond.
    pub(super) fn truncate(&mut self, end: Offset) {
        while self.batches.back().is_some_and(|batch| batch.next > end) {
            if let Some(last) = self.batches.pop_back() {
                self.size -= last.size();
            }
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.batches.clear();
        self.size = 0;
    }

    /// Answers a read; `None` when its first batch is not here.
    pub(super) fn read(&self, request: &ReadRequest) -> Option<FetchSlice> {
        let after = self
            .batches
            .partition_point(|batch| batch.base <= request.offset);
        let first = after.checked_sub(1)?;
        if self.batches.get(first)?.next <= request.offset {
            return None;
        }
        let max = usize::try_from(request.max_bytes).unwrap_or(usize::MAX);
        let mut slice = FetchSlice::empty(request.offset);
        let mut taken = 0;
        for batch in self.batches.range(first..) {
            let is_first = taken == 0;
            let fits = slice.size + batch.size() <= max || (is_first && request.min_one_batch);
            if batch.next > request.limit || !fits {
                break;
            }
            if is_first {
                slice.base_offset = batch.base;
            }
            taken += 1;
            slice.size += batch.size();
            slice.next_offset = batch.next;
        }
        slice.parts = parts(self.batches.range(first..first + taken), slice.size);
        Some(slice)
    }
}

/// Gathers batches: small ones are copied together, since each part costs more to send than a few bytes to copy.
fn parts<'a>(batches: impl ExactSizeIterator<Item = &'a KeptBatch>, size: usize) -> Vec<Part> {
    let count = batches.len();
    let whole = |batch: &KeptBatch| [batch.head.clone(), batch.body.clone()];
    if count == 0 || size / count >= COPIED_BELOW {
        return batches.flat_map(whole).map(Part::Bytes).collect();
    }
    let mut bytes = BytesMut::with_capacity(size);
    for part in batches.flat_map(whole) {
        bytes.extend_from_slice(&part);
    }
    vec![Part::Bytes(bytes.freeze())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::ReadId;

    fn kept(batches: i64) -> Kept {
        let mut kept = Kept::default();
        kept.want(true);
        for at in 0..batches {
            let base = 10 + at * 2;
            kept.push((base, base + 2), &[1; 61], Bytes::from_static(&[2; 39]));
        }
        kept
    }

    fn read(kept: &Kept, offset: Offset, limit: Offset, max_bytes: u32) -> Option<(usize, Offset)> {
        let request = ReadRequest {
            offset,
            max_bytes,
            min_one_batch: true,
            limit,
            settled: 0,
            id: ReadId(1),
        };
        let slice = kept.read(&request)?;
        Some((slice.size, slice.next_offset))
    }

    #[test]
    fn whole_batches_below_the_limit_are_read_from_the_one_that_holds_the_offset() {
        let kept = kept(5);
        assert_eq!(read(&kept, 13, 99, 250), Some((200, 16)));
        assert_eq!(read(&kept, 12, 15, 999), Some((100, 14)));
        assert_eq!(read(&kept, 12, 13, 999), Some((0, 12)), "it is not below");
        assert_eq!(read(&kept, 12, 99, 10), Some((100, 14)), "one comes whole");
        assert_eq!(read(&kept, 9, 99, 999), None);
        assert_eq!(read(&kept, 20, 99, 999), None);
    }

    #[test]
    fn settled_and_cut_batches_go() {
        let mut kept = kept(5);
        kept.settle(13);
        assert_eq!(read(&kept, 11, 99, 999), None);
        kept.truncate(17);
        assert_eq!(read(&kept, 12, 99, 999), Some((200, 16)));
        assert_eq!(kept.size, 200);
    }

    #[test]
    fn oldest_batches_go_when_too_much_is_kept() {
        let mut kept = Kept::default();
        kept.want(true);
        for at in 0..5 {
            let body = Bytes::from(vec![0; 1 << 20]);
            kept.push((at, at + 1), &[0; 61], body);
        }
        assert!(kept.size <= KEPT_BYTES_MAX);
        assert_eq!(read(&kept, 1, 9, 1), None);
        assert!(read(&kept, 2, 9, 1).is_some());
        kept.want(false);
        assert_eq!(kept.size, 0);
    }
}
