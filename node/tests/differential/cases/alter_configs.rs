//! IncrementalAlterConfigs.

use serde_json::{Value, json};

use super::{BROKER, Cases, TOPIC, create_topics::CONFIG_VALUES, describe_configs::describe};
use crate::run::Run;

const DESCRIBE: &str = "DescribeConfigs";
const ALTER: &str = "IncrementalAlterConfigs";

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

pub(crate) fn add(cases: &mut Cases<'_>) {
    alter_topics(cases);
    alter_values(cases);
    alter_others(cases);
}

fn change(name: &str, operation: i8, value: Value) -> Value {
    json!({ "name": name, "configOperation": operation, "value": value })
}

fn alter(kind: i8, name: &str, changes: Value) -> Value {
    json!({ "resources": [{ "resourceType": kind, "resourceName": name, "configs": changes }] })
}

/// Alters a fresh topic and records the answer and the topic's own configs afterwards.
fn alter_and_describe(run: &mut Run<'_>, version: i16, before: &[(&str, &str)], changes: Value) {
    let name = run.create_topic_with("t", 1, before);
    let answer = run.send(ALTER, version, alter(TOPIC, &name, changes));
    if answer["responses"][0]["errorCode"] == 0 {
        run.pause(std::time::Duration::from_millis(60));
    }
    let mut after = run.quietly(DESCRIBE, 4, describe(TOPIC, &name, Value::Null));
    if let Some(list) = after
        .pointer_mut("/results/0/configs")
        .and_then(Value::as_array_mut)
    {
        list.retain(|config| config["configSource"] == 1);
    }
    run.note_answer(DESCRIBE, after);
}

fn alter_topics(cases: &mut Cases<'_>) {
    cases.every_version(ALTER, "sets_and_deletes", |run, version| {
        let before = [("retention.ms", "1000"), ("flush.ms", "50")];
        alter_and_describe(
            run,
            version,
            &before,
            json!([
                change("retention.ms", DELETE, Value::Null),
                change("flush.ms", SET, json!("70")),
                change("segment.ms", SET, json!("600000")),
            ]),
        );
    });
    cases.every_version(ALTER, "appends_and_subtracts", |run, version| {
        alter_and_describe(
            run,
            version,
            &[("cleanup.policy", "delete")],
            json!([change("cleanup.policy", APPEND, json!("compact")),]),
        );
        alter_and_describe(
            run,
            version,
            &[("cleanup.policy", "delete,compact")],
            json!([change("cleanup.policy", SUBTRACT, json!("delete")),]),
        );
    });
    cases.every_version(ALTER, "validate_only_changes_nothing", |run, version| {
        let name = run.create_topic("t", 1);
        for value in ["1000", "soon"] {
            let mut request = alter(
                TOPIC,
                &name,
                json!([change("retention.ms", SET, json!(value))]),
            );
            request["validateOnly"] = true.into();
            run.send(ALTER, version, request);
        }
        run.send(DESCRIBE, 4, describe(TOPIC, &name, json!(["retention.ms"])));
    });
    cases.every_version(ALTER, "unknown_topic", |run, version| {
        let name = run.topic("missing");
        run.send(
            ALTER,
            version,
            alter(
                TOPIC,
                &name,
                json!([change("retention.ms", SET, json!("1000"))]),
            ),
        );
    });
    let changes = [
        (
            "delete_of_what_is_not_set",
            json!([change("retention.ms", DELETE, Value::Null)]),
        ),
        (
            "delete_with_a_value",
            json!([change("retention.ms", DELETE, json!("7"))]),
        ),
        (
            "delete_of_an_unknown_name",
            json!([change("no.such.config", DELETE, Value::Null)]),
        ),
        (
            "null_for_set",
            json!([change("retention.ms", SET, Value::Null)]),
        ),
        (
            "null_for_append",
            json!([change("cleanup.policy", APPEND, Value::Null)]),
        ),
        (
            "append_to_a_number",
            json!([change("retention.ms", APPEND, json!("5"))]),
        ),
        (
            "subtract_from_a_number",
            json!([change("retention.ms", SUBTRACT, json!("5"))]),
        ),
        (
            "append_to_a_default",
            json!([change("cleanup.policy", APPEND, json!("compact"))]),
        ),
        (
            "append_of_what_is_there",
            json!([change("cleanup.policy", APPEND, json!("delete"))]),
        ),
        (
            "append_of_a_bad_element",
            json!([change("cleanup.policy", APPEND, json!("bogus"))]),
        ),
        (
            "append_of_two",
            json!([change("cleanup.policy", APPEND, json!("compact,delete"))]),
        ),
        (
            "subtract_of_what_is_not_there",
            json!([change("cleanup.policy", SUBTRACT, json!("compact"))]),
        ),
        (
            "subtract_of_all",
            json!([change("cleanup.policy", SUBTRACT, json!("delete"))]),
        ),
        (
            "append_to_an_unknown_name",
            json!([change("no.such.config", APPEND, json!("x"))]),
        ),
        (
            "unknown_operation",
            json!([change("retention.ms", 4, json!("5"))]),
        ),
        (
            "negative_operation",
            json!([change("retention.ms", -1, json!("5"))]),
        ),
        (
            "same_name_twice",
            json!([
                change("retention.ms", SET, json!("5")),
                change("retention.ms", SET, json!("6"))
            ]),
        ),
        (
            "set_and_delete_of_one_name",
            json!([
                change("retention.ms", SET, json!("5")),
                change("retention.ms", DELETE, Value::Null),
            ]),
        ),
        ("empty_name", json!([change("", SET, json!("5"))])),
        ("no_changes", json!([])),
        (
            "good_beside_bad",
            json!([
                change("flush.ms", SET, json!("5")),
                change("retention.ms", SET, json!("x"))
            ]),
        ),
        (
            "broker_name_for_a_topic",
            json!([change("log.retention.ms", SET, json!("5"))]),
        ),
    ];
    for (claim, changes) in changes {
        cases.one(ALTER, 1, claim, move |run| {
            alter_and_describe(run, 1, &[], changes.clone())
        });
    }
}

