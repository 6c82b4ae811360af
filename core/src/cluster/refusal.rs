//! Answers that say one error everywhere: nobody decided.

use crate::{
    controller::{
        ControllerReply, ControllerRequest, decide::AutoCreation, messages::elect_leaders_request,
    },
    protocol::{
        ErrorCode, KafkaString,
        messages::{
            AlterConfigsResourceResponse, AlterPartitionResponseData, BrokerHeartbeatResponseData,
            BrokerRegistrationResponseData, CreatableTopicResult, CreatePartitionsRequestData,
            CreatePartitionsResponseData, CreatePartitionsTopicResult, CreateTopicsRequestData,
            CreateTopicsResponseData, DeletableTopicResult, DeleteTopicsRequestData,
            DeleteTopicsResponseData, DescribeQuorumResponseData, ElectLeadersResponseData,
            IncrementalAlterConfigsRequestData, IncrementalAlterConfigsResponseData,
            PartitionElectionResult, ReplicaElectionResult,
        },
    },
};

/// The first version of DeleteTopics that names topics by id.
const DELETE_BY_ID: i16 = 6;

/// Makes the answer that gives a request one error, in each place where its answers have room for one.
pub(super) fn refused(request: &ControllerRequest, error: ErrorCode) -> ControllerReply {
    let error_code = error.code();
    match request {
        ControllerRequest::CreateTopics(request) => creation(request, error_code),
        ControllerRequest::DeleteTopics(request, version) => {
            ControllerReply::DeleteTopics(DeleteTopicsResponseData {
                responses: deletions(request, *version, error_code),
                ..DeleteTopicsResponseData::default()
            })
        }
        ControllerRequest::CreatePartitions(request) => partitions(request, error_code),
        ControllerRequest::AlterConfigs(request) => configs(request, error_code),
        ControllerRequest::ElectLeaders(request) => {
            let named = request.topic_partitions.iter().flatten();
            ControllerReply::ElectLeaders(ElectLeadersResponseData {
                error_code,
                replica_election_results: named.map(|topic| election(topic, error_code)).collect(),
                ..ElectLeadersResponseData::default()
            })
        }
        ControllerRequest::RegisterBroker(_) => {
            ControllerReply::RegisterBroker(BrokerRegistrationResponseData {
                error_code,
                broker_epoch: -1,
                ..BrokerRegistrationResponseData::default()
            })
        }
        ControllerRequest::BrokerHeartbeat(_) => {
            ControllerReply::BrokerHeartbeat(BrokerHeartbeatResponseData {
                error_code,
                is_fenced: true,
                ..BrokerHeartbeatResponseData::default()
            })
        }
        ControllerRequest::AlterPartition(..) => {
            ControllerReply::AlterPartition(AlterPartitionResponseData {
                error_code,
                ..AlterPartitionResponseData::default()
            })
        }
        ControllerRequest::AutoCreateTopics(names) => {
            let unknown = |name: &String| AutoCreation {
                name: name.clone(),
                error: ErrorCode::UnknownTopicOrPartition,
                message: None,
            };
            ControllerReply::AutoCreateTopics(names.iter().map(unknown).collect())
        }
        ControllerRequest::DescribeQuorum(..) => {
            ControllerReply::DescribeQuorum(DescribeQuorumResponseData {
                error_code,
                ..DescribeQuorumResponseData::default()
            })
        }
    }
}

fn creation(request: &CreateTopicsRequestData, error_code: i16) -> ControllerReply {
    let topics = request.topics.iter().map(|topic| CreatableTopicResult {
        name: topic.name.clone(),
        error_code,
        ..CreatableTopicResult::default()
    });
    ControllerReply::CreateTopics(CreateTopicsResponseData {
        topics: topics.collect(),
        ..CreateTopicsResponseData::default()
    })
}

fn partitions(request: &CreatePartitionsRequestData, error_code: i16) -> ControllerReply {
    let topics = request.topics.iter();
    let results = topics.map(|topic| CreatePartitionsTopicResult {
        name: topic.name.clone(),
        error_code,
        ..CreatePartitionsTopicResult::default()
    });
    ControllerReply::CreatePartitions(CreatePartitionsResponseData {
        results: results.collect(),
        ..CreatePartitionsResponseData::default()
    })
}

fn configs(request: &IncrementalAlterConfigsRequestData, error_code: i16) -> ControllerReply {
    let responses = request.resources.iter();
    let responses = responses.map(|resource| AlterConfigsResourceResponse {
        error_code,
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
        ..AlterConfigsResourceResponse::default()
    });
    ControllerReply::AlterConfigs(IncrementalAlterConfigsResponseData {
        responses: responses.collect(),
        ..IncrementalAlterConfigsResponseData::default()
    })
}

fn deletions(
    request: &DeleteTopicsRequestData,
    version: i16,
    error_code: i16,
) -> Vec<DeletableTopicResult> {
    if version >= DELETE_BY_ID {
        let named = request.topics.iter();
        return named
            .map(|topic| DeletableTopicResult {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                error_code,
                ..DeletableTopicResult::default()
            })
            .collect();
    }
    let by_name = |name: &KafkaString| DeletableTopicResult {
        name: Some(name.clone()),
        error_code,
        ..DeletableTopicResult::default()
    };
    request.topic_names.iter().map(by_name).collect()
}

