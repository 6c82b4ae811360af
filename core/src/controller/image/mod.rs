//! The image: everything that the metadata log says, as of some offset.
//!
//! It decides nothing. [`MetadataImage::replay`] is its only mutator and is told facts that were agreed on; a record
//! that does not fit what came before is an error of the log, never a panic. Every iteration is in the order of names
//! or numbers. Equal images have equal [`MetadataImage::state_hash`]es on every node, whether they were built from the
//! log, from a snapshot, or from both.

mod cluster;
mod configs;
mod index;
mod partition;
mod snapshot;
mod topics;

use std::{collections::BTreeMap, sync::Arc};

pub use self::{
    cluster::BrokerImage,
    configs::{ConfigResource, ResourceKind},
    partition::{NO_LEADER, PartitionImage},
    topics::TopicImage,
};

use self::{cluster::Brokers, configs::Configs, topics::Topics};
use super::records::{
    ConfigV1, METADATA_VERSION, METADATA_VERSION_MAX, PartitionChangeV1, Record, TopicV1, VoterV1,
};
use crate::{
    config::{Layers, OverrideMap, StaticConfig},
    ids::{NodeId, TopicName, Uuid},
};

/// What one replayed record changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Change {
    /// Nothing that anybody acts on.
    None,
    /// A feature's level.
    FeatureLevel(String),
    /// The cluster's id was given.
    ClusterId,
    /// The voter set.
    Voters,
    /// A broker registered, changed or was forgotten.
    Broker(NodeId),
    /// A topic began, still without partitions.
    TopicCreated(Uuid),
    /// A partition began.
    PartitionCreated {
        /// The topic.
        topic_id: Uuid,
        /// Which partition of it.
        partition_id: i32,
    },
    /// A partition's leader, replicas or in-sync set changed.
    PartitionChanged {
        /// The topic.
        topic_id: Uuid,
        /// Which partition of it.
        partition_id: i32,
    },
    /// A partition has a leader that may miss committed records: nobody else was left, and either its topic allows
    /// this, or an operator asked for it, or it was the last leader.
    LeaderElectedUncleanly {
        /// The topic.
        topic_id: Uuid,
        /// Which partition of it.
        partition_id: i32,
    },
    /// A topic ended; this is what it was.
    TopicRemoved(Arc<TopicImage>),
    /// A config of this resource changed.
    Config(ConfigResource),
    /// Eligible leader replicas of these partitions were forgotten; their partition epochs rose.
    ElrCleared(Vec<(Uuid, i32)>),
}

/// Why a record does not fit the image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The cluster uses metadata that this build does not understand.
    #[error(
        "the cluster is at {METADATA_VERSION} {level}, this release knows up to {METADATA_VERSION_MAX}"
    )]
    MetadataVersion {
        /// The cluster's level.
        level: u16,
    },
    /// The cluster has another id already.
    #[error("the metadata log names cluster {found}, but this is cluster {own}")]
    ClusterId {
        /// The id in force.
        own: String,
        /// The id in the record.
        found: String,
    },
    /// A topic begins twice, or under a name that is taken.
    #[error("topic {name} ({topic_id}) begins a second time")]
    TopicExists {
        /// The topic.
        topic_id: Uuid,
        /// Its name.
        name: String,
    },
    /// A record is about a topic that there is not.
    #[error("there is no topic {topic_id}")]
    NoTopic {
        /// The topic.
        topic_id: Uuid,
    },
    /// A partition is not the next one, or there is none to change.
    #[error("partition {partition_id} of topic {topic_id} does not fit")]
    Partition {
        /// The topic.
        topic_id: Uuid,
        /// Which partition of it.
        partition_id: i32,
    },
    /// A record is about a registration that there is not.
    #[error("broker {broker_id} is not registered with epoch {broker_epoch}")]
    Broker {
        /// The broker.
        broker_id: NodeId,
        /// The epoch in the record.
        broker_epoch: i64,
    },
    /// A config belongs to a kind of resource that this build does not know.
    #[error("there is no config resource of type {code}")]
    Resource {
        /// The number of the kind.
        code: i8,
    },
}

/// The state that the metadata log describes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataImage {
    features: BTreeMap<String, u16>,
    cluster_id: Option<String>,
    voters: Vec<VoterV1>,
    brokers: Brokers,
    topics: Topics,
    configs: Configs,
}

