//! From calls to requests.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Admin, AdminCall, AdminError, Asked, CallId, ConfigChange, ConfigResource, NewTopic, Unit,
    describe,
};
use crate::{
    client::{OffsetSpec, network::Peer, offsets},
    ids::{Offset, TopicName, TopicPartition},
    protocol::{
        ApiKey, ClientRequest, KafkaString,
        messages::{
            AlterConfigsResource, AlterableConfig, CreatableReplicaAssignment, CreatableTopic,
            CreatableTopicConfig, CreatePartitionsRequestData, CreatePartitionsTopic,
            CreateTopicsRequestData, DeleteRecordsPartition, DeleteRecordsRequestData,
            DeleteRecordsTopic, DeleteTopicState, DeleteTopicsRequestData,
            DescribeClusterRequestData, DescribeConfigsRequestData, DescribeConfigsResource,
            IncrementalAlterConfigsRequestData, MetadataRequestData, MetadataRequestTopic,
        },
    },
    time::Instant,
};

impl Admin {
    /// Sends a request for units of a call.
    pub(super) fn ask(&mut self, now: Instant, id: CallId, peer: Peer, units: BTreeSet<Unit>) {
        let Some(open) = self.calls.get(&id) else {
            return;
        };
        let timeout_ms = i32::try_from(self.network.config.request_timeout_ms).unwrap_or(i32::MAX);
        let to = (id, peer, units);
        match open.call.clone() {
            AdminCall::CreateTopics {
                topics,
                validate_only,
            } => {
                let request = create_topics(&topics, &to.2, timeout_ms, validate_only);
                // "The broker's default" cannot be said before version 4.
                let defaults = request.topics.iter().any(|topic| {
                    topic.assignments.is_empty()
                        && (topic.num_partitions < 0 || topic.replication_factor < 0)
                });
                let min = if defaults { 4 } else { 0 };
                self.ask_with(now, to, min, |_| request);
            }
            AdminCall::DeleteTopics { .. } => {
                let names = topics(&to.2);
                self.ask_with(now, to, 0, |version| {
                    delete_topics(&names, version, timeout_ms)
                });
            }
            AdminCall::DescribeTopics { topics } => {
                let min = i16::from(topics.is_none());
                self.ask_with(now, to, min, |_| metadata(topics));
            }
            AdminCall::DescribeCluster => {
                let known = self
                    .network
                    .version(peer, ApiKey::DescribeCluster, i16::MAX);
                if known.is_some() {
                    self.ask_with(now, to, 0, |_| DescribeClusterRequestData {
                        endpoint_type: 1,
                        ..Default::default()
                    });
                } else {
                    self.ask_with(now, to, 1, |_| metadata(Some(Vec::new())));
                }
            }
            AdminCall::DescribeBrokers => self.ask_with(now, to, 0, describe::ask_brokers),
            AdminCall::DescribeQuorum => {
                self.ask_with(now, to, 0, |_| describe::ask_quorum());
            }
            AdminCall::CreatePartitions {
                totals,
                validate_only,
            } => {
                let request = create_partitions(&totals, &to.2, timeout_ms, validate_only);
                self.ask_with(now, to, 0, |_| request);
            }
            AdminCall::DescribeConfigs { .. } => {
                let request = describe_configs(&to.2);
                self.ask_with(now, to, 0, |_| request);
            }
            AdminCall::AlterConfigs {
                changes,
                validate_only,
            } => {
                let request = alter_configs(&changes, &to.2, validate_only);
                self.ask_with(now, to, 0, |_| request);
            }
            AdminCall::DeleteRecords { before } => {
                let request = delete_records(&before, &to.2, timeout_ms);
                self.ask_with(now, to, 0, |_| request);
            }
            AdminCall::ListOffsets { specs } => self.ask_offsets(now, to, specs),
        }
    }

