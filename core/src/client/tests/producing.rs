//! The producer: batches, retries, and what it says in the end.

use bytes::Bytes;

use super::{
    broker::{Cast, Mishap, topic_partition},
    world::World,
};
use crate::{
    batch::{BatchIter, Compression, CompressionType, Records},
    client::{
        Acks, ClientConfig, ClientInput, ClientMachine, DeliveryReport, Failure, Outcome,
        ProduceRecord, Producer, ProducerConfig, SendError, partition_for_key,
    },
    ids::TopicName,
    protocol::{ApiKey, ErrorCode, RequestBody},
    time::{Now, Timestamp},
};

fn world_with(cast: Cast, config: ProducerConfig) -> World<Producer> {
    let client = ClientConfig::new(cast.bootstrap(), "test", 1);
    World::new(Producer::new(client, config), cast)
}

fn world(partitions: i32) -> World<Producer> {
    world_with(Cast::new(&[1], partitions), ProducerConfig::default())
}

fn record(token: u64) -> ProduceRecord {
    let value = Bytes::from(format!("value {token}"));
    ProduceRecord {
        partition: Some(0),
        ..ProduceRecord::new(TopicName::new("t"), value, token)
    }
}

fn send(world: &mut World<Producer>, record: ProduceRecord) {
    let now = world.now();
    world.machine.send(now, record).unwrap();
}

fn values(world: &World<Producer>, partition: i32) -> Vec<String> {
    let mut values = Vec::new();
    for bytes in &world.cast.logs[&topic_partition("t", partition)].batches {
        for batch in BatchIter::new(bytes, 0).with_crc() {
            let batch = batch.unwrap();
            for record in &Records::open(batch.bytes(), 1 << 20).unwrap() {
                let value = record.unwrap().value.unwrap().to_vec();
                values.push(String::from_utf8(value).unwrap());
            }
        }
    }
    values
}

fn single(world: &World<Producer>) -> &DeliveryReport {
    assert_eq!(world.events.len(), 1, "{:?}", world.events);
    &world.events[0]
}

#[test]
fn delivered_records_are_reported_with_their_offsets() {
    let mut world = world(1);
    for token in 0..3 {
        send(&mut world, record(token));
    }
    world.run_for(100);
    let report = single(&world);
    let offsets: Vec<_> = report.delivered().map(|(t, o, _)| (t, o)).collect();
    assert_eq!(offsets, [(0, 0), (1, 1), (2, 2)]);
    assert_eq!((report.transmissions, report.refusals), (1, 0));
    assert_eq!(values(&world, 0), ["value 0", "value 1", "value 2"]);
    assert_eq!(world.machine.outstanding(), 0);
}

#[test]
fn batch_waits_for_linger_unless_flushed_or_full() {
    let config = ProducerConfig {
        linger_ms: 50,
        batch_size: 200,
        ..ProducerConfig::default()
    };
    let mut world = world_with(Cast::new(&[1], 1), config);
    send(&mut world, record(0));
    world.run_for(40);
    assert_eq!(world.cast.asked(ApiKey::Produce), 0);
    world.run_for(20);
    assert_eq!(world.cast.asked(ApiKey::Produce), 1);
    send(&mut world, record(1));
    world.machine.flush();
    world.run_for(5);
    assert_eq!(world.cast.asked(ApiKey::Produce), 2, "flushed");
    for token in 2..14 {
        send(&mut world, record(token));
    }
    world.run_for(5);
    assert_eq!(world.cast.asked(ApiKey::Produce), 3, "full");
    world.run_for(100);
    assert_eq!(world.machine.outstanding(), 0);
}

#[test]
fn keyed_records_go_where_every_kafka_client_sends_them() {
    let mut world = world(5);
    for token in 0..20 {
        let key = Bytes::from(format!("key {token}"));
        let record = ProduceRecord {
            partition: None,
            key: Some(key),
            ..record(token)
        };
        send(&mut world, record);
    }
    world.run_for(200);
    for report in &world.events {
        let partition = report.partition.as_ref().unwrap().partition;
        for sent in &report.records {
            let key = format!("key {}", sent.token);
            let expected = partition_for_key(key.as_bytes(), 5);
            assert_eq!(u32::try_from(partition).unwrap(), expected);
        }
    }
    assert_eq!(
        world.events.iter().map(|r| r.records.len()).sum::<usize>(),
        20
    );
}

