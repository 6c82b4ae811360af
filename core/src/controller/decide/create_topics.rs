//! `CreateTopics`, versions 2 to 7.

use std::collections::BTreeSet;

use rand::Rng;

use super::{
    ApiError, Decision, DecisionContext, RECORDS_PER_REQUEST_MAX,
    alter_configs::VALUE_CHARS_MAX,
    partitions::{check_assignment, partition_record},
    placement::Placer,
    topic_name::{METADATA_TOPIC_NAME, invalid_topic_name},
};
use crate::{
    config::{OverrideMap, topic_keys, validate_topic_overrides},
    controller::{
        image::{MetadataImage, ResourceKind},
        messages::{
            CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsRequestData,
            CreateTopicsResponseData, ErrorCode, wire_string, wire_uuid,
        },
        records::{ConfigV1, Record, TopicV1},
    },
    ids::Uuid,
};

/// The most partitions that one request may ask for.
const PARTITIONS_PER_REQUEST_MAX: i64 = 10_000;

/// Decides on new topics.
///
/// Each topic succeeds or fails by itself; a request that asks for too much, or gives no time, fails as a whole.
pub fn create_topics(
    image: &MetadataImage,
    context: &DecisionContext<'_>,
    rng: &mut dyn Rng,
    request: &CreateTopicsRequestData,
) -> Decision<CreateTopicsResponseData> {
    let (distinct, duplicated) = split_duplicates(request);
    let wanted: Vec<&CreatableTopic> = request
        .topics
        .iter()
        .filter(|topic| {
            distinct.contains(topic.name.as_str()) && topic.name.as_str() != METADATA_TOPIC_NAME
        })
        .collect();
    if request.timeout_ms <= 0 && !wanted.is_empty() {
        return refuse_all(request, &ApiError::bare(ErrorCode::RequestTimedOut));
    }
    let settings = context.settings(image);
    if partitions_asked_for(&wanted, settings.num_partitions) > PARTITIONS_PER_REQUEST_MAX {
        let message = "Excessively large number of partitions per request.";
        return refuse_all(request, &ApiError::new(ErrorCode::PolicyViolation, message));
    }
    let mut creation = Creation {
        image,
        context,
        num_partitions: settings.num_partitions,
        replication_factor: settings.default_replication_factor,
        records: Vec::new(),
    };
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in wanted {
        let result = creation.create(topic, rng);
        if creation.records.len() > RECORDS_PER_REQUEST_MAX {
            let message = "Unable to perform excessively large batch operation.";
            return refuse_all(request, &ApiError::new(ErrorCode::PolicyViolation, message));
        }
        topics.push(result.unwrap_or_else(|error| failure(topic.name.as_str(), &error)));
    }
    for name in duplicated {
        let error = ApiError::new(ErrorCode::InvalidRequest, "Duplicate topic name.");
        topics.push(failure(name, &error));
    }
    if distinct.contains(METADATA_TOPIC_NAME) {
        let message = format!("Creation of internal topic {METADATA_TOPIC_NAME} is prohibited.");
        topics.push(failure(
            METADATA_TOPIC_NAME,
            &ApiError::new(ErrorCode::InvalidRequest, message),
        ));
    }
    let reply = CreateTopicsResponseData {
        topics,
        ..CreateTopicsResponseData::default()
    };
    Decision {
        records: creation.records,
        reply,
    }
    .unless(request.validate_only)
}

/// Splits the names into those that stand once and those that stand more often.
fn split_duplicates(request: &CreateTopicsRequestData) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let mut distinct = BTreeSet::new();
    let mut duplicated = BTreeSet::new();
    for topic in &request.topics {
        if !distinct.insert(topic.name.as_str()) {
            duplicated.insert(topic.name.as_str());
        }
    }
    distinct.retain(|name| !duplicated.contains(name));
    (distinct, duplicated)
}

fn partitions_asked_for(topics: &[&CreatableTopic], default: i32) -> i64 {
    let asked = |topic: &&CreatableTopic| {
        if !topic.assignments.is_empty() {
            return i64::try_from(topic.assignments.len()).unwrap_or(i64::MAX);
        }
        i64::from(if topic.num_partitions == -1 {
            default
        } else {
            topic.num_partitions.max(0)
        })
    };
    topics.iter().map(asked).fold(0, i64::saturating_add)
}