    fn ask_offsets(
        &mut self,
        now: Instant,
        to: (CallId, Peer, BTreeSet<Unit>),
        mut specs: BTreeMap<TopicPartition, OffsetSpec>,
    ) {
        specs.retain(|partition, _| to.2.contains(&Unit::Partition(partition.clone())));
        let min = specs.values().map(|spec| spec.version_min()).max();
        let cluster = &self.network.cluster;
        let rows = specs.iter().map(|(partition, spec)| {
            let known = cluster.partition(partition);
            (partition, known.map(|known| known.leader_epoch), *spec)
        });
        let request = offsets::request(rows, self.network.config.request_timeout_ms);
        self.ask_with(now, to, min.unwrap_or(0), |_| request);
    }

    fn ask_with<R: ClientRequest>(
        &mut self,
        now: Instant,
        (id, peer, units): (CallId, Peer, BTreeSet<Unit>),
        version_min: i16,
        request: impl FnOnce(i16) -> R,
    ) {
        let version = self.network.version(peer, R::API, i16::MAX);
        let Some(version) = version.filter(|version| *version >= version_min) else {
            self.finish(id, Some(AdminError::Unsupported(R::API)));
            return;
        };
        let Some(open) = self.calls.get_mut(&id) else {
            return;
        };
        for unit in &units {
            open.left.remove(unit);
            open.in_flight.insert(unit.clone());
        }
        let tag = Asked {
            call: id,
            api: R::API,
            units,
        };
        let request = request(version);
        if self
            .network
            .send(now, peer, version, &request, tag)
            .is_err()
        {
            self.finish(id, Some(AdminError::Unencodable));
        }
    }
}

fn wire(text: &str) -> KafkaString {
    KafkaString::from(text.to_owned())
}

fn topics(units: &BTreeSet<Unit>) -> Vec<TopicName> {
    let topics = units.iter().filter_map(|unit| match unit {
        Unit::Topic(topic) => Some(topic.clone()),
        Unit::Whole | Unit::Partition(_) | Unit::Resource(_) => None,
    });
    topics.collect()
}

