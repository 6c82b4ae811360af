//! From batches to requests, and what time does to batches.

use std::collections::{BTreeMap, VecDeque};

use super::{Acks, Asked, Failure, Outcome, Producer, queue::Sealed};
use crate::{
    client::network::Peer,
    ids::{NodeId, TopicPartition, Uuid},
    protocol::{
        ApiKey, ErrorCode, KafkaString,
        messages::{
            ProduceRequestData,
            wire::produce_request::{PartitionProduceData, TopicProduceData},
        },
    },
    time::Instant,
};

/// The last version that names topics; later ones carry ids.
const LAST_VERSION_BY_NAME: i16 = 12;

impl Producer {
    /// Sends what is ready to leaders that are ready.
    pub(super) fn dispatch(&mut self, now: Instant) {
        self.seal_due(now);
        loop {
            let mut progress = false;
            for (leader, partitions) in self.sendable(now) {
                progress |= self.dispatch_to(now, leader, partitions);
            }
            if !progress {
                break;
            }
        }
        self.queues.retain(|_, queue| !queue.is_empty());
    }

    fn seal_due(&mut self, now: Instant) {
        let linger = self.config.linger_ms;
        let due = |(partition, queue): (&TopicPartition, &super::Queue)| {
            let at_once = self.flushing || self.pressed;
            let due = queue.is_due(now, linger) || (at_once && queue.open.is_some());
            due.then(|| partition.clone())
        };
        let due: Vec<TopicPartition> = self.queues.iter().filter_map(due).collect();
        for partition in due {
            self.seal(&partition);
        }
        self.kicked = false;
    }

    /// Lists partitions with a batch to send, by leader. A leader's list starts elsewhere each time,
    /// so that none is served last whenever a request is full.
    fn sendable(&mut self, now: Instant) -> BTreeMap<NodeId, Vec<TopicPartition>> {
        let ordered = self.config.max_in_flight <= 1;
        let mut by_leader: BTreeMap<NodeId, Vec<TopicPartition>> = BTreeMap::new();
        for (partition, queue) in &self.queues {
            if !queue.can_send(now, ordered) {
                continue;
            }
            match self.network.cluster.leader(partition) {
                Some(leader) => by_leader.entry(leader).or_default().push(partition.clone()),
                None => {
                    self.network.refresh.want(&partition.topic);
                    self.network.refresh.request();
                }
            }
        }
        self.turn = self.turn.wrapping_add(1);
        for partitions in by_leader.values_mut() {
            let start = self.turn % partitions.len();
            partitions.rotate_left(start);
        }
        by_leader
    }

    fn dispatch_to(
        &mut self,
        now: Instant,
        leader: NodeId,
        partitions: Vec<TopicPartition>,
    ) -> bool {
        let peer = Peer::Broker(leader);
        let full = self.network.in_flight(peer) >= self.config.max_in_flight.max(1);
        if !self.network.ensure(now, peer) || full {
            return false;
        }
        let batches = self.take_batches(partitions);
        let has_ids = batches
            .iter()
            .all(|(asked, _)| asked.topic_id != Uuid::ZERO);
        let cap = if has_ids {
            i16::MAX
        } else {
            LAST_VERSION_BY_NAME
        };
        let Some(version) = self.network.version(peer, ApiKey::Produce, cap) else {
            let failure = Failure::Refused(ErrorCode::UnsupportedVersion);
            for (asked, batch) in batches {
                self.finish(asked.partition, batch, failure);
            }
            return true;
        };
        let request = self.request(&batches);
        if self.config.acks == Acks::None {
            let sent = self.network.send_unanswered(peer, version, &request);
            for (asked, mut batch) in batches {
                match sent {
                    Ok(true) => {
                        batch.transmissions += 1;
                        self.report(asked.partition, batch, Outcome::Unacknowledged);
                    }
                    Ok(false) => self.put_back(asked.partition, batch),
                    Err(_) => self.finish(asked.partition, batch, Failure::Unencodable),
                }
            }
            return true;
        }
        let mut asked = Vec::with_capacity(batches.len());
        for (one, mut batch) in batches {
            batch.transmissions = batch.transmissions.saturating_add(1);
            let queue = self.queues.entry(one.partition.clone()).or_default();
            queue.in_flight.insert(one.first, batch);
            asked.push(one);
        }
        let lost = asked.iter().map(|one| (one.partition.clone(), one.first));
        let lost: Vec<_> = lost.collect();
        if self
            .network
            .send(now, peer, version, &request, asked)
            .is_err()
        {
            for (partition, first) in lost {
                let queue = self.queues.get_mut(&partition);
                if let Some(mut batch) = queue.and_then(|q| q.in_flight.remove(&first)) {
                    batch.transmissions -= 1;
                    self.finish(partition, batch, Failure::Unencodable);
                }
            }
        }
        true
    }