#[test]
fn every_codec_arrives_as_what_was_sent() {
    let codecs = [
        CompressionType::Gzip,
        CompressionType::Snappy,
        CompressionType::Lz4,
        CompressionType::Zstd,
    ];
    for codec in codecs {
        let config = ProducerConfig {
            compression: Compression::of(codec),
            ..ProducerConfig::default()
        };
        let mut world = world_with(Cast::new(&[1], 1), config);
        for token in 0..50 {
            send(&mut world, record(token));
        }
        world.run_for(100);
        let stored = &world.cast.logs[&topic_partition("t", 0)].batches;
        let batch = BatchIter::new(&stored[0], 0).next().unwrap().unwrap();
        assert_eq!(batch.header().attributes().codec(), Some(codec));
        assert_eq!(values(&world, 0).len(), 50);
    }
}

#[test]
fn lost_answer_is_retried_and_may_duplicate_as_the_report_says() {
    let mut world = world(1);
    world
        .cast
        .mishaps
        .push_back((ApiKey::Produce, Mishap::DoAndHangUp));
    send(&mut world, record(7));
    world.run_for(5_000);
    let report = single(&world);
    assert!(matches!(
        report.outcome,
        Outcome::Delivered { base_offset: 1, .. }
    ));
    assert_eq!((report.transmissions, report.refusals), (2, 0));
    assert_eq!(values(&world, 0), ["value 7", "value 7"]);
}

#[test]
fn lost_answer_without_retries_leaves_the_outcome_unknown() {
    let config = ProducerConfig {
        retries: 0,
        ..ProducerConfig::default()
    };
    for mishap in [Mishap::DoAndHangUp, Mishap::HangUp] {
        let mut world = world_with(Cast::new(&[1], 1), config.clone());
        world.cast.mishaps.push_back((ApiKey::Produce, mishap));
        send(&mut world, record(7));
        world.run_for(5_000);
        let outcome = single(&world).outcome;
        assert_eq!(outcome, Outcome::Unknown(Failure::ConnectionLost));
    }
}

#[test]
fn silent_broker_leaves_the_outcome_unknown_at_the_delivery_timeout() {
    let config = ProducerConfig {
        delivery_timeout_ms: 3_000,
        ..ProducerConfig::default()
    };
    let mut world = world_with(Cast::new(&[1], 1), config);
    world
        .cast
        .mishaps
        .push_back((ApiKey::Produce, Mishap::DoSilently));
    send(&mut world, record(7));
    world.run_for(2_900);
    assert!(world.events.is_empty());
    world.run_for(200);
    let outcome = single(&world).outcome;
    assert_eq!(
        outcome,
        Outcome::Unknown(Failure::TimedOut(ErrorCode::None))
    );
    world.run_for(60_000);
    assert_eq!(world.events.len(), 1, "reported once");
}

#[test]
fn record_that_never_left_has_definitely_failed() {
    let config = ProducerConfig {
        delivery_timeout_ms: 3_000,
        ..ProducerConfig::default()
    };
    let mut world = world_with(Cast::new(&[1], 1), config);
    send(&mut world, record(1));
    world.run_for(1_000);
    world.cast.down.push(1);
    world.cut(1);
    send(&mut world, record(2));
    world.run_for(10_000);
    let report = &world.events[1];
    assert!(matches!(
        report.outcome,
        Outcome::Failed(Failure::TimedOut(_))
    ));
    assert_eq!(report.transmissions, 0);
}

#[test]
fn refusal_before_the_append_is_a_failure_and_after_it_unknown() {
    let cases = [
        (ErrorCode::InvalidRecord, true),
        (ErrorCode::MessageTooLarge, true),
        (ErrorCode::UnknownServerError, false),
    ];
    for (error, failed) in cases {
        let mut world = world(1);
        world
            .cast
            .mishaps
            .push_back((ApiKey::Produce, Mishap::Refuse(error)));
        send(&mut world, record(1));
        world.run_for(1_000);
        let expected = if failed {
            Outcome::Failed(Failure::Refused(error))
        } else {
            Outcome::Unknown(Failure::Refused(error))
        };
        assert_eq!(single(&world).outcome, expected);
    }
}

