//! What can be wrong with a frame, and what is done about it.

use bytes::Bytes;
use kacrab_protocol::ProtocolError;
use thiserror::Error;

use super::{ApiKey, unsupported_api_versions_response};

/// What is wrong with one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The frame ends inside the field.
    #[error("ends too early: {needed} bytes needed, {available} left")]
    Truncated {
        /// Bytes the field needs at least.
        needed: u64,
        /// Bytes left.
        available: u64,
    },
    /// A null where the schema of this version forbids it.
    #[error("must not be null")]
    Null,
    /// A variable-length integer of more than five bytes.
    #[error("has a length of more than five bytes")]
    Varint,
    /// A length that no Kafka value can have.
    #[error("has an impossible length of {0}")]
    Length(u32),
    /// Text that is not UTF-8.
    #[error("is not UTF-8")]
    Utf8,
    /// An array with more elements than are accepted.
    #[error("has {count} elements, more than the limit of {max}")]
    Elements {
        /// Elements declared.
        count: u64,
        /// Elements accepted.
        max: u64,
    },
    /// More tagged fields than are accepted.
    #[error("has {count} tagged fields, more than the limit of {max}")]
    Tags {
        /// Tagged fields declared.
        count: u64,
        /// Tagged fields accepted.
        max: u64,
    },
    /// A tag that does not ascend.
    #[error("has tag {0} out of order")]
    TagOrder(u32),
    /// A known tag in a version that does not have it.
    #[error("has tag {0}, which this version does not know")]
    TagVersion(u32),
    /// A known tag whose size is not that of its content.
    #[error("has tag {0} of the wrong size")]
    TagSize(u32),
    /// The message would need more memory than is granted.
    #[error("would need more than the granted memory")]
    Memory,
    /// Bytes are left after the last field.
    #[error("is followed by {0} more bytes")]
    Trailing(u64),
    /// The wire crate refused what the checks let pass.
    #[error("is refused by the codec")]
    Codec,
}

/// A request that cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The header is damaged.
    #[error("request header (API key {key:?}): {field} {fault}")]
    Header {
        /// The API key, if that much could be read.
        key: Option<i16>,
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        fault: Fault,
    },
    /// Nobody serves this API here.
    #[error("API key {key} version {version} is not served on this listener")]
    UnknownApi {
        /// The key.
        key: i16,
        /// The version.
        version: i16,
        /// The correlation id.
        correlation_id: i32,
    },
    /// The API is served, in other versions.
    #[error("{api} version {version} is not served")]
    UnsupportedVersion {
        /// The API.
        api: ApiKey,
        /// The version.
        version: i16,
        /// The correlation id.
        correlation_id: i32,
    },
    /// The body is damaged.
    #[error("{api} version {version}: {field} {fault}")]
    Body {
        /// The API.
        api: ApiKey,
        /// The version.
        version: i16,
        /// The correlation id.
        correlation_id: i32,
        /// The field, in Kafka's spelling.
        field: &'static str,
        /// What is wrong with it.
        fault: Fault,
    },
}

/// What the connection does after a [`DecodeError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultAction {
    /// Send this frame, length prefix included, in the request's turn and go on.
    Answer(Bytes),
    /// Close the connection, as Kafka does; the error is the reason to log.
    Close,
}

impl DecodeError {
    /// Says what to do, as Kafka 4.3 does: an ApiVersions request of any other version is answered
    /// in version 0 with UNSUPPORTED_VERSION and the versions served (KIP-511); everything else
    /// closes the connection, because nothing tells how to encode an answer.
    #[must_use]
    pub fn action(&self) -> FaultAction {
        match self {
            Self::UnsupportedVersion {
                api: ApiKey::ApiVersions,
                correlation_id,
                ..
            } => FaultAction::Answer(unsupported_api_versions_response(*correlation_id)),
            _ => FaultAction::Close,
        }
    }

    /// Returns the correlation id, unless the frame is too short to have one.
    #[must_use]
    pub const fn correlation_id(&self) -> Option<i32> {
        match self {
            Self::Header { .. } => None,
            Self::UnknownApi { correlation_id, .. }
            | Self::UnsupportedVersion { correlation_id, .. }
            | Self::Body { correlation_id, .. } => Some(*correlation_id),
        }
    }
}

/// What the wire crate had against a message; opaque, so that the crate can be replaced.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct CodecFault(#[from] ProtocolError);

/// A message of our own that cannot be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The API has no such version.
    #[error("{api} has no version {version}")]
    Version {
        /// The API.
        api: ApiKey,
        /// The version.
        version: i16,
    },
    /// A value is longer than its length field can say.
    #[error("{field} is too long")]
    TooLong {
        /// The field.
        field: &'static str,
    },
    /// The wire crate refused the message.
    #[error("{api} version {version} cannot be written")]
    Codec {
        /// The API.
        api: ApiKey,
        /// The version.
        version: i16,
        /// Its reason.
        source: CodecFault,
    },
}

/// A response that a client cannot read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ResponseError {
    /// The frame is too short for a header, or its tagged fields are damaged.
    #[error("response header: {fault}")]
    Header {
        /// What is wrong.
        fault: Fault,
    },
    /// The body is damaged.
    #[error("{api} version {version} response cannot be read")]
    Body {
        /// The API.
        api: ApiKey,
        /// The version.
        version: i16,
        /// The wire crate's reason.
        source: CodecFault,
    },
    /// Bytes are left after the last field.
    #[error("{api} version {version} response is followed by {count} more bytes")]
    Trailing {
        /// The API.
        api: ApiKey,
        /// The version.
        version: i16,
        /// Bytes left.
        count: usize,
    },
}
