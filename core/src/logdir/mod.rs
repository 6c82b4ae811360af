//! A log directory as a whole: its owner, its start, its checkpoints, its group commit, its end.

pub mod files;
mod flusher;
mod startup;

pub use flusher::Flusher;
pub use startup::{Found, StartError, Startup};
