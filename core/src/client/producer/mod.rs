//! The producer: batches records by partition, sends them to leaders, says what became of them.
//!
//! It decides the partition of a record, when a batch is full or has waited enough, what goes into
//! one request, which errors are worth another transmission, and what can be known in the end:
//!
//! | a batch ended with | report |
//! | --- | --- |
//! | an answer without error | [`Outcome::Delivered`] |
//! | an error, and every transmission was refused before the log was touched | [`Outcome::Failed`] |
//! | an error or a timeout, and some transmission was lost or may have been appended | [`Outcome::Unknown`] |
//! | `acks=0` | [`Outcome::Unacknowledged`] |
//!
//! A batch that was transmitted several times may be in the log several times: the producer is not
//! idempotent, its batches carry no producer id.

mod answer;
mod config;
mod dispatch;
mod partitioner;
mod queue;
mod record;

use std::collections::{BTreeMap, VecDeque};

pub use self::{
    config::{Acks, ProducerConfig},
    partitioner::{murmur2, partition_for_key},
    record::{DeliveryReport, Failure, Header, Outcome, ProduceRecord, SendError, Sent},
};
use self::{
    partitioner::Sticky,
    queue::{Added, Queue, Sealed},
};
use super::{
    ClientConfig, ClientInput, ClientMachine, ClientOutput, Cluster,
    network::{Loss, Network, Reply},
};
use crate::{
    ids::{TopicName, TopicPartition, Uuid},
    protocol::{ErrorCode, messages::ProduceRequestData},
    time::{Instant, Now, Timestamp},
};

/// A batch that a request carries.
#[derive(Debug)]
struct Asked {
    partition: TopicPartition,
    topic_id: Uuid,
    first: u64,
}

/// A record whose topic is not known yet.
#[derive(Debug)]
struct Undecided {
    record: ProduceRecord,
    timestamp: Timestamp,
    since: Instant,
}

/// A producer.
#[derive(Debug)]
pub struct Producer {
    config: ProducerConfig,
    network: Network<Vec<Asked>>,
    undecided: BTreeMap<TopicName, VecDeque<Undecided>>,
    sticky: BTreeMap<TopicName, Sticky>,
    queues: BTreeMap<TopicPartition, Queue>,
    reports: VecDeque<DeliveryReport>,
    memory: usize,
    /// Records without a report.
    records: u64,
    flushing: bool,
    /// The buffer was full: batches do not wait to be filled until some of it is free.
    pressed: bool,
    /// Something can be done before the next deadline.
    kicked: bool,
    turn: usize,
    now: Instant,
}

impl Producer {
    /// Makes a producer that has not sent anything.
    #[must_use]
    pub fn new(client: ClientConfig, config: ProducerConfig) -> Self {
        Self {
            config,
            network: Network::new(client),
            undecided: BTreeMap::new(),
            sticky: BTreeMap::new(),
            queues: BTreeMap::new(),
            reports: VecDeque::new(),
            memory: 0,
            records: 0,
            flushing: false,
            pressed: false,
            kicked: false,
            turn: 0,
            now: Instant::ORIGIN,
        }
    }

    /// Takes a record. It is sent no later than the deadline; its report carries its token.
    ///
    /// # Errors
    ///
    /// Returns a [`SendError`] if the record cannot be taken; it will not be reported then.
    pub fn send(&mut self, now: Now, record: ProduceRecord) -> Result<(), SendError> {
        self.now = self.now.max(now.instant);
        let (size, memory) = (record.size_max(), memory_of(&record));
        let max = self.config.max_request_size;
        let timestamp = record
            .timestamp
            .unwrap_or_else(|| now.wall.max(Timestamp::from_millis(0)));
        if timestamp < Timestamp::NONE {
            return Err(SendError::NegativeTimestamp { timestamp });
        }
        if let Some(partition) = record.partition.filter(|at| *at < 0) {
            return Err(SendError::NegativePartition { partition });
        }
        if size.saturating_add(crate::batch::HEADER_SIZE) > max {
            return Err(SendError::TooLarge { size, max });
        }
        if self.memory > 0 && self.memory.saturating_add(memory) > self.config.buffer_memory {
            self.pressed = true;
            self.kicked = true;
            let record = Box::new(record);
            return Err(SendError::BufferFull { record });
        }
        self.memory = self.memory.saturating_add(memory);
        self.records += 1;
        let undecided = Undecided {
            record,
            timestamp,
            since: now.instant,
        };
        let topic = undecided.record.topic.clone();
        // Those that wait are not overtaken: they are decided as soon as the topic is known.
        match self.decide(&undecided.record) {
            Ok(partition) => self.add(partition, &undecided),
            Err(_) => {
                self.network.refresh.want(&topic);
                self.kicked = true;
                self.undecided
                    .entry(topic)
                    .or_default()
                    .push_back(undecided);
            }
        }
        self.kicked |= self.flushing || self.config.linger_ms == 0;
        Ok(())
    }

