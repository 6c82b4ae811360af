//! What the controller decides: pure functions from (image, request) to (records, reply).
//!
//! Nothing here changes anything. The caller appends the records, replays them, and sends the reply when they are
//! committed; an old leader and a new one therefore agree by construction. Codes and messages are those of Kafka
//! 4.3.1's controller.

mod alter_configs;
mod alter_partition;
mod auto_create;
mod bootstrap;
mod brokers;
mod create_partitions;
mod create_topics;
mod delete_topics;
mod describe_configs;
mod elect_leaders;
mod election;
mod partitions;
mod placement;
mod registration;
mod sweep;
mod topic_name;
mod topic_rules;

pub use self::{
    alter_configs::alter_configs,
    alter_partition::alter_partition,
    auto_create::{AutoCreation, auto_create_topics},
    bootstrap::{BootstrapContext, bootstrap_records},
    brokers::{BrokerSession, HeartbeatDecision, broker_heartbeat, fence_broker},
    create_partitions::create_partitions,
    create_topics::create_topics,
    delete_topics::delete_topics,
    describe_configs::describe_configs,
    elect_leaders::elect_leaders,
    registration::{RegistrationStep, register_broker},
    sweep::{SLICE_PARTITIONS_MAX, Slice, Sweep, sweep_slice},
    topic_name::{INTERNAL_TOPICS, invalid_topic_name, is_internal_topic},
};

use super::{
    image::MetadataImage,
    messages::{ErrorCode, KafkaString, wire_string},
    records::Record,
};
use crate::{
    config::{BrokerSettings, Layers, StaticConfig},
    ids::NodeId,
    planted::PlantedSet,
};

/// The most records that one request may lead to, so that they fit one atomic batch.
pub const RECORDS_PER_REQUEST_MAX: usize = 10_000;

/// A decision: facts to agree on, and the answer to send once they are agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Decision<R> {
    /// The facts, to be appended as one atomic batch.
    pub records: Vec<Record>,
    /// The answer.
    pub reply: R,
}

impl<R> Decision<R> {
    /// Makes a decision that changes nothing.
    pub const fn answer(reply: R) -> Self {
        Self {
            records: Vec::new(),
            reply,
        }
    }

    /// Drops the facts: the answer of a request that only asks whether it would succeed.
    pub fn unless(mut self, validate_only: bool) -> Self {
        if validate_only {
            self.records.clear();
        }
        self
    }

    /// Changes the answer.
    pub fn map<S>(self, change: impl FnOnce(R) -> S) -> Decision<S> {
        Decision {
            records: self.records,
            reply: change(self.reply),
        }
    }
}

/// What a decision rests on besides the image.
#[derive(Clone, Copy, Debug)]
pub struct DecisionContext<'context> {
    /// This node.
    pub node_id: NodeId,
    /// Its settings at start.
    pub fixed: &'context StaticConfig,
    /// The bugs switched on in it: none in any release.
    pub planted: PlantedSet,
}

impl<'context> DecisionContext<'context> {
    /// Returns the layers that values of this node come from.
    #[must_use]
    pub fn layers(&self, image: &'context MetadataImage) -> Layers<'context> {
        image.layers(self.fixed, self.node_id)
    }

    /// Returns the settings of this node in force.
    #[must_use]
    pub fn settings(&self, image: &MetadataImage) -> BrokerSettings {
        BrokerSettings::resolve(&image.layers(self.fixed, self.node_id))
    }
}

/// An error of the protocol, with Kafka's message where it has one of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The code.
    pub code: ErrorCode,
    /// The message, `None` where the answer carries null.
    pub message: Option<String>,
}

impl ApiError {
    /// Makes an error with a message.
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: Some(message.into()),
        }
    }

    /// Makes an error whose answer carries no message.
    pub(super) const fn bare(code: ErrorCode) -> Self {
        Self {
            code,
            message: None,
        }
    }

    fn wire_message(&self) -> Option<KafkaString> {
        self.message.as_deref().map(wire_string)
    }
}

#[cfg(test)]
mod tests;
