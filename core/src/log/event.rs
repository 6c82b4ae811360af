//! What a log says to its host, and what a host asks of it.

use bytes::Bytes;

use crate::{
    event::{Event, OfflineReason, StartReason},
    ids::{Epoch, Offset, Uuid},
    planted::PlantedSet,
    storage::{FilePath, Part, StorageFault, StorageQueue},
    time::{Now, Timestamp},
};

use super::scan::{BatchFacts, HEADER_BYTES};

/// What every call that may do something needs: the time, where to submit file operations, where to say what happened.
#[derive(Debug)]
pub struct LogContext<'a> {
    /// Both clocks.
    pub now: Now,
    /// File operations on their way out.
    pub storage: &'a mut StorageQueue,
    /// What the log has to say.
    pub events: &'a mut Vec<LogEvent>,
    /// Historical bugs switched on; always none in a release.
    pub planted: PlantedSet,
}

/// The caller's number for a read or look-up; unique among those in flight on one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadId(pub u64);

/// Something that happened in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// Recovery is done: the log can be read and appended to.
    Opened {
        /// First offset.
        start: Offset,
        /// One past the last offset.
        end: Offset,
        /// Whether batches were read and checked.
        recovered: bool,
        /// The topic id that the folder names, if it does.
        topic_id: Option<Uuid>,
    },
    /// Every record below `end` is in the page cache.
    Written {
        /// The new written end.
        end: Offset,
    },
    /// Everything from `from` on could not be written and is undone; the log end is `from` again.
    AppendFailed {
        /// First offset undone.
        from: Offset,
        /// Why.
        fault: StorageFault,
    },
    /// A pending read ended.
    ReadDone {
        /// The caller's number.
        id: ReadId,
        /// What was read.
        result: Result<FetchSlice, ReadError>,
    },
    /// A pending look-up ended.
    LookupDone {
        /// The caller's number.
        id: ReadId,
        /// What was found.
        result: Result<Option<FoundOffset>, ReadError>,
    },
    /// Retention no longer keeps what lies below `start`. Nothing has changed: make the new start durable, then call
    /// [`Log::delete_before`](super::Log::delete_before).
    RetentionDue {
        /// The start that retention leaves.
        start: Offset,
        /// Which rule.
        reason: StartReason,
    },
    /// The log start moved.
    StartMoved {
        /// The new start.
        start: Offset,
        /// Why.
        reason: StartReason,
    },
    /// The entry of an epoch is durable in `leader-epoch-checkpoint`.
    EpochRecorded {
        /// The latest durable epoch.
        epoch: Epoch,
    },
    /// A truncation asked for is complete.
    Truncated {
        /// The log end.
        end: Offset,
    },
    /// Everything asked for by a close is written and durable.
    Closed,
    /// The log cannot be served any more. Nothing but `delete` is possible.
    Offline {
        /// The file at fault.
        file: FilePath,
        /// Position of the damage, where it is known.
        at: Option<u64>,
        /// What is wrong.
        reason: OfflineReason,
    },
    /// A sync of this log failed: what is durable in the whole log directory is unknown.
    SyncFailed {
        /// What was synced.
        path: FilePath,
        /// Why it failed.
        fault: StorageFault,
    },
    /// The log is being deleted, and the name of its folder is durably free.
    Unlinked,
    /// A whole-log deletion is complete: nothing is left on disk.
    Deleted,
    /// For people and checkers; to be passed on as it is.
    Notice(Event),
}

/// One whole validated batch, as header and records, about to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendBatch {
    /// The header; base offset and leader epoch are overwritten.
    pub head: [u8; HEADER_BYTES],
    /// The records, compressed or not.
    pub body: Bytes,
}

impl AppendBatch {
    /// Splits the bytes of exactly one batch; `None` when their number is not what the header says.
    #[must_use]
    pub fn split(bytes: &Bytes) -> Option<Self> {
        let head = *bytes.first_chunk::<HEADER_BYTES>()?;
        let facts = BatchFacts::read(&head)?;
        (usize::try_from(facts.size).ok()? == bytes.len()).then(|| Self {
            head,
            body: bytes.slice(HEADER_BYTES..),
        })
    }
}

