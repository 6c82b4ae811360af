//! The consumer: positions, the fetch loop, what it hands out.

use bytes::Bytes;

use super::{
    broker::{Cast, Mishap, topic_partition},
    world::World,
};
use crate::{
    batch::{BatchBuilder, Compression, CompressionType, NewRecord, RecordHeader},
    client::{
        ClientConfig, ClientMachine, ClientOutput, ConsumeFault, ConsumedRecord, Consumer,
        ConsumerConfig, ConsumerEvent, OffsetReset, StartAt,
    },
    ids::{Epoch, Offset},
    protocol::{ApiKey, ErrorCode},
    time::Timestamp,
};

fn batch(codec: CompressionType, from: i64, count: i64) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::of(codec));
    for at in from..from + count {
        let value = format!("value {at}");
        let headers = [RecordHeader {
            key: b"h",
            value: None,
        }];
        let record = NewRecord {
            timestamp: 1_000 + at,
            key: Some(b"k"),
            value: Some(value.as_bytes()),
            headers: &headers,
        };
        builder.append(&record).unwrap();
    }
    builder.build().unwrap()
}

/// A topic `t` with batches of five records in each partition, one codec each.
fn filled(partitions: i32) -> Cast {
    let mut cast = Cast::new(&[1], partitions);
    for log in cast.logs.values_mut() {
        for (at, codec) in [
            CompressionType::None,
            CompressionType::Gzip,
            CompressionType::Snappy,
            CompressionType::Lz4,
            CompressionType::Zstd,
        ]
        .into_iter()
        .enumerate()
        {
            log.append(&batch(codec, i64::try_from(at).unwrap() * 5, 5));
        }
    }
    cast
}

fn world_with(cast: Cast, config: ConsumerConfig) -> World<Consumer> {
    let client = ClientConfig::new(cast.bootstrap(), "test", 1);
    World::new(Consumer::new(client, config), cast)
}

fn reading(cast: Cast, start: StartAt) -> World<Consumer> {
    let mut world = world_with(cast, ConsumerConfig::default());
    world.machine.assign(topic_partition("t", 0), start);
    world
}

fn records(world: &World<Consumer>) -> Vec<&ConsumedRecord> {
    let events = world.events.iter();
    events
        .filter_map(|event| match event {
            ConsumerEvent::Batch(batch) => Some(&batch.records),
            _ => None,
        })
        .flatten()
        .collect()
}

fn offsets(world: &World<Consumer>) -> Vec<Offset> {
    records(world).iter().map(|record| record.offset).collect()
}

fn stop(world: &World<Consumer>) -> Option<(Option<Offset>, ConsumeFault)> {
    world.events.iter().find_map(|event| match event {
        ConsumerEvent::Stopped { offset, fault, .. } => Some((*offset, *fault)),
        _ => None,
    })
}

#[test]
fn all_codecs_are_read_from_the_beginning_to_the_end() {
    let mut world = reading(filled(1), StartAt::Beginning);
    world.run_for(2_000);
    assert_eq!(offsets(&world), (0..25).collect::<Vec<_>>());
    for (at, record) in records(&world).iter().enumerate() {
        let at = i64::try_from(at).unwrap();
        assert_eq!(record.value, Some(Bytes::from(format!("value {at}"))));
        assert_eq!(record.key, Some(Bytes::from_static(b"k")));
        assert_eq!(record.timestamp, Timestamp::from_millis(1_000 + at));
        assert_eq!(&record.headers[0].key[..], b"h");
        assert_eq!(record.headers[0].value, None);
    }
    let ends = world.events.iter().filter_map(|event| match event {
        ConsumerEvent::EndOfPartition { offset, .. } => Some(*offset),
        _ => None,
    });
    assert_eq!(ends.collect::<Vec<_>>(), [25], "told once");
    let epochs = world.events.iter().filter_map(|event| match event {
        ConsumerEvent::Batch(batch) => Some((batch.leader_epoch, batch.high_watermark)),
        _ => None,
    });
    assert!(epochs.into_iter().all(|seen| seen == (Epoch(3), 25)));
}

#[test]
fn start_inside_a_batch_skips_the_records_before_it() {
    for start in [3, 7, 24] {
        let mut world = reading(filled(1), StartAt::Offset(start));
        world.run_for(1_000);
        assert_eq!(offsets(&world), (start..25).collect::<Vec<_>>());
    }
}

