//! The log itself: its state, and where each completion goes.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use crate::{
    event::{Event, OfflineReason, StartReason},
    ids::{Epoch, Offset, TopicPartition, Uuid},
    planted::PlantedSet,
    storage::{Completion, FaultKind, FileOp, FilePath, Owner, StorageFault, StorageQueue},
    time::Instant,
};

use super::{
    append::InFlight,
    config::{LogConfig, OpenHint},
    delete::Deletion,
    epoch_cache::EpochCache,
    epoch_file::EpochFile,
    event::{LogContext, LogEvent, ReadError},
    flush::FlushState,
    job::Job,
    kept::Kept,
    recovery::{Recovery, Slot},
    retention::RetentionRun,
    segment::{FileKind, Segment},
    tail::Tail,
};

/// Where a log stands; see the module documentation for the table.
#[derive(Debug)]
pub(super) enum State {
    Closed,
    Opening(Box<Recovery>),
    Open,
    Offline,
    Deleting,
    Deleted,
}

/// What an operation in flight is for. Writes of batches are not here: see [`InFlight`].
#[derive(Debug)]
pub(super) enum Pending {
    /// Part of opening or truncating.
    Recovery(Slot),
    /// A new or old file of a segment is opened or created.
    Opened {
        segment: Offset,
        kind: FileKind,
        create: bool,
    },
    /// A chunk of index entries is written.
    IndexWrite {
        segment: Offset,
        kind: FileKind,
        generation: u32,
        upto: usize,
        covered: usize,
    },
    /// A file is cut to undo a failed write; this must not fail.
    Cut {
        path: FilePath,
        segment: Offset,
        kind: FileKind,
        generation: u32,
    },
    /// A file is created that is no longer wanted: it is removed afterwards.
    Doomed { path: FilePath, remover: Remover },
    /// A segment file is removed to undo a failed write; its name is free afterwards.
    Removal { path: FilePath },
    /// A job reads.
    Job(u64),
    /// A step of writing the epoch checkpoint.
    Epochs,
    /// A step of removing segments or the folder.
    Deletion(u64),
    /// A file of a fresh partition.
    Fresh { path: FilePath },
    /// Nothing depends on it.
    Ignored,
}

/// On whose behalf a file of a segment is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remover {
    /// Writes are taken back.
    Undo,
    /// The log is opened or truncated; that step waits for it.
    Recovery,
}

/// One partition's log.
#[derive(Debug)]
pub struct Log {
    pub(super) partition: TopicPartition,
    pub(super) dir: FilePath,
    pub(super) owner: Owner,
    pub(super) config: Arc<LogConfig>,
    pub(super) hint: OpenHint,
    pub(super) planted: PlantedSet,
    pub(super) state: State,
    pub(super) topic_id: Option<Uuid>,
    pub(super) start: Offset,
    pub(super) end: Offset,
    pub(super) written_end: Offset,
    pub(super) flushed_end: Offset,
    pub(super) segments: Vec<Segment>,
    pub(super) in_flight: VecDeque<InFlight>,
    pub(super) tail: Tail,
    pub(super) kept: Kept,
    pub(super) known: Vec<(Offset, Offset, u32)>,
    pub(super) epochs: EpochCache,
    pub(super) epoch_file: EpochFile,
    pub(super) pending: BTreeMap<u64, Pending>,
    pub(super) jobs: BTreeMap<u64, Job>,
    pub(super) next_job: u64,
    pub(super) deletions: BTreeMap<u64, Deletion>,
    /// Files whose removal must complete before their names may be used again.
    pub(super) removals: u32,
    /// Everything was removed so that the log begins anew; until that is durable, no checkpoint may say more than this.
    pub(super) emptied: Option<Offset>,
    pub(super) flush: FlushState,
    pub(super) retention: Option<RetentionRun>,
    pub(super) closing: bool,
    /// Whether a recovery got to its end: only then do the offsets above say what is on disk.
    pub(super) opened: bool,
}

