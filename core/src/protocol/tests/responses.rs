//! Answers of the wire crate's messages: gating, headers, the client's reading.

use bytes::Bytes;

use super::unframed;
use crate::protocol::{
    ApiKey, ClientRequest, EncodeError, ErrorCode, KafkaUuid, ResponseBody, decode_response,
    encode_response,
    messages::{
        AlterPartitionRequestData, AlterPartitionResponseData, ApiVersionsRequestData,
        ApiVersionsResponseData, BeginQuorumEpochRequestData, BeginQuorumEpochResponseData,
        BrokerHeartbeatRequestData, BrokerHeartbeatResponseData, BrokerRegistrationRequestData,
        BrokerRegistrationResponseData, CreatableTopicResult, CreatePartitionsRequestData,
        CreatePartitionsResponseData, CreateTopicsRequestData, CreateTopicsResponseData,
        DeleteRecordsRequestData, DeleteRecordsResponseData, DeleteTopicsRequestData,
        DeleteTopicsResponseData, DescribeClusterBroker, DescribeClusterRequestData,
        DescribeClusterResponseData, DescribeConfigsRequestData, DescribeConfigsResponseData,
        DescribeQuorumRequestData, DescribeQuorumResponseData, ElectLeadersRequestData,
        ElectLeadersResponseData, EndQuorumEpochRequestData, EndQuorumEpochResponseData,
        EnvelopeRequestData, EnvelopeResponseData, FetchSnapshotRequestData,
        FetchSnapshotResponseData, IncrementalAlterConfigsRequestData,
        IncrementalAlterConfigsResponseData, ListOffsetsPartitionResponse, ListOffsetsRequestData,
        ListOffsetsResponseData, ListOffsetsTopicResponse, MetadataRequestData,
        MetadataResponseData, MetadataResponseTopic, SupportedFeatureKey, VoteRequestData,
        VoteResponseData,
        quorum::{describe_quorum_response, fetch_snapshot_response},
    },
    unsupported_api_versions_response,
};

/// Writes a body for every version and reads it back.
fn every_version<R: ClientRequest>(body: impl Into<ResponseBody>) -> Vec<R::Response> {
    let body = body.into();
    let versions = R::API.spec().served;
    let read = |version| {
        let frame = encode_response(version, 3, body.clone())
            .unwrap_or_else(|error| panic!("{} {version}: {error}", R::API));
        let (id, response) = decode_response::<R>(version, &unframed(&frame)).unwrap();
        assert_eq!(id, 3);
        response
    };
    (versions.min..=versions.max).map(read).collect()
}

#[test]
fn fields_a_version_lacks_never_fail_an_answer() {
    let partition = ListOffsetsPartitionResponse::default()
        .with_leader_epoch(7)
        .with_offset(5);
    let topic = ListOffsetsTopicResponse::default().with_partitions(vec![partition]);
    let body = ListOffsetsResponseData::default().with_topics(vec![topic]);
    let read = every_version::<ListOffsetsRequestData>(body);
    let epochs = read
        .iter()
        .map(|read| read.topics[0].partitions[0].leader_epoch);
    assert_eq!(
        epochs.collect::<Vec<_>>(),
        [-1, -1, -1, 7, 7, 7, 7, 7, 7, 7, 7]
    );

    let topic = MetadataResponseTopic::default().with_topic_authorized_operations(3);
    let body = MetadataResponseData::default()
        .with_topics(vec![topic])
        .with_cluster_authorized_operations(4);
    let read = every_version::<MetadataRequestData>(body);
    assert_eq!(read[10].cluster_authorized_operations, 4);
    assert_eq!(read[11].topics[0].topic_authorized_operations, 3);

    let broker = DescribeClusterBroker::default().with_is_fenced(true);
    let body = DescribeClusterResponseData::default()
        .with_endpoint_type(2)
        .with_brokers(vec![broker]);
    let read = every_version::<DescribeClusterRequestData>(body);
    assert_eq!(
        read.iter()
            .map(|read| read.endpoint_type)
            .collect::<Vec<_>>(),
        [1, 2, 2]
    );

    let topic = CreatableTopicResult::default().with_topic_config_error_code(29);
    every_version::<CreateTopicsRequestData>(
        CreateTopicsResponseData::default().with_topics(vec![topic]),
    );
    every_version::<DeleteTopicsRequestData>(DeleteTopicsResponseData::default());
    every_version::<DeleteRecordsRequestData>(DeleteRecordsResponseData::default());
    every_version::<DescribeConfigsRequestData>(DescribeConfigsResponseData::default());
    every_version::<CreatePartitionsRequestData>(CreatePartitionsResponseData::default());
    every_version::<IncrementalAlterConfigsRequestData>(
        IncrementalAlterConfigsResponseData::default(),
    );
}