#[test]
fn start_by_time_is_the_first_record_of_that_time_or_the_end() {
    let at = |millis| StartAt::Timestamp(Timestamp::from_millis(millis));
    for (start, first) in [(at(1_012), 12), (at(0), 0), (at(99_999), 25)] {
        let mut world = reading(filled(1), start);
        world.run_for(1_000);
        assert_eq!(offsets(&world), (first..25).collect::<Vec<_>>());
    }
}

#[test]
fn start_at_the_end_sees_only_what_comes_later() {
    let mut world = reading(filled(1), StartAt::End);
    world.run_for(1_000);
    assert!(offsets(&world).is_empty());
    let log = world.cast.logs.get_mut(&topic_partition("t", 0)).unwrap();
    log.append(&batch(CompressionType::None, 25, 2));
    world.run_for(1_000);
    assert_eq!(offsets(&world), [25, 26]);
}

#[test]
fn small_answers_are_enough_to_read_everything() {
    let config = ConsumerConfig {
        max_partition_fetch_bytes: 1,
        ..ConsumerConfig::default()
    };
    let mut world = world_with(filled(3), config);
    for partition in 0..3 {
        let partition = topic_partition("t", partition);
        world.machine.assign(partition, StartAt::Beginning);
    }
    world.run_for(5_000);
    assert_eq!(offsets(&world).len(), 75);
    assert_eq!(world.machine.position(&topic_partition("t", 2)), Some(25));
}

#[test]
fn position_outside_of_the_log_is_reset_as_configured() {
    let cases = [
        (OffsetReset::Earliest, (10..25).collect::<Vec<_>>()),
        (OffsetReset::Latest, Vec::new()),
        (OffsetReset::None, Vec::new()),
    ];
    for (offset_reset, expected) in cases {
        let mut cast = filled(1);
        cast.logs.get_mut(&topic_partition("t", 0)).unwrap().start = 10;
        let config = ConsumerConfig {
            offset_reset,
            ..ConsumerConfig::default()
        };
        let mut world = world_with(cast, config);
        let partition = topic_partition("t", 0);
        world.machine.assign(partition.clone(), StartAt::Offset(2));
        world.run_for(1_000);
        assert_eq!(offsets(&world), expected);
        let told = ConsumerEvent::OutOfRange {
            partition,
            offset: 2,
        };
        assert!(world.events.contains(&told));
        let stopped = stop(&world).is_some();
        assert_eq!(stopped, offset_reset == OffsetReset::None);
    }
}

#[test]
fn answers_tell_high_watermark_and_log_start() {
    let mut cast = filled(1);
    cast.logs.get_mut(&topic_partition("t", 0)).unwrap().start = 3;
    let mut world = reading(cast, StartAt::Offset(5));
    world.run_for(100);
    let answer = world.events.iter().find_map(|event| match event {
        ConsumerEvent::Answer(answer) => Some(answer),
        _ => None,
    });
    let answer = answer.unwrap();
    let seen = (
        answer.fetch_offset,
        answer.log_start_offset,
        answer.high_watermark,
    );
    assert_eq!(seen, (5, 3, 25));
}

#[test]
fn reading_goes_on_after_disconnects_and_retriable_errors() {
    let mut cast = filled(1);
    let refusals = [
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::FencedLeaderEpoch,
        ErrorCode::KafkaStorageError,
    ];
    for error in refusals {
        let mishap = (ApiKey::Fetch, Mishap::Refuse(error));
        cast.mishaps.push_back(mishap);
    }
    cast.mishaps.push_back((ApiKey::Fetch, Mishap::HangUp));
    let mut world = reading(cast, StartAt::Offset(0));
    world.run_for(5_000);
    assert_eq!(offsets(&world), (0..25).collect::<Vec<_>>());
    world.cut(1);
    let log = world.cast.logs.get_mut(&topic_partition("t", 0)).unwrap();
    log.append(&batch(CompressionType::None, 25, 1));
    world.run_for(2_000);
    assert_eq!(offsets(&world).last(), Some(&25));
}

#[test]
fn offset_that_is_not_available_yet_is_asked_for_again() {
    let mut cast = filled(1);
    let mishap = Mishap::Refuse(ErrorCode::OffsetNotAvailable);
    cast.mishaps.push_back((ApiKey::ListOffsets, mishap));
    let mut world = reading(cast, StartAt::Beginning);
    world.run_for(1_000);
    assert_eq!(offsets(&world).len(), 25);
}

