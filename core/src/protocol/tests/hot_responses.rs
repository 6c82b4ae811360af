//! The encoders of Produce and Fetch, held against the wire crate.

use bytes::{Bytes, BytesMut};

use super::{Dice, unframed};
use crate::protocol::{
    AbortedTransaction, EncodeError, EpochEndOffset, ErrorCode, FetchPartitionResponse,
    FetchRecords, FetchResponse, FetchTopicResponse, FramePart, LeaderIdAndEpoch, NodeEndpoint,
    ProducePartitionResponse, ProduceResponse, ProduceTopicResponse, RecordError, SnapshotId,
    decode_response, encode_fetch_response, encode_response,
    messages::{
        FetchRequestData, FetchResponseData, ProduceRequestData, ProduceResponseData,
        wire::{fetch_response as wire_fetch, produce_response as wire_produce},
    },
};

fn error(dice: &mut Dice) -> ErrorCode {
    ErrorCode::ALL[dice.below(ErrorCode::ALL.len())]
}

fn leader(dice: &mut Dice) -> LeaderIdAndEpoch {
    LeaderIdAndEpoch {
        leader_id: dice.i32(),
        leader_epoch: dice.i32(),
    }
}

fn nodes(dice: &mut Dice) -> Vec<NodeEndpoint> {
    dice.many(|dice| NodeEndpoint {
        node_id: dice.i32(),
        host: dice.text(),
        port: dice.i32(),
        rack: dice.maybe_text(),
    })
}

fn produce(dice: &mut Dice) -> ProduceResponse {
    let topics = dice.many(|dice| ProduceTopicResponse {
        name: dice.text(),
        topic_id: dice.uuid(),
        partitions: dice
            .many(|dice| ProducePartitionResponse {
                index: dice.i32(),
                error_code: error(dice),
                base_offset: dice.i64(),
                log_append_time_ms: dice.i64(),
                log_start_offset: dice.i64(),
                record_errors: dice.many(|dice| RecordError {
                    batch_index: dice.i32(),
                    message: dice.maybe_text(),
                }),
                error_message: dice.maybe_text(),
                current_leader: leader(dice),
            })
            .into(),
    });
    ProduceResponse {
        topics: topics.into(),
        throttle_time_ms: dice.i32(),
        node_endpoints: nodes(dice),
    }
}

fn as_wire_produce(ours: &ProduceResponse) -> ProduceResponseData {
    let partition = |ours: &ProducePartitionResponse| {
        wire_produce::PartitionProduceResponse::default()
            .with_index(ours.index)
            .with_error_code(ours.error_code.code())
            .with_base_offset(ours.base_offset)
            .with_log_append_time_ms(ours.log_append_time_ms)
            .with_log_start_offset(ours.log_start_offset)
            .with_record_errors(
                ours.record_errors
                    .iter()
                    .map(|error| {
                        wire_produce::BatchIndexAndErrorMessage::default()
                            .with_batch_index(error.batch_index)
                            .with_batch_index_error_message(error.message.clone())
                    })
                    .collect(),
            )
            .with_error_message(ours.error_message.clone())
            .with_current_leader(
                wire_produce::LeaderIdAndEpoch::default()
                    .with_leader_id(ours.current_leader.leader_id)
                    .with_leader_epoch(ours.current_leader.leader_epoch),
            )
    };
    let topic = |ours: &ProduceTopicResponse| {
        wire_produce::TopicProduceResponse::default()
            .with_name(ours.name.clone())
            .with_topic_id(ours.topic_id)
            .with_partition_responses(ours.partitions.iter().map(partition).collect())
    };
    let node = |ours: &NodeEndpoint| {
        wire_produce::NodeEndpoint::default()
            .with_node_id(ours.node_id)
            .with_host(ours.host.clone())
            .with_port(ours.port)
            .with_rack(ours.rack.clone())
    };
    ProduceResponseData::default()
        .with_responses(ours.topics.iter().map(topic).collect())
        .with_throttle_time_ms(ours.throttle_time_ms)
        .with_node_endpoints(ours.node_endpoints.iter().map(node).collect())
}

