//! Metadata records: everything that the cluster agrees on, one fact at a time.
//!
//! A record is (type, version, length, body). Each (type, version) has a frozen struct with golden bytes in the tests.
//! In memory a record is the newest version of its type. A record of a type or version that this build does not know
//! cannot be skipped, for it may change anything: it is refused by name. It cannot appear either before the cluster's
//! `metadata.version` has been raised to the level that brings it, and a build refuses a level above its own.

mod cluster;
mod codec;
mod topics;

pub use self::{
    cluster::{
        BrokerRegistrationChangeV1, ClusterIdV1, ConfigV1, EndpointV1, FeatureLevelV1,
        FeatureRangeV1, NoOpV1, RegisterBrokerV1, UnregisterBrokerV1, VoterV1, VotersV1,
    },
    topics::{ClearElrV1, PartitionChangeV1, PartitionV1, RemoveTopicV1, TopicV1},
};

use self::codec::{Frame, decode_body, encode_body};

/// The feature whose level says which metadata records may appear.
///
/// Not Kafka's `metadata.version`, whose numbers stand for record formats that this log does not use.
pub const METADATA_VERSION: &str = "seedlog.metadata.version";

/// Kafka's feature whose level says whether there are eligible leader replicas (KIP-966); here there always are.
pub const ELIGIBLE_LEADER_REPLICAS_VERSION: &str = "eligible.leader.replicas.version";

/// The highest level of [`METADATA_VERSION`] that this build understands.
pub const METADATA_VERSION_MAX: u16 = 1;

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The bytes end within the head.
    #[error("metadata record ends within its head")]
    Truncated,
    /// The body is longer or shorter than the head says.
    #[error("metadata record says it has {said} bytes of body, but has {found}")]
    Length {
        /// What the head says.
        said: usize,
        /// What is there.
        found: usize,
    },
    /// The body is beyond any that is ever written.
    #[error(
        "metadata record of type {kind} has {bytes} bytes of body, more than any record may have"
    )]
    TooLarge {
        /// The record's type.
        kind: u16,
        /// The body's length.
        bytes: usize,
    },
    /// A newer release wrote it.
    #[error("metadata record of type {kind}, version {version} is not known to this release")]
    Unknown {
        /// The record's type.
        kind: u16,
        /// The record's version.
        version: u8,
    },
    /// The body is not what its type and version say.
    #[error("metadata record of type {kind}, version {version} is malformed")]
    Malformed {
        /// The record's type.
        kind: u16,
        /// The record's version.
        version: u8,
    },
    /// A value cannot be written, for it is beyond the limits of its own encoding.
    #[error("metadata record cannot be encoded")]
    Unencodable,
}

macro_rules! records {
    ($($(#[$doc:meta])* $name:ident($body:ident) = $kind:literal v $version:literal level $level:literal,)+) => {
        /// One metadata record, in memory.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Record {
            $($(#[$doc])* $name($body),)+
        }

        impl Record {
            /// Returns the number of the record's type.
            #[must_use]
            pub const fn kind(&self) -> u16 {
                match self { $(Self::$name(_) => $kind,)+ }
            }

            /// Returns the version that the record is written in.
            #[must_use]
            pub const fn version(&self) -> u8 {
                match self { $(Self::$name(_) => $version,)+ }
            }

            /// Returns the lowest level of [`METADATA_VERSION`] at which the record may be written.
            #[must_use]
            pub const fn metadata_version(&self) -> u16 {
                match self { $(Self::$name(_) => $level,)+ }
            }

            /// Encodes the record.
            ///
            /// # Errors
            /// If the body is larger than any record may be.
            pub fn encode(&self) -> Result<Vec<u8>, RecordError> {
                let body = match self { $(Self::$name(body) => encode_body(body)?,)+ };
                Frame { kind: self.kind(), version: self.version(), body: &body }.write()
            }

            /// Decodes one record; `bytes` must hold nothing else.
            ///
            /// # Errors
            /// If the bytes are not a record of a type and version that this build knows.
            pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
                let frame = Frame::read(bytes)?;
                match (frame.kind, frame.version) {
                    $(($kind, $version) => decode_body(&frame).map(Self::$name),)+
                    (kind, version) => Err(RecordError::Unknown { kind, version }),
                }
            }
        }

        $(impl From<$body> for Record {
            fn from(body: $body) -> Self {
                Self::$name(body)
            }
        })+
    };
}

// The numbers are written on disks: never reused, never changed.
records! {
    /// Nothing; moves the end of the log.
    NoOp(NoOpV1) = 1 v 1 level 1,
    /// A feature's finalized level.
    FeatureLevel(FeatureLevelV1) = 2 v 1 level 1,
    /// The cluster's id.
    ClusterId(ClusterIdV1) = 3 v 1 level 1,
    /// The controller quorum's voters.
    Voters(VotersV1) = 4 v 1 level 1,
    /// A broker registers.
    RegisterBroker(RegisterBrokerV1) = 5 v 1 level 1,
    /// A broker is fenced, unfenced, shuts down or loses a directory.
    BrokerRegistrationChange(BrokerRegistrationChangeV1) = 6 v 1 level 1,
    /// A broker is forgotten.
    UnregisterBroker(UnregisterBrokerV1) = 7 v 1 level 1,
    /// A topic begins.
    Topic(TopicV1) = 8 v 1 level 1,
    /// A partition, whole.
    Partition(PartitionV1) = 9 v 1 level 1,
    /// A partition changes.
    PartitionChange(PartitionChangeV1) = 10 v 1 level 1,
    /// A topic ends.
    RemoveTopic(RemoveTopicV1) = 11 v 1 level 1,
    /// A config is set or removed.
    Config(ConfigV1) = 12 v 1 level 1,
    /// Eligible leader replicas are forgotten.
    ClearElr(ClearElrV1) = 13 v 1 level 1,
}

#[cfg(test)]
mod tests;
