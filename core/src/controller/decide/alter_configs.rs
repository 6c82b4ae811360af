//! `IncrementalAlterConfigs`, versions 0 and 1.

use std::collections::BTreeSet;

use super::{ApiError, Decision, DecisionContext, topic_name::invalid_topic_name};
use crate::{
    config::{
        ConfigKey, ConfigType, OverrideMap, broker_key, topic_key, validate_dynamic_broker_configs,
        validate_topic_overrides,
    },
    controller::{
        image::{ConfigResource, MetadataImage, ResourceKind},
        messages::{
            AlterConfigsResource, AlterConfigsResourceResponse, ErrorCode,
            IncrementalAlterConfigsRequestData, IncrementalAlterConfigsResponseData,
        },
        records::{ClearElrV1, ConfigV1, Record},
    },
    ids::NodeId,
};

/// The most UTF-16 units that a value may have.
pub(super) const VALUE_CHARS_MAX: usize = 32_767;

/// What a longer value is answered.
pub(super) const VALUE_TOO_LONG: &str = "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.";

const MIN_INSYNC_REPLICAS: &str = "min.insync.replicas";

/// Decides on changes of configs; each resource succeeds or fails as a whole, by itself.
pub fn alter_configs(
    image: &MetadataImage,
    context: &DecisionContext<'_>,
    request: &IncrementalAlterConfigsRequestData,
) -> Decision<IncrementalAlterConfigsResponseData> {
    let mut records = Vec::new();
    let mut responses = Vec::with_capacity(request.resources.len());
    let mut seen = BTreeSet::new();
    let mut duplicated = BTreeSet::new();
    for resource in &request.resources {
        let key = (resource.resource_type, resource.resource_name.as_str());
        if !seen.insert(key) {
            duplicated.insert(key);
        }
    }
    for resource in &request.resources {
        let key = (resource.resource_type, resource.resource_name.as_str());
        let outcome = if duplicated.contains(&key) {
            let message = "Each resource must appear at most once.";
            Err(ApiError::new(ErrorCode::InvalidRequest, message))
        } else {
            alter_resource(image, context, resource)
        };
        let error = outcome.map(|altered| records.extend(altered)).err();
        responses.push(AlterConfigsResourceResponse {
            error_code: error.as_ref().map_or(0, |error| error.code.code()),
            error_message: error.as_ref().and_then(ApiError::wire_message),
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
            ..AlterConfigsResourceResponse::default()
        });
    }
    let reply = IncrementalAlterConfigsResponseData {
        responses,
        ..IncrementalAlterConfigsResponseData::default()
    };
    Decision { records, reply }.unless(request.validate_only)
}

/// One operation on one config.
enum Operation<'request> {
    Set(&'request str),
    Delete,
    Append(&'request str),
    Subtract(&'request str),
}

fn alter_resource(
    image: &MetadataImage,
    context: &DecisionContext<'_>,
    resource: &AlterConfigsResource,
) -> Result<Vec<Record>, ApiError> {
    let invalid = |message: String| ApiError::new(ErrorCode::InvalidRequest, message);
    check_shape(resource)?;
    let kind = ResourceKind::from_code(resource.resource_type)
        .ok_or_else(|| invalid(format!("Unknown resource type {}", resource.resource_type)))?;
    let name = resource.resource_name.as_str();
    if kind == ResourceKind::Broker && !name.is_empty() {
        check_broker_name(name, context.node_id)?;
    }
    let target = ConfigResource {
        kind,
        name: name.to_owned(),
    };
    let mut configs = image.configs(&target).clone();
    let mut records = Vec::new();
    for config in &resource.configs {
        let value = || config.value.as_ref().map_or("", |value| value.as_str());
        let operation = match config.config_operation {
            0 => Operation::Set(value()),
            1 => Operation::Delete,
            2 => Operation::Append(value()),
            3 => Operation::Subtract(value()),
            other => return Err(invalid(format!("Unknown operations type {other}"))),
        };
        let config = config.name.as_str();
        let before = configs.get(config).cloned();
        let after = apply(kind, config, before.as_deref(), &operation)?;
        match &after {
            Some(value) => configs.insert(config.to_owned(), value.clone()),
            None => configs.remove(config),
        };
        // A broker reads its settings again even where they look the same: a key store may have changed on disk.
        if before != after || kind == ResourceKind::Broker {
            records.push(ConfigV1 {
                resource_type: kind.code(),
                resource_name: name.to_owned(),
                name: config.to_owned(),
                value: after,
            });
        }
    }
    match kind {
        ResourceKind::Topic => check_topic(image, context, name, &configs, &records)?,
        ResourceKind::Broker => check_broker(image, context, name, &configs, &records)?,
    }
    let clear = records
        .iter()
        .any(|record| record.name == MIN_INSYNC_REPLICAS)
        .then(|| {
            // Eligible leaders were counted with the old number.
            let topic_name = (kind == ResourceKind::Topic).then(|| name.to_owned());
            Record::from(ClearElrV1 { topic_name })
        });
    Ok(records.into_iter().map(Record::from).chain(clear).collect())
}

fn check_shape(resource: &AlterConfigsResource) -> Result<(), ApiError> {
    let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidRequest, message));
    let mut names = BTreeSet::new();
    if !resource
        .configs
        .iter()
        .all(|config| names.insert(config.name.as_str()))
    {
        return invalid("Error due to duplicate config keys".to_owned());
    }
    let nulls: Vec<&str> = resource
        .configs
        .iter()
        .filter(|config| config.config_operation != 1 && config.value.is_none())
        .map(|config| config.name.as_str())
        .collect();
    if nulls.is_empty() {
        return Ok(());
    }
    invalid(format!(
        "Null value not supported for : {}",
        nulls.join(", ")
    ))
}

