//! The offset index of a segment: a batch's last offset and where the batch begins.
//!
//! Sparse and sorted; eight bytes an entry, both columns big-endian and relative: the offset to the segment's base, the
//! position to the start of the `.log` file.

use crate::ids::Offset;

/// Bytes of one entry.
pub(super) const OFFSET_ENTRY_BYTES: usize = 8;

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OffsetEntry {
    /// Last offset of the batch, counted from the segment's base.
    pub(super) relative: u32,
    /// Where the batch begins in the `.log` file.
    pub(super) position: u32,
}

impl OffsetEntry {
    /// Reads the entry at the front of `bytes`.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let entry: &[u8; OFFSET_ENTRY_BYTES] = bytes.first_chunk()?;
        let [a, b, c, d, e, f, g, h] = *entry;
        Some(Self {
            relative: u32::from_be_bytes([a, b, c, d]),
            position: u32::from_be_bytes([e, f, g, h]),
        })
    }

    /// Appends the entry's bytes.
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.relative.to_be_bytes());
        out.extend_from_slice(&self.position.to_be_bytes());
    }

    /// Returns the absolute offset.
    pub(super) fn offset(self, base: Offset) -> Offset {
        base.saturating_add(i64::from(self.relative))
    }
}

/// Finds the last entry whose offset is at most `offset`: where a search forward for it begins.
pub(super) fn floor(entries: &[OffsetEntry], base: Offset, offset: Offset) -> Option<OffsetEntry> {
    let after = entries.partition_point(|entry| entry.offset(base) <= offset);
    after.checked_sub(1).map(|at| entries[at])
}

/// Decodes entries up to the first one that cannot follow its predecessor or lies past the end of the log file.
///
/// The flag says whether the whole file was consumed, that is, whether nothing in it was wrong.
pub(super) fn decode_prefix(bytes: &[u8], log_len: u64) -> (Vec<OffsetEntry>, bool) {
    let mut entries: Vec<OffsetEntry> = Vec::with_capacity(bytes.len() / OFFSET_ENTRY_BYTES);
    for chunk in bytes.chunks(OFFSET_ENTRY_BYTES) {
        let Some(entry) = OffsetEntry::decode(chunk) else {
            return (entries, false);
        };
        // The first batch never has an entry: zeros are what a lost write leaves.
        let follows = entries.last().map_or(entry.position > 0, |last| {
            entry.relative > last.relative && entry.position > last.position
        });
        let is_within =
            u64::from(entry.position) < log_len && i32::try_from(entry.relative).is_ok();
        if !follows || !is_within {
            return (entries, false);
        }
        entries.push(entry);
    }
    (entries, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(relative: u32, position: u32) -> OffsetEntry {
        OffsetEntry { relative, position }
    }

    fn bytes(entries: &[OffsetEntry]) -> Vec<u8> {
        let mut out = Vec::new();
        for entry in entries {
            entry.encode(&mut out);
        }
        out
    }

    #[test]
    fn entry_is_relative_offset_then_position_big_endian() {
        assert_eq!(bytes(&[entry(1, 0x0203)]), [0, 0, 0, 1, 0, 0, 2, 3]);
    }

    #[test]
    fn floor_finds_the_last_entry_not_past_the_offset() {
        let entries = [entry(4, 100), entry(9, 200)];
        assert_eq!(floor(&entries, 1000, 1003), None);
        assert_eq!(floor(&entries, 1000, 1004), Some(entry(4, 100)));
        assert_eq!(floor(&entries, 1000, 1008), Some(entry(4, 100)));
        assert_eq!(floor(&entries, 1000, 5000), Some(entry(9, 200)));
    }

    #[test]
    fn decoding_stops_at_the_first_entry_that_cannot_be() {
        let good = [entry(4, 100), entry(9, 200)];
        assert_eq!(decode_prefix(&bytes(&good), 300), (good.to_vec(), true));
        let mut zeros = bytes(&good);
        zeros.extend_from_slice(&[0; 8]);
        assert_eq!(decode_prefix(&zeros, 300), (good.to_vec(), false));
        assert_eq!(decode_prefix(&bytes(&good), 200), (vec![good[0]], false));
        assert_eq!(decode_prefix(&[0; 16], 300), (Vec::new(), false));
        let mut cut = bytes(&good);
        cut.truncate(11);
        assert_eq!(decode_prefix(&cut, 300), (vec![good[0]], false));
    }
}
