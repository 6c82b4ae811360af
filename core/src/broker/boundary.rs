//! What goes into a broker and what comes out.

use std::net::SocketAddr;

use bytes::Bytes;

use crate::{
    event::Event,
    ids::ConnectionId,
    storage::{Completion, FileId, Frame, StorageFault, StorageOp},
};

/// Everything that can happen to a broker.
#[derive(Clone, Debug)]
pub enum Input {
    /// A client connected.
    Connected {
        /// The driver's number for the connection.
        connection: ConnectionId,
        /// Where it comes from.
        peer: SocketAddr,
        /// Which listener accepted it, by position in [`BrokerConfig::listeners`](super::BrokerConfig::listeners).
        listener: u16,
    },
    /// A connection asked for with [`Output::Dial`] is there: frames may be sent.
    Dialled {
        /// The machine's number for the connection.
        connection: ConnectionId,
    },
    /// One whole frame arrived, without its length prefix.
    Frame {
        /// The connection.
        connection: ConnectionId,
        /// Header and body.
        bytes: Bytes,
    },
    /// The peer is gone, cannot be reached, or its stream is no longer a sequence of frames.
    Closed {
        /// The connection.
        connection: ConnectionId,
    },
    /// The last bytes of all frames handed out so far for a connection reached the socket.
    Sent {
        /// The connection.
        connection: ConnectionId,
    },
    /// A storage operation ended.
    Storage(Completion),
    /// Several ended, in this order, before the host had anything to hand out: what they make dirty shares a sync.
    StorageMany(Vec<Completion>),
    /// Bytes of a file range that a frame promised could not be read; the connection was closed.
    RangeUnreadable {
        /// The file.
        file: FileId,
        /// Why.
        fault: StorageFault,
    },
    /// The deadline has passed.
    Timeout,
    /// Stop in good order: answer what waits, flush, mark the shutdown as clean, then say [`Output::Stopped`].
    Stop,
}

/// Everything a broker wants done, in order.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send one frame.
    Send {
        /// The connection; gone is fine.
        connection: ConnectionId,
        /// The frame with its length prefix.
        frame: Frame,
    },
    /// Make a connection to another node. [`Input::Dialled`] or [`Input::Closed`] follows, unless it is closed before.
    Dial {
        /// The connection, by the machine's own number ([`ConnectionId::dialled`]).
        connection: ConnectionId,
        /// A name or an address.
        host: String,
        /// The port.
        port: u16,
        /// The largest frame that may come, its length prefix not counted.
        frame_bytes_max: usize,
    },
    /// Close a connection after what was sent before; nothing comes of it any more.
    Close {
        /// The connection.
        connection: ConnectionId,
    },
    /// Stop reading frames from a connection: its budget is used up.
    PauseReading {
        /// The connection.
        connection: ConnectionId,
    },
    /// Read on.
    ResumeReading {
        /// The connection.
        connection: ConnectionId,
    },
    /// Perform a file operation and feed its completion back.
    Storage(StorageOp),
    /// Something for people and checkers; carries no duty.
    Event(Event),
    /// The orderly stop asked for by [`Input::Stop`] is complete, or the broker cannot go on.
    Stopped,
}
