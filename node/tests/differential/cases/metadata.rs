//! Metadata, and the topics that it creates on the way.

use serde_json::{Value, json};

use super::{Cases, UNKNOWN_ID, ZERO_ID};
use crate::run::Run;

pub(crate) fn add(cases: &mut Cases<'_>) {
    by_name(cases);
    by_id(cases);
    auto_creation(cases);
}

fn by_name(cases: &mut Cases<'_>) {
    cases.every_version("Metadata", "describes_a_topic", |run, version| {
        let name = run.create_topic("t", 3);
        run.send("Metadata", version, quiet(&[&name]));
    });
    cases.every_version("Metadata", "lists_all_topics", |run, version| {
        run.create_topic("one", 1);
        run.create_topic("two", 2);
        // Before version 1 an empty list means all, afterwards null does.
        let all = if version == 0 { json!([]) } else { Value::Null };
        run.send(
            "Metadata",
            version,
            json!({ "topics": all, "allowAutoTopicCreation": false }),
        );
    });
    cases.versions(
        "Metadata",
        1..=13,
        "empty_list_means_no_topic",
        |run, version| {
            let answer = run.quietly(
                "Metadata",
                version,
                json!({ "topics": [], "allowAutoTopicCreation": false }),
            );
            run.note("topics", answer["topics"].clone());
        },
    );
    cases.versions(
        "Metadata",
        4..=13,
        "unknown_topic_is_not_created_when_not_allowed",
        |run, version| {
            let name = run.topic("missing");
            run.send("Metadata", version, quiet(&[&name]));
            run.send("Metadata", version, quiet(&[&name]));
        },
    );
    cases.versions("Metadata", 8..=13, "authorized_operations_are_given_on_request", |run, version| {
        let (known, unknown) = (run.create_topic("t", 1), run.topic("missing"));
        let topics = json!([{ "name": known }, { "name": unknown }]);
        for (cluster, topic) in [(true, true), (true, false), (false, true)] {
            let cluster = cluster && version <= 10;
            run.send("Metadata", version, json!({
                "topics": topics, "allowAutoTopicCreation": false,
                "includeClusterAuthorizedOperations": cluster, "includeTopicAuthorizedOperations": topic,
            }));
        }
    });
    cases.one(
        "Metadata",
        12,
        "topic_named_twice_is_described_once",
        |run| {
            let name = run.create_topic("t", 1);
            let missing = run.topic("missing");
            run.send("Metadata", 12, quiet(&[&name, &name, &missing, &missing]));
        },
    );
    cases.one(
        "Metadata",
        1,
        "topic_named_twice_is_described_once",
        |run| {
            let name = run.create_topic("t", 1);
            run.send(
                "Metadata",
                1,
                json!({ "topics": [{ "name": name }, { "name": name }] }),
            );
        },
    );
    cases.one("Metadata", 12, "internal_names_without_creation", |run| {
        run.send(
            "Metadata",
            12,
            quiet(&["__cluster_metadata", "__transaction_state"]),
        );
    });
    for (claim, name) in bad_names() {
        cases.one(
            "Metadata",
            9,
            &format!("name_{claim}_without_creation"),
            move |run| {
                run.send("Metadata", 9, quiet(&[&name]));
            },
        );
    }
}

