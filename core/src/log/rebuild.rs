//! Building the indexes of a sealed segment again from its batches, when they are missing or were found to be wrong.

use bytes::Bytes;

use crate::{
    event::OfflineReason,
    ids::Offset,
    storage::{FileOp, StorageFault},
};

use super::{
    event::LogContext,
    job::Job,
    machine::{Log, Pending},
    memory_index::{MemoryIndex, NewBatch},
    read::{Cursor, Walk, WalkEnd},
    scan::{BatchFacts, Chain, crc_fits},
    segment::{FileKind, Indexes},
};

/// How much is read at once.
const CHUNK_BYTES: u32 = 1 << 20;

/// A rebuild in progress.
#[derive(Debug)]
pub(super) struct RebuildJob {
    segment: Offset,
    generation: u32,
    cursor: Cursor,
    index: MemoryIndex,
}

impl Log {
    /// Builds the indexes of a segment again, unless that is under way. Jobs that wait for it plan anew afterwards.
    pub(super) fn rebuild(&mut self, cx: &mut LogContext<'_>, base: Offset) {
        let is_running = |job: &Job| matches!(job, Job::Rebuild(job) if job.segment == base);
        if self.jobs.values().any(is_running) {
            return;
        }
        let may_skip = self.config.compact;
        let Some(segment) = self.segment_at(base) else {
            return;
        };
        segment.indexes = Indexes::Broken;
        let job = RebuildJob {
            segment: base,
            generation: segment.log.generation.0,
            cursor: Cursor {
                at: 0,
                asked: 0,
                chain: Chain::at(base, may_skip),
                from_index: false,
                is_exact: false,
            },
            index: MemoryIndex::new(base),
        };
        let id = self.new_job();
        self.rebuild_read(cx, id, job, 0);
    }

    fn rebuild_read(&mut self, cx: &mut LogContext<'_>, id: u64, mut job: RebuildJob, need: u32) {
        let want = CHUNK_BYTES.max(need);
        match self.data_read(cx, job.segment, &mut job.cursor, want) {
            Some(op) => self.wait_for(cx, id, Job::Rebuild(job), op),
            None => self.rebuilt(cx, job),
        }
    }

    pub(super) fn on_rebuild(
        &mut self,
        cx: &mut LogContext<'_>,
        id: u64,
        mut job: RebuildJob,
        result: Result<Bytes, StorageFault>,
    ) {
        let generation = job.generation;
        let is_same = self
            .segment_at(job.segment)
            .is_some_and(|segment| segment.log.generation.0 == generation);
        if !is_same {
            self.wake_waiting(cx, job.segment);
            return;
        }
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(fault) => return self.unreadable(cx, job.segment, job.cursor.at, fault),
        };
        let interval = self.config.index_interval_bytes;
        let start = job.cursor.at;
        let index = &mut job.index;
        let mut first = None;
        let end = self.walk(job.segment, &mut job.cursor, &bytes, |facts, at, batch| {
            if !crc_fits(batch) {
                return Walk::Stop;
            }
            let position = u32::try_from(at).unwrap_or(u32::MAX).saturating_add(start);
            first.get_or_insert(facts.max_timestamp);
            note(index, facts, position, interval);
            Walk::On
        });
        if let (0, Some(segment)) = (start, self.segment_at(job.segment)) {
            segment.first_timestamp = first;
        }
        match end {
            WalkEnd::More(need) => self.rebuild_read(cx, id, job, need),
            WalkEnd::EndOfSegment => self.rebuilt(cx, job),
            WalkEnd::Short => self.damaged(cx, job.segment, job.cursor.at, OfflineReason::Missing),
            WalkEnd::Bad | WalkEnd::Stopped => {
                self.damaged(cx, job.segment, job.cursor.at, OfflineReason::Damaged);
            }
        }
    }

    fn rebuilt(&mut self, cx: &mut LogContext<'_>, job: RebuildJob) {
        let Some(at) = self.segment_index(job.segment) else {
            return;
        };
        let end = self.segment_end(at);
        let is_whole = job
            .cursor
            .chain
            .next()
            .is_none_or(|next| next == end || (self.config.compact && next < end));
        if !is_whole {
            self.damaged(cx, job.segment, job.cursor.at, OfflineReason::Missing);
            return;
        }
        let mut index = job.index;
        index.finish();
        self.segments[at].indexes = Indexes::Memory(Box::new(index));
        self.flush.index_rebuilt(job.segment);
        for kind in [FileKind::OffsetIndex, FileKind::TimeIndex] {
            self.recreate(cx, at, kind);
        }
        self.note_rebuilt(cx, at, FileKind::OffsetIndex);
        self.write_times(cx, at);
        self.wake_waiting(cx, job.segment);
    }

    /// Opens an index file anew, empty.
    fn recreate(&mut self, cx: &mut LogContext<'_>, at: usize, kind: FileKind) {
        let path = self.segments[at].path(&self.dir, kind);
        let base = self.segments[at].base;
        let handle = self.segments[at].handle_mut(kind);
        let old = handle.id.take();
        let file = cx.storage.new_file();
        handle.id = Some(file);
        handle.bump();
        if let Some(file) = old {
            self.close_file(cx, file);
        }
        let generation = self.segments[at].handle(kind).generation.0;
        if let Some(index) = self.segments[at].memory_mut() {
            index.cut_submitted(kind, generation);
        }
        let open = FileOp::Open {
            file,
            path: path.clone(),
            create: true,
        };
        let pending = Pending::Opened {
            segment: base,
            kind,
            create: true,
        };
        self.submit(cx.storage, open, pending);
        let cut = FileOp::Truncate { file, len: 0 };
        let pending = Pending::Cut {
            path,
            segment: base,
            kind,
            generation,
        };
        self.submit(cx.storage, cut, pending);
    }

    /// Plans jobs anew that waited for the indexes of a segment.
    fn wake_waiting(&mut self, cx: &mut LogContext<'_>, base: Offset) {
        let waiting: Vec<u64> = self
            .jobs
            .iter()
            .filter(|(_, job)| match job {
                Job::Fetch(job) => job.waits_for(base),
                Job::Lookup(job) => job.waits_for(base),
                Job::Rebuild(_) | Job::Retention(_) => false,
            })
            .map(|(id, _)| *id)
            .collect();
        for id in waiting {
            match self.jobs.remove(&id) {
                Some(Job::Fetch(job)) => self.on_fetch(cx, id, job, Ok(Bytes::new())),
                Some(Job::Lookup(job)) => self.drive_lookup(cx, id, job),
                Some(Job::Rebuild(_) | Job::Retention(_)) | None => {}
            }
        }
        self.resume_retention(cx);
    }
}

fn note(index: &mut MemoryIndex, facts: &BatchFacts, position: u32, interval: u32) {
    index.on_batch(
        NewBatch {
            last: facts.last,
            position,
            size: facts.size,
            max_timestamp: facts.max_timestamp,
        },
        interval,
    );
}
