mod fuzz;

use bytes::{BufMut, Bytes, BytesMut};

use super::*;
use crate::{
    client::Address,
    ids::{ConnectionId, NodeId},
    time::Instant,
};

const TWO: NodeId = NodeId(2);

/// DescribeCluster, whose headers are as short as headers with tagged fields get.
const API: (i16, i16) = (60, 1);

fn at(millis: u64) -> Instant {
    Instant::ORIGIN.plus_millis(millis)
}

fn peers() -> Peers {
    let mut peers = Peers::new(PeerConfig::new("node-1"), 7, 0);
    for lane in Lane::ALL {
        peers.set_address(at(0), TWO, lane, Some(Address::new("two", 9093)));
    }
    peers
}

fn call(body: &'static [u8]) -> Call {
    Call {
        api_key: API.0,
        version: API.1,
        body: Bytes::from_static(body),
        timeout_ms: 1_000,
        answer_bytes_max: 64,
    }
}

fn answer(correlation_id: i32, body: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_i32(correlation_id);
    frame.put_u8(0);
    frame.put_slice(body);
    frame.freeze()
}

/// Correlation id and body of a frame that was sent.
fn read(frame: &Bytes) -> (i32, Bytes) {
    let header = 4 + 8 + 2 + "node-1".len() + 1;
    let id = i32::from_be_bytes(frame[8..12].try_into().unwrap());
    (id, frame.slice(header..))
}

fn outputs(peers: &mut Peers) -> Vec<PeerOutput> {
    std::iter::from_fn(|| peers.poll_output()).collect()
}

fn dialled(peers: &mut Peers) -> ConnectionId {
    match outputs(peers).as_slice() {
        [PeerOutput::Dial { connection, .. }] => *connection,
        other => panic!("{other:?}"),
    }
}

/// The correlation ids and bodies of what was sent on one connection.
fn sent(peers: &mut Peers, on: ConnectionId) -> Vec<(i32, Bytes)> {
    let outputs = outputs(peers);
    let frames = outputs.iter().map(|output| match output {
        PeerOutput::Send { connection, frame } if *connection == on => read(frame),
        other => panic!("{other:?}"),
    });
    frames.collect()
}

fn ends(peers: &mut Peers) -> Vec<(u64, Result<Bytes, CallError>)> {
    let answers = std::iter::from_fn(|| peers.poll_answer());
    answers
        .map(|answer| {
            assert_eq!(answer.node, TWO);
            (answer.id.0, answer.outcome)
        })
        .collect()
}

/// A link that stands.
fn up(peers: &mut Peers, lane: Lane) -> ConnectionId {
    peers.call(at(0), TWO, lane, CallId(0), call(b"first"));
    let connection = dialled(peers);
    peers.on_dialled(at(0), connection);
    let first = sent(peers, connection)[0].0;
    peers.on_frame(at(0), connection, &answer(first, b""));
    assert_eq!(ends(peers), [(0, Ok(Bytes::new()))]);
    connection
}

#[test]
fn call_dials_is_sent_and_is_answered() {
    let mut peers = peers();
    peers.call(at(0), TWO, Lane::Quorum, CallId(1), call(b"vote"));
    let dial = outputs(&mut peers);
    let connection = ConnectionId::dialled(0);
    assert_eq!(
        dial,
        [PeerOutput::Dial {
            connection,
            host: "two".to_owned(),
            port: 9093,
            frame_bytes_max: 16 << 20
        }]
    );
    assert!(peers.owns(connection) && !peers.is_up(TWO, Lane::Quorum));
    peers.on_dialled(at(1), connection);
    assert_eq!(
        sent(&mut peers, connection),
        [(0, Bytes::from_static(b"vote"))]
    );
    assert_eq!(peers.unanswered(TWO, Lane::Quorum), 1);
    peers.on_frame(at(2), connection, &answer(0, b"yes"));
    assert_eq!(ends(&mut peers), [(1, Ok(Bytes::from_static(b"yes")))]);
    assert_eq!(
        (peers.unanswered(TWO, Lane::Quorum), peers.deadline()),
        (0, None)
    );
    peers.call(at(3), TWO, Lane::Quorum, CallId(2), call(b"again"));
    assert_eq!(sent(&mut peers, connection).len(), 1, "the link is kept");
}

#[test]
fn lanes_are_connections_of_their_own() {
    let mut peers = peers();
    let connections = Lane::ALL.map(|lane| up(&mut peers, lane));
    assert_ne!(connections[0], connections[1]);
    // The data's link is busy and full; the quorum does not notice.
    for id in 1..50 {
        peers.call(at(0), TWO, Lane::Replication, CallId(id), call(b"fetch"));
    }
    assert_eq!(sent(&mut peers, connections[1]).len(), 5);
    peers.call(at(0), TWO, Lane::Quorum, CallId(99), call(b"vote"));
    assert_eq!(sent(&mut peers, connections[0]).len(), 1);
}

