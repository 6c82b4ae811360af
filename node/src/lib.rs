//! The production driver of Seedlog: sockets, files, configuration and the command line around the sans-IO core.
//!
//! It decides nothing that could lose data: every decision is the core's, which the simulator drives as well. Read
//! [`shard`] first, the loop that owns a machine and its sockets, then [`files`], which performs its file operations.

pub mod cli;
pub mod client;
mod clock;
pub mod config;
pub mod files;
pub mod logging;
mod machine;
mod node;
pub mod shard;

pub use clock::Clock;
pub use machine::Machine;
pub use node::{StartError, run};
