//! Registration, heartbeats and fencing of brokers (KIP-631).
//!
//! | state | a heartbeat that wants nothing | wants fencing | wants to shut down |
//! | --- | --- | --- | --- |
//! | fenced | unfenced, once it has read its own registration | fenced | may stop |
//! | active | active | fenced | controlled shutdown while it leads anything, else may stop |
//! | controlled shutdown | may stop, once it leads nothing and all others have read that | | |

use std::collections::BTreeSet;

use super::{
    ApiError, Decision, DecisionContext,
    leadership::{BrokerEvent, partition_changes},
};
use crate::{
    controller::{
        image::{BrokerImage, MetadataImage},
        messages::{
            BrokerHeartbeatRequestData, BrokerHeartbeatResponseData, BrokerRegistrationRequestData,
            BrokerRegistrationResponseData, ErrorCode, own_uuid,
        },
        records::{
            BrokerRegistrationChangeV1, EndpointV1, FeatureRangeV1, METADATA_VERSION,
            RegisterBrokerV1,
        },
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

/// Decides on a registration; `next_offset` is where its first record will stand.
///
/// # Errors
/// If the broker may not register.
pub fn register_broker(
    image: &MetadataImage,
    context: &DecisionContext<'_>,
    request: &BrokerRegistrationRequestData,
    next_offset: i64,
    session: Option<BrokerSession>,
) -> Result<Decision<BrokerRegistrationResponseData>, ApiError> {
    let broker_id = NodeId(request.broker_id);
    let incarnation_id = own_uuid(request.incarnation_id);
    let existing = image.broker(broker_id);
    check_registration(image, request, existing, session)?;
    let amended = existing.filter(|existing| existing.incarnation_id == incarnation_id);
    let mut records = Vec::new();
    if let (Some(existing), None) = (existing, amended) {
        // The broker proves a clean stop by naming the epoch that it stopped with.
        let event = if existing.epoch == request.previous_broker_epoch {
            BrokerEvent::Gone(broker_id)
        } else {
            BrokerEvent::RestartedUncleanly(broker_id)
        };
        records = partition_changes(image, context, event);
    }
    // The epoch is the offset of the registration record, which stands last: should the others be lost with a
    // controller, the broker registers again.
    let own_offset = i64::try_from(records.len())
        .unwrap_or(0)
        .saturating_add(next_offset);
    let broker_epoch = amended.map_or(own_offset, |existing| existing.epoch);
    let record = RegisterBrokerV1 {
        broker_id,
        broker_epoch,
        incarnation_id,
        endpoints: request
            .listeners
            .iter()
            .map(|listener| EndpointV1 {
                name: listener.name.as_str().to_owned(),
                host: listener.host.as_str().to_owned(),
                port: listener.port,
                security_protocol: listener.security_protocol,
            })
            .collect(),
        rack: request.rack.as_ref().map(|rack| rack.as_str().to_owned()),
        log_dirs: request.log_dirs.iter().copied().map(own_uuid).collect(),
        features: request
            .features
            .iter()
            .map(|feature| FeatureRangeV1 {
                name: feature.name.as_str().to_owned(),
                min: u16::try_from(feature.min_supported_version).unwrap_or(0),
                max: u16::try_from(feature.max_supported_version).unwrap_or(0),
            })
            .collect(),
        fenced: amended.is_none_or(|existing| existing.fenced),
        in_controlled_shutdown: amended.is_some_and(|existing| existing.in_controlled_shutdown),
    };
    records.push(record.into());
    let reply = BrokerRegistrationResponseData {
        broker_epoch,
        ..BrokerRegistrationResponseData::default()
    };
    Ok(Decision { records, reply })
}

fn check_registration(
    image: &MetadataImage,
    request: &BrokerRegistrationRequestData,
    existing: Option<&BrokerImage>,
    session: Option<BrokerSession>,
) -> Result<(), ApiError> {
    let found = request.cluster_id.as_str();
    let own = image.cluster_id().unwrap_or_default();
    if own != found {
        let message = format!("Expected cluster ID {own}, but got cluster ID {found}");
        return Err(ApiError::new(ErrorCode::InconsistentClusterId, message));
    }
    let incarnation_id = own_uuid(request.incarnation_id);
    let alive = session.is_some_and(|session| session.is_valid);
    if alive && existing.is_some_and(|existing| existing.incarnation_id != incarnation_id) {
        let message = "Another broker is registered with that broker id. If the broker was recently restarted this \
                       should self-resolve once the heartbeat manager expires the broker's session.";
        return Err(ApiError::new(
            ErrorCode::DuplicateBrokerRegistration,
            message,
        ));
    }
    let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidRegistration, message));
    check_directories(image, request)?;
    let level = image.feature_level(METADATA_VERSION);
    let range = request
        .features
        .iter()
        .find(|feature| feature.name.as_str() == METADATA_VERSION);
    match range {
        None => invalid(format!(
            "Request features do not contain '{METADATA_VERSION}'"
        )),
        Some(range) => {
            let supported = range.min_supported_version..=range.max_supported_version;
            if i16::try_from(level).is_ok_and(|level| supported.contains(&level)) {
                return Ok(());
            }
            let message = format!(
                "Unable to register because the broker does not support finalized version {level} of \
                 {METADATA_VERSION}. The broker wants a version between {} and {}, inclusive.",
                range.min_supported_version, range.max_supported_version
            );
            Err(ApiError::new(ErrorCode::UnsupportedVersion, message))
        }
    }
}

