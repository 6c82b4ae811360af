//! The network alone.

use super::*;
use crate::random::Streams;

const BROKER: End = End::Node(0);
const CLIENT: End = End::Client(0);

fn network(seed: u64) -> Network {
    Network::new(LinkProfile::default(), Streams::new(seed).stream("network"))
}

fn frame(byte: u8) -> Parcel {
    Parcel::Frame(Bytes::from(vec![byte; 10]), Stamp::default())
}

#[test]
fn frames_of_one_direction_keep_their_order() {
    let mut network = network(1);
    let (link, knock) = network.dial(SimTime::START, CLIENT, BROKER, 0);
    let mut last = knock.unwrap().0;
    for byte in 0..100 {
        let sent = network.send(SimTime::START, link, Side::Acceptor, frame(byte));
        let (_, Some((at, _))) = sent.unwrap() else {
            panic!("frame {byte} vanished");
        };
        assert!(at >= last);
        last = at;
    }
}

#[test]
fn paused_receiver_gets_everything_later_and_in_order() {
    let mut network = network(1);
    let (link, _) = network.dial(SimTime::START, CLIENT, BROKER, 0);
    network.pause(link, Side::Acceptor);
    for byte in 0..3 {
        let arrival = Arrival {
            link,
            to: Side::Acceptor,
            what: frame(byte),
        };
        assert!(matches!(network.arrive(arrival), Outcome::Nothing));
    }
    let held = network.resume(link, Side::Acceptor);
    let bytes: Vec<u8> = held
        .iter()
        .filter_map(|arrival| match &arrival.what {
            Parcel::Frame(bytes, _) => bytes.first().copied(),
            _ => None,
        })
        .collect();
    assert_eq!(bytes, [0, 1, 2]);
}

#[test]
fn half_open_connection_swallows_what_its_end_sends() {
    let mut network = network(1);
    let (link, _) = network.dial(SimTime::START, CLIENT, BROKER, 0);
    assert_eq!(network.mute(BROKER), 1);
    let (_, answer) = network
        .send(SimTime::START, link, Side::Dialer, frame(1))
        .unwrap();
    assert!(answer.is_none());
    let (_, request) = network
        .send(SimTime::START, link, Side::Acceptor, frame(1))
        .unwrap();
    assert!(request.is_some());
}

#[test]
fn dead_process_is_noticed_soon_and_dead_machine_late() {
    let mut network = network(1);
    network.dial(SimTime::START, CLIENT, BROKER, 0);
    let soon = network.lose(SimTime::START, BROKER, false);
    assert!(soon[0].0 < SimTime::from_millis(21));
    let mut network = self::network(1);
    let (link, _) = network.dial(SimTime::START, CLIENT, BROKER, 0);
    let late = network.lose(SimTime::START, BROKER, true);
    assert!(late[0].0 >= SimTime::from_millis(1000));
    let knock = Arrival {
        link,
        to: Side::Acceptor,
        what: frame(1),
    };
    assert!(matches!(
        network.arrive(knock),
        Outcome::NobodyThere(BROKER)
    ));
}

#[test]
fn reset_loses_what_is_in_flight_and_tells_both_ends() {
    let mut network = network(1);
    let (link, _) = network.dial(SimTime::START, CLIENT, BROKER, 0);
    let news = network.reset(SimTime::START, BROKER);
    assert_eq!(news.len(), 2);
    let arrival = Arrival {
        link,
        to: Side::Acceptor,
        what: frame(1),
    };
    assert!(matches!(network.arrive(arrival), Outcome::Nothing));
}

const OTHER: End = End::Node(1);

fn cut(from: Ends, to: Ends, listener: Option<u16>) -> Cut {
    Cut { from, to, listener }
}

fn goes_through(network: &mut Network, now: SimTime, link: LinkId, to: Side) -> bool {
    let sent = network.send(now, link, to, frame(1));
    sent.unwrap().1.is_some()
}

