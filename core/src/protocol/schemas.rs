//! The shapes of the requests that the wire crate decodes, as in Kafka's message schemas.
//!
//! Names are Kafka's; versions before the lowest served one are left out.

use super::{
    messages::{
        AlterConfigsResource, AlterableConfig, BrokerFeature, BrokerListener,
        CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
        CreatePartitionsAssignment, CreatePartitionsTopic, DeleteRecordsPartition,
        DeleteRecordsTopic, DeleteTopicState, DescribeConfigsResource, ListOffsetsPartition,
        ListOffsetsTopic, MetadataRequestTopic, OffsetForLeaderPartition, OffsetForLeaderTopic,
        alter_partition_request, elect_leaders_request,
    },
    schema::{Field, Kind, Schema, field},
};

pub(super) use super::quorum_schemas::{
    BEGIN_QUORUM_EPOCH, DESCRIBE_QUORUM, END_QUORUM_EPOCH, ENVELOPE, FETCH_SNAPSHOT, VOTE,
};

/// An array of structs that the wire crate keeps as `T`.
pub(super) const fn structs<T>(name: &'static str, fields: &'static [Field]) -> Field {
    field(
        name,
        Kind::Structs {
            fields,
            element_bytes: size_of::<T>(),
        },
    )
}

pub(super) const LIST_OFFSETS: Schema = Schema {
    fields: &[
        field("ReplicaId", Kind::Int32),
        field("IsolationLevel", Kind::Int8).from(2),
        structs::<ListOffsetsTopic>(
            "Topics",
            &[
                field("Name", Kind::String),
                structs::<ListOffsetsPartition>(
                    "Partitions",
                    &[
                        field("PartitionIndex", Kind::Int32),
                        field("CurrentLeaderEpoch", Kind::Int32).from(4),
                        field("Timestamp", Kind::Int64),
                    ],
                ),
            ],
        ),
        field("TimeoutMs", Kind::Int32).from(10),
    ],
};

pub(super) const OFFSET_FOR_LEADER_EPOCH: Schema = Schema {
    fields: &[
        field("ReplicaId", Kind::Int32).from(3),
        structs::<OffsetForLeaderTopic>(
            "Topics",
            &[
                field("Topic", Kind::String),
                structs::<OffsetForLeaderPartition>(
                    "Partitions",
                    &[
                        field("Partition", Kind::Int32),
                        field("CurrentLeaderEpoch", Kind::Int32),
                        field("LeaderEpoch", Kind::Int32),
                    ],
                ),
            ],
        ),
    ],
};

pub(super) const METADATA: Schema = Schema {
    fields: &[
        structs::<MetadataRequestTopic>(
            "Topics",
            &[
                field("TopicId", Kind::Uuid).from(10),
                field("Name", Kind::String).nullable_from(10),
            ],
        )
        .nullable_from(1),
        field("AllowAutoTopicCreation", Kind::Int8).from(4),
        field("IncludeClusterAuthorizedOperations", Kind::Int8)
            .from(8)
            .until(10),
        field("IncludeTopicAuthorizedOperations", Kind::Int8).from(8),
    ],
};

pub(super) const FIND_COORDINATOR: Schema = Schema {
    fields: &[
        field("Key", Kind::String).until(3),
        field("KeyType", Kind::Int8).from(1),
        field("CoordinatorKeys", Kind::Strings).from(4),
    ],
};

pub(super) const API_VERSIONS: Schema = Schema {
    fields: &[
        field("ClientSoftwareName", Kind::String).from(3),
        field("ClientSoftwareVersion", Kind::String).from(3),
    ],
};

pub(super) const CREATE_TOPICS: Schema = Schema {
    fields: &[
        structs::<CreatableTopic>(
            "Topics",
            &[
                field("Name", Kind::String),
                field("NumPartitions", Kind::Int32),
                field("ReplicationFactor", Kind::Int16),
                structs::<CreatableReplicaAssignment>(
                    "Assignments",
                    &[
                        field("PartitionIndex", Kind::Int32),
                        field("BrokerIds", Kind::Int32s),
                    ],
                ),
                structs::<CreatableTopicConfig>(
                    "Configs",
                    &[
                        field("Name", Kind::String),
                        field("Value", Kind::String).nullable_from(0),
                    ],
                ),
            ],
        ),
        field("TimeoutMs", Kind::Int32),
        field("ValidateOnly", Kind::Int8),
    ],
};

pub(super) const DELETE_TOPICS: Schema = Schema {
    fields: &[
        structs::<DeleteTopicState>(
            "Topics",
            &[
                field("Name", Kind::String).nullable_from(6),
                field("TopicId", Kind::Uuid),
            ],
        )
        .from(6),
        field("TopicNames", Kind::Strings).until(5),
        field("TimeoutMs", Kind::Int32),
    ],
};

pub(super) const DELETE_RECORDS: Schema = Schema {
    fields: &[
        structs::<DeleteRecordsTopic>(
            "Topics",
            &[
                field("Name", Kind::String),
                structs::<DeleteRecordsPartition>(
                    "Partitions",
                    &[
                        field("PartitionIndex", Kind::Int32),
                        field("Offset", Kind::Int64),
                    ],
                ),
            ],
        ),
        field("TimeoutMs", Kind::Int32),
    ],
};

