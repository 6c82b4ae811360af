//! A leader and a follower that is played by the test: what fetches prove, and what waits for them.

use bytes::Bytes;

use super::{
    Input,
    tests::{CLIENT, CONTROLLER, Disk, Host, produce_request},
};
use crate::{
    controller::records::{
        ELIGIBLE_LEADER_REPLICAS_VERSION, METADATA_VERSION, METADATA_VERSION_MAX,
    },
    ids::{ConnectionId, Uuid},
    protocol::{
        ClientRequest, ErrorCode, KafkaString, KafkaUuid, decode_response, encode_request,
        messages::{
            BrokerFeature, BrokerHeartbeatRequestData, BrokerListener,
            BrokerRegistrationRequestData, CreatableReplicaAssignment, CreatableTopic,
            CreateTopicsRequestData, DeleteRecordsPartition, DeleteRecordsRequestData,
            DeleteRecordsTopic, FetchRequestData, MetadataRequestData, ProduceRequestData,
            wire::{
                fetch_request::{FetchPartition, FetchTopic, ReplicaState},
                fetch_response::PartitionData,
            },
        },
    },
};

const FOLLOWER: ConnectionId = ConnectionId(5);
const FETCH: i16 = 17;

fn text(text: &str) -> KafkaString {
    KafkaString::from(text.to_owned())
}

/// A broker that leads `orders`, and what its follower is known by.
struct Pair {
    host: Host,
    topic_id: KafkaUuid,
    epoch: i64,
}

impl Pair {
    fn new() -> Self {
        let mut host = Host::start(Disk::default(), 1, &[]);
        let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 5002));
        host.handle(Input::Connected {
            connection: FOLLOWER,
            peer,
            listener: 0,
        });
        let epoch = register(&mut host);
        let topic = CreatableTopic {
            name: text("orders"),
            num_partitions: -1,
            replication_factor: -1,
            assignments: vec![CreatableReplicaAssignment {
                partition_index: 0,
                broker_ids: [1, 2].to_vec(),
                ..CreatableReplicaAssignment::default()
            }],
            ..CreatableTopic::default()
        };
        let request = CreateTopicsRequestData {
            topics: vec![topic],
            timeout_ms: 1000,
            ..CreateTopicsRequestData::default()
        };
        let answer = host.ask(7, &request);
        assert_eq!(answer.topics[0].error_code, 0, "{answer:?}");
        Self {
            topic_id: answer.topics[0].topic_id,
            host,
            epoch,
        }
    }

    /// Fetches as the follower does.
    fn fetch(&mut self, partition: FetchPartition) -> PartitionData {
        self.fetch_in(self.epoch, partition)
    }

    fn fetch_in(&mut self, epoch: i64, partition: FetchPartition) -> PartitionData {
        let replica = ReplicaState {
            replica_id: 2,
            replica_epoch: epoch,
            ..ReplicaState::default()
        };
        let topic = FetchTopic {
            topic_id: self.topic_id,
            partitions: vec![partition],
            ..FetchTopic::default()
        };
        let request = FetchRequestData {
            replica_state: replica,
            min_bytes: 1,
            max_bytes: 1 << 20,
            session_epoch: -1,
            topics: vec![topic],
            ..FetchRequestData::default()
        };
        self.begin(FOLLOWER, FETCH, 500, &request);
        let answer = self
            .take::<FetchRequestData>(FETCH, 500)
            .expect("an answer");
        answer.responses[0].partitions[0].clone()
    }

    fn begin<R: ClientRequest>(
        &mut self,
        connection: ConnectionId,
        version: i16,
        correlation_id: i32,
        request: &R,
    ) {
        let frame = encode_request(version, correlation_id, "test", request).unwrap();
        self.host.handle(Input::Frame {
            connection,
            bytes: frame.slice(4..),
        });
    }

    /// Takes the answer to a request, if it was sent.
    fn take<R: ClientRequest>(&mut self, version: i16, correlation_id: i32) -> Option<R::Response> {
        let is_it = |frame: &Bytes| frame[4..8] == correlation_id.to_be_bytes();
        let at = self.host.sent.iter().position(is_it)?;
        let frame = self.host.sent.remove(at)?;
        Some(decode_response::<R>(version, &frame.slice(4..)).unwrap().1)
    }
}

fn register(host: &mut Host) -> i64 {
    let metadata = host.ask(12, &MetadataRequestData::default());
    let listener = BrokerListener {
        name: text("PLAINTEXT"),
        host: text("far"),
        port: 9092,
        ..BrokerListener::default()
    };
    let feature =
        |(name, min_supported_version, max_supported_version): (&str, i16, i16)| BrokerFeature {
            name: text(name),
            min_supported_version,
            max_supported_version,
            ..BrokerFeature::default()
        };
    let newest = i16::try_from(METADATA_VERSION_MAX).unwrap();
    let features = [
        (METADATA_VERSION, 1, newest),
        (ELIGIBLE_LEADER_REPLICAS_VERSION, 0, 1),
    ];
    let registration = BrokerRegistrationRequestData {
        broker_id: 2,
        cluster_id: metadata.cluster_id.unwrap(),
        incarnation_id: Uuid([9; 16]).into(),
        listeners: vec![listener],
        features: features.map(feature).to_vec(),
        log_dirs: vec![Uuid([8; 16]).into()],
        ..BrokerRegistrationRequestData::default()
    };
    let registered = host.ask_on(CONTROLLER, 4, &registration).unwrap();
    assert_eq!(registered.error_code, 0);
    let heartbeat = BrokerHeartbeatRequestData {
        broker_id: 2,
        broker_epoch: registered.broker_epoch,
        current_metadata_offset: 1_000_000,
        ..BrokerHeartbeatRequestData::default()
    };
    let answer = host.ask_on(CONTROLLER, 1, &heartbeat).unwrap();
    assert_eq!((answer.error_code, answer.is_fenced), (0, false));
    registered.broker_epoch
}

