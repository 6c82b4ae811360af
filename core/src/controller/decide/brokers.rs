//! Heartbeats, fencing and controlled shutdown of brokers (KIP-631).
//!
//! | state | a heartbeat that wants nothing | wants fencing | wants to shut down |
//! | --- | --- | --- | --- |
//! | fenced | unfenced, once it has read its own registration | fenced | may stop |
//! | active | active | fenced | controlled shutdown while it is in sync with anything, else may stop |
//! | controlled shutdown | may stop, once it is in sync with nothing and all others have read that | | |
//!
//! In one point this is stricter than Kafka, which lets a broker stop at once if it leads nothing: here the leaders of
//! what it follows have heard of it too, so that no produce waits for a follower that is gone.

use super::{ApiError, Decision, sweep::Sweep};
use crate::{
    controller::{
        image::{BrokerImage, MetadataImage},
        messages::{BrokerHeartbeatRequestData, BrokerHeartbeatResponseData, ErrorCode, own_uuid},
        records::{BrokerRegistrationChangeV1, Record},
    },
    ids::{NodeId, Uuid},
};

/// What the controller knows of a broker besides the image: it is not agreed on, and a new controller starts afresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerSession {
    /// The broker was heard of within the session timeout.
    pub is_valid: bool,
    /// All other active brokers have read the records of this broker's controlled shutdown.
    pub shutdown_seen: bool,
}

/// A decision on a heartbeat, and what must be done to partitions after it.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct HeartbeatDecision {
    /// Records about the broker itself, and the answer.
    pub decision: Decision<BrokerHeartbeatResponseData>,
    /// What follows for partitions, to be done in slices.
    pub sweep: Option<Sweep>,
}

/// Returns a registered broker if it is registered with that epoch.
pub(super) fn check_broker_epoch(
    image: &MetadataImage,
    id: NodeId,
    epoch: i64,
) -> Result<&BrokerImage, ApiError> {
    let stale = |message: String| ApiError::new(ErrorCode::StaleBrokerEpoch, message);
    let broker = image
        .broker(id)
        .ok_or_else(|| stale(format!("No broker registration found for broker id {id}")))?;
    if broker.epoch == epoch {
        return Ok(broker);
    }
    Err(stale(format!(
        "Expected broker epoch {}, but got broker epoch {epoch}",
        broker.epoch
    )))
}

/// Makes a change of a registration.
pub(super) fn registration_change(
    broker: &BrokerImage,
    fenced: Option<bool>,
    in_controlled_shutdown: Option<bool>,
) -> BrokerRegistrationChangeV1 {
    BrokerRegistrationChangeV1 {
        broker_id: broker.id,
        broker_epoch: broker.epoch,
        fenced,
        in_controlled_shutdown,
        log_dirs: None,
    }
}

/// Decides on a heartbeat.
///
/// # Errors
/// If the broker is not registered with that epoch.
pub fn broker_heartbeat(
    image: &MetadataImage,
    request: &BrokerHeartbeatRequestData,
    session: BrokerSession,
) -> Result<HeartbeatDecision, ApiError> {
    let id = NodeId(request.broker_id);
    let broker = check_broker_epoch(image, id, request.broker_epoch)?;
    let caught_up = request.current_metadata_offset >= broker.epoch;
    let next = next_state(image, broker, request, caught_up, session);
    let (fenced, leaving, mut sweep) = match next {
        BrokerState::Fenced | BrokerState::MayStop if !broker.fenced => {
            (Some(true), None, Some(Sweep::Unfit(id)))
        }
        BrokerState::Active if broker.fenced => (Some(false), None, Some(Sweep::Leaderless)),
        BrokerState::ControlledShutdown if !broker.in_controlled_shutdown => {
            (None, Some(true), Some(Sweep::Unfit(id)))
        }
        BrokerState::Fenced
        | BrokerState::Active
        | BrokerState::ControlledShutdown
        | BrokerState::MayStop => (None, None, None),
    };
    let log_dirs = still_online(broker, request);
    if log_dirs.is_some() {
        sweep = sweep.or(Some(Sweep::Unfit(id)));
    }
    let change = BrokerRegistrationChangeV1 {
        log_dirs,
        ..registration_change(broker, fenced, leaving)
    };
    let is_change = fenced.is_some() || leaving.is_some() || change.log_dirs.is_some();
    let reply = BrokerHeartbeatResponseData {
        is_caught_up: caught_up,
        is_fenced: matches!(next, BrokerState::Fenced | BrokerState::MayStop),
        should_shut_down: next == BrokerState::MayStop,
        ..BrokerHeartbeatResponseData::default()
    };
    Ok(HeartbeatDecision {
        decision: Decision {
            records: is_change
                .then(|| Record::from(change))
                .into_iter()
                .collect(),
            reply,
        },
        sweep,
    })
}

/// Returns the directories that are left if the heartbeat says that some went offline.
fn still_online(broker: &BrokerImage, request: &BrokerHeartbeatRequestData) -> Option<Vec<Uuid>> {
    let offline: Vec<Uuid> = request
        .offline_log_dirs
        .iter()
        .copied()
        .map(own_uuid)
        .collect();
    let left: Vec<Uuid> = broker
        .log_dirs
        .iter()
        .copied()
        .filter(|directory| !offline.contains(directory))
        .collect();
    (left.len() < broker.log_dirs.len()).then_some(left)
}

/// What a broker may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BrokerState {
    Fenced,
    Active,
    ControlledShutdown,
    MayStop,
}

fn next_state(
    image: &MetadataImage,
    broker: &BrokerImage,
    request: &BrokerHeartbeatRequestData,
    caught_up: bool,
    session: BrokerSession,
) -> BrokerState {
    let is_in_sync = || image.partitions_in_sync_with(broker.id).next().is_some();
    if broker.fenced {
        return match (request.want_shut_down, request.want_fence) {
            (true, _) => BrokerState::MayStop,
            (false, false) if caught_up => BrokerState::Active,
            (false, _) => BrokerState::Fenced,
        };
    }
    if broker.in_controlled_shutdown {
        let is_done = !is_in_sync() && session.shutdown_seen;
        return if is_done {
            BrokerState::MayStop
        } else {
            BrokerState::ControlledShutdown
        };
    }
    match (request.want_fence, request.want_shut_down) {
        (true, true) => BrokerState::MayStop,
        (true, false) => BrokerState::Fenced,
        (false, true) if is_in_sync() => BrokerState::ControlledShutdown,
        (false, true) => BrokerState::MayStop,
        (false, false) => BrokerState::Active,
    }
}

/// Decides on the fencing of a broker that is registered and not fenced yet; nothing happens to any other.
///
/// [`Sweep::Unfit`] follows.
#[must_use]
pub fn fence_broker(image: &MetadataImage, id: NodeId) -> Option<Record> {
    let broker = image.broker(id).filter(|broker| !broker.fenced)?;
    Some(registration_change(broker, Some(true), None).into())
}
