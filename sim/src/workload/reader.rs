//! A reader with manual assignment: follows partitions from their start, with long polls.

use seedlog_core::time::{Instant, Now};

use super::{
    session::{News, Session},
    wire::{OUT_OF_RANGE, Target, Versions},
};
use crate::{
    batch::{self, BatchHeader},
    client::{Client, ClientInput, ClientOutput},
    history::Note,
    random::Stream,
};

/// How a reader behaves.
#[derive(Clone, Debug)]
pub struct ReaderProfile {
    /// What it reads.
    pub targets: Vec<Target>,
    /// `fetch.max.wait.ms`.
    pub max_wait_ms: u64,
    /// `max.partition.fetch.bytes`.
    pub max_bytes: u64,
    /// Milliseconds between polls that found something.
    pub pause_ms: (u64, u64),
    /// How many polls in a thousand are preceded by a question for start and end.
    pub bounds_permille: u32,
}

/// A reading client.
#[derive(Debug)]
pub struct Reader {
    profile: ReaderProfile,
    versions: Versions,
    session: Session<Job>,
    positions: Vec<i64>,
    turn: usize,
    next_at: Instant,
    winding_down: bool,
}

#[derive(Clone, Copy, Debug)]
enum Job {
    Fetch {
        target: usize,
        from: i64,
        asked: u64,
    },
    Start {
        target: usize,
        asked: u64,
    },
    End {
        target: usize,
        asked: u64,
    },
}

impl Reader {
    /// Makes a reader.
    #[must_use]
    pub fn new(node: usize, profile: ReaderProfile, mut stream: Stream) -> Self {
        Self {
            versions: Versions::draw(&mut stream),
            session: Session::new(node, stream),
            positions: vec![0; profile.targets.len()],
            profile,
            turn: 0,
            next_at: Instant::ORIGIN,
            winding_down: false,
        }
    }

    fn on_news(&mut self, now: Now, news: News<Job>) {
        match news {
            News::Open | News::Lost(_) => {}
            News::Answer(
                Job::Fetch {
                    target,
                    from,
                    asked,
                },
                bytes,
            ) => {
                let read = self.versions.fetched(&bytes, &self.profile.targets[target]);
                match read {
                    Ok(read) if read.code == 0 => {
                        self.polled(now, target, from, asked, &read);
                    }
                    Ok(read) => self.refused(now, target, read.code),
                    Err(what) => self.session.note(Note::Garbled { what }),
                }
            }
            News::Answer(Job::Start { target, asked }, bytes) => {
                let place = self.profile.targets[target].place;
                match self.versions.listed(&bytes, &self.profile.targets[target]) {
                    Ok(Ok(start)) => {
                        self.positions[target] = self.positions[target].max(start);
                        self.session.note(Note::Bounds {
                            place,
                            start: Some(start),
                            end: None,
                            asked,
                        });
                    }
                    Ok(Err(_)) => self.wait(now, 50, 200),
                    Err(what) => self.session.note(Note::Garbled { what }),
                }
            }
            News::Answer(Job::End { target, asked }, bytes) => {
                let place = self.profile.targets[target].place;
                match self.versions.listed(&bytes, &self.profile.targets[target]) {
                    Ok(Ok(end)) => self.session.note(Note::Bounds {
                        place,
                        start: None,
                        end: Some(end),
                        asked,
                    }),
                    Ok(Err(_)) => self.wait(now, 50, 200),
                    Err(what) => self.session.note(Note::Garbled { what }),
                }
            }
        }
    }

    fn polled(
        &mut self,
        now: Now,
        target: usize,
        from: i64,
        asked: u64,
        read: &super::wire::Fetched,
    ) {
        let mut records = batch::decode(&read.records);
        records.retain(|record| record.offset >= from);
        self.positions[target] = next_position(&read.records).max(from);
        if !records.is_empty() {
            let (low, high) = self.profile.pause_ms;
            self.wait(now, low, high);
        }
        self.session.note(Note::Polled {
            place: self.profile.targets[target].place,
            from,
            records,
            high_watermark: read.high_watermark,
            log_start: read.log_start,
            asked,
        });
    }

    fn refused(&mut self, now: Now, target: usize, code: i16) {
        if code == OUT_OF_RANGE {
            // Kafka's `auto.offset.reset=earliest`.
            self.positions[target] = 0;
            let asked = now.instant.as_nanos();
            self.ask(now, Job::Start { target, asked });
        }
        self.wait(now, 50, 200);
    }

    fn wait(&mut self, now: Now, low: u64, high: u64) {
        let pause = self.session.stream().within(low..=high.max(low));
        self.next_at = self.next_at.max(now.instant.plus_millis(pause));
    }

    fn go_on(&mut self, now: Now) {
        let idle = self.session.is_open() && self.session.in_flight() == 0;
        if !idle || self.winding_down || self.next_at > now.instant {
            return;
        }
        self.turn = (self.turn + 1) % self.profile.targets.len();
        let target = self.turn;
        let asked = now.instant.as_nanos();
        if self.session.stream().permille(self.profile.bounds_permille) {
            self.ask(now, Job::Start { target, asked });
            self.ask(now, Job::End { target, asked });
        }
        let job = Job::Fetch {
            target,
            from: self.positions[target],
            asked,
        };
        self.ask(now, job);
    }

    fn ask(&mut self, now: Now, job: Job) {
        let versions = self.versions;
        let wait = i32::try_from(self.profile.max_wait_ms).unwrap_or(i32::MAX);
        let max_bytes = i32::try_from(self.profile.max_bytes).unwrap_or(i32::MAX);
        let limit = self.profile.max_wait_ms + SLACK_MS;
        let targets = self.profile.targets.clone();
        self.session.send(now, limit, Some(job), |id| match job {
            Job::Fetch { target, from, .. } => {
                versions.fetch(id, &targets[target], from, wait, max_bytes)
            }
            Job::Start { target, .. } => versions.list_offsets(id, &targets[target], EARLIEST),
            Job::End { target, .. } => versions.list_offsets(id, &targets[target], LATEST),
        });
    }
}

/// Where to read on after an answer: past its last whole batch.
pub(super) fn next_position(mut bytes: &[u8]) -> i64 {
    let mut next = 0;
    while let Some(header) = BatchHeader::read(bytes) {
        next = header.last + 1;
        bytes = &bytes[header.size..];
    }
    next
}

impl Client for Reader {
    fn handle(&mut self, now: Now, input: ClientInput) {
        if matches!(input, ClientInput::WindDown) {
            self.winding_down = true;
        }
        for news in self.session.handle(now, input) {
            self.on_news(now, news);
        }
        self.go_on(now);
    }

    fn poll_output(&mut self) -> Option<ClientOutput> {
        self.session.poll_output()
    }

    fn deadline(&self) -> Option<Instant> {
        let idle = self.session.is_open() && self.session.in_flight() == 0;
        let next = (idle && !self.winding_down).then_some(self.next_at);
        self.session.deadline().into_iter().chain(next).min()
    }

    fn is_idle(&self) -> bool {
        self.winding_down && self.session.in_flight() == 0
    }

    fn status(&self) -> String {
        format!(
            "reader with {} requests in flight",
            self.session.in_flight()
        )
    }
}

/// ListOffsets' timestamp for the log start.
pub(super) const EARLIEST: i64 = -2;
/// ListOffsets' timestamp for the high watermark.
pub(super) const LATEST: i64 = -1;
const SLACK_MS: u64 = 3_000;
