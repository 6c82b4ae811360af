//! The contents of one file: what the page cache shows, and for each unsynced sector what the disk may hold instead.

use std::collections::BTreeMap;

use crate::random::Stream;

/// The unit that a disk writes whole or not at all.
pub(super) const SECTOR: usize = 512;

/// One file's bytes. The cache is kept whole; the disk's side is kept as undo versions of unsynced sectors only.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    cache: Vec<u8>,
    /// Per unsynced sector: its versions before each change since the last sync, oldest first.
    versions: BTreeMap<usize, Vec<Version>>,
    /// Lengths before each change since the last sync, oldest first.
    lengths: Vec<Length>,
}

#[derive(Clone, Debug)]
struct Version {
    seq: u64,
    /// The sector's bytes before the change, as far as the file reached.
    before: Box<[u8]>,
    /// A failed sync dropped the change from the set of dirty pages: no later sync writes it.
    dropped: bool,
}

#[derive(Clone, Copy, Debug)]
struct Length {
    seq: u64,
    before: usize,
    /// A cut: whether it happened on disk decides about all sectors beyond it.
    cut: bool,
    dropped: bool,
}

/// Which unsynced sectors a power loss leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Survival {
    /// Nothing unsynced survives.
    Nothing,
    /// Everything written survives, as if it had just been written back.
    Everything,
    /// Changes survive up to some moment and none after it.
    Prefix,
    /// Each sector keeps any of its versions, each file any of its lengths.
    Scattered,
    /// Each file draws one of the other patterns.
    Mixed,
}

