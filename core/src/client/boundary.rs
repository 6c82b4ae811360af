//! What goes into a client machine and what comes out.

use std::{fmt, sync::Arc};

use bytes::Bytes;

use crate::{
    ids::ConnectionId,
    time::{Instant, Now},
};

/// Everything that can happen to a client.
#[derive(Clone, Debug)]
pub enum ClientInput {
    /// A connection that was asked for stands.
    Connected {
        /// Which.
        connection: ConnectionId,
    },
    /// A connection that was asked for could not be made.
    ConnectFailed {
        /// Which.
        connection: ConnectionId,
    },
    /// One whole frame arrived, without its length prefix.
    Frame {
        /// On which connection.
        connection: ConnectionId,
        /// Header and body.
        bytes: Bytes,
    },
    /// The broker is gone, or its stream is no longer a sequence of frames.
    Disconnected {
        /// Which connection.
        connection: ConnectionId,
    },
    /// The deadline has passed.
    Timeout,
}

/// Everything a client wants done, in order.
#[derive(Clone, Debug)]
pub enum ClientOutput<E> {
    /// Connect, and say [`ClientInput::Connected`] or [`ClientInput::ConnectFailed`].
    Connect {
        /// The client's number for the connection; never used twice.
        connection: ConnectionId,
        /// Where to.
        to: Address,
    },
    /// Send one frame.
    Send {
        /// The connection; gone is fine.
        connection: ConnectionId,
        /// The frame with its length prefix.
        frame: Bytes,
    },
    /// Close a connection, or give up making it. No input about it is expected any more.
    Close {
        /// The connection.
        connection: ConnectionId,
    },
    /// Something the user of the client wants to know.
    Event(E),
}

/// A sans-IO client: what a driver needs to know of a producer, a consumer or an admin client.
///
/// After every input and every call of a method that may cause work, a driver takes outputs until
/// there are none; a driver that cannot deliver an event may stop before and go on later, which
/// holds back the machine. Then it sleeps until [`deadline`](Self::deadline).
pub trait ClientMachine {
    /// What the user is told.
    type Event;

    /// Takes one input.
    fn handle(&mut self, now: Now, input: ClientInput);

    /// Hands out the oldest output that was not handed out yet.
    fn poll_output(&mut self) -> Option<ClientOutput<Self::Event>>;

    /// Returns when [`ClientInput::Timeout`] is next due.
    fn deadline(&self) -> Option<Instant>;
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// A name or an IP address, without brackets.
    pub host: Arc<str>,
    /// The port.
    pub port: u16,
}

impl Address {
    /// Makes an address.
    #[must_use]
    pub fn new(host: &str, port: u16) -> Self {
        Self {
            host: Arc::from(host),
            port,
        }
    }

    /// Reads a comma-separated list of `host:port`, as `bootstrap.servers` has it.
    ///
    /// # Errors
    ///
    /// Returns the first [`AddressError`].
    pub fn parse_list(text: &str) -> Result<Vec<Self>, AddressError> {
        text.split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(str::parse)
            .collect()
    }
}

impl std::str::FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let missing = || AddressError::Port { text: text.into() };
        let (host, port) = text.rsplit_once(':').ok_or_else(missing)?;
        let port = port.parse().ok().filter(|port| *port != 0);
        let bracketed = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let host = bracketed.unwrap_or(host);
        // Without brackets the last group of an IPv6 address would be taken for the port.
        if host.is_empty() || (bracketed.is_none() && host.contains(':')) {
            return Err(AddressError::Host { text: text.into() });
        }
        Ok(Self::new(host, port.ok_or_else(missing)?))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Text that is no `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The port is missing or is no number from 1 to 65535.
    #[error("\"{text}\" needs a port, as in localhost:9092")]
    Port {
        /// What was given.
        text: Box<str>,
    },
    /// The host is missing, or an IPv6 address has no brackets.
    #[error("\"{text}\" has no usable host; write localhost:9092 or [::1]:9092")]
    Host {
        /// What was given.
        text: Box<str>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bootstrap_servers_are_read_as_kafka_writes_them() {
        assert_eq!(
            Address::parse_list("a:1, [::1]:9092,"),
            Ok(vec![Address::new("a", 1), Address::new("::1", 9092)])
        );
        assert_eq!(Address::new("::1", 2).to_string(), "[::1]:2");
        for bad in ["localhost", "localhost:", "a:0", "a:70000", "a:x"] {
            assert!(
                matches!(bad.parse::<Address>(), Err(AddressError::Port { .. })),
                "{bad}"
            );
        }
        for bad in [":9092", "::1:9092"] {
            assert!(
                matches!(bad.parse::<Address>(), Err(AddressError::Host { .. })),
                "{bad}"
            );
        }
    }
}
