//! The schemas of requests between the nodes of a cluster's controller quorum, and of what brokers forward to it.

use super::{
    messages::quorum::{
        begin_quorum_epoch_request, describe_quorum_request, end_quorum_epoch_request,
        fetch_snapshot_request, vote_request,
    },
    schema::{Field, Kind, Schema, field},
    schemas::structs,
};

pub(super) const VOTE: Schema = Schema {
    fields: &[
        field("ClusterId", Kind::String).nullable_from(0),
        field("VoterId", Kind::Int32).from(1),
        structs::<vote_request::TopicData>(
            "Topics",
            &[
                field("TopicName", Kind::String),
                structs::<vote_request::PartitionData>(
                    "Partitions",
                    &[
                        field("PartitionIndex", Kind::Int32),
                        field("ReplicaEpoch", Kind::Int32),
                        field("ReplicaId", Kind::Int32),
                        field("ReplicaDirectoryId", Kind::Uuid).from(1),
                        field("VoterDirectoryId", Kind::Uuid).from(1),
                        field("LastOffsetEpoch", Kind::Int32),
                        field("LastOffset", Kind::Int64),
                        field("PreVote", Kind::Int8).from(2),
                    ],
                ),
            ],
        ),
    ],
};

pub(super) const BEGIN_QUORUM_EPOCH: Schema = Schema {
    fields: &[
        field("ClusterId", Kind::String).nullable_from(0),
        field("VoterId", Kind::Int32).from(1),
        structs::<begin_quorum_epoch_request::TopicData>(
            "Topics",
            &[
                field("TopicName", Kind::String),
                structs::<begin_quorum_epoch_request::PartitionData>(
                    "Partitions",
                    &[
                        field("PartitionIndex", Kind::Int32),
                        field("VoterDirectoryId", Kind::Uuid).from(1),
                        field("LeaderId", Kind::Int32),
                        field("LeaderEpoch", Kind::Int32),
                    ],
                ),
            ],
        ),
        structs::<begin_quorum_epoch_request::LeaderEndpoint>("LeaderEndpoints", ENDPOINT).from(1),
    ],
};

pub(super) const END_QUORUM_EPOCH: Schema = Schema {
    fields: &[
        field("ClusterId", Kind::String).nullable_from(0),
        structs::<end_quorum_epoch_request::TopicData>(
            "Topics",
            &[
                field("TopicName", Kind::String),
                structs::<end_quorum_epoch_request::PartitionData>(
                    "Partitions",
                    &[
                        field("PartitionIndex", Kind::Int32),
                        field("LeaderId", Kind::Int32),
                        field("LeaderEpoch", Kind::Int32),
                        field("PreferredSuccessors", Kind::Int32s).until(0),
                        structs::<end_quorum_epoch_request::ReplicaInfo>(
                            "PreferredCandidates",
                            &[
                                field("CandidateId", Kind::Int32),
                                field("CandidateDirectoryId", Kind::Uuid),
                            ],
                        )
                        .from(1),
                    ],
                ),
            ],
        ),
        structs::<end_quorum_epoch_request::LeaderEndpoint>("LeaderEndpoints", ENDPOINT).from(1),
    ],
};

const ENDPOINT: &[Field] = &[
    field("Name", Kind::String),
    field("Host", Kind::String),
    field("Port", Kind::Int16),
];

pub(super) const DESCRIBE_QUORUM: Schema = Schema {
    fields: &[structs::<describe_quorum_request::TopicData>(
        "Topics",
        &[
            field("TopicName", Kind::String),
            structs::<describe_quorum_request::PartitionData>(
                "Partitions",
                &[field("PartitionIndex", Kind::Int32)],
            ),
        ],
    )],
};

pub(super) const FETCH_SNAPSHOT: Schema = Schema {
    fields: &[
        field("ClusterId", Kind::String).nullable_from(0).tagged(0),
        field("ReplicaId", Kind::Int32),
        field("MaxBytes", Kind::Int32),
        structs::<fetch_snapshot_request::TopicSnapshot>(
            "Topics",
            &[
                field("Name", Kind::String),
                structs::<fetch_snapshot_request::PartitionSnapshot>(
                    "Partitions",
                    &[
                        field("Partition", Kind::Int32),
                        field("CurrentLeaderEpoch", Kind::Int32),
                        field(
                            "SnapshotId",
                            Kind::Struct(&[
                                field("EndOffset", Kind::Int64),
                                field("Epoch", Kind::Int32),
                            ]),
                        ),
                        field("Position", Kind::Int64),
                        field("ReplicaDirectoryId", Kind::Uuid).from(1).tagged(0),
                    ],
                ),
            ],
        ),
    ],
};

pub(super) const ENVELOPE: Schema = Schema {
    fields: &[
        field("RequestData", Kind::Bytes),
        field("RequestPrincipal", Kind::Bytes).nullable_from(0),
        field("ClientHostAddress", Kind::Bytes),
    ],
};
