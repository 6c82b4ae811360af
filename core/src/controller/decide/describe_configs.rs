//! `DescribeConfigs`, versions 1 to 4: a read, answered by every broker from its own image.

use super::{ApiError, DecisionContext, topic_name::invalid_topic_name};
use crate::{
    config::{
        ConfigKey, ConfigSource, Layers, OverrideMap, SynonymValue, UpdateMode, broker_key,
        topic_keys, topic_synonyms,
    },
    controller::{
        image::{MetadataImage, ResourceKind},
        messages::{
            DescribeConfigsRequestData, DescribeConfigsResource, DescribeConfigsResourceResult,
            DescribeConfigsResponseData, DescribeConfigsResult, DescribeConfigsSynonym, ErrorCode,
            wire_string,
        },
    },
    ids::NodeId,
};

/// Kafka's number of a type that it does not know.
const TYPE_UNKNOWN: i8 = 0;

/// Resource types of Kafka's that are not kept here: broker loggers, client metrics, groups.
const OTHER_TYPES: [i8; 3] = [8, 16, 32];

/// Describes configs of topics and of this broker.
#[must_use]
pub fn describe_configs(
    image: &MetadataImage,
    context: &DecisionContext<'_>,
    request: &DescribeConfigsRequestData,
) -> DescribeConfigsResponseData {
    let known = |resource: &DescribeConfigsResource| {
        ResourceKind::from_code(resource.resource_type).is_some()
            || OTHER_TYPES.contains(&resource.resource_type)
    };
    // Kafka throws the whole request away for one type that it does not know.
    let results = if request.resources.iter().all(known) {
        let description = Description {
            image,
            layers: context.layers(image),
            node_id: context.node_id,
            synonyms: request.include_synonyms,
            documentation: request.include_documentation,
        };
        request
            .resources
            .iter()
            .map(|resource| description.resource(resource))
            .collect()
    } else {
        let error = ApiError::new(ErrorCode::InvalidRequest, INVALID_REQUEST);
        request
            .resources
            .iter()
            .map(|resource| failure(resource, &error))
            .collect()
    };
    DescribeConfigsResponseData {
        results,
        ..DescribeConfigsResponseData::default()
    }
}

/// The message that stands for the code alone.
const INVALID_REQUEST: &str = "This most likely occurs because of a request being malformed by the client library or the message was sent to an \
     incompatible broker. See the broker logs for more details.";

fn failure(resource: &DescribeConfigsResource, error: &ApiError) -> DescribeConfigsResult {
    DescribeConfigsResult {
        error_code: error.code.code(),
        error_message: error.wire_message(),
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
        configs: Vec::new(),
        ..DescribeConfigsResult::default()
    }
}

struct Description<'request> {
    image: &'request MetadataImage,
    layers: Layers<'request>,
    node_id: NodeId,
    synonyms: bool,
    documentation: bool,
}

