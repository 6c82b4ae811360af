//! CreatePartitions.

use serde_json::{Value, json};

use super::{Cases, list_body};

const API: &str = "CreatePartitions";

pub(crate) fn add(cases: &mut Cases<'_>) {
    cases.every_version(API, "adds_partitions", |run, version| {
        let name = run.create_topic("t", 1);
        run.send(
            API,
            version,
            body(json!([{ "name": name, "count": 3, "assignments": null }])),
        );
        run.await_topic(&name, 3);
        run.send(
            "Metadata",
            9,
            json!({ "topics": [{ "name": name }], "allowAutoTopicCreation": false }),
        );
        run.send("ListOffsets", 7, list_body(&name, 2, -1));
    });
    cases.every_version(API, "count_must_grow", |run, version| {
        let name = run.create_topic("t", 2);
        for count in [2, 1, 0, -1] {
            run.send(
                API,
                version,
                body(json!([{ "name": name, "count": count, "assignments": null }])),
            );
        }
    });
    cases.every_version(API, "unknown_topic", |run, version| {
        let name = run.topic("missing");
        run.send(
            API,
            version,
            body(json!([{ "name": name, "count": 2, "assignments": null }])),
        );
    });
    cases.every_version(API, "validate_only_adds_nothing", |run, version| {
        let name = run.create_topic("t", 1);
        let mut request = body(json!([{ "name": name, "count": 3, "assignments": null }]));
        request["validateOnly"] = true.into();
        run.send(API, version, request.clone());
        request["topics"][0]["count"] = 1.into();
        run.send(API, version, request);
        run.send(
            "Metadata",
            9,
            json!({ "topics": [{ "name": name }], "allowAutoTopicCreation": false }),
        );
    });
    let assignments = [
        ("good", json!([[1], [1]])),
        ("too_short", json!([[1]])),
        ("too_long", json!([[1], [1], [1]])),
        ("empty", json!([])),
        ("with_an_unknown_broker", json!([[1], [2]])),
        ("with_a_broker_twice", json!([[1], [1, 1]])),
        ("without_brokers", json!([[1], []])),
        ("with_another_replication_factor", json!([[1, 2], [1, 2]])),
    ];
    for (claim, lists) in assignments {
        cases.one(API, 3, &format!("assignment_{claim}"), move |run| {
            let name = run.create_topic("t", 1);
            let lists: Vec<_> = lists
                .as_array()
                .into_iter()
                .flatten()
                .map(|ids| json!({ "brokerIds": ids }))
                .collect();
            run.send(
                API,
                3,
                body(json!([{ "name": name, "count": 3, "assignments": lists }])),
            );
        });
    }
    cases.one(API, 3, "good_and_bad_topics_in_one_request", |run| {
        let (one, two, missing) = (run.create_topic("one", 1), run.create_topic("two", 2), run.topic("missing"));
        run.send(API, 3, body(json!([
            { "name": one, "count": 2, "assignments": null }, { "name": two, "count": 1, "assignments": null },
            { "name": missing, "count": 9, "assignments": null }, { "name": "b/d", "count": 9, "assignments": null },
            { "name": "", "count": 9, "assignments": null },
        ])));
    });
    cases.one(API, 3, "topic_named_twice", |run| {
        let name = run.create_topic("t", 1);
        let (first, second) = (topic(&name, 2), topic(&name, 3));
        run.send(API, 3, body(json!([first, second])));
        run.send(
            "Metadata",
            9,
            json!({ "topics": [{ "name": name }], "allowAutoTopicCreation": false }),
        );
    });
    cases.one(API, 3, "no_topics", |run| {
        run.send(API, 3, body(json!([])));
    });
    for timeout in [0, -1] {
        cases.one(API, 3, &format!("timeout_of_{timeout}"), move |run| {
            let name = run.create_topic("t", 1);
            let mut request = body(json!([topic(&name, 2)]));
            request["timeoutMs"] = timeout.into();
            run.send(API, 3, request);
        });
    }
}

fn topic(name: &str, count: i32) -> Value {
    json!({ "name": name, "count": count, "assignments": null })
}

fn body(topics: Value) -> Value {
    json!({ "topics": topics, "timeoutMs": 10_000 })
}