pub(super) const DESCRIBE_CONFIGS: Schema = Schema {
    fields: &[
        structs::<DescribeConfigsResource>(
            "Resources",
            &[
                field("ResourceType", Kind::Int8),
                field("ResourceName", Kind::String),
                field("ConfigurationKeys", Kind::Strings).nullable_from(0),
            ],
        ),
        field("IncludeSynonyms", Kind::Int8),
        field("IncludeDocumentation", Kind::Int8).from(3),
    ],
};

pub(super) const CREATE_PARTITIONS: Schema = Schema {
    fields: &[
        structs::<CreatePartitionsTopic>(
            "Topics",
            &[
                field("Name", Kind::String),
                field("Count", Kind::Int32),
                structs::<CreatePartitionsAssignment>(
                    "Assignments",
                    &[field("BrokerIds", Kind::Int32s)],
                )
                .nullable_from(0),
            ],
        ),
        field("TimeoutMs", Kind::Int32),
        field("ValidateOnly", Kind::Int8),
    ],
};

pub(super) const INCREMENTAL_ALTER_CONFIGS: Schema = Schema {
    fields: &[
        structs::<AlterConfigsResource>(
            "Resources",
            &[
                field("ResourceType", Kind::Int8),
                field("ResourceName", Kind::String),
                structs::<AlterableConfig>(
                    "Configs",
                    &[
                        field("Name", Kind::String),
                        field("ConfigOperation", Kind::Int8),
                        field("Value", Kind::String).nullable_from(0),
                    ],
                ),
            ],
        ),
        field("ValidateOnly", Kind::Int8),
    ],
};

pub(super) const DESCRIBE_CLUSTER: Schema = Schema {
    fields: &[
        field("IncludeClusterAuthorizedOperations", Kind::Int8),
        field("EndpointType", Kind::Int8).from(1),
        field("IncludeFencedBrokers", Kind::Int8).from(2),
    ],
};

pub(super) const ELECT_LEADERS: Schema = Schema {
    fields: &[
        field("ElectionType", Kind::Int8).from(1),
        structs::<elect_leaders_request::TopicPartitions>(
            "TopicPartitions",
            &[
                field("Topic", Kind::String),
                field("Partitions", Kind::Int32s),
            ],
        )
        .nullable_from(0),
        field("TimeoutMs", Kind::Int32),
    ],
};

pub(super) const ALTER_PARTITION: Schema = Schema {
    fields: &[
        field("BrokerId", Kind::Int32),
        field("BrokerEpoch", Kind::Int64),
        structs::<alter_partition_request::TopicData>(
            "Topics",
            &[
                field("TopicId", Kind::Uuid),
                structs::<alter_partition_request::PartitionData>(
                    "Partitions",
                    &[
                        field("PartitionIndex", Kind::Int32),
                        field("LeaderEpoch", Kind::Int32),
                        field("NewIsr", Kind::Int32s).until(2),
                        structs::<alter_partition_request::BrokerState>(
                            "NewIsrWithEpochs",
                            &[
                                field("BrokerId", Kind::Int32),
                                field("BrokerEpoch", Kind::Int64),
                            ],
                        )
                        .from(3),
                        field("LeaderRecoveryState", Kind::Int8),
                        field("PartitionEpoch", Kind::Int32),
                    ],
                ),
            ],
        ),
    ],
};

pub(super) const BROKER_REGISTRATION: Schema = Schema {
    fields: &[
        field("BrokerId", Kind::Int32),
        field("ClusterId", Kind::String),
        field("IncarnationId", Kind::Uuid),
        structs::<BrokerListener>(
            "Listeners",
            &[
                field("Name", Kind::String),
                field("Host", Kind::String),
                field("Port", Kind::Int16),
                field("SecurityProtocol", Kind::Int16),
            ],
        ),
        structs::<BrokerFeature>(
            "Features",
            &[
                field("Name", Kind::String),
                field("MinSupportedVersion", Kind::Int16),
                field("MaxSupportedVersion", Kind::Int16),
            ],
        ),
        field("Rack", Kind::String).nullable_from(0),
        field("IsMigratingZkBroker", Kind::Int8).from(1),
        field("LogDirs", Kind::Uuids).from(2),
        field("PreviousBrokerEpoch", Kind::Int64).from(3),
    ],
};

pub(super) const BROKER_HEARTBEAT: Schema = Schema {
    fields: &[
        field("BrokerId", Kind::Int32),
        field("BrokerEpoch", Kind::Int64),
        field("CurrentMetadataOffset", Kind::Int64),
        field("WantFence", Kind::Int8),
        field("WantShutDown", Kind::Int8),
        field("OfflineLogDirs", Kind::Uuids).from(1).tagged(0),
        field("CordonedLogDirs", Kind::Uuids)
            .from(2)
            .nullable_from(2)
            .tagged(1),
    ],
};
