//! ListOffsets: offsets by time, and by their role in the log.

use std::collections::{BTreeMap, BTreeSet};

use super::{Call, Frontend, Services, TopicRef};
use crate::{
    ids::Epoch,
    log::{FoundOffset, LookupOutcome, LookupTarget, ReadError, ReadId},
    planted::PlantedSet,
    protocol::{
        ErrorCode,
        messages::{
            ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequestData,
            ListOffsetsResponseData, ListOffsetsTopicResponse,
        },
    },
    replication::{FetchRefusal, Partition, SlotId},
};

/// Special values of a wanted timestamp (KIP-79, KIP-734, KIP-405, KIP-1005, KIP-1023).
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// The leader epoch of a client that knows none; anything lower is as stale as an old epoch.
const NO_EPOCH: i32 = -1;

/// From this version a client knows OFFSET_NOT_AVAILABLE (KIP-207).
const NOT_AVAILABLE_SINCE: i16 = 5;
/// Versions from which a special timestamp may be asked for.
const MAX_TIMESTAMP_SINCE: i16 = 7;
const EARLIEST_LOCAL_SINCE: i16 = 8;
const LATEST_TIERED_SINCE: i16 = 9;
const EARLIEST_PENDING_UPLOAD_SINCE: i16 = 11;

#[derive(Debug)]
struct Pending {
    call: Call,
    response: ListOffsetsResponseData,
    waiting: usize,
}

#[derive(Clone, Copy, Debug)]
struct Lookup {
    request: u64,
    topic: usize,
    partition: usize,
    slot: SlotId,
}

/// All look-ups that wait for the disk.
#[derive(Debug, Default)]
pub(super) struct PendingLookups {
    pending: BTreeMap<u64, Pending>,
    lookups: BTreeMap<ReadId, Lookup>,
    next_request: u64,
    next_lookup: u64,
}

/// Look-ups and fetches share the logs' numbering of reads; this half is theirs.
const FIRST_LOOKUP: u64 = 1 << 63;

/// Executes a ListOffsets request whose partitions' logs are all open, or cannot be opened.
pub(super) fn execute(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    call: Call,
    request: ListOffsetsRequestData,
) {
    frontend.lookups.next_request += 1;
    let id = frontend.lookups.next_request;
    let mut response = ListOffsetsResponseData::default();
    let mut waiting = 0;
    for (topic_at, topic) in request.topics.iter().enumerate() {
        let name = TopicRef::Name(topic.name.as_str());
        let repeated = repeated_partitions(&topic.partitions);
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for (partition_at, wanted) in topic.partitions.iter().enumerate() {
            let place = |slot| Lookup {
                request: id,
                topic: topic_at,
                partition: partition_at,
                slot,
            };
            let mut answer = ListOffsetsPartitionResponse {
                partition_index: wanted.partition_index,
                ..ListOffsetsPartitionResponse::default()
            };
            let repeated = repeated.contains(&wanted.partition_index);
            let found = if repeated {
                Err(ErrorCode::InvalidRequest)
            } else if !(0..=1).contains(&request.isolation_level) {
                Err(ErrorCode::UnknownServerError)
            } else {
                look_up(
                    frontend,
                    services,
                    call,
                    &name,
                    (wanted, request.replica_id),
                    place,
                )
            };
            match found {
                Ok(Some(found)) => fill(&mut answer, found),
                Ok(None) => waiting += 1,
                Err(code) => answer.error_code = code.code(),
            }
            partitions.push(answer);
        }
        let answer = ListOffsetsTopicResponse {
            name: topic.name.clone(),
            partitions,
            ..ListOffsetsTopicResponse::default()
        };
        response.topics.push(answer);
    }
    if waiting == 0 {
        return frontend.answer(services, call, response);
    }
    frontend.lookups.pending.insert(
        id,
        Pending {
            call,
            response,
            waiting,
        },
    );
}

/// Returns the partitions that are named more than once.
fn repeated_partitions(partitions: &[ListOffsetsPartition]) -> BTreeSet<i32> {
    let mut seen = BTreeSet::new();
    let indexes = partitions.iter().map(|partition| partition.partition_index);
    indexes.filter(|index| !seen.insert(*index)).collect()
}