#[test]
fn calls_beyond_the_limit_in_flight_wait_their_turn() {
    let mut peers = peers();
    let connection = up(&mut peers, Lane::Controller);
    for id in 1..=7 {
        peers.call(at(0), TWO, Lane::Controller, CallId(id), call(b"x"));
    }
    let first = sent(&mut peers, connection);
    assert_eq!(first.len(), 5);
    peers.on_frame(at(1), connection, &answer(first[0].0, b""));
    assert_eq!(sent(&mut peers, connection).len(), 1);
    assert_eq!(ends(&mut peers), [(1, Ok(Bytes::new()))]);
}

#[test]
fn what_cannot_wait_is_refused_at_once() {
    let mut peers = peers();
    peers.call(at(0), NodeId(9), Lane::Quorum, CallId(0), call(b"x"));
    let refused = peers.poll_answer().unwrap();
    assert_eq!(
        (refused.node, refused.outcome),
        (NodeId(9), Err(CallError::NoAddress))
    );
    for id in 0..65 {
        peers.call(at(0), TWO, Lane::Quorum, CallId(id), call(b"x"));
    }
    assert_eq!(ends(&mut peers), [(64, Err(CallError::Overloaded))]);
    let large = |bytes: usize| Call {
        body: Bytes::from(vec![0; bytes]),
        ..call(b"")
    };
    peers.call(at(0), TWO, Lane::Replication, CallId(70), large(10 << 20));
    peers.call(at(0), TWO, Lane::Replication, CallId(71), large(10 << 20));
    peers.call(at(0), TWO, Lane::Replication, CallId(72), large(1 << 20));
    assert_eq!(ends(&mut peers), [(71, Err(CallError::Overloaded))]);
}

#[test]
fn every_call_of_a_lost_link_is_lost_once() {
    let mut peers = peers();
    let connection = up(&mut peers, Lane::Controller);
    for id in 1..=7 {
        peers.call(at(0), TWO, Lane::Controller, CallId(id), call(b"x"));
    }
    let first = sent(&mut peers, connection)[0].0;
    peers.on_closed(at(1), connection);
    let expected: Vec<_> = (1..=7).map(|id| (id, Err(CallError::LinkLost))).collect();
    assert_eq!(ends(&mut peers), expected);
    peers.on_closed(at(1), connection);
    peers.on_frame(at(1), connection, &answer(first, b"late"));
    peers.on_dialled(at(1), connection);
    assert_eq!((ends(&mut peers), outputs(&mut peers)), (vec![], vec![]));
}

#[test]
fn nothing_of_an_earlier_connection_is_taken_for_an_answer() {
    let mut peers = peers();
    let old = up(&mut peers, Lane::Quorum);
    peers.call(at(0), TWO, Lane::Quorum, CallId(1), call(b"old"));
    let _ = sent(&mut peers, old);
    peers.on_closed(at(0), old);
    let _ = ends(&mut peers);
    peers.call(at(1_000), TWO, Lane::Quorum, CallId(2), call(b"new"));
    let new = dialled(&mut peers);
    assert_ne!(old, new);
    peers.on_dialled(at(1_000), new);
    let id = sent(&mut peers, new)[0].0;
    peers.on_frame(at(1_001), old, &answer(id, b"wrong"));
    peers.on_closed(at(1_001), old);
    assert_eq!(ends(&mut peers), []);
    peers.on_frame(at(1_002), new, &answer(id, b"right"));
    assert_eq!(ends(&mut peers), [(2, Ok(Bytes::from_static(b"right")))]);
}

#[test]
fn backoff_grows_with_failures_and_ends_with_an_answer() {
    let mut peers = peers();
    let mut now = 0;
    let mut waits = vec![];
    for _ in 0..8 {
        let patient = Call {
            timeout_ms: 60_000,
            ..call(b"x")
        };
        peers.call(at(now), TWO, Lane::Controller, CallId(1), patient);
        let mut dial = outputs(&mut peers);
        if dial.is_empty() {
            let wait = peers.deadline().unwrap().since(at(now)).as_millis();
            waits.push(wait);
            now += u64::try_from(wait).unwrap();
            peers.on_timeout(at(now));
            dial = outputs(&mut peers);
        }
        let [PeerOutput::Dial { connection, .. }] = dial.as_slice() else {
            panic!("{dial:?}");
        };
        peers.on_closed(at(now), *connection);
        assert_eq!(ends(&mut peers), [(1, Err(CallError::LinkLost))]);
    }
    let within = |wait: u128, middle: u128| (middle * 8 / 10..=middle * 12 / 10).contains(&wait);
    for (wait, middle) in waits.iter().zip([50, 100, 200, 400, 800, 1_000, 1_000]) {
        assert!(within(*wait, middle), "{waits:?}");
    }
    assert_eq!(waits.len(), 7);
}

