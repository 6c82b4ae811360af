//! ListOffsets: special timestamps, and times at every edge of batches and logs.

use serde_json::{Value, json};

use super::{Cases, list_body};
use crate::{
    batch::{Batch, Compression, EPOCH_MS},
    run::Run,
};

const API: &str = "ListOffsets";

/// A topic whose first partition holds offsets 0–2 at `EPOCH_MS`, 3–7 a second later and 8 two seconds later.
fn filled(run: &mut Run<'_>) -> String {
    let name = run.create_topic("t", 2);
    for (count, second) in [(3, 0), (5, 1), (1, 2)] {
        run.produce(
            &name,
            0,
            &Batch::with_records(count).at(EPOCH_MS + second * 1000),
        );
    }
    name
}

pub(crate) fn add(cases: &mut Cases<'_>) {
    every_version(cases);
    times(cases);
    requests(cases);
}

fn every_version(cases: &mut Cases<'_>) {
    cases.every_version(API, "special_timestamps", |run, version| {
        let name = filled(run);
        for special in [-1, -2, -3, -4, -5, -6, -7, i64::MIN] {
            run.send(API, version, list_body(&name, 0, special));
        }
    });
    cases.every_version(
        API,
        "special_timestamps_of_an_empty_partition",
        |run, version| {
            let name = run.create_topic("t", 1);
            for special in [-1, -2, -3, -4, -5, -6, 0, EPOCH_MS] {
                run.send(API, version, list_body(&name, 0, special));
            }
        },
    );
    cases.every_version(API, "times", |run, version| {
        let name = filled(run);
        for time in [
            EPOCH_MS,
            EPOCH_MS + 1,
            EPOCH_MS + 500,
            EPOCH_MS + 1003,
            EPOCH_MS + 2000,
            EPOCH_MS + 2001,
        ] {
            run.send(API, version, list_body(&name, 0, time));
        }
    });
    cases.every_version(API, "unknown_topic_and_partition", |run, version| {
        let (name, missing) = (filled(run), run.topic("missing"));
        let partition = |index: i32| json!({ "partitionIndex": index, "timestamp": -1 });
        run.send(
            API,
            version,
            json!({ "replicaId": -1, "topics": [
            { "name": missing, "partitions": [partition(0), partition(-1)] },
            { "name": name, "partitions": [partition(1), partition(2), partition(-1)] },
        ] }),
        );
    });
    cases.versions(API, 4..=11, "current_leader_epoch", |run, version| {
        let name = filled(run);
        for (epoch, time) in [
            (-1, -1),
            (0, -1),
            (1, -1),
            (-2, -1),
            (1, EPOCH_MS),
            (0, -2),
            (1, -2),
        ] {
            let mut request = list_body(&name, 0, time);
            request["topics"][0]["partitions"][0]["currentLeaderEpoch"] = epoch.into();
            run.send(API, version, request);
        }
    });
    cases.every_version(API, "partition_named_twice", |run, version| {
        let name = filled(run);
        let (latest, earliest) =
            (json!({ "partitionIndex": 0, "timestamp": -1 }), json!({ "partitionIndex": 0, "timestamp": -2 }));
        let other = json!({ "partitionIndex": 1, "timestamp": -1 });
        run.send(API, version, json!({ "replicaId": -1, "topics": [{ "name": name, "partitions": [latest, earliest, other] }] }));
    });
    cases.versions(API, 2..=11, "committed_end_is_the_end", |run, version| {
        let name = filled(run);
        for time in [-1, -2, EPOCH_MS + 2000] {
            let mut request = list_body(&name, 0, time);
            request["isolationLevel"] = 1.into();
            run.send(API, version, request);
        }
    });
}

