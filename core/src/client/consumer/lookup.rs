//! Positions that must be looked up.

use std::collections::BTreeMap;

use super::{Consumer, ConsumerEvent, Position, Question, StartAt};
use crate::{
    client::{
        network::{Loss, Peer},
        offsets::{self, OffsetSpec},
    },
    ids::{NodeId, TopicPartition},
    protocol::{ApiKey, ErrorCode, messages::ListOffsetsResponseData},
    time::Instant,
};

/// A question about the offset of a partition.
#[derive(Debug)]
pub(super) struct AskedOffset {
    pub(super) partition: TopicPartition,
    pub(super) generation: u64,
    start: StartAt,
}

impl Consumer {
    /// Asks leaders for the offsets of partitions whose position is not known.
    pub(super) fn look_up(&mut self, now: Instant) {
        let mut by_leader: BTreeMap<NodeId, Vec<AskedOffset>> = BTreeMap::new();
        for (partition, assigned) in &self.assigned {
            let Position::Unknown(start) = assigned.position else {
                continue;
            };
            if !assigned.is_idle(now) {
                continue;
            }
            match self.network.cluster.leader(partition) {
                Some(leader) => by_leader.entry(leader).or_default().push(AskedOffset {
                    partition: partition.clone(),
                    generation: assigned.generation,
                    start,
                }),
                None => self.network.refresh.request(),
            }
        }
        for (leader, asked) in by_leader {
            self.ask_offsets(now, Peer::Broker(leader), asked);
        }
    }

    fn ask_offsets(&mut self, now: Instant, peer: Peer, asked: Vec<AskedOffset>) {
        if !self.network.ensure(now, peer) {
            return;
        }
        let api = ApiKey::ListOffsets;
        let Some(version) = self.network.version(peer, api, i16::MAX) else {
            self.network.close(now, peer, Loss::Malformed);
            return;
        };
        let partitions = asked.iter().map(|one| {
            let known = self.network.cluster.partition(&one.partition);
            let spec = match one.start {
                StartAt::Beginning => OffsetSpec::Earliest,
                StartAt::Timestamp(at) => OffsetSpec::AtOrAfter(at),
                StartAt::End | StartAt::Offset(_) => OffsetSpec::Latest,
            };
            (&one.partition, known.map(|known| known.leader_epoch), spec)
        });
        let timeout = self.network.config.request_timeout_ms;
        let request = offsets::request(partitions, timeout);
        for one in &asked {
            if let Some(assigned) = self.assigned.get_mut(&one.partition) {
                assigned.asked = true;
            }
        }
        let names: Vec<_> = asked.iter().map(|one| one.partition.clone()).collect();
        let tag = Question::Offsets(asked);
        if self
            .network
            .send(now, peer, version, &request, tag)
            .is_err()
        {
            for partition in names {
                let fault = super::ConsumeFault::Refused(ErrorCode::InvalidTopicException);
                self.stop(&partition, None, fault);
            }
        }
    }

    pub(super) fn on_offsets(&mut self, asked: Vec<AskedOffset>, answer: ListOffsetsResponseData) {
        let mut answers = offsets::answers(answer);
        for one in asked {
            let answer = answers.remove(&one.partition);
            if self.answered(&one.partition, one.generation).is_none() {
                continue;
            }
            let Some(answer) = answer else {
                self.try_later(&one.partition, one.generation);
                continue;
            };
            if answer.error.is_error() {
                self.on_error(&one.partition, one.generation, None, answer.error);
                continue;
            }
            let Some(assigned) = self.answered(&one.partition, one.generation) else {
                continue;
            };
            assigned.failures = 0;
            // No record is that young: the end is where such a record will be.
            if answer.offset < 0 && matches!(one.start, StartAt::Timestamp(_)) {
                assigned.position = Position::Unknown(StartAt::End);
                continue;
            }
            let offset = answer.offset.max(0);
            assigned.position = Position::At(offset);
            self.events.push_back(ConsumerEvent::Positioned {
                partition: one.partition,
                start: one.start,
                offset,
            });
        }
    }
}
