//! Requests for the controller and its answers, as they travel between nodes.

use bytes::Bytes;

use crate::{
    controller::{ControllerReply, ControllerRequest, decide::AutoCreation},
    protocol::{
        ApiKey, ClientRequest, EncodeError, ErrorCode, KafkaString, ResponseError, decode_body,
        encode_body,
        messages::{
            AlterPartitionRequestData, BrokerHeartbeatRequestData, BrokerRegistrationRequestData,
            CreatableTopic, CreatePartitionsRequestData, CreateTopicsRequestData,
            DeleteTopicsRequestData, DescribeQuorumRequestData, ElectLeadersRequestData,
            IncrementalAlterConfigsRequestData,
        },
    },
};

/// Versions that nodes speak to one another.
const CREATE_TOPICS: i16 = 7;
const CREATE_PARTITIONS: i16 = 3;
const ALTER_CONFIGS: i16 = 1;
const REGISTRATION: i16 = 4;
const HEARTBEAT: i16 = 1;
const ELECT_LEADERS: i16 = 2;

/// A request written: its API, its version, and its body.
pub(super) type Written = (ApiKey, i16, Bytes);

fn write<R: ClientRequest>(version: i16, request: &R) -> Result<Written, EncodeError> {
    Ok((R::API, version, encode_body(version, request)?))
}

/// Writes a request.
pub(super) fn encode(request: &ControllerRequest) -> Result<Written, EncodeError> {
    match request {
        ControllerRequest::CreateTopics(request) => write(CREATE_TOPICS, request),
        ControllerRequest::DeleteTopics(request, version) => write(*version, request),
        ControllerRequest::CreatePartitions(request) => write(CREATE_PARTITIONS, request),
        ControllerRequest::AlterConfigs(request) => write(ALTER_CONFIGS, request),
        ControllerRequest::RegisterBroker(request) => write(REGISTRATION, request),
        ControllerRequest::BrokerHeartbeat(request) => write(HEARTBEAT, request),
        ControllerRequest::AlterPartition(request, version) => write(*version, request),
        ControllerRequest::ElectLeaders(request) => write(ELECT_LEADERS, request),
        ControllerRequest::AutoCreateTopics(names) => write(CREATE_TOPICS, &creation(names)),
        ControllerRequest::DescribeQuorum(request, version) => write(*version, request),
    }
}

/// Reads the answer to a request.
pub(super) fn decode(
    request: &ControllerRequest,
    body: Bytes,
) -> Result<ControllerReply, ResponseError> {
    Ok(match request {
        ControllerRequest::CreateTopics(_) => ControllerReply::CreateTopics(decode_body::<
            CreateTopicsRequestData,
        >(
            CREATE_TOPICS, body
        )?),
        ControllerRequest::DeleteTopics(_, version) => {
            ControllerReply::DeleteTopics(decode_body::<DeleteTopicsRequestData>(*version, body)?)
        }
        ControllerRequest::CreatePartitions(_) => {
            let reply = decode_body::<CreatePartitionsRequestData>(CREATE_PARTITIONS, body)?;
            ControllerReply::CreatePartitions(reply)
        }
        ControllerRequest::AlterConfigs(_) => {
            let reply = decode_body::<IncrementalAlterConfigsRequestData>(ALTER_CONFIGS, body)?;
            ControllerReply::AlterConfigs(reply)
        }
        ControllerRequest::RegisterBroker(_) => {
            let reply = decode_body::<BrokerRegistrationRequestData>(REGISTRATION, body)?;
            ControllerReply::RegisterBroker(reply)
        }
        ControllerRequest::BrokerHeartbeat(_) => {
            let reply = decode_body::<BrokerHeartbeatRequestData>(HEARTBEAT, body)?;
            ControllerReply::BrokerHeartbeat(reply)
        }
        ControllerRequest::AlterPartition(_, version) => {
            let reply = decode_body::<AlterPartitionRequestData>(*version, body)?;
            ControllerReply::AlterPartition(reply)
        }
        ControllerRequest::ElectLeaders(_) => {
            let reply = decode_body::<ElectLeadersRequestData>(ELECT_LEADERS, body)?;
            ControllerReply::ElectLeaders(reply)
        }
        ControllerRequest::DescribeQuorum(_, version) => {
            let reply = decode_body::<DescribeQuorumRequestData>(*version, body)?;
            ControllerReply::DescribeQuorum(reply)
        }
        ControllerRequest::AutoCreateTopics(_) => {
            let reply = decode_body::<CreateTopicsRequestData>(CREATE_TOPICS, body)?;
            let creations = reply.topics.into_iter().map(|topic| AutoCreation {
                name: topic.name.as_str().to_owned(),
                error: auto_creation_error(topic.error_code),
                message: topic
                    .error_message
                    .map(|message| message.as_str().to_owned()),
            });
            ControllerReply::AutoCreateTopics(creations.collect())
        }
    })
}

/// A topic as nobody described it: all numbers are the cluster's defaults.
fn creation(names: &[String]) -> CreateTopicsRequestData {
    let topic = |name: &String| CreatableTopic {
        name: KafkaString::from(name.clone()),
        num_partitions: -1,
        replication_factor: -1,
        ..CreatableTopic::default()
    };
    CreateTopicsRequestData {
        topics: names.iter().map(topic).collect(),
        timeout_ms: 30_000,
        ..CreateTopicsRequestData::default()
    }
}

/// Says what a Metadata answer tells of a topic that was to be created: that it is not there yet, unless it never will be.
fn auto_creation_error(code: i16) -> ErrorCode {
    match ErrorCode::from_code(code) {
        Some(
            error @ (ErrorCode::InvalidTopicException
            | ErrorCode::TopicAuthorizationFailed
            | ErrorCode::NotController),
        ) => error,
        _ => ErrorCode::UnknownTopicOrPartition,
    }
}