fn times(cases: &mut Cases<'_>) {
    let around = [
        -1_000_i64, -1, 0, 1, 2, 3, 999, 1000, 1001, 1004, 1005, 1999, 2000, 2001, 100_000,
    ];
    for delta in around {
        cases.one(
            API,
            7,
            &format!("time_{delta}_ms_after_the_first_record"),
            move |run| {
                let name = filled(run);
                run.send(API, 7, list_body(&name, 0, EPOCH_MS + delta));
            },
        );
    }
    for time in [0, 1, i64::MAX] {
        cases.one(API, 7, &format!("time_{time}"), move |run| {
            let name = filled(run);
            run.send(API, 7, list_body(&name, 0, time));
        });
    }
    for codec in [
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        cases.one(
            API,
            7,
            &format!("time_inside_a_{codec:?}_batch").to_lowercase(),
            move |run| {
                let name = run.create_topic("t", 1);
                run.produce(&name, 0, &Batch::with_records(10).compressed(codec));
                run.produce(
                    &name,
                    0,
                    &Batch::with_records(10).at(EPOCH_MS + 100).compressed(codec),
                );
                for delta in [0, 1, 9, 10, 99, 105, 109, 110] {
                    run.send(API, 7, list_body(&name, 0, EPOCH_MS + delta));
                }
                run.send(API, 7, list_body(&name, 0, -3));
            },
        );
    }
    cases.one(API, 7, "times_that_run_backwards", |run| {
        let name = run.create_topic("t", 1);
        for second in [5, 3, 9, 1] {
            run.produce(
                &name,
                0,
                &Batch::with_records(2).at(EPOCH_MS + second * 1000),
            );
        }
        for second in 0..11 {
            run.send(API, 7, list_body(&name, 0, EPOCH_MS + second * 1000));
        }
        run.send(API, 7, list_body(&name, 0, -3));
    });
    cases.one(
        API,
        7,
        "largest_timestamp_belongs_to_the_first_record_that_has_it",
        |run| {
            let name = run.create_topic("t", 1);
            let mut batch = Batch::with_records(4);
            batch
                .records
                .iter_mut()
                .for_each(|record| record.timestamp_delta = 7);
            run.produce(&name, 0, &batch);
            run.produce(&name, 0, &batch);
            run.send(API, 7, list_body(&name, 0, -3));
            run.send(API, 7, list_body(&name, 0, EPOCH_MS + 7));
        },
    );
    cases.one(
        API,
        7,
        "largest_timestamp_in_the_middle_of_a_batch",
        |run| {
            let name = run.create_topic("t", 1);
            let batch = Batch::with_records(4).with(|b| b.records[1].timestamp_delta = 900);
            run.produce(&name, 0, &batch);
            run.produce(&name, 0, &Batch::with_records(2));
            run.send(API, 7, list_body(&name, 0, -3));
            run.send(API, 7, list_body(&name, 0, EPOCH_MS + 900));
            run.send(API, 7, list_body(&name, 0, EPOCH_MS + 3));
        },
    );
    cases.one(
        API,
        7,
        "header_with_a_larger_timestamp_than_any_record",
        |run| {
            let name = run.create_topic("t", 1);
            run.produce(
                &name,
                0,
                &Batch::with_records(2).with(|b| b.max_timestamp = Some(EPOCH_MS + 50)),
            );
            run.produce(&name, 0, &Batch::with_records(2).at(EPOCH_MS + 20));
            for time in [EPOCH_MS + 1, EPOCH_MS + 2, EPOCH_MS + 20, EPOCH_MS + 50, -3] {
                run.send(API, 7, list_body(&name, 0, time));
            }
        },
    );
    cases.one(API, 7, "records_without_timestamps", |run| {
        let name = run.create_topic("t", 1);
        let batch = Batch::with_records(2).with(|b| {
            (b.base_timestamp, b.max_timestamp) = (-1, Some(-1));
            b.records
                .iter_mut()
                .for_each(|record| record.timestamp_delta = 0);
        });
        run.produce(&name, 0, &batch);
        for time in [0, EPOCH_MS, -3, -1] {
            run.send(API, 7, list_body(&name, 0, time));
        }
    });
    for version in [7, 11] {
        cases.one(API, version, "after_records_were_deleted", move |run| {
            let name = filled(run);
            for offset in [1, 3, 5, 9] {
                run.quietly(
                    "DeleteRecords",
                    2,
                    json!({ "timeoutMs": 10_000, "topics": [
                    { "name": name, "partitions": [{ "partitionIndex": 0, "offset": offset }] },
                ] }),
                );
                for time in [-1, -2, -3, EPOCH_MS, EPOCH_MS + 1000, EPOCH_MS + 2000] {
                    run.send(API, version, list_body(&name, 0, time));
                }
            }
        });
    }
}

fn requests(cases: &mut Cases<'_>) {
    for replica in [0, 1, 2, -2, -3] {
        cases.one(API, 7, &format!("replica_id_of_{replica}"), move |run| {
            let name = filled(run);
            for time in [-1, -2, EPOCH_MS] {
                let mut request = list_body(&name, 0, time);
                request["replicaId"] = replica.into();
                run.send(API, 7, request);
            }
        });
    }
    for level in [2, -1] {
        cases.one(API, 7, &format!("isolation_level_of_{level}"), move |run| {
            let name = filled(run);
            let mut request = list_body(&name, 0, -1);
            request["isolationLevel"] = level.into();
            run.send(API, 7, request);
        });
    }
    for (claim, name) in [
        ("empty", ""),
        ("dot", "."),
        ("with_slash", "a/b"),
        ("internal_metadata", "__cluster_metadata"),
    ] {
        cases.one(API, 7, &format!("topic_name_{claim}"), move |run| {
            run.send(API, 7, list_body(name, 0, -1));
        });
    }
    cases.one(API, 7, "no_topics", |run| {
        run.send(API, 7, json!({ "replicaId": -1, "topics": [] }));
    });
    cases.one(API, 7, "topic_without_partitions", |run| {
        let name = filled(run);
        run.send(
            API,
            7,
            json!({ "replicaId": -1, "topics": [{ "name": name, "partitions": [] }] }),
        );
    });
    cases.one(API, 7, "topic_named_twice", |run| {
        let name = filled(run);
        let topic = |partition: i32| json!({ "name": name, "partitions": [{ "partitionIndex": partition, "timestamp": -1 }] });
        run.send(API, 7, json!({ "replicaId": -1, "topics": [topic(0), topic(1), topic(0)] }));
    });
    for timeout in [0, -1] {
        cases.one(API, 10, &format!("timeout_of_{timeout}"), move |run| {
            let name = filled(run);
            for time in [-1, EPOCH_MS] {
                let mut request: Value = list_body(&name, 0, time);
                request["timeoutMs"] = timeout.into();
                run.send(API, 10, request);
            }
        });
    }
}
