//! Fetch without sessions: offsets at every edge, limits, waiting, epochs and ids.

use serde_json::{Value, json};

use super::{Cases, UNKNOWN_ID, ZERO_ID, fetch_body};
use crate::{
    batch::{Batch, Compression},
    run::Run,
};

const API: &str = "Fetch";

pub(crate) fn add(cases: &mut Cases<'_>) {
    every_version(cases);
    offsets(cases);
    limits(cases);
    waiting(cases);
    epochs(cases);
    topics(cases);
}

/// A topic with two partitions; the first holds three batches: offsets 0–2, 3 and 4–8.
fn filled(run: &mut Run<'_>) -> (String, Value) {
    let name = run.create_topic("t", 2);
    for count in [3, 1, 5] {
        run.produce(&name, 0, &Batch::with_records(count));
    }
    let id = run.topic_id(&name);
    (name, id)
}

/// A body with one topic and the partitions as `[partition, offset, max bytes]`.
fn body(name: &str, id: &Value, partitions: &[(i32, i64, i32)]) -> Value {
    let partition = |&(partition, offset, bytes_max): &(i32, i64, i32)| json!({ "partition": partition, "fetchOffset": offset, "partitionMaxBytes": bytes_max });
    let partitions: Vec<_> = partitions.iter().map(partition).collect();
    json!({ "maxWaitMs": 0, "minBytes": 0, "topics": [{ "topic": name, "topicId": id, "partitions": partitions }] })
}

const ALL: i32 = 1_048_576;

fn every_version(cases: &mut Cases<'_>) {
    cases.every_version(API, "gives_whole_batches", |run, version| {
        let (name, id) = filled(run);
        run.send(API, version, body(&name, &id, &[(0, 0, ALL), (1, 0, ALL)]));
    });
    cases.every_version(API, "offset_is_out_of_range", |run, version| {
        let (name, id) = filled(run);
        run.send(API, version, body(&name, &id, &[(0, 10, ALL), (1, 0, ALL)]));
        run.send(API, version, body(&name, &id, &[(0, -1, ALL), (1, 1, ALL)]));
    });
    cases.every_version(API, "unknown_topic_and_partition", |run, version| {
        let (name, id) = filled(run);
        let missing = run.topic("missing");
        let partition = |index: i32| json!({ "partition": index, "fetchOffset": 0, "partitionMaxBytes": ALL });
        run.send(API, version, json!({ "maxWaitMs": 500, "minBytes": 1, "topics": [
            { "topic": missing, "topicId": UNKNOWN_ID, "partitions": [partition(0), partition(-1)] },
            { "topic": name, "topicId": id, "partitions": [partition(1), partition(2), partition(-1)] },
        ] }));
    });
    cases.every_version(
        API,
        "first_batch_comes_whole_past_every_limit",
        |run, version| {
            let (name, id) = filled(run);
            let mut request = body(&name, &id, &[(0, 0, 1), (1, 0, 1)]);
            request["maxBytes"] = 1.into();
            run.send(API, version, request);
        },
    );
    cases.every_version(API, "committed_records_are_all_of_them", |run, version| {
        let (name, id) = filled(run);
        let mut request = body(&name, &id, &[(0, 3, ALL)]);
        request["isolationLevel"] = 1.into();
        run.send(API, version, request);
    });
    cases.every_version(API, "zstd_needs_version_10", |run, version| {
        let name = run.create_topic("t", 1);
        run.produce(
            &name,
            0,
            &Batch::with_records(20).compressed(Compression::Zstd),
        );
        let id = run.topic_id(&name);
        run.send(API, version, body(&name, &id, &[(0, 0, ALL)]));
    });
    cases.every_version(
        API,
        "follower_fields_of_a_consumer_are_ignored",
        |run, version| {
            let (name, id) = filled(run);
            let mut request = body(&name, &id, &[(0, 3, ALL)]);
            request["topics"][0]["partitions"][0]["logStartOffset"] = 77.into();
            request["rackId"] = "somewhere".into();
            run.send(API, version, request);
        },
    );
}

fn offsets(cases: &mut Cases<'_>) {
    for offset in [0, 1, 2, 3, 4, 6, 8, 9, 10, -1, -2, i64::MAX, i64::MIN] {
        for version in [4, 11, 12, 18] {
            cases.one(API, version, &format!("from_offset_{offset}"), move |run| {
                let (name, id) = filled(run);
                run.send(API, version, body(&name, &id, &[(0, offset, ALL)]));
            });
        }
    }
    for offset in [0, 3, 4, 5, 8, 9] {
        cases.one(
            API,
            12,
            &format!("from_offset_{offset}_where_5_is_the_first"),
            move |run| {
                let (name, id) = filled(run);
                run.quietly(
                    "DeleteRecords",
                    2,
                    json!({ "timeoutMs": 10_000, "topics": [
                { "name": name, "partitions": [{ "partitionIndex": 0, "offset": 5 }] },
            ] }),
                );
                run.send(API, 12, body(&name, &id, &[(0, offset, ALL)]));
            },
        );
    }
    for codec in [
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        cases.one(
            API,
            12,
            &format!("from_the_middle_of_a_{codec:?}_batch").to_lowercase(),
            move |run| {
                let name = run.create_topic("t", 1);
                run.produce(&name, 0, &Batch::with_records(20).compressed(codec));
                run.send(API, 12, body(&name, &Value::Null, &[(0, 7, ALL)]));
            },
        );
    }
}

