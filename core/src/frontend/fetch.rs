//! Fetch: read each partition up to its high watermark, or wait until there is enough to read.

use std::collections::{BTreeMap, BTreeSet};

use super::{Call, Frontend, Services, TopicRef};
use crate::{
    ids::{ConnectionId, Epoch, NodeId},
    log::{FetchSlice, ReadError, ReadId, ReadOutcome, ReadRequest},
    protocol::{
        EpochEndOffset, ErrorCode, FetchFrame, FetchPartition, FetchPartitionResponse,
        FetchRecords, FetchRequest, FetchResponse, FetchTopicResponse, Few, FramePart,
        encode_fetch_response,
    },
    replication::{Partition, SlotId},
    storage::{Frame, Part},
    time::Instant,
};

/// Only decided transactions are to be read; the answer then lists the aborted ones, of which there are none yet.
const READ_COMMITTED: i8 = 1;
/// All records are to be read.
const READ_UNCOMMITTED: i8 = 0;
/// From this version topics are named by id (KIP-516).
const TOPIC_ID_SINCE: i16 = 13;
/// `fetch.max.bytes`: the most bytes of one answer, whatever the client asks for.
const RESPONSE_BYTES_MAX: usize = 55 * 1024 * 1024;

/// A Fetch under way.
#[derive(Debug)]
struct Fetching {
    call: Call,
    request: FetchRequest,
    places: Vec<Place>,
    /// The place being read, or to be read next.
    cursor: usize,
    bytes: usize,
    failed: bool,
    /// Whether the wait is over and whatever is there must do.
    last_round: bool,
    deadline: Instant,
}

/// One partition of a Fetch.
#[derive(Debug)]
struct Place {
    topic: usize,
    slot: Option<SlotId>,
    wanted: FetchPartition,
    response: FetchPartitionResponse,
    parts: Vec<Part>,
    bytes: usize,
}

/// All Fetch requests that wait, for data or for the disk.
#[derive(Debug, Default)]
pub(super) struct ParkedFetches {
    fetches: BTreeMap<u64, Fetching>,
    by_connection: BTreeMap<ConnectionId, u64>,
    by_slot: BTreeMap<SlotId, BTreeSet<u64>>,
    reading: BTreeMap<ReadId, u64>,
    deadlines: BTreeSet<(Instant, u64)>,
    next: u64,
    next_read: u64,
}

impl ParkedFetches {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub(super) fn on_closed(&mut self, connection: ConnectionId) {
        if let Some(id) = self.by_connection.get(&connection).copied() {
            self.take(id);
        }
    }

    fn park(&mut self, id: u64, fetching: Fetching) {
        for slot in fetching.places.iter().filter_map(|place| place.slot) {
            self.by_slot.entry(slot).or_default().insert(id);
        }
        self.deadlines.insert((fetching.deadline, id));
        self.put(id, fetching);
    }

    fn put(&mut self, id: u64, fetching: Fetching) {
        self.by_connection
            .insert(fetching.call.token.connection, id);
        self.fetches.insert(id, fetching);
    }

    fn take(&mut self, id: u64) -> Option<Fetching> {
        let fetching = self.fetches.remove(&id)?;
        self.by_connection.remove(&fetching.call.token.connection);
        self.deadlines.remove(&(fetching.deadline, id));
        for slot in fetching.places.iter().filter_map(|place| place.slot) {
            if let Some(waiting) = self.by_slot.get_mut(&slot) {
                waiting.remove(&id);
                if waiting.is_empty() {
                    self.by_slot.remove(&slot);
                }
            }
        }
        Some(fetching)
    }
}

/// Executes a Fetch request whose partitions' logs are all open, or cannot be opened.
pub(super) fn execute(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    call: Call,
    request: FetchRequest,
) {
    if let Some(code) = refuse_whole(&request) {
        return refuse(frontend, services, call, code);
    }
    frontend.fetches.next += 1;
    let id = frontend.fetches.next;
    let wait = u64::try_from(request.max_wait_ms).unwrap_or(0);
    let mut fetching = Fetching {
        call,
        places: Vec::new(),
        cursor: 0,
        bytes: 0,
        failed: false,
        last_round: wait == 0,
        deadline: services.now.instant.plus_millis(wait),
        request,
    };
    fetching.start_over(services);
    advance(frontend, services, id, fetching);
}

