//! Who votes: replicas, the voter set, and its record in the log (KIP-853).

use std::collections::BTreeMap;

use crate::ids::{NodeId, Uuid};

use super::{
    control::ControlFault,
    encoding::{Reader, Writer},
};

/// A replica of the metadata log: a node together with the disk it keeps the log on.
///
/// A node that lost its disk comes back under another directory id and is another replica: its votes and its copies of
/// records are gone with the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplicaKey {
    /// The node.
    pub id: NodeId,
    /// Its directory.
    pub directory: Uuid,
}

/// Where a voter listens for its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name of the listener.
    pub name: String,
    /// Host.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// A member of the voter set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voter {
    /// The node.
    pub id: NodeId,
    /// Its directory; unknown for a configured voter that has not answered yet.
    pub directory: Option<Uuid>,
    /// Where it listens.
    pub endpoints: Vec<Endpoint>,
}

impl Voter {
    /// Returns the replica that is this voter; its directory is zero where unknown.
    #[must_use]
    pub fn key(&self) -> ReplicaKey {
        ReplicaKey {
            id: self.id,
            directory: self.directory.unwrap_or(Uuid::ZERO),
        }
    }

    /// Returns whether `replica` is this voter and not only the same node with another disk.
    #[must_use]
    pub fn is(&self, replica: ReplicaKey) -> bool {
        self.id == replica.id
            && self
                .directory
                .is_none_or(|known| known == replica.directory)
    }
}

/// The voters, by node id. Every count of votes or copies iterates over this set and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VoterSet {
    voters: BTreeMap<NodeId, Voter>,
}

impl VoterSet {
    /// Makes a set; of two voters with one id the last stays.
    #[must_use]
    pub fn new(voters: impl IntoIterator<Item = Voter>) -> Self {
        Self {
            voters: voters.into_iter().map(|voter| (voter.id, voter)).collect(),
        }
    }

    /// Returns whether this very replica votes.
    #[must_use]
    pub fn contains(&self, replica: ReplicaKey) -> bool {
        self.voters
            .get(&replica.id)
            .is_some_and(|voter| voter.is(replica))
    }

    /// Returns the voter with a node id.
    #[must_use]
    pub fn get(&self, id: NodeId) -> Option<&Voter> {
        self.voters.get(&id)
    }

    /// Returns the voters in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &Voter> {
        self.voters.values()
    }

    /// Returns how many voters there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.voters.len()
    }

    /// Returns whether nobody votes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.voters.is_empty()
    }

    /// Returns how many voters a decision needs.
    #[must_use]
    pub fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// Returns whether every voter's directory is known, as a voters record demands.
    #[must_use]
    pub fn all_directories_known(&self) -> bool {
        self.voters.values().all(|voter| voter.directory.is_some())
    }

    /// Returns the set with the directory of `replica` filled in, if that node is a voter of unknown directory.
    #[must_use]
    pub fn with_directory_of(mut self, replica: ReplicaKey) -> Self {
        if let Some(voter) = self.voters.get_mut(&replica.id) {
            voter.directory.get_or_insert(replica.directory);
        }
        self
    }

    /// Writes the value of a voters record (version 0).
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.i16(RECORD_VERSION);
        out.count(self.voters.len());
        for voter in self.voters.values() {
            out.i32(voter.id.0);
            out.uuid(voter.directory.unwrap_or(Uuid::ZERO));
            out.count(voter.endpoints.len());
            for endpoint in &voter.endpoints {
                out.string(&endpoint.name);
                out.string(&endpoint.host);
                out.u16(endpoint.port);
                out.no_tags();
            }
            out.i16(KRAFT_VERSION_MIN);
            out.i16(KRAFT_VERSION_MAX);
            out.no_tags();
            out.no_tags();
        }
        out.no_tags();
        out.finish()
    }

    /// Reads the value of a voters record.
    ///
    /// # Errors
    /// Says why the value is not a voters record.
    pub(super) fn decode(value: &[u8]) -> Result<Self, ControlFault> {
        let mut from = Reader::new(value);
        from.version(RECORD_VERSION)?;
        let mut voters = BTreeMap::new();
        for _ in 0..from.count()? {
            let id = NodeId(from.i32()?);
            let directory = from.uuid()?;
            let mut endpoints = Vec::new();
            for _ in 0..from.count()? {
                let name = from.string()?;
                let host = from.string()?;
                let port = from.u16()?;
                from.skip_tags()?;
                endpoints.push(Endpoint { name, host, port });
            }
            let (min, max) = (from.i16()?, from.i16()?);
            from.skip_tags()?;
            from.skip_tags()?;
            if !(min..=max).contains(&KRAFT_VERSION_MAX) || id.0 < 0 || directory == Uuid::ZERO {
                return Err(ControlFault::Value);
            }
            let directory = Some(directory);
            let voter = Voter {
                id,
                directory,
                endpoints,
            };
            if voters.insert(id, voter).is_some() {
                return Err(ControlFault::Value);
            }
        }
        from.skip_tags()?;
        from.end()?;
        if voters.is_empty() {
            return Err(ControlFault::Value);
        }
        Ok(Self { voters })
    }
}

const RECORD_VERSION: i16 = 0;
const KRAFT_VERSION_MIN: i16 = 0;
const KRAFT_VERSION_MAX: i16 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn voter(id: i32, directory: u8) -> Voter {
        Voter {
            id: NodeId(id),
            directory: Some(Uuid([directory; 16])),
            endpoints: vec![Endpoint {
                name: "CONTROLLER".into(),
                host: "localhost".into(),
                port: 9093,
            }],
        }
    }

    fn key(id: i32, directory: u8) -> ReplicaKey {
        ReplicaKey {
            id: NodeId(id),
            directory: Uuid([directory; 16]),
        }
    }

    #[test]
    fn node_with_another_disk_is_not_a_voter() {
        let set = VoterSet::new([voter(1, 7)]);
        assert!(set.contains(key(1, 7)));
        assert!(!set.contains(key(1, 8)));
        assert!(!set.contains(key(2, 7)));
    }

    #[test]
    fn majority_is_more_than_half() {
        for (voters, majority) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)] {
            let set = VoterSet::new((0..voters).map(|id| voter(id, 1)));
            assert_eq!(set.majority(), majority);
        }
    }

    #[test]
    fn configured_voter_gets_its_directory_once() {
        let mut configured = voter(1, 0);
        configured.directory = None;
        let set = VoterSet::new([configured]).with_directory_of(key(1, 7));
        assert!(set.all_directories_known());
        let set = set.with_directory_of(key(1, 8));
        assert!(set.contains(key(1, 7)));
    }

    #[test]
    fn record_has_kafkas_bytes_and_is_read_again() {
        let set = VoterSet::new([voter(1, 7)]);
        let mut bytes = vec![0, 0, 2, 0, 0, 0, 1];
        bytes.extend([7; 16]);
        bytes.extend(b"\x02\x0bCONTROLLER\x0alocalhost\x23\x85\x00");
        bytes.extend([0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(set.encode(), bytes);
        assert_eq!(VoterSet::decode(&bytes), Ok(set));
    }

    #[test]
    fn malformed_record_is_refused() {
        let good = VoterSet::new([voter(1, 7), voter(2, 8)]).encode();
        for at in 0..good.len() {
            assert!(VoterSet::decode(&good[..at]).is_err(), "cut at {at}");
        }
        let mut long = good;
        long.push(0);
        assert!(VoterSet::decode(&long).is_err());
        assert!(VoterSet::decode(&[0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
        assert!(VoterSet::decode(&[0, 0, 1, 0]).is_err(), "nobody votes");
    }
}
