//! The fetch loop: what is asked of whom, and what answers mean.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{
    ConsumeFault, Consumer, ConsumerEvent, FetchAnswer, Fetched, OffsetReset, Position, Question,
    StartAt,
};
use crate::{
    client::network::{Loss, Peer},
    ids::{NodeId, Offset, TopicPartition, Uuid},
    protocol::{
        ApiKey, ErrorCode, KafkaString,
        messages::{
            FetchRequestData, FetchResponseData,
            wire::{
                fetch_request::{FetchPartition, FetchTopic},
                fetch_response::PartitionData,
            },
        },
    },
    time::Instant,
};

/// The last version that names topics; later ones carry ids.
const LAST_VERSION_BY_NAME: i16 = 12;

/// A question about the records of a partition.
#[derive(Debug)]
pub(super) struct AskedFetch {
    pub(super) partition: TopicPartition,
    pub(super) generation: u64,
    pub(super) leader: NodeId,
    topic_id: Uuid,
    offset: Offset,
}

impl Consumer {
    /// Asks leaders that are not busy with a fetch for partitions of which nothing waits.
    pub(super) fn fetch(&mut self, now: Instant) {
        let mut by_leader: BTreeMap<NodeId, Vec<(u64, AskedFetch)>> = BTreeMap::new();
        for (partition, assigned) in &self.assigned {
            let Position::At(offset) = assigned.position else {
                continue;
            };
            if !assigned.is_idle(now) {
                continue;
            }
            let Some(leader) = self.network.cluster.leader(partition) else {
                self.network.refresh.request();
                continue;
            };
            if self.fetching.contains(&leader) {
                continue;
            }
            let asked = AskedFetch {
                partition: partition.clone(),
                generation: assigned.generation,
                leader,
                topic_id: self.network.cluster.topic_id(&partition.topic),
                offset,
            };
            let row = by_leader.entry(leader).or_default();
            row.push((assigned.served, asked));
        }
        for (leader, mut asked) in by_leader {
            // A broker fills its answer in the order of the request.
            asked.sort_by_key(|(served, _)| *served);
            let asked = asked.into_iter().map(|(_, asked)| asked).collect();
            self.ask_records(now, leader, asked);
        }
    }

    fn ask_records(&mut self, now: Instant, leader: NodeId, asked: Vec<AskedFetch>) {
        let peer = Peer::Broker(leader);
        if !self.network.ensure(now, peer) {
            return;
        }
        let has_ids = asked.iter().all(|one| one.topic_id != Uuid::ZERO);
        let cap = if has_ids {
            i16::MAX
        } else {
            LAST_VERSION_BY_NAME
        };
        let Some(version) = self.network.version(peer, ApiKey::Fetch, cap) else {
            self.network.close(now, peer, Loss::Malformed);
            return;
        };
        let request = self.request(&asked);
        for one in &asked {
            if let Some(assigned) = self.assigned.get_mut(&one.partition) {
                assigned.asked = true;
            }
        }
        self.fetching.insert(leader);
        let names: Vec<_> = asked.iter().map(|one| one.partition.clone()).collect();
        let tag = Question::Fetch(asked);
        if self
            .network
            .send(now, peer, version, &request, tag)
            .is_err()
        {
            self.fetching.remove(&leader);
            for partition in names {
                let fault = ConsumeFault::Refused(ErrorCode::InvalidTopicException);
                self.stop(&partition, None, fault);
            }
        }
    }

    fn request(&self, asked: &[AskedFetch]) -> FetchRequestData {
        let wire = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        let mut topics: Vec<FetchTopic> = Vec::new();
        for one in asked {
            let name = one.partition.topic.as_str();
            // In order of the partitions, even if a topic then comes up twice.
            if topics.last().is_none_or(|last| last.topic.as_str() != name) {
                topics.push(FetchTopic {
                    topic: KafkaString::from(name.to_owned()),
                    topic_id: one.topic_id.into(),
                    ..Default::default()
                });
            }
            let known = self.network.cluster.partition(&one.partition);
            let partition = FetchPartition {
                partition: one.partition.partition,
                current_leader_epoch: known.map_or(-1, |known| known.leader_epoch.0),
                fetch_offset: one.offset,
                last_fetched_epoch: -1,
                log_start_offset: -1,
                partition_max_bytes: wire(self.config.max_partition_fetch_bytes),
                ..Default::default()
            };
            if let Some(topic) = topics.last_mut() {
                topic.partitions.push(partition);
            }
        }
        FetchRequestData {
            replica_id: -1,
            max_wait_ms: wire(self.config.fetch_max_wait_ms),
            min_bytes: wire(self.config.fetch_min_bytes),
            max_bytes: wire(self.config.fetch_max_bytes),
            session_id: 0,
            // "No session, and none wanted" (KIP-227).
            session_epoch: -1,
            topics,
            ..Default::default()
        }
    }

