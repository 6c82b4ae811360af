//! Links to other nodes: connections that this node dials, and the calls that go over them.
//!
//! **What it decides.** When to dial whom, what is sent on which connection, which answer belongs to which call, and when
//! to give up. A machine names a node and a [`Lane`], hands over a request's body, and is told once how it ended. Lanes to
//! one node are connections of their own, so that the quorum's log does not wait behind data.
//!
//! | state of a link | a call | the driver | a deadline |
//! | --- | --- | --- | --- |
//! | down | waits; the link dials, once its back-off is over | | waiting calls time out |
//! | dialling | waits | stands: what waits is sent; failed: every call is [`CallError::LinkLost`] | given up, as if failed |
//! | up | sent, at most so many at once, the rest wait | gone: every call is [`CallError::LinkLost`] | a sent call: the link is given up, for answers come in order; a waiting one: only that call |
//!
//! A connection is of no more use once it brings anything but the answer to its oldest call, in the size that the call
//! allows. Connections are numbered and never reused: whatever comes of an earlier one is ignored. What is kept is bounded:
//! calls and bytes that wait, calls in flight, and the size of each answer.
//!
//! **What the host must guarantee.** It performs [`PeerOutput`]s in order, tells the end of each dial and of each
//! connection, and calls [`Peers::on_timeout`] at [`Peers::deadline`]. It may lose a connection at any time, and need not
//! tell of one that it was asked to close.

mod call;
mod config;
mod link;
mod peers;
#[cfg(test)]
mod tests;

pub use self::{
    call::{Answer, Call, CallError, CallId, Lane, PeerOutput},
    config::{LaneConfig, PeerConfig},
    peers::Peers,
};