#[test]
fn answers_about_leaders_and_brokers_fit_every_version() {
    let refused = ErrorCode::NotController.code();
    let body = ElectLeadersResponseData::default().with_error_code(refused);
    let read = every_version::<ElectLeadersRequestData>(body);
    let codes = read.iter().map(|read| read.error_code);
    assert_eq!(codes.collect::<Vec<_>>(), [0, refused, refused]);
    every_version::<AlterPartitionRequestData>(AlterPartitionResponseData::default());
    every_version::<BrokerRegistrationRequestData>(BrokerRegistrationResponseData::default());
    every_version::<BrokerHeartbeatRequestData>(BrokerHeartbeatResponseData::default());
}

#[test]
fn answers_of_the_quorum_fit_every_version() {
    let time = 1_700_000_000_000;
    let replica = describe_quorum_response::ReplicaState::default()
        .with_last_fetch_timestamp(time)
        .with_replica_directory_id(KafkaUuid::from_parts(1, 2));
    let partition = describe_quorum_response::PartitionData::default()
        .with_error_message(Some("why".to_owned().into()))
        .with_current_voters(vec![replica.clone()])
        .with_observers(vec![replica]);
    let topic = describe_quorum_response::TopicData::default().with_partitions(vec![partition]);
    let body = DescribeQuorumResponseData::default()
        .with_error_message(Some("why".to_owned().into()))
        .with_nodes(vec![describe_quorum_response::Node::default()])
        .with_topics(vec![topic]);
    let read = every_version::<DescribeQuorumRequestData>(body);
    let nodes = read.iter().map(|read| read.nodes.len());
    assert_eq!(nodes.collect::<Vec<_>>(), [0, 0, 1]);
    let times = read
        .iter()
        .map(|read| read.topics[0].partitions[0].observers[0].last_fetch_timestamp);
    assert_eq!(times.collect::<Vec<_>>(), [-1, time, time]);
    every_version::<VoteRequestData>(VoteResponseData::default());
    every_version::<BeginQuorumEpochRequestData>(BeginQuorumEpochResponseData::default());
    every_version::<EndQuorumEpochRequestData>(EndQuorumEpochResponseData::default());
    let bytes = Some(Bytes::from_static(b"records"));
    let piece = fetch_snapshot_response::PartitionSnapshot::default().with_unaligned_records(bytes);
    let topic = fetch_snapshot_response::TopicSnapshot::default().with_partitions(vec![piece]);
    let body = FetchSnapshotResponseData::default().with_topics(vec![topic]);
    every_version::<FetchSnapshotRequestData>(body);
    every_version::<EnvelopeRequestData>(EnvelopeResponseData::default());
}

#[test]
fn a_feature_that_starts_at_zero_is_left_out_before_version_4() {
    let feature = |min| {
        let name = "transaction.version".to_owned().into();
        SupportedFeatureKey::default()
            .with_name(name)
            .with_min_version(min)
            .with_max_version(2)
    };
    let body =
        ApiVersionsResponseData::default().with_supported_features(vec![feature(0), feature(1)]);
    let read = every_version::<ApiVersionsRequestData>(body);
    let counts = read.iter().map(|read| read.supported_features.len());
    assert_eq!(counts.collect::<Vec<_>>(), [0, 0, 0, 1, 2]);
}

#[test]
fn api_versions_answers_have_a_header_without_tags() {
    for version in 0..=4 {
        let frame = encode_response(version, 3, ApiVersionsResponseData::default().into()).unwrap();
        assert_eq!(
            frame[4..10],
            [0, 0, 0, 3, 0, 0],
            "id and error code, nothing between"
        );
    }
    let frame = encode_response(12, 3, MetadataResponseData::default().into()).unwrap();
    assert_eq!(
        frame[4..13],
        [0, 0, 0, 3, 0, 0, 0, 0, 0],
        "id, no tags, throttle time"
    );
}

#[test]
fn a_client_reads_that_its_api_versions_request_was_too_new() {
    let frame = unframed(&unsupported_api_versions_response(8));
    for version in 0..=4 {
        let (id, answer) = decode_response::<ApiVersionsRequestData>(version, &frame).unwrap();
        assert_eq!(
            (id, answer.error_code),
            (8, ErrorCode::UnsupportedVersion.code())
        );
        assert_eq!(
            (
                answer.api_keys[0].min_version,
                answer.api_keys[0].max_version
            ),
            (0, 4)
        );
    }
}

#[test]
fn unknown_versions_are_not_written() {
    let answer = encode_response(14, 1, MetadataResponseData::default().into());
    assert!(matches!(
        answer,
        Err(EncodeError::Version {
            api: ApiKey::Metadata,
            version: 14
        })
    ));
    let answer = encode_response(2, 1, ResponseBody::Produce(Default::default()));
    assert!(matches!(
        answer,
        Err(EncodeError::Version {
            api: ApiKey::Produce,
            version: 2
        })
    ));
}
