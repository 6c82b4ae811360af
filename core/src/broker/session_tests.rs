//! Fetch sessions, and what is asked about epochs, through a whole broker.

use bytes::Bytes;

use super::{
    Input,
    tests::{CLIENT, Disk, Host, produce_request},
};
use crate::{
    ids::ConnectionId,
    protocol::{
        ErrorCode, KafkaString, decode_response, encode_request,
        messages::{
            FetchRequestData, FetchResponseData, OffsetForLeaderEpochRequestData,
            OffsetForLeaderPartition, OffsetForLeaderTopic,
            wire::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic},
        },
    },
};

const VERSION: i16 = 12;
const PRODUCER: ConnectionId = ConnectionId(3);

fn wanting(offsets: &[i64]) -> Vec<FetchTopic> {
    let partition = |offset: &i64| FetchPartition {
        fetch_offset: *offset,
        partition_max_bytes: 1 << 20,
        ..FetchPartition::default()
    };
    let topic = FetchTopic {
        topic: KafkaString::from("orders".to_owned()),
        partitions: offsets.iter().map(partition).collect(),
        ..FetchTopic::default()
    };
    if offsets.is_empty() {
        Vec::new()
    } else {
        vec![topic]
    }
}

fn request((session_id, session_epoch): (i32, i32), topics: Vec<FetchTopic>) -> FetchRequestData {
    FetchRequestData {
        min_bytes: 1,
        max_bytes: 1 << 20,
        session_id,
        session_epoch,
        topics,
        ..FetchRequestData::default()
    }
}

/// The error of the whole, and of each partition its offset range: high watermark and records.
fn told(answer: &FetchResponseData) -> (i16, Vec<(i64, usize)>) {
    let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
    let of = |records: &Option<Bytes>| records.as_ref().map_or(0, Bytes::len);
    let told = partitions.map(|partition| (partition.high_watermark, of(&partition.records)));
    (answer.error_code, told.collect())
}

fn host() -> Host {
    let mut host = Host::start(Disk::default(), 1, &[]);
    host.create("orders");
    host
}

#[test]
fn session_tells_only_what_is_new() {
    let mut host = host();
    let first = host.ask(VERSION, &request((0, 0), wanting(&[0])));
    let id = first.session_id;
    assert_ne!(id, 0);
    assert_eq!(told(&first), (0, vec![(0, 0)]));
    let rest = host.ask(VERSION, &request((id, 1), Vec::new()));
    assert_eq!(rest.session_id, id);
    assert_eq!(told(&rest), (0, vec![]), "nothing has changed");
    host.produce("orders", -1, &["a"]);
    let more = host.ask(VERSION, &request((id, 2), Vec::new()));
    let (code, partitions) = told(&more);
    assert_eq!((code, partitions[0].0), (0, 1));
    assert!(partitions[0].1 > 0);
    let moved = host.ask(VERSION, &request((id, 3), wanting(&[1])));
    assert_eq!(
        told(&moved),
        (0, vec![]),
        "no records, and no news of the log"
    );
}

#[test]
fn session_that_is_unknown_or_at_another_epoch_is_refused() {
    let mut host = host();
    let code =
        |host: &mut Host, session| host.ask(VERSION, &request(session, Vec::new())).error_code;
    let not_found = ErrorCode::FetchSessionIdNotFound.code();
    assert_eq!(code(&mut host, (77, 1)), not_found);
    let id = host
        .ask(VERSION, &request((0, 0), wanting(&[0])))
        .session_id;
    let invalid = ErrorCode::InvalidFetchSessionEpoch.code();
    assert_eq!(code(&mut host, (id, 2)), invalid);
    assert_eq!(code(&mut host, (id, 1)), 0);
    assert_eq!(code(&mut host, (id, -1)), 0, "it ends");
    assert_eq!(code(&mut host, (id, 2)), not_found);
}