impl Content {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.cache
    }

    pub(super) fn len(&self) -> usize {
        self.cache.len()
    }

    /// Whether a power loss could change anything.
    pub(super) fn is_synced(&self) -> bool {
        self.versions.is_empty() && self.lengths.is_empty()
    }

    /// Writes `parts` one after the other at a position; a gap before it becomes zeros.
    pub(super) fn write(&mut self, seq: u64, at: usize, parts: [&[u8]; 2]) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len == 0 {
            return;
        }
        let end = at + len;
        self.remember(seq, at.min(self.cache.len()), end);
        if end > self.cache.len() {
            self.note_length(seq, false);
            self.cache.resize(end, 0);
        }
        let mut place = at;
        for part in parts {
            self.cache[place..place + part.len()].copy_from_slice(part);
            place += part.len();
        }
    }

    /// Cuts, or extends with zeros.
    pub(super) fn truncate(&mut self, seq: u64, len: usize) {
        let old = self.cache.len();
        if len == old {
            return;
        }
        self.remember(seq, len.min(old), len.max(old));
        self.note_length(seq, len < old);
        self.cache.resize(len, 0);
    }

    /// Makes durable what changed up to `mark`, but not what a failed sync dropped before.
    pub(super) fn sync(&mut self, mark: u64) {
        let all = self.last_seq() <= mark;
        if all && !self.has_dropped() {
            self.versions.clear();
            self.lengths.clear();
            return;
        }
        let len = self.cache.len();
        let mut written = 0;
        self.versions.retain(|sector, versions| {
            // A sector is written back as it is now: the last covered change takes all earlier ones with it.
            let covered = versions
                .iter()
                .rposition(|version| version.seq <= mark && !version.dropped);
            if let Some(last) = covered {
                versions.drain(..=last);
                written = written.max(((sector + 1) * SECTOR).min(len));
            }
            !versions.is_empty()
        });
        let after = |rank: usize| self.lengths.get(rank + 1).map_or(len, |next| next.before);
        let covered = self.lengths.iter().enumerate().rposition(|(rank, length)| {
            // Writing back a sector beyond the old end takes the new length with it, even after a failed sync.
            length.seq <= mark && (!length.dropped || after(rank) <= written)
        });
        if let Some(last) = covered {
            self.lengths.drain(..=last);
        }
    }

    /// A failed sync: the changes will never be written. They stay visible, as with ext4 and XFS, or the cache falls back to
    /// what the disk holds, as with btrfs.
    pub(super) fn drop_dirty(&mut self, reverts: bool) {
        if reverts {
            self.revert_sectors(0, false, 0, &mut Stream::unused());
            if let Some(length) = self.lengths.first() {
                self.cache.resize(length.before, 0);
            }
            self.versions.clear();
            self.lengths.clear();
            return;
        }
        for version in self.versions.values_mut().flatten() {
            version.dropped = true;
        }
        for length in &mut self.lengths {
            length.dropped = true;
        }
    }

    /// Returns how many bytes from the start are on disk as they are in the cache.
    pub(super) fn synced_prefix(&self) -> usize {
        let mut prefix = self.cache.len();
        if let Some(first) = self.lengths.first() {
            prefix = prefix.min(first.before);
        }
        for length in self.lengths.iter().filter(|length| length.cut) {
            prefix = prefix.min(length.before);
        }
        if let Some((sector, versions)) = self.versions.first_key_value() {
            let start = sector * SECTOR;
            let now = self.sector(*sector);
            let same = versions
                .iter()
                .map(|version| common_prefix(&version.before, now))
                .min()
                .unwrap_or_default();
            prefix = prefix.min(start + same);
        }
        prefix
    }

    /// Loses what was not synced, as `survival` says. Returns whether anything visible was lost.
    pub(super) fn lose_power(&mut self, survival: Survival, stream: &mut Stream) -> bool {
        if self.is_synced() {
            return false;
        }
        let survival = match survival {
            Survival::Mixed => *stream.pick(&[
                Survival::Nothing,
                Survival::Everything,
                Survival::Prefix,
                Survival::Scattered,
                Survival::Scattered,
            ]),
            other => other,
        };
        let before = self.cache.clone();
        let until = match survival {
            Survival::Nothing => 0,
            Survival::Prefix => self.some_seq(stream),
            Survival::Everything | Survival::Scattered | Survival::Mixed => u64::MAX,
        };
        let scattered = survival == Survival::Scattered;
        let kept_length = self.kept_length(until, scattered, stream);
        self.revert_sectors(until, scattered, kept_length, stream);
        let len = self.lengths.get(kept_length).map(|length| length.before);
        if let Some(len) = len {
            self.cache.resize(len, 0);
        }
        self.versions.clear();
        self.lengths.clear();
        self.cache != before
    }

    /// Damages bytes at rest: what was there is gone in the cache and on disk.
    pub(super) fn flip_bit(&mut self, at: usize, bit: u8) {
        if let Some(byte) = self.cache.get_mut(at) {
            *byte ^= 1 << (bit & 7);
        }
    }

    /// Cuts or zeroes bytes at rest.
    pub(super) fn damage(&mut self, at: usize, zero: bool) {
        self.versions.clear();
        self.lengths.clear();
        if zero {
            let at = at.min(self.cache.len());
            self.cache[at..].fill(0);
        } else {
            self.cache.truncate(at);
        }
    }

    fn sector(&self, sector: usize) -> &[u8] {
        let start = (sector * SECTOR).min(self.cache.len());
        let end = (start + SECTOR).min(self.cache.len());
        &self.cache[start..end]
    }

    fn remember(&mut self, seq: u64, from: usize, to: usize) {
        for sector in from / SECTOR..to.div_ceil(SECTOR) {
            let before = Box::from(self.sector(sector));
            self.versions.entry(sector).or_default().push(Version {
                seq,
                before,
                dropped: false,
            });
        }
    }

    fn note_length(&mut self, seq: u64, cut: bool) {
        self.lengths.push(Length {
            seq,
            before: self.cache.len(),
            cut,
            dropped: false,
        });
    }

    fn last_seq(&self) -> u64 {
        let sectors = self
            .versions
            .values()
            .filter_map(|versions| versions.last());
        let of_sectors = sectors.map(|version| version.seq).max().unwrap_or_default();
        let of_lengths = self.lengths.last().map_or(0, |length| length.seq);
        of_sectors.max(of_lengths)
    }

    fn has_dropped(&self) -> bool {
        self.versions
            .values()
            .flatten()
            .any(|version| version.dropped)
            || self.lengths.iter().any(|length| length.dropped)
    }

    fn some_seq(&self, stream: &mut Stream) -> u64 {
        let mut all: Vec<u64> = self
            .versions
            .values()
            .flatten()
            .map(|version| version.seq)
            .chain(self.lengths.iter().map(|length| length.seq))
            .collect();
        all.sort_unstable();
        all.dedup();
        *stream.pick(&all)
    }

    /// How many of the length changes are on disk.
    fn kept_length(&self, until: u64, scattered: bool, stream: &mut Stream) -> usize {
        let fixed = self
            .lengths
            .iter()
            .take_while(|length| length.seq <= until && !length.dropped)
            .count();
        if scattered {
            stream.index(fixed + 1)
        } else {
            fixed
        }
    }

    fn revert_sectors(
        &mut self,
        until: u64,
        scattered: bool,
        kept_length: usize,
        stream: &mut Stream,
    ) {
        let versions = std::mem::take(&mut self.versions);
        for (sector, versions) in &versions {
            let start = sector * SECTOR;
            // Cuts are metadata and reach the disk in order: the last one there is a floor, the next one a ceiling.
            let mut floor = 0;
            let mut ceiling = versions
                .iter()
                .position(|version| version.dropped || version.seq > until)
                .unwrap_or(versions.len());
            for (index, length) in self.lengths.iter().enumerate().filter(|(_, l)| l.cut) {
                let Some(rank) = versions.iter().position(|v| v.seq == length.seq) else {
                    continue;
                };
                if index < kept_length {
                    floor = floor.max(rank + 1);
                } else {
                    ceiling = ceiling.min(rank);
                }
            }
            let floor = floor.min(ceiling);
            let kept = if scattered {
                floor + stream.index(ceiling - floor + 1)
            } else {
                ceiling
            };
            let Some(version) = versions.get(kept) else {
                continue;
            };
            let end = (start + SECTOR).min(self.cache.len().max(start));
            if self.cache.len() < start + version.before.len() {
                self.cache.resize(start + version.before.len(), 0);
            }
            let end = end.max(start + version.before.len());
            self.cache[start..start + version.before.len()].copy_from_slice(&version.before);
            self.cache[start + version.before.len()..end].fill(0);
        }
    }
}

fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    left.iter()
        .zip(right)
        .take_while(|(left, right)| left == right)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    fn stream() -> Stream {
        Streams::new(3).stream("file")
    }

    fn write(content: &mut Content, seq: u64, at: usize, bytes: &[u8]) {
        content.write(seq, at, [bytes, &[]]);
    }

    #[test]
    fn synced_bytes_survive_and_unsynced_may_not() {
        let mut content = Content::default();
        write(&mut content, 1, 0, &[1; 700]);
        content.sync(1);
        write(&mut content, 2, 700, &[2; 700]);
        assert_eq!(content.synced_prefix(), 700);
        assert!(content.lose_power(Survival::Nothing, &mut stream()));
        assert_eq!(content.bytes(), &[1; 700]);
        assert!(content.is_synced());
    }

    #[test]
    fn sync_covers_only_what_completed_before_it() {
        let mut content = Content::default();
        write(&mut content, 1, 0, b"first");
        write(&mut content, 2, 5, b"second");
        content.sync(1);
        assert_eq!(content.synced_prefix(), 5);
        content.lose_power(Survival::Nothing, &mut stream());
        assert_eq!(content.bytes(), b"first");
    }

    #[test]
    fn failed_sync_hides_its_writes_from_later_syncs() {
        let mut content = Content::default();
        write(&mut content, 1, 0, &[1; 512]);
        content.drop_dirty(false);
        write(&mut content, 2, 512, &[2; 512]);
        content.sync(2);
        assert_eq!(
            content.synced_prefix(),
            0,
            "the first sector never got there"
        );
        content.lose_power(Survival::Everything, &mut stream());
        assert_eq!(&content.bytes()[..512], &[0; 512]);
        assert_eq!(&content.bytes()[512..], &[2; 512]);
    }

    #[test]
    fn cache_that_reverts_shows_what_the_disk_holds() {
        let mut content = Content::default();
        write(&mut content, 1, 0, &[1; 700]);
        content.sync(1);
        write(&mut content, 2, 600, &[2; 700]);
        content.drop_dirty(true);
        assert_eq!(content.bytes(), &[1; 700]);
        assert!(content.is_synced());
    }

    #[test]
    fn rewriting_a_dropped_sector_heals_it() {
        let mut content = Content::default();
        write(&mut content, 1, 0, &[1; 512]);
        content.drop_dirty(false);
        write(&mut content, 2, 0, &[3; 512]);
        content.sync(2);
        content.lose_power(Survival::Nothing, &mut stream());
        assert_eq!(content.bytes(), &[3; 512]);
    }

    #[test]
    fn scattered_loss_reaches_holes_and_torn_tails() {
        let (mut holes, mut torn, mut zeros) = (false, false, false);
        let mut stream = stream();
        for _ in 0..200 {
            let mut content = Content::default();
            write(&mut content, 1, 0, &[1; 512]);
            content.sync(1);
            write(&mut content, 2, 512, &[2; 512]);
            write(&mut content, 3, 1024, &[3; 512]);
            content.lose_power(Survival::Scattered, &mut stream);
            let bytes = content.bytes();
            assert_eq!(&bytes[..512], &[1; 512], "synced bytes never change");
            holes |= bytes.len() == 1536 && bytes[512] == 0 && bytes[1024] == 3;
            torn |= bytes.len() == 1024 && bytes[512] == 2;
            zeros |= bytes.len() == 1536 && bytes[1024] == 0;
        }
        assert!(holes && torn && zeros);
    }

    #[test]
    fn unsynced_cut_is_done_whole_or_not_at_all() {
        let mut stream = stream();
        let (mut undone, mut done) = (false, false);
        for _ in 0..100 {
            let mut content = Content::default();
            write(&mut content, 1, 0, &[1; 2048]);
            content.sync(1);
            content.truncate(2, 512);
            write(&mut content, 3, 512, &[9; 512]);
            assert_eq!(content.synced_prefix(), 512);
            content.lose_power(Survival::Scattered, &mut stream);
            let bytes = content.bytes();
            if bytes.len() == 2048 {
                undone = true;
                assert_eq!(bytes, &[1; 2048]);
            } else {
                done = true;
                assert!(bytes[512..].iter().all(|byte| *byte == 9 || *byte == 0));
            }
        }
        assert!(undone && done);
    }
}
