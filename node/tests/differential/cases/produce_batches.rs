//! Produce with batches that are broken, strange or at the edge of what is allowed.

use serde_json::{Value, json};

use super::{Cases, log_state, produce_body};
use crate::{
    batch::{Batch, EPOCH_MS, put_varint},
    run::Run,
    wire::hex,
};

const API: &str = "Produce";

pub(crate) fn add(cases: &mut Cases<'_>) {
    headers(cases);
    records(cases);
    framing(cases);
}

/// Sends one `records` field to a fresh topic and records what became of it.
pub(super) fn append(run: &mut Run<'_>, version: i16, configs: &[(&str, &str)], records: Value) {
    let name = run.create_topic_with("t", 1, configs);
    // Kafka never answers a request without records.
    let unsure = records.is_null();
    let request = produce_body(&name, &Value::Null, 0, records);
    if unsure {
        run.send_oddity(API, version, &request);
        run.reconnect();
    } else {
        run.send(API, version, request);
    }
    log_state(run, &name, 0);
}

fn headers(cases: &mut Cases<'_>) {
    type Change = fn(&mut Batch);
    let changes: [(&str, Change); 37] = [
        ("base_offset_of_5", |b| b.base_offset = 5),
        ("negative_base_offset", |b| b.base_offset = -1),
        ("largest_base_offset", |b| b.base_offset = i64::MAX),
        ("leader_epoch_of_0", |b| b.leader_epoch = 0),
        ("leader_epoch_of_7", |b| b.leader_epoch = 7),
        ("magic_of_0", |b| b.magic = 0),
        ("magic_of_1", |b| b.magic = 1),
        ("magic_of_3", |b| b.magic = 3),
        ("negative_magic", |b| b.magic = -1),
        ("wrong_checksum", |b| b.crc = Some(0)),
        ("count_too_small", |b| b.count = Some(2)),
        ("count_too_large", |b| b.count = Some(4)),
        ("count_of_zero", |b| b.count = Some(0)),
        ("negative_count", |b| b.count = Some(-1)),
        ("largest_count", |b| b.count = Some(i32::MAX)),
        ("last_offset_delta_too_small", |b| {
            b.last_offset_delta = Some(1)
        }),
        ("last_offset_delta_too_large", |b| {
            b.last_offset_delta = Some(3)
        }),
        ("last_offset_delta_of_zero", |b| {
            b.last_offset_delta = Some(0)
        }),
        ("negative_last_offset_delta", |b| {
            b.last_offset_delta = Some(-1)
        }),
        ("largest_last_offset_delta", |b| {
            b.last_offset_delta = Some(i32::MAX)
        }),
        ("count_and_delta_agreeing_on_5", |b| {
            (b.count, b.last_offset_delta) = (Some(5), Some(4))
        }),
        ("codec_5", |b| b.attributes = 5),
        ("codec_6", |b| b.attributes = 6),
        ("codec_7", |b| b.attributes = 7),
        ("append_time_bit", |b| b.attributes = 8),
        ("transactional_bit", |b| b.attributes = 16),
        ("control_bit", |b| b.attributes = 32),
        ("delete_horizon_bit", |b| b.attributes = 64),
        ("unused_attribute_bit", |b| b.attributes = 128),
        ("highest_attribute_bit", |b| b.attributes = i16::MIN),
        ("producer_id_without_sequence", |b| b.producer_id = 5),
        ("producer_id_and_epoch_without_sequence", |b| {
            (b.producer_id, b.producer_epoch) = (5, 0)
        }),
        ("sequence_without_producer_id", |b| b.base_sequence = 0),
        ("idempotent_first_sequence", |b| {
            (b.producer_id, b.producer_epoch, b.base_sequence) = (900_001, 0, 0)
        }),
        ("idempotent_late_sequence", |b| {
            (b.producer_id, b.producer_epoch, b.base_sequence) = (900_002, 0, 10)
        }),
        ("idempotent_negative_epoch", |b| {
            (b.producer_id, b.producer_epoch, b.base_sequence) = (900_003, -1, 0)
        }),
        ("transactional_producer", |b| {
            (
                b.producer_id,
                b.producer_epoch,
                b.base_sequence,
                b.attributes,
            ) = (900_004, 0, 0, 16);
        }),
    ];
    for (claim, change) in changes {
        cases.one(API, 9, &format!("batch_with_{claim}"), move |run| {
            append(run, 9, &[], Batch::with_records(3).with(change).hex());
        });
    }
    cases.one(
        API,
        9,
        "transactional_batch_under_its_transactional_id",
        |run| {
            let name = run.create_topic("t", 1);
            let batch = Batch::with_records(1).with(|b| {
                (
                    b.producer_id,
                    b.producer_epoch,
                    b.base_sequence,
                    b.attributes,
                ) = (900_005, 0, 0, 16);
            });
            let mut request = produce_body(&name, &Value::Null, 0, batch.hex());
            request["transactionalId"] = "tx".into();
            run.send(API, 9, request);
        },
    );
}

