//! One Fetch request under way.

use super::{Key, NodeId, Place, READ_COMMITTED, preferred};
use crate::{
    frontend::{Call, Services},
    log::{FetchSlice, ReadError, ReadId, ReadOutcome, ReadRequest},
    protocol::{ErrorCode, FetchPartition, FetchRequest},
    replication::{FetchContext, FetchGrant, FetchSessions, FollowerFetch, Reader, SlotId},
    time::Instant,
};

/// From this version a consumer may read from followers (KIP-392).
const FOLLOWERS_SINCE: i16 = 11;
/// `fetch.max.bytes`: the most bytes of one answer, whatever the client asks for.
const RESPONSE_BYTES_MAX: usize = 55 * 1024 * 1024;

/// What a request says of itself and of all its partitions.
#[derive(Debug)]
pub(super) struct Sender {
    reader: Reader,
    replica_epoch: i64,
    least_bytes: usize,
    most_bytes: usize,
    is_read_committed: bool,
    rack: String,
}

impl Sender {
    pub(super) fn new(call: Call, request: &FetchRequest) -> Self {
        let reader = if request.replica_id >= 0 {
            Reader::Follower(NodeId(request.replica_id))
        } else {
            Reader::Consumer {
                leader_only: call.version < FOLLOWERS_SINCE,
            }
        };
        Self {
            reader,
            replica_epoch: request.replica_epoch,
            least_bytes: usize::try_from(request.min_bytes).unwrap_or(0),
            most_bytes: usize::try_from(request.max_bytes).unwrap_or(0),
            is_read_committed: request.isolation_level == READ_COMMITTED,
            rack: request.rack_id.as_str().to_owned(),
        }
    }

    /// Returns the follower that asks; `None` for a consumer.
    pub(super) const fn follower(&self) -> Option<NodeId> {
        match self.reader {
            Reader::Follower(node) => Some(node),
            Reader::Consumer { .. } => None,
        }
    }

    /// Returns whether a consumer says where it stands.
    pub(super) const fn wants_near_replica(&self) -> bool {
        matches!(self.reader, Reader::Consumer { leader_only: false }) && !self.rack.is_empty()
    }
}

/// A Fetch under way.
#[derive(Debug)]
pub(super) struct Fetching {
    pub(super) call: Call,
    pub(super) sender: Sender,
    pub(super) context: FetchContext<Key, FetchPartition>,
    pub(super) places: Vec<Place>,
    pub(super) deadline: Instant,
    /// Whether the wait is over and whatever is there must do.
    pub(super) last_round: bool,
    /// Whether what it says of the follower's copies was noted.
    is_noted: bool,
    /// The place being read, or to be read next.
    cursor: usize,
    bytes: usize,
    /// Whether there is something that the reader must see in any case.
    is_telling: bool,
}

impl Fetching {
    pub(super) const fn new(
        call: Call,
        sender: Sender,
        context: FetchContext<Key, FetchPartition>,
        deadline: Instant,
        last_round: bool,
    ) -> Self {
        Self {
            call,
            sender,
            context,
            places: Vec::new(),
            deadline,
            last_round,
            is_noted: false,
            cursor: 0,
            bytes: 0,
            is_telling: false,
        }
    }

    /// Returns the partitions that are waited for.
    pub(super) fn slots(&self) -> impl Iterator<Item = SlotId> {
        self.places.iter().filter_map(|place| place.slot.ok())
    }

    /// Returns the session that the request goes on with.
    pub(super) const fn session(&self) -> Option<i32> {
        match &self.context {
            FetchContext::Incremental { session_id } => Some(*session_id),
            FetchContext::Sessionless(_) | FetchContext::Full { .. } => None,
        }
    }

    /// Begins a round.
    pub(super) fn start_over(
        &mut self,
        services: &Services<'_>,
        sessions: &FetchSessions<Key, FetchPartition>,
    ) {
        self.cursor = 0;
        self.bytes = 0;
        self.is_telling = false;
        let due = sessions.due(&self.context).into_iter();
        let committed = self.sender.is_read_committed;
        self.places = due
            .map(|(key, wanted)| Place::new(key.slot(services), key, wanted, committed))
            .collect();
        self.is_telling = self.places.iter().any(|place| place.slot.is_err());
    }