impl MetadataImage {
    /// Makes the image of an empty log.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies one record and says what changed.
    ///
    /// # Errors
    /// If the record does not fit: the log, the snapshot or this build is wrong, and the image is as it was.
    pub fn replay(&mut self, record: &Record) -> Result<Change, ReplayError> {
        match record {
            Record::NoOp(_) => Ok(Change::None),
            Record::FeatureLevel(record) => self.replay_feature_level(&record.name, record.level),
            Record::ClusterId(record) => self.replay_cluster_id(&record.cluster_id),
            Record::Voters(record) => {
                self.voters.clone_from(&record.voters);
                Ok(Change::Voters)
            }
            Record::RegisterBroker(record) => {
                self.brokers.register(record);
                Ok(Change::Broker(record.broker_id))
            }
            Record::BrokerRegistrationChange(record) => {
                let known = self.brokers.change(record);
                Self::broker_change(known, record.broker_id, record.broker_epoch)
            }
            Record::UnregisterBroker(record) => {
                let known = self
                    .brokers
                    .unregister(record.broker_id, record.broker_epoch);
                Self::broker_change(known, record.broker_id, record.broker_epoch)
            }
            Record::Topic(record) => self.replay_topic(record),
            Record::Partition(record) => {
                let known = self.topics.add_partition(record);
                let (topic_id, partition_id) = (record.topic_id, record.partition_id);
                let change = Change::PartitionCreated {
                    topic_id,
                    partition_id,
                };
                known.then_some(change).ok_or(ReplayError::Partition {
                    topic_id,
                    partition_id,
                })
            }
            Record::PartitionChange(record) => self.replay_partition_change(record),
            Record::RemoveTopic(record) => self.replay_remove_topic(record.topic_id),
            Record::Config(record) => self.replay_config(record),
            Record::ClearElr(record) => {
                let cleared = self.topics.clear_elr(record.topic_name.as_deref());
                Ok(Change::ElrCleared(cleared))
            }
        }
    }

    fn replay_partition_change(
        &mut self,
        record: &PartitionChangeV1,
    ) -> Result<Change, ReplayError> {
        let (topic_id, partition_id) = (record.topic_id, record.partition_id);
        let before = self
            .topics
            .change_partition(record)
            .ok_or(ReplayError::Partition {
                topic_id,
                partition_id,
            })?;
        Ok(if before.would_elect_uncleanly(record) {
            Change::LeaderElectedUncleanly {
                topic_id,
                partition_id,
            }
        } else {
            Change::PartitionChanged {
                topic_id,
                partition_id,
            }
        })
    }

    fn replay_topic(&mut self, record: &TopicV1) -> Result<Change, ReplayError> {
        let topic_id = record.topic_id;
        if self.topics.create(topic_id, &record.name) {
            return Ok(Change::TopicCreated(topic_id));
        }
        Err(ReplayError::TopicExists {
            topic_id,
            name: record.name.clone(),
        })
    }

    fn replay_config(&mut self, record: &ConfigV1) -> Result<Change, ReplayError> {
        let code = record.resource_type;
        let kind = ResourceKind::from_code(code).ok_or(ReplayError::Resource { code })?;
        let resource = ConfigResource {
            kind,
            name: record.resource_name.clone(),
        };
        self.configs.set(resource.clone(), record);
        Ok(Change::Config(resource))
    }

    fn replay_feature_level(&mut self, name: &str, level: u16) -> Result<Change, ReplayError> {
        if name == METADATA_VERSION && level > METADATA_VERSION_MAX {
            return Err(ReplayError::MetadataVersion { level });
        }
        if level == 0 {
            self.features.remove(name);
        } else {
            self.features.insert(name.to_owned(), level);
        }
        Ok(Change::FeatureLevel(name.to_owned()))
    }

    fn replay_cluster_id(&mut self, found: &str) -> Result<Change, ReplayError> {
        match &self.cluster_id {
            Some(own) if own != found => Err(ReplayError::ClusterId {
                own: own.clone(),
                found: found.to_owned(),
            }),
            _ => {
                self.cluster_id = Some(found.to_owned());
                Ok(Change::ClusterId)
            }
        }
    }

    fn replay_remove_topic(&mut self, topic_id: Uuid) -> Result<Change, ReplayError> {
        let topic = self
            .topics
            .remove(topic_id)
            .ok_or(ReplayError::NoTopic { topic_id })?;
        self.configs
            .forget(&ConfigResource::topic(topic.name().as_str()));
        Ok(Change::TopicRemoved(topic))
    }

