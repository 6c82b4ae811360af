//! Produce: acknowledgements, partitions that exist or not, and several in one request.

use serde_json::{Value, json};

use super::{Cases, UNKNOWN_ID, ZERO_ID, list_body, log_state, produce_body};
use crate::batch::{Batch, Compression};

const API: &str = "Produce";

pub(crate) fn add(cases: &mut Cases<'_>) {
    every_version(cases);
    acknowledgements(cases);
    partitions(cases);
}

fn every_version(cases: &mut Cases<'_>) {
    cases.every_version(API, "batches_are_appended", |run, version| {
        let name = run.create_topic("t", 1);
        let id = run.topic_id(&name);
        run.send(
            API,
            version,
            produce_body(&name, &id, 0, Batch::with_records(3).hex()),
        );
        run.send(
            API,
            version,
            produce_body(&name, &id, 0, Batch::with_records(2).at(5).hex()),
        );
        log_state(run, &name, 0);
    });
    cases.every_version(API, "unknown_topic_and_partition", |run, version| {
        let (name, missing) = (run.create_topic("t", 2), run.topic("missing"));
        let id = run.topic_id(&name);
        let records = Batch::with_records(1).hex();
        run.send(
            API,
            version,
            json!({ "acks": -1, "timeoutMs": 10_000, "topicData": [
            { "name": missing, "topicId": UNKNOWN_ID, "partitionData": [
                { "index": 0, "records": records }, { "index": -1, "records": records },
            ] },
            { "name": name, "topicId": id, "partitionData": [
                { "index": 1, "records": records }, { "index": 2, "records": records },
                { "index": -1, "records": records }, { "index": i32::MAX, "records": records },
            ] },
        ] }),
        );
        run.send("ListOffsets", 7, list_body(&name, 1, -1));
    });
    cases.every_version(API, "acks_one_and_zero", |run, version| {
        let name = run.create_topic("t", 1);
        let id = run.topic_id(&name);
        let mut request = produce_body(&name, &id, 0, Batch::with_records(1).hex());
        request["acks"] = 1.into();
        run.send(API, version, request.clone());
        request["acks"] = 0.into();
        run.send_unanswered(API, version, request);
        run.send_until("ListOffsets", 7, list_body(&name, 0, -1), |answer| {
            answer["topics"][0]["partitions"][0]["offset"] == 2
        });
    });
    for compression in [
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        for version in cases.valid(API) {
            cases.one(
                API,
                version,
                &format!("codec_{compression:?}_is_kept").to_lowercase(),
                move |run| {
                    let name = run.create_topic("t", 1);
                    let id = run.topic_id(&name);
                    let batch = Batch::with_records(20).compressed(compression);
                    run.send(API, version, produce_body(&name, &id, 0, batch.hex()));
                    log_state(run, &name, 0);
                },
            );
        }
    }
    cases.every_version(API, "bad_checksum_is_refused", |run, version| {
        let name = run.create_topic("t", 1);
        let id = run.topic_id(&name);
        let batch = Batch::with_records(2).with(|batch| batch.crc = Some(1));
        run.send(API, version, produce_body(&name, &id, 0, batch.hex()));
        run.send("ListOffsets", 7, list_body(&name, 0, -1));
    });
    cases.every_version(
        API,
        "keyless_record_in_a_compacted_topic",
        |run, version| {
            let name = run.create_topic_with("t", 1, &[("cleanup.policy", "compact")]);
            let id = run.topic_id(&name);
            let batch =
                Batch::with_records(3).with(|batch| batch.records[1].key = Some(b"k".to_vec()));
            run.send(API, version, produce_body(&name, &id, 0, batch.hex()));
            run.send("ListOffsets", 7, list_body(&name, 0, -1));
        },
    );
}

fn acknowledgements(cases: &mut Cases<'_>) {
    for acks in [2, -2, i16::MAX] {
        cases.one(API, 9, &format!("acks_of_{acks}"), move |run| {
            let name = run.create_topic("t", 1);
            let missing = run.topic("missing");
            let records = Batch::with_records(1).hex();
            run.send(API, 9, json!({ "acks": acks, "timeoutMs": 10_000, "topicData": [
                { "name": name, "partitionData": [{ "index": 0, "records": records }, { "index": 7, "records": records }] },
                { "name": missing, "partitionData": [{ "index": 0, "records": records }] },
            ] }));
            run.send("ListOffsets", 7, list_body(&name, 0, -1));
        });
    }
    for acks in [1, -1] {
        for timeout in [0, -1, i32::MAX] {
            cases.one(
                API,
                9,
                &format!("acks_of_{acks}_with_timeout_of_{timeout}"),
                move |run| {
                    let name = run.create_topic("t", 1);
                    let mut request =
                        produce_body(&name, &Value::Null, 0, Batch::with_records(1).hex());
                    request["acks"] = acks.into();
                    request["timeoutMs"] = timeout.into();
                    run.send(API, 9, request);
                    run.send("ListOffsets", 7, list_body(&name, 0, -1));
                },
            );
        }
    }
    cases.one(API, 9, "acks_all_with_too_few_replicas", |run| {
        let name = run.create_topic_with("t", 1, &[("min.insync.replicas", "2")]);
        for acks in [-1, 1] {
            let mut request = produce_body(&name, &Value::Null, 0, Batch::with_records(1).hex());
            request["acks"] = acks.into();
            run.send(API, 9, request);
        }
        log_state(run, &name, 0);
    });
    let refused = [
        ("unknown_partition", 5, Batch::with_records(1).hex()),
        (
            "bad_checksum",
            0,
            Batch::with_records(1)
                .with(|batch| batch.crc = Some(1))
                .hex(),
        ),
        ("null_records", 0, Value::Null),
        ("empty_records", 0, json!("0x")),
    ];
    for (claim, partition, records) in refused {
        cases.one(API, 9, &format!("acks_zero_with_{claim}"), move |run| {
            let name = run.create_topic("t", 1);
            let mut request = produce_body(&name, &Value::Null, partition, records.clone());
            request["acks"] = 0.into();
            run.send_unanswered(API, 9, request);
        });
    }
    cases.one(API, 9, "acks_zero_to_an_unknown_topic", |run| {
        let name = run.topic("missing");
        let mut request = produce_body(&name, &Value::Null, 0, Batch::with_records(1).hex());
        request["acks"] = 0.into();
        run.send_unanswered(API, 9, request);
    });
}

