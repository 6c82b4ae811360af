//! Metadata: brokers, topics, partitions and their leaders; creates missing topics where that is allowed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Call, Frontend, Services};
use crate::{
    cluster::{Cluster, ReplyTo},
    controller::{
        ControllerRequest,
        decide::{invalid_topic_name, is_internal_topic},
        image::{PartitionImage, TopicImage},
    },
    ids::{NodeId, Uuid},
    protocol::{
        ErrorCode, KafkaString, KafkaUuid,
        messages::{
            MetadataRequestData, MetadataRequestTopic, MetadataResponseBroker,
            MetadataResponseData, MetadataResponsePartition, MetadataResponseTopic,
        },
    },
};

/// Operations on a topic that a client may do without an authorizer: all that Kafka knows for topics (KIP-430).
const TOPIC_OPERATIONS: i32 = 0b1101_1111_1000;
/// Likewise for the cluster.
const CLUSTER_OPERATIONS: i32 = 0b1_1111_1010_0000;
/// "Not asked for".
const NO_OPERATIONS: i32 = i32::MIN;
/// "Nobody".
const NO_NODE: i32 = -1;

/// Executes a Metadata request.
pub(super) fn execute(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    call: Call,
    request: MetadataRequestData,
) {
    let missing = missing_topics(services.cluster, call, &request);
    if missing.is_empty() {
        return respond(frontend, services, call, &request, &BTreeMap::new());
    }
    let now = services.now;
    let reply_to = ReplyTo::Metadata(Box::new((call, request)));
    let request = ControllerRequest::AutoCreateTopics(missing);
    services.cluster.submit(now, request, reply_to);
}

/// Answers a request after its missing topics were created, or not: `refused` says why.
pub(super) fn respond(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    call: Call,
    request: &MetadataRequestData,
    refused: &BTreeMap<String, ErrorCode>,
) {
    let listener = frontend.listener_name(call.token.connection);
    let cluster = &*services.cluster;
    let mut response = MetadataResponseData {
        brokers: brokers(cluster, &listener),
        cluster_id: cluster.image().cluster_id().map(text),
        controller_id: cluster.controller_id().map_or(NO_NODE, |id| id.0),
        cluster_authorized_operations: if request.include_cluster_authorized_operations {
            CLUSTER_OPERATIONS
        } else {
            NO_OPERATIONS
        },
        ..MetadataResponseData::default()
    };
    let operations = if request.include_topic_authorized_operations {
        TOPIC_OPERATIONS
    } else {
        NO_OPERATIONS
    };
    let topics = match wanted(call, request) {
        Wanted::All => cluster
            .image()
            .topics()
            .map(|topic| found(cluster, topic))
            .collect(),
        Wanted::These(topics) => {
            // Named twice, described once (as in Kafka).
            let mut seen = BTreeSet::new();
            let is_new = |topic: &&MetadataRequestTopic| {
                let name = topic
                    .name
                    .as_ref()
                    .map_or("", KafkaString::as_str)
                    .to_owned();
                seen.insert((Uuid::from(topic.topic_id), name))
            };
            let topics: Vec<_> = topics.iter().filter(is_new).collect();
            topics
                .into_iter()
                .map(|topic| answer(cluster, call, topic, refused))
                .collect()
        }
    };
    response.topics = topics;
    for topic in &mut response.topics {
        topic.topic_authorized_operations = operations;
    }
    frontend.answer(services, call, response);
}

enum Wanted<'a> {
    All,
    These(&'a [MetadataRequestTopic]),
}

/// Null asks for all topics; in version 0, which has no null, the empty list does.
fn wanted(call: Call, request: &MetadataRequestData) -> Wanted<'_> {
    match request.topics.as_deref() {
        None => Wanted::All,
        Some([]) if call.version == 0 => Wanted::All,
        Some(topics) => Wanted::These(topics),
    }
}

