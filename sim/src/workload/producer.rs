//! A producer without idempotence: unique values, several acks settings, retries of what is unknown.

use std::collections::VecDeque;

use bytes::Bytes;
use seedlog_core::time::{Instant, Now};

use super::{
    router::{News, Router},
    wire::{self, Target, Versions},
};
use crate::{
    batch::{self, ValueId},
    client::{Client, ClientInput, ClientOutput},
    history::{Acks, Note, Outcome, Values, WriteId},
    random::Stream,
};

/// How a producer behaves.
#[derive(Clone, Debug)]
pub struct ProducerProfile {
    /// Where it writes.
    pub targets: Vec<Target>,
    /// How sure it wants to be.
    pub acks: Acks,
    /// Records of a batch.
    pub records: (u64, u64),
    /// Bytes added to each value.
    pub padding: (u64, u64),
    /// Milliseconds between batches.
    pub pause_ms: (u64, u64),
    /// Requests under way at once (`max.in.flight.requests.per.connection`).
    pub in_flight: usize,
    /// `request.timeout.ms`.
    pub request_timeout_ms: u64,
    /// `delivery.timeout.ms`: after so long it gives a batch up.
    pub delivery_timeout_ms: u64,
    /// Whether it sends again what was refused or is unknown.
    pub retries: bool,
}

/// A producing client.
#[derive(Debug)]
pub struct Producer {
    profile: ProducerProfile,
    versions: Versions,
    router: Router<Job>,
    number: u64,
    next: u64,
    retry: VecDeque<Job>,
    next_at: Instant,
    winding_down: bool,
}

#[derive(Clone)]
struct Job {
    write: WriteId,
    target: usize,
    records: Bytes,
    not_before: Instant,
    expires: Instant,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "produce of write {}", self.write.0)
    }
}

impl Producer {
    /// Makes a producer; `number` keeps its values apart from those of all others, and decides which of the nodes it asks
    /// first.
    #[must_use]
    pub fn new(number: u32, nodes: usize, profile: ProducerProfile, mut stream: Stream) -> Self {
        let versions = Versions::for_nodes(nodes, &mut stream);
        let targets = profile.targets.clone();
        let home = usize::try_from(number).unwrap_or_default();
        Self {
            versions,
            router: Router::new(nodes, home, targets, versions, stream),
            profile,
            number: u64::from(number) + 1,
            next: 0,
            retry: VecDeque::new(),
            next_at: Instant::ORIGIN,
            winding_down: false,
        }
    }

    fn on_news(&mut self, now: Now, news: News<Job>) {
        match news {
            News::Answer(job, bytes) => {
                let target = &self.profile.targets[job.target];
                let outcome = match self.versions.produced(&bytes, target) {
                    Ok(outcome) => outcome,
                    Err(what) => {
                        self.router.note(Note::Garbled { what });
                        Outcome::Unknown(-1)
                    }
                };
                if let Outcome::Failed(code) | Outcome::Unknown(code) = outcome
                    && wire::is_misled(code)
                {
                    self.router.misled(now);
                }
                self.ended(now, job, outcome);
            }
            News::Lost(job) => self.ended(now, job, Outcome::Unknown(DISCONNECTED)),
        }
    }

    fn ended(&mut self, now: Now, mut job: Job, outcome: Outcome) {
        let write = job.write;
        self.router.note(Note::Answered { write, outcome });
        let acknowledged = matches!(outcome, Outcome::Ok(_));
        let refused = matches!(outcome, Outcome::Failed(code) if !wire::is_retriable(code));
        let expired = job.expires <= now.instant;
        if acknowledged || refused || expired || !self.profile.retries {
            self.router.note(Note::Settled {
                write,
                acknowledged,
            });
            return;
        }
        let pause = self.router.stream().within(20..=200);
        job.not_before = now.instant.plus_millis(pause);
        self.retry.push_back(job);
    }

    /// Returns the next batch to be sent again for each node that takes one more request.
    fn next_retries(&self) -> impl Iterator<Item = (usize, &Job)> {
        let mut nodes = Vec::new();
        self.retry.iter().enumerate().filter(move |(_, job)| {
            // Batches for one node keep their order.
            let node = self.router.leader(job.target);
            let is_first = node.is_some_and(|node| !nodes.contains(&node));
            nodes.extend(node);
            is_first && self.has_room(job.target)
        })
    }