fn partitions(cases: &mut Cases<'_>) {
    cases.one(API, 9, "good_and_bad_partitions_in_one_request", |run| {
        let (one, two) = (run.create_topic("one", 2), run.create_topic("two", 1));
        let (good, bad) = (Batch::with_records(2).hex(), Batch::with_records(2).with(|batch| batch.crc = Some(7)).hex());
        run.send(API, 9, json!({ "acks": -1, "timeoutMs": 10_000, "topicData": [
            { "name": one, "partitionData": [{ "index": 0, "records": good }, { "index": 1, "records": bad }] },
            { "name": two, "partitionData": [{ "index": 0, "records": good }] },
        ] }));
        for (name, partition) in [(&one, 0), (&one, 1), (&two, 0)] {
            run.send("ListOffsets", 7, list_body(name, partition, -1));
        }
    });
    cases.one(API, 9, "partition_named_twice", |run| {
        let name = run.create_topic("t", 1);
        let (one, two) = (Batch::with_records(1).hex(), Batch::with_records(2).hex());
        run.send(API, 9, json!({ "acks": -1, "timeoutMs": 10_000, "topicData": [
            { "name": name, "partitionData": [{ "index": 0, "records": one }, { "index": 0, "records": two }] },
        ] }));
        log_state(run, &name, 0);
    });
    cases.one(API, 9, "topic_named_twice", |run| {
        let name = run.create_topic("t", 2);
        let records = Batch::with_records(1).hex();
        run.send(
            API,
            9,
            json!({ "acks": -1, "timeoutMs": 10_000, "topicData": [
            { "name": name, "partitionData": [{ "index": 0, "records": records }] },
            { "name": name, "partitionData": [{ "index": 1, "records": records }] },
        ] }),
        );
    });
    for acks in [-1, 1] {
        cases.one(
            API,
            9,
            &format!("no_topics_with_acks_of_{acks}"),
            move |run| {
                run.send(
                    API,
                    9,
                    json!({ "acks": acks, "timeoutMs": 10_000, "topicData": [] }),
                );
            },
        );
    }
    cases.one(API, 9, "topic_without_partitions", |run| {
        let name = run.create_topic("t", 1);
        run.send(API, 9, json!({ "acks": -1, "timeoutMs": 10_000, "topicData": [{ "name": name, "partitionData": [] }] }));
    });
    for (claim, name) in [
        ("empty", ""),
        ("dot", "."),
        ("with_slash", "a/b"),
        ("internal_metadata", "__cluster_metadata"),
    ] {
        cases.one(API, 9, &format!("topic_name_{claim}"), move |run| {
            run.send(
                API,
                9,
                produce_body(name, &Value::Null, 0, Batch::with_records(1).hex()),
            );
        });
    }
    cases.one(API, 13, "zero_id", |run| {
        run.send(
            API,
            13,
            produce_body("", &json!(ZERO_ID), 0, Batch::with_records(1).hex()),
        );
    });
    cases.one(API, 13, "id_named_twice", |run| {
        let name = run.create_topic("t", 2);
        let id = run.topic_id(&name);
        let records = Batch::with_records(1).hex();
        run.send(
            API,
            13,
            json!({ "acks": -1, "timeoutMs": 10_000, "topicData": [
            { "topicId": id, "partitionData": [{ "index": 0, "records": records }] },
            { "topicId": id, "partitionData": [{ "index": 1, "records": records }] },
        ] }),
        );
    });
    cases.one(
        API,
        9,
        "transactional_id_without_transactional_records",
        |run| {
            let name = run.create_topic("t", 1);
            let mut request = produce_body(&name, &Value::Null, 0, Batch::with_records(1).hex());
            request["transactionalId"] = "tx".into();
            run.send(API, 9, request);
            run.send("ListOffsets", 7, list_body(&name, 0, -1));
        },
    );
    cases.one(API, 9, "unknown_topic_is_not_created", |run| {
        let name = run.topic("missing");
        run.send(
            API,
            9,
            produce_body(&name, &Value::Null, 0, Batch::with_records(1).hex()),
        );
        run.send(
            "Metadata",
            9,
            json!({ "topics": [{ "name": name }], "allowAutoTopicCreation": false }),
        );
    });
}
