//! The metadata log: an ordinary log that is always flushed, with its own syncs.

use std::{mem, sync::Arc};

use bytes::{Bytes, BytesMut};

use crate::{
    batch::Batch,
    event::StartReason,
    ids::{Epoch, Offset, TopicName, TopicPartition, Uuid},
    log::{
        AppendBatch, AppendError, FetchSlice, FlushMark, FlushSet, Log, LogConfig, LogContext,
        LogEvent, OpenHint, ReadError, ReadId, ReadOutcome, ReadRequest,
    },
    storage::{Completion, FileOp, FilePath, OpId, OpResult, Owner, Part, StorageFault},
    time::Instant,
};

use super::{
    config::{RaftConfig, RaftContext},
    synced_mark::SyncedMark,
};

/// Name of the metadata topic.
const TOPIC: &str = "__cluster_metadata";
/// How much is read at once when the log is replayed.
const READ_BYTES: u32 = 1024 * 1024;

/// The log of the quorum.
///
/// One sync is under way at a time; what is written meanwhile is covered by the next. It never waits for a sync of data,
/// nor data for it.
#[derive(Debug)]
pub(super) struct MetadataLog {
    owner: Owner,
    log: Log,
    mark: SyncedMark,
    events: Vec<LogEvent>,
    flush: Option<(OpId, FlushMark)>,
    /// No sync before everything below is written: what belongs together shares one.
    flush_from: Offset,
    read: Option<Read>,
    replaying: Option<ReadId>,
    next_read: u64,
}

/// What became of the log.
#[derive(Debug)]
pub(super) enum Progress {
    /// It was opened.
    Opened,
    /// More of it is durable.
    Flushed,
    /// A part of it was read.
    Read(Bytes),
    /// A read went wrong.
    ReadFailed(ReadError),
    /// A part of it was read for a peer.
    Served(ReadId, Result<FetchSlice, ReadError>),
    /// The synced mark is lowered: the log may be truncated.
    Lowered,
    /// It is truncated.
    Truncated,
    /// An operation of this wrapper failed.
    Fault(FilePath, StorageFault),
    /// Something else happened.
    Other(LogEvent),
}

/// Batches being gathered from the file.
#[derive(Debug)]
struct Read {
    parts: std::vec::IntoIter<Part>,
    gathered: BytesMut,
    waiting_for: Option<OpId>,
}

impl MetadataLog {
    /// Returns the partition that the log is.
    pub(super) fn partition() -> TopicPartition {
        TopicPartition {
            topic: TopicName::new(TOPIC),
            partition: 0,
        }
    }

    pub(super) fn new(
        config: &RaftConfig,
        folder: FilePath,
        owner: Owner,
        (log_start, synced_mark): (Offset, Offset),
    ) -> Self {
        // Only a snapshot removes records here, never their age or the size of the log.
        let settings = LogConfig {
            segment_bytes: config.segment_bytes,
            segment_ms: config.segment_ms,
            retention_ms: -1,
            retention_bytes: -1,
            ..LogConfig::default()
        };
        let hint = OpenHint {
            log_start,
            recovery_point: synced_mark,
            fresh: Some(Uuid::METADATA_TOPIC),
            clean: config.clean,
            ..OpenHint::default()
        };
        let mark = SyncedMark::new(owner, &folder);
        let log = Log::new(Self::partition(), folder, owner, Arc::new(settings), hint);
        Self {
            owner,
            log,
            mark,
            events: Vec::new(),
            flush: None,
            flush_from: 0,
            read: None,
            replaying: None,
            next_read: 0,
        }
    }

    pub(super) fn open(&mut self, cx: &mut RaftContext<'_>) {
        self.mark.open(cx.storage);
        self.log.open(&mut context(cx, &mut self.events));
    }

    pub(super) const fn is_open(&self) -> bool {
        self.log.is_open()
    }

    /// Returns whether the next append is taken.
    pub(super) const fn is_appendable(&self) -> bool {
        self.log.is_appendable()
    }

    /// Returns the epoch of the last entry, as far as the log itself says.
    pub(super) fn latest_epoch(&self) -> Option<Epoch> {
        self.log.latest_epoch()
    }

    /// Returns the largest known epoch at most `epoch` and where it ends.
    pub(super) fn end_of(&self, epoch: Epoch) -> Option<(Epoch, Offset)> {
        self.log.epoch_end(epoch)
    }

    pub(super) const fn start(&self) -> Offset {
        self.log.start()
    }

    pub(super) const fn end(&self) -> Offset {
        self.log.end()
    }

    pub(super) const fn written_end(&self) -> Offset {
        self.log.written_end()
    }

    pub(super) const fn flushed_end(&self) -> Offset {
        self.log.flushed_end()
    }

