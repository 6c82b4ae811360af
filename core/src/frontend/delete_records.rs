//! DeleteRecords: move log starts, durably and on every live replica, before answering: whoever leads next must not bring deleted
//! records back.

use std::collections::{BTreeMap, BTreeSet};

use super::{Call, Frontend, Services, TopicRef};
use crate::{
    ids::Offset,
    protocol::{
        ErrorCode,
        messages::{
            DeleteRecordsPartitionResult, DeleteRecordsRequestData, DeleteRecordsResponseData,
            DeleteRecordsTopicResult,
        },
    },
    replication::{Partition, SlotId},
    time::Instant,
};

/// Stands for the high watermark in a request.
const TO_HIGH_WATERMARK: i64 = -1;
/// Stands for "unknown" in an answer.
const NO_LOW_WATERMARK: i64 = -1;
/// How long a request waits that gives no time: what it asks for takes a sync at least.
const NO_TIMEOUT_MS: u64 = 30_000;

#[derive(Debug)]
struct Pending {
    call: Call,
    response: DeleteRecordsResponseData,
    waiting: usize,
    deadline: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    request: u64,
    topic: usize,
    partition: usize,
}

/// All requests that wait for a log start to be durable, here and elsewhere.
#[derive(Debug, Default)]
pub(super) struct PendingDeletes {
    pending: BTreeMap<u64, Pending>,
    by_slot: BTreeMap<SlotId, Vec<(Offset, Place)>>,
    deadlines: BTreeSet<(Instant, u64)>,
    next: u64,
}

impl PendingDeletes {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Returns whether anybody waits for a partition.
    pub(super) fn waits_for(&self, slot: SlotId) -> bool {
        self.by_slot.contains_key(&slot)
    }

    fn take(&mut self, id: u64) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        self.deadlines.remove(&(pending.deadline, id));
        Some(pending)
    }
}

/// Executes a DeleteRecords request whose partitions' logs are all open, or cannot be opened.
pub(super) fn execute(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    call: Call,
    request: DeleteRecordsRequestData,
) {
    frontend.deletes.next += 1;
    let id = frontend.deletes.next;
    let mut response = DeleteRecordsResponseData::default();
    let mut waiting = 0;
    for (topic_at, topic) in request.topics.iter().enumerate() {
        let mut result = DeleteRecordsTopicResult {
            name: topic.name.clone(),
            ..DeleteRecordsTopicResult::default()
        };
        for (partition_at, wanted) in topic.partitions.iter().enumerate() {
            let mut answer = DeleteRecordsPartitionResult {
                partition_index: wanted.partition_index,
                low_watermark: NO_LOW_WATERMARK,
                ..DeleteRecordsPartitionResult::default()
            };
            let name = TopicRef::Name(topic.name.as_str());
            match check(services, &name, wanted.partition_index, wanted.offset) {
                Ok(wanted) if wanted.low >= wanted.offset => answer.low_watermark = wanted.low,
                Ok(Wanted { slot, offset, .. }) => {
                    waiting += 1;
                    let place = Place {
                        request: id,
                        topic: topic_at,
                        partition: partition_at,
                    };
                    let places = frontend.deletes.by_slot.entry(slot).or_default();
                    places.push((offset, place));
                    services.log_starts.want(slot, offset);
                }
                Err(code) => answer.error_code = code.code(),
            }
            result.partitions.push(answer);
        }
        response.topics.push(result);
    }
    if waiting == 0 {
        return frontend.answer(services, call, response);
    }
    let timeout = u64::try_from(request.timeout_ms)
        .ok()
        .filter(|timeout| *timeout > 0)
        .unwrap_or(NO_TIMEOUT_MS);
    let deadline = services.now.instant.plus_millis(timeout);
    frontend.deletes.deadlines.insert((deadline, id));
    frontend.deletes.pending.insert(
        id,
        Pending {
            call,
            response,
            waiting,
            deadline,
        },
    );
}

/// Where a partition is to begin, and where all its live replicas begin now.
struct Wanted {
    slot: SlotId,
    offset: Offset,
    low: Offset,
}

