//! Topics that begin because somebody asked for their metadata.

use rand::Rng;

use super::{
    Decision, DecisionContext, create_topics,
    topic_name::{invalid_topic_name, is_internal_topic},
};
use crate::controller::{
    image::MetadataImage,
    messages::{
        CreatableTopic, CreatableTopicConfig, CreateTopicsRequestData, CreateTopicsResponseData,
        ErrorCode, wire_string,
    },
};

/// What to answer for a topic that was asked for and is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoCreation {
    /// The topic.
    pub name: String,
    /// The code of its metadata answer: retriable while it is being created.
    pub error: ErrorCode,
    /// Why it will not be created, for people.
    pub message: Option<String>,
}

/// Decides on topics that a metadata request named and that do not exist.
///
/// As in Kafka, names are checked first, the topic gets the broker's default numbers, and the asker learns only that
/// the topic is not there yet. Internal topics get the numbers of their own settings.
pub fn auto_create_topics(
    image: &MetadataImage,
    context: &DecisionContext<'_>,
    rng: &mut dyn Rng,
    names: &[String],
) -> Decision<Vec<AutoCreation>> {
    let mut answers = Vec::with_capacity(names.len());
    let mut topics = Vec::new();
    for name in names {
        if let Some(message) = invalid_topic_name(name) {
            answers.push(AutoCreation {
                name: name.clone(),
                error: ErrorCode::InvalidTopicException,
                message: Some(message),
            });
        } else {
            topics.push(creatable(image, context, name));
        }
    }
    let request = CreateTopicsRequestData {
        topics,
        ..CreateTopicsRequestData::default()
    };
    let created = create_topics(image, context, rng, &request);
    let refusals = created.reply.topics.iter().map(|topic| AutoCreation {
        name: topic.name.as_str().to_owned(),
        error: ErrorCode::UnknownTopicOrPartition,
        message: topic
            .error_message
            .as_ref()
            .map(|message| message.as_str().to_owned()),
    });
    answers.extend(refusals);
    created.map(|_: CreateTopicsResponseData| answers)
}

fn creatable(image: &MetadataImage, context: &DecisionContext<'_>, name: &str) -> CreatableTopic {
    let layers = context.layers(image);
    let number = |setting: &str| layers.broker_number(setting);
    let settings = match name {
        _ if !is_internal_topic(name) => None,
        "__consumer_offsets" => Some((
            "offsets.topic.num.partitions",
            "offsets.topic.replication.factor",
            "offsets.topic.segment.bytes",
        )),
        "__transaction_state" => Some((
            "transaction.state.log.num.partitions",
            "transaction.state.log.replication.factor",
            "transaction.state.log.segment.bytes",
        )),
        _ => Some((
            "share.coordinator.state.topic.num.partitions",
            "share.coordinator.state.topic.replication.factor",
            "share.coordinator.state.topic.segment.bytes",
        )),
    };
    let mut topic = CreatableTopic {
        name: wire_string(name),
        num_partitions: -1,
        replication_factor: -1,
        ..CreatableTopic::default()
    };
    if let Some((partitions, factor, segment_bytes)) = settings {
        topic.num_partitions = number(partitions)
            .and_then(|n| n.try_into().ok())
            .unwrap_or(-1);
        topic.replication_factor = number(factor).and_then(|n| n.try_into().ok()).unwrap_or(-1);
        let segment_bytes = number(segment_bytes).map(|bytes| bytes.to_string());
        let configs = [
            ("cleanup.policy", Some("compact".to_owned())),
            ("compression.type", Some("producer".to_owned())),
            ("segment.bytes", segment_bytes),
        ];
        for (config, value) in configs {
            topic.configs.push(CreatableTopicConfig {
                name: wire_string(config),
                value: value.as_deref().map(wire_string),
                ..CreatableTopicConfig::default()
            });
        }
    }
    topic
}