fn limits(cases: &mut Cases<'_>) {
    let first = i32::try_from(Batch::with_records(3).bytes().len()).expect("a small batch");
    let second = i32::try_from(Batch::with_records(1).bytes().len()).expect("a small batch");
    for bytes_max in [
        0,
        1,
        first - 1,
        first,
        first + 1,
        first + second - 1,
        first + second,
        -1,
        i32::MAX,
        i32::MIN,
    ] {
        cases.one(
            API,
            12,
            &format!("partition_limit_of_{bytes_max}_bytes"),
            move |run| {
                let (name, id) = filled(run);
                run.send(API, 12, body(&name, &id, &[(0, 0, bytes_max)]));
            },
        );
        cases.one(
            API,
            12,
            &format!("limit_of_{bytes_max}_bytes"),
            move |run| {
                let (name, id) = filled(run);
                let mut request = body(&name, &id, &[(0, 0, ALL)]);
                request["maxBytes"] = bytes_max.into();
                run.send(API, 12, request);
            },
        );
    }
    for bytes_max in [1, 200, 300, 400] {
        cases.one(
            API,
            12,
            &format!("limit_of_{bytes_max}_bytes_over_two_partitions"),
            move |run| {
                let (name, id) = filled(run);
                run.produce(&name, 1, &Batch::with_records(2));
                run.produce(&name, 1, &Batch::with_records(4));
                for partitions in [[(0, 0, ALL), (1, 0, ALL)], [(1, 0, ALL), (0, 0, ALL)]] {
                    let mut request = body(&name, &id, &partitions);
                    request["maxBytes"] = bytes_max.into();
                    run.send(API, 12, request);
                }
            },
        );
    }
    cases.one(
        API,
        12,
        "empty_partition_does_not_use_up_the_first_batch",
        |run| {
            let (name, id) = filled(run);
            let mut request = body(&name, &id, &[(1, 0, 1), (0, 0, 1)]);
            request["maxBytes"] = 1.into();
            run.send(API, 12, request);
        },
    );
}

fn waiting(cases: &mut Cases<'_>) {
    let timed =
        |run: &mut Run<'_>, partitions: &[(i32, i64, i32)], bytes_min: i32, wait_ms: i32| {
            let (name, id) = filled(run);
            let mut request = body(&name, &id, partitions);
            request["minBytes"] = bytes_min.into();
            request["maxWaitMs"] = wait_ms.into();
            run.send_timed(API, 12, request, 400);
        };
    cases.one(API, 12, "nothing_to_read_waits", move |run| {
        timed(run, &[(0, 9, ALL)], 1, 400)
    });
    cases.one(API, 12, "nothing_wanted_does_not_wait", move |run| {
        timed(run, &[(0, 9, ALL)], 0, 400)
    });
    cases.one(API, 12, "enough_to_read_does_not_wait", move |run| {
        timed(run, &[(0, 0, ALL)], 1, 400)
    });
    cases.one(API, 12, "too_little_to_read_waits", move |run| {
        timed(run, &[(0, 0, ALL)], 100_000, 400)
    });
    cases.one(
        API,
        12,
        "too_little_within_the_limit_of_the_partition",
        move |run| timed(run, &[(0, 0, 100)], 100_000, 400),
    );
    cases.one(API, 12, "error_beside_an_empty_partition", move |run| {
        timed(run, &[(1, 0, ALL), (0, 99, ALL)], 1, 400)
    });
    cases.one(
        API,
        12,
        "unknown_partition_beside_an_empty_one",
        move |run| timed(run, &[(1, 0, ALL), (7, 0, ALL)], 1, 400),
    );
    cases.one(API, 12, "wait_of_zero_does_not_wait", move |run| {
        timed(run, &[(0, 9, ALL)], 1, 0)
    });
    cases.one(API, 12, "negative_wait_does_not_wait", move |run| {
        timed(run, &[(0, 9, ALL)], 1, -1)
    });
    cases.one(API, 12, "negative_minimum_does_not_wait", move |run| {
        timed(run, &[(0, 9, ALL)], -1, 400)
    });
    cases.one(API, 12, "no_partitions_do_not_wait", |run| {
        run.send_timed(
            API,
            12,
            json!({ "maxWaitMs": 400, "minBytes": 1, "topics": [] }),
            400,
        );
    });
    for (claim, bytes_min) in [("one_byte", 1), ("more_than_comes", 100_000)] {
        cases.one(
            API,
            12,
            &format!("append_during_the_wait_for_{claim}"),
            move |run| {
                let (name, id) = filled(run);
                let mut request = body(&name, &id, &[(0, 9, ALL)]);
                request["minBytes"] = bytes_min.into();
                request["maxWaitMs"] = 600.into();
                let produce =
                    super::produce_body(&name, &Value::Null, 0, Batch::with_records(1).hex());
                run.send_timed_beside(API, 12, request, 600, ("Produce", 9, produce));
            },
        );
    }
    cases.one(API, 12, "requests_behind_a_waiting_fetch_wait_too", |run| {
        let (name, id) = filled(run);
        let mut request = body(&name, &id, &[(0, 9, ALL)]);
        request["minBytes"] = 1.into();
        request["maxWaitMs"] = 300.into();
        let fetch = run.frame(API, 12, &request);
        let metadata = run.frame("Metadata", 1, &json!({ "topics": [] }));
        run.write_bytes(
            &[
                crate::connection::framed(&fetch),
                crate::connection::framed(&metadata),
            ]
            .concat(),
        );
        let (first, second) = (run.next_correlation(), run.next_correlation());
        run.note("in order", (first + 1 == second).into());
    });
}