#[test]
fn call_that_is_not_answered_in_time_costs_the_link() {
    let mut peers = peers();
    let connection = up(&mut peers, Lane::Quorum);
    peers.call(at(0), TWO, Lane::Quorum, CallId(1), call(b"x"));
    peers.call(at(500), TWO, Lane::Quorum, CallId(2), call(b"y"));
    let _ = sent(&mut peers, connection);
    assert_eq!(peers.deadline(), Some(at(1_000)));
    peers.on_timeout(at(999));
    assert_eq!(ends(&mut peers), []);
    peers.on_timeout(at(1_000));
    assert_eq!(
        ends(&mut peers),
        [(1, Err(CallError::TimedOut)), (2, Err(CallError::LinkLost))]
    );
    assert_eq!(outputs(&mut peers), [PeerOutput::Close { connection }]);
    assert!(!peers.owns(connection));
}

#[test]
fn call_that_waits_too_long_costs_nobody_else() {
    let mut peers = peers();
    let connection = up(&mut peers, Lane::Quorum);
    for id in 1..=5 {
        let patient = Call {
            timeout_ms: 60_000,
            ..call(b"x")
        };
        peers.call(at(0), TWO, Lane::Quorum, CallId(id), patient);
    }
    peers.call(at(0), TWO, Lane::Quorum, CallId(6), call(b"y"));
    let first = sent(&mut peers, connection)[0].0;
    peers.on_timeout(at(1_000));
    assert_eq!(ends(&mut peers), [(6, Err(CallError::TimedOut))]);
    assert!(outputs(&mut peers).is_empty());
    peers.on_frame(at(1_001), connection, &answer(first, b""));
    assert_eq!(ends(&mut peers), [(1, Ok(Bytes::new()))]);
}

#[test]
fn connection_that_does_not_come_to_stand_is_given_up() {
    let mut peers = peers();
    let patient = Call {
        timeout_ms: 60_000,
        ..call(b"x")
    };
    peers.call(at(0), TWO, Lane::Controller, CallId(1), patient);
    let connection = dialled(&mut peers);
    assert_eq!(peers.deadline(), Some(at(10_000)));
    peers.on_timeout(at(10_000));
    assert_eq!(ends(&mut peers), [(1, Err(CallError::LinkLost))]);
    assert_eq!(outputs(&mut peers), [PeerOutput::Close { connection }]);
}

#[test]
fn frame_that_is_not_the_next_answer_ends_the_connection() {
    let too_large = answer(1, &[0; 60]);
    let wrong = answer(2, b"");
    let short = Bytes::from_static(&[0, 0, 0]);
    for bad in [too_large, wrong, short] {
        let mut peers = peers();
        let connection = up(&mut peers, Lane::Quorum);
        peers.call(at(0), TWO, Lane::Quorum, CallId(1), call(b"x"));
        peers.call(at(0), TWO, Lane::Quorum, CallId(2), call(b"y"));
        assert_eq!(sent(&mut peers, connection)[0].0, 1);
        peers.on_frame(at(1), connection, &bad);
        assert_eq!(
            ends(&mut peers),
            [
                (1, Err(CallError::Malformed)),
                (2, Err(CallError::LinkLost))
            ],
            "{bad:?}"
        );
        assert_eq!(outputs(&mut peers), [PeerOutput::Close { connection }]);
    }
}

#[test]
fn unasked_frame_ends_an_idle_connection() {
    let mut peers = peers();
    let connection = up(&mut peers, Lane::Quorum);
    peers.on_frame(at(1), connection, &answer(9, b""));
    assert_eq!(ends(&mut peers), []);
    assert_eq!(outputs(&mut peers), [PeerOutput::Close { connection }]);
}

#[test]
fn node_that_moves_is_dialled_at_its_new_address() {
    let mut peers = peers();
    let old = up(&mut peers, Lane::Quorum);
    peers.call(at(0), TWO, Lane::Quorum, CallId(1), call(b"x"));
    let _ = sent(&mut peers, old);
    peers.set_address(at(0), TWO, Lane::Quorum, Some(Address::new("two", 9093)));
    assert!(peers.owns(old), "the same address changes nothing");
    peers.set_address(at(0), TWO, Lane::Quorum, Some(Address::new("elsewhere", 1)));
    assert_eq!(ends(&mut peers), [(1, Err(CallError::LinkLost))]);
    assert_eq!(outputs(&mut peers), [PeerOutput::Close { connection: old }]);
    peers.call(at(0), TWO, Lane::Quorum, CallId(2), call(b"y"));
    let dial = outputs(&mut peers);
    assert!(matches!(&dial[..], [PeerOutput::Dial { host, port: 1, .. }] if host == "elsewhere"));
    peers.forget(at(0), TWO);
    assert_eq!(ends(&mut peers), [(2, Err(CallError::LinkLost))]);
    assert_eq!(peers.deadline(), None);
}
