//! The header of a request, read by hand.
//!
//! The wire crate refuses a client id that is not UTF-8; Kafka reads it, so it is kept as bytes.

use std::fmt;

use bytes::Bytes;

use super::{
    ApiKey, DecodeError, DecodeLimits,
    reader::{Read, Reader},
};

/// Bytes of key, version and correlation id.
const FIXED_BYTES: usize = 8;

/// The header of a request that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// The API.
    pub api: ApiKey,
    /// Its version, one that is served.
    pub version: i16,
    /// The number that the answer carries.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: ClientId,
}

/// A client's name for itself; null counts as empty, as in Kafka. Not always UTF-8.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(Bytes);

impl ClientId {
    /// Returns the bytes as sent.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Bytes> for ClientId {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl RequestHeader {
    /// Reads the header and returns it with the position of the body.
    pub(super) fn read(frame: &Bytes, limits: &DecodeLimits) -> Result<(Self, usize), DecodeError> {
        let mut reader = Reader::new(frame, 0, false, limits);
        let (key, version, correlation_id) = fixed(&mut reader).map_err(|fault| {
            let key = frame.first_chunk().map(|bytes| i16::from_be_bytes(*bytes));
            DecodeError::Header {
                key,
                field: fault.field,
                fault: fault.fault,
            }
        })?;
        let api = ApiKey::from_i16(key)
            .filter(|api| api.serves_on(limits.listener))
            .ok_or(DecodeError::UnknownApi {
                key,
                version,
                correlation_id,
            })?;
        if !api.serves(version) {
            return Err(DecodeError::UnsupportedVersion {
                api,
                version,
                correlation_id,
            });
        }
        let flexible = api.request_header_version(version) == 2;
        let mut reader = Reader::new(frame, FIXED_BYTES, flexible, limits);
        let client_id = rest(&mut reader).map_err(|fault| DecodeError::Header {
            key: Some(key),
            field: fault.field,
            fault: fault.fault,
        })?;
        Ok((
            Self {
                api,
                version,
                correlation_id,
                client_id,
            },
            reader.position(),
        ))
    }
}

fn fixed(reader: &mut Reader<'_>) -> Read<(i16, i16, i32)> {
    let key = reader.i16("RequestApiKey")?;
    let version = reader.i16("RequestApiVersion")?;
    Ok((key, version, reader.i32("CorrelationId")?))
}

fn rest(reader: &mut Reader<'_>) -> Read<ClientId> {
    // The client id keeps its two-byte length in flexible versions too.
    let client_id = reader.header_bytes("ClientId")?.unwrap_or_default();
    reader.skip_tags()?;
    Ok(ClientId(client_id))
}
