//! The answer to a Fetch: what was read, where its session stands, and where leaders went.

use std::collections::BTreeSet;

use super::{Fetching, Place};
use crate::{
    frontend::{Call, Frontend, Services},
    ids::NodeId,
    protocol::{
        ErrorCode, FetchFrame, FetchPartitionResponse, FetchRecords, FetchResponse,
        FetchTopicResponse, Few, FramePart, LeaderIdAndEpoch, encode_fetch_response,
    },
    storage::{Frame, Part},
};

/// From this version an answer says where the leader is (KIP-951).
const LEADER_SINCE: i16 = 16;

/// Sends what was read; the session remembers it.
pub(super) fn respond(frontend: &mut Frontend, services: &mut Services<'_>, fetching: Fetching) {
    let Fetching {
        call,
        sender,
        context,
        mut places,
        ..
    } = fetching;
    let read: Vec<_> = places
        .iter()
        .map(|place| (place.key.clone(), place.read()))
        .collect();
    let now = services.now.instant;
    let Frontend {
        fetches,
        session_ids,
        ..
    } = frontend;
    let answer = fetches
        .sessions
        .finish(now, context, &read, || session_ids.draw());
    let mut included = answer.included.into_iter();
    places.retain(|_| included.next().unwrap_or(true));
    let mut response = FetchResponse {
        session_id: answer.session_id,
        ..FetchResponse::default()
    };
    if call.version >= LEADER_SINCE {
        let leaders = name_leaders(services, &mut places);
        // A follower knows brokers from the metadata; endpoints are for clients.
        if !leaders.is_empty() && sender.follower().is_none() {
            let listener = frontend.listener_name(call.token.connection);
            response.node_endpoints = services.endpoints(&listener, &leaders);
        }
    }
    let (topics, slices) = by_topic(places);
    response.topics = topics.into();
    match encode_fetch_response(call.version, call.correlation_id, &response) {
        Ok(frame) => send(frontend, services, call, frame, slices),
        Err(error) => frontend.close(services.outputs, call.token, error.to_string()),
    }
}

/// Says of refused partitions who leads them, and returns those leaders.
fn name_leaders(services: &Services<'_>, places: &mut [Place]) -> BTreeSet<NodeId> {
    let mut leaders = BTreeSet::new();
    for place in places {
        let code = place.response.error_code;
        if !matches!(
            code,
            ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch
        ) {
            continue;
        }
        if let Some((leader, epoch)) = place.key.leader(services) {
            place.response.current_leader = LeaderIdAndEpoch {
                leader_id: leader.0,
                leader_epoch: epoch.0,
            };
            leaders.insert(leader);
        }
    }
    leaders
}

/// Gathers partitions of one topic that stand together, and the parts of their records.
fn by_topic(places: Vec<Place>) -> (Vec<FetchTopicResponse>, Vec<Vec<Part>>) {
    let mut topics = Vec::new();
    let mut slices = Vec::with_capacity(places.len());
    let mut places = places.into_iter().zip(0_u32..).peekable();
    while let Some((place, number)) = places.next() {
        let name = place.key.topic.clone();
        let mut partitions = vec![finished(place, number, &mut slices)];
        while let Some((place, number)) = places.next_if(|(place, _)| place.key.topic == name) {
            partitions.push(finished(place, number, &mut slices));
        }
        let (topic, topic_id) = name.to_wire();
        topics.push(FetchTopicResponse {
            topic,
            topic_id,
            partitions: Few::from(partitions),
        });
    }
    (topics, slices)
}

fn finished(place: Place, number: u32, slices: &mut Vec<Vec<Part>>) -> FetchPartitionResponse {
    let mut response = place.response;
    let len = place.parts.iter().map(Part::len).sum();
    response.records = Some(FetchRecords { slot: number, len });
    slices.push(place.parts);
    response
}

/// Sends an encoded answer with the slices of logs in their places.
pub(super) fn send(
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