/// Says why a request cannot be served as a whole. No fetch session is ever given out, so none can be continued: the
/// client starts over with a full request (KIP-227).
fn refuse_whole(request: &FetchRequest) -> Option<ErrorCode> {
    // 0 asks for a new session, -1 for none; whatever else it is would continue one.
    if !matches!(request.session_epoch, 0 | -1) {
        return Some(ErrorCode::FetchSessionIdNotFound);
    }
    let known = (READ_UNCOMMITTED..=READ_COMMITTED).contains(&request.isolation_level);
    (!known).then_some(ErrorCode::UnknownServerError)
}

fn refuse(frontend: &mut Frontend, services: &mut Services<'_>, call: Call, code: ErrorCode) {
    let response = FetchResponse {
        error_code: code,
        ..FetchResponse::default()
    };
    match encode_fetch_response(call.version, call.correlation_id, &response) {
        Ok(frame) => send(frontend, services, call, frame, Vec::new()),
        Err(error) => frontend.close(services.outputs, call.token, error.to_string()),
    }
}

/// Reads on until the answer is complete, the disk is needed, or there is something to wait for.
fn advance(frontend: &mut Frontend, services: &mut Services<'_>, id: u64, mut fetching: Fetching) {
    while fetching.cursor < fetching.places.len() {
        frontend.fetches.next_read += 1;
        let read = ReadId(frontend.fetches.next_read);
        if !fetching.read_place(services, read) {
            frontend.fetches.reading.insert(read, id);
            return frontend.fetches.put(id, fetching);
        }
        fetching.cursor += 1;
    }
    if fetching.is_enough() {
        return respond(frontend, services, fetching);
    }
    frontend.fetches.park(id, fetching);
}

/// Continues a Fetch whose read came back from the disk.
pub(super) fn on_read(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    read: ReadId,
    result: Result<FetchSlice, ReadError>,
) {
    let Some(id) = frontend.fetches.reading.remove(&read) else {
        return;
    };
    let Some(mut fetching) = frontend.fetches.take(id) else {
        return;
    };
    let at = fetching.cursor;
    fetching.fill(at, services, result);
    fetching.cursor += 1;
    advance(frontend, services, id, fetching);
}

/// Looks at the long polls that wait for a partition whose high watermark moved.
pub(super) fn on_moved(frontend: &mut Frontend, services: &mut Services<'_>, slot: SlotId) {
    let Some(waiting) = frontend.fetches.by_slot.get(&slot) else {
        return;
    };
    let waiting: Vec<u64> = waiting.iter().copied().collect();
    for id in waiting {
        let enough = frontend
            .fetches
            .fetches
            .get_mut(&id)
            .is_some_and(|fetching| fetching.would_be_enough(services, slot));
        if enough {
            again(frontend, services, id, false);
        }
    }
}

/// Answers the long polls whose wait is over.
pub(super) fn on_timeout(frontend: &mut Frontend, services: &mut Services<'_>) {
    while let Some((deadline, id)) = frontend.fetches.deadlines.first().copied() {
        if deadline > services.now.instant {
            break;
        }
        again(frontend, services, id, true);
    }
}

/// Answers every long poll now.
pub(super) fn release_all(frontend: &mut Frontend, services: &mut Services<'_>) {
    let parked: Vec<u64> = frontend
        .fetches
        .deadlines
        .iter()
        .map(|(_, id)| *id)
        .collect();
    for id in parked {
        again(frontend, services, id, true);
    }
}

fn again(frontend: &mut Frontend, services: &mut Services<'_>, id: u64, last_round: bool) {
    let Some(mut fetching) = frontend.fetches.take(id) else {
        return;
    };
    fetching.last_round |= last_round;
    fetching.start_over(services);
    advance(frontend, services, id, fetching);
}

impl Fetching {
    fn start_over(&mut self, services: &Services<'_>) {
        self.places.clear();
        self.cursor = 0;
        self.bytes = 0;
        self.failed = false;
        let by_id = self.call.version >= TOPIC_ID_SINCE;
        for (at, topic) in self.request.topics.iter().enumerate() {
            let name = TopicRef::new(&topic.topic, &topic.topic_id, by_id);
            for wanted in topic.partitions.iter() {
                let slot = services.slot(&name, wanted.partition);
                let mut place = Place::new(at, slot.ok(), wanted.clone());
                if self.request.isolation_level == READ_COMMITTED {
                    place.response.aborted_transactions = Some(Vec::new());
                }
                if let Err(code) = slot {
                    place.response.error_code = code;
                    place.response.aborted_transactions = Some(Vec::new());
                    self.failed = true;
                }
                self.places.push(place);
            }
        }
    }

