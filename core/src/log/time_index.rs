//! The time index of a segment: the largest timestamp so far and the last offset of the batch that has it.
//!
//! Twelve bytes an entry: the timestamp in milliseconds, then the offset relative to the segment's base, big-endian.
//! An entry says that no batch up to the offset index's entry of the same moment has a larger timestamp.

use crate::ids::Offset;

/// Bytes of one entry.
pub(super) const TIME_ENTRY_BYTES: usize = 12;

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeEntry {
    /// The largest timestamp so far.
    pub(super) timestamp: i64,
    /// Last offset of the batch that has it, counted from the segment's base.
    pub(super) relative: u32,
}

impl TimeEntry {
    /// Reads the entry at the front of `bytes`.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (timestamp, rest) = bytes.split_first_chunk::<8>()?;
        let (relative, _) = rest.split_first_chunk::<4>()?;
        Some(Self {
            timestamp: i64::from_be_bytes(*timestamp),
            relative: u32::from_be_bytes(*relative),
        })
    }

    /// Appends the entry's bytes.
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.timestamp.to_be_bytes());
        out.extend_from_slice(&self.relative.to_be_bytes());
    }

    /// Returns the absolute offset.
    pub(super) fn offset(self, base: Offset) -> Offset {
        base.saturating_add(i64::from(self.relative))
    }
}

/// Decodes entries up to the first one that cannot follow its predecessor.
///
/// The flag says whether the whole file was consumed, that is, whether nothing in it was wrong.
pub(super) fn decode_prefix(bytes: &[u8]) -> (Vec<TimeEntry>, bool) {
    let mut entries: Vec<TimeEntry> = Vec::with_capacity(bytes.len() / TIME_ENTRY_BYTES);
    for chunk in bytes.chunks(TIME_ENTRY_BYTES) {
        let Some(entry) = TimeEntry::decode(chunk) else {
            return (entries, false);
        };
        let follows = entries.last().map_or(entry.timestamp >= 0, |last| {
            entry.timestamp > last.timestamp && entry.relative > last.relative
        });
        if !follows || entry.relative > i32::MAX.unsigned_abs() {
            return (entries, false);
        }
        entries.push(entry);
    }
    (entries, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_is_timestamp_then_relative_offset_big_endian() {
        let entry = TimeEntry {
            timestamp: 0x0102,
            relative: 7,
        };
        let mut out = Vec::new();
        entry.encode(&mut out);
        assert_eq!(out, [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 7]);
        assert_eq!(TimeEntry::decode(&out), Some(entry));
        assert_eq!(TimeEntry::decode(&out[..11]), None);
    }

    #[test]
    fn decoding_stops_where_a_column_does_not_grow() {
        let first = TimeEntry {
            timestamp: 10,
            relative: 3,
        };
        for bad in [(10, 4), (11, 3), (9, 9), (0, 0)] {
            let mut bytes = Vec::new();
            first.encode(&mut bytes);
            TimeEntry {
                timestamp: bad.0,
                relative: bad.1,
            }
            .encode(&mut bytes);
            assert_eq!(decode_prefix(&bytes), (vec![first], false), "{bad:?}");
        }
    }
}
