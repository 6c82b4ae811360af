//! A log directory as a whole: its owner, its start, its checkpoints, its group commit, its end.

mod checkpoints;
pub mod files;
mod flusher;
mod log_starts;
mod startup;
mod synced_marks;

pub use checkpoints::{CheckpointKind, Checkpoints};
pub use flusher::Flusher;
pub use log_starts::LogStarts;
pub use startup::{Found, StartError, Startup};
pub use synced_marks::SyncedMarks;
