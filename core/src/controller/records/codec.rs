//! How a record becomes bytes: a frame of our own around a body in bincode.
//!
//! A frame is type (u16), version (u8) and body length (u32), all big-endian, then the body. A body is the frozen
//! struct of its (type, version) in bincode with fixed-size big-endian integers. No enum is serialised: adding a record
//! type can therefore never renumber another.

use serde::{Serialize, de::DeserializeOwned};

use super::RecordError;

/// The most bytes a body may have, and the most memory that decoding one may claim.
pub(super) const BODY_BYTES_MAX: usize = 256 * 1024;

const HEAD_BYTES: usize = 7;

/// A frame as it stands in the metadata log.
pub(super) struct Frame<'bytes> {
    pub(super) kind: u16,
    pub(super) version: u8,
    pub(super) body: &'bytes [u8],
}

impl<'bytes> Frame<'bytes> {
    /// Splits one frame off `bytes`; nothing may follow it.
    pub(super) fn read(bytes: &'bytes [u8]) -> Result<Self, RecordError> {
        let (head, body) = bytes
            .split_at_checked(HEAD_BYTES)
            .ok_or(RecordError::Truncated)?;
        let [kind_high, kind_low, version, length @ ..] = head else {
            return Err(RecordError::Truncated);
        };
        let length = length
            .iter()
            .fold(0_usize, |value, byte| value << 8 | usize::from(*byte));
        if body.len() != length {
            return Err(RecordError::Length {
                said: length,
                found: body.len(),
            });
        }
        let kind = u16::from_be_bytes([*kind_high, *kind_low]);
        if length > BODY_BYTES_MAX {
            return Err(RecordError::TooLarge {
                kind,
                bytes: length,
            });
        }
        Ok(Self {
            kind,
            version: *version,
            body,
        })
    }

    /// Writes the frame.
    pub(super) fn write(&self) -> Result<Vec<u8>, RecordError> {
        let bytes = self.body.len();
        let too_large = RecordError::TooLarge {
            kind: self.kind,
            bytes,
        };
        if bytes > BODY_BYTES_MAX {
            return Err(too_large);
        }
        let length = u32::try_from(bytes).map_err(|_| too_large)?;
        let mut frame = Vec::with_capacity(HEAD_BYTES + bytes);
        frame.extend_from_slice(&self.kind.to_be_bytes());
        frame.push(self.version);
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(self.body);
        Ok(frame)
    }
}

fn config() -> impl bincode::config::Config {
    bincode::config::standard()
        .with_big_endian()
        .with_fixed_int_encoding()
        .with_limit::<BODY_BYTES_MAX>()
}

/// Encodes a frozen struct.
pub(super) fn encode_body<T: Serialize>(body: &T) -> Result<Vec<u8>, RecordError> {
    bincode::serde::encode_to_vec(body, config()).map_err(|_| RecordError::Unencodable)
}

/// Decodes a frozen struct; all bytes must be used.
pub(super) fn decode_body<T: DeserializeOwned>(frame: &Frame<'_>) -> Result<T, RecordError> {
    let malformed = RecordError::Malformed {
        kind: frame.kind,
        version: frame.version,
    };
    match bincode::serde::decode_from_slice(frame.body, config()) {
        Ok((value, used)) if used == frame.body.len() => Ok(value),
        Ok(_) | Err(_) => Err(malformed),
    }
}
