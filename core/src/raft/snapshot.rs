//! The file of a snapshot: its name, its bytes, its check (KIP-630).
//!
//! A snapshot replaces the log up to its end offset. It is a run of batches like the log itself: a control batch with the
//! header, the quorum's protocol version and its voters; batches of metadata records; a control batch with the footer. A file
//! without footer is not a snapshot.

use std::fmt;

use bytes::{Bytes, BytesMut};

use crate::{
    batch::{BatchIter, BuildError},
    ids::{Epoch, Offset},
    time::Timestamp,
};

use super::{
    control::{ControlRecord, builder},
    entry::{BATCH_BYTES_MAX, Content, Entry, EntryFault, data_record},
    voters::VoterSet,
};

/// Names a snapshot: it holds what the log says below `end_offset`, whose last entry is of `epoch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotId {
    /// One past the last offset contained.
    pub end_offset: Offset,
    /// Epoch of the entry before it.
    pub epoch: Epoch,
}

impl SnapshotId {
    /// Returns the name of the file.
    #[must_use]
    pub fn file_name(self) -> String {
        format!("{self}{SUFFIX}")
    }

    /// Returns the name under which the file is prepared; a leftover of it means nothing.
    #[must_use]
    pub fn partial_file_name(self) -> String {
        format!("{self}{PARTIAL_SUFFIX}")
    }

    /// Reads the name of a complete snapshot's file.
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Self> {
        let (offset, epoch) = name.strip_suffix(SUFFIX)?.split_once('-')?;
        let id = Self {
            end_offset: offset.parse().ok()?,
            epoch: Epoch(epoch.parse().ok()?),
        };
        (id.file_name() == name).then_some(id)
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{:010}", self.end_offset, self.epoch.0)
    }
}

/// Returns whether a file is what an interrupted writing or removal of a snapshot leaves behind.
#[must_use]
pub(super) fn is_leftover(name: &str) -> bool {
    name.ends_with(PARTIAL_SUFFIX) || name.ends_with(DELETED_SUFFIX)
}

/// A snapshot, read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// Timestamp of the last entry contained.
    pub(super) last_timestamp: Timestamp,
    pub(super) voters: VoterSet,
    pub(super) records: Vec<Bytes>,
}

/// Why a file is not the snapshot that its name promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SnapshotFault {
    /// A batch cannot be read.
    #[error(transparent)]
    Entry(#[from] EntryFault),
    /// Offsets or epochs are not those of this snapshot.
    #[error("offsets or epochs do not fit together")]
    Sequence,
    /// The first batch is not a header with the quorum's voters.
    #[error("it does not start with a header and the voters")]
    Header,
    /// The last batch is not a footer.
    #[error("it does not end with a footer")]
    Footer,
    /// No snapshot is that large.
    #[error("it is too large")]
    TooLarge,
}

impl Snapshot {
    /// Writes the content of the file.
    ///
    /// # Errors
    /// A record is larger than a batch may be.
    pub(super) fn encode(&self, id: SnapshotId, now: Timestamp) -> Result<Bytes, BuildError> {
        let mut file = File {
            id,
            now,
            next_offset: 0,
            bytes: BytesMut::new(),
        };
        file.control(vec![
            ControlRecord::SnapshotHeader {
                last_contained_log_timestamp: self.last_timestamp,
            },
            ControlRecord::current_kraft_version(),
            ControlRecord::Voters(self.voters.clone()),
        ])?;
        file.data(&self.records)?;
        file.control(vec![ControlRecord::SnapshotFooter])?;
        Ok(file.bytes.freeze())
    }

    /// Reads and checks the content of the file.
    ///
    /// # Errors
    /// Says why this is not a snapshot, or not this one.
    pub(super) fn decode(id: SnapshotId, bytes: &Bytes) -> Result<Self, SnapshotFault> {
        let mut entries = Vec::new();
        let mut next_offset = 0;
        for view in BatchIter::new(bytes, 0).with_size_max(BATCH_BYTES_MAX) {
            let entry = Entry::read(&view.map_err(EntryFault::from)?, bytes)?;
            if entry.base_offset != next_offset || entry.epoch != id.epoch {
                return Err(SnapshotFault::Sequence);
            }
            next_offset = entry.next_offset;
            entries.push(entry.content);
        }
        let Some(Content::Control(footer)) = entries.pop() else {
            return Err(SnapshotFault::Footer);
        };
        if footer != [ControlRecord::SnapshotFooter] {
            return Err(SnapshotFault::Footer);
        }
        let mut entries = entries.into_iter();
        let Some(Content::Control(header)) = entries.next() else {
            return Err(SnapshotFault::Header);
        };
        let [
            ControlRecord::SnapshotHeader {
                last_contained_log_timestamp,
            },
            ControlRecord::KraftVersion { .. },
            ControlRecord::Voters(voters),
        ] = header.as_slice()
        else {
            return Err(SnapshotFault::Header);
        };
        let mut records = Vec::new();
        for content in entries {
            match content {
                Content::Data(more) => records.extend(more),
                Content::Control(_) => return Err(SnapshotFault::Sequence),
            }
        }
        Ok(Self {
            last_timestamp: *last_contained_log_timestamp,
            voters: voters.clone(),
            records,
        })
    }
}

