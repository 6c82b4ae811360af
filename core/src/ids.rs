//! Identities as types, so that two integers of the same shape never stand side by side.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// A broker or controller node (`node.id`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub i32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A connection; never reused within one incarnation. The driver numbers those that it accepts, from 0 on, and the machine
/// those that it dials, with [`ConnectionId::dialled`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    const DIALLED: u64 = 1 << 63;

    /// Numbers a connection that the machine dials.
    #[must_use]
    pub const fn dialled(number: u64) -> Self {
        Self(number | Self::DIALLED)
    }

    /// Returns whether the machine dialled it.
    #[must_use]
    pub const fn is_dialled(self) -> bool {
        self.0 & Self::DIALLED != 0
    }
}

/// The epoch of a partition's leader (KIP-101), or of the controller quorum (KIP-595).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Epoch(pub i32);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The offset of a record in a partition.
pub type Offset = i64;

/// A 128-bit identifier in Kafka's sense: topic id, directory id, incarnation id.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// All zeroes: "no id".
    pub const ZERO: Self = Self([0; 16]);
    /// The id of the metadata topic (KIP-500).
    pub const METADATA_TOPIC: Self = Self([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

    /// Makes a version 4 id from 16 random bytes.
    #[must_use]
    pub const fn from_random(mut bytes: [u8; 16]) -> Self {
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self(bytes)
    }

    /// Reads Kafka's text form: 22 characters of URL-safe base64 without padding.
    #[must_use]
    pub fn from_base64(text: &str) -> Option<Self> {
        if text.len() != 22 {
            return None;
        }
        let mut value: u128 = 0;
        for (at, byte) in text.bytes().enumerate() {
            let digit = ALPHABET.iter().position(|known| *known == byte)?;
            let digit = u128::try_from(digit).ok()?;
            // 22 digits carry 132 bits: the last digit holds only its two upper bits.
            value = if at == 21 {
                if digit & 0x0f != 0 {
                    return None;
                }
                value << 2 | digit >> 4
            } else {
                value << 6 | digit
            };
        }
        Some(Self(value.to_be_bytes()))
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = u128::from_be_bytes(self.0);
        for at in 0..22_u32 {
            let digit = if at == 21 {
                (value & 0x03) << 4
            } else {
                value >> (122 - at * 6) & 0x3f
            };
            let digit = usize::try_from(digit).unwrap_or_default();
            write!(f, "{}", char::from(ALPHABET[digit & 0x3f]))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uuid({self})")
    }
}

/// A topic name; cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopicName(Arc<str>);

impl TopicName {
    /// Makes a name; checking it against Kafka's rules is the controller's work.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(Arc::from(name))
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for TopicName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// A partition of a topic, by name: what folders, checkpoints and people use.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TopicPartition {
    /// The topic.
    pub topic: TopicName,
    /// The partition's number, from 0.
    pub partition: i32,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_text_is_kafkas_url_safe_base64() {
        assert_eq!(Uuid::METADATA_TOPIC.to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!(
            Uuid::from_base64("AAAAAAAAAAAAAAAAAAAAAQ"),
            Some(Uuid::METADATA_TOPIC)
        );
        let id = Uuid::from_random([0xa5; 16]);
        assert_eq!(Uuid::from_base64(&id.to_string()), Some(id));
        assert_eq!(
            Uuid::from_base64("AAAAAAAAAAAAAAAAAAAAAR"),
            None,
            "bits beyond 128"
        );
        assert_eq!(Uuid::from_base64("short"), None);
    }
}