    fn has_room(&self, target: usize) -> bool {
        let Some(node) = self.router.leader(target) else {
            return false;
        };
        self.router.is_open(node) && self.router.in_flight(node) < self.profile.in_flight
    }

    fn go_on(&mut self, now: Now) {
        loop {
            let due = self
                .next_retries()
                .find(|(_, job)| job.not_before <= now.instant)
                .map(|(place, _)| place);
            if let Some(job) = due.and_then(|place| self.retry.remove(place)) {
                self.transmit(now, job);
            } else if !self.winding_down && self.next_at <= now.instant {
                let Some(job) = self.invent(now) else {
                    return;
                };
                self.transmit(now, job);
            } else {
                return;
            }
        }
    }

    /// Returns the targets that take batches: of others no leader can be reached, or too many batches wait already, as Kafka's
    /// adaptive partitioning avoids them.
    fn available(&self) -> Vec<usize> {
        let waiting = |target| self.retry.iter().filter(|job| job.target == target).count();
        let targets = 0..self.profile.targets.len();
        targets
            .filter(|target| self.has_room(*target) && waiting(*target) < RETRIES_WAITING_MAX)
            .collect()
    }

    fn invent(&mut self, now: Now) -> Option<Job> {
        let available = self.available();
        if available.is_empty() {
            return None;
        }
        let (low, high) = self.profile.pause_ms;
        let stream = self.router.stream();
        let pause = stream.magnitude(low.max(1)..=high.max(1));
        let target = *stream.pick(&available);
        let (low, high) = self.profile.records;
        let count = u32::try_from(stream.within(low..=high)).unwrap_or(1).max(1);
        let (low, high) = self.profile.padding;
        let padding = usize::try_from(stream.magnitude(low..=high)).unwrap_or_default();
        self.next_at = now.instant.plus_millis(pause);
        let first = ValueId(self.number << 32 | self.next);
        let write = WriteId(first.0);
        self.next += u64::from(count);
        let values = Values { first, count };
        let all: Vec<ValueId> = values.iter().collect();
        let timestamp = now.wall.as_millis();
        self.router.note(Note::Invoked {
            write,
            place: self.profile.targets[target].place,
            acks: self.profile.acks,
            values,
            timestamp,
        });
        Some(Job {
            write,
            target,
            records: batch::encode(&all, padding, timestamp),
            not_before: now.instant,
            expires: now.instant.plus_millis(self.profile.delivery_timeout_ms),
        })
    }

    fn transmit(&mut self, now: Now, job: Job) {
        let write = job.write;
        self.router.note(Note::Transmitted { write });
        let (versions, acks) = (self.versions, self.profile.acks);
        let target = self.profile.targets[job.target].clone();
        let records = job.records.clone();
        let limit = self.profile.request_timeout_ms;
        let timeout_ms = i32::try_from(limit).unwrap_or(i32::MAX);
        let answered = acks != Acks::None;
        let node = self.router.leader(job.target).unwrap_or_default();
        // The broker may use up its time-out and must then answer; the slack is for the way.
        let purpose = answered.then_some(job);
        self.router
            .send(now, node, limit + SLACK_MS, purpose, |id| {
                versions.produce(id, &target, acks, timeout_ms, records)
            });
        if !answered {
            let outcome = Outcome::Unknown(0);
            self.router.note(Note::Answered { write, outcome });
            self.router.note(Note::Settled {
                write,
                acknowledged: false,
            });
        }
    }
}

impl Client for Producer {
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
        let retries = self.next_retries().map(|(_, job)| job.not_before);
        let may_invent = !self.winding_down && !self.available().is_empty();
        let next = may_invent.then_some(self.next_at);
        let session = self.router.deadline();
        session.into_iter().chain(retries).chain(next).min()
    }

    fn is_idle(&self) -> bool {
        self.winding_down && self.retry.is_empty() && self.router.working() == 0
    }

    fn status(&self) -> String {
        format!(
            "producer with {} requests in flight, {} to retry",
            self.router.working(),
            self.retry.len()
        )
    }
}

/// The outcome code of a lost connection; no code of the protocol.
const DISCONNECTED: i16 = -2;
const SLACK_MS: u64 = 2_000;
/// How many batches of one partition may wait to be sent again.
const RETRIES_WAITING_MAX: usize = 4;
