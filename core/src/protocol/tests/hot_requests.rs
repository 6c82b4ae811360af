//! The decoders of Produce and Fetch, held against the wire crate.

use bytes::Bytes;

use super::{Dice, decode, unframed};
use crate::protocol::{
    ApiKey, DecodeError, Fault, FetchPartition, FetchRequest, FetchTopic, ForgottenTopic,
    ProducePartition, ProduceRequest, ProduceTopic, Request, RequestBody, encode_request,
    messages::{
        FetchRequestData, ProduceRequestData,
        wire::{fetch_request as wire_fetch, produce_request as wire_produce},
    },
};

pub(super) fn produce(dice: &mut Dice, version: i16) -> ProduceRequestData {
    ProduceRequestData::default()
        .with_transactional_id(dice.maybe_text())
        .with_acks(dice.i16())
        .with_timeout_ms(dice.i32())
        .with_topic_data(dice.many(|dice| {
            let topic = wire_produce::TopicProduceData::default();
            let topic = if version >= 13 {
                topic.with_topic_id(dice.uuid())
            } else {
                topic.with_name(dice.text())
            };
            topic.with_partition_data(dice.many(|dice| {
                let records = (!dice.one_in(4)).then(|| Bytes::from(dice.bytes(200)));
                wire_produce::PartitionProduceData::default()
                    .with_index(dice.i32())
                    .with_records(records)
            }))
        }))
}

pub(super) fn fetch(dice: &mut Dice, version: i16) -> FetchRequestData {
    let request = FetchRequestData::default()
        .with_max_wait_ms(dice.i32())
        .with_min_bytes(dice.i32())
        .with_max_bytes(dice.i32())
        .with_isolation_level(dice.i8())
        .with_topics(dice.many(|dice| {
            let topic = wire_fetch::FetchTopic::default();
            let topic = if version >= 13 {
                topic.with_topic_id(dice.uuid())
            } else {
                topic.with_topic(dice.text())
            };
            topic.with_partitions(dice.many(|dice| fetch_partition(dice, version)))
        }));
    let request = if version <= 14 {
        request.with_replica_id(dice.i32())
    } else {
        request
    };
    if version < 7 {
        return request;
    }
    let request = request
        .with_session_id(dice.i32())
        .with_session_epoch(dice.i32())
        .with_forgotten_topics_data(dice.many(|dice| {
            let topic = wire_fetch::ForgottenTopic::default();
            let topic = if version >= 13 {
                topic.with_topic_id(dice.uuid())
            } else {
                topic.with_topic(dice.text())
            };
            topic.with_partitions(dice.many(Dice::i32))
        }));
    let request = if version >= 11 {
        request.with_rack_id(dice.text())
    } else {
        request
    };
    let request = if version >= 12 {
        request.with_cluster_id(dice.maybe_text())
    } else {
        request
    };
    if version < 15 || dice.one_in(2) {
        return request;
    }
    let state = wire_fetch::ReplicaState::default()
        .with_replica_id(dice.i32())
        .with_replica_epoch(dice.i64());
    request.with_replica_state(state)
}

fn fetch_partition(dice: &mut Dice, version: i16) -> wire_fetch::FetchPartition {
    let mut partition = wire_fetch::FetchPartition::default()
        .with_partition(dice.i32())
        .with_fetch_offset(dice.i64())
        .with_partition_max_bytes(dice.i32());
    if version >= 5 {
        partition.log_start_offset = dice.i64();
    }
    if version >= 9 {
        partition.current_leader_epoch = dice.i32();
    }
    if version >= 12 {
        partition.last_fetched_epoch = dice.i32();
    }
    if version >= 17 {
        partition.replica_directory_id = dice.uuid();
    }
    if version >= 18 && dice.one_in(2) {
        partition.high_watermark = dice.i64();
    }
    partition
}

fn as_ours_produce(wire: ProduceRequestData) -> ProduceRequest {
    let topics = wire.topic_data.into_iter().map(|topic| ProduceTopic {
        name: topic.name,
        topic_id: topic.topic_id,
        partitions: topic
            .partition_data
            .into_iter()
            .map(|partition| ProducePartition {
                index: partition.index,
                records: partition.records,
            })
            .collect(),
    });
    ProduceRequest {
        transactional_id: wire.transactional_id,
        acks: wire.acks,
        timeout_ms: wire.timeout_ms,
        topics: topics.collect(),
    }
}

fn as_ours_fetch(wire: FetchRequestData, version: i16) -> FetchRequest {
    let topics = wire.topics.into_iter().map(|topic| FetchTopic {
        topic: topic.topic,
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .into_iter()
            .map(|partition| FetchPartition {
                partition: partition.partition,
                current_leader_epoch: partition.current_leader_epoch,
                fetch_offset: partition.fetch_offset,
                last_fetched_epoch: partition.last_fetched_epoch,
                log_start_offset: partition.log_start_offset,
                partition_max_bytes: partition.partition_max_bytes,
                replica_directory_id: partition.replica_directory_id,
                high_watermark: partition.high_watermark,
            })
            .collect(),
    });
    let forgotten = wire
        .forgotten_topics_data
        .into_iter()
        .map(|topic| ForgottenTopic {
            topic: topic.topic,
            topic_id: topic.topic_id,
            partitions: topic.partitions.into(),
        });
    let state = wire.replica_state;
    FetchRequest {
        cluster_id: wire.cluster_id,
        replica_id: if version >= 15 {
            state.replica_id
        } else {
            wire.replica_id
        },
        replica_epoch: state.replica_epoch,
        max_wait_ms: wire.max_wait_ms,
        min_bytes: wire.min_bytes,
        max_bytes: wire.max_bytes,
        isolation_level: wire.isolation_level,
        session_id: wire.session_id,
        session_epoch: wire.session_epoch,
        topics: topics.collect(),
        forgotten_topics: forgotten.collect(),
        rack_id: wire.rack_id,
    }
}