#[test]
fn cut_blocks_one_direction_and_sends_on_in_order_when_it_is_over() {
    let mut network = network(1);
    let start = SimTime::START;
    let (link, _) = network.dial(start, BROKER, OTHER, 0);
    let until = SimTime::from_millis(500);
    network.cut(cut(Ends::Node(0), Ends::Node(1), None), until);
    for byte in 0..3 {
        let sent = network.send(start, link, Side::Acceptor, frame(byte));
        assert!(sent.unwrap().1.is_none(), "nothing gets through");
    }
    assert!(goes_through(&mut network, start, link, Side::Dialer));
    assert!(network.release(SimTime::from_millis(499)).is_empty());
    let arrivals = network.release(until);
    let bytes: Vec<u8> = arrivals
        .iter()
        .filter_map(|(_, arrival)| match &arrival.what {
            Parcel::Frame(bytes, _) => bytes.first().copied(),
            _ => None,
        })
        .collect();
    assert_eq!(bytes, [0, 1, 2]);
    assert!(arrivals.is_sorted_by_key(|(at, _)| *at));
    assert!(arrivals[0].0 > until);
    assert!(goes_through(&mut network, until, link, Side::Acceptor));
}

#[test]
fn knock_waits_for_the_end_of_a_cut() {
    let mut network = network(1);
    let until = SimTime::from_millis(500);
    network.cut(cut(Ends::All, Ends::Node(1), None), until);
    let (link, knock) = network.dial(SimTime::START, BROKER, OTHER, 0);
    assert!(knock.is_none());
    let arrivals = network.release(until);
    assert!(matches!(
        &arrivals[..],
        [(_, Arrival { link: knocked, what: Parcel::Knock(0), .. })] if *knocked == link
    ));
}

#[test]
fn cut_of_one_listener_leaves_the_others_alone() {
    let mut network = network(1);
    let start = SimTime::START;
    let data = network.dial(start, BROKER, OTHER, 0).0;
    let control = network.dial(start, OTHER, BROKER, 1).0;
    let until = SimTime::from_millis(500);
    network.cut(cut(Ends::Node(0), Ends::Node(1), Some(1)), until);
    assert!(goes_through(&mut network, start, data, Side::Acceptor));
    assert!(!goes_through(&mut network, start, control, Side::Dialer));
    assert!(goes_through(&mut network, start, control, Side::Acceptor));
}

#[test]
fn cut_from_clients_spares_the_nodes() {
    let mut network = network(1);
    let start = SimTime::START;
    let client = network.dial(start, CLIENT, BROKER, 0).0;
    let peer = network.dial(start, OTHER, BROKER, 0).0;
    network.cut(cut(Ends::Clients, Ends::All, None), SimTime::from_millis(9));
    assert!(!goes_through(&mut network, start, client, Side::Acceptor));
    assert!(goes_through(&mut network, start, client, Side::Dialer));
    assert!(goes_through(&mut network, start, peer, Side::Acceptor));
}

#[test]
fn death_behind_a_cut_is_not_noticed_before_its_end() {
    let mut network = network(1);
    let start = SimTime::START;
    network.dial(start, CLIENT, BROKER, 0);
    let until = SimTime::from_millis(500);
    network.cut(cut(Ends::Node(0), Ends::All, None), until);
    assert!(network.lose(start, BROKER, false).is_empty());
    let arrivals = network.release(until);
    assert!(matches!(
        &arrivals[..],
        [(
            _,
            Arrival {
                to: Side::Dialer,
                what: Parcel::Closed,
                ..
            }
        )]
    ));
}

#[test]
fn heal_ends_cuts() {
    let mut network = network(1);
    let start = SimTime::START;
    let (link, _) = network.dial(start, BROKER, OTHER, 0);
    network.cut(cut(Ends::All, Ends::All, None), SimTime::from_millis(9_000));
    assert!(!goes_through(&mut network, start, link, Side::Acceptor));
    network.heal();
    assert_eq!(network.release(SimTime::from_millis(5)).len(), 1);
    assert!(goes_through(
        &mut network,
        SimTime::from_millis(5),
        link,
        Side::Acceptor
    ));
}