fn fetch_partition(dice: &mut Dice, slots: &mut Vec<Bytes>) -> FetchPartitionResponse {
    let records = match dice.below(4) {
        0 => None,
        1 => Some(FetchRecords::default()),
        _ => {
            let records = Bytes::from(dice.bytes(300));
            let slot = u32::try_from(slots.len()).unwrap();
            let len = records.len();
            slots.push(records);
            Some(FetchRecords { slot, len })
        }
    };
    let aborted = dice.many(|dice| AbortedTransaction {
        producer_id: dice.i64(),
        first_offset: dice.i64(),
    });
    FetchPartitionResponse {
        partition_index: dice.i32(),
        error_code: error(dice),
        high_watermark: dice.i64(),
        last_stable_offset: dice.i64(),
        log_start_offset: dice.i64(),
        diverging_epoch: EpochEndOffset {
            epoch: dice.i32(),
            end_offset: dice.i64(),
        },
        current_leader: leader(dice),
        snapshot_id: SnapshotId {
            end_offset: dice.i64(),
            epoch: dice.i32(),
        },
        aborted_transactions: (!dice.one_in(2)).then_some(aborted),
        preferred_read_replica: dice.i32(),
        records,
    }
}

fn fetch(dice: &mut Dice, slots: &mut Vec<Bytes>) -> FetchResponse {
    let topics = dice.many(|dice| FetchTopicResponse {
        topic: dice.text(),
        topic_id: dice.uuid(),
        partitions: dice.many(|dice| fetch_partition(dice, slots)).into(),
    });
    FetchResponse {
        throttle_time_ms: dice.i32(),
        error_code: error(dice),
        session_id: dice.i32(),
        topics: topics.into(),
        node_endpoints: nodes(dice),
    }
}

fn as_wire_partition(
    ours: &FetchPartitionResponse,
    slots: &[Bytes],
    version: i16,
) -> wire_fetch::PartitionData {
    let aborted = |ours: &AbortedTransaction| {
        wire_fetch::AbortedTransaction::default()
            .with_producer_id(ours.producer_id)
            .with_first_offset(ours.first_offset)
    };
    let records = ours.records.map(|records| match records.len {
        0 => Bytes::new(),
        _ => slots[usize::try_from(records.slot).unwrap()].clone(),
    });
    let data = wire_fetch::PartitionData::default()
        .with_partition_index(ours.partition_index)
        .with_error_code(ours.error_code.code())
        .with_high_watermark(ours.high_watermark)
        .with_last_stable_offset(ours.last_stable_offset)
        .with_log_start_offset(ours.log_start_offset)
        .with_diverging_epoch(
            wire_fetch::EpochEndOffset::default()
                .with_epoch(ours.diverging_epoch.epoch)
                .with_end_offset(ours.diverging_epoch.end_offset),
        )
        .with_current_leader(
            wire_fetch::LeaderIdAndEpoch::default()
                .with_leader_id(ours.current_leader.leader_id)
                .with_leader_epoch(ours.current_leader.leader_epoch),
        )
        .with_snapshot_id(
            wire_fetch::SnapshotId::default()
                .with_epoch(ours.snapshot_id.epoch)
                .with_end_offset(ours.snapshot_id.end_offset),
        )
        .with_aborted_transactions(
            ours.aborted_transactions
                .as_ref()
                .map(|all| all.iter().map(aborted).collect()),
        )
        .with_records(records);
    // The wire crate fails on this field before version 11; ours leaves it out.
    if version >= 11 {
        data.with_preferred_read_replica(ours.preferred_read_replica)
    } else {
        data
    }
}