/// Returns below which offset no live replica holds a record, as far as the leader knows.
fn low_watermark(services: &Services<'_>, partition: &Partition) -> Offset {
    let image = services.cluster.image();
    let is_alive = |node| image.broker(node).is_some_and(|broker| !broker.fenced);
    let followers = partition.leadership().into_iter();
    followers
        .flat_map(|leadership| leadership.followers())
        .filter(|(node, _)| is_alive(*node))
        .map(|(_, follower)| follower.log_start().unwrap_or(NO_LOW_WATERMARK))
        .fold(partition.log().start(), Offset::min)
}

fn check(
    services: &Services<'_>,
    name: &TopicRef<'_>,
    index: i32,
    offset: Offset,
) -> Result<Wanted, ErrorCode> {
    let slot = services.slot(name, index)?;
    let partition = services
        .partitions
        .get(slot)
        .ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if partition.leader_epoch().is_none() {
        return Err(super::unavailable(partition));
    }
    if !partition.settings().log.delete {
        return Err(ErrorCode::PolicyViolation);
    }
    let high_watermark = partition.high_watermark();
    let offset = if offset == TO_HIGH_WATERMARK {
        high_watermark
    } else {
        offset
    };
    if offset < 0 || offset > high_watermark {
        return Err(ErrorCode::OffsetOutOfRange);
    }
    let low = low_watermark(services, partition);
    Ok(Wanted { slot, offset, low })
}

/// Notes that a partition's log start could not be made durable.
pub(super) fn on_start_failed(frontend: &mut Frontend, services: &mut Services<'_>, slot: SlotId) {
    let waiting = frontend.deletes.by_slot.remove(&slot);
    for (_, place) in waiting.into_iter().flatten() {
        let refused = Err(ErrorCode::KafkaStorageError);
        conclude(frontend, services, place, refused);
    }
}

/// Answers what waited for a partition and has it now: its log start is durable, a follower has told its own, or it is led
/// elsewhere.
pub(super) fn look_at(frontend: &mut Frontend, services: &mut Services<'_>, slot: SlotId) {
    let Some(waiting) = frontend.deletes.by_slot.remove(&slot) else {
        return;
    };
    let partition = services.partitions.get(slot);
    let led = partition.filter(|partition| partition.leader_epoch().is_some());
    let result = led
        .map(|partition| low_watermark(services, partition))
        .ok_or_else(|| partition.map_or(ErrorCode::NotLeaderOrFollower, super::unavailable));
    let is_done =
        |(offset, _): &(Offset, Place)| result.is_ok_and(|low| low >= *offset) || result.is_err();
    let (done, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_done);
    if !later.is_empty() {
        frontend.deletes.by_slot.insert(slot, later);
    }
    for (_, place) in done {
        conclude(frontend, services, place, result);
    }
}

fn conclude(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    place: Place,
    result: Result<Offset, ErrorCode>,
) {
    let Some(pending) = frontend.deletes.pending.get_mut(&place.request) else {
        return;
    };
    if let Some(answer) = pending.answer(place) {
        match result {
            Ok(low) => answer.low_watermark = low,
            Err(code) => answer.error_code = code.code(),
        }
    }
    pending.waiting -= 1;
    if pending.waiting == 0
        && let Some(done) = frontend.deletes.take(place.request)
    {
        frontend.answer(services, done.call, done.response);
    }
}

/// Answers requests whose time is over: the leader has deleted, but not every replica has said so.
pub(super) fn on_timeout(frontend: &mut Frontend, services: &mut Services<'_>) {
    while let Some((deadline, id)) = frontend.deletes.deadlines.first().copied() {
        if deadline > services.now.instant {
            break;
        }
        let Some(mut late) = frontend.deletes.take(id) else {
            continue;
        };
        frontend.deletes.by_slot.retain(|_, waiting| {
            waiting.retain(|(_, place)| {
                let is_late = place.request == id;
                if let Some(answer) = late.answer(*place).filter(|_| is_late) {
                    answer.error_code = ErrorCode::RequestTimedOut.code();
                }
                !is_late
            });
            !waiting.is_empty()
        });
        frontend.answer(services, late.call, late.response);
    }
}

impl Pending {
    fn answer(&mut self, place: Place) -> Option<&mut DeleteRecordsPartitionResult> {
        let topic = self.response.topics.get_mut(place.topic)?;
        topic.partitions.get_mut(place.partition)
    }
}