impl Description<'_> {
    fn resource(&self, resource: &DescribeConfigsResource) -> DescribeConfigsResult {
        let name = resource.resource_name.as_str();
        let described = match ResourceKind::from_code(resource.resource_type) {
            Some(ResourceKind::Topic) => self.topic(resource, name),
            Some(ResourceKind::Broker) if name.is_empty() => Ok(self.all_brokers(resource)),
            Some(ResourceKind::Broker) => self.broker(resource, name),
            None => {
                let message = format!("Unsupported resource type: {}", resource.resource_type);
                Err(ApiError::new(ErrorCode::InvalidRequest, message))
            }
        };
        match described {
            // Kafka leaves the message at its default, which is empty and not null.
            Ok(configs) => DescribeConfigsResult {
                error_message: Some(wire_string("")),
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.clone(),
                configs,
                ..DescribeConfigsResult::default()
            },
            Err(error) => failure(resource, &error),
        }
    }

    fn topic(
        &self,
        resource: &DescribeConfigsResource,
        name: &str,
    ) -> Result<Vec<DescribeConfigsResourceResult>, ApiError> {
        if let Some(message) = invalid_topic_name(name) {
            return Err(ApiError::new(ErrorCode::InvalidTopicException, message));
        }
        if self.image.topic(name).is_none() {
            return Err(ApiError::new(ErrorCode::UnknownTopicOrPartition, ""));
        }
        let overrides = self.image.topic_configs(name);
        let shown = topic_keys().iter().filter(|key| {
            wanted(resource, key.name())
                && (!key.is_internal() || overrides.contains_key(key.name()))
        });
        Ok(shown.map(|key| self.topic_entry(key, overrides)).collect())
    }

    fn topic_entry(
        &self,
        key: &ConfigKey,
        overrides: &OverrideMap,
    ) -> DescribeConfigsResourceResult {
        let name = key.name();
        let set = overrides.get(name);
        let plain = |text: &String| match key.parse(text) {
            Ok(value) => value.to_string(),
            Err(_) => text.clone(),
        };
        let value = set.map_or_else(
            || self.layers.topic_default_plain(key),
            |text| Some(plain(text)),
        );
        let mut synonyms = Vec::new();
        if set.is_some() {
            let value = value.clone();
            synonyms.push(SynonymValue {
                name: name.to_owned(),
                value,
                source: ConfigSource::Topic,
            });
        }
        if let Some((broker_name, _)) = topic_synonyms(name).first() {
            synonyms.extend(
                self.layers
                    .broker_synonyms(broker_name, key.kind().is_sensitive()),
            );
        }
        self.entry(name, value, Some(key), &synonyms, false)
    }

    fn broker(
        &self,
        resource: &DescribeConfigsResource,
        name: &str,
    ) -> Result<Vec<DescribeConfigsResourceResult>, ApiError> {
        let own = self.node_id;
        match name.parse::<i32>() {
            Ok(id) if NodeId(id) == own => {}
            Ok(_) => {
                let message = format!(
                    "Unexpected broker id, expected {own} or empty string, but received {name}"
                );
                return Err(ApiError::new(ErrorCode::InvalidRequest, message));
            }
            Err(_) => {
                let message = format!("Broker id must be an integer, but it is: {name}");
                return Err(ApiError::new(ErrorCode::InvalidRequest, message));
            }
        }
        let names = self
            .layers
            .broker_names()
            .into_iter()
            .filter(|name| wanted(resource, name));
        Ok(names
            .map(|name| {
                let key = broker_definition(&name);
                let synonyms = self.layers.broker_synonyms(&name, hidden(key));
                let value = self.layers.broker_value(&name).text;
                self.entry(&name, value, key, &synonyms, read_only(&name))
            })
            .collect())
    }

    fn all_brokers(
        &self,
        resource: &DescribeConfigsResource,
    ) -> Vec<DescribeConfigsResourceResult> {
        let set = self.layers.cluster_default();
        let names = set.iter().filter(|(name, _)| wanted(resource, name));
        names
            .map(|(name, value)| {
                let key = broker_definition(name);
                let mut synonyms = self.layers.broker_synonyms(name, hidden(key));
                synonyms.retain(|entry| entry.source == ConfigSource::DynamicDefaultBroker);
                self.entry(name, Some(value.clone()), key, &synonyms, read_only(name))
            })
            .collect()
    }

    fn entry(
        &self,
        name: &str,
        value: Option<String>,
        key: Option<&ConfigKey>,
        synonyms: &[SynonymValue],
        read_only: bool,
    ) -> DescribeConfigsResourceResult {
        let source = synonyms
            .first()
            .map_or(ConfigSource::Default, |entry| entry.source);
        let listed = if self.synonyms { synonyms } else { &[] };
        let is_sensitive = hidden(key);
        let documentation = key
            .filter(|_| self.documentation)
            .map(ConfigKey::documentation);
        DescribeConfigsResourceResult {
            name: wire_string(name),
            value: value.filter(|_| !is_sensitive).as_deref().map(wire_string),
            read_only,
            config_source: source.code(),
            is_sensitive,
            synonyms: listed.iter().map(synonym).collect(),
            config_type: key.map_or(TYPE_UNKNOWN, |key| key.kind().code()),
            documentation: documentation.map(wire_string),
            ..DescribeConfigsResourceResult::default()
        }
    }
}

fn synonym(entry: &SynonymValue) -> DescribeConfigsSynonym {
    DescribeConfigsSynonym {
        name: wire_string(&entry.name),
        value: entry.value.as_deref().map(wire_string),
        source: entry.source.code(),
        ..DescribeConfigsSynonym::default()
    }
}

/// An empty list of names asks for all, like none.
fn wanted(resource: &DescribeConfigsResource, name: &str) -> bool {
    match &resource.configuration_keys {
        Some(keys) if !keys.is_empty() => keys.iter().any(|key| key.as_str() == name),
        _ => true,
    }
}

/// Returns the definition of a broker config; a listener's own setting has that of the setting it overrides.
fn broker_definition(name: &str) -> Option<&'static ConfigKey> {
    broker_key(name).or_else(|| {
        let (_, base) = name.strip_prefix("listener.name.")?.split_once('.')?;
        broker_key(base)
    })
}

/// What has no definition may be a secret.
fn hidden(key: Option<&ConfigKey>) -> bool {
    key.is_none_or(|key| key.kind().is_sensitive())
}

fn read_only(name: &str) -> bool {
    broker_key(name).is_none_or(|key| key.update_mode() == UpdateMode::ReadOnly)
}