    pub(super) fn recovery_point(&self) -> Offset {
        self.log.recovery_point()
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.log.size_bytes()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.log
            .deadline()
            .into_iter()
            .chain(self.mark.deadline())
            .min()
    }

    pub(super) fn on_timeout(&mut self, cx: &mut RaftContext<'_>) {
        self.mark.on_timeout(cx.storage, cx.now);
        self.log.on_timeout(&mut context(cx, &mut self.events));
    }

    pub(super) fn close(&mut self, cx: &mut RaftContext<'_>) {
        self.log.close(&mut context(cx, &mut self.events));
    }

    /// Appends a batch whose base offset is the log's end.
    pub(super) fn append(
        &mut self,
        cx: &mut RaftContext<'_>,
        batch: &Batch,
        epoch: Epoch,
    ) -> Result<(), AppendError> {
        let batch = AppendBatch {
            head: *batch.head(),
            body: batch.body().clone(),
        };
        self.log
            .append(&mut context(cx, &mut self.events), batch, epoch)
            .map(|_| ())
    }

    /// Appends a batch that a leader has assigned, as it is.
    pub(super) fn append_fetched(
        &mut self,
        cx: &mut RaftContext<'_>,
        batch: AppendBatch,
    ) -> Result<(), AppendError> {
        self.log
            .append_as_is(&mut context(cx, &mut self.events), batch)
            .map(|_| ())
    }

    /// Keeps the synced mark from being written until [`MetadataLog::release_mark`].
    pub(super) const fn hold_mark(&mut self) {
        self.mark.hold();
    }

    /// Lets the synced mark follow the log.
    pub(super) fn release_mark(&mut self, cx: &mut RaftContext<'_>) {
        self.mark.release();
        self.advance_mark(cx);
    }

    /// Starts to lower the synced mark; [`Progress::Lowered`] follows.
    pub(super) fn lower_mark(&mut self, cx: &mut RaftContext<'_>, to: Offset) {
        self.mark.lower(cx.storage, to);
    }

    /// Removes every batch that reaches `end` or beyond; the mark must be lowered. [`Progress::Truncated`] follows.
    pub(super) fn truncate(&mut self, cx: &mut RaftContext<'_>, end: Offset) {
        self.flush_from = self.flush_from.min(end);
        self.log
            .truncate_to(&mut context(cx, &mut self.events), end);
    }

    /// Removes everything, so that the log begins at `start`; the mark must be lowered. [`Progress::Truncated`] follows.
    pub(super) fn restart_at(&mut self, cx: &mut RaftContext<'_>, start: Offset) {
        self.flush_from = start;
        self.log
            .truncate_fully_and_start_at(&mut context(cx, &mut self.events), start);
    }

    /// Moves the log start to the end of a durable snapshot and removes the segments before it.
    pub(super) fn move_start(&mut self, cx: &mut RaftContext<'_>, start: Offset) {
        self.log.delete_before(
            &mut context(cx, &mut self.events),
            start,
            StartReason::Snapshot,
        );
    }

    /// Starts to read from `offset`; [`Progress::Read`] or [`Progress::ReadFailed`] follows.
    pub(super) fn read(&mut self, cx: &mut RaftContext<'_>, offset: Offset) -> Option<Progress> {
        let (id, outcome) = self.begin_read(cx, offset, READ_BYTES);
        match outcome {
            ReadOutcome::Ready(slice) => self.gather(cx, slice),
            ReadOutcome::Pending => {
                self.replaying = Some(id);
                None
            }
            ReadOutcome::Failed(error) => Some(Progress::ReadFailed(error)),
        }
    }

    /// Reads whole batches from `offset` on for a peer; [`Progress::Served`] follows an outcome that is pending.
    pub(super) fn serve(
        &mut self,
        cx: &mut RaftContext<'_>,
        offset: Offset,
        max_bytes: u32,
    ) -> (ReadId, ReadOutcome) {
        self.begin_read(cx, offset, max_bytes)
    }

    fn begin_read(
        &mut self,
        cx: &mut RaftContext<'_>,
        offset: Offset,
        max_bytes: u32,
    ) -> (ReadId, ReadOutcome) {
        self.next_read += 1;
        let id = ReadId(self.next_read);
        let request = ReadRequest {
            offset,
            max_bytes,
            min_one_batch: true,
            limit: self.log.end(),
            settled: Offset::MAX,
            id,
        };
        let outcome = self.log.read(&mut context(cx, &mut self.events), request);
        (id, outcome)
    }

    fn gather(&mut self, cx: &mut RaftContext<'_>, slice: FetchSlice) -> Option<Progress> {
        self.read = Some(Read {
            gathered: BytesMut::with_capacity(slice.size),
            parts: slice.parts.into_iter(),
            waiting_for: None,
        });
        self.gather_next(cx)
    }