fn as_wire_fetch(ours: &FetchResponse, slots: &[Bytes], version: i16) -> FetchResponseData {
    let topic = |ours: &FetchTopicResponse| {
        let partitions = ours.partitions.iter();
        wire_fetch::FetchableTopicResponse::default()
            .with_topic(ours.topic.clone())
            .with_topic_id(ours.topic_id)
            .with_partitions(
                partitions
                    .map(|ours| as_wire_partition(ours, slots, version))
                    .collect(),
            )
    };
    let node = |ours: &NodeEndpoint| {
        wire_fetch::NodeEndpoint::default()
            .with_node_id(ours.node_id)
            .with_host(ours.host.clone())
            .with_port(ours.port)
            .with_rack(ours.rack.clone())
    };
    FetchResponseData::default()
        .with_throttle_time_ms(ours.throttle_time_ms)
        .with_error_code(ours.error_code.code())
        .with_session_id(if version >= 7 { ours.session_id } else { 0 })
        .with_responses(ours.topics.iter().map(topic).collect())
        .with_node_endpoints(ours.node_endpoints.iter().map(node).collect())
}

/// Puts the records into the gaps, as the driver does when it sends the parts.
pub(super) fn joined(parts: &[FramePart], slots: &[Bytes]) -> Bytes {
    let mut bytes = Vec::new();
    for part in parts {
        match part {
            FramePart::Head(head) => bytes.extend_from_slice(head),
            FramePart::Records(records) => {
                let slot = &slots[usize::try_from(records.slot).unwrap()];
                assert_eq!(slot.len(), records.len);
                bytes.extend_from_slice(slot);
            }
        }
    }
    bytes.into()
}

#[test]
fn produce_answers_are_byte_for_byte_those_of_the_wire_crate() {
    for version in 3_i16..=13 {
        let mut dice = Dice::new(u64::from(version.unsigned_abs()));
        for _ in 0..300 {
            let ours = produce(&mut dice);
            let frame = encode_response(version, -5, ours.clone().into()).unwrap();
            let frame = unframed(&frame);
            let mut theirs = BytesMut::new();
            theirs.extend_from_slice(&(-5_i32).to_be_bytes());
            if version >= 9 {
                theirs.extend_from_slice(&[0]);
            }
            as_wire_produce(&ours).write(&mut theirs, version).unwrap();
            assert_eq!(frame, theirs.freeze(), "version {version}");
            let (id, _) = decode_response::<ProduceRequestData>(version, &frame).unwrap();
            assert_eq!(id, -5);
        }
    }
}

#[test]
fn fetch_answers_with_their_gaps_filled_are_byte_for_byte_those_of_the_wire_crate() {
    for version in 4_i16..=18 {
        let mut dice = Dice::new(u64::from(version.unsigned_abs()));
        for _ in 0..300 {
            let mut slots = Vec::new();
            let ours = fetch(&mut dice, &mut slots);
            let frame = encode_fetch_response(version, 9, &ours).unwrap();
            let bytes = joined(&frame.parts, &slots);
            assert_eq!(bytes.len(), frame.len, "the length is known beforehand");
            let bytes = unframed(&bytes);
            let mut theirs = BytesMut::new();
            theirs.extend_from_slice(&9_i32.to_be_bytes());
            if version >= 12 {
                theirs.extend_from_slice(&[0]);
            }
            as_wire_fetch(&ours, &slots, version)
                .write(&mut theirs, version)
                .unwrap();
            assert_eq!(bytes, theirs.freeze(), "version {version}");
            let (id, _) = decode_response::<FetchRequestData>(version, &bytes).unwrap();
            assert_eq!(id, 9);
        }
    }
}

#[test]
fn an_answer_of_more_than_two_gigabytes_is_refused() {
    let partition = |slot| FetchPartitionResponse {
        records: Some(FetchRecords { slot, len: 1 << 30 }),
        ..FetchPartitionResponse::default()
    };
    let topic = FetchTopicResponse {
        partitions: vec![partition(0), partition(1)].into(),
        ..FetchTopicResponse::default()
    };
    let response = FetchResponse {
        topics: vec![topic].into(),
        ..FetchResponse::default()
    };
    for version in 4_i16..=18 {
        let answer = encode_fetch_response(version, 1, &response);
        assert!(matches!(
            answer,
            Err(EncodeError::TooLong { field: "frame" })
        ));
    }
    assert!(matches!(
        encode_fetch_response(19, 1, &FetchResponse::default()),
        Err(EncodeError::Version { version: 19, .. })
    ));
}