    pub(super) fn on_fetched(
        &mut self,
        asked: Vec<AskedFetch>,
        version: i16,
        answer: FetchResponseData,
    ) {
        let whole = ErrorCode::from_code(answer.error_code);
        let whole = whole.unwrap_or(ErrorCode::UnknownServerError);
        let by_id = version > LAST_VERSION_BY_NAME;
        let mut answers: BTreeMap<(Bytes, i32), PartitionData> = BTreeMap::new();
        for topic in answer.responses {
            let key = if by_id {
                Bytes::copy_from_slice(&Uuid::from(topic.topic_id).0)
            } else {
                Bytes::copy_from_slice(topic.topic.as_bytes())
            };
            for partition in topic.partitions {
                answers.insert((key.clone(), partition.partition_index), partition);
            }
        }
        for one in asked {
            let key = if by_id {
                Bytes::copy_from_slice(&one.topic_id.0)
            } else {
                Bytes::copy_from_slice(one.partition.topic.as_str().as_bytes())
            };
            let answer = answers.remove(&(key, one.partition.partition));
            if self.answered(&one.partition, one.generation).is_none() {
                continue;
            }
            match answer {
                _ if whole.is_error() => {
                    self.on_error(&one.partition, one.generation, Some(one.offset), whole);
                }
                Some(answer) => self.on_partition(one, answer),
                None => self.try_later(&one.partition, one.generation),
            }
        }
    }

    fn on_partition(&mut self, asked: AskedFetch, answer: PartitionData) {
        let error =
            ErrorCode::from_code(answer.error_code).unwrap_or(ErrorCode::UnknownServerError);
        let records = answer.records.unwrap_or_default();
        self.events.push_back(ConsumerEvent::Answer(FetchAnswer {
            partition: asked.partition.clone(),
            fetch_offset: asked.offset,
            error,
            high_watermark: answer.high_watermark,
            log_start_offset: answer.log_start_offset,
            last_stable_offset: answer.last_stable_offset,
            bytes: records.len(),
        }));
        match error {
            ErrorCode::None => {}
            ErrorCode::OffsetOutOfRange => {
                self.on_out_of_range(&asked);
                return;
            }
            _ => {
                let leader = &answer.current_leader;
                if leader.leader_id >= 0 {
                    let (id, epoch) = (leader.leader_id, leader.leader_epoch);
                    self.network.hint_leader(&asked.partition, id, epoch);
                }
                self.on_error(
                    &asked.partition,
                    asked.generation,
                    Some(asked.offset),
                    error,
                );
                return;
            }
        }
        let fetched = Fetched {
            partition: asked.partition,
            generation: asked.generation,
            had_bytes: !records.is_empty(),
            bytes: records,
            fetch_offset: asked.offset,
            high_watermark: answer.high_watermark,
        };
        if let Some(assigned) = self.assigned.get_mut(&fetched.partition) {
            assigned.failures = 0;
            assigned.buffered = true;
            if !fetched.bytes.is_empty() {
                self.next_served += 1;
                assigned.served = self.next_served;
            }
            self.fetched.push_back(fetched);
        }
    }

    fn on_out_of_range(&mut self, asked: &AskedFetch) {
        self.events.push_back(ConsumerEvent::OutOfRange {
            partition: asked.partition.clone(),
            offset: asked.offset,
        });
        let start = match self.config.offset_reset {
            OffsetReset::Earliest => StartAt::Beginning,
            OffsetReset::Latest => StartAt::End,
            OffsetReset::None => {
                let fault = ConsumeFault::OutOfRange;
                self.stop(&asked.partition, Some(asked.offset), fault);
                return;
            }
        };
        if let Some(assigned) = self.assigned.get_mut(&asked.partition) {
            assigned.position = Position::Unknown(start);
        }
    }
}
