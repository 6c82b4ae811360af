//! A reader with manual assignment: follows partitions from their start, with long polls.

use seedlog_core::time::{Instant, Now};

use super::{
    router::{News, Router},
    wire::{FetchOptions, OUT_OF_RANGE, Target, Versions, is_misled},
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
    /// Its rack (`client.rack`): it reads from the replica that the leader names.
    pub rack: Option<String>,
}

/// A reading client.
#[derive(Debug)]
pub struct Reader {
    profile: ReaderProfile,
    versions: Versions,
    router: Router<Job>,
    positions: Vec<i64>,
    /// Replicas that leaders named to read from.
    replicas: Vec<Option<usize>>,
    turn: usize,
    next_at: Instant,
    winding_down: bool,
}

#[derive(Clone, Copy, Debug)]
enum Job {
    Fetch {
        target: usize,
        node: usize,
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
    /// Makes a reader; `number` decides which of the nodes it asks first.
    #[must_use]
    pub fn new(number: usize, nodes: usize, profile: ReaderProfile, mut stream: Stream) -> Self {
        let mut versions = Versions::for_nodes(nodes, &mut stream);
        if profile.rack.is_some() {
            versions = versions.with_racks();
        }
        let targets = profile.targets.clone();
        Self {
            versions,
            positions: vec![0; targets.len()],
            replicas: vec![None; targets.len()],
            router: Router::new(nodes, number, targets, versions, stream),
            profile,
            turn: 0,
            next_at: Instant::ORIGIN,
            winding_down: false,
        }
    }

    fn on_news(&mut self, now: Now, news: News<Job>) {
        match news {
            News::Lost(Job::Fetch { target, .. }) => self.replicas[target] = None,
            News::Lost(_) => {}
            News::Answer(
                Job::Fetch {
                    target,
                    node,
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
                    Ok(read) => self.refused(now, target, node, read.code),
                    Err(what) => self.router.note(Note::Garbled { what }),
                }
            }
            News::Answer(Job::Start { target, asked }, bytes) => {
                let place = self.profile.targets[target].place;
                match self.versions.listed(&bytes, &self.profile.targets[target]) {
                    Ok(Ok(start)) => {
                        self.positions[target] = self.positions[target].max(start);
                        self.router.note(Note::Bounds {
                            place,
                            start: Some(start),
                            end: None,
                            asked,
                        });
                    }
                    Ok(Err(code)) => self.put_off(now, code),
                    Err(what) => self.router.note(Note::Garbled { what }),
                }
            }
            News::Answer(Job::End { target, asked }, bytes) => {
                let place = self.profile.targets[target].place;
                match self.versions.listed(&bytes, &self.profile.targets[target]) {
                    Ok(Ok(end)) => self.router.note(Note::Bounds {
                        place,
                        start: None,
                        end: Some(end),
                        asked,
                    }),
                    Ok(Err(code)) => self.put_off(now, code),
                    Err(what) => self.router.note(Note::Garbled { what }),
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
        if let Some(replica) = read.read_replica.filter(|node| *node < self.router.nodes()) {
            self.replicas[target] = Some(replica);
            self.router.begin(now, replica);
        }
        let mut records = batch::decode(&read.records);
        records.retain(|record| record.offset >= from);
        self.positions[target] = next_position(&read.records).max(from);
        if !records.is_empty() {
            let (low, high) = self.profile.pause_ms;
            self.wait(now, low, high);
        }
        self.router.note(Note::Polled {
            place: self.profile.targets[target].place,
            from,
            records,
            high_watermark: read.high_watermark,
            log_start: read.log_start,
            asked,
        });
    }

    fn refused(&mut self, now: Now, target: usize, node: usize, code: i16) {
        let was_leader = self.router.leader(target) == Some(node);
        self.replicas[target] = None;
        if code == OUT_OF_RANGE && was_leader {
            // Kafka's `auto.offset.reset=earliest`; a follower that lags proves nothing.
            self.positions[target] = 0;
            let asked = now.instant.as_nanos();
            self.ask(now, Job::Start { target, asked });
        }
        self.put_off(now, code);
    }

    fn put_off(&mut self, now: Now, code: i16) {
        if is_misled(code) {
            self.router.misled(now);
        }
        self.wait(now, 50, 200);
    }

    fn wait(&mut self, now: Now, low: u64, high: u64) {
        let pause = self.router.stream().within(low..=high.max(low));
        self.next_at = self.next_at.max(now.instant.plus_millis(pause));
    }

    /// Returns the next target that can be read.
    fn next_target(&self) -> Option<usize> {
        let count = self.router.targets();
        let mut targets = (1..=count).map(|step| (self.turn + step) % count);
        targets.find(|target| self.router.is_ready(*target))
    }

    fn go_on(&mut self, now: Now) {
        if self.router.working() > 0 || self.winding_down || self.next_at > now.instant {
            return;
        }
        let Some(target) = self.next_target() else {
            return;
        };
        self.turn = target;
        let asked = now.instant.as_nanos();
        if self.router.stream().permille(self.profile.bounds_permille) {
            self.ask(now, Job::Start { target, asked });
            self.ask(now, Job::End { target, asked });
        }
        let leader = self.router.leader(target).unwrap_or_default();
        let replica = self.replicas[target].filter(|node| self.router.is_open(*node));
        let job = Job::Fetch {
            target,
            node: replica.unwrap_or(leader),
            from: self.positions[target],
            asked,
        };
        self.ask(now, job);
    }

    fn ask(&mut self, now: Now, job: Job) {
        let versions = self.versions;
        let (target, node) = match job {
            Job::Fetch { target, node, .. } => (target, Some(node)),
            Job::Start { target, .. } | Job::End { target, .. } => {
                (target, self.router.leader(target))
            }
        };
        let Some(node) = node else {
            return;
        };
        let found = self.router.found(target);
        let rack = self.profile.rack.clone();
        let options = FetchOptions {
            max_wait_ms: i32::try_from(self.profile.max_wait_ms).unwrap_or(i32::MAX),
            max_bytes: i32::try_from(self.profile.max_bytes).unwrap_or(i32::MAX),
            found,
            rack: rack.as_deref(),
        };
        let limit = self.profile.max_wait_ms + SLACK_MS;
        let target = self.router.target(target).clone();
        self.router
            .send(now, node, limit, Some(job), |id| match job {
                Job::Fetch { from, .. } => versions.fetch(id, &target, from, options),
                Job::Start { .. } => versions.list_offsets(id, &target, found, EARLIEST),
                Job::End { .. } => versions.list_offsets(id, &target, found, LATEST),
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
        for news in self.router.handle(now, input) {
            self.on_news(now, news);
        }
        self.go_on(now);
        self.router.refresh(now);
    }

    fn poll_output(&mut self) -> Option<ClientOutput> {
        self.router.poll_output()
    }

    fn deadline(&self) -> Option<Instant> {
        let may_ask = self.router.working() == 0 && !self.winding_down;
        let next = (may_ask && self.next_target().is_some()).then_some(self.next_at);
        self.router.deadline().into_iter().chain(next).min()
    }

    fn is_idle(&self) -> bool {
        self.winding_down && self.router.working() == 0
    }

    fn status(&self) -> String {
        format!("reader with {} requests in flight", self.router.working())
    }
}

/// ListOffsets' timestamp for the log start.
pub(super) const EARLIEST: i64 = -2;
/// ListOffsets' timestamp for the high watermark.
pub(super) const LATEST: i64 = -1;
const SLACK_MS: u64 = 3_000;