fn epochs(cases: &mut Cases<'_>) {
    for version in [9, 12, 18] {
        for epoch in [-1, 0, 1, -2, i32::MAX] {
            cases.one(
                API,
                version,
                &format!("current_leader_epoch_of_{epoch}"),
                move |run| {
                    let (name, id) = filled(run);
                    let mut request = body(&name, &id, &[(0, 0, 1)]);
                    request["topics"][0]["partitions"][0]["currentLeaderEpoch"] = epoch.into();
                    run.send(API, version, request);
                },
            );
        }
    }
    for epoch in [-1, 0, 1, -2] {
        for offset in [0, 4, 9, 10] {
            cases.one(
                API,
                12,
                &format!("last_fetched_epoch_of_{epoch}_at_{offset}"),
                move |run| {
                    let (name, id) = filled(run);
                    let mut request = body(&name, &id, &[(0, offset, 1)]);
                    request["topics"][0]["partitions"][0]["lastFetchedEpoch"] = epoch.into();
                    run.send(API, 12, request);
                },
            );
        }
    }
    for replica in [0, 1, 2, -2, -3] {
        for version in [12, 14, 15, 18] {
            cases.one(
                API,
                version,
                &format!("replica_id_of_{replica}"),
                move |run| {
                    let (name, id) = filled(run);
                    let mut request = body(&name, &id, &[(0, 0, 1)]);
                    request["replicaId"] = replica.into();
                    request["replicaState"] = json!({ "replicaId": replica, "replicaEpoch": 1 });
                    run.send(API, version, request);
                },
            );
        }
    }
}

fn topics(cases: &mut Cases<'_>) {
    cases.one(API, 13, "zero_id", |run| {
        run.send(API, 13, fetch_body("", &json!(ZERO_ID), 0, 0));
    });
    for (claim, name) in [
        ("empty", ""),
        ("dot", "."),
        ("with_slash", "a/b"),
        ("internal_metadata", "__cluster_metadata"),
    ] {
        cases.one(API, 12, &format!("topic_name_{claim}"), move |run| {
            run.send(API, 12, fetch_body(name, &Value::Null, 0, 0));
        });
    }
    cases.one(API, 12, "partition_named_twice", |run| {
        let (name, id) = filled(run);
        run.send(API, 12, body(&name, &id, &[(0, 0, ALL), (0, 4, ALL)]));
    });
    cases.one(API, 12, "topic_named_twice", |run| {
        let (name, id) = filled(run);
        let mut request = body(&name, &id, &[(0, 4, ALL)]);
        let second = body(&name, &id, &[(1, 0, ALL)])["topics"][0].clone();
        request["topics"]
            .as_array_mut()
            .expect("a list")
            .push(second);
        run.send(API, 12, request);
    });
    cases.one(API, 12, "topic_without_partitions", |run| {
        let (name, id) = filled(run);
        run.send(API, 12, body(&name, &id, &[]));
    });
    for level in [2, -1, 127] {
        cases.one(
            API,
            12,
            &format!("isolation_level_of_{level}"),
            move |run| {
                let (name, id) = filled(run);
                let mut request = body(&name, &id, &[(0, 0, ALL)]);
                request["isolationLevel"] = level.into();
                run.send(API, 12, request);
            },
        );
    }
    cases.one(API, 12, "another_cluster_id", |run| {
        let (name, id) = filled(run);
        let mut request = body(&name, &id, &[(0, 0, 1)]);
        request["clusterId"] = "elsewhere".into();
        run.send(API, 12, request);
    });
}
