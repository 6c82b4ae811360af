//! What answers, and their absence, mean for batches.

use std::collections::BTreeMap;

use super::{Asked, Failure, Outcome, Producer, queue::Sealed};
use crate::{
    client::network::Loss,
    ids::{TopicPartition, Uuid},
    protocol::{
        ErrorCode,
        messages::{ProduceResponseData, wire::produce_response::PartitionProduceResponse},
    },
    time::Timestamp,
};

impl Producer {
    pub(super) fn on_answer(
        &mut self,
        asked: Vec<Asked>,
        version: i16,
        answer: ProduceResponseData,
    ) {
        let by_id = version > 12;
        let mut answers: BTreeMap<(Vec<u8>, i32), PartitionProduceResponse> = BTreeMap::new();
        for topic in answer.responses {
            let key = if by_id {
                Uuid::from(topic.topic_id).0.to_vec()
            } else {
                topic.name.as_bytes().to_vec()
            };
            for partition in topic.partition_responses {
                answers.insert((key.clone(), partition.index), partition);
            }
        }
        for one in asked {
            let key = if by_id {
                one.topic_id.0.to_vec()
            } else {
                one.partition.topic.as_str().as_bytes().to_vec()
            };
            let answer = answers.remove(&(key, one.partition.partition));
            // Without a batch it was given up before the answer came.
            let Some(batch) = self.take_in_flight(&one) else {
                continue;
            };
            match answer {
                Some(answer) => self.on_partition_answer(one.partition, batch, &answer),
                None => self.retry(one.partition, batch, Failure::ConnectionLost),
            }
        }
    }

    pub(super) fn on_lost(&mut self, asked: Vec<Asked>, loss: Loss) {
        self.network.refresh.request();
        for one in asked {
            if let Some(mut batch) = self.take_in_flight(&one) {
                match loss {
                    Loss::NotSent => batch.transmissions = batch.transmissions.saturating_sub(1),
                    Loss::TimedOut => batch.last_error = ErrorCode::RequestTimedOut,
                    Loss::Disconnected | Loss::Malformed => {
                        batch.last_error = ErrorCode::NetworkException;
                    }
                }
                self.retry(one.partition, batch, Failure::ConnectionLost);
            }
        }
    }

    fn take_in_flight(&mut self, asked: &Asked) -> Option<Sealed> {
        let queue = self.queues.get_mut(&asked.partition)?;
        queue.in_flight.remove(&asked.first)
    }

    fn on_partition_answer(
        &mut self,
        partition: TopicPartition,
        mut batch: Sealed,
        answer: &PartitionProduceResponse,
    ) {
        let error =
            ErrorCode::from_code(answer.error_code).unwrap_or(ErrorCode::UnknownServerError);
        if error == ErrorCode::None {
            let append_time = answer.log_append_time_ms;
            let outcome = Outcome::Delivered {
                base_offset: answer.base_offset,
                log_append_time: (append_time >= 0).then_some(Timestamp::from_millis(append_time)),
                log_start_offset: answer.log_start_offset,
            };
            self.report(partition, batch, outcome);
            return;
        }
        batch.last_error = error;
        if excludes_write(error) {
            batch.refusals = batch.refusals.saturating_add(1);
        }
        if error == ErrorCode::MessageTooLarge && batch.records.len() > 1 {
            match batch.split(self.config.compression) {
                Ok(halves) => {
                    for half in halves {
                        self.put_back(partition.clone(), half);
                    }
                }
                Err(batch) => self.finish(partition, batch, Failure::Refused(error)),
            }
            return;
        }
        if !error.is_retriable() {
            self.finish(partition, batch, Failure::Refused(error));
            return;
        }
        let leader = &answer.current_leader;
        if leader.leader_id >= 0 {
            self.network
                .hint_leader(&partition, leader.leader_id, leader.leader_epoch);
        } else {
            self.network.refresh.request();
        }
        self.retry(partition, batch, Failure::Refused(error));
    }

    /// Sends a batch again later, if that is still allowed.
    fn retry(&mut self, partition: TopicPartition, mut batch: Sealed, failure: Failure) {
        if batch.transmissions > self.config.retries {
            self.finish(partition, batch, failure);
            return;
        }
        let backoff = self.network.retry_backoff();
        let wait = backoff.wait_ms(batch.transmissions, &mut self.network.rng);
        batch.not_before = self.now.plus_millis(wait);
        self.put_back(partition, batch);
    }

    pub(super) fn put_back(&mut self, partition: TopicPartition, batch: Sealed) {
        self.queues.entry(partition).or_default().put_back(batch);
    }

    /// Reports a batch that is given up.
    pub(super) fn finish(&mut self, partition: TopicPartition, batch: Sealed, failure: Failure) {
        let outcome = if batch.is_unwritten() {
            Outcome::Failed(failure)
        } else {
            Outcome::Unknown(failure)
        };
        self.report(partition, batch, outcome);
    }
}

/// Says whether a broker answers so only if it did not append the batch.
///
/// An error that is also given after an append, when replication or storage fails, must not be in
/// this list: what is reported as failed may never show up in the log.
const fn excludes_write(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::CorruptMessage
            | ErrorCode::MessageTooLarge
            | ErrorCode::InvalidTopicException
            | ErrorCode::RecordListTooLarge
            | ErrorCode::NotEnoughReplicas
            | ErrorCode::InvalidRequiredAcks
            | ErrorCode::TopicAuthorizationFailed
            | ErrorCode::ClusterAuthorizationFailed
            | ErrorCode::InvalidTimestamp
            | ErrorCode::UnsupportedVersion
            | ErrorCode::InvalidRequest
            | ErrorCode::UnsupportedForMessageFormat
            | ErrorCode::PolicyViolation
            | ErrorCode::UnsupportedCompressionType
            | ErrorCode::InvalidRecord
    )
}
