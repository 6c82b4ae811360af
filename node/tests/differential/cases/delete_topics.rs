//! DeleteTopics, by name and by id.

use serde_json::{Value, json};

use super::{Cases, UNKNOWN_ID, ZERO_ID, fetch_body, list_body, produce_body};
use crate::{batch::Batch, run::Run};

const API: &str = "DeleteTopics";

pub(crate) fn add(cases: &mut Cases<'_>) {
    cases.every_version(API, "deletes_a_topic", |run, version| {
        let name = run.create_topic("t", 2);
        run.send(API, version, by_name(&[&name]));
        gone(run, &name);
    });
    cases.every_version(API, "unknown_topic", |run, version| {
        let name = run.topic("missing");
        run.send(API, version, by_name(&[&name]));
    });
    cases.every_version(API, "known_and_unknown_topics", |run, version| {
        let (one, missing, two) = (
            run.create_topic("one", 1),
            run.topic("missing"),
            run.create_topic("two", 1),
        );
        run.send(API, version, by_name(&[&one, &missing, &two, "b/d", ""]));
        gone(run, &one);
    });
    cases.every_version(API, "topic_named_twice", |run, version| {
        let name = run.create_topic("t", 1);
        run.send(API, version, by_name(&[&name, &name]));
        run.send(
            "Metadata",
            9,
            json!({ "topics": [{ "name": name }], "allowAutoTopicCreation": false }),
        );
    });
    cases.every_version(API, "no_topics", |run, version| {
        run.send(API, version, by_name(&[]));
    });
    cases.one(API, 6, "deleted_topic_is_deleted_again", |run| {
        let name = run.create_topic("t", 1);
        run.send(API, 6, by_name(&[&name]));
        run.send(API, 6, by_name(&[&name]));
    });
    for timeout in [0, -1] {
        cases.one(API, 6, &format!("timeout_of_{timeout}"), move |run| {
            let name = run.create_topic("t", 1);
            let mut request = by_name(&[&name]);
            request["timeoutMs"] = timeout.into();
            run.send(API, 6, request);
        });
    }
    by_id(cases);
    cases.one(API, 6, "deleted_topic_is_unknown_to_all_apis", |run| {
        let name = run.create_topic("t", 1);
        let id = run.topic_id(&name);
        run.produce(&name, 0, &Batch::with_records(3));
        run.send(API, 6, by_name(&[&name]));
        gone(run, &name);
        run.pause(std::time::Duration::from_millis(200));
        run.send("ListOffsets", 7, list_body(&name, 0, -1));
        run.send("Fetch", 12, fetch_body(&name, &id, 0, 0));
        run.send("Fetch", 13, fetch_body(&name, &id, 0, 0));
        run.send(
            "Produce",
            12,
            produce_body(&name, &id, 0, Batch::with_records(1).hex()),
        );
        run.send(
            "Produce",
            13,
            produce_body(&name, &id, 0, Batch::with_records(1).hex()),
        );
        run.send(
            "DescribeConfigs",
            4,
            json!({ "resources": [{ "resourceType": 2, "resourceName": name }] }),
        );
        run.send(
            "CreatePartitions",
            3,
            json!({ "topics": [{ "name": name, "count": 2 }], "timeoutMs": 10_000 }),
        );
    });
    cases.one(
        API,
        6,
        "topic_created_anew_is_empty_and_has_another_id",
        |run| {
            let name = run.create_topic("t", 1);
            let old = run.topic_id(&name);
            run.produce(&name, 0, &Batch::with_records(3));
            run.quietly(API, 6, by_name(&[&name]));
            run.create_topic("t", 1);
            run.pause(std::time::Duration::from_millis(200));
            let new = run.topic_id(&name);
            run.note("another id", (old != new).into());
            run.send("ListOffsets", 7, list_body(&name, 0, -1));
            run.send("Fetch", 13, fetch_body(&name, &old, 0, 0));
            run.send("Fetch", 13, fetch_body(&name, &new, 0, 0));
            run.send(
                "Produce",
                13,
                produce_body(&name, &old, 0, Batch::with_records(1).hex()),
            );
        },
    );
}

fn by_id(cases: &mut Cases<'_>) {
    cases.one(API, 6, "deletes_a_topic_by_id", |run| {
        let name = run.create_topic("t", 2);
        let id = run.topic_id(&name);
        run.send(API, 6, topics(json!([{ "name": null, "topicId": id }])));
        gone(run, &name);
    });
    cases.one(API, 6, "unknown_id", |run| {
        run.send(
            API,
            6,
            topics(json!([{ "name": null, "topicId": UNKNOWN_ID }])),
        );
    });
    cases.one(API, 6, "neither_name_nor_id", |run| {
        run.send(
            API,
            6,
            topics(json!([{ "name": null, "topicId": ZERO_ID }])),
        );
    });
    cases.one(API, 6, "both_name_and_id", |run| {
        let name = run.create_topic("t", 1);
        let id = run.topic_id(&name);
        run.send(API, 6, topics(json!([{ "name": name, "topicId": id }])));
        run.send(
            "Metadata",
            9,
            json!({ "topics": [{ "name": name }], "allowAutoTopicCreation": false }),
        );
    });
    cases.one(API, 6, "same_topic_by_name_and_by_id", |run| {
        let name = run.create_topic("t", 1);
        let id = run.topic_id(&name);
        run.send(
            API,
            6,
            topics(json!([{ "name": name }, { "name": null, "topicId": id }])),
        );
        run.send(
            "Metadata",
            9,
            json!({ "topics": [{ "name": name }], "allowAutoTopicCreation": false }),
        );
    });
    cases.one(API, 6, "id_given_twice", |run| {
        let name = run.create_topic("t", 1);
        let id = run.topic_id(&name);
        let topic = json!({ "name": null, "topicId": id });
        run.send(API, 6, topics(json!([topic, topic])));
        let unknown = json!({ "name": null, "topicId": UNKNOWN_ID });
        run.send(API, 6, topics(json!([unknown, unknown])));
    });
}

fn topics(list: Value) -> Value {
    json!({ "topics": list, "timeoutMs": 10_000 })
}

/// The body for any version: a list of names before version 6, of structures since.
fn by_name(names: &[&str]) -> Value {
    let list: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
    json!({ "topics": list, "topicNames": names, "timeoutMs": 10_000 })
}

fn gone(run: &mut Run<'_>, name: &str) {
    let body = json!({ "topics": [{ "name": name }], "allowAutoTopicCreation": false });
    run.send_until("Metadata", 9, body, |answer| {
        answer["topics"][0]["errorCode"] != 0
    });
}
