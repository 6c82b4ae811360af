//! The one place where the controller names the wire's messages.

pub use crate::protocol::{
    ErrorCode,
    messages::{
        AlterPartitionRequestData, AlterPartitionResponseData, BrokerHeartbeatRequestData,
        BrokerHeartbeatResponseData, BrokerRegistrationRequestData, BrokerRegistrationResponseData,
        CreatePartitionsRequestData, CreatePartitionsResponseData, CreateTopicsRequestData,
        CreateTopicsResponseData, DeleteTopicsRequestData, DeleteTopicsResponseData,
        DescribeConfigsRequestData, DescribeConfigsResponseData, DescribeQuorumRequestData,
        DescribeQuorumResponseData, ElectLeadersRequestData, ElectLeadersResponseData,
        IncrementalAlterConfigsRequestData, IncrementalAlterConfigsResponseData,
        alter_partition_request, alter_partition_response, elect_leaders_request,
    },
};

pub(super) use crate::protocol::{
    KafkaString, KafkaUuid,
    messages::{
        AlterConfigsResource, AlterConfigsResourceResponse, CreatableTopic, CreatableTopicConfig,
        CreatableTopicConfigs, CreatableTopicResult, CreatePartitionsTopic,
        CreatePartitionsTopicResult, DeletableTopicResult, DescribeConfigsResource,
        DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
        PartitionElectionResult, ReplicaElectionResult,
    },
};

use crate::ids::Uuid;

/// Copies text into the wire's string.
pub(super) fn wire_string(text: &str) -> KafkaString {
    KafkaString::from(text.to_owned())
}

/// Converts an id into the wire's.
pub(super) fn wire_uuid(id: Uuid) -> KafkaUuid {
    id.into()
}

/// Converts the wire's id into ours.
pub(super) fn own_uuid(id: KafkaUuid) -> Uuid {
    id.into()
}
