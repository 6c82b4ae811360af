//! A client as the cluster sees it: frames and time, like a broker, and notes for the history.

use std::fmt;

use bytes::Bytes;
use seedlog_core::time::{Instant, Now};

use crate::history::Note;

/// A connection as one client numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientLink(pub u32);

/// Something that happens to a client.
#[derive(Clone, Debug)]
pub enum ClientInput {
    /// The client starts.
    Start,
    /// A connection is open.
    Opened(ClientLink),
    /// A frame arrived, without its length prefix.
    Frame(ClientLink, Bytes),
    /// A connection was refused, closed or reset.
    Closed(ClientLink),
    /// The deadline has passed.
    Timeout,
    /// Begin nothing new; bring to an end what is begun.
    WindDown,
}

/// Something a client wants.
#[derive(Debug)]
pub enum ClientOutput {
    /// Open a connection to a node.
    Dial(ClientLink, usize),
    /// Send a frame, its length prefix included.
    Send(ClientLink, Bytes),
    /// Close a connection.
    Close(ClientLink),
    /// Write something into the history.
    Note(Note),
}

/// A client machine: a workload, a reader of the drain, or an application under test.
pub trait Client: fmt::Debug {
    /// Feeds one input.
    fn handle(&mut self, now: Now, input: ClientInput);
    /// Takes the next output, in order.
    fn poll_output(&mut self) -> Option<ClientOutput>;
    /// Says when [`ClientInput::Timeout`] is next due.
    fn deadline(&self) -> Option<Instant>;
    /// Whether nothing is under way any more.
    fn is_idle(&self) -> bool;
    /// Says what is still under way, for a report.
    fn status(&self) -> String;
}