    fn gather_next(&mut self, cx: &mut RaftContext<'_>) -> Option<Progress> {
        let read = self.read.as_mut()?;
        for part in read.parts.by_ref() {
            match part {
                Part::Bytes(bytes) => read.gathered.extend_from_slice(&bytes),
                Part::File(range) => {
                    let op = FileOp::Read {
                        file: range.file,
                        at: range.at,
                        len: range.len,
                    };
                    read.waiting_for = Some(cx.storage.submit(self.owner, op));
                    return None;
                }
            }
        }
        let read = self.read.take()?;
        Some(Progress::Read(read.gathered.freeze()))
    }

    /// Makes one sync cover everything appended so far that is not synced yet.
    pub(super) const fn flush_together(&mut self) {
        self.flush_from = self.log.end();
    }

    /// Submits a sync of everything written, unless one is under way.
    pub(super) fn flush(&mut self, cx: &mut RaftContext<'_>) {
        // A truncation may have taken away what was to be waited for.
        let flush_from = self.flush_from.min(self.log.end());
        if self.flush.is_some() || self.log.written_end() < flush_from {
            return;
        }
        let mut set = FlushSet::default();
        if let Some(mark) = self.log.flush_set(&mut set) {
            self.mark.join(&mut set.files, &mut set.dirs);
            let op = cx.storage.submit(self.owner, set.into_op());
            self.flush = Some((op, mark));
        }
    }

    /// Takes a completion and says what followed from it, in order.
    pub(super) fn on_completion(
        &mut self,
        cx: &mut RaftContext<'_>,
        completion: Completion,
    ) -> Vec<Progress> {
        let mut progress = Vec::new();
        if let Some((op, mark)) = self.flush
            && op == completion.id
        {
            self.flush = None;
            match completion.result {
                Ok(_) => {
                    self.log
                        .flush_done(&mut context(cx, &mut self.events), mark);
                    self.advance_mark(cx);
                    progress.push(Progress::Flushed);
                }
                Err(fault) => {
                    progress.push(Progress::Fault(self.log.dir().clone(), fault));
                }
            }
        } else if self.mark.awaits(completion.id) {
            match self.mark.on_completion(cx.storage, completion) {
                Ok(true) => progress.push(Progress::Lowered),
                Ok(false) => {}
                Err(fault) => progress.push(Progress::Fault(self.mark.path().clone(), fault)),
            }
        } else if self.read.as_ref().and_then(|read| read.waiting_for) == Some(completion.id) {
            progress.extend(self.on_read(cx, completion.result));
        } else {
            self.log
                .on_completion(&mut context(cx, &mut self.events), completion);
        }
        progress.extend(self.take_progress(cx));
        progress
    }

    /// The mark is the log's recovery point, which waits for epochs and indexes as well as for records.
    fn advance_mark(&mut self, cx: &mut RaftContext<'_>) {
        let synced = self.log.recovery_point();
        self.mark.advance(cx.storage, cx.now, synced);
    }

    fn on_read(
        &mut self,
        cx: &mut RaftContext<'_>,
        result: Result<OpResult, StorageFault>,
    ) -> Option<Progress> {
        match result {
            Ok(result) => {
                let read = self.read.as_mut()?;
                read.waiting_for = None;
                read.gathered.extend_from_slice(&result.into_data());
                self.gather_next(cx)
            }
            Err(fault) => {
                self.read = None;
                Some(Progress::Fault(self.log.dir().clone(), fault))
            }
        }
    }

    /// Takes what the log said since the last time.
    pub(super) fn take_progress(&mut self, cx: &mut RaftContext<'_>) -> Vec<Progress> {
        let mut progress = Vec::new();
        for event in mem::take(&mut self.events) {
            match event {
                LogEvent::Opened { .. } => progress.push(Progress::Opened),
                LogEvent::ReadDone { id, result } if self.replaying == Some(id) => match result {
                    Ok(slice) => progress.extend(self.gather(cx, slice)),
                    Err(error) => progress.push(Progress::ReadFailed(error)),
                },
                LogEvent::ReadDone { id, result } => progress.push(Progress::Served(id, result)),
                LogEvent::Truncated { .. } => {
                    self.mark.release();
                    progress.push(Progress::Truncated);
                }
                other => {
                    if let LogEvent::EpochRecorded { .. } = other {
                        self.advance_mark(cx);
                    }
                    progress.push(Progress::Other(other));
                }
            }
        }
        progress
    }
}

fn context<'a>(cx: &'a mut RaftContext<'_>, events: &'a mut Vec<LogEvent>) -> LogContext<'a> {
    LogContext {
        now: cx.now,
        storage: cx.storage,
        events,
        planted: cx.planted,
    }
}
