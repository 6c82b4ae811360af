//! The final drain: a fresh reader reads one partition from its start to its high watermark.

use seedlog_core::time::{Instant, Now};

use super::{
    reader::{EARLIEST, LATEST, next_position},
    router::{News, Router},
    wire::{FetchOptions, Target, Versions, is_misled},
};
use crate::{
    batch,
    client::{Client, ClientInput, ClientOutput},
    history::Note,
    random::Stream,
};

/// A reader of the drain.
#[derive(Debug)]
pub struct Drain {
    target: Target,
    versions: Versions,
    router: Router<Job>,
    start: Option<i64>,
    end: Option<i64>,
    position: i64,
    next_at: Instant,
    refusals: u32,
    done: bool,
}

#[derive(Clone, Copy, Debug)]
enum Job {
    Start { asked: u64 },
    End { asked: u64 },
    Fetch { asked: u64 },
}

impl Drain {
    /// Makes a reader of one partition; its place decides which of the nodes it asks first.
    #[must_use]
    pub fn new(nodes: usize, target: Target, mut stream: Stream) -> Self {
        let versions = Versions::for_nodes(nodes, &mut stream);
        let targets = vec![target.clone()];
        Self {
            versions,
            router: Router::new(nodes, target.place.0, targets, versions, stream),
            target,
            start: None,
            end: None,
            position: 0,
            next_at: Instant::ORIGIN,
            refusals: 0,
            done: false,
        }
    }

    fn on_answer(&mut self, now: Now, job: Job, bytes: &bytes::Bytes) -> Result<(), String> {
        match job {
            Job::Start { asked } => match self.versions.listed(bytes, &self.target)? {
                Ok(start) => {
                    self.start = Some(start);
                    self.position = start;
                    self.bounds(asked);
                }
                Err(code) => self.refused(now, code),
            },
            Job::End { asked } => match self.versions.listed(bytes, &self.target)? {
                Ok(end) => {
                    self.end = Some(end);
                    self.bounds(asked);
                }
                Err(code) => self.refused(now, code),
            },
            Job::Fetch { asked } => {
                let read = self.versions.fetched(bytes, &self.target)?;
                if read.code != 0 {
                    self.start = None;
                    self.end = None;
                    self.refused(now, read.code);
                    return Ok(());
                }
                let from = self.position;
                let mut records = batch::decode(&read.records);
                records.retain(|record| record.offset >= from);
                self.position = next_position(&read.records).max(from);
                self.router.note(Note::Polled {
                    place: self.target.place,
                    from,
                    records,
                    high_watermark: read.high_watermark,
                    log_start: read.log_start,
                    asked,
                });
            }
        }
        Ok(())
    }

    fn bounds(&mut self, asked: u64) {
        self.router.note(Note::Bounds {
            place: self.target.place,
            start: self.start,
            end: self.end,
            asked,
        });
    }

    fn refused(&mut self, now: Now, code: i16) {
        self.refusals += 1;
        if self.refusals.is_multiple_of(REFUSALS_NOTED) {
            self.router.note(Note::Unreadable {
                place: self.target.place,
                code,
            });
        }
        if is_misled(code) {
            self.router.misled(now);
        }
        self.next_at = now.instant.plus_millis(100);
    }

    /// Whether the next question can be asked.
    fn is_free(&self) -> bool {
        self.router.is_ready(0) && self.router.working() == 0
    }

    fn go_on(&mut self, now: Now) {
        if self.done || !self.is_free() || self.next_at > now.instant {
            return;
        }
        let asked = now.instant.as_nanos();
        let job = match (self.start, self.end) {
            (None, _) => Job::Start { asked },
            (Some(_), None) => Job::End { asked },
            (Some(start), Some(end)) if self.position >= end => {
                self.done = true;
                self.router.note(Note::Drained {
                    place: self.target.place,
                    start,
                    end,
                });
                return;
            }
            (Some(_), Some(_)) => Job::Fetch { asked },
        };
        let (versions, target, from) = (self.versions, self.target.clone(), self.position);
        let found = self.router.found(0);
        let options = FetchOptions {
            max_wait_ms: 500,
            max_bytes: 1 << 20,
            found,
            rack: None,
        };
        let node = self.router.leader(0).unwrap_or_default();
        self.router
            .send(now, node, LIMIT_MS, Some(job), |id| match job {
                Job::Start { .. } => versions.list_offsets(id, &target, found, EARLIEST),
                Job::End { .. } => versions.list_offsets(id, &target, found, LATEST),
                Job::Fetch { .. } => versions.fetch(id, &target, from, options),
            });
    }
}

impl Client for Drain {
    fn handle(&mut self, now: Now, input: ClientInput) {
        for news in self.router.handle(now, input) {
            if let News::Answer(job, bytes) = news
                && let Err(what) = self.on_answer(now, job, &bytes)
            {
                self.router.note(Note::Garbled { what });
            }
        }
        self.go_on(now);
        self.router.refresh(now);
    }

    fn poll_output(&mut self) -> Option<ClientOutput> {
        self.router.poll_output()
    }

    fn deadline(&self) -> Option<Instant> {
        if self.done {
            return None;
        }
        let next = self.is_free().then_some(self.next_at);
        self.router.deadline().into_iter().chain(next).min()
    }

    fn is_idle(&self) -> bool {
        self.done
    }

    fn status(&self) -> String {
        format!(
            "drain of {}-{} at {} of {:?}..{:?} after {} refusals",
            self.target.topic,
            self.target.partition,
            self.position,
            self.start,
            self.end,
            self.refusals
        )
    }
}

const LIMIT_MS: u64 = 5_000;
const REFUSALS_NOTED: u32 = 10;
