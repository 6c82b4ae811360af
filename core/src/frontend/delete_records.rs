//! DeleteRecords: move log starts, durably, before answering.

use std::collections::BTreeMap;

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
    replication::SlotId,
};

/// Stands for the high watermark in a request.
const TO_HIGH_WATERMARK: i64 = -1;
/// Stands for "unknown" in an answer.
const NO_LOW_WATERMARK: i64 = -1;

#[derive(Debug)]
struct Pending {
    call: Call,
    response: DeleteRecordsResponseData,
    waiting: usize,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    request: u64,
    topic: usize,
    partition: usize,
}

/// All requests that wait for a log start to be durable.
#[derive(Debug, Default)]
pub(super) struct PendingDeletes {
    pending: BTreeMap<u64, Pending>,
    by_slot: BTreeMap<SlotId, Vec<(Offset, Place)>>,
    next: u64,
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
                Ok(Wanted::Already(start)) => answer.low_watermark = start,
                Ok(Wanted::Move(slot, offset)) => {
                    waiting += 1;
                    let place = Place {
                        request: id,
                        topic: topic_at,
                        partition: partition_at,
                    };
                    frontend
                        .deletes
                        .by_slot
                        .entry(slot)
                        .or_default()
                        .push((offset, place));
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
    frontend.deletes.pending.insert(
        id,
        Pending {
            call,
            response,
            waiting,
        },
    );
}

enum Wanted {
    Already(Offset),
    Move(SlotId, Offset),
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
    let start = partition.log().start();
    if offset <= start {
        Ok(Wanted::Already(start))
    } else {
        Ok(Wanted::Move(slot, offset))
    }
}

/// Answers what waited for a partition's log start, which is now durable up to `start`.
pub(super) fn on_start_moved(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    slot: SlotId,
    start: Option<Offset>,
) {
    let Some(waiting) = frontend.deletes.by_slot.remove(&slot) else {
        return;
    };
    let (done, later): (Vec<_>, Vec<_>) = waiting
        .into_iter()
        .partition(|(offset, _)| start.is_none_or(|start| *offset <= start));
    if !later.is_empty() {
        frontend.deletes.by_slot.insert(slot, later);
    }
    for (_, place) in done {
        let Some(pending) = frontend.deletes.pending.get_mut(&place.request) else {
            continue;
        };
        let answer = pending
            .response
            .topics
            .get_mut(place.topic)
            .and_then(|topic| topic.partitions.get_mut(place.partition));
        if let Some(answer) = answer {
            match start {
                Some(start) => answer.low_watermark = start,
                None => answer.error_code = ErrorCode::KafkaStorageError.code(),
            }
        }
        pending.waiting -= 1;
        if pending.waiting == 0
            && let Some(done) = frontend.deletes.pending.remove(&place.request)
        {
            frontend.answer(services, done.call, done.response);
        }
    }
}