fn at(offset: i64) -> FetchPartition {
    FetchPartition {
        fetch_offset: offset,
        current_leader_epoch: 0,
        last_fetched_epoch: if offset > 0 { 0 } else { -1 },
        partition_max_bytes: 1 << 20,
        log_start_offset: 0,
        ..FetchPartition::default()
    }
}

fn records(partition: &PartitionData) -> usize {
    partition.records.as_ref().map_or(0, Bytes::len)
}

#[test]
fn acks_of_all_wait_for_the_fetch_that_proves_the_follower_s_copy() {
    let mut pair = Pair::new();
    pair.begin(CLIENT, 9, 700, &produce_request("orders", -1, &["a"]));
    assert!(pair.take::<ProduceRequestData>(9, 700).is_none());
    let first = pair.fetch(at(0));
    assert_eq!((first.error_code, first.high_watermark), (0, 0));
    assert!(
        records(&first) > 0,
        "a follower reads past the high watermark"
    );
    assert!(pair.take::<ProduceRequestData>(9, 700).is_none());
    let second = pair.fetch(at(1));
    assert_eq!((second.high_watermark, records(&second)), (1, 0));
    let answer = pair.take::<ProduceRequestData>(9, 700).expect("an answer");
    let partition = &answer.responses[0].partition_responses[0];
    assert_eq!((partition.error_code, partition.base_offset), (0, 0));
}

#[test]
fn consumer_sees_nothing_of_what_the_follower_does_not_hold() {
    let mut pair = Pair::new();
    assert_eq!(pair.host.produce("orders", 1, &["a"]), (0, 0));
    assert_eq!(pair.host.fetch("orders", 0), Some(Bytes::new()));
    pair.fetch(at(0));
    pair.fetch(at(1));
    assert!(
        pair.host
            .fetch("orders", 0)
            .is_some_and(|records| !records.is_empty())
    );
}

#[test]
fn fetch_of_an_earlier_incarnation_proves_nothing() {
    let mut pair = Pair::new();
    pair.host.produce("orders", 1, &["a"]);
    let refused = pair.fetch_in(pair.epoch - 1, at(1));
    assert_eq!(refused.error_code, ErrorCode::NotLeaderOrFollower.code());
    assert_eq!(pair.host.fetch("orders", 0), Some(Bytes::new()));
}

#[test]
fn leader_epochs_are_compared_and_diverging_logs_told_where_to_cut() {
    let mut pair = Pair::new();
    pair.host.produce("orders", 1, &["a"]);
    let newer = FetchPartition {
        current_leader_epoch: 1,
        ..at(0)
    };
    let refused = pair.fetch(newer);
    assert_eq!(refused.error_code, ErrorCode::UnknownLeaderEpoch.code());
    // The follower has more of the epoch than the leader.
    let answer = pair.fetch(at(5));
    let parts_at = &answer.diverging_epoch;
    assert_eq!((parts_at.epoch, parts_at.end_offset), (0, 1));
    assert_eq!((answer.error_code, records(&answer)), (0, 0));
    // No log of a leader holds an epoch after the leader's own (as in Kafka).
    let from_the_future = FetchPartition {
        last_fetched_epoch: 3,
        ..at(1)
    };
    let refused = pair.fetch(from_the_future);
    assert_eq!(refused.error_code, ErrorCode::OffsetOutOfRange.code());
}

#[test]
fn deletion_is_told_when_the_follower_has_deleted_too() {
    let mut pair = Pair::new();
    pair.host.produce("orders", 1, &["a", "b"]);
    pair.fetch(at(0));
    pair.fetch(at(2));
    let partition = DeleteRecordsPartition {
        offset: 2,
        ..DeleteRecordsPartition::default()
    };
    let topic = DeleteRecordsTopic {
        name: text("orders"),
        partitions: vec![partition],
        ..DeleteRecordsTopic::default()
    };
    let request = DeleteRecordsRequestData {
        topics: vec![topic],
        timeout_ms: 10_000,
        ..DeleteRecordsRequestData::default()
    };
    pair.begin(CLIENT, 2, 800, &request);
    assert!(pair.take::<DeleteRecordsRequestData>(2, 800).is_none());
    let told = pair.fetch(at(2));
    assert_eq!(told.log_start_offset, 2);
    assert!(pair.take::<DeleteRecordsRequestData>(2, 800).is_none());
    pair.fetch(FetchPartition {
        log_start_offset: 2,
        ..at(2)
    });
    let answer = pair
        .take::<DeleteRecordsRequestData>(2, 800)
        .expect("an answer");
    let partition = &answer.topics[0].partitions[0];
    assert_eq!((partition.error_code, partition.low_watermark), (0, 2));
}
