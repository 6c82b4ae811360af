//! One segment: a run of batches in a `.log` file and its two indexes.

use crate::{
    ids::Offset,
    storage::{FileId, FilePath, Generation},
    time::Timestamp,
};

use super::{
    in_hand::InHand,
    memory_index::{MaxTimestamp, MemoryIndex},
};

/// Which of a segment's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FileKind {
    /// `.log`
    Log,
    /// `.index`
    OffsetIndex,
    /// `.timeindex`
    TimeIndex,
}

impl FileKind {
    /// All files of a segment.
    pub(super) const ALL: [Self; 3] = [Self::Log, Self::OffsetIndex, Self::TimeIndex];

    /// Returns the file name's ending.
    pub(super) const fn suffix(self) -> &'static str {
        match self {
            Self::Log => ".log",
            Self::OffsetIndex => ".index",
            Self::TimeIndex => ".timeindex",
        }
    }
}

/// Names a file of the segment that begins at `base`.
pub(super) fn file_name(base: Offset, kind: FileKind) -> String {
    format!("{base:020}{}", kind.suffix())
}

/// Reads a file name: base offset and what follows the 20 digits.
pub(super) fn parse_name(name: &str) -> Option<(Offset, &str)> {
    let (digits, suffix) = name.split_at_checked(20)?;
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    Some((digits.parse().ok()?, suffix))
}

/// An open file of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Handle {
    /// The file, once its opening was submitted.
    pub(super) id: Option<FileId>,
    /// How often it was truncated.
    pub(super) generation: Generation,
}

impl Handle {
    /// Voids what was promised of the bytes so far.
    pub(super) const fn bump(&mut self) {
        self.generation = Generation(self.generation.0.wrapping_add(1));
    }
}

/// Where the indexes of a segment are.
#[derive(Clone, Debug)]
pub(super) enum Indexes {
    /// In memory, and partly in the files.
    Memory(Box<MemoryIndex>),
    /// Only in the files, with this many entries.
    Files {
        /// Entries of the offset index.
        offsets: u32,
        /// Entries of the time index.
        times: u32,
    },
    /// Missing or wrong: to be built from the log before the next use.
    Broken,
}

/// One segment.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// Offset of its first record, and its name.
    pub(super) base: Offset,
    pub(super) log: Handle,
    pub(super) offset_index: Handle,
    pub(super) time_index: Handle,
    /// Bytes assigned to batches.
    pub(super) size: u32,
    /// Bytes known to be in the page cache, without gaps.
    pub(super) written: u32,
    /// Which of them need not be checked before they are served.
    pub(super) in_hand: InHand,
    /// Wall time of creation, or of opening.
    pub(super) created: Timestamp,
    /// Largest timestamp of the first batch: what `segment.ms` counts from.
    pub(super) first_timestamp: Option<i64>,
    /// The largest timestamp, once known.
    pub(super) max: Option<MaxTimestamp>,
    pub(super) indexes: Indexes,
}

impl Segment {
    /// Makes an empty segment.
    pub(super) fn new(base: Offset, created: Timestamp) -> Self {
        Self {
            base,
            log: Handle::default(),
            offset_index: Handle::default(),
            time_index: Handle::default(),
            size: 0,
            written: 0,
            in_hand: InHand::of_new(),
            created,
            first_timestamp: None,
            max: None,
            indexes: Indexes::Memory(Box::new(MemoryIndex::new(base))),
        }
    }

    /// Returns the handle of one of its files.
    pub(super) const fn handle(&self, kind: FileKind) -> &Handle {
        match kind {
            FileKind::Log => &self.log,
            FileKind::OffsetIndex => &self.offset_index,
            FileKind::TimeIndex => &self.time_index,
        }
    }

    /// Returns the handle of one of its files, to change it.
    pub(super) const fn handle_mut(&mut self, kind: FileKind) -> &mut Handle {
        match kind {
            FileKind::Log => &mut self.log,
            FileKind::OffsetIndex => &mut self.offset_index,
            FileKind::TimeIndex => &mut self.time_index,
        }
    }

    /// Returns the path of one of its files.
    pub(super) fn path(&self, dir: &FilePath, kind: FileKind) -> FilePath {
        dir.join(&file_name(self.base, kind))
    }

    /// Returns the largest timestamp, where it is known.
    pub(super) fn max_timestamp(&self) -> Option<MaxTimestamp> {
        match &self.indexes {
            Indexes::Memory(index) => Some(index.max()),
            Indexes::Files { .. } | Indexes::Broken => self.max,
        }
    }

    /// Returns the indexes while they are in memory.
    pub(super) fn memory(&self) -> Option<&MemoryIndex> {
        match &self.indexes {
            Indexes::Memory(index) => Some(index),
            Indexes::Files { .. } | Indexes::Broken => None,
        }
    }

    /// Lets go of the indexes in memory when their files hold all of them, durably; false when they do not.
    pub(super) fn release_index(&mut self) -> bool {
        let Some(index) = self.memory() else {
            return false;
        };
        let counts = (
            u32::try_from(index.offsets().len()),
            u32::try_from(index.times().len()),
        );
        let (Ok(offsets), Ok(times)) = counts else {
            return false;
        };
        if !index.is_durable() || self.written < self.size {
            return false;
        }
        self.max = Some(index.max());
        self.indexes = Indexes::Files { offsets, times };
        true
    }

    /// Returns the indexes while they are in memory, to change them.
    pub(super) fn memory_mut(&mut self) -> Option<&mut MemoryIndex> {
        match &mut self.indexes {
            Indexes::Memory(index) => Some(index),
            Indexes::Files { .. } | Indexes::Broken => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_twenty_digits_and_a_suffix() {
        assert_eq!(file_name(0, FileKind::Log), "00000000000000000000.log");
        assert_eq!(
            file_name(1234, FileKind::TimeIndex),
            "00000000000000001234.timeindex"
        );
        assert_eq!(
            parse_name("00000000000000001234.log.deleted"),
            Some((1234, ".log.deleted"))
        );
        assert_eq!(parse_name("99999999999999999999.log"), None);
        assert_eq!(parse_name("partition.metadata"), None);
        assert_eq!(parse_name("0000000000000000é123.log"), None);
    }
}