#[test]
fn refusal_does_not_clear_the_doubt_of_an_earlier_transmission() {
    let mut world = world(1);
    for mishap in [
        Mishap::DoAndHangUp,
        Mishap::Refuse(ErrorCode::InvalidRecord),
    ] {
        world.cast.mishaps.push_back((ApiKey::Produce, mishap));
    }
    send(&mut world, record(1));
    world.run_for(5_000);
    let report = single(&world);
    assert_eq!(
        report.outcome,
        Outcome::Unknown(Failure::Refused(ErrorCode::InvalidRecord))
    );
    assert_eq!((report.transmissions, report.refusals), (2, 1));
}

#[test]
fn batch_follows_its_leader() {
    let mut world = world_with(Cast::new(&[1, 2], 1), ProducerConfig::default());
    send(&mut world, record(1));
    world.run_for(500);
    let log = world.cast.logs.get_mut(&topic_partition("t", 0)).unwrap();
    (log.leader, log.epoch) = (2, 4);
    send(&mut world, record(2));
    world.run_for(1_000);
    assert_eq!(values(&world, 0), ["value 1", "value 2"]);
    assert_eq!(world.machine.outstanding(), 0);
}

#[test]
fn batch_that_the_broker_finds_too_large_is_split() {
    for codec in [CompressionType::None, CompressionType::Zstd] {
        let config = ProducerConfig {
            compression: Compression::of(codec),
            max_in_flight: 1,
            ..ProducerConfig::default()
        };
        let mut world = world_with(Cast::new(&[1], 1), config);
        let refusal = Mishap::Refuse(ErrorCode::MessageTooLarge);
        for _ in 0..2 {
            let mishap = (ApiKey::Produce, refusal.clone());
            world.cast.mishaps.push_back(mishap);
        }
        for token in 0..5 {
            send(&mut world, record(token));
        }
        world.run_for(1_000);
        let expected: Vec<_> = (0..5).map(|token| format!("value {token}")).collect();
        assert_eq!(values(&world, 0), expected, "in order");
        let mut tokens: Vec<_> = world
            .events
            .iter()
            .flat_map(DeliveryReport::delivered)
            .collect();
        tokens.sort_unstable();
        let tokens: Vec<_> = tokens
            .iter()
            .map(|(token, offset, _)| (*token, *offset))
            .collect();
        assert_eq!(tokens, [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]);
    }
}

#[test]
fn one_request_in_flight_keeps_the_order_through_retries() {
    let config = ProducerConfig {
        max_in_flight: 1,
        linger_ms: 0,
        batch_size: 1,
        ..ProducerConfig::default()
    };
    let mut world = world_with(Cast::new(&[1], 1), config);
    for error in [ErrorCode::NotEnoughReplicas, ErrorCode::NotLeaderOrFollower] {
        let mishap = (ApiKey::Produce, Mishap::Refuse(error));
        world.cast.mishaps.push_back(mishap);
    }
    for token in 0..6 {
        send(&mut world, record(token));
    }
    world.run_for(5_000);
    let expected: Vec<_> = (0..6).map(|token| format!("value {token}")).collect();
    assert_eq!(values(&world, 0), expected);
}

#[test]
fn requests_in_flight_stay_within_their_limit() {
    let config = ProducerConfig {
        linger_ms: 0,
        batch_size: 1,
        ..ProducerConfig::default()
    };
    let mut world = world_with(Cast::new(&[1], 1), config);
    for _ in 0..5 {
        let mishap = (ApiKey::Produce, Mishap::DoSilently);
        world.cast.mishaps.push_back(mishap);
    }
    for token in 0..20 {
        send(&mut world, record(token));
    }
    world.run_for(1_000);
    assert_eq!(world.cast.asked(ApiKey::Produce), 5);
}