impl Log {
    /// Makes a closed log; nothing is read before [`Log::open`].
    #[must_use]
    pub fn new(
        partition: TopicPartition,
        dir: FilePath,
        owner: Owner,
        config: Arc<LogConfig>,
        hint: OpenHint,
    ) -> Self {
        Self {
            partition,
            dir,
            owner,
            config,
            hint,
            planted: PlantedSet::NONE,
            state: State::Closed,
            topic_id: hint.fresh,
            start: hint.log_start,
            end: hint.log_start,
            written_end: hint.log_start,
            flushed_end: hint.log_start,
            segments: Vec::new(),
            in_flight: VecDeque::new(),
            tail: Tail::default(),
            kept: Kept::default(),
            known: Vec::new(),
            epochs: EpochCache::default(),
            epoch_file: EpochFile::default(),
            pending: BTreeMap::new(),
            jobs: BTreeMap::new(),
            next_job: 0,
            deletions: BTreeMap::new(),
            removals: 0,
            emptied: None,
            flush: FlushState::default(),
            retention: None,
            closing: false,
            opened: false,
        }
    }

    /// Takes the end of one of this log's operations.
    pub fn on_completion(&mut self, cx: &mut LogContext<'_>, completion: Completion) {
        let seq = completion.id.seq;
        if let Some(at) = self.find_write(seq) {
            self.on_written(cx, at, completion.result);
            return;
        }
        // An unknown operation was given up: undone by a truncation, or of a log that is offline.
        let Some(pending) = self.pending.remove(&seq) else {
            return;
        };
        let result = completion.result;
        match pending {
            Pending::Recovery(slot) => self.on_recovery(cx, slot, result),
            Pending::Opened {
                segment,
                kind,
                create,
            } => self.on_file_opened(cx, segment, kind, create, result),
            Pending::IndexWrite {
                segment,
                kind,
                generation,
                upto,
                covered,
            } => self.on_index_written(cx, segment, (kind, generation), (upto, covered), result),
            Pending::Cut {
                path,
                segment,
                kind,
                generation,
            } => self.on_cut(cx, path, segment, (kind, generation), result),
            Pending::Doomed { path, remover } => self.submit_removal(cx, path, remover),
            Pending::Removal { path } => self.on_removed(cx, path, result),
            Pending::Job(job) => self.on_job(cx, job, result),
            Pending::Epochs => self.on_epoch_step(cx, result),
            Pending::Deletion(id) => self.on_deletion_step(cx, id, result),
            Pending::Fresh { path } => {
                if let Err(fault) = result {
                    self.go_offline(cx, path, None, OfflineReason::Fault(fault));
                } else {
                    let left = self.flush.metadata_outstanding.saturating_sub(1);
                    self.flush.metadata_outstanding = left;
                    self.flush.dir_changed();
                }
            }
            Pending::Ignored => {}
        }
    }