/// Names that are asked for, do not exist, and may be created.
fn missing_topics(cluster: &Cluster, call: Call, request: &MetadataRequestData) -> Vec<String> {
    let allowed = call.version < 4 || request.allow_auto_topic_creation;
    if !allowed || !cluster.settings.auto_create_topics_enable {
        return Vec::new();
    }
    let Wanted::These(topics) = wanted(call, request) else {
        return Vec::new();
    };
    let mut missing: Vec<String> = topics
        .iter()
        .filter(|topic| Uuid::from(topic.topic_id) == Uuid::ZERO)
        .filter_map(|topic| topic.name.as_ref())
        .map(|name| name.as_str().to_owned())
        .filter(|name| cluster.image().topic(name).is_none())
        .collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}

fn answer(
    cluster: &Cluster,
    call: Call,
    wanted: &MetadataRequestTopic,
    refused: &BTreeMap<String, ErrorCode>,
) -> MetadataResponseTopic {
    let id = Uuid::from(wanted.topic_id);
    let mut answer = MetadataResponseTopic::default();
    if id != Uuid::ZERO {
        if let Some(topic) = cluster.image().topic_by_id(id) {
            return found(cluster, topic);
        }
        answer.topic_id = wanted.topic_id;
        answer.error_code = ErrorCode::UnknownTopicId.code();
        // Only version 12 and later can say "no name".
        answer.name = (call.version < 12).then(KafkaString::default);
        return answer;
    }
    let name = wanted.name.as_ref().map_or("", KafkaString::as_str);
    if let Some(topic) = cluster.image().topic(name) {
        return found(cluster, topic);
    }
    answer.name = Some(text(name));
    answer.topic_id = KafkaUuid::ZERO;
    answer.is_internal = is_internal_topic(name);
    let code = match refused.get(name) {
        Some(code) => *code,
        None if invalid_topic_name(name).is_none() => ErrorCode::UnknownTopicOrPartition,
        None => ErrorCode::InvalidTopicException,
    };
    answer.error_code = code.code();
    answer
}

fn found(cluster: &Cluster, topic: &Arc<TopicImage>) -> MetadataResponseTopic {
    MetadataResponseTopic {
        name: Some(text(topic.name().as_str())),
        topic_id: topic.id().into(),
        is_internal: is_internal_topic(topic.name().as_str()),
        partitions: topic
            .partitions()
            .iter()
            .zip(0..)
            .map(|(partition, index)| partition_answer(cluster, partition, index))
            .collect(),
        ..MetadataResponseTopic::default()
    }
}

fn partition_answer(
    cluster: &Cluster,
    partition: &PartitionImage,
    index: i32,
) -> MetadataResponsePartition {
    let ids = |nodes: &[NodeId]| nodes.iter().map(|node| node.0).collect();
    let is_alive = |node: &NodeId| {
        cluster
            .image()
            .broker(*node)
            .is_some_and(|broker| !broker.fenced)
    };
    let mut answer = MetadataResponsePartition {
        partition_index: index,
        leader_id: partition.leader.0,
        leader_epoch: partition.leader_epoch.0,
        replica_nodes: ids(&partition.replicas),
        isr_nodes: ids(&partition.isr),
        ..MetadataResponsePartition::default()
    };
    let offline = partition.replicas.iter().filter(|node| !is_alive(node));
    answer.offline_replicas = offline.map(|node| node.0).collect();
    if partition.leader.0 < 0 {
        answer.error_code = ErrorCode::LeaderNotAvailable.code();
    }
    answer
}

/// Lists the brokers that live, with the address of the listener that the client used.
fn brokers(cluster: &Cluster, listener: &str) -> Vec<MetadataResponseBroker> {
    cluster
        .live_brokers(listener)
        .map(|(id, endpoint, rack)| MetadataResponseBroker {
            node_id: id.0,
            host: text(&endpoint.host),
            port: i32::from(endpoint.port),
            rack: rack.map(text),
            ..MetadataResponseBroker::default()
        })
        .collect()
}

pub(super) fn text(text: &str) -> KafkaString {
    KafkaString::from(text.to_owned())
}

pub(super) const fn cluster_operations() -> i32 {
    CLUSTER_OPERATIONS
}