#[test]
fn refusal_that_waiting_cannot_mend_stops_the_partition() {
    let mut cast = filled(1);
    let error = ErrorCode::TopicAuthorizationFailed;
    let mishap = (ApiKey::Fetch, Mishap::Refuse(error));
    cast.mishaps.push_back(mishap);
    let mut world = reading(cast, StartAt::Offset(4));
    world.run_for(5_000);
    assert_eq!(stop(&world), Some((Some(4), ConsumeFault::Refused(error))));
    assert_eq!(world.cast.asked(ApiKey::Fetch), 1);
    let partition = topic_partition("t", 0);
    world.machine.assign(partition, StartAt::Offset(20));
    world.run_for(1_000);
    assert_eq!(offsets(&world), (20..25).collect::<Vec<_>>());
}

#[test]
fn damaged_batch_is_never_handed_out() {
    let mut cast = filled(1);
    let log = cast.logs.get_mut(&topic_partition("t", 0)).unwrap();
    let mut bytes = log.batches[1].to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    log.batches[1] = bytes.into();
    let mut world = reading(cast, StartAt::Offset(0));
    world.run_for(1_000);
    assert_eq!(offsets(&world), [0, 1, 2, 3, 4]);
    let (offset, fault) = stop(&world).unwrap();
    assert_eq!(offset, Some(5));
    assert!(matches!(fault, ConsumeFault::Damaged(_)));
}

#[test]
fn bomb_stops_the_partition_within_the_bound() {
    let mut builder = BatchBuilder::new(Compression::of(CompressionType::Zstd));
    let value = vec![0; 1 << 20];
    let record = NewRecord {
        value: Some(&value),
        ..NewRecord::default()
    };
    builder.append(&record).unwrap();
    let mut cast = Cast::new(&[1], 1);
    let log = cast.logs.get_mut(&topic_partition("t", 0)).unwrap();
    log.append(&builder.build().unwrap());
    let config = ConsumerConfig {
        unpacked_bytes_max: 1 << 16,
        ..ConsumerConfig::default()
    };
    let mut world = world_with(cast, config);
    world
        .machine
        .assign(topic_partition("t", 0), StartAt::Offset(0));
    world.run_for(1_000);
    assert!(matches!(
        stop(&world),
        Some((Some(0), ConsumeFault::Unreadable(_)))
    ));
}

#[test]
fn control_batches_move_the_position_and_are_not_handed_out() {
    let mut cast = Cast::new(&[1], 1);
    let log = cast.logs.get_mut(&topic_partition("t", 0)).unwrap();
    let mut marker = BatchBuilder::new(Compression::None).control(true);
    let record = NewRecord {
        key: Some(&[0, 0, 0, 1]),
        value: Some(&[0, 0, 0, 0, 0, 0]),
        ..NewRecord::default()
    };
    marker.append(&record).unwrap();
    log.append(&marker.build().unwrap());
    log.append(&batch(CompressionType::None, 1, 1));
    let mut world = reading(cast, StartAt::Offset(0));
    world.run_for(1_000);
    assert_eq!(offsets(&world), [1]);
}

#[test]
fn host_that_takes_nothing_holds_back_the_consumer() {
    let mut world = reading(filled(1), StartAt::Offset(0));
    world.run_for(0);
    // The first fetch is answered, but nobody takes more than one batch of it.
    let mut taken = 0;
    while taken == 0 {
        world.run_for(1);
        taken = offsets(&world).len();
    }
    assert_eq!(taken, 25, "the world takes all");
    let log = world.cast.logs.get_mut(&topic_partition("t", 0)).unwrap();
    log.append(&batch(CompressionType::None, 25, 1));
    world.machine.set_paused(&topic_partition("t", 0), true);
    world.run_for(2_000);
    let asked = world.cast.asked(ApiKey::Fetch);
    world.run_for(5_000);
    assert_eq!(world.cast.asked(ApiKey::Fetch), asked);
    world.machine.set_paused(&topic_partition("t", 0), false);
    world.run_for(1_000);
    assert_eq!(offsets(&world).len(), 26);
}

#[test]
fn seek_discards_what_was_asked_before() {
    let mut world = reading(filled(1), StartAt::Offset(0));
    world.run_for(6);
    let partition = topic_partition("t", 0);
    world.machine.assign(partition, StartAt::Offset(22));
    while let Some(output) = world.machine.poll_output() {
        assert!(!matches!(
            output,
            ClientOutput::Event(ConsumerEvent::Batch(_))
        ));
    }
    world.events.clear();
    world.run_for(1_000);
    assert_eq!(offsets(&world).last(), Some(&24));
    assert!(offsets(&world).ends_with(&[22, 23, 24]));
}
