//! The one place where the controller names the wire crate's types.

use crate::ids::Uuid;

pub use kacrab_protocol::generated::{
    BrokerHeartbeatRequestData, BrokerHeartbeatResponseData, BrokerRegistrationRequestData,
    BrokerRegistrationResponseData, CreatePartitionsRequestData, CreatePartitionsResponseData,
    CreateTopicsRequestData, CreateTopicsResponseData, DeleteTopicsRequestData,
    DeleteTopicsResponseData, DescribeConfigsRequestData, DescribeConfigsResponseData, ErrorCode,
    IncrementalAlterConfigsRequestData, IncrementalAlterConfigsResponseData,
};

pub(super) use kacrab_protocol::{
    KafkaString, KafkaUuid,
    generated::{
        create_partitions_request::CreatePartitionsTopic,
        create_partitions_response::CreatePartitionsTopicResult,
        create_topics_request::{CreatableTopic, CreatableTopicConfig},
        create_topics_response::{CreatableTopicConfigs, CreatableTopicResult},
        delete_topics_response::DeletableTopicResult,
        describe_configs_request::DescribeConfigsResource,
        describe_configs_response::{
            DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
        },
        incremental_alter_configs_request::AlterConfigsResource,
        incremental_alter_configs_response::AlterConfigsResourceResponse,
    },
};

/// Copies text into the wire crate's string.
pub(super) fn wire_string(text: &str) -> KafkaString {
    KafkaString::from(text.to_owned())
}

/// Converts an id into the wire crate's.
pub(super) fn wire_uuid(id: Uuid) -> KafkaUuid {
    let half = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte))
    };
    let (high, low) = id.0.split_at(8);
    KafkaUuid::from_parts(half(high), half(low))
}

/// Converts the wire crate's id into ours.
pub(super) const fn own_uuid(id: KafkaUuid) -> Uuid {
    Uuid(id.to_bytes())
}
