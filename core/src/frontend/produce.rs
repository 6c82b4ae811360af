//! Produce: check and append each partition's batch, answer once every copy asked for counts.

use std::collections::{BTreeMap, BTreeSet};

use super::{Call, Frontend, Services, TopicRef};
use crate::{
    batch::{BatchError, ProduceRules, validate_produce},
    protocol::{
        ErrorCode, Few, KafkaString, LeaderIdAndEpoch, NodeEndpoint, ProducePartition,
        ProducePartitionResponse, ProduceRequest, ProduceResponse, ProduceTopicResponse,
        RecordError,
    },
    replication::{AckToken, Acknowledged, Acks, AppendFailure, AppendRefusal},
    time::Instant,
};

/// From this version a Produce may carry Zstandard (KIP-110).
const ZSTD_SINCE: i16 = 7;
/// How long a request waits that gives no time: as in Kafka, it does not fail for that.
const NO_TIMEOUT_MS: u64 = 30_000;
/// From this version an answer says where the leader is (KIP-951).
const LEADER_SINCE: i16 = 10;
/// From this version topics are named by id.
const TOPIC_ID_SINCE: i16 = 13;

/// A Produce request with partitions that still wait for their copies.
#[derive(Debug)]
struct Pending {
    call: Call,
    answer: Answer,
    deadline: Instant,
}

/// An answer that is filled in as partitions finish.
#[derive(Debug)]
struct Answer {
    topics: Vec<ProduceTopicResponse>,
    places: Vec<Vec<Place>>,
    waiting: usize,
}

#[derive(Debug)]
struct Place {
    response: ProducePartitionResponse,
    waits: bool,
}

/// All Produce requests that wait.
#[derive(Debug, Default)]
pub(super) struct PendingProduces {
    pending: BTreeMap<u64, Pending>,
    deadlines: BTreeSet<(Instant, u64)>,
    next: u64,
}

impl PendingProduces {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }
}

/// Why a partition's batch is not, or not certainly, in the log: what the answer says.
#[derive(Debug)]
struct Refusal {
    code: ErrorCode,
    message: Option<String>,
    records: Vec<(i32, String)>,
    log_start: i64,
}

impl Refusal {
    const fn code(code: ErrorCode) -> Self {
        Self {
            code,
            message: None,
            records: Vec::new(),
            log_start: -1,
        }
    }

    fn into_response(self, index: i32) -> ProducePartitionResponse {
        let record = |(batch_index, message): (i32, String)| RecordError {
            batch_index,
            message: Some(KafkaString::from(message)),
        };
        ProducePartitionResponse {
            index,
            error_code: self.code,
            base_offset: -1,
            log_append_time_ms: -1,
            log_start_offset: self.log_start,
            record_errors: self.records.into_iter().map(record).collect(),
            error_message: self.message.map(KafkaString::from),
            ..ProducePartitionResponse::default()
        }
    }
}

impl Refusal {
    /// Says what is wrong with a batch; once it is known to be one, the answer carries the log start (as in Kafka).
    fn of_batch(error: BatchError, log_start: i64) -> Self {
        let is_batch = !matches!(
            error,
            BatchError::NoBatch | BatchError::MultipleBatches | BatchError::OldMagic { .. }
        );
        let refusal = Self::from(error);
        let names_start = matches!(
            refusal.code,
            ErrorCode::InvalidRecord | ErrorCode::InvalidTimestamp
        );
        if is_batch && names_start {
            Self {
                log_start,
                ..refusal
            }
        } else {
            refusal
        }
    }
}

impl From<AppendRefusal> for Refusal {
    fn from(refusal: AppendRefusal) -> Self {
        Self::code(match refusal {
            AppendRefusal::NotLeader => ErrorCode::NotLeaderOrFollower,
            AppendRefusal::NotEnoughReplicas => ErrorCode::NotEnoughReplicas,
            AppendRefusal::Offline | AppendRefusal::Log(_) => ErrorCode::KafkaStorageError,
        })
    }
}

impl From<AppendFailure> for Refusal {
    fn from(failure: AppendFailure) -> Self {
        match failure {
            AppendFailure::NoSpace => Self {
                message: Some("The broker's disk is full; free space to go on.".to_owned()),
                ..Self::code(ErrorCode::KafkaStorageError)
            },
            AppendFailure::NotWritten | AppendFailure::Offline => {
                Self::code(ErrorCode::KafkaStorageError)
            }
            AppendFailure::NotLeader | AppendFailure::Deleted => {
                Self::code(ErrorCode::NotLeaderOrFollower)
            }
        }
    }
}