fn alter_values(cases: &mut Cases<'_>) {
    for (name, value) in CONFIG_VALUES {
        let claim = format!("{name}_becomes_{}", value.replace(' ', "~"));
        cases.one(ALTER, 1, &claim, move |run| {
            alter_and_describe(run, 1, &[], json!([change(name, SET, json!(value))]));
        });
    }
}

fn alter_others(cases: &mut Cases<'_>) {
    cases.one(ALTER, 1, "no_resources", |run| {
        run.send(ALTER, 1, json!({ "resources": [] }));
    });
    cases.one(ALTER, 1, "good_and_bad_resources_in_one_request", |run| {
        let (one, two, missing) = (
            run.create_topic("one", 1),
            run.create_topic("two", 1),
            run.topic("missing"),
        );
        let set = |value: &str| json!([change("retention.ms", SET, json!(value))]);
        run.send(
            ALTER,
            1,
            json!({ "resources": [
            { "resourceType": TOPIC, "resourceName": one, "configs": set("1000") },
            { "resourceType": TOPIC, "resourceName": two, "configs": set("bogus") },
            { "resourceType": TOPIC, "resourceName": missing, "configs": set("1000") },
            { "resourceType": 99, "resourceName": "x", "configs": set("1000") },
        ] }),
        );
        run.pause(std::time::Duration::from_millis(60));
        run.send(DESCRIBE, 4, describe(TOPIC, &one, json!(["retention.ms"])));
        run.send(DESCRIBE, 4, describe(TOPIC, &two, json!(["retention.ms"])));
    });
    cases.one(ALTER, 1, "topic_named_twice", |run| {
        let name = run.create_topic("t", 1);
        let one = json!({ "resourceType": TOPIC, "resourceName": name, "configs": [change("flush.ms", SET, json!("5"))] });
        let two = json!({ "resourceType": TOPIC, "resourceName": name, "configs": [change("flush.ms", SET, json!("6"))] });
        run.send(ALTER, 1, json!({ "resources": [one, two] }));
    });
    for (claim, name) in [("empty", ""), ("dot", "."), ("with_slash", "a/b")] {
        cases.one(ALTER, 1, &format!("topic_name_{claim}"), move |run| {
            run.send(
                ALTER,
                1,
                alter(TOPIC, name, json!([change("flush.ms", SET, json!("5"))])),
            );
        });
    }
    for kind in [0, 1, 3, 99, -1] {
        cases.one(ALTER, 1, &format!("resource_type_{kind}"), move |run| {
            run.send(
                ALTER,
                1,
                alter(kind, "1", json!([change("flush.ms", SET, json!("5"))])),
            );
        });
    }
    let broker = [
        ("read_only_config", "1", "node.id", "2"),
        ("unknown_config", "1", "no.such.config", "2"),
        ("bad_value", "1", "log.retention.ms", "soon"),
        ("read_only_config_of_all", "", "node.id", "2"),
        ("other_broker", "2", "log.retention.ms", "600000"),
        ("no_number", "one", "log.retention.ms", "600000"),
    ];
    for (claim, name, config, value) in broker {
        cases.one(ALTER, 1, &format!("broker_{claim}"), move |run| {
            run.send(
                ALTER,
                1,
                alter(BROKER, name, json!([change(config, SET, json!(value))])),
            );
        });
    }
    cases.one(
        ALTER,
        1,
        "broker_default_becomes_the_default_of_topics",
        |run| {
            let name = run.create_topic("t", 1);
            run.send(
                ALTER,
                1,
                alter(
                    BROKER,
                    "",
                    json!([change("log.retention.ms", SET, json!("777000"))]),
                ),
            );
            let mut request = describe(TOPIC, &name, json!(["retention.ms"]));
            request["includeSynonyms"] = true.into();
            run.send_until(DESCRIBE, 4, request.clone(), |answer| {
                answer["results"][0]["configs"][0]["value"] == "777000"
            });
            run.send(DESCRIBE, 4, describe(BROKER, "", Value::Null));
            run.send(
                ALTER,
                1,
                alter(
                    BROKER,
                    "",
                    json!([change("log.retention.ms", DELETE, Value::Null)]),
                ),
            );
            run.send_until(DESCRIBE, 4, request, |answer| {
                answer["results"][0]["configs"][0]["value"] != "777000"
            });
        },
    );
}