fn refuse_all(
    request: &CreateTopicsRequestData,
    error: &ApiError,
) -> Decision<CreateTopicsResponseData> {
    let topics = request
        .topics
        .iter()
        .map(|topic| failure(topic.name.as_str(), error))
        .collect();
    Decision::answer(CreateTopicsResponseData {
        topics,
        ..CreateTopicsResponseData::default()
    })
}

fn failure(name: &str, error: &ApiError) -> CreatableTopicResult {
    CreatableTopicResult {
        name: wire_string(name),
        error_code: error.code.code(),
        error_message: error.wire_message(),
        num_partitions: -1,
        replication_factor: -1,
        configs: Some(Vec::new()),
        ..CreatableTopicResult::default()
    }
}

/// One request's topics, one after the other.
struct Creation<'request> {
    image: &'request MetadataImage,
    context: &'request DecisionContext<'request>,
    num_partitions: i32,
    replication_factor: i16,
    records: Vec<Record>,
}

impl Creation<'_> {
    fn create(
        &mut self,
        topic: &CreatableTopic,
        rng: &mut dyn Rng,
    ) -> Result<CreatableTopicResult, ApiError> {
        let name = topic.name.as_str();
        self.check_name(name)?;
        let overrides = self.check_configs(topic)?;
        let topic_id = random_id(rng);
        let partitions = if topic.assignments.is_empty() {
            self.place(topic, topic_id, rng)?
        } else {
            self.assign(topic, topic_id)?
        };
        let replication_factor = match partitions.first() {
            Some(Record::Partition(first)) => {
                i16::try_from(first.replicas.len()).unwrap_or(i16::MAX)
            }
            _ => 0,
        };
        let result = CreatableTopicResult {
            name: topic.name.clone(),
            topic_id: wire_uuid(topic_id),
            error_code: ErrorCode::None.code(),
            error_message: None,
            topic_config_error_code: ErrorCode::None.code(),
            num_partitions: i32::try_from(partitions.len()).unwrap_or(i32::MAX),
            replication_factor,
            configs: Some(self.described(&overrides)),
            ..CreatableTopicResult::default()
        };
        self.records.push(
            TopicV1 {
                topic_id,
                name: name.to_owned(),
            }
            .into(),
        );
        // Configs stand before partitions: who opens a log knows its config.
        for (config, value) in overrides {
            let record = ConfigV1 {
                resource_type: ResourceKind::Topic.code(),
                resource_name: name.to_owned(),
                name: config,
                value: Some(value),
            };
            self.records.push(record.into());
        }
        self.records.extend(partitions);
        Ok(result)
    }

    fn check_name(&self, name: &str) -> Result<(), ApiError> {
        if self.image.topic(name).is_some() {
            let message = format!("Topic '{name}' already exists.");
            return Err(ApiError::new(ErrorCode::TopicAlreadyExists, message));
        }
        if let Some(other) = self.image.colliding_topic(name) {
            let message = format!("Topic '{name}' collides with existing topic: {other}");
            return Err(ApiError::new(ErrorCode::InvalidTopicException, message));
        }
        match invalid_topic_name(name) {
            Some(message) => Err(ApiError::new(ErrorCode::InvalidTopicException, message)),
            None => Ok(()),
        }
    }

    /// Checks the configs and returns them; of a name given twice the last value counts.
    fn check_configs(&self, topic: &CreatableTopic) -> Result<OverrideMap, ApiError> {
        let mut overrides = OverrideMap::new();
        let mut nulls = Vec::new();
        for config in &topic.configs {
            match &config.value {
                Some(value) => {
                    overrides.insert(config.name.as_str().to_owned(), value.as_str().to_owned());
                }
                None => nulls.push(config.name.as_str()),
            }
        }
        let refuse = |message: &str| Err(ApiError::new(ErrorCode::InvalidConfig, message));
        if !nulls.is_empty() {
            return refuse(&format!(
                "Null value not supported for topic configs: {}",
                nulls.join(",")
            ));
        }
        if overrides
            .values()
            .any(|value| value.encode_utf16().count() > VALUE_CHARS_MAX)
        {
            return refuse(super::alter_configs::VALUE_TOO_LONG);
        }
        match validate_topic_overrides(&self.context.layers(self.image), &overrides) {
            Ok(()) => Ok(overrides),
            Err(error) => refuse(error.message()),
        }
    }

    fn assign(&self, topic: &CreatableTopic, topic_id: Uuid) -> Result<Vec<Record>, ApiError> {
        let invalid = |message: &str| Err(ApiError::new(ErrorCode::InvalidRequest, message));
        if topic.replication_factor != -1 {
            return invalid(
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            );
        }
        if topic.num_partitions != -1 {
            return invalid(
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            );
        }
        let refuse =
            |message: String| Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
        let mut factor = None;
        let mut partitions = std::collections::BTreeMap::new();
        for assignment in &topic.assignments {
            let number = assignment.partition_index;
            if partitions.contains_key(&number) {
                return refuse(format!(
                    "Found multiple manual partition assignments for partition {number}"
                ));
            }
            let replicas = check_assignment(self.image, &assignment.broker_ids, factor)?;
            factor = Some(replicas.len());
            match partition_record(self.image, topic_id, number, replicas) {
                Some(record) => partitions.insert(number, record),
                None => {
                    return refuse(format!(
                        "All brokers specified in the manual partition assignment for partition {number} are fenced \
                         or in controlled shutdown."
                    ));
                }
            };
        }
        if !(0..)
            .zip(partitions.keys())
            .all(|(expected, number)| expected == *number)
        {
            return refuse(
                "partitions should be a consecutive 0-based integer sequence".to_owned(),
            );
        }
        Ok(partitions.into_values().collect())
    }

    fn place(
        &self,
        topic: &CreatableTopic,
        topic_id: Uuid,
        rng: &mut dyn Rng,
    ) -> Result<Vec<Record>, ApiError> {
        if topic.replication_factor < -1 || topic.replication_factor == 0 {
            return Err(ApiError::new(
                ErrorCode::InvalidReplicationFactor,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            ));
        }
        if topic.num_partitions < -1 || topic.num_partitions == 0 {
            return Err(ApiError::new(
                ErrorCode::InvalidPartitions,
                "Number of partitions was set to an invalid non-positive value.",
            ));
        }
        let or_default = |asked, default| if asked == -1 { default } else { asked };
        let count = or_default(topic.num_partitions, self.num_partitions);
        let factor = match topic.replication_factor {
            -1 => self.replication_factor,
            asked => asked,
        };
        let unable = |why: &str| {
            let message = format!("Unable to replicate the partition {factor} time(s): {why}");
            ApiError::new(ErrorCode::InvalidReplicationFactor, message)
        };
        let mut placer = Placer::new(self.image, rng);
        let replicas = placer
            .check(factor)
            .map_err(|error| unable(error.message.as_deref().unwrap_or_default()))?;
        (0..count)
            .map(|number| {
                let placed = placer.place(replicas, rng);
                partition_record(self.image, topic_id, number, placed).ok_or_else(|| {
                    unable("All brokers are currently fenced or in controlled shutdown.")
                })
            })
            .collect()
    }

    /// Describes the configs that the new topic has, by name.
    fn described(&self, overrides: &OverrideMap) -> Vec<CreatableTopicConfigs> {
        let layers = self.context.layers(self.image);
        let shown = topic_keys()
            .iter()
            .filter(|key| !key.is_internal() || overrides.contains_key(key.name()));
        shown
            .map(|key| {
                let (value, source) = match overrides.get(key.name()) {
                    Some(value) => (Some(value.clone()), crate::config::ConfigSource::Topic),
                    None => {
                        let default = layers.topic_default(key.name());
                        (default.text, default.source)
                    }
                };
                CreatableTopicConfigs {
                    name: wire_string(key.name()),
                    value: value.as_deref().map(wire_string),
                    read_only: false,
                    config_source: source.code(),
                    is_sensitive: false,
                    ..CreatableTopicConfigs::default()
                }
            })
            .collect()
    }
}

/// Draws an id whose text can be given to a command line: it does not begin with a dash.
pub(super) fn random_id(rng: &mut dyn Rng) -> Uuid {
    loop {
        let mut bytes = [0; 16];
        rng.fill_bytes(&mut bytes);
        let id = Uuid::from_random(bytes);
        // The first base64 digit is the first six bits; 62 is the dash.
        if bytes[0] >> 2 != 62 && id != Uuid::ZERO {
            return id;
        }
    }
}
