//! What all clients share: connections, versions, metadata.

use bytes::Bytes;

use super::{
    broker::{Cast, Mishap, topic_partition},
    world::World,
};
use crate::{
    client::{
        Address, ClientConfig, ClientInput, ClientMachine, Consumer, ConsumerConfig, StartAt,
    },
    ids::{ConnectionId, NodeId},
    protocol::{ApiKey, ErrorCode},
};

fn reading(cast: Cast) -> World<Consumer> {
    let config = ClientConfig::new(cast.bootstrap(), "test", 1);
    let mut consumer = Consumer::new(config, ConsumerConfig::default());
    consumer.assign(topic_partition("t", 0), StartAt::Offset(0));
    World::new(consumer, cast)
}

#[test]
fn connection_to_the_bootstrap_address_becomes_the_brokers_own() {
    let mut world = reading(Cast::new(&[1], 1));
    world.run_for(2_000);
    assert_eq!(world.connects.len(), 1);
    assert!(world.cast.asked(ApiKey::Fetch) >= 2);
}

#[test]
fn older_broker_is_asked_for_versions_in_its_own_version() {
    for (theirs, asked) in [(3, 1), (0, 1), (4, 1)] {
        let mut cast = Cast::new(&[1], 1);
        cast.api_versions_max = theirs;
        cast.caps.insert(ApiKey::ApiVersions.key(), theirs);
        let mut world = reading(cast);
        world.run_for(200);
        assert_eq!(world.cast.asked(ApiKey::ApiVersions), asked);
        assert_eq!(world.cast.asked(ApiKey::Fetch), 1, "broker speaks {theirs}");
        assert_eq!(world.connects.len(), 1);
    }
}

#[test]
fn each_api_is_spoken_in_the_newest_version_of_both_sides() {
    let mut cast = Cast::new(&[1], 1);
    cast.caps.insert(ApiKey::Fetch.key(), 11);
    cast.caps.insert(ApiKey::Metadata.key(), 4);
    let mut world = reading(cast);
    world.run_for(200);
    let version = |api: ApiKey| {
        let mut requests = world.cast.requests.iter();
        let found = requests.find(|(_, request)| request.header.api == api);
        found.map(|(_, request)| request.header.version)
    };
    assert_eq!(version(ApiKey::Metadata), Some(4));
    assert_eq!(version(ApiKey::Fetch), Some(11));
}

#[test]
fn attempts_to_connect_become_rarer_up_to_a_second() {
    let mut cast = Cast::new(&[1], 1);
    cast.down.push(1);
    let mut world = reading(cast);
    world.run_for(20_000);
    let count = world.connects.len();
    assert!((18..40).contains(&count), "{count} attempts in 20 s");
    let gap = |at: usize| world.connects[at + 1].0.since(world.connects[at].0);
    assert!(gap(0).as_millis() < 100);
    assert!(gap(count - 2).as_millis() >= 800);
}

#[test]
fn client_comes_back_by_the_bootstrap_list_when_every_known_broker_is_gone() {
    let mut world = reading(Cast::new(&[1], 1));
    world.run_for(300);
    // The broker moves; only the bootstrap address still leads there.
    let moved = Address::new("moved", 9_999);
    world.cast.brokers.insert(NodeId(1), moved);
    world.cut(1);
    world.run_for(50);
    assert_eq!(world.cast.listening(&Address::new("b", 9_001)), None);
    world
        .cast
        .brokers
        .insert(NodeId(1), Address::new("b", 9_001));
    world.run_for(3_000);
    let before = world.cast.asked(ApiKey::Fetch);
    world.run_for(3_000);
    assert!(world.cast.asked(ApiKey::Fetch) > before);
}

#[test]
fn silent_broker_is_disconnected_after_the_request_timeout() {
    let mut cast = Cast::new(&[1], 1);
    cast.mishaps.push_back((ApiKey::Fetch, Mishap::DoSilently));
    let mut world = reading(cast);
    world.run_for(29_000);
    assert_eq!(world.cast.asked(ApiKey::Fetch), 1);
    world.run_for(3_000);
    assert!(world.cast.asked(ApiKey::Fetch) > 1);
    assert_eq!(world.connects.len(), 2);
}

#[test]
fn answer_that_cannot_be_read_ends_the_connection_and_not_the_client() {
    for api in [ApiKey::ApiVersions, ApiKey::Metadata, ApiKey::Fetch] {
        let garbage = [
            Bytes::new(),
            Bytes::from(vec![0xff; 64]),
            Bytes::from_static(&[0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 1, 2, 3]),
        ];
        for bytes in garbage {
            let mut cast = Cast::new(&[1], 1);
            cast.mishaps.push_back((api, Mishap::Garbage(bytes)));
            let mut world = reading(cast);
            world.run_for(5_000);
            assert!(world.cast.asked(ApiKey::Fetch) > 1, "after {api} garbage");
        }
    }
}

#[test]
fn frame_that_nobody_asked_for_ends_the_connection() {
    let mut world = reading(Cast::new(&[1], 1));
    world.run_for(300);
    let now = world.now();
    let frame = |bytes: &'static [u8]| ClientInput::Frame {
        connection: ConnectionId(1),
        bytes: Bytes::from_static(bytes),
    };
    world.machine.handle(now, frame(&[0x7f, 0, 0, 0, 0]));
    world.run_for(2_000);
    assert_eq!(world.connects.len(), 2, "it connects again");
    world.machine.handle(now, frame(b"late"));
}

#[test]
fn metadata_is_not_asked_for_more_often_than_the_retry_backoff() {
    let mut cast = Cast::new(&[1], 1);
    cast.logs.clear();
    let mut world = reading(cast);
    world.run_for(10_000);
    let asked = world.cast.asked(ApiKey::Metadata);
    assert!((60..=130).contains(&asked), "{asked} times in 10 s");
}

#[test]
fn leader_of_an_older_epoch_is_not_believed() {
    let mut world = reading(Cast::new(&[1, 2], 1));
    world.run_for(300);
    let partition = topic_partition("t", 0);
    let log = world.cast.logs.get_mut(&partition).unwrap();
    (log.leader, log.epoch) = (2, 2);
    world
        .cast
        .mishaps
        .push_back((ApiKey::Fetch, Mishap::Refuse(ErrorCode::LeaderNotAvailable)));
    world.run_for(2_000);
    let known = world.machine.cluster().partition(&partition).unwrap();
    assert_eq!(known.leader, Some(NodeId(1)), "epoch 2 is before epoch 3");
    let log = world.cast.logs.get_mut(&partition).unwrap();
    (log.leader, log.epoch) = (2, 4);
    world.run_for(2_000);
    let known = world.machine.cluster().partition(&partition).unwrap();
    assert_eq!(known.leader, Some(NodeId(2)));
}
