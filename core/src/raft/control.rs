//! Control records of the metadata log: what the quorum writes for itself, in Kafka's encoding.

use crate::{
    batch::{BatchBuilder, BuildError, Compression, NewRecord, Record, control::ControlRecordType},
    ids::{Epoch, NodeId},
    time::Timestamp,
};

use super::{
    encoding::{Reader, Writer},
    voters::VoterSet,
};

/// The version of the quorum protocol: 1 has voters and directory ids in the log (KIP-853).
const KRAFT_VERSION: i16 = 1;

/// A control record that the quorum reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ControlRecord {
    /// A leader starts its epoch.
    LeaderChange(LeaderChange),
    /// A snapshot begins.
    SnapshotHeader {
        /// Timestamp of the last record in it.
        last_contained_log_timestamp: Timestamp,
    },
    /// A snapshot is complete.
    SnapshotFooter,
    /// The version of the quorum protocol.
    KraftVersion {
        /// The version.
        version: i16,
    },
    /// The voters from here on.
    Voters(VoterSet),
}

/// The first record of every epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeaderChange {
    /// The leader.
    pub(super) leader: NodeId,
    /// All voters at that time.
    pub(super) voters: Vec<NodeId>,
    /// Those whose votes elected it.
    pub(super) granting_voters: Vec<NodeId>,
}

/// Why a control record cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ControlFault {
    /// The type is unknown or does not belong into a metadata log.
    #[error("its type is unknown")]
    Type,
    /// Written by a newer release.
    #[error("its version {version} is unknown")]
    Version {
        /// The version.
        version: i16,
    },
    /// The bytes end early, or go on after the end.
    #[error("its length does not fit its fields")]
    Length,
    /// A value that no quorum writes.
    #[error("a value is out of range")]
    Value,
}

impl ControlRecord {
    /// The record that names the version of the quorum protocol.
    #[must_use]
    pub(super) const fn current_kraft_version() -> Self {
        Self::KraftVersion {
            version: KRAFT_VERSION,
        }
    }

    const fn kind(&self) -> ControlRecordType {
        match self {
            Self::LeaderChange(_) => ControlRecordType::LeaderChange,
            Self::SnapshotHeader { .. } => ControlRecordType::SnapshotHeader,
            Self::SnapshotFooter => ControlRecordType::SnapshotFooter,
            Self::KraftVersion { .. } => ControlRecordType::KraftVersion,
            Self::Voters(_) => ControlRecordType::KraftVoters,
        }
    }

    fn value(&self) -> Vec<u8> {
        if let Self::Voters(voters) = self {
            return voters.encode();
        }
        let mut out = Writer::default();
        out.i16(RECORD_VERSION);
        match self {
            Self::LeaderChange(change) => {
                out.i32(change.leader.0);
                out.nodes(&change.voters);
                out.nodes(&change.granting_voters);
            }
            Self::SnapshotHeader {
                last_contained_log_timestamp,
            } => out.i64(last_contained_log_timestamp.as_millis()),
            Self::SnapshotFooter | Self::Voters(_) => {}
            Self::KraftVersion { version } => out.i16(*version),
        }
        out.no_tags();
        out.finish()
    }

    /// Reads one record of a control batch.
    ///
    /// # Errors
    /// Says why the record is not one of the quorum's.
    pub(super) fn read(record: &Record<'_>) -> Result<Self, ControlFault> {
        let kind = record.key.and_then(ControlRecordType::from_key);
        let value = record.value.ok_or(ControlFault::Length)?;
        let mut from = Reader::new(value);
        let read = match kind.ok_or(ControlFault::Type)? {
            ControlRecordType::KraftVoters => return VoterSet::decode(value).map(Self::Voters),
            ControlRecordType::Abort | ControlRecordType::Commit => {
                return Err(ControlFault::Type);
            }
            ControlRecordType::LeaderChange => {
                // Version 1 only adds the voters' directory ids, and nothing here reads those.
                from.version(RECORD_VERSION)?;
                Self::LeaderChange(LeaderChange {
                    leader: NodeId(from.i32()?),
                    voters: from.nodes()?,
                    granting_voters: from.nodes()?,
                })
            }
            ControlRecordType::SnapshotHeader => {
                from.version(RECORD_VERSION)?;
                Self::SnapshotHeader {
                    last_contained_log_timestamp: Timestamp::from_millis(from.i64()?),
                }
            }
            ControlRecordType::SnapshotFooter => {
                from.version(RECORD_VERSION)?;
                Self::SnapshotFooter
            }
            ControlRecordType::KraftVersion => {
                from.version(RECORD_VERSION)?;
                let version = from.i16()?;
                if version != KRAFT_VERSION {
                    return Err(ControlFault::Version { version });
                }
                Self::KraftVersion { version }
            }
        };
        from.skip_tags()?;
        from.end()?;
        Ok(read)
    }
}

/// Collects control records into one batch.
///
/// # Errors
/// Passes on why the batch cannot be built.
pub(super) fn control_batch(
    mut builder: BatchBuilder,
    now: Timestamp,
    records: &[ControlRecord],
) -> Result<BatchBuilder, BuildError> {
    builder = builder.control(true);
    for record in records {
        builder.append(&NewRecord {
            timestamp: now.as_millis(),
            key: Some(&record.kind().key()),
            value: Some(&record.value()),
            headers: &[],
        })?;
    }
    Ok(builder)
}

/// An empty batch of the metadata log, which is never compressed.
pub(super) const fn builder(base_offset: i64, epoch: Epoch) -> BatchBuilder {
    BatchBuilder::new(Compression::None)
        .base_offset(base_offset)
        .leader_epoch(epoch)
}

const RECORD_VERSION: i16 = 0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Records;

    fn leader_change() -> ControlRecord {
        ControlRecord::LeaderChange(LeaderChange {
            leader: NodeId(1),
            voters: vec![NodeId(1), NodeId(2)],
            granting_voters: vec![NodeId(1)],
        })
    }

    #[test]
    fn leader_change_has_kafkas_bytes() {
        let expected = [
            0, 0, 0, 0, 0, 1, 3, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 2, 0, 0, 0, 1, 0, 0,
        ];
        assert_eq!(leader_change().value(), expected);
    }

    #[test]
    fn control_batch_is_read_again() {
        let records = [
            leader_change(),
            ControlRecord::current_kraft_version(),
            ControlRecord::SnapshotHeader {
                last_contained_log_timestamp: Timestamp::from_millis(5),
            },
            ControlRecord::SnapshotFooter,
        ];
        let batch = control_batch(builder(7, Epoch(3)), Timestamp::from_millis(9), &records)
            .and_then(|built| built.build())
            .expect("small records fit");
        let opened = Records::open(&batch, 4096).expect("a whole batch");
        let read: Vec<_> = opened
            .iter()
            .map(|record| ControlRecord::read(&record.expect("a whole record")))
            .collect();
        assert_eq!(read, records.map(Ok));
    }
}