    /// Returns whether all places were read in this round.
    pub(super) const fn is_read(&self) -> bool {
        self.cursor >= self.places.len()
    }

    /// Goes on to the next place.
    pub(super) const fn next_place(&mut self) {
        self.cursor += 1;
    }

    /// Reads the place at the cursor; returns false if the disk is needed. `listener` is given where a nearer replica is wanted.
    pub(super) fn read_place(
        &mut self,
        services: &mut Services<'_>,
        id: ReadId,
        listener: Option<&str>,
    ) -> bool {
        let at = self.cursor;
        let Ok(slot) = self.places[at].slot else {
            return true;
        };
        match self.grant(services, slot, listener) {
            Ok(None) => return true,
            Err(code) => {
                self.refuse(code);
                return true;
            }
            Ok(Some((limit, settled))) => {
                let request = ReadRequest {
                    limit,
                    settled,
                    ..self.read_request(at, id)
                };
                let (partitions, mut context) = services.partitions();
                match partitions.read(&mut context, slot, request) {
                    None => self.refuse(ErrorCode::NotLeaderOrFollower),
                    Some(ReadOutcome::Pending) => return false,
                    Some(ReadOutcome::Ready(slice)) => self.fill(services, Ok(slice)),
                    Some(ReadOutcome::Failed(error)) => self.fill(services, Err(error)),
                }
            }
        }
        true
    }

    /// Decides on the place at the cursor; returns up to where it is to be read, and below where that is settled.
    fn grant(
        &mut self,
        services: &mut Services<'_>,
        slot: SlotId,
        listener: Option<&str>,
    ) -> Result<Option<(i64, i64)>, ErrorCode> {
        let is_new = !self.is_noted;
        let place = &mut self.places[self.cursor];
        let planted = services.planted;
        let (partitions, mut context) = services.partitions();
        let partition = partitions.get(slot).ok_or(ErrorCode::NotLeaderOrFollower)?;
        let claim = place.claim(self.sender.reader);
        let limit = match partition.check_fetch(&claim, planted)? {
            FetchGrant::Read { limit } => limit,
            FetchGrant::Diverging(end) => {
                place.diverge(partition, end);
                self.is_telling = true;
                return Ok(None);
            }
        };
        if let Some(node) = self.sender.follower()
            && is_new
        {
            let fetch = FollowerFetch {
                node,
                broker_epoch: self.sender.replica_epoch,
                fetch_offset: claim.fetch_offset,
                log_start: place.wanted.log_start_offset,
            };
            if let Some(noted) = partitions.note_fetch(&mut context, slot, &fetch) {
                noted?;
            }
        }
        let partition = services
            .partitions
            .get(slot)
            .ok_or(ErrorCode::NotLeaderOrFollower)?;
        place.set_positions(partition);
        let nearer = listener
            .filter(|_| services.reads_near)
            .and_then(|listener| {
                preferred::find(services, partition, &claim, &self.sender.rack, listener)
            });
        if let Some(nearer) = nearer {
            place.response.preferred_read_replica = nearer.0;
            self.is_telling = true;
            return Ok(None);
        }
        Ok(Some((limit, partition.high_watermark())))
    }

    /// Takes note that the first round is over; returns whether it was before.
    pub(super) const fn first_round_is_over(&mut self) -> bool {
        std::mem::replace(&mut self.is_noted, true)
    }

    /// Returns what to read at a place; nothing is below its limit yet.
    fn read_request(&self, at: usize, id: ReadId) -> ReadRequest {
        let wanted = &self.places[at].wanted;
        let total = self.sender.most_bytes.min(RESPONSE_BYTES_MAX);
        let left = total.saturating_sub(self.bytes);
        let partition = usize::try_from(wanted.partition_max_bytes).unwrap_or(0);
        ReadRequest {
            id,
            offset: wanted.fetch_offset,
            max_bytes: u32::try_from(left.min(partition)).unwrap_or(u32::MAX),
            // KIP-74: the first batch of the answer comes whole, however large.
            min_one_batch: self.bytes == 0,
            limit: 0,
            settled: 0,
        }
    }

