//! What each kind of listener serves.

use super::tests::{CLIENT, CONTROLLER, Disk, Host};
use crate::{
    event::Event,
    forwarding::{self, Answered, Principal},
    ids::{Epoch, NodeId, Uuid},
    protocol::{
        ApiKey, ClientRequest, ErrorCode, KafkaString, decode_response, encode_request,
        messages::{
            ApiVersionsRequestData, CreatableTopic, CreateTopicsRequestData,
            DescribeClusterRequestData, DescribeQuorumRequestData, MetadataRequestData,
            quorum::describe_quorum_request,
        },
    },
    raft::{
        FetchLogRequest, FetchNews, LogPosition, PeerReply, ReplicaKey, ReplyBody, VoteRequest,
        wire,
    },
};

fn host() -> Host {
    Host::start(Disk::default(), 1, &[])
}

fn text(text: &str) -> KafkaString {
    KafkaString::from(text.to_owned())
}

fn metadata_quorum() -> DescribeQuorumRequestData {
    let partition = describe_quorum_request::PartitionData::default();
    let topic = describe_quorum_request::TopicData::default()
        .with_topic_name(text("__cluster_metadata"))
        .with_partitions(vec![partition]);
    DescribeQuorumRequestData::default().with_topics(vec![topic])
}

fn somebody() -> ReplicaKey {
    ReplicaKey {
        id: NodeId(7),
        directory: Uuid([7; 16]),
    }
}

fn vote(cluster_id: Option<&str>) -> VoteRequest {
    VoteRequest {
        cluster_id: cluster_id.map(str::to_owned),
        voter: None,
        candidate: somebody(),
        epoch: Epoch(99),
        last: LogPosition {
            epoch: Epoch(98),
            end: 1_000_000,
        },
        is_pre_vote: false,
    }
}

fn fetch(epoch: Epoch, end: i64) -> FetchLogRequest {
    FetchLogRequest {
        cluster_id: None,
        replica: somebody(),
        epoch,
        fetch: LogPosition {
            epoch: Epoch(0),
            end,
        },
        high_watermark: None,
        max_wait_ms: 0,
        max_bytes: 1 << 20,
    }
}

fn keys(host: &mut Host, connection: crate::ids::ConnectionId) -> Vec<i16> {
    let request = ApiVersionsRequestData::default()
        .with_client_software_name(text("test"))
        .with_client_software_version(text("1"));
    let answer = host.ask_on(connection, 4, &request).unwrap();
    answer.api_keys.iter().map(|line| line.api_key).collect()
}

#[test]
fn each_kind_of_listener_names_what_it_serves() {
    let mut host = host();
    let (clients, quorum) = (keys(&mut host, CLIENT), keys(&mut host, CONTROLLER));
    for (api, on_clients, on_quorum) in [
        (ApiKey::Metadata, true, false),
        (ApiKey::Vote, false, true),
        (ApiKey::BrokerHeartbeat, false, true),
        (ApiKey::DescribeQuorum, true, true),
        (ApiKey::CreateTopics, true, true),
    ] {
        assert_eq!(clients.contains(&api.key()), on_clients, "{api}");
        assert_eq!(quorum.contains(&api.key()), on_quorum, "{api}");
    }
}

#[test]
fn connection_that_asks_the_wrong_listener_is_closed() {
    fn refused<R: ClientRequest>(connection: crate::ids::ConnectionId, version: i16, request: &R) {
        let mut host = host();
        assert!(host.ask_on(connection, version, request).is_none());
        let is_refusal = |event: &Event| matches!(event, Event::ConnectionRefused { connection: found, .. } if *found == connection);
        assert!(host.events.iter().any(is_refusal));
    }
    refused(CLIENT, 2, &wire::vote_request(&vote(None)));
    refused(CONTROLLER, 12, &MetadataRequestData::default());
}

#[test]
fn quorum_of_one_describes_itself_on_both_listeners() {
    let mut host = host();
    for connection in [CLIENT, CONTROLLER] {
        for version in 0..=2 {
            let answer = host
                .ask_on(connection, version, &metadata_quorum())
                .unwrap();
            assert_eq!(answer.error_code, 0);
            let partition = &answer.topics[0].partitions[0];
            assert_eq!((partition.error_code, partition.leader_id), (0, 1));
            let [voter] = &partition.current_voters[..] else {
                panic!("one voter");
            };
            assert_eq!(voter.replica_id, 1);
            assert_eq!(voter.log_end_offset, partition.high_watermark);
            assert!(partition.observers.is_empty());
            assert_eq!(answer.nodes.len(), usize::from(version >= 2));
        }
    }
}

#[test]
fn quorum_of_another_topic_is_unknown() {
    let mut host = host();
    let mut request = metadata_quorum();
    request.topics[0].topic_name = text("orders");
    let answer = host.ask_on(CLIENT, 2, &request).unwrap();
    let partition = &answer.topics[0].partitions[0];
    assert_eq!(
        partition.error_code,
        ErrorCode::UnknownTopicOrPartition.code()
    );
    assert_eq!(answer.topics[0].topic_name.as_str(), "orders");
}