#[test]
fn partition_that_is_forgotten_is_not_read_any_more() {
    let mut host = host();
    let id = host
        .ask(VERSION, &request((0, 0), wanting(&[0])))
        .session_id;
    let forget = FetchRequestData {
        forgotten_topics_data: vec![ForgottenTopic {
            topic: KafkaString::from("orders".to_owned()),
            partitions: vec![0],
            ..ForgottenTopic::default()
        }],
        ..request((id, 1), Vec::new())
    };
    let answer = host.ask(VERSION, &forget);
    assert_eq!((answer.session_id, told(&answer)), (0, (0, vec![])));
}

#[test]
fn long_poll_of_a_session_is_answered_when_one_of_its_partitions_has_more() {
    let mut host = host();
    let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 5001));
    host.handle(Input::Connected {
        connection: PRODUCER,
        peer,
        listener: 0,
    });
    let id = host
        .ask(VERSION, &request((0, 0), wanting(&[0])))
        .session_id;
    let waiting = FetchRequestData {
        max_wait_ms: 500,
        ..request((id, 1), Vec::new())
    };
    let frame = encode_request(VERSION, 900, "test", &waiting).unwrap();
    host.handle(Input::Frame {
        connection: CLIENT,
        bytes: frame.slice(4..),
    });
    assert!(host.sent.is_empty(), "it waits");
    let produce = encode_request(9, 901, "test", &produce_request("orders", 0, &["a"])).unwrap();
    host.handle(Input::Frame {
        connection: PRODUCER,
        bytes: produce.slice(4..),
    });
    let answer = host.sent.pop_front().expect("an answer");
    let (_, answer) = decode_response::<FetchRequestData>(VERSION, &answer.slice(4..)).unwrap();
    assert_eq!(told(&answer).1[0].0, 1);
    let frame = FetchRequestData {
        max_wait_ms: 500,
        ..request((id, 2), wanting(&[1]))
    };
    let frame = encode_request(VERSION, 902, "test", &frame).unwrap();
    host.handle(Input::Frame {
        connection: CLIENT,
        bytes: frame.slice(4..),
    });
    assert!(host.sent.is_empty(), "there is nothing more");
    host.wait(500);
    let answer = host.sent.pop_front().expect("the wait is over");
    let (_, answer) = decode_response::<FetchRequestData>(VERSION, &answer.slice(4..)).unwrap();
    assert_eq!(told(&answer), (0, vec![]));
}

#[test]
fn fetch_of_a_broker_that_is_no_replica_is_refused() {
    let mut host = host();
    let code = |host: &mut Host, epoch| {
        let mut topics = wanting(&[0]);
        topics[0].partitions[0].current_leader_epoch = epoch;
        let request = FetchRequestData {
            replica_id: 9,
            ..request((0, -1), topics)
        };
        host.ask(VERSION, &request).responses[0].partitions[0].error_code
    };
    assert_eq!(code(&mut host, -1), ErrorCode::NotLeaderOrFollower.code());
    assert_eq!(code(&mut host, 0), ErrorCode::UnknownLeaderEpoch.code());
}

#[test]
fn end_of_an_epoch_is_told_to_whoever_knows_the_leaders() {
    let mut host = host();
    host.produce("orders", -1, &["a", "b"]);
    let ask = |host: &mut Host, topic: &str, (known, asked)| {
        let partition = OffsetForLeaderPartition {
            current_leader_epoch: known,
            leader_epoch: asked,
            ..OffsetForLeaderPartition::default()
        };
        let topic = OffsetForLeaderTopic {
            topic: KafkaString::from(topic.to_owned()),
            partitions: vec![partition],
            ..OffsetForLeaderTopic::default()
        };
        let request = OffsetForLeaderEpochRequestData {
            replica_id: -1,
            topics: vec![topic],
            ..OffsetForLeaderEpochRequestData::default()
        };
        let end = &host.ask(4, &request).topics[0].partitions[0];
        (end.error_code, end.leader_epoch, end.end_offset)
    };
    assert_eq!(ask(&mut host, "orders", (0, 0)), (0, 0, 2));
    assert_eq!(ask(&mut host, "orders", (-1, 0)), (0, 0, 2));
    let unknown = ErrorCode::UnknownLeaderEpoch.code();
    assert_eq!(ask(&mut host, "orders", (1, 0)), (unknown, -1, -1));
    let missing = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(ask(&mut host, "other", (0, 0)), (missing, -1, -1));
}
