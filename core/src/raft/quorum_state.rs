//! What a replica must never forget about elections: the content of the file `quorum-state`.
//!
//! Epoch, leader and vote are one record in one file that is replaced as a whole, so that no crash can separate them
//! (a vote with the wrong epoch is a second vote). The form is that of Kafka's `quorum-state`, data version 1, on one line.
//! Behind Kafka's five fields, whose reader skips fields that it does not know, stand a mark of founding voters and a checksum: a flipped digit of an
//! epoch is still a number, and a damaged vote must be refused instead of believed.

use std::fmt::Write as _;

use crate::ids::{Epoch, NodeId, Uuid};

use super::voters::ReplicaKey;

/// Name of the file, in the metadata log's folder.
pub(super) const FILE_NAME: &str = "quorum-state";

/// No valid file is larger.
pub(super) const FILE_LEN_MAX: u32 = 512;

/// The durable part of an election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ElectionState {
    /// The highest epoch that this replica knows.
    pub(super) epoch: Epoch,
    /// Its leader, where one was learnt from a peer.
    pub(super) leader: Option<NodeId>,
    /// The one replica that got this replica's vote in this epoch.
    pub(super) voted: Option<ReplicaKey>,
    /// This replica has voted in the election that founds the cluster, and knows no voters from the log yet: its empty log is
    /// no loss. An empty log without this mark may be all that is left of a copy that counted.
    pub(super) is_founder: bool,
}

impl ElectionState {
    /// Writes the content of the file.
    #[must_use]
    pub(super) fn encode(&self) -> String {
        let voted = self.voted.map_or(NOBODY, |voted| voted.id.0);
        let directory = self.voted.map_or(Uuid::ZERO, |voted| voted.directory);
        let mut text = format!(
            "{{\"leaderId\":{},\"leaderEpoch\":{},\"votedId\":{voted},\"votedDirectoryId\":\"{directory}\",\
             \"data_version\":{DATA_VERSION}",
            self.leader.map_or(NOBODY, |leader| leader.0),
            self.epoch,
        );
        if self.is_founder {
            text.push_str(FOUNDER);
        }
        let crc = crc32c::crc32c(text.as_bytes());
        // Writing to a string cannot fail.
        let _ = write!(text, ",\"crc32c\":{crc}}}");
        text
    }

    /// Reads the content of the file. Only what [`ElectionState::encode`] writes, byte for byte, is accepted; a line
    /// end may follow.
    ///
    /// # Errors
    /// Says what is wrong with the content.
    pub(super) fn decode(content: &[u8]) -> Result<Self, StateFault> {
        let text = std::str::from_utf8(content).map_err(|_| StateFault::Form)?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        let mut rest = text;
        let leader = take_number(&mut rest, "{\"leaderId\":")?;
        let epoch = take_number(&mut rest, ",\"leaderEpoch\":")?;
        let voted = take_number(&mut rest, ",\"votedId\":")?;
        let directory = take_directory(&mut rest, ",\"votedDirectoryId\":\"")?;
        let version = take_number(&mut rest, ",\"data_version\":")?;
        if version != DATA_VERSION {
            return Err(StateFault::Version { version });
        }
        let voted = node(voted)?.map(|id| ReplicaKey { id, directory });
        let state = Self {
            epoch: Epoch(epoch),
            leader: node(leader)?,
            voted,
            is_founder: rest.starts_with(FOUNDER),
        };
        if epoch < 0 || (voted.is_none() && directory != Uuid::ZERO) {
            return Err(StateFault::Value);
        }
        if state.encode() != text {
            return Err(StateFault::Checksum);
        }
        Ok(state)
    }
}

/// Why a `quorum-state` file cannot be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StateFault {
    /// Not the text that this program writes.
    #[error("it is not in the form of data version 1")]
    Form,
    /// Written by another release.
    #[error("data version {version} is unknown")]
    Version {
        /// The version.
        version: i32,
    },
    /// A number that no replica writes.
    #[error("a value is out of range")]
    Value,
    /// The fields read well, but they are not what was written.
    #[error("its checksum does not fit")]
    Checksum,
    /// No valid file is that large.
    #[error("it is larger than {FILE_LEN_MAX} bytes")]
    TooLarge,
}

const DATA_VERSION: i32 = 1;
const FOUNDER: &str = ",\"foundingVoter\":true";
const NOBODY: i32 = -1;

fn node(id: i32) -> Result<Option<NodeId>, StateFault> {
    match id {
        NOBODY => Ok(None),
        id if id >= 0 => Ok(Some(NodeId(id))),
        _ => Err(StateFault::Value),
    }
}

fn take_number(rest: &mut &str, name: &str) -> Result<i32, StateFault> {
    let value = rest.strip_prefix(name).ok_or(StateFault::Form)?;
    let end = value.find([',', '}']).ok_or(StateFault::Form)?;
    let (digits, after) = value.split_at(end);
    *rest = after;
    digits.parse().map_err(|_| StateFault::Form)
}

fn take_directory(rest: &mut &str, name: &str) -> Result<Uuid, StateFault> {
    let value = rest.strip_prefix(name).ok_or(StateFault::Form)?;
    let (id, after) = value.split_once('"').ok_or(StateFault::Form)?;
    *rest = after;
    Uuid::from_base64(id).ok_or(StateFault::Form)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voted() -> ElectionState {
        let candidate = ReplicaKey {
            id: NodeId(1),
            directory: Uuid([7; 16]),
        };
        ElectionState {
            epoch: Epoch(2),
            voted: Some(candidate),
            ..ElectionState::default()
        }
    }

    #[test]
    fn content_is_kafkas_json_with_a_checksum_behind_it() {
        assert_eq!(
            voted().encode(),
            "{\"leaderId\":-1,\"leaderEpoch\":2,\"votedId\":1,\"votedDirectoryId\":\"BwcHBwcHBwcHBwcHBwcHBw\",\
             \"data_version\":1,\"crc32c\":3917784837}"
        );
    }

    #[test]
    fn what_was_written_is_read_again() {
        let follower = ElectionState {
            epoch: Epoch(i32::MAX),
            leader: Some(NodeId(3)),
            voted: None,
            is_founder: false,
        };
        let founder = ElectionState {
            is_founder: true,
            ..voted()
        };
        for state in [ElectionState::default(), voted(), follower, founder] {
            assert_eq!(ElectionState::decode(state.encode().as_bytes()), Ok(state));
            let line = format!("{}\n", state.encode());
            assert_eq!(ElectionState::decode(line.as_bytes()), Ok(state));
        }
    }

    #[test]
    fn no_damaged_byte_and_no_cut_is_believed() {
        let good = voted().encode().into_bytes();
        for at in 0..good.len() {
            for flip in 1..=255_u8 {
                let mut bad = good.clone();
                bad[at] ^= flip;
                assert!(ElectionState::decode(&bad).is_err(), "byte {at} ^ {flip}");
            }
            assert!(ElectionState::decode(&good[..at]).is_err(), "cut at {at}");
        }
        assert!(ElectionState::decode(&vec![0; good.len()]).is_err());
    }

    #[test]
    fn another_data_version_is_named() {
        let text = voted()
            .encode()
            .replace("\"data_version\":1", "\"data_version\":2");
        assert_eq!(
            ElectionState::decode(text.as_bytes()),
            Err(StateFault::Version { version: 2 })
        );
    }
}