fn create_topics(
    topics: &[NewTopic],
    units: &BTreeSet<Unit>,
    timeout_ms: i32,
    validate_only: bool,
) -> CreateTopicsRequestData {
    let topics = topics
        .iter()
        .filter(|topic| units.contains(&Unit::Topic(topic.name.clone())));
    let topics = topics.map(|topic| {
        let assigned = !topic.assignments.is_empty();
        let assignments = topic.assignments.iter();
        let configs = topic.configs.iter();
        CreatableTopic {
            name: wire(topic.name.as_str()),
            num_partitions: topic.partitions.filter(|_| !assigned).unwrap_or(-1),
            replication_factor: topic.replication_factor.filter(|_| !assigned).unwrap_or(-1),
            assignments: assignments
                .map(|(partition, brokers)| CreatableReplicaAssignment {
                    partition_index: *partition,
                    broker_ids: brokers.iter().map(|id| id.0).collect(),
                    ..Default::default()
                })
                .collect(),
            configs: configs
                .map(|(name, value)| CreatableTopicConfig {
                    name: wire(name),
                    value: value.as_deref().map(wire),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }
    });
    CreateTopicsRequestData {
        topics: topics.collect(),
        timeout_ms,
        validate_only,
        ..Default::default()
    }
}

fn create_partitions(
    totals: &BTreeMap<TopicName, i32>,
    units: &BTreeSet<Unit>,
    timeout_ms: i32,
    validate_only: bool,
) -> CreatePartitionsRequestData {
    let asked = topics(units);
    let totals = totals.iter().filter(|(topic, _)| asked.contains(topic));
    CreatePartitionsRequestData {
        topics: totals
            .map(|(topic, count)| CreatePartitionsTopic {
                name: wire(topic.as_str()),
                count: *count,
                assignments: None,
                ..Default::default()
            })
            .collect(),
        timeout_ms,
        validate_only,
        ..Default::default()
    }
}

fn delete_topics(names: &[TopicName], version: i16, timeout_ms: i32) -> DeleteTopicsRequestData {
    let names = names.iter().map(|name| wire(name.as_str()));
    let mut request = DeleteTopicsRequestData {
        timeout_ms,
        ..Default::default()
    };
    if version >= 6 {
        let topic = |name| DeleteTopicState {
            name: Some(name),
            ..Default::default()
        };
        request.topics = names.map(topic).collect();
    } else {
        request.topic_names = names.collect();
    }
    request
}

fn metadata(topics: Option<Vec<TopicName>>) -> MetadataRequestData {
    let topic = |name: &TopicName| MetadataRequestTopic {
        name: Some(wire(name.as_str())),
        ..Default::default()
    };
    MetadataRequestData {
        topics: topics.map(|topics| topics.iter().map(topic).collect()),
        allow_auto_topic_creation: false,
        ..Default::default()
    }
}

/// Kafka's numbers for kinds of resources.
pub(super) const TOPIC_RESOURCE: i8 = 2;
pub(super) const BROKER_RESOURCE: i8 = 4;

fn resource_key(resource: &ConfigResource) -> (i8, KafkaString) {
    match resource {
        ConfigResource::Topic(topic) => (TOPIC_RESOURCE, wire(topic.as_str())),
        ConfigResource::Broker(id) => (BROKER_RESOURCE, wire(&id.to_string())),
        ConfigResource::BrokerDefaults => (BROKER_RESOURCE, KafkaString::default()),
    }
}

fn describe_configs(units: &BTreeSet<Unit>) -> DescribeConfigsRequestData {
    let resources = units.iter().filter_map(|unit| {
        let Unit::Resource(resource) = unit else {
            return None;
        };
        let (resource_type, resource_name) = resource_key(resource);
        Some(DescribeConfigsResource {
            resource_type,
            resource_name,
            configuration_keys: None,
            ..Default::default()
        })
    });
    DescribeConfigsRequestData {
        resources: resources.collect(),
        ..Default::default()
    }
}

fn alter_configs(
    changes: &BTreeMap<ConfigResource, Vec<(String, ConfigChange)>>,
    units: &BTreeSet<Unit>,
    validate_only: bool,
) -> IncrementalAlterConfigsRequestData {
    let changes = changes
        .iter()
        .filter(|(resource, _)| units.contains(&Unit::Resource((*resource).clone())));
    let resources = changes.map(|(resource, changes)| {
        let (resource_type, resource_name) = resource_key(resource);
        let configs = changes.iter().map(|(name, change)| {
            let (config_operation, value) = match change {
                ConfigChange::Set(value) => (0, Some(value)),
                ConfigChange::Delete => (1, None),
                ConfigChange::Append(value) => (2, Some(value)),
                ConfigChange::Subtract(value) => (3, Some(value)),
            };
            AlterableConfig {
                name: wire(name),
                config_operation,
                value: value.map(|value| wire(value)),
                ..Default::default()
            }
        });
        AlterConfigsResource {
            resource_type,
            resource_name,
            configs: configs.collect(),
            ..Default::default()
        }
    });
    IncrementalAlterConfigsRequestData {
        resources: resources.collect(),
        validate_only,
        ..Default::default()
    }
}

fn delete_records(
    before: &BTreeMap<TopicPartition, Offset>,
    units: &BTreeSet<Unit>,
    timeout_ms: i32,
) -> DeleteRecordsRequestData {
    let mut topics: BTreeMap<&str, DeleteRecordsTopic> = BTreeMap::new();
    for (partition, offset) in before {
        if !units.contains(&Unit::Partition(partition.clone())) {
            continue;
        }
        let name = partition.topic.as_str();
        let topic = topics.entry(name).or_insert_with(|| DeleteRecordsTopic {
            name: wire(name),
            ..Default::default()
        });
        topic.partitions.push(DeleteRecordsPartition {
            partition_index: partition.partition,
            offset: *offset,
            ..Default::default()
        });
    }
    DeleteRecordsRequestData {
        topics: topics.into_values().collect(),
        timeout_ms,
        ..Default::default()
    }
}
