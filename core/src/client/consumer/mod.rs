//! The consumer: reads assigned partitions from their leaders, batch by batch.
//!
//! It decides where a partition's position is, which partitions are asked for in which request, and
//! what an answer means for the position:
//!
//! | a partition is | meaning | leads on |
//! | --- | --- | --- |
//! | unknown | its offset is looked up with ListOffsets | at, stopped |
//! | at an offset | it is fetched from there, one request per broker at a time | at, unknown (reset), stopped |
//! | stopped | a fault that waiting cannot mend was told | unknown or at, by a new start |
//!
//! Batches are unpacked one at a time, when the host takes them: a host that takes none holds back
//! the consumer, because a partition is not fetched while records of it wait. Records before the
//! position inside a batch, and control batches, are skipped. Isolation is `read_uncommitted`.
//! Fetch sessions are not used.

mod assigned;
mod config;
mod drain;
mod event;
mod fetch;
mod lookup;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use self::{
    assigned::{Assigned, Position},
    drain::Fetched,
    fetch::AskedFetch,
    lookup::AskedOffset,
};
pub use self::{
    config::{ConsumerConfig, OffsetReset},
    event::{ConsumeFault, ConsumedBatch, ConsumedRecord, ConsumerEvent, FetchAnswer, StartAt},
};
use super::{
    ClientConfig, ClientInput, ClientMachine, ClientOutput, Cluster,
    network::{Network, Peer, Reply},
};
use crate::{
    ids::{NodeId, Offset, TopicName, TopicPartition},
    protocol::{
        ErrorCode,
        messages::{FetchRequestData, ListOffsetsRequestData},
    },
    time::{Instant, Now},
};

/// What a request was for.
#[derive(Debug)]
enum Question {
    Fetch(Vec<AskedFetch>),
    Offsets(Vec<AskedOffset>),
}

/// A consumer of partitions that its user names.
#[derive(Debug)]
pub struct Consumer {
    config: ConsumerConfig,
    network: Network<Question>,
    assigned: BTreeMap<TopicPartition, Assigned>,
    /// Brokers with a fetch in flight.
    fetching: BTreeSet<NodeId>,
    fetched: VecDeque<Fetched>,
    events: VecDeque<ConsumerEvent>,
    next_generation: u64,
    next_served: u64,
    kicked: bool,
    now: Instant,
}

impl Consumer {
    /// Makes a consumer without partitions.
    #[must_use]
    pub fn new(client: ClientConfig, config: ConsumerConfig) -> Self {
        Self {
            config,
            network: Network::new(client),
            assigned: BTreeMap::new(),
            fetching: BTreeSet::new(),
            fetched: VecDeque::new(),
            events: VecDeque::new(),
            next_generation: 0,
            next_served: 0,
            kicked: false,
            now: Instant::ORIGIN,
        }
    }

    /// Reads a partition from now on, or goes on elsewhere in it.
    pub fn assign(&mut self, partition: TopicPartition, start: StartAt) {
        let position = match start {
            StartAt::Offset(offset) => Position::At(offset),
            other => Position::Unknown(other),
        };
        self.next_generation += 1;
        self.network.refresh.want(&partition.topic);
        let paused = self.assigned.get(&partition).is_some_and(|old| old.paused);
        let assigned = Assigned {
            paused,
            ..Assigned::new(position, self.next_generation)
        };
        self.assigned.insert(partition, assigned);
        self.kicked = true;
    }

    /// Wants to know about a topic before any partition of it is assigned; see [`cluster`](Self::cluster).
    pub fn want_topic(&mut self, topic: &TopicName) {
        self.network.refresh.want(topic);
        self.kicked = true;
    }

    /// Does not read a partition any more.
    pub fn unassign(&mut self, partition: &TopicPartition) {
        self.assigned.remove(partition);
        let topic = &partition.topic;
        if !self.assigned.keys().any(|other| other.topic == *topic) {
            self.network.refresh.forget(topic);
        }
    }

    /// Stops asking for a partition, or goes on; what was fetched already is still handed out.
    pub fn set_paused(&mut self, partition: &TopicPartition, paused: bool) {
        if let Some(assigned) = self.assigned.get_mut(partition) {
            assigned.paused = paused;
            self.kicked = true;
        }
    }

    /// Returns the offset that is read next, once it is known.
    #[must_use]
    pub fn position(&self, partition: &TopicPartition) -> Option<Offset> {
        match self.assigned.get(partition)?.position {
            Position::At(offset) => Some(offset),
            Position::Unknown(_) | Position::Stopped => None,
        }
    }