fn by_id(cases: &mut Cases<'_>) {
    cases.versions("Metadata", 10..=13, "describes_a_topic_by_id", |run, version| {
        let name = run.create_topic("t", 2);
        let id = run.topic_id(&name);
        run.send("Metadata", version, json!({
            "topics": [{ "topicId": id, "name": if version < 12 { json!("") } else { Value::Null } }],
            "allowAutoTopicCreation": false,
        }));
    });
    cases.versions("Metadata", 10..=13, "unknown_id", |run, version| {
        run.send("Metadata", version, json!({
            "topics": [{ "topicId": UNKNOWN_ID, "name": if version < 12 { json!("") } else { Value::Null } }],
            "allowAutoTopicCreation": false,
        }));
    });
    cases.versions(
        "Metadata",
        10..=13,
        "id_and_name_together",
        |run, version| {
            let name = run.create_topic("t", 1);
            let id = run.topic_id(&name);
            let missing = run.topic("missing");
            for (name, id) in [
                (&name, &id),
                (&missing, &id),
                (&name, &json!(UNKNOWN_ID)),
                (&missing, &json!(UNKNOWN_ID)),
            ] {
                run.send("Metadata", version, json!({
                "topics": [{ "topicId": id, "name": name }], "allowAutoTopicCreation": false,
            }));
            }
        },
    );
    cases.versions(
        "Metadata",
        12..=13,
        "neither_id_nor_name",
        |run, version| {
            run.send("Metadata", version, json!({
            "topics": [{ "topicId": ZERO_ID, "name": null }], "allowAutoTopicCreation": false,
        }));
        },
    );
    cases.versions(
        "Metadata",
        12..=13,
        "some_by_id_and_some_by_name",
        |run, version| {
            let (one, two) = (run.create_topic("one", 1), run.create_topic("two", 1));
            let (one_id, missing) = (run.topic_id(&one), run.topic("missing"));
            run.send("Metadata", version, json!({
            "topics": [
                { "topicId": one_id, "name": null }, { "topicId": UNKNOWN_ID, "name": null },
                { "name": two }, { "name": missing },
            ],
            "allowAutoTopicCreation": false,
        }));
        },
    );
    cases.one("Metadata", 12, "id_named_twice", |run| {
        let name = run.create_topic("t", 1);
        let id = run.topic_id(&name);
        let topic = json!({ "topicId": id, "name": null });
        run.send(
            "Metadata",
            12,
            json!({ "topics": [topic, topic], "allowAutoTopicCreation": false }),
        );
    });
    cases.one("Metadata", 12, "id_of_a_deleted_topic", |run| {
        let name = run.create_topic("t", 1);
        let id = run.topic_id(&name);
        run.quietly(
            "DeleteTopics",
            5,
            json!({ "topicNames": [name], "timeoutMs": 10_000 }),
        );
        run.send_until(
            "Metadata",
            12,
            json!({ "topics": [{ "topicId": id, "name": null }], "allowAutoTopicCreation": false }),
            |answer| answer["topics"][0]["errorCode"] != 0,
        );
    });
}

fn auto_creation(cases: &mut Cases<'_>) {
    cases.every_version("Metadata", "creates_an_unknown_topic", |run, version| {
        let name = run.topic("made");
        let body = json!({ "topics": [{ "name": name }], "allowAutoTopicCreation": true });
        run.send("Metadata", version, body.clone());
        run.send_until("Metadata", version, body, |answer| {
            answer["topics"][0]["errorCode"] == 0
        });
    });
    cases.versions(
        "Metadata",
        12..=13,
        "unknown_id_creates_nothing",
        |run, version| {
            run.send("Metadata", version, json!({
            "topics": [{ "topicId": UNKNOWN_ID, "name": null }], "allowAutoTopicCreation": true,
        }));
        },
    );
    for (claim, name) in bad_names() {
        cases.one(
            "Metadata",
            9,
            &format!("name_{claim}_is_not_created"),
            move |run| {
                run.send(
                    "Metadata",
                    9,
                    json!({ "topics": [{ "name": name }], "allowAutoTopicCreation": true }),
                );
                run.send(
                    "Metadata",
                    9,
                    json!({ "topics": [{ "name": name }], "allowAutoTopicCreation": true }),
                );
            },
        );
    }
    cases.one("Metadata", 9, "name_that_collides_is_not_created", |run| {
        run.create_topic("a.b", 1);
        let name = run.topic("a_b");
        for _ in 0..2 {
            run.send(
                "Metadata",
                9,
                json!({ "topics": [{ "name": name }], "allowAutoTopicCreation": true }),
            );
            run.pause(std::time::Duration::from_millis(100));
        }
    });
    cases.one("Metadata", 9, "several_topics_are_created_at_once", |run| {
        let (one, two, bad) = (run.topic("one"), run.topic("two"), "not/allowed");
        let existing = run.create_topic("existing", 1);
        let body = json!({
            "topics": [{ "name": one }, { "name": bad }, { "name": two }, { "name": existing }],
            "allowAutoTopicCreation": true,
        });
        run.send("Metadata", 9, body);
        created(run, &one);
        created(run, &two);
    });
    cases.one("Metadata", 9, "longest_name_is_created", |run| {
        let name = format!("{:m<249}", run.topic("long"));
        created(run, &name);
    });
}

fn created(run: &mut Run<'_>, name: &str) {
    let body = json!({ "topics": [{ "name": name }], "allowAutoTopicCreation": true });
    run.send_until("Metadata", 9, body, |answer| {
        answer["topics"][0]["errorCode"] == 0
    });
}

fn quiet(names: &[&str]) -> Value {
    let topics: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
    json!({ "topics": topics, "allowAutoTopicCreation": false })
}

fn bad_names() -> Vec<(&'static str, String)> {
    vec![
        ("empty", String::new()),
        ("dot", ".".to_owned()),
        ("two_dots", "..".to_owned()),
        ("with_slash", "a/b".to_owned()),
        ("with_space", "a b".to_owned()),
        ("with_umlaut", "ä".to_owned()),
        ("with_nul", "a\0b".to_owned()),
        ("of_250_letters", "n".repeat(250)),
    ]
}