#[test]
fn acks_none_is_never_called_delivered() {
    let config = ProducerConfig {
        acks: Acks::None,
        ..ProducerConfig::default()
    };
    let mut world = world_with(Cast::new(&[1], 1), config);
    send(&mut world, record(1));
    world.run_for(100);
    assert_eq!(single(&world).outcome, Outcome::Unacknowledged);
    assert_eq!(values(&world, 0), ["value 1"]);
}

#[test]
fn record_is_outstanding_until_its_report_is_taken() {
    let mut world = world(1);
    send(&mut world, record(1));
    world.run_for(100);
    world.cast.down.push(1);
    world.cut(1);
    send(&mut world, record(2));
    let end = world.now().instant.plus_millis(200_000);
    let now = Now {
        instant: end,
        ..world.now()
    };
    world.machine.handle(now, ClientInput::Timeout);
    assert_eq!(world.machine.outstanding(), 1, "reported, but to nobody");
    world.take_outputs();
    assert_eq!(world.machine.outstanding(), 0);
}

#[test]
fn broker_without_topic_ids_is_spoken_to_by_name() {
    let mut cast = Cast::new(&[1], 1);
    cast.caps.insert(ApiKey::Metadata.key(), 9);
    let mut world = world_with(cast, ProducerConfig::default());
    send(&mut world, record(1));
    world.run_for(200);
    let versions = world.cast.requests.iter().filter_map(|(_, request)| {
        let produce = matches!(request.body, RequestBody::Produce(_));
        produce.then_some(request.header.version)
    });
    assert_eq!(versions.collect::<Vec<_>>(), [12]);
    assert_eq!(values(&world, 0), ["value 1"]);
}

#[test]
fn topic_that_does_not_appear_fails_its_records_after_max_block() {
    let mut world = world(1);
    let stray = ProduceRecord::new(TopicName::new("nowhere"), Bytes::new(), 9);
    send(&mut world, stray);
    send(&mut world, record(1));
    world.run_for(59_000);
    assert_eq!(world.events.len(), 1, "others are not held up");
    world.run_for(2_000);
    assert_eq!(
        world.events[1].outcome,
        Outcome::Failed(Failure::NoSuchPartition(ErrorCode::UnknownTopicOrPartition))
    );
}

#[test]
fn memory_is_bounded_and_freed_by_reports() {
    let config = ProducerConfig {
        buffer_memory: 10_000,
        linger_ms: 60_000,
        ..ProducerConfig::default()
    };
    let mut world = world_with(Cast::new(&[1], 1), config);
    let mut taken = 0;
    let refused = loop {
        let now = world.now();
        match world.machine.send(now, record(taken)) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, SendError::BufferFull { record } if record.token == taken));
    assert!((20..300).contains(&taken), "{taken}");
    world.run_for(100);
    assert_eq!(
        world.machine.outstanding(),
        0,
        "a full buffer does not linger"
    );
    send(&mut world, record(taken));
}

#[test]
fn impossible_records_are_refused_at_once() {
    let mut world = world(1);
    let now = world.now();
    let mut refuse = |record| world.machine.send(now, record).unwrap_err();
    let large = ProduceRecord {
        value: Some(Bytes::from(vec![0; 1 << 20])),
        ..record(1)
    };
    assert!(matches!(refuse(large), SendError::TooLarge { .. }));
    let early = ProduceRecord {
        timestamp: Some(Timestamp::from_millis(-2)),
        ..record(1)
    };
    assert!(matches!(refuse(early), SendError::NegativeTimestamp { .. }));
    let nowhere = ProduceRecord {
        partition: Some(-1),
        ..record(1)
    };
    assert!(matches!(
        refuse(nowhere),
        SendError::NegativePartition { .. }
    ));
    assert_eq!(world.machine.outstanding(), 0);
}

#[test]
fn idle_producer_has_nothing_to_wake_for_but_old_metadata() {
    let mut world = world(1);
    send(&mut world, record(1));
    world.run_for(1_000);
    let deadline = world.machine.deadline().unwrap();
    assert!(deadline.since(world.now().instant).as_secs() > 200);
}
