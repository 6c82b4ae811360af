//! Fetch: read each partition as far as the reader may see, or wait until there is enough to read.
//!
//! A request is looked at in rounds: once when it comes, and again when a partition that it reads has more, changed hands, or its
//! time is over. Each round reads what is due of its session (KIP-227), or everything it names. What a follower's request says of
//! its copy is noted in the first round only: a request that waits proves nothing new.

mod fetching;
mod key;
mod parked;
mod place;
mod preferred;
mod respond;

pub(super) use self::parked::ParkedFetches;
use self::{
    fetching::{Fetching, Sender},
    key::{Key, TopicKey},
    place::Place,
};
use super::{Call, Frontend, Services, delete_records};
use crate::{
    ids::NodeId,
    log::{FetchSlice, ReadError, ReadId},
    protocol::{ErrorCode, FetchPartition, FetchRequest, FetchResponse, encode_fetch_response},
    replication::{SessionError, SessionRequest, SlotId},
};

/// Only decided transactions are to be read; the answer then lists the aborted ones, of which there are none yet.
const READ_COMMITTED: i8 = 1;
/// All records are to be read.
const READ_UNCOMMITTED: i8 = 0;

/// Executes a Fetch request whose partitions' logs are all open, or cannot be opened.
pub(super) fn execute(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    call: Call,
    request: &FetchRequest,
) {
    if !(READ_UNCOMMITTED..=READ_COMMITTED).contains(&request.isolation_level) {
        return refuse(frontend, services, call, ErrorCode::UnknownServerError);
    }
    let now = services.now.instant;
    let context = match frontend
        .fetches
        .sessions
        .begin(now, session_request(call, request))
    {
        Ok(context) => context,
        Err(error) => {
            let code = match error {
                SessionError::NotFound => ErrorCode::FetchSessionIdNotFound,
                SessionError::InvalidEpoch => ErrorCode::InvalidFetchSessionEpoch,
                SessionError::TopicId => ErrorCode::FetchSessionTopicIdError,
            };
            return refuse(frontend, services, call, code);
        }
    };
    let wait = u64::try_from(request.max_wait_ms).unwrap_or(0);
    let deadline = now.plus_millis(wait);
    let sender = Sender::new(call, request);
    let mut fetching = Fetching::new(call, sender, context, deadline, wait == 0);
    let id = frontend.fetches.new_id();
    fetching.start_over(services, &frontend.fetches.sessions);
    advance(frontend, services, id, fetching);
}

fn session_request(call: Call, request: &FetchRequest) -> SessionRequest<Key, FetchPartition> {
    let by_topic_id = key::is_by_id(call.version);
    let mut wanted = Vec::new();
    for topic in request.topics.iter() {
        let name = TopicKey::new(&topic.topic, &topic.topic_id, by_topic_id);
        wanted.extend(topic.partitions.iter().map(|partition| {
            let key = Key {
                topic: name.clone(),
                partition: partition.partition,
            };
            (key, partition.clone())
        }));
    }
    let mut forgotten = Vec::new();
    for topic in request.forgotten_topics.iter() {
        let name = TopicKey::new(&topic.topic, &topic.topic_id, by_topic_id);
        forgotten.extend(topic.partitions.iter().map(|partition| Key {
            topic: name.clone(),
            partition: *partition,
        }));
    }
    SessionRequest {
        session_id: request.session_id,
        session_epoch: request.session_epoch,
        is_follower: request.replica_id >= 0,
        by_topic_id,
        wanted,
        forgotten,
    }
}

fn refuse(frontend: &mut Frontend, services: &mut Services<'_>, call: Call, code: ErrorCode) {
    let response = FetchResponse {
        error_code: code,
        ..FetchResponse::default()
    };
    match encode_fetch_response(call.version, call.correlation_id, &response) {
        Ok(frame) => respond::send(frontend, services, call, frame, Vec::new()),
        Err(error) => frontend.close(services.outputs, call.token, error.to_string()),
    }
}

/// Reads on until the answer is complete, the disk is needed, or there is something to wait for.
fn advance(frontend: &mut Frontend, services: &mut Services<'_>, id: u64, mut fetching: Fetching) {
    while !fetching.is_read() {
        let listener = fetching
            .sender
            .wants_near_replica()
            .then(|| frontend.listener_name(fetching.call.token.connection));
        let read = frontend.fetches.new_read();
        if !fetching.read_place(services, read, listener.as_deref()) {
            return frontend.fetches.read(id, read, fetching);
        }
        fetching.next_place();
    }
    if fetching.sender.follower().is_some() && !fetching.first_round_is_over() {
        // What followers told of their log starts may be what a DeleteRecords waits for.
        let told: Vec<SlotId> = fetching.slots().collect();
        for slot in told {
            if frontend.deletes.waits_for(slot) {
                delete_records::look_at(frontend, services, slot);
            }
        }
    }
    if fetching.is_enough(services.reads_near) {
        return respond::respond(frontend, services, fetching);
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
    let Some((id, mut fetching)) = frontend.fetches.take_reader(read) else {
        return;
    };
    fetching.fill(services, result);
    fetching.next_place();
    advance(frontend, services, id, fetching);
}

/// What is new about a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// The high watermark moved: everybody may read more, or wants to know it.
    Committed,
    /// The log grew: followers may read more.
    Grown,
    /// Somebody else leads, or the log is gone: whoever waits is to be told.
    Changed,
}

/// Looks at the long polls that wait for a partition.
pub(super) fn on_news(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    slot: SlotId,
    news: News,
) {
    let keys = services.partitions.get(slot).map(Key::both);
    let keys = keys.as_ref().map_or(&[][..], |keys| &keys[..]);
    for key in keys {
        match news {
            News::Committed | News::Changed => frontend.fetches.sessions.changed(key),
            News::Grown => frontend.fetches.sessions.grew(key),
        }
    }
    for id in frontend.fetches.waiting_for(slot, keys) {
        let Some(fetching) = frontend.fetches.get_mut(id) else {
            continue;
        };
        let enough = match news {
            News::Changed => true,
            News::Grown if fetching.sender.follower().is_none() => false,
            News::Committed | News::Grown => fetching.would_be_enough(services, slot),
        };
        if enough {
            again(frontend, services, id, false);
        }
    }
}

/// Notes that a partition's log start moved: the next answers of its sessions tell.
pub(super) fn on_start_moved(frontend: &mut Frontend, services: &Services<'_>, slot: SlotId) {
    for key in services
        .partitions
        .get(slot)
        .iter()
        .flat_map(|found| Key::both(found))
    {
        frontend.fetches.sessions.changed(&key);
    }
}

/// Answers the long polls whose wait is over.
pub(super) fn on_timeout(frontend: &mut Frontend, services: &mut Services<'_>) {
    while let Some(id) = frontend.fetches.overdue(services.now.instant) {
        again(frontend, services, id, true);
    }
}

/// Answers every long poll now.
pub(super) fn release_all(frontend: &mut Frontend, services: &mut Services<'_>) {
    for id in frontend.fetches.parked() {
        again(frontend, services, id, true);
    }
}

fn again(frontend: &mut Frontend, services: &mut Services<'_>, id: u64, last_round: bool) {
    let Some(mut fetching) = frontend.fetches.take(id) else {
        return;
    };
    fetching.last_round |= last_round;
    fetching.start_over(services, &frontend.fetches.sessions);
    advance(frontend, services, id, fetching);
}