    /// Takes what was read at the cursor.
    pub(super) fn fill(&mut self, services: &Services<'_>, result: Result<FetchSlice, ReadError>) {
        let place = &mut self.places[self.cursor];
        let partition = place
            .slot
            .ok()
            .and_then(|slot| services.partitions.get(slot));
        match result {
            Ok(FetchSlice { parts, size, .. }) => {
                if let Some(partition) = partition {
                    place.set_positions(partition);
                }
                place.bytes = size;
                place.parts = parts;
                self.bytes += size;
            }
            Err(ReadError::OutOfRange { .. }) => self.refuse(ErrorCode::OffsetOutOfRange),
            Err(ReadError::NotOpen) => self.refuse(ErrorCode::NotLeaderOrFollower),
            Err(ReadError::Offline | ReadError::Unreadable) => {
                self.refuse(ErrorCode::KafkaStorageError);
            }
        }
    }

    fn refuse(&mut self, code: ErrorCode) {
        self.places[self.cursor].refuse(code);
        self.is_telling = true;
    }

    /// Returns whether the answer is worth sending now.
    pub(super) fn is_enough(&self, reads_near: bool) -> bool {
        let is_empty = self.places.is_empty() && self.session().is_none();
        self.last_round
            || self.is_telling
            || is_empty
            || self.bytes >= self.least()
            || (reads_near && self.tells_high_watermark())
    }

    /// Returns whether a follower would learn of records that consumers may read from it now. Without readers near followers
    /// that is not worth an answer of its own (as in Kafka).
    fn tells_high_watermark(&self) -> bool {
        self.sender.follower().is_some()
            && self.places.iter().any(|place| {
                let readable = place.response.high_watermark.min(place.wanted.fetch_offset);
                readable > place.wanted.high_watermark
            })
    }

    /// Returns how many bytes end the wait: never more than the answer may carry.
    fn least(&self) -> usize {
        let least = self.sender.least_bytes.min(self.sender.most_bytes);
        if self.places.is_empty() {
            return least;
        }
        let partitions = self
            .places
            .iter()
            .map(|place| usize::try_from(place.wanted.partition_max_bytes).unwrap_or(0));
        least.min(partitions.fold(0, usize::saturating_add))
    }

    /// Returns whether a Fetch that waits would be answered now that one partition has more.
    pub(super) fn would_be_enough(&mut self, services: &mut Services<'_>, slot: SlotId) -> bool {
        // What a session finds due only now is read in a new round.
        let Some(at) = self.places.iter().position(|place| place.slot == Ok(slot)) else {
            return true;
        };
        let planted = services.planted;
        let (partitions, mut context) = services.partitions();
        let Some(partition) = partitions.get(slot) else {
            return true;
        };
        let claim = self.places[at].claim(self.sender.reader);
        let Ok(FetchGrant::Read { limit }) = partition.check_fetch(&claim, planted) else {
            return true;
        };
        self.places[at].set_positions(partition);
        if self.least() <= 1 && claim.fetch_offset < limit {
            // Any record will do: the next round reads it.
            return true;
        }
        let request = ReadRequest {
            limit,
            settled: partition.high_watermark(),
            ..self.read_request(at, ReadId(0))
        };
        let ahead = match partitions.read(&mut context, slot, request) {
            Some(ReadOutcome::Ready(slice)) => slice.size,
            // Whatever else it is, the whole Fetch has to look at it.
            Some(ReadOutcome::Pending | ReadOutcome::Failed(_)) | None => return true,
        };
        self.bytes = self.bytes - self.places[at].bytes + ahead;
        self.places[at].bytes = ahead;
        self.is_enough(services.reads_near)
    }
}
