//! The message structs of the wire crate that this crate uses.
//!
//! They are re-exported here and named nowhere else, so that the wire crate can be replaced.

pub use kacrab_protocol::generated::{
    alter_partition_request::AlterPartitionRequestData,
    alter_partition_response::AlterPartitionResponseData,
    api_versions_request::ApiVersionsRequestData,
    api_versions_response::{
        ApiVersion, ApiVersionsResponseData, FinalizedFeatureKey, SupportedFeatureKey,
    },
    begin_quorum_epoch_request::BeginQuorumEpochRequestData,
    begin_quorum_epoch_response::BeginQuorumEpochResponseData,
    broker_heartbeat_request::BrokerHeartbeatRequestData,
    broker_heartbeat_response::BrokerHeartbeatResponseData,
    broker_registration_request::{
        BrokerRegistrationRequestData, Feature as BrokerFeature, Listener as BrokerListener,
    },
    broker_registration_response::BrokerRegistrationResponseData,
    create_partitions_request::{
        CreatePartitionsAssignment, CreatePartitionsRequestData, CreatePartitionsTopic,
    },
    create_partitions_response::{CreatePartitionsResponseData, CreatePartitionsTopicResult},
    create_topics_request::{
        CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequestData,
    },
    create_topics_response::{
        CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponseData,
    },
    default_principal_data::DefaultPrincipalDataData as DefaultPrincipalData,
    delete_records_request::{
        DeleteRecordsPartition, DeleteRecordsRequestData, DeleteRecordsTopic,
    },
    delete_records_response::{
        DeleteRecordsPartitionResult, DeleteRecordsResponseData, DeleteRecordsTopicResult,
    },
    delete_topics_request::{DeleteTopicState, DeleteTopicsRequestData},
    delete_topics_response::{DeletableTopicResult, DeleteTopicsResponseData},
    describe_cluster_request::DescribeClusterRequestData,
    describe_cluster_response::{DescribeClusterBroker, DescribeClusterResponseData},
    describe_configs_request::{DescribeConfigsRequestData, DescribeConfigsResource},
    describe_configs_response::{
        DescribeConfigsResourceResult, DescribeConfigsResponseData, DescribeConfigsResult,
        DescribeConfigsSynonym,
    },
    describe_quorum_request::DescribeQuorumRequestData,
    describe_quorum_response::DescribeQuorumResponseData,
    elect_leaders_request::ElectLeadersRequestData,
    elect_leaders_response::{
        ElectLeadersResponseData, PartitionResult as PartitionElectionResult, ReplicaElectionResult,
    },
    end_quorum_epoch_request::EndQuorumEpochRequestData,
    end_quorum_epoch_response::EndQuorumEpochResponseData,
    envelope_request::EnvelopeRequestData,
    envelope_response::EnvelopeResponseData,
    fetch_request::FetchRequestData,
    fetch_response::FetchResponseData,
    fetch_snapshot_request::FetchSnapshotRequestData,
    fetch_snapshot_response::FetchSnapshotResponseData,
    find_coordinator_request::FindCoordinatorRequestData,
    find_coordinator_response::{Coordinator, FindCoordinatorResponseData},
    incremental_alter_configs_request::{
        AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequestData,
    },
    incremental_alter_configs_response::{
        AlterConfigsResourceResponse, IncrementalAlterConfigsResponseData,
    },
    list_offsets_request::{ListOffsetsPartition, ListOffsetsRequestData, ListOffsetsTopic},
    list_offsets_response::{
        ListOffsetsPartitionResponse, ListOffsetsResponseData, ListOffsetsTopicResponse,
    },
    metadata_request::{MetadataRequestData, MetadataRequestTopic},
    metadata_response::{
        MetadataResponseBroker, MetadataResponseData, MetadataResponsePartition,
        MetadataResponseTopic,
    },
    offset_for_leader_epoch_request::{
        OffsetForLeaderEpochRequestData, OffsetForLeaderPartition, OffsetForLeaderTopic,
    },
    offset_for_leader_epoch_response::{
        EpochEndOffset as EpochEnd, OffsetForLeaderEpochResponseData, OffsetForLeaderTopicResult,
    },
    produce_request::ProduceRequestData,
    produce_response::ProduceResponseData,
    vote_request::VoteRequestData,
    vote_response::VoteResponseData,
};

/// The parts of the wire crate's Fetch and Produce messages, for the client's side.
///
/// The broker's side has structs of its own in [`crate::protocol`].
pub mod wire {
    pub use kacrab_protocol::generated::{
        fetch_request, fetch_response, produce_request, produce_response,
    };
}

/// The parts of the messages in which leaders change.
pub use kacrab_protocol::generated::{
    alter_partition_request, alter_partition_response, elect_leaders_request,
};

/// The messages between replicas of the controller quorum.
pub mod quorum {
    pub use kacrab_protocol::generated::{
        begin_quorum_epoch_request, begin_quorum_epoch_response, describe_quorum_request,
        describe_quorum_response, end_quorum_epoch_request, end_quorum_epoch_response,
        fetch_snapshot_request, fetch_snapshot_response, vote_request, vote_response,
    };
}

/// The parts of a broker's registration.
pub mod registration {
    pub use kacrab_protocol::generated::broker_registration_request::{Feature, Listener};
}
