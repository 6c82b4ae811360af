//! DescribeConfigs.

use serde_json::{Value, json};

use super::{BROKER, Cases, TOPIC};

const DESCRIBE: &str = "DescribeConfigs";

pub(crate) fn add(cases: &mut Cases<'_>) {
    describe_topics(cases);
    describe_others(cases);
}

fn resource(kind: i8, name: &str, keys: Value) -> Value {
    json!({ "resourceType": kind, "resourceName": name, "configurationKeys": keys })
}

pub(super) fn describe(kind: i8, name: &str, keys: Value) -> Value {
    json!({ "resources": [resource(kind, name, keys)] })
}

fn describe_topics(cases: &mut Cases<'_>) {
    cases.every_version(DESCRIBE, "topic_with_all_defaults", |run, version| {
        let name = run.create_topic("t", 1);
        run.send(DESCRIBE, version, describe(TOPIC, &name, Value::Null));
    });
    cases.every_version(DESCRIBE, "topic_with_synonyms", |run, version| {
        let name = run.create_topic_with(
            "t",
            1,
            &[("retention.ms", "1000"), ("cleanup.policy", "compact")],
        );
        let mut request = describe(TOPIC, &name, Value::Null);
        request["includeSynonyms"] = true.into();
        run.send(DESCRIBE, version, request);
    });
    cases.every_version(DESCRIBE, "some_keys_of_a_topic", |run, version| {
        let name = run.create_topic("t", 1);
        let keys = json!([
            "retention.ms",
            "no.such.config",
            "flush.messages",
            "retention.ms",
            "log.retention.ms",
            ""
        ]);
        run.send(DESCRIBE, version, describe(TOPIC, &name, keys));
    });
    cases.every_version(DESCRIBE, "empty_list_of_keys", |run, version| {
        let name = run.create_topic("t", 1);
        let answer = run.quietly(DESCRIBE, version, describe(TOPIC, &name, json!([])));
        run.note(
            "any configs",
            answer["results"][0]["configs"]
                .as_array()
                .map(|all| !all.is_empty())
                .into(),
        );
    });
    cases.every_version(DESCRIBE, "unknown_topic", |run, version| {
        let name = run.topic("missing");
        run.send(DESCRIBE, version, describe(TOPIC, &name, Value::Null));
    });
    cases.versions(
        DESCRIBE,
        3..=4,
        "topic_with_documentation",
        |run, version| {
            let name = run.create_topic("t", 1);
            let mut request = describe(
                TOPIC,
                &name,
                json!([
                    "cleanup.policy",
                    "retention.ms",
                    "unclean.leader.election.enable"
                ]),
            );
            request["includeDocumentation"] = true.into();
            run.send(DESCRIBE, version, request);
        },
    );
    for (claim, name) in [
        ("empty", ""),
        ("dot", "."),
        ("with_slash", "a/b"),
        ("internal_metadata", "__cluster_metadata"),
    ] {
        cases.one(DESCRIBE, 4, &format!("topic_name_{claim}"), move |run| {
            run.send(DESCRIBE, 4, describe(TOPIC, name, Value::Null));
        });
    }
    cases.one(DESCRIBE, 4, "several_topics_and_one_twice", |run| {
        let (one, two, missing) = (
            run.create_topic("one", 1),
            run.create_topic("two", 1),
            run.topic("missing"),
        );
        let keys = json!(["retention.ms"]);
        let resources: Vec<_> = [&one, &two, &missing, &one]
            .map(|name| resource(TOPIC, name, keys.clone()))
            .into_iter()
            .collect();
        run.send(DESCRIBE, 4, json!({ "resources": resources }));
    });
    cases.one(DESCRIBE, 4, "no_resources", |run| {
        run.send(DESCRIBE, 4, json!({ "resources": [] }));
    });
    cases.one(DESCRIBE, 4, "every_kind_of_value_has_its_type", |run| {
        let name = run.create_topic_with(
            "t",
            1,
            &[
                ("cleanup.policy", "delete,compact"),
                ("compression.type", "zstd"),
                ("min.cleanable.dirty.ratio", "0.50"),
                ("preallocate", "TRUE"),
                ("flush.messages", "5"),
                ("max.message.bytes", " 2000 "),
            ],
        );
        run.send(
            DESCRIBE,
            4,
            describe(
                TOPIC,
                &name,
                json!([
                    "cleanup.policy",
                    "compression.type",
                    "min.cleanable.dirty.ratio",
                    "preallocate",
                    "flush.messages",
                    "max.message.bytes",
                ]),
            ),
        );
    });
}

fn describe_others(cases: &mut Cases<'_>) {
    const BROKER_KEYS: [&str; 18] = [
        "node.id",
        "process.roles",
        "num.partitions",
        "auto.create.topics.enable",
        "default.replication.factor",
        "min.insync.replicas",
        "message.max.bytes",
        "log.retention.hours",
        "log.retention.ms",
        "log.retention.bytes",
        "log.segment.bytes",
        "log.flush.interval.messages",
        "log.cleanup.policy",
        "compression.type",
        "delete.topic.enable",
        "unclean.leader.election.enable",
        "socket.request.max.bytes",
        "controller.listener.names",
    ];
    cases.every_version(DESCRIBE, "some_keys_of_the_broker", |run, version| {
        run.send(DESCRIBE, version, describe(BROKER, "1", json!(BROKER_KEYS)));
    });
    cases.every_version(
        DESCRIBE,
        "keys_of_the_broker_with_synonyms",
        |run, version| {
            let mut request = describe(BROKER, "1", json!(BROKER_KEYS));
            request["includeSynonyms"] = true.into();
            run.send(DESCRIBE, version, request);
        },
    );
    cases.every_version(DESCRIBE, "defaults_of_all_brokers", |run, version| {
        run.send(DESCRIBE, version, describe(BROKER, "", Value::Null));
    });
    for name in ["2", "-1", "one", "1 ", "01"] {
        cases.one(
            DESCRIBE,
            4,
            &format!("broker_named_{}", name.replace(' ', "~")),
            move |run| {
                run.send(DESCRIBE, 4, describe(BROKER, name, json!(["node.id"])));
            },
        );
    }
    for kind in [0, 1, 3, 5, 99, -1] {
        cases.one(DESCRIBE, 4, &format!("resource_type_{kind}"), move |run| {
            run.send(DESCRIBE, 4, describe(kind, "1", Value::Null));
        });
    }
    cases.one(DESCRIBE, 4, "broker_and_topic_in_one_request", |run| {
        let name = run.create_topic("t", 1);
        run.send(
            DESCRIBE,
            4,
            json!({ "resources": [
            resource(BROKER, "1", json!(["node.id"])), resource(TOPIC, &name, json!(["flush.ms"])),
            resource(BROKER, "7", json!(["node.id"])), resource(99, "1", Value::Null),
        ] }),
        );
    });
}
