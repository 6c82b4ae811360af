//! One partition's log: segments, indexes, epochs, and every file operation they need.
//!
//! A [`Log`] is a machine without IO: it submits [`FileOp`](crate::storage::FileOp)s, takes their completions, and says
//! what happened as [`LogEvent`]s. It decides every byte in the partition's folder, in Kafka's layout.
//!
//! | state | answers | leads to |
//! | --- | --- | --- |
//! | closed | nothing; nothing was read | opening by [`Log::open`] |
//! | opening | nothing yet; see the steps of recovery | open, offline |
//! | open | appends, reads, look-ups, flushes | opening by a truncation, offline, deleting |
//! | offline | nothing; a file and a reason were named | deleting by [`Log::delete`] |
//! | deleting | nothing | deleted |
//!
//! Three offsets say how far the log is: [`Log::end`] is assigned, [`Log::written_end`] is in the page cache without
//! gaps, [`Log::flushed_end`] is durable together with the directory entries it depends on. They never fall but by a
//! truncation or a failed write.
//!
//! What the host must guarantee, beside the storage contract: completions of this log's [`Owner`](crate::storage::Owner)
//! come here; a [`FlushSet`] is submitted at once, before any other input, and [`Log::flush_done`] follows its success;
//! a failed sync, in a flush set or told by [`LogEvent::SyncFailed`], ends the whole log directory; the recovery-point
//! checkpoint never exceeds [`Log::recovery_point`], and is lowered durably before a truncation below it.

mod append;
pub mod checkpoint;
mod config;
mod delete;
mod epoch_cache;
mod epoch_file;
mod event;
mod flush;
mod in_hand;
mod index_files;
mod index_progress;
mod index_search;
mod job;
mod kept;
mod lookup;
mod machine;
mod memory_index;
mod offset_index;
mod open_files;
pub mod partition_metadata;
mod probe;
mod read;
mod rebuild;
mod recovery;
mod retention;
mod scan;
mod segment;
mod slice;
mod tail;
mod time_index;

#[cfg(test)]
pub(crate) mod tests;

pub use config::{LogConfig, OpenHint};
pub use event::{
    AppendBatch, AppendError, Appended, FetchSlice, FoundOffset, LogContext, LogEvent,
    LookupOutcome, LookupTarget, ReadError, ReadId, ReadOutcome, ReadRequest,
};
pub use flush::{FlushMark, FlushSet};
pub use machine::Log;
pub use probe::{LogProbe, LogState};
pub use scan::HEADER_BYTES;
