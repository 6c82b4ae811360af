//! The driver with a machine of a few lines: real sockets, real files, real signals.

mod signals;
mod sockets;
mod toy;