    /// Reads the place at the cursor; returns false if the disk is needed.
    fn read_place(&mut self, services: &mut Services<'_>, id: ReadId) -> bool {
        let at = self.cursor;
        let place = &self.places[at];
        let Some(slot) = place.slot else { return true };
        let replica = self.request.replica_id;
        let (partitions, mut context) = services.partitions();
        let Some(partition) = partitions.get(slot) else {
            return true;
        };
        let refused = check(partition, &place.wanted, replica).map(|diverging| {
            let place = &mut self.places[at];
            if let Some(diverging) = diverging {
                place.response.diverging_epoch = diverging;
            }
            place.set_positions(partition);
            diverging.is_some()
        });
        match refused {
            Ok(false) => {}
            Ok(true) => {
                self.failed = true;
                return true;
            }
            Err(code) => {
                self.refuse(at, code);
                return true;
            }
        }
        let limit = partition.high_watermark();
        let request = self.read_request(at, id, limit);
        match partitions.read(&mut context, slot, request) {
            None => {
                self.refuse(at, ErrorCode::NotLeaderOrFollower);
                true
            }
            Some(ReadOutcome::Pending) => false,
            Some(ReadOutcome::Ready(slice)) => {
                self.fill(at, services, Ok(slice));
                true
            }
            Some(ReadOutcome::Failed(error)) => {
                self.fill(at, services, Err(error));
                true
            }
        }
    }

    fn read_request(&self, at: usize, id: ReadId, limit: i64) -> ReadRequest {
        let wanted = &self.places[at].wanted;
        let total = usize::try_from(self.request.max_bytes)
            .unwrap_or(0)
            .min(RESPONSE_BYTES_MAX);
        let left = total.saturating_sub(self.bytes);
        let partition = usize::try_from(wanted.partition_max_bytes).unwrap_or(0);
        ReadRequest {
            id,
            offset: wanted.fetch_offset,
            max_bytes: u32::try_from(left.min(partition)).unwrap_or(u32::MAX),
            // KIP-74: the first batch of the answer comes whole, however large.
            min_one_batch: self.bytes == 0,
            limit,
        }
    }

    fn fill(&mut self, at: usize, services: &Services<'_>, result: Result<FetchSlice, ReadError>) {
        let positions = self.places[at]
            .slot
            .and_then(|slot| services.partitions.get(slot));
        match result {
            Ok(FetchSlice { parts, .. }) => {
                let place = &mut self.places[at];
                if let Some(partition) = positions {
                    place.set_positions(partition);
                }
                place.bytes = parts.iter().map(Part::len).sum();
                place.parts = parts;
                self.bytes += place.bytes;
            }
            Err(ReadError::OutOfRange { .. }) => self.refuse(at, ErrorCode::OffsetOutOfRange),
            Err(ReadError::NotOpen) => self.refuse(at, ErrorCode::NotLeaderOrFollower),
            Err(ReadError::Offline | ReadError::Unreadable) => {
                self.refuse(at, ErrorCode::KafkaStorageError);
            }
        }
    }

    fn refuse(&mut self, at: usize, code: ErrorCode) {
        let wanted = self.places[at].wanted.clone();
        let place = &mut self.places[at];
        *place = Place::new(place.topic, place.slot, wanted);
        place.response.error_code = code;
        self.failed = true;
    }

    /// Returns whether the answer is worth sending now.
    fn is_enough(&self) -> bool {
        self.last_round || self.failed || self.places.is_empty() || self.bytes >= self.least()
    }

    /// Returns how many bytes end the wait: never more than the answer may carry.
    fn least(&self) -> usize {
        let least = usize::try_from(self.request.min_bytes).unwrap_or(0);
        let total = usize::try_from(self.request.max_bytes).unwrap_or(0);
        let partitions = self
            .places
            .iter()
            .map(|place| usize::try_from(place.wanted.partition_max_bytes).unwrap_or(0));
        least
            .min(total)
            .min(partitions.fold(0, usize::saturating_add))
    }