fn election(
    topic: &elect_leaders_request::TopicPartitions,
    error_code: i16,
) -> ReplicaElectionResult {
    let results = topic
        .partitions
        .iter()
        .map(|partition| PartitionElectionResult {
            partition_id: *partition,
            error_code,
            ..PartitionElectionResult::default()
        });
    ReplicaElectionResult {
        topic: topic.topic.clone(),
        partition_result: results.collect(),
        ..ReplicaElectionResult::default()
    }
}

/// Returns whether an answer says that whoever gave it is not the active controller.
pub(super) fn is_of_no_controller(reply: &ControllerReply) -> bool {
    let code = ErrorCode::NotController.code();
    match reply {
        ControllerReply::CreateTopics(reply) => {
            reply.topics.iter().any(|topic| topic.error_code == code)
        }
        ControllerReply::DeleteTopics(reply) => {
            reply.responses.iter().any(|topic| topic.error_code == code)
        }
        ControllerReply::CreatePartitions(reply) => {
            reply.results.iter().any(|topic| topic.error_code == code)
        }
        ControllerReply::AlterConfigs(reply) => reply
            .responses
            .iter()
            .any(|response| response.error_code == code),
        ControllerReply::RegisterBroker(reply) => reply.error_code == code,
        ControllerReply::BrokerHeartbeat(reply) => reply.error_code == code,
        ControllerReply::AlterPartition(reply) => reply.error_code == code,
        ControllerReply::ElectLeaders(reply) => reply.error_code == code,
        ControllerReply::AutoCreateTopics(creations) => creations
            .iter()
            .any(|creation| creation.error == ErrorCode::NotController),
        ControllerReply::DescribeQuorum(reply) => {
            reply.error_code == code || is_of_no_leader(reply)
        }
        ControllerReply::NotController => true,
    }
}

/// Returns whether whoever describes a quorum does not lead it.
fn is_of_no_leader(reply: &DescribeQuorumResponseData) -> bool {
    let code = ErrorCode::NotLeaderOrFollower.code();
    let partitions = reply.topics.iter().flat_map(|topic| &topic.partitions);
    partitions
        .into_iter()
        .any(|partition| partition.error_code == code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::messages::{
        AlterConfigsResource, AlterPartitionRequestData, BrokerHeartbeatRequestData,
        BrokerRegistrationRequestData, CreatableTopic, CreatePartitionsRequestData,
        CreatePartitionsTopic, CreateTopicsRequestData, DeleteTopicState,
        DescribeQuorumRequestData, ElectLeadersRequestData, IncrementalAlterConfigsRequestData,
    };

    fn name() -> KafkaString {
        KafkaString::from("orders".to_owned())
    }

    fn requests() -> Vec<ControllerRequest> {
        let creatable = CreatableTopic {
            name: name(),
            ..CreatableTopic::default()
        };
        let by_name = DeleteTopicsRequestData {
            topic_names: vec![name()],
            ..DeleteTopicsRequestData::default()
        };
        let by_id = DeleteTopicsRequestData {
            topics: vec![DeleteTopicState::default()],
            ..DeleteTopicsRequestData::default()
        };
        let partitions = CreatePartitionsTopic {
            name: name(),
            ..CreatePartitionsTopic::default()
        };
        vec![
            ControllerRequest::CreateTopics(CreateTopicsRequestData {
                topics: vec![creatable],
                ..CreateTopicsRequestData::default()
            }),
            ControllerRequest::DeleteTopics(by_name, 5),
            ControllerRequest::DeleteTopics(by_id, 6),
            ControllerRequest::CreatePartitions(CreatePartitionsRequestData {
                topics: vec![partitions],
                ..CreatePartitionsRequestData::default()
            }),
            ControllerRequest::AlterConfigs(IncrementalAlterConfigsRequestData {
                resources: vec![AlterConfigsResource::default()],
                ..IncrementalAlterConfigsRequestData::default()
            }),
            ControllerRequest::RegisterBroker(BrokerRegistrationRequestData::default()),
            ControllerRequest::BrokerHeartbeat(BrokerHeartbeatRequestData::default()),
            ControllerRequest::ElectLeaders(ElectLeadersRequestData::default()),
            ControllerRequest::AlterPartition(AlterPartitionRequestData::default(), 3),
            ControllerRequest::DescribeQuorum(DescribeQuorumRequestData::default(), 2),
        ]
    }

    #[test]
    fn every_request_can_be_told_that_it_came_to_the_wrong_node() {
        for request in requests() {
            let told = refused(&request, ErrorCode::NotController);
            assert!(is_of_no_controller(&told), "{told:?}");
            let other = refused(&request, ErrorCode::RequestTimedOut);
            assert!(!is_of_no_controller(&other), "{other:?}");
        }
    }
}