    /// Sends everything that was taken so far, and what is taken until then, without waiting for
    /// batches to be filled.
    pub fn flush(&mut self) {
        self.flushing = true;
        self.kicked = true;
    }

    /// Returns the number of records whose report was not handed out yet.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        let told = self.reports.iter().map(|report| report.records.len());
        let told = u64::try_from(told.sum::<usize>()).unwrap_or(u64::MAX);
        self.records.saturating_add(told)
    }

    /// Returns what is known of the cluster.
    #[must_use]
    pub const fn cluster(&self) -> &Cluster {
        &self.network.cluster
    }

    fn pump(&mut self) {
        let now = self.now;
        self.kicked = false;
        self.expire(now);
        self.decide_waiting();
        self.dispatch(now);
        self.network.pump(now);
        if self.records == 0 {
            self.flushing = false;
        }
    }

    /// Chooses the partition of a record; fails while or because its topic is not known.
    fn decide(&mut self, record: &ProduceRecord) -> Result<TopicPartition, ErrorCode> {
        let topic = self.network.cluster.topic(&record.topic);
        let topic = topic.ok_or(ErrorCode::LeaderNotAvailable)?;
        if topic.error.is_error() {
            return Err(topic.error);
        }
        let named = record.partition;
        let partition = match (named, &record.key) {
            (Some(partition), _) => Some(partition).filter(|at| topic.partitions.contains_key(at)),
            (None, Some(key)) => {
                let count = u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX);
                i32::try_from(partition_for_key(key, count)).ok()
            }
            (None, None) => {
                let all = topic.partitions.iter();
                let led = all.clone().filter(|(_, known)| known.leader.is_some());
                let mut open: Vec<i32> = led.map(|(at, _)| *at).collect();
                if open.is_empty() {
                    open = all.map(|(at, _)| *at).collect();
                }
                let sticky = self.sticky.entry(record.topic.clone()).or_default();
                let size = record.size_max();
                sticky.choose(&open, size, self.config.batch_size, &mut self.network.rng)
            }
        };
        let partition = partition.ok_or(ErrorCode::UnknownTopicOrPartition)?;
        Ok(TopicPartition {
            topic: record.topic.clone(),
            partition,
        })
    }

    fn decide_waiting(&mut self) {
        let topics: Vec<TopicName> = self.undecided.keys().cloned().collect();
        for topic in topics {
            let known = self.network.cluster.topic(&topic).map(|known| known.error);
            if known.is_none_or(ErrorCode::is_retriable) {
                self.network.refresh.request();
                continue;
            }
            let mut stays = VecDeque::new();
            for undecided in self.undecided.remove(&topic).unwrap_or_default() {
                match self.decide(&undecided.record) {
                    Ok(partition) => self.add(partition, &undecided),
                    Err(error) if is_final_for_topic(error) => {
                        self.give_up(&undecided, Failure::NoSuchPartition(error));
                    }
                    Err(_) => stays.push_back(undecided),
                }
            }
            // A partition that is named may be added to the topic yet.
            if !stays.is_empty() {
                self.network.refresh.request();
                self.undecided.insert(topic, stays);
            }
        }
    }

    fn add(&mut self, partition: TopicPartition, new: &Undecided) {
        let settings = (self.config.batch_size, self.config.compression);
        let queue = self.queues.entry(partition.clone()).or_default();
        let mut added = queue.add(&new.record, new.timestamp, new.since, settings);
        if added == Added::Full {
            self.seal(&partition);
            let queue = self.queues.entry(partition.clone()).or_default();
            added = queue.add(&new.record, new.timestamp, new.since, settings);
        }
        if added != Added::Yes {
            self.give_up(new, Failure::Unencodable);
        }
    }

    /// Closes the batch that is being filled.
    fn seal(&mut self, partition: &TopicPartition) {
        let Some(queue) = self.queues.get_mut(partition) else {
            return;
        };
        self.kicked = true;
        if let Err((_, records, memory)) = queue.seal() {
            self.release(records.len(), memory);
            self.reports.push_back(DeliveryReport {
                partition: Some(partition.clone()),
                records,
                outcome: Outcome::Failed(Failure::Unencodable),
                transmissions: 0,
                refusals: 0,
            });
        }
    }

    /// Reports a record that never came into a batch.
    fn give_up(&mut self, undecided: &Undecided, failure: Failure) {
        let record = &undecided.record;
        self.release(1, memory_of(record));
        let topic = &record.topic;
        self.reports.push_back(DeliveryReport {
            partition: record.partition.map(|partition| TopicPartition {
                topic: topic.clone(),
                partition,
            }),
            records: vec![Sent {
                token: record.token,
                timestamp: undecided.timestamp,
            }],
            outcome: Outcome::Failed(failure),
            transmissions: 0,
            refusals: 0,
        });
    }

    fn report(&mut self, partition: TopicPartition, batch: Sealed, outcome: Outcome) {
        self.release(batch.records.len(), batch.memory);
        self.reports.push_back(DeliveryReport {
            partition: Some(partition),
            records: batch.records,
            outcome,
            transmissions: batch.transmissions,
            refusals: batch.refusals,
        });
    }

    fn release(&mut self, records: usize, memory: usize) {
        let records = u64::try_from(records).unwrap_or(u64::MAX);
        self.records = self.records.saturating_sub(records);
        self.memory = self.memory.saturating_sub(memory);
        self.pressed = false;
    }
}