fn records(cases: &mut Cases<'_>) {
    type Change = fn(&mut Batch);
    let changes: [(&str, Change); 14] = [
        ("no_records", |b| b.records.clear()),
        ("no_records_and_matching_header", |b| {
            b.records.clear();
            (b.count, b.last_offset_delta) = (Some(0), Some(0));
        }),
        ("null_value", |b| b.records[1].value = None),
        ("empty_key_and_value", |b| {
            (b.records[1].key, b.records[1].value) = (Some(Vec::new()), Some(Vec::new()))
        }),
        ("headers", |b| {
            b.records[0].headers = vec![
                ("h".to_owned(), Some(b"v".to_vec())),
                ("n".to_owned(), None),
            ]
        }),
        ("offset_deltas_out_of_order", |b| b.records.swap(0, 1)),
        ("offset_deltas_all_zero", |b| {
            b.records
                .iter_mut()
                .for_each(|record| record.offset_delta = 0);
            b.last_offset_delta = Some(2);
        }),
        ("offset_deltas_with_a_gap", |b| {
            b.records[2].offset_delta = 7
        }),
        ("negative_timestamp_delta", |b| {
            b.records[1].timestamp_delta = -5
        }),
        ("max_timestamp_too_small", |b| {
            b.max_timestamp = Some(EPOCH_MS)
        }),
        ("max_timestamp_too_large", |b| {
            b.max_timestamp = Some(EPOCH_MS + 100)
        }),
        ("max_timestamp_of_minus_one", |b| b.max_timestamp = Some(-1)),
        ("bytes_after_the_records", |b| {
            b.payload = Some([b.encoded_records(), vec![0; 5]].concat())
        }),
        ("records_cut_short", |b| {
            let mut bytes = b.encoded_records();
            bytes.pop();
            b.payload = Some(bytes);
        }),
    ];
    for (claim, change) in changes {
        cases.one(API, 9, &format!("batch_with_{claim}"), move |run| {
            append(run, 9, &[], Batch::with_records(3).with(change).hex());
        });
        cases.one(
            API,
            9,
            &format!("compacted_topic_and_batch_with_{claim}"),
            move |run| {
                let mut batch = Batch::with_records(3);
                batch
                    .records
                    .iter_mut()
                    .for_each(|record| record.key = Some(b"k".to_vec()));
                append(
                    run,
                    9,
                    &[("cleanup.policy", "compact")],
                    batch.with(change).hex(),
                );
            },
        );
    }
    let payloads: [(&str, Vec<u8>); 5] = [
        ("record_of_negative_length", vec![1]),
        (
            "record_of_huge_length",
            vec![0xff, 0xff, 0xff, 0xff, 0x0f, 0],
        ),
        ("endless_length", vec![0xff; 20]),
        ("record_of_length_zero", vec![0]),
        ("null_header_key", {
            let mut body = vec![0];
            [0, 0, -1, -1, 1, -1, -1]
                .into_iter()
                .for_each(|value| put_varint(&mut body, value));
            let mut record = Vec::new();
            put_varint(
                &mut record,
                i64::try_from(body.len()).expect("a small record"),
            );
            [record, body].concat()
        }),
    ];
    for (claim, payload) in payloads {
        cases.one(API, 9, &format!("batch_with_{claim}"), move |run| {
            let batch = Batch::with_records(1).with(|b| b.payload = Some(payload.clone()));
            append(run, 9, &[], batch.hex());
        });
    }
}

fn framing(cases: &mut Cases<'_>) {
    let one = Batch::with_records(2);
    let bytes = one.bytes();
    let cut = |size: usize| hex(&bytes[..size]);
    let fields: Vec<(&str, Value)> = vec![
        ("null", Value::Null),
        ("empty", json!("0x")),
        ("one_byte", json!("0x00")),
        ("eleven_bytes", json!(cut(11))),
        ("header_only", json!(cut(61))),
        ("header_cut_short", json!(cut(40))),
        ("all_but_one_byte", json!(cut(bytes.len() - 1))),
        ("a_byte_too_much", json!(hex(&[&bytes[..], &[0]].concat()))),
        (
            "zeros_after_the_batch",
            json!(hex(&[&bytes[..], &[0; 80]].concat())),
        ),
        ("zeros", json!(hex(&[0; 80]))),
        (
            "two_batches",
            json!(hex(&[one.bytes(), one.bytes()].concat())),
        ),
        (
            "a_batch_and_half_of_one",
            json!(hex(&[&bytes[..], &bytes[..50]].concat())),
        ),
        (
            "length_of_zero",
            one.clone().with(|b| b.length = Some(0)).hex(),
        ),
        (
            "negative_length",
            one.clone().with(|b| b.length = Some(-1)).hex(),
        ),
        (
            "length_below_a_header",
            one.clone().with(|b| b.length = Some(13)).hex(),
        ),
        (
            "length_too_small",
            one.clone().with(|b| b.length = Some(50)).hex(),
        ),
        (
            "length_one_too_small",
            one.clone()
                .with(|b| b.length = Some(i32::try_from(b.bytes().len()).expect("small") - 13))
                .hex(),
        ),
        (
            "length_one_too_large",
            one.clone()
                .with(|b| b.length = Some(i32::try_from(b.bytes().len()).expect("small") - 11))
                .hex(),
        ),
        (
            "largest_length",
            one.with(|b| b.length = Some(i32::MAX)).hex(),
        ),
    ];
    for (claim, records) in fields {
        cases.one(API, 9, &format!("records_field_with_{claim}"), move |run| {
            append(run, 9, &[], records.clone())
        });
    }
}