/// Looks one partition up; `None` if the disk is needed.
fn look_up(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    call: Call,
    name: &TopicRef<'_>,
    (wanted, replica): (&ListOffsetsPartition, i32),
    place: impl FnOnce(SlotId) -> Lookup,
) -> Result<Option<FoundOffset>, ErrorCode> {
    let slot = services.slot(name, wanted.partition_index)?;
    let planted = services.planted;
    let (partitions, mut context) = services.partitions();
    let partition = partitions
        .get(slot)
        .ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if wanted.current_leader_epoch < NO_EPOCH {
        return Err(ErrorCode::FencedLeaderEpoch);
    }
    let known = (wanted.current_leader_epoch >= 0).then_some(Epoch(wanted.current_leader_epoch));
    partition.check_epoch(known, true)?;
    let Some(target) = target(wanted.timestamp, call.version)? else {
        return Ok(Some(NOTHING));
    };
    if target == LookupTarget::Latest {
        // What consumers may read, not what the log holds; a follower wants to know that.
        let offset = partition
            .latest_offset(known, replica < 0, planted)
            .map_err(|refusal| not_available(refusal, call.version))?;
        return Ok(Some(FoundOffset {
            offset,
            timestamp: -1,
            epoch: partition.leader_epoch(),
        }));
    }
    frontend.lookups.next_lookup += 1;
    let id = ReadId(FIRST_LOOKUP + frontend.lookups.next_lookup);
    match partitions.look_up(&mut context, slot, id, target) {
        Some(LookupOutcome::Ready(found)) => {
            visible(partitions.get(slot), found, call.version, planted).map(Some)
        }
        Some(LookupOutcome::Failed(error)) => Err(failed(error)),
        Some(LookupOutcome::Pending) => {
            frontend.lookups.lookups.insert(id, place(slot));
            Ok(None)
        }
        None => Err(ErrorCode::NotLeaderOrFollower),
    }
}

/// Takes the result of a look-up that needed the disk.
pub(super) fn on_found(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    id: ReadId,
    result: Result<Option<FoundOffset>, ReadError>,
) {
    let Some(lookup) = frontend.lookups.lookups.remove(&id) else {
        return;
    };
    let Some(pending) = frontend.lookups.pending.get_mut(&lookup.request) else {
        return;
    };
    let place = pending
        .response
        .topics
        .get_mut(lookup.topic)
        .and_then(|topic| topic.partitions.get_mut(lookup.partition));
    if let Some(place) = place {
        match result {
            Ok(found) => {
                let partition = services.partitions.get(lookup.slot);
                match visible(partition, found, pending.call.version, services.planted) {
                    Ok(found) => fill(place, found),
                    Err(code) => place.error_code = code.code(),
                }
            }
            Err(error) => place.error_code = failed(error).code(),
        }
    }
    pending.waiting -= 1;
    if pending.waiting == 0
        && let Some(done) = frontend.lookups.pending.remove(&lookup.request)
    {
        frontend.answer(services, done.call, done.response);
    }
}

/// "There is no such offset": not an error (KIP-79).
const NOTHING: FoundOffset = FoundOffset {
    offset: -1,
    timestamp: -1,
    epoch: None,
};

/// Hides what consumers cannot read yet. A new leader whose high watermark lags says nothing about what lies past it: an earlier
/// leader may have shown it (KIP-207).
fn visible(
    partition: Option<&Partition>,
    found: Option<FoundOffset>,
    version: i16,
    planted: PlantedSet,
) -> Result<FoundOffset, ErrorCode> {
    let readable = partition.map_or(0, Partition::high_watermark);
    let is_visible = |found: &FoundOffset| found.offset < readable || found.timestamp < 0;
    if let Some(found) = found.filter(is_visible) {
        return Ok(found);
    }
    if let Some(partition) = partition {
        partition
            .latest_offset(None, true, planted)
            .map_err(|refusal| not_available(refusal, version))?;
    }
    Ok(NOTHING)
}

/// Older clients do not know OFFSET_NOT_AVAILABLE (as in Kafka).
fn not_available(refusal: FetchRefusal, version: i16) -> ErrorCode {
    match ErrorCode::from(refusal) {
        ErrorCode::OffsetNotAvailable if version < NOT_AVAILABLE_SINCE => {
            ErrorCode::LeaderNotAvailable
        }
        code => code,
    }
}

fn fill(answer: &mut ListOffsetsPartitionResponse, found: FoundOffset) {
    answer.offset = found.offset;
    answer.timestamp = found.timestamp;
    answer.leader_epoch = found.epoch.map_or(-1, |epoch| epoch.0);
}

fn failed(error: ReadError) -> ErrorCode {
    match error {
        ReadError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        ReadError::NotOpen => ErrorCode::NotLeaderOrFollower,
        ReadError::Offline => ErrorCode::KafkaStorageError,
        ReadError::Unreadable => ErrorCode::CorruptMessage,
    }
}

/// Reads the wanted timestamp; `None` where nothing can be found without tiered storage.
fn target(timestamp: i64, version: i16) -> Result<Option<LookupTarget>, ErrorCode> {
    let since = |first: i16, target| {
        if version >= first {
            Ok(target)
        } else {
            Err(ErrorCode::UnsupportedVersion)
        }
    };
    match timestamp {
        LATEST => Ok(Some(LookupTarget::Latest)),
        EARLIEST => Ok(Some(LookupTarget::Earliest)),
        MAX_TIMESTAMP => since(MAX_TIMESTAMP_SINCE, Some(LookupTarget::MaxTimestamp)),
        EARLIEST_LOCAL => since(EARLIEST_LOCAL_SINCE, Some(LookupTarget::Earliest)),
        LATEST_TIERED => since(LATEST_TIERED_SINCE, None),
        EARLIEST_PENDING_UPLOAD => since(EARLIEST_PENDING_UPLOAD_SINCE, None),
        time if time < 0 => Err(ErrorCode::UnsupportedVersion),
        time => Ok(Some(LookupTarget::Timestamp(time))),
    }
}