    /// Takes one batch of each partition, as many as fit a request.
    fn take_batches(&mut self, partitions: Vec<TopicPartition>) -> Vec<(Asked, Sealed)> {
        let mut room = self.config.max_request_size;
        let mut batches = Vec::new();
        for partition in partitions {
            let topic_id = self.network.cluster.topic_id(&partition.topic);
            let ready = self
                .queues
                .get_mut(&partition)
                .map(|queue| &mut queue.ready);
            let Some(ready) = ready else { continue };
            let size = ready.front().map_or(0, |batch| batch.bytes.len());
            if size > room && !batches.is_empty() {
                break;
            }
            room = room.saturating_sub(size);
            if let Some(batch) = ready.pop_front() {
                let first = batch.first;
                let asked = Asked {
                    partition,
                    topic_id,
                    first,
                };
                batches.push((asked, batch));
            }
        }
        batches
    }

    fn request(&self, batches: &[(Asked, Sealed)]) -> ProduceRequestData {
        let mut topics: BTreeMap<&str, TopicProduceData> = BTreeMap::new();
        for (asked, batch) in batches {
            let name = asked.partition.topic.as_str();
            let topic = topics.entry(name).or_insert_with(|| TopicProduceData {
                name: KafkaString::from(name.to_owned()),
                topic_id: asked.topic_id.into(),
                ..Default::default()
            });
            topic.partition_data.push(PartitionProduceData {
                index: asked.partition.partition,
                records: Some(batch.bytes.clone()),
                ..Default::default()
            });
        }
        ProduceRequestData {
            acks: self.config.acks.code(),
            timeout_ms: i32::try_from(self.network.config.request_timeout_ms).unwrap_or(i32::MAX),
            topic_data: topics.into_values().collect(),
            ..Default::default()
        }
    }

    /// Reports what is older than its timeout.
    pub(super) fn expire(&mut self, now: Instant) {
        let ago = |at: Instant, millis| at.plus_millis(millis) <= now;
        let block = self
            .config
            .max_block_ms
            .min(self.config.delivery_timeout_ms);
        let topics: Vec<_> = self.undecided.keys().cloned().collect();
        for topic in topics {
            let known = self.network.cluster.topic(&topic);
            let error = known.map_or(ErrorCode::LeaderNotAvailable, |known| match known.error {
                ErrorCode::None => ErrorCode::UnknownTopicOrPartition,
                error => error,
            });
            let late = |waiting: &mut VecDeque<super::Undecided>| {
                let late = waiting.front().is_some_and(|first| ago(first.since, block));
                if late { waiting.pop_front() } else { None }
            };
            while let Some(undecided) = self.undecided.get_mut(&topic).and_then(late) {
                self.give_up(&undecided, Failure::NoSuchPartition(error));
            }
            self.undecided.retain(|_, waiting| !waiting.is_empty());
        }
        let timeout = self.config.delivery_timeout_ms;
        let open = self.queues.iter().filter(|(_, queue)| {
            let open = queue.open.as_ref();
            open.is_some_and(|open| ago(open.created, timeout))
        });
        let open: Vec<_> = open.map(|(partition, _)| partition.clone()).collect();
        for partition in open {
            self.seal(&partition);
        }
        let Some(before) = now
            .as_nanos()
            .checked_sub(timeout.saturating_mul(1_000_000))
        else {
            return;
        };
        let before = Instant::from_nanos(before);
        let partitions: Vec<_> = self.queues.keys().cloned().collect();
        for partition in partitions {
            let queue = self.queues.get_mut(&partition);
            for batch in queue.map(|queue| queue.expire(before)).unwrap_or_default() {
                let failure = Failure::TimedOut(batch.last_error);
                self.finish(partition.clone(), batch, failure);
            }
        }
    }
}