fn check_directories(
    image: &MetadataImage,
    request: &BrokerRegistrationRequestData,
) -> Result<(), ApiError> {
    let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidRegistration, message));
    let directories: Vec<Uuid> = request.log_dirs.iter().copied().map(own_uuid).collect();
    if directories.is_empty() {
        return invalid("No directories specified in request".to_owned());
    }
    // The first hundred ids are reserved: unassigned, lost and the like.
    if directories.iter().any(|id| u128::from_be_bytes(id.0) < 100) {
        return invalid("Reserved directory ID in request".to_owned());
    }
    let distinct: BTreeSet<Uuid> = directories.iter().copied().collect();
    if distinct.len() != directories.len() {
        return invalid("Duplicate directory ID in request".to_owned());
    }
    for broker in image
        .brokers()
        .values()
        .filter(|broker| broker.id.0 != request.broker_id)
    {
        if let Some(taken) = broker.log_dirs.iter().find(|id| distinct.contains(id)) {
            return invalid(format!(
                "Broker {} is already registered with directory {taken}",
                broker.id
            ));
        }
    }
    Ok(())
}

/// Decides on a heartbeat.
///
/// # Errors
/// If the broker is not registered with that epoch.
pub fn broker_heartbeat(
    image: &MetadataImage,
    context: &DecisionContext<'_>,
    request: &BrokerHeartbeatRequestData,
    session: BrokerSession,
) -> Result<Decision<BrokerHeartbeatResponseData>, ApiError> {
    let id = NodeId(request.broker_id);
    let stale = |message: String| Err(ApiError::new(ErrorCode::StaleBrokerEpoch, message));
    let Some(broker) = image.broker(id) else {
        return stale(format!("No broker registration found for broker id {id}"));
    };
    if broker.epoch != request.broker_epoch {
        return stale(format!(
            "Expected broker epoch {}, but got broker epoch {}",
            broker.epoch, request.broker_epoch
        ));
    }
    let caught_up = request.current_metadata_offset >= broker.epoch;
    let next = next_state(image, broker, request, caught_up, session);
    // The broker's own record stands last: if the records before it do not reach the log, the next heartbeat brings them.
    let mut records = Vec::new();
    let change = |fenced, in_controlled_shutdown| BrokerRegistrationChangeV1 {
        broker_id: id,
        broker_epoch: broker.epoch,
        fenced,
        in_controlled_shutdown,
        log_dirs: None,
    };
    match next {
        BrokerState::Fenced | BrokerState::MayStop if !broker.fenced => {
            records = fence_broker(image, context, id).records;
        }
        BrokerState::Active if broker.fenced => {
            records = partition_changes(image, context, BrokerEvent::Back(id));
            records.push(change(Some(false), None).into());
        }
        BrokerState::ControlledShutdown if !broker.in_controlled_shutdown => {
            records = partition_changes(image, context, BrokerEvent::Gone(id));
            records.push(change(None, Some(true)).into());
        }
        _ => {}
    }
    let reply = BrokerHeartbeatResponseData {
        is_caught_up: caught_up,
        is_fenced: matches!(next, BrokerState::Fenced | BrokerState::MayStop),
        should_shut_down: next == BrokerState::MayStop,
        ..BrokerHeartbeatResponseData::default()
    };
    Ok(Decision { records, reply })
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
    let leads = || {
        image
            .partitions_in_sync_with(broker.id)
            .any(|(topic_id, partition_id)| {
                let topic = image.topic_by_id(topic_id);
                let partition = topic.and_then(|topic| topic.partition(partition_id));
                partition.is_some_and(|partition| partition.leader == broker.id)
            })
    };
    if broker.fenced {
        return match (request.want_shut_down, request.want_fence) {
            (true, _) => BrokerState::MayStop,
            (false, false) if caught_up => BrokerState::Active,
            (false, _) => BrokerState::Fenced,
        };
    }
    if broker.in_controlled_shutdown {
        let done = !leads() && session.shutdown_seen;
        return if done {
            BrokerState::MayStop
        } else {
            BrokerState::ControlledShutdown
        };
    }
    match (request.want_fence, request.want_shut_down) {
        (true, true) => BrokerState::MayStop,
        (true, false) => BrokerState::Fenced,
        (false, true) if leads() => BrokerState::ControlledShutdown,
        (false, true) => BrokerState::MayStop,
        (false, false) => BrokerState::Active,
    }
}

/// Decides on the fencing of a broker that is registered and not fenced yet; nothing happens to any other.
pub fn fence_broker(
    image: &MetadataImage,
    context: &DecisionContext<'_>,
    id: NodeId,
) -> Decision<()> {
    let Some(broker) = image.broker(id).filter(|broker| !broker.fenced) else {
        return Decision::answer(());
    };
    let mut records = partition_changes(image, context, BrokerEvent::Gone(id));
    let change = BrokerRegistrationChangeV1 {
        broker_id: id,
        broker_epoch: broker.epoch,
        fenced: Some(true),
        in_controlled_shutdown: None,
        log_dirs: None,
    };
    records.push(change.into());
    Decision { records, reply: () }
}
