//! DeleteRecords.

use serde_json::{Value, json};

use super::{Cases, list_body, log_state};
use crate::{batch::Batch, run::Run};

const API: &str = "DeleteRecords";

/// A topic whose first partition holds batches of offsets 0–2, 3 and 4–8.
fn filled(run: &mut Run<'_>) -> String {
    let name = run.create_topic("t", 2);
    for count in [3, 1, 5] {
        run.produce(&name, 0, &Batch::with_records(count));
    }
    name
}

fn body(name: &str, partitions: &[(i32, i64)]) -> Value {
    let partition =
        |&(index, offset): &(i32, i64)| json!({ "partitionIndex": index, "offset": offset });
    let partitions: Vec<_> = partitions.iter().map(partition).collect();
    json!({ "timeoutMs": 10_000, "topics": [{ "name": name, "partitions": partitions }] })
}

pub(crate) fn add(cases: &mut Cases<'_>) {
    cases.every_version(API, "moves_the_log_start", |run, version| {
        let name = filled(run);
        run.send(API, version, body(&name, &[(0, 4)]));
        log_state(run, &name, 0);
        run.send("Fetch", 12, super::fetch_body(&name, &Value::Null, 0, 4));
    });
    cases.every_version(API, "unknown_topic_and_partition", |run, version| {
        let (name, missing) = (filled(run), run.topic("missing"));
        let partition = |index: i32| json!({ "partitionIndex": index, "offset": 0 });
        run.send(
            API,
            version,
            json!({ "timeoutMs": 10_000, "topics": [
            { "name": missing, "partitions": [partition(0), partition(-1)] },
            { "name": name, "partitions": [partition(0), partition(2), partition(-1)] },
        ] }),
        );
    });
    for offset in [0, 1, 3, 5, 8, 9, 10, -1, -2, i64::MAX, i64::MIN] {
        cases.one(API, 2, &format!("before_offset_{offset}"), move |run| {
            let name = filled(run);
            run.send(API, 2, body(&name, &[(0, offset)]));
            for time in [-2, -1] {
                run.send("ListOffsets", 7, list_body(&name, 0, time));
            }
        });
    }
    cases.one(API, 2, "again_before_a_smaller_offset", |run| {
        let name = filled(run);
        for offset in [5, 5, 2, 0, 6] {
            run.send(API, 2, body(&name, &[(0, offset)]));
        }
        run.send("ListOffsets", 7, list_body(&name, 0, -2));
    });
    cases.one(API, 2, "of_an_empty_partition", |run| {
        let name = run.create_topic("t", 1);
        for offset in [0, -1, 1] {
            run.send(API, 2, body(&name, &[(0, offset)]));
        }
    });
    cases.one(API, 2, "of_all_records_and_appends_go_on", |run| {
        let name = filled(run);
        run.send(API, 2, body(&name, &[(0, -1)]));
        run.produce(&name, 0, &Batch::with_records(2));
        run.send("Fetch", 12, super::fetch_body(&name, &Value::Null, 0, 9));
        log_state(run, &name, 0);
    });
    cases.one(API, 2, "partition_named_twice", |run| {
        let name = filled(run);
        run.send(API, 2, body(&name, &[(0, 1), (0, 4), (1, 0)]));
        run.send("ListOffsets", 7, list_body(&name, 0, -2));
    });
    for policy in ["compact", "compact,delete"] {
        cases.one(
            API,
            2,
            &format!("of_a_topic_with_policy_{policy}"),
            move |run| {
                let name = run.create_topic_with("t", 1, &[("cleanup.policy", policy)]);
                let mut batch = Batch::with_records(3);
                batch
                    .records
                    .iter_mut()
                    .for_each(|record| record.key = Some(b"k".to_vec()));
                run.produce(&name, 0, &batch);
                run.send(API, 2, body(&name, &[(0, 1)]));
            },
        );
    }
    for timeout in [0, -1] {
        cases.one(API, 2, &format!("timeout_of_{timeout}"), move |run| {
            let name = filled(run);
            let mut request = body(&name, &[(0, 3)]);
            request["timeoutMs"] = timeout.into();
            run.send(API, 2, request);
        });
    }
    for (claim, name) in [
        ("empty", ""),
        ("dot", "."),
        ("with_slash", "a/b"),
        ("internal_metadata", "__cluster_metadata"),
    ] {
        cases.one(API, 2, &format!("topic_name_{claim}"), move |run| {
            run.send(API, 2, body(name, &[(0, 0)]));
        });
    }
    cases.one(API, 2, "no_topics", |run| {
        run.send(API, 2, json!({ "timeoutMs": 10_000, "topics": [] }));
    });
    cases.one(API, 2, "topic_without_partitions", |run| {
        let name = filled(run);
        run.send(API, 2, body(&name, &[]));
    });
}
