//! The `seedlog` command as a process of its own, spoken to in raw frames.

#![expect(
    clippy::unwrap_used,
    reason = "what these helpers cannot get is the failure of the test that asked"
)]

mod client;
mod kills;
mod process;
mod start;
mod trace;