fn header_len(api: ApiKey, version: i16) -> usize {
    if api.is_flexible(version) { 13 } else { 12 }
}

/// Reads a frame as the wire crate does, without its leniency about bytes left over.
fn by_wire_crate(api: ApiKey, version: i16, frame: &Bytes) -> Option<RequestBody> {
    let mut body = frame.slice(header_len(api, version)..);
    let read = if api == ApiKey::Produce {
        let read = ProduceRequestData::read(&mut body, version).ok()?;
        RequestBody::Produce(as_ours_produce(read))
    } else {
        let read = FetchRequestData::read(&mut body, version).ok()?;
        RequestBody::Fetch(as_ours_fetch(read, version))
    };
    body.is_empty().then_some(read)
}

pub(super) fn frame(dice: &mut Dice, api: ApiKey, version: i16) -> Bytes {
    let frame = if api == ApiKey::Produce {
        encode_request(version, 1, "me", &produce(dice, version))
    } else {
        encode_request(version, 1, "me", &fetch(dice, version))
    };
    unframed(&frame.unwrap())
}

fn hot_versions() -> impl Iterator<Item = (ApiKey, i16)> {
    [ApiKey::Produce, ApiKey::Fetch]
        .into_iter()
        .flat_map(|api| {
            let versions = api.spec().served;
            (versions.min..=versions.max).map(move |version| (api, version))
        })
}

#[test]
fn produce_and_fetch_are_read_as_the_wire_crate_reads_them() {
    for (api, version) in hot_versions() {
        let mut dice = Dice::new(u64::from(version.unsigned_abs()));
        for _ in 0..400 {
            let frame = frame(&mut dice, api, version);
            let Request { body, .. } = decode(&frame).unwrap();
            assert_eq!(
                Some(body),
                by_wire_crate(api, version, &frame),
                "{api} {version}"
            );
        }
    }
}

#[test]
fn damaged_produce_and_fetch_are_never_read_differently() {
    let (mut accepted, mut refused_by_both, mut stricter) = (0, 0, 0);
    for (api, version) in hot_versions() {
        let mut dice = Dice::new(1000 + u64::from(version.unsigned_abs()));
        for _ in 0..1500 {
            let mut bytes = frame(&mut dice, api, version).to_vec();
            let body = header_len(api, version);
            for _ in 0..=dice.below(3) {
                if bytes.len() > body {
                    let at = body + dice.below(bytes.len() - body);
                    bytes[at] = [0, 1, 2, 0x7f, 0x80, 0xff][dice.below(6)];
                }
            }
            let frame = Bytes::from(bytes);
            let by_wire_crate = by_wire_crate(api, version, &frame);
            match (decode(&frame), by_wire_crate) {
                (Ok(Request { body, .. }), theirs) => {
                    assert_eq!(Some(body), theirs, "{api} {version} {frame:?}");
                    accepted += 1;
                }
                (Err(_), None) => refused_by_both += 1,
                (Err(DecodeError::Body { fault, .. }), Some(_)) => {
                    // What the wire crate lets pass and Kafka does not.
                    let known = matches!(
                        fault,
                        Fault::Null | Fault::TagVersion(_) | Fault::TagSize(_) | Fault::Length(_)
                    );
                    assert!(known, "{api} {version} {fault} {frame:?}");
                    stricter += 1;
                }
                (Err(other), Some(_)) => panic!("{api} {version} {other} {frame:?}"),
            }
        }
    }
    assert!(accepted > 1000 && refused_by_both > 1000 && stricter > 10);
}

#[test]
fn null_records_are_not_empty_records() {
    for version in 3..=13 {
        let partition = |records| {
            let partition = wire_produce::PartitionProduceData::default().with_records(records);
            let topic =
                wire_produce::TopicProduceData::default().with_partition_data(vec![partition]);
            ProduceRequestData::default().with_topic_data(vec![topic])
        };
        let read = |data: &ProduceRequestData| {
            let frame = unframed(&encode_request(version, 1, "", data).unwrap());
            match decode(&frame).unwrap().body {
                RequestBody::Produce(body) => body.topics[0].partitions[0].records.clone(),
                _ => unreachable!(),
            }
        };
        assert_eq!(read(&partition(None)), None);
        assert_eq!(read(&partition(Some(Bytes::new()))), Some(Bytes::new()));
    }
}

#[test]
fn records_and_names_are_slices_of_the_frame() {
    let partition = wire_produce::PartitionProduceData::default()
        .with_records(Some(Bytes::from_static(b"some record batch")));
    let topic = wire_produce::TopicProduceData::default()
        .with_name("orders".to_owned().into())
        .with_partition_data(vec![partition]);
    let data = ProduceRequestData::default().with_topic_data(vec![topic]);
    let frame = unframed(&encode_request(9, 1, "", &data).unwrap());
    let RequestBody::Produce(body) = decode(&frame).unwrap().body else {
        unreachable!()
    };
    let inside = |bytes: &[u8]| frame.as_ptr_range().contains(&bytes.as_ptr());
    assert!(inside(body.topics[0].name.as_bytes()));
    assert!(inside(
        body.topics[0].partitions[0].records.as_ref().unwrap()
    ));
    let inline = matches!(body.topics, crate::protocol::Few::One(_));
    assert!(inline, "one topic needs no vector");
}