impl From<crate::batch::Batch> for AppendBatch {
    fn from(batch: crate::batch::Batch) -> Self {
        Self {
            head: *batch.head(),
            body: batch.body().clone(),
        }
    }
}

/// An append that was taken: its offsets are assigned and its write is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Offset of the last record.
    pub last_offset: Offset,
    /// The broker's timestamp, when the batch carries one (`LogAppendTime`).
    pub log_append_time: Option<Timestamp>,
    /// The log start at that moment.
    pub log_start: Offset,
}

/// An append that was not taken; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The log is not open yet, or is being truncated; try again.
    #[error("the log is not open")]
    NotOpen,
    /// The log went offline.
    #[error("the log is offline")]
    Offline,
    /// The batch is not one, or its last offset does not fit.
    #[error("not a batch that can be appended")]
    Malformed,
    /// The epoch is older than one that this log has seen.
    #[error("epoch {given} is older than {latest}")]
    StaleEpoch {
        /// What was given.
        given: Epoch,
        /// The latest known.
        latest: Epoch,
    },
    /// A batch with preassigned offsets does not continue the log.
    #[error("offset {found} does not continue the log at {expected}")]
    Unordered {
        /// The log end.
        expected: Offset,
        /// The batch's base offset.
        found: Offset,
    },
}

/// A read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// Where to begin; inside a batch returns that batch.
    pub offset: Offset,
    /// How many bytes at most.
    pub max_bytes: u32,
    /// Whether the first batch is returned whole even if it is larger than `max_bytes`.
    pub min_one_batch: bool,
    /// No record at or past this offset is returned, nor any byte of its batch.
    pub limit: Offset,
    /// Records below are never cut off again, so that a range of the file may stand for them. Whoever promises a range of
    /// what lies past it promises bytes that a truncation may replace; so that is always answered with bytes.
    pub settled: Offset,
    /// The caller's number.
    pub id: ReadId,
}

impl ReadRequest {
    /// Returns below which offset a range of the file may be the answer.
    pub(super) fn range_limit(&self) -> Offset {
        self.limit.min(self.settled)
    }
}

/// How a read began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// It is done.
    Ready(FetchSlice),
    /// [`LogEvent::ReadDone`] follows.
    Pending,
    /// It cannot be done.
    Failed(ReadError),
}

/// Why nothing can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The offset is below the start or past the end.
    #[error("offset is not within [{start}, {end}]")]
    OutOfRange {
        /// The log start.
        start: Offset,
        /// The log end.
        end: Offset,
    },
    /// The log is not open yet, or is being truncated; try again.
    #[error("the log is not open")]
    NotOpen,
    /// The log went offline.
    #[error("the log is offline")]
    Offline,
    /// A batch found by its header holds records that cannot be unpacked or parsed.
    #[error("records cannot be read")]
    Unreadable,
}

/// Whole batches, in order, from one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchSlice {
    /// The bytes.
    pub parts: Vec<Part>,
    /// How many there are.
    pub size: usize,
    /// Base offset of the first batch; the offset asked for when there is none.
    pub base_offset: Offset,
    /// Offset after the last batch; the offset asked for when there is none.
    pub next_offset: Offset,
}

/// What a look-up asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupTarget {
    /// The log start (-2).
    Earliest,
    /// The log end (-1).
    Latest,
    /// The record with the largest timestamp (-3).
    MaxTimestamp,
    /// The first record at or after this time.
    Timestamp(i64),
}

/// How a look-up began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupOutcome {
    /// It is done; `None` when no record fits.
    Ready(Option<FoundOffset>),
    /// [`LogEvent::LookupDone`] follows.
    Pending,
    /// It cannot be done.
    Failed(ReadError),
}

/// A record found by a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundOffset {
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp, -1 for the start and the end of the log.
    pub timestamp: i64,
    /// The epoch of its leader, where known.
    pub epoch: Option<Epoch>,
}
