//! ElectLeaders.

use serde_json::{Value, json};

use super::Cases;

const API: &str = "ElectLeaders";

fn body(kind: i8, topics: &[(&str, &[i32])]) -> Value {
    let topic =
        |(name, partitions): &(&str, &[i32])| json!({ "topic": name, "partitions": partitions });
    let topics: Vec<_> = topics.iter().map(topic).collect();
    json!({ "electionType": kind, "topicPartitions": topics, "timeoutMs": 10_000 })
}

pub(crate) fn add(cases: &mut Cases<'_>) {
    cases.every_version(API, "preferred_leader_that_leads", |run, version| {
        let name = run.create_topic("t", 2);
        run.send(API, version, body(0, &[(&name, &[0, 1])]));
    });
    cases.versions(API, 1..=2, "leader_that_is_there", |run, version| {
        let name = run.create_topic("t", 2);
        run.send(API, version, body(1, &[(&name, &[1])]));
    });
    cases.every_version(API, "unknown_topic_and_partition", |run, version| {
        let (name, missing) = (run.create_topic("t", 1), run.topic("missing"));
        run.send(
            API,
            version,
            body(0, &[(&name, &[0, 1, -1]), (&missing, &[0, -1])]),
        );
    });
    cases.every_version(API, "nothing_to_elect", |run, version| {
        let name = run.create_topic("t", 1);
        run.send(API, version, body(0, &[]));
        run.send(API, version, body(0, &[(&name, &[])]));
    });
    for kind in [2, 99, -1] {
        cases.one(API, 2, &format!("election_type_of_{kind}"), move |run| {
            let name = run.create_topic("t", 1);
            run.send(API, 2, body(kind, &[(&name, &[0])]));
        });
    }
    cases.one(API, 2, "partition_named_twice", |run| {
        let name = run.create_topic("t", 1);
        run.send(API, 2, body(0, &[(&name, &[0, 0])]));
    });
}