#[test]
fn cluster_is_described_by_the_kind_of_the_listener() {
    let mut host = host();
    let request = |kind| DescribeClusterRequestData::default().with_endpoint_type(kind);
    let brokers = host.ask_on(CLIENT, 2, &request(1)).unwrap();
    assert_eq!((brokers.error_code, brokers.controller_id), (0, 1));
    assert_eq!(brokers.brokers[0].port, 9092);
    let controllers = host.ask_on(CONTROLLER, 2, &request(2)).unwrap();
    assert_eq!((controllers.error_code, controllers.endpoint_type), (0, 2));
    let mismatched = ErrorCode::MismatchedEndpointType.code();
    for (connection, kind) in [(CLIENT, 2), (CONTROLLER, 1)] {
        let answer = host.ask_on(connection, 1, &request(kind)).unwrap();
        assert_eq!(answer.error_code, mismatched);
        let answer = host.ask_on(connection, 1, &request(9)).unwrap();
        let unsupported = ErrorCode::UnsupportedEndpointType.code();
        assert_eq!(answer.error_code, unsupported);
    }
    let old = DescribeClusterRequestData::default();
    let answer = host.ask_on(CONTROLLER, 0, &old).unwrap();
    assert_eq!(answer.error_code, ErrorCode::InvalidRequest.code());
}

#[test]
fn candidate_of_another_cluster_gets_no_vote() {
    let mut host = host();
    let request = wire::vote_request(&vote(Some("another")));
    for version in 0..=2 {
        let answer = host.ask_on(CONTROLLER, version, &request).unwrap();
        let reply = wire::read_vote_response(&answer).unwrap();
        assert_eq!(reply.error, ErrorCode::InconsistentClusterId);
    }
}

#[test]
fn observer_reads_the_metadata_log_on_the_listener_of_the_quorum() {
    let mut host = host();
    let described = host.ask_on(CLIENT, 2, &metadata_quorum()).unwrap();
    let partition = &described.topics[0].partitions[0];
    let (epoch, end) = (Epoch(partition.leader_epoch), partition.high_watermark);
    let request = wire::fetch_request(&fetch(epoch, 0));
    let answer = host.ask_on(CONTROLLER, wire::FETCH, &request).unwrap();
    let reply: PeerReply = wire::read_fetch_response(&answer).unwrap();
    assert_eq!(
        (reply.error, reply.leader),
        (ErrorCode::None, Some(NodeId(1)))
    );
    let ReplyBody::Fetch(fetched) = reply.body else {
        panic!("a fetch is answered as one");
    };
    assert_eq!(fetched.high_watermark, Some(end));
    let FetchNews::Records(records) = fetched.news else {
        panic!("records from the beginning");
    };
    assert!(records.iter().map(crate::storage::Part::len).sum::<usize>() > 0);
    // It is an observer of the quorum from now on.
    let described = host.ask_on(CLIENT, 2, &metadata_quorum()).unwrap();
    let observers = &described.topics[0].partitions[0].observers;
    assert_eq!(observers.len(), 1);
    assert_eq!(observers[0].replica_id, 7);
}

#[test]
fn fetch_of_a_topic_on_the_listener_of_the_quorum_is_refused() {
    let mut host = host();
    let mut request = wire::fetch_request(&fetch(Epoch(1), 0));
    request.topics[0].topic_id = Uuid([3; 16]).into();
    let answer = host.ask_on(CONTROLLER, wire::FETCH, &request).unwrap();
    assert_eq!(answer.error_code, ErrorCode::InvalidRequest.code());
}

#[test]
fn controller_answers_what_a_broker_sends_on_for_a_client() {
    let mut host = host();
    let request = encode_request(2, 77, "client", &metadata_quorum()).unwrap();
    let client = std::net::IpAddr::from([10, 1, 2, 3]);
    let seal = |frame| forwarding::seal(frame, &Principal::anonymous(), client).unwrap();
    let envelope = seal(request.slice(4..));
    let answer = host.ask_on(CONTROLLER, 0, &envelope).unwrap();
    let Answered::Frame(frame) = forwarding::open_answer(77, &answer) else {
        panic!("an answer for the client");
    };
    let (_, described) =
        decode_response::<DescribeQuorumRequestData>(2, &frame.slice(4..)).unwrap();
    assert_eq!(described.topics[0].partitions[0].leader_id, 1);
    let answer = host
        .ask_on(CONTROLLER, 0, &seal(bytes::Bytes::from_static(b"\0\x01")))
        .unwrap();
    assert_eq!(answer.error_code, ErrorCode::InvalidRequest.code());
}

#[test]
fn topic_is_created_for_a_client_whose_request_was_sent_on() {
    let mut host = host();
    let topic = CreatableTopic::default()
        .with_name(text("orders"))
        .with_num_partitions(1)
        .with_replication_factor(1);
    let request = CreateTopicsRequestData::default().with_topics(vec![topic]);
    let request = encode_request(7, 77, "client", &request).unwrap();
    let client = std::net::IpAddr::from([10, 1, 2, 3]);
    let envelope = forwarding::seal(request.slice(4..), &Principal::anonymous(), client).unwrap();
    let answer = host.ask_on(CONTROLLER, 0, &envelope).unwrap();
    let Answered::Frame(frame) = forwarding::open_answer(77, &answer) else {
        panic!("an answer for the client");
    };
    let (_, created) = decode_response::<CreateTopicsRequestData>(7, &frame.slice(4..)).unwrap();
    assert_eq!(created.topics[0].error_code, 0);
}