    /// Returns whether a Fetch that waits would be answered now that one partition has more.
    fn would_be_enough(&mut self, services: &mut Services<'_>, slot: SlotId) -> bool {
        let Some(at) = self
            .places
            .iter()
            .position(|place| place.slot == Some(slot))
        else {
            return false;
        };
        let (partitions, mut context) = services.partitions();
        let Some(partition) = partitions.get(slot) else {
            return true;
        };
        let request = self.read_request(at, ReadId(0), partition.high_watermark());
        let ahead = match partitions.read(&mut context, slot, request) {
            Some(ReadOutcome::Ready(slice)) => slice.size,
            // Whatever else it is, the whole Fetch has to look at it.
            Some(ReadOutcome::Pending | ReadOutcome::Failed(_)) | None => return true,
        };
        self.bytes = self.bytes - self.places[at].bytes + ahead;
        self.places[at].bytes = ahead;
        self.bytes >= self.least()
    }
}

impl Place {
    fn new(topic: usize, slot: Option<SlotId>, wanted: FetchPartition) -> Self {
        let response = FetchPartitionResponse {
            partition_index: wanted.partition,
            ..FetchPartitionResponse::default()
        };
        Self {
            topic,
            slot,
            wanted,
            response,
            parts: Vec::new(),
            bytes: 0,
        }
    }

    fn set_positions(&mut self, partition: &Partition) {
        self.response.high_watermark = partition.high_watermark();
        self.response.last_stable_offset = partition.high_watermark();
        self.response.log_start_offset = partition.log().start();
    }
}

/// Checks what a Fetch says of epochs (KIP-320) and divergence (KIP-595).
fn check(
    partition: &Partition,
    wanted: &FetchPartition,
    replica: i32,
) -> Result<Option<EpochEndOffset>, ErrorCode> {
    let Some(epoch) = partition.leader_epoch() else {
        return Err(super::unavailable(partition));
    };
    super::check_epoch(epoch, wanted.current_leader_epoch)?;
    if replica >= 0 && !partition.is_replica(NodeId(replica)) {
        return Err(ErrorCode::NotLeaderOrFollower);
    }
    if wanted.last_fetched_epoch < 0 {
        return Ok(None);
    }
    let asked = Epoch(wanted.last_fetched_epoch);
    let (found, end) = partition
        .log()
        .epoch_end(asked)
        .ok_or(ErrorCode::OffsetOutOfRange)?;
    let diverges = found < asked || end < wanted.fetch_offset;
    Ok(diverges.then_some(EpochEndOffset {
        epoch: found.0,
        end_offset: end,
    }))
}

fn respond(frontend: &mut Frontend, services: &mut Services<'_>, fetching: Fetching) {
    let Fetching {
        call,
        request,
        places,
        ..
    } = fetching;
    let mut partitions: Vec<Vec<FetchPartitionResponse>> = Vec::new();
    partitions.resize_with(request.topics.len(), Vec::new);
    let mut slices = Vec::with_capacity(places.len());
    for (place, number) in places.into_iter().zip(0_u32..) {
        let mut response = place.response;
        let len = place.parts.iter().map(Part::len).sum();
        response.records = Some(FetchRecords { slot: number, len });
        partitions[place.topic].push(response);
        slices.push(place.parts);
    }
    let topic = |(topic, partitions): (&crate::protocol::FetchTopic, Vec<_>)| FetchTopicResponse {
        topic: topic.topic.clone(),
        topic_id: topic.topic_id,
        partitions: Few::from(partitions),
    };
    let topics: Vec<_> = request.topics.iter().zip(partitions).map(topic).collect();
    let response = FetchResponse {
        topics: topics.into(),
        ..FetchResponse::default()
    };
    match encode_fetch_response(call.version, call.correlation_id, &response) {
        Ok(frame) => send(frontend, services, call, frame, slices),
        Err(error) => frontend.close(services.outputs, call.token, error.to_string()),
    }
}

/// Sends an encoded answer with the slices of logs in their places.
fn send(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    call: Call,
    frame: FetchFrame,
    mut slices: Vec<Vec<Part>>,
) {
    let mut parts = Vec::with_capacity(frame.parts.len() + slices.len());
    for part in frame.parts {
        match part {
            FramePart::Head(bytes) => parts.push(Part::Bytes(bytes)),
            FramePart::Records(records) => {
                let at = usize::try_from(records.slot).unwrap_or(usize::MAX);
                parts.append(slices.get_mut(at).unwrap_or(&mut Vec::new()));
            }
        }
    }
    frontend.send(services.outputs, call.token, Some(Frame::Parts(parts)));
}