impl ClientMachine for Producer {
    type Event = DeliveryReport;

    fn handle(&mut self, now: Now, input: ClientInput) {
        self.now = self.now.max(now.instant);
        self.network.handle(self.now, input);
        while let Some(reply) = self.network.poll_reply() {
            match reply {
                Reply::Answer {
                    peer,
                    tag,
                    version,
                    frame,
                } => {
                    let answer = self
                        .network
                        .decode::<ProduceRequestData>(self.now, peer, version, &frame);
                    match answer {
                        Some(answer) => self.on_answer(tag, version, answer),
                        None => self.on_lost(tag, Loss::Malformed),
                    }
                }
                Reply::Lost { tag, loss } => self.on_lost(tag, loss),
            }
        }
        self.pump();
        // What was lost while pumping is put back, to be sent when its back-off is over.
        while let Some(reply) = self.network.poll_reply() {
            if let Reply::Lost { tag, loss } = reply {
                self.on_lost(tag, loss);
            }
        }
    }

    fn poll_output(&mut self) -> Option<ClientOutput<DeliveryReport>> {
        self.network
            .poll_output()
            .or_else(|| self.reports.pop_front().map(ClientOutput::Event))
    }

    fn deadline(&self) -> Option<Instant> {
        if self.kicked {
            return Some(self.now);
        }
        let (linger, timeout) = (self.config.linger_ms, self.config.delivery_timeout_ms);
        let block = self.config.max_block_ms.min(timeout);
        let queues = self.queues.values();
        let undecided = self.undecided.values().filter_map(VecDeque::front);
        queues
            .filter_map(|queue| queue.wakes(self.now, linger, timeout))
            .chain(undecided.map(|first| first.since.plus_millis(block)))
            .chain(self.network.deadline(self.now))
            .min()
    }
}

/// Returns what a record counts for in `buffer.memory`: while its topic is not known, a small
/// record takes several times its size.
fn memory_of(record: &ProduceRecord) -> usize {
    let headers = record.headers.len().saturating_mul(size_of::<Header>());
    let fixed = size_of::<Undecided>().saturating_add(headers);
    record.size_max().saturating_add(fixed)
}

/// Says whether waiting cannot help a topic.
fn is_final_for_topic(error: ErrorCode) -> bool {
    error.is_error() && !error.is_retriable()
}
