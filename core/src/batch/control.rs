//! Control records: what brokers and the controller quorum write between the data.

/// The type of a control record, as its key names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ControlRecordType {
    /// A transaction was aborted.
    Abort,
    /// A transaction was committed.
    Commit,
    /// A new leader of the controller quorum starts its epoch.
    LeaderChange,
    /// First record of a snapshot.
    SnapshotHeader,
    /// Last record of a snapshot.
    SnapshotFooter,
    /// The version of the quorum protocol (KIP-853).
    KraftVersion,
    /// The voters of the quorum (KIP-853).
    KraftVoters,
}

impl ControlRecordType {
    /// Finds the type with this number; unknown ones are skipped by readers.
    pub const fn from_id(id: i16) -> Option<Self> {
        match id {
            0 => Some(Self::Abort),
            1 => Some(Self::Commit),
            2 => Some(Self::LeaderChange),
            3 => Some(Self::SnapshotHeader),
            4 => Some(Self::SnapshotFooter),
            5 => Some(Self::KraftVersion),
            6 => Some(Self::KraftVoters),
            _ => None,
        }
    }

    /// Gives the number.
    pub const fn id(self) -> i16 {
        match self {
            Self::Abort => 0,
            Self::Commit => 1,
            Self::LeaderChange => 2,
            Self::SnapshotHeader => 3,
            Self::SnapshotFooter => 4,
            Self::KraftVersion => 5,
            Self::KraftVoters => 6,
        }
    }

    /// Gives the key of a control record of this type: version 0 and the number.
    pub const fn key(self) -> [u8; 4] {
        let [high, low] = self.id().to_be_bytes();
        [0, 0, high, low]
    }

    /// Reads the type from the key of a control record. Later versions may append fields, so more
    /// bytes and higher versions are accepted; a negative version is damage.
    pub fn from_key(key: &[u8]) -> Option<Self> {
        let &[v0, v1, t0, t1] = key.first_chunk::<4>()?;
        if i16::from_be_bytes([v0, v1]) < 0 {
            return None;
        }
        Self::from_id(i16::from_be_bytes([t0, t1]))
    }
}
