//! Registration of brokers: one incarnation after the other, each with an epoch of its own (KIP-631, 858, 966).
//!
//! An incarnation takes the place of the one before it in steps: the old one is fenced, its partitions are taken from
//! it, a bounded number at a time, and only then does the new one get its epoch. Each step is read off the image, so
//! that a controller which takes over, or the broker which asks again, goes on where the log ends.

use std::collections::BTreeSet;

use super::{
    ApiError, Decision, DecisionContext,
    brokers::{BrokerSession, registration_change},
    sweep::restart_slice,
};
use crate::{
    controller::{
        image::{BrokerImage, MetadataImage},
        messages::{
            BrokerRegistrationRequestData, BrokerRegistrationResponseData, ErrorCode, own_uuid,
        },
        records::{EndpointV1, FeatureRangeV1, METADATA_VERSION, Record, RegisterBrokerV1},
    },
    ids::{NodeId, Uuid},
    planted::Planted,
};

/// How far a registration has come.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum RegistrationStep {
    /// The incarnation before it is not out of the way yet: agree on these records and decide again.
    Cleanup(Vec<Record>),
    /// The broker is registered.
    Registered(Decision<BrokerRegistrationResponseData>),
}

/// Decides on the next step of a registration; `next_offset` is where its first record will stand.
///
/// # Errors
/// If the broker may not register.
pub fn register_broker(
    image: &MetadataImage,
    context: &DecisionContext<'_>,
    request: &BrokerRegistrationRequestData,
    next_offset: i64,
    session: Option<BrokerSession>,
) -> Result<RegistrationStep, ApiError> {
    let broker_id = NodeId(request.broker_id);
    let incarnation_id = own_uuid(request.incarnation_id);
    let existing = image.broker(broker_id);
    check_registration(image, request, existing, session)?;
    let amended = existing.filter(|existing| existing.incarnation_id == incarnation_id);
    if amended.is_none() {
        let records = cleanup(image, context, request, existing);
        if !records.is_empty() {
            return Ok(RegistrationStep::Cleanup(records));
        }
    }
    let broker_epoch = amended.map_or(next_offset, |existing| existing.epoch);
    let record = registration_record(request, amended, broker_epoch);
    let reply = BrokerRegistrationResponseData {
        broker_epoch,
        ..BrokerRegistrationResponseData::default()
    };
    Ok(RegistrationStep::Registered(Decision {
        records: vec![record.into()],
        reply,
    }))
}

/// Decides what must be agreed on before another incarnation of a broker may have an epoch; nothing, in the end.
fn cleanup(
    image: &MetadataImage,
    context: &DecisionContext<'_>,
    request: &BrokerRegistrationRequestData,
    existing: Option<&BrokerImage>,
) -> Vec<Record> {
    if let Some(existing) = existing
        && !existing.fenced
    {
        return vec![registration_change(existing, Some(true), None).into()];
    }
    // The broker proves a clean stop by naming the epoch that it stopped with.
    let is_clean = existing.is_some_and(|existing| {
        existing.epoch == request.previous_broker_epoch || context.planted.has(Planted::B21)
    });
    restart_slice(image, context, NodeId(request.broker_id), is_clean)
}

fn registration_record(
    request: &BrokerRegistrationRequestData,
    amended: Option<&BrokerImage>,
    broker_epoch: i64,
) -> RegisterBrokerV1 {
    RegisterBrokerV1 {
        broker_id: NodeId(request.broker_id),
        broker_epoch,
        incarnation_id: own_uuid(request.incarnation_id),
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
    }
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
    check_directories(image, request)?;
    check_features(image, request)
}

/// Checks that the broker understands what the cluster has agreed on to use.
fn check_features(
    image: &MetadataImage,
    request: &BrokerRegistrationRequestData,
) -> Result<(), ApiError> {
    let supported = |name: &str| {
        let mut features = request.features.iter();
        features
            .find(|feature| feature.name.as_str() == name)
            .map(|feature| (feature.min_supported_version, feature.max_supported_version))
    };
    if supported(METADATA_VERSION).is_none() {
        let message = format!("Request features do not contain '{METADATA_VERSION}'");
        return Err(ApiError::new(ErrorCode::InvalidRegistration, message));
    }
    let named = request.features.iter().map(|feature| feature.name.as_str());
    let finalized = image.features().keys().map(String::as_str);
    let names: BTreeSet<&str> = named.chain(finalized).collect();
    for name in names {
        let level = image.feature_level(name);
        let (min, max) = supported(name).unwrap_or((0, 0));
        if !i16::try_from(level).is_ok_and(|level| (min..=max).contains(&level)) {
            let message = format!(
                "Unable to register because the broker does not support finalized version {level} of {name}. The \
                 broker wants a version between {min} and {max}, inclusive."
            );
            return Err(ApiError::new(ErrorCode::UnsupportedVersion, message));
        }
    }
    Ok(())
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