/// A broker alters its own configs, or those of all.
fn check_broker_name(name: &str, own: NodeId) -> Result<(), ApiError> {
    let message = match name.parse::<i32>() {
        Ok(id) if NodeId(id) == own => return Ok(()),
        Ok(_) => format!("Unexpected broker id, expected {own}, but received {name}"),
        Err(_) => format!("Node id must be an integer, but it is: {name}"),
    };
    Err(ApiError::new(ErrorCode::InvalidRequest, message))
}

/// Returns the value after the operation.
fn apply(
    kind: ResourceKind,
    name: &str,
    before: Option<&str>,
    operation: &Operation<'_>,
) -> Result<Option<String>, ApiError> {
    let (word, items) = match operation {
        Operation::Set(value) => return Ok(Some((*value).to_owned())),
        Operation::Delete => return Ok(None),
        Operation::Append(items) => ("append", items),
        Operation::Subtract(items) => ("subtract", items),
    };
    let key = match kind {
        ResourceKind::Topic => topic_key(name),
        ResourceKind::Broker => broker_key(name),
    };
    check_list(kind, name, key, word)?;
    let current = before
        .or_else(|| key.and_then(ConfigKey::default_text))
        .unwrap_or("");
    let mut list: Vec<&str> = current.split(',').filter(|item| !item.is_empty()).collect();
    for item in split_as_java(items) {
        let at = list.iter().position(|known| *known == item);
        match (operation, at) {
            (Operation::Append(_), None) => list.push(item),
            (Operation::Subtract(_), Some(at)) => {
                list.remove(at);
            }
            _ => {}
        }
    }
    Ok(Some(list.join(",")))
}

fn check_list(
    kind: ResourceKind,
    name: &str,
    key: Option<&ConfigKey>,
    word: &str,
) -> Result<(), ApiError> {
    let message = match (kind, key) {
        (_, Some(key)) if key.kind() == ConfigType::List => return Ok(()),
        (ResourceKind::Topic, _) => {
            format!(
                "Can't {} to key {name} because its type is not LIST.",
                word.to_uppercase()
            )
        }
        (ResourceKind::Broker, None) => format!("Unknown config name: {name}"),
        (ResourceKind::Broker, Some(_)) => {
            format!("Config value {word} is not allowed for config key: {name}")
        }
    };
    Err(ApiError::new(ErrorCode::InvalidConfig, message))
}

/// Splits at commas and drops empty items at the end, but never the first, as Java's `split` does.
fn split_as_java(text: &str) -> Vec<&str> {
    let mut items: Vec<&str> = text.split(',').collect();
    while items.len() > 1 && items.last().is_some_and(|item| item.is_empty()) {
        items.pop();
    }
    items
}

fn check_sizes(records: &[ConfigV1]) -> Result<(), ApiError> {
    let long = |record: &ConfigV1| {
        record
            .value
            .as_ref()
            .is_some_and(|value| value.encode_utf16().count() > VALUE_CHARS_MAX)
    };
    if records.iter().any(long) {
        return Err(ApiError::new(ErrorCode::InvalidConfig, VALUE_TOO_LONG));
    }
    Ok(())
}

fn check_topic(
    image: &MetadataImage,
    context: &DecisionContext<'_>,
    name: &str,
    configs: &OverrideMap,
    records: &[ConfigV1],
) -> Result<(), ApiError> {
    check_sizes(records)?;
    if name.is_empty() {
        let message = "Default topic resources are not allowed.";
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    if let Some(message) = invalid_topic_name(name) {
        return Err(ApiError::new(ErrorCode::InvalidTopicException, message));
    }
    validate_topic_overrides(&context.layers(image), configs)
        .map_err(|error| ApiError::new(ErrorCode::InvalidConfig, error.message()))?;
    if image.topic(name).is_none() {
        let message = format!("The topic '{name}' does not exist.");
        return Err(ApiError::new(ErrorCode::UnknownTopicOrPartition, message));
    }
    Ok(())
}

fn check_broker(
    image: &MetadataImage,
    context: &DecisionContext<'_>,
    name: &str,
    configs: &OverrideMap,
    records: &[ConfigV1],
) -> Result<(), ApiError> {
    validate_dynamic_broker_configs(&context.layers(image), configs, !name.is_empty())
        .map_err(|error| ApiError::new(ErrorCode::InvalidRequest, error.message()))?;
    // With eligible leader replicas the min ISR must be one number that every node knows.
    let min_isr = records
        .iter()
        .find(|record| record.name == MIN_INSYNC_REPLICAS);
    if let Some(record) = min_isr {
        if !name.is_empty() {
            let message =
                "Broker-level min.insync.replicas cannot be altered while ELR is enabled.";
            return Err(ApiError::new(ErrorCode::InvalidConfig, message));
        }
        if record.value.is_none() {
            let message =
                "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.";
            return Err(ApiError::new(ErrorCode::InvalidConfig, message));
        }
    }
    check_sizes(records)?;
    if !name.is_empty() && image.broker(context.node_id).is_none() {
        let message = format!("No node with id {} found.", context.node_id);
        return Err(ApiError::new(ErrorCode::BrokerIdNotRegistered, message));
    }
    Ok(())
}