impl From<BatchError> for Refusal {
    fn from(error: BatchError) -> Self {
        let records = error
            .rejected_records()
            .iter()
            .map(|rejected| (rejected.batch_index, rejected.reason.to_string()))
            .collect();
        let code =
            ErrorCode::from_code(error.kafka_code()).unwrap_or(ErrorCode::UnknownServerError);
        Self {
            code,
            message: Some(error.to_string()),
            records,
            log_start: -1,
        }
    }
}

/// Executes a Produce request whose partitions' logs are all open, or cannot be opened.
pub(super) fn execute(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    call: Call,
    request: ProduceRequest,
) {
    let Some(acks) = Acks::from_wire(request.acks) else {
        let answer = for_each_partition(services, call, &request, 0, |services, _, target| {
            services
                .slot(&target.topic, target.partition.index)
                .map_err(Refusal::code)?;
            Err(Refusal::code(ErrorCode::InvalidRequiredAcks))
        });
        return answer.send(frontend, services, call);
    };
    frontend.produces.next += 1;
    let id = frontend.produces.next;
    let mut failed = false;
    let answer = for_each_partition(services, call, &request, id, |services, token, target| {
        let appended = append(services, call, target, acks, token);
        failed |= appended.is_err();
        appended
    });
    if acks == Acks::None {
        // Nobody listens for an error, so a closed connection has to tell (as in Kafka).
        if failed {
            let reason = "a Produce with acks=0 failed".to_owned();
            return frontend.close(services.outputs, call.token, reason);
        }
        return frontend.send(services.outputs, call.token, None);
    }
    if answer.waiting == 0 {
        return answer.send(frontend, services, call);
    }
    let timeout = u64::try_from(request.timeout_ms)
        .ok()
        .filter(|timeout| *timeout > 0)
        .unwrap_or(NO_TIMEOUT_MS);
    let deadline = services.now.instant.plus_millis(timeout);
    frontend.produces.deadlines.insert((deadline, id));
    frontend.produces.pending.insert(
        id,
        Pending {
            call,
            answer,
            deadline,
        },
    );
}

/// One partition of a request.
struct Target<'a> {
    topic: TopicRef<'a>,
    partition: &'a ProducePartition,
}

fn for_each_partition(
    services: &mut Services<'_>,
    call: Call,
    request: &ProduceRequest,
    id: u64,
    mut append: impl FnMut(&mut Services<'_>, AckToken, &Target<'_>) -> Result<bool, Refusal>,
) -> Answer {
    let mut answer = Answer {
        topics: Vec::new(),
        places: Vec::new(),
        waiting: 0,
    };
    for (topic, topic_at) in request.topics.iter().zip(0_u32..) {
        let mut places = Vec::with_capacity(topic.partitions.len());
        for (partition, partition_at) in topic.partitions.iter().zip(0_u32..) {
            let token = AckToken {
                request: id,
                topic: topic_at,
                partition: partition_at,
            };
            let by_id = call.version >= TOPIC_ID_SINCE;
            let topic = TopicRef::new(&topic.name, &topic.topic_id, by_id);
            let place = match append(services, token, &Target { topic, partition }) {
                Ok(waits) => Place {
                    response: unanswered(partition.index),
                    waits,
                },
                Err(refusal) => Place {
                    response: refusal.into_response(partition.index),
                    waits: false,
                },
            };
            answer.waiting += usize::from(place.waits);
            places.push(place);
        }
        answer.topics.push(ProduceTopicResponse {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            partitions: Few::default(),
        });
        answer.places.push(places);
    }
    answer
}

/// Appends one partition's batch; returns whether its acknowledgement must be waited for.
fn append(
    services: &mut Services<'_>,
    call: Call,
    target: &Target<'_>,
    acks: Acks,
    token: AckToken,
) -> Result<bool, Refusal> {
    let slot = services
        .slot(&target.topic, target.partition.index)
        .map_err(Refusal::code)?;
    let now_ms = services.now.wall.as_millis();
    let (partitions, mut context) = services.partitions();
    let Some(partition) = partitions.get(slot) else {
        return Err(Refusal::code(ErrorCode::UnknownTopicOrPartition));
    };
    partition.check_writable(acks)?;
    let rules = ProduceRules {
        zstd_allowed: call.version >= ZSTD_SINCE,
        ..partition.settings().produce_rules
    };
    let log_start = partition.log().start();
    let batch = validate_produce(target.partition.records.as_ref(), &rules, now_ms)
        .map_err(|error| Refusal::of_batch(error, log_start))?;
    if batch.header().attributes().is_transactional() {
        // Without transactions such a batch would hold readers of committed records back for ever.
        return Err(Refusal::code(ErrorCode::TransactionalIdAuthorizationFailed));
    }
    partitions.append(&mut context, slot, batch, acks, token)?;
    Ok(acks != Acks::None)
}