    /// Returns what is known of the cluster.
    #[must_use]
    pub const fn cluster(&self) -> &Cluster {
        &self.network.cluster
    }

    fn pump(&mut self) {
        self.kicked = false;
        self.look_up(self.now);
        self.fetch(self.now);
        self.network.pump(self.now);
    }

    fn take_replies(&mut self) {
        while let Some(reply) = self.network.poll_reply() {
            match reply {
                Reply::Answer {
                    peer,
                    tag,
                    version,
                    frame,
                } => self.on_answer(peer, tag, version, &frame),
                Reply::Lost { tag, .. } => self.on_lost(tag),
            }
        }
    }

    fn on_answer(&mut self, peer: Peer, tag: Question, version: i16, frame: &bytes::Bytes) {
        let now = self.now;
        match tag {
            Question::Fetch(asked) => {
                let answer = self
                    .network
                    .decode::<FetchRequestData>(now, peer, version, frame);
                if let Peer::Broker(id) = peer {
                    self.fetching.remove(&id);
                }
                match answer {
                    Some(answer) => self.on_fetched(asked, version, answer),
                    None => self.on_lost(Question::Fetch(asked)),
                }
            }
            Question::Offsets(asked) => {
                let answer = self
                    .network
                    .decode::<ListOffsetsRequestData>(now, peer, version, frame);
                match answer {
                    Some(answer) => self.on_offsets(asked, answer),
                    None => self.on_lost(Question::Offsets(asked)),
                }
            }
        }
    }

    fn on_lost(&mut self, question: Question) {
        self.network.refresh.request();
        match question {
            Question::Fetch(asked) => {
                for one in asked {
                    self.fetching.remove(&one.leader);
                    self.try_later(&one.partition, one.generation);
                }
            }
            Question::Offsets(asked) => {
                for one in asked {
                    self.try_later(&one.partition, one.generation);
                }
            }
        }
    }

    /// Returns the partition of a question, unless its position was changed since.
    fn answered(&mut self, partition: &TopicPartition, generation: u64) -> Option<&mut Assigned> {
        let assigned = self.assigned.get_mut(partition)?;
        let current = assigned.generation == generation;
        if current {
            assigned.asked = false;
        }
        current.then_some(assigned)
    }

    /// Asks again about a partition after a while.
    fn try_later(&mut self, partition: &TopicPartition, generation: u64) {
        let backoff = self.network.retry_backoff();
        let wait = backoff.wait_ms(self.failures(partition), &mut self.network.rng);
        let now = self.now;
        if let Some(assigned) = self.answered(partition, generation) {
            assigned.failures = assigned.failures.saturating_add(1);
            assigned.not_before = now.plus_millis(wait);
        }
    }

    fn failures(&self, partition: &TopicPartition) -> u32 {
        let assigned = self.assigned.get(partition);
        assigned.map_or(1, |assigned| assigned.failures.saturating_add(1))
    }

    fn stop(&mut self, partition: &TopicPartition, offset: Option<Offset>, fault: ConsumeFault) {
        if let Some(assigned) = self.assigned.get_mut(partition) {
            assigned.position = Position::Stopped;
        }
        self.events.push_back(ConsumerEvent::Stopped {
            partition: partition.clone(),
            offset,
            fault,
        });
    }

    /// Handles an error that a broker gave for a partition.
    fn on_error(
        &mut self,
        partition: &TopicPartition,
        generation: u64,
        offset: Option<Offset>,
        error: ErrorCode,
    ) {
        if error.is_retriable() {
            self.network.refresh.request();
            self.try_later(partition, generation);
        } else {
            self.stop(partition, offset, ConsumeFault::Refused(error));
        }
    }
}

impl ClientMachine for Consumer {
    type Event = ConsumerEvent;

    fn handle(&mut self, now: Now, input: ClientInput) {
        self.now = self.now.max(now.instant);
        self.network.handle(self.now, input);
        self.take_replies();
        self.pump();
        self.take_replies();
    }

    fn poll_output(&mut self) -> Option<ClientOutput<ConsumerEvent>> {
        loop {
            if let Some(output) = self.network.poll_output() {
                return Some(output);
            }
            if let Some(event) = self.events.pop_front() {
                return Some(ClientOutput::Event(event));
            }
            if !self.drain() {
                return None;
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        if self.kicked {
            return Some(self.now);
        }
        let assigned = self.assigned.values().filter(|one| !one.asked);
        assigned
            .map(|one| one.not_before)
            .filter(|at| *at > self.now)
            .chain(self.network.deadline(self.now))
            .min()
    }
}