    /// Returns when [`Log::on_timeout`] is next due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deletions.values().filter_map(Deletion::due).min()
    }

    /// Does what has come due.
    pub fn on_timeout(&mut self, cx: &mut LogContext<'_>) {
        self.run_due_deletions(cx);
    }

    /// Begins to keep the bytes of new batches until they are settled, or stops: followers read them before.
    pub fn keep_unsettled(&mut self, is_wanted: bool) {
        self.kept.want(is_wanted);
    }

    /// Takes note that records below an offset are never cut off again.
    pub fn settle_below(&mut self, offset: Offset) {
        self.kept.settle(offset);
    }

    /// Swaps the settings; they hold from the next decision on.
    pub fn set_config(&mut self, config: Arc<LogConfig>) {
        self.config = config;
    }

    /// Returns the settings.
    #[must_use]
    pub const fn config(&self) -> &Arc<LogConfig> {
        &self.config
    }

    /// Returns the partition.
    #[must_use]
    pub const fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// Returns the partition's folder.
    #[must_use]
    pub const fn dir(&self) -> &FilePath {
        &self.dir
    }

    /// Returns the topic id that the folder names.
    #[must_use]
    pub const fn topic_id(&self) -> Option<Uuid> {
        self.topic_id
    }

    /// Returns whether the log can be read and appended to.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Returns whether the log went offline.
    #[must_use]
    pub const fn is_offline(&self) -> bool {
        matches!(self.state, State::Offline)
    }

    /// Returns the first offset.
    #[must_use]
    pub const fn start(&self) -> Offset {
        self.start
    }

    /// Returns the offset that the next record will get.
    #[must_use]
    pub const fn end(&self) -> Offset {
        self.end
    }

    /// Returns one past the last offset below which everything is in the page cache.
    #[must_use]
    pub const fn written_end(&self) -> Offset {
        self.written_end
    }

    /// Returns one past the last offset below which everything is durable, directory entries included.
    #[must_use]
    pub const fn flushed_end(&self) -> Offset {
        self.flushed_end
    }

    /// Returns the size of all segments.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.segments
            .iter()
            .map(|segment| u64::from(segment.size))
            .sum()
    }

    /// Returns the latest leader epoch.
    #[must_use]
    pub fn latest_epoch(&self) -> Option<Epoch> {
        self.epochs.latest()
    }

    /// Answers OffsetForLeaderEpoch: the largest known epoch at most `epoch` and where it ends, `None` when unknown.
    #[must_use]
    pub fn epoch_end(&self, epoch: Epoch) -> Option<(Epoch, Offset)> {
        self.epochs.end_of(epoch, self.end)
    }

    /// Submits an operation and notes what it is for.
    pub(super) fn submit(&mut self, storage: &mut StorageQueue, op: FileOp, pending: Pending) {
        let id = storage.submit(self.owner, op);
        self.pending.insert(id.seq, pending);
    }

    /// Finds the segment that holds or would hold `offset`.
    pub(super) fn segment_index(&self, offset: Offset) -> Option<usize> {
        self.segments
            .partition_point(|segment| segment.base <= offset)
            .checked_sub(1)
    }

    /// Finds the segment that begins exactly at `base`.
    pub(super) fn segment_at(&mut self, base: Offset) -> Option<&mut Segment> {
        let at = self
            .segments
            .binary_search_by_key(&base, |segment| segment.base)
            .ok()?;
        self.segments.get_mut(at)
    }

    /// Returns the offset after the segment at this place.
    pub(super) fn segment_end(&self, at: usize) -> Offset {
        self.segments
            .get(at + 1)
            .map_or(self.end, |segment| segment.base)
    }

    /// Gives the log up: says so, fails what waits, and ignores what is still in flight.
    pub(super) fn go_offline(
        &mut self,
        cx: &mut LogContext<'_>,
        file: FilePath,
        at: Option<u64>,
        reason: OfflineReason,
    ) {
        if matches!(
            self.state,
            State::Offline | State::Deleting | State::Deleted
        ) {
            return;
        }
        self.state = State::Offline;
        self.pending.clear();
        if !self.in_flight.is_empty() {
            self.in_flight.clear();
            let fault = match reason {
                OfflineReason::Fault(fault) => fault,
                OfflineReason::Damaged | OfflineReason::Missing => StorageFault::new(FaultKind::Io),
            };
            cx.events.push(LogEvent::AppendFailed {
                from: self.written_end,
                fault,
            });
        }
        self.fail_jobs(cx, ReadError::Offline);
        cx.events.push(LogEvent::Notice(Event::PartitionOffline {
            partition: self.partition.clone(),
            file: file.clone(),
            at,
            reason,
        }));
        cx.events.push(LogEvent::Offline { file, at, reason });
    }

    /// Gives the log up because its host gave up the whole log directory.
    pub fn fail(&mut self, cx: &mut LogContext<'_>, fault: StorageFault) {
        let dir = self.dir.clone();
        self.go_offline(cx, dir, None, OfflineReason::Fault(fault));
    }

    /// Gives the log up after a failed sync, and says that the whole directory is in doubt.
    pub(super) fn sync_failed(
        &mut self,
        cx: &mut LogContext<'_>,
        path: FilePath,
        fault: StorageFault,
    ) {
        cx.events.push(LogEvent::SyncFailed {
            path: path.clone(),
            fault,
        });
        self.go_offline(cx, path, None, OfflineReason::Fault(fault));
    }

    /// Moves the log start and says so.
    pub(super) fn move_start(
        &mut self,
        cx: &mut LogContext<'_>,
        start: Offset,
        reason: StartReason,
    ) {
        if start <= self.start {
            return;
        }
        self.start = start;
        if self.epochs.truncate_from_start(start) {
            self.write_epochs(cx);
        }
        cx.events.push(LogEvent::StartMoved { start, reason });
        cx.events.push(LogEvent::Notice(Event::LogStartMoved {
            partition: self.partition.clone(),
            start,
            reason,
        }));
    }
}
