//! The driver with a machine of a few lines: real sockets, real files, real signals.

#![expect(
    clippy::unwrap_used,
    reason = "what these helpers cannot get is the failure of the test that asked"
)]

mod dialling;
mod signals;
mod sockets;
mod toy;