    fn broker_change(
        known: bool,
        broker_id: NodeId,
        broker_epoch: i64,
    ) -> Result<Change, ReplayError> {
        if known {
            return Ok(Change::Broker(broker_id));
        }
        Err(ReplayError::Broker {
            broker_id,
            broker_epoch,
        })
    }
}

/// Look-ups.
impl MetadataImage {
    /// Returns the cluster's id, once it has been given.
    #[must_use]
    pub fn cluster_id(&self) -> Option<&str> {
        self.cluster_id.as_deref()
    }

    /// Returns a feature's finalized level, 0 if it has none.
    #[must_use]
    pub fn feature_level(&self, name: &str) -> u16 {
        self.features.get(name).copied().unwrap_or(0)
    }

    /// Returns all finalized features.
    #[must_use]
    pub const fn features(&self) -> &BTreeMap<String, u16> {
        &self.features
    }

    /// Returns the voters of the controller quorum.
    #[must_use]
    pub fn voters(&self) -> &[VoterV1] {
        &self.voters
    }

    /// Returns all registered brokers, by id.
    #[must_use]
    pub const fn brokers(&self) -> &BTreeMap<NodeId, BrokerImage> {
        self.brokers.all()
    }

    /// Returns a registered broker.
    #[must_use]
    pub fn broker(&self, id: NodeId) -> Option<&BrokerImage> {
        self.brokers.all().get(&id)
    }

    /// Returns a topic by its name.
    #[must_use]
    pub fn topic(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.topics.find(name)
    }

    /// Returns a topic by its id.
    #[must_use]
    pub fn topic_by_id(&self, id: Uuid) -> Option<&Arc<TopicImage>> {
        self.topics.get(id)
    }

    /// Returns all topics, by name.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<TopicImage>> {
        self.topics.by_name()
    }

    /// Returns the number of topics.
    #[must_use]
    pub fn topic_count(&self) -> usize {
        self.topics.len()
    }

    /// Returns the number of partitions of all topics.
    #[must_use]
    pub const fn partition_count(&self) -> usize {
        self.topics.partition_count()
    }

    /// Returns a topic whose name metrics could not tell from `name`.
    #[must_use]
    pub fn colliding_topic(&self, name: &str) -> Option<&TopicName> {
        self.topics.colliding(name)
    }

    /// Returns the partitions that `broker` is in sync with; those without a leader under [`NO_LEADER`].
    pub fn partitions_in_sync_with(
        &self,
        broker: NodeId,
    ) -> impl Iterator<Item = (Uuid, i32)> + use<'_> {
        self.partitions_in_sync_after(broker, None)
    }

    /// Returns the partitions that `broker` is in sync with and that come after one of them in the order of ids.
    pub fn partitions_in_sync_after(
        &self,
        broker: NodeId,
        after: Option<(Uuid, i32)>,
    ) -> impl Iterator<Item = (Uuid, i32)> + use<'_> {
        self.topics.index().in_sync(broker, after)
    }

    /// Returns the partitions that `broker` is an eligible leader replica of (KIP-966).
    pub fn partitions_eligible_for(
        &self,
        broker: NodeId,
    ) -> impl Iterator<Item = (Uuid, i32)> + use<'_> {
        self.topics.index().eligible(broker, None)
    }

    /// Returns the partitions that another replica leads than the preferred one, after one of them.
    pub fn partitions_led_elsewhere(
        &self,
        after: Option<(Uuid, i32)>,
    ) -> impl Iterator<Item = (Uuid, i32)> + use<'_> {
        self.topics.index().led_elsewhere(after)
    }

    /// Returns the dynamic configs of a resource.
    #[must_use]
    pub fn configs(&self, resource: &ConfigResource) -> &OverrideMap {
        self.configs.of(resource)
    }

    /// Returns the configs that a topic sets itself.
    #[must_use]
    pub fn topic_configs(&self, name: &str) -> &OverrideMap {
        self.configs.of(&ConfigResource::topic(name))
    }

    /// Returns the layers that a broker's values come from.
    #[must_use]
    pub fn layers<'layers>(
        &'layers self,
        fixed: &'layers StaticConfig,
        node_id: NodeId,
    ) -> Layers<'layers> {
        Layers::new(
            fixed,
            self.configs.of(&ConfigResource::all_brokers()),
            self.configs.of(&ConfigResource::broker(node_id)),
        )
    }
}

#[cfg(test)]
mod tests;
