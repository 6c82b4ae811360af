//! The final drain: a fresh reader reads one partition from its start to its high watermark.

use seedlog_core::time::{Instant, Now};

use super::{
    reader::{EARLIEST, LATEST, next_position},
    session::{News, Session},
    wire::{Target, Versions},
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
    session: Session<Job>,
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
    /// Makes a reader of one partition.
    #[must_use]
    pub fn new(node: usize, target: Target, mut stream: Stream) -> Self {
        Self {
            versions: Versions::draw(&mut stream),
            session: Session::new(node, stream),
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
                self.session.note(Note::Polled {
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
        self.session.note(Note::Bounds {
            place: self.target.place,
            start: self.start,
            end: self.end,
            asked,
        });
    }

    fn refused(&mut self, now: Now, code: i16) {
        self.refusals += 1;
        if self.refusals.is_multiple_of(REFUSALS_NOTED) {
            self.session.note(Note::Unreadable {
                place: self.target.place,
                code,
            });
        }
        self.next_at = now.instant.plus_millis(100);
    }

    fn go_on(&mut self, now: Now) {
        let idle = self.session.is_open() && self.session.in_flight() == 0;
        if self.done || !idle || self.next_at > now.instant {
            return;
        }
        let asked = now.instant.as_nanos();
        let job = match (self.start, self.end) {
            (None, _) => Job::Start { asked },
            (Some(_), None) => Job::End { asked },
            (Some(start), Some(end)) if self.position >= end => {
                self.done = true;
                self.session.note(Note::Drained {
                    place: self.target.place,
                    start,
                    end,
                });
                return;
            }
            (Some(_), Some(_)) => Job::Fetch { asked },
        };
        let (versions, target, from) = (self.versions, self.target.clone(), self.position);
        self.session.send(now, LIMIT_MS, Some(job), |id| match job {
            Job::Start { .. } => versions.list_offsets(id, &target, EARLIEST),
            Job::End { .. } => versions.list_offsets(id, &target, LATEST),
            Job::Fetch { .. } => versions.fetch(id, &target, from, 500, 1 << 20),
        });
    }
}

impl Client for Drain {
    fn handle(&mut self, now: Now, input: ClientInput) {
        for news in self.session.handle(now, input) {
            if let News::Answer(job, bytes) = news
                && let Err(what) = self.on_answer(now, job, &bytes)
            {
                self.session.note(Note::Garbled { what });
            }
        }
        self.go_on(now);
    }

    fn poll_output(&mut self) -> Option<ClientOutput> {
        self.session.poll_output()
    }

    fn deadline(&self) -> Option<Instant> {
        if self.done {
            return None;
        }
        let idle = self.session.is_open() && self.session.in_flight() == 0;
        let next = idle.then_some(self.next_at);
        self.session.deadline().into_iter().chain(next).min()
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