fn unanswered(index: i32) -> ProducePartitionResponse {
    ProducePartitionResponse {
        index,
        ..ProducePartitionResponse::default()
    }
}

impl Answer {
    fn place(&mut self, token: AckToken) -> Option<&mut Place> {
        let topic = usize::try_from(token.topic).ok()?;
        let partition = usize::try_from(token.partition).ok()?;
        self.places.get_mut(topic)?.get_mut(partition)
    }

    /// Says of partitions that are led elsewhere by whom, and where those brokers are (KIP-951).
    fn name_leaders(
        &mut self,
        frontend: &Frontend,
        services: &Services<'_>,
        call: Call,
    ) -> Vec<NodeEndpoint> {
        let mut leaders = BTreeSet::new();
        let by_id = call.version >= TOPIC_ID_SINCE;
        for (topic, places) in self.topics.iter().zip(&mut self.places) {
            let refused =
                |place: &&mut Place| place.response.error_code == ErrorCode::NotLeaderOrFollower;
            for place in places.iter_mut().filter(refused) {
                let name = TopicRef::new(&topic.name, &topic.topic_id, by_id);
                if let Some((leader, epoch)) = services.leader(&name, place.response.index) {
                    place.response.current_leader = LeaderIdAndEpoch {
                        leader_id: leader.0,
                        leader_epoch: epoch.0,
                    };
                    leaders.insert(leader);
                }
            }
        }
        if leaders.is_empty() {
            return Vec::new();
        }
        let listener = frontend.listener_name(call.token.connection);
        services.endpoints(&listener, &leaders)
    }

    fn send(mut self, frontend: &mut Frontend, services: &mut Services<'_>, call: Call) {
        let node_endpoints = if call.version >= LEADER_SINCE {
            self.name_leaders(frontend, services, call)
        } else {
            Vec::new()
        };
        let topics: Vec<_> = self
            .topics
            .into_iter()
            .zip(self.places)
            .map(|(topic, places)| ProduceTopicResponse {
                partitions: places
                    .into_iter()
                    .map(|place| place.response)
                    .collect::<Vec<_>>()
                    .into(),
                ..topic
            })
            .collect();
        let response = ProduceResponse {
            topics: topics.into(),
            node_endpoints,
            ..ProduceResponse::default()
        };
        frontend.answer(services, call, response);
    }
}

/// Notes that one partition of a waiting request is done, well or badly.
pub(super) fn on_acknowledged(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    token: AckToken,
    result: Result<Acknowledged, AppendFailure>,
) {
    let Some(pending) = frontend.produces.pending.get_mut(&token.request) else {
        return;
    };
    let Some(place) = pending.answer.place(token).filter(|place| place.waits) else {
        return;
    };
    place.waits = false;
    match result {
        Ok(done) => {
            place.response.base_offset = done.base_offset;
            place.response.log_append_time_ms = done.log_append_time;
            place.response.log_start_offset = done.log_start;
        }
        Err(failure) => {
            place.response = Refusal::from(failure).into_response(place.response.index);
        }
    }
    pending.answer.waiting -= 1;
    if pending.answer.waiting > 0 {
        return;
    }
    if let Some(done) = frontend.produces.pending.remove(&token.request) {
        frontend
            .produces
            .deadlines
            .remove(&(done.deadline, token.request));
        done.answer.send(frontend, services, done.call);
    }
}

/// Answers requests whose timeout is over: what still waits may or may not be found later.
pub(super) fn on_timeout(frontend: &mut Frontend, services: &mut Services<'_>) {
    while let Some((deadline, id)) = frontend.produces.deadlines.first().copied() {
        if deadline > services.now.instant {
            break;
        }
        frontend.produces.deadlines.remove(&(deadline, id));
        let Some(mut late) = frontend.produces.pending.remove(&id) else {
            continue;
        };
        for place in late
            .answer
            .places
            .iter_mut()
            .flatten()
            .filter(|place| place.waits)
        {
            place.response =
                Refusal::code(ErrorCode::RequestTimedOut).into_response(place.response.index);
        }
        late.answer.send(frontend, services, late.call);
    }
}
