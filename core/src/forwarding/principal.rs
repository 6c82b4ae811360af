//! Who asks, as Kafka's own principals are written in an envelope.

use bytes::{BufMut, Bytes, BytesMut};

use crate::protocol::{EncodeError, KafkaString, messages::DefaultPrincipalData};

/// Kafka's only version of a principal.
const VERSION: i16 = 0;

/// A client, as its connection authenticated it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// What it is; `User` but for custom builders.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Whether a delegation token vouched for it.
    pub is_token_authenticated: bool,
}

/// The bytes are not those of a principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the envelope's principal cannot be read")]
pub struct PrincipalFault;

impl Principal {
    /// Returns whoever comes by a listener without authentication.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            kind: "User".to_owned(),
            name: "ANONYMOUS".to_owned(),
            is_token_authenticated: false,
        }
    }

    /// Writes the principal behind its version.
    ///
    /// # Errors
    ///
    /// Returns an [`EncodeError`] for a name too long for the wire.
    pub fn to_bytes(&self) -> Result<Bytes, EncodeError> {
        let data = DefaultPrincipalData::default()
            .with_type(KafkaString::from(self.kind.clone()))
            .with_name(KafkaString::from(self.name.clone()))
            .with_token_authenticated(self.is_token_authenticated);
        let mut buffer = BytesMut::new();
        buffer.put_i16(VERSION);
        let written = data.write(&mut buffer, VERSION);
        let too_long = EncodeError::TooLong {
            field: "RequestPrincipal",
        };
        written.map_err(|_| too_long)?;
        Ok(buffer.freeze())
    }

    /// Reads a principal; bytes after it are left alone, as by Kafka.
    ///
    /// # Errors
    ///
    /// Returns a [`PrincipalFault`] for anything else.
    pub fn from_bytes(bytes: &Bytes) -> Result<Self, PrincipalFault> {
        let version = bytes.first_chunk().map(|bytes| i16::from_be_bytes(*bytes));
        if version != Some(VERSION) {
            return Err(PrincipalFault);
        }
        let mut body = bytes.slice(size_of::<i16>()..);
        let data = DefaultPrincipalData::read(&mut body, VERSION).map_err(|_| PrincipalFault)?;
        Ok(Self {
            kind: data.r#type.as_str().to_owned(),
            name: data.name.as_str().to_owned(),
            is_token_authenticated: data.token_authenticated,
        })
    }
}
