//! Reads in progress: fetches, look-ups, and indexes being built again.

use crate::storage::{FileOp, OpResult, StorageFault};

use super::{
    event::{LogContext, LogEvent, ReadError},
    lookup::LookupJob,
    machine::{Log, Pending},
    read::FetchJob,
    rebuild::RebuildJob,
};

/// Something that waits for a read.
#[derive(Debug)]
pub(super) enum Job {
    Fetch(FetchJob),
    Lookup(LookupJob),
    Rebuild(RebuildJob),
    /// The last time index entry of the segment with this base is read for retention.
    Retention(crate::ids::Offset),
}

impl Log {
    /// Takes a number for a job.
    pub(super) const fn new_job(&mut self) -> u64 {
        self.next_job += 1;
        self.next_job
    }

    /// Submits a read and puts the job aside until it is done.
    pub(super) fn wait_for(&mut self, cx: &mut LogContext<'_>, id: u64, job: Job, op: FileOp) {
        self.jobs.insert(id, job);
        self.submit(cx.storage, op, Pending::Job(id));
    }

    pub(super) fn on_job(
        &mut self,
        cx: &mut LogContext<'_>,
        id: u64,
        result: Result<OpResult, StorageFault>,
    ) {
        let result = result.map(OpResult::into_data);
        match self.jobs.remove(&id) {
            Some(Job::Fetch(job)) => self.on_fetch(cx, id, job, result),
            Some(Job::Lookup(job)) => self.on_lookup(cx, id, job, result),
            Some(Job::Rebuild(job)) => self.on_rebuild(cx, id, job, result),
            Some(Job::Retention(base)) => self.on_retention(cx, base, result),
            None => {}
        }
    }

    /// Ends every job with an error.
    pub(super) fn fail_jobs(&mut self, cx: &mut LogContext<'_>, error: ReadError) {
        for (_, job) in std::mem::take(&mut self.jobs) {
            match job {
                Job::Fetch(job) => cx.events.push(LogEvent::ReadDone {
                    id: job.request.id,
                    result: Err(error),
                }),
                Job::Lookup(job) => cx.events.push(LogEvent::LookupDone {
                    id: job.id,
                    result: Err(error),
                }),
                Job::Rebuild(_) | Job::Retention(_) => {}
            }
        }
    }
}