/// A file in the making.
struct File {
    id: SnapshotId,
    now: Timestamp,
    next_offset: Offset,
    bytes: BytesMut,
}

impl File {
    fn control(&mut self, records: Vec<ControlRecord>) -> Result<(), BuildError> {
        let content = Content::Control(records);
        let (entry, batch) = Entry::build(self.next_offset, self.id.epoch, self.now, content)?;
        self.next_offset = entry.next_offset;
        self.bytes.extend_from_slice(batch.head());
        self.bytes.extend_from_slice(batch.body());
        Ok(())
    }

    fn data(&mut self, records: &[Bytes]) -> Result<(), BuildError> {
        let mut rest = records;
        while !rest.is_empty() {
            let mut batch = builder(self.next_offset, self.id.epoch);
            let mut taken = 0;
            for record in rest {
                let record = data_record(self.now, record);
                if !batch.has_room_for(&record, BATCH_BYTES_MAX) {
                    break;
                }
                batch.append(&record)?;
                taken += 1;
            }
            let built = batch.build_batch()?;
            if built.size() > BATCH_BYTES_MAX {
                return Err(BuildError::TooLarge);
            }
            self.next_offset += i64::from(batch.count());
            self.bytes.extend_from_slice(built.head());
            self.bytes.extend_from_slice(built.body());
            rest = &rest[taken..];
        }
        Ok(())
    }
}

const SUFFIX: &str = ".checkpoint";
const PARTIAL_SUFFIX: &str = ".checkpoint.part";
const DELETED_SUFFIX: &str = ".checkpoint.deleted";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::{NodeId, Uuid},
        raft::voters::Voter,
    };

    const ID: SnapshotId = SnapshotId {
        end_offset: 42,
        epoch: Epoch(3),
    };

    fn snapshot(records: usize, size: usize) -> Snapshot {
        Snapshot {
            last_timestamp: Timestamp::from_millis(77),
            voters: VoterSet::new([Voter {
                id: NodeId(1),
                directory: Some(Uuid([7; 16])),
                endpoints: vec![],
            }]),
            records: (0..records).map(|_| Bytes::from(vec![9; size])).collect(),
        }
    }

    fn encoded(snapshot: &Snapshot) -> Bytes {
        snapshot
            .encode(ID, Timestamp::from_millis(99))
            .expect("records fit")
    }

    #[test]
    fn file_name_is_kafkas() {
        assert_eq!(ID.file_name(), "00000000000000000042-0000000003.checkpoint");
        assert_eq!(SnapshotId::from_file_name(&ID.file_name()), Some(ID));
        for other in [
            "00000000000000000042-0000000003.checkpoint.part",
            "42-3.checkpoint",
            "-0000000000000000042-0000000003.checkpoint",
            "00000000000000000042.log",
        ] {
            assert_eq!(SnapshotId::from_file_name(other), None, "{other}");
        }
        assert!(is_leftover(&ID.partial_file_name()));
        assert!(!is_leftover(&ID.file_name()));
    }

    #[test]
    fn snapshot_is_read_as_it_was_written() {
        for written in [snapshot(0, 0), snapshot(3, 10), snapshot(5, 3 << 20)] {
            assert_eq!(Snapshot::decode(ID, &encoded(&written)), Ok(written));
        }
    }

    #[test]
    fn snapshot_cut_anywhere_is_refused() {
        let whole = encoded(&snapshot(3, 10));
        for len in 0..whole.len() {
            assert!(Snapshot::decode(ID, &whole.slice(..len)).is_err(), "{len}");
        }
    }

    #[test]
    fn snapshot_with_any_damaged_byte_is_refused() {
        let whole = encoded(&snapshot(3, 10));
        for at in 0..whole.len() {
            let mut bad = whole.to_vec();
            bad[at] ^= 0x10;
            assert!(Snapshot::decode(ID, &Bytes::from(bad)).is_err(), "{at}");
        }
    }

    #[test]
    fn snapshot_under_another_epoch_is_refused() {
        let whole = encoded(&snapshot(1, 1));
        let other = SnapshotId {
            epoch: Epoch(4),
            ..ID
        };
        assert_eq!(
            Snapshot::decode(other, &whole),
            Err(SnapshotFault::Sequence)
        );
    }

    #[test]
    fn record_larger_than_a_batch_is_refused() {
        let large = snapshot(1, BATCH_BYTES_MAX);
        assert_eq!(
            large.encode(ID, Timestamp::from_millis(0)),
            Err(BuildError::TooLarge)
        );
    }
}
