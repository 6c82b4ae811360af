//! CreateTopics: partitions, replicas, assignments, configs and names, good and bad.

use serde_json::{Value, json};

use super::{Cases, list_body};
use crate::run::Run;

const API: &str = "CreateTopics";

pub(crate) fn add(cases: &mut Cases<'_>) {
    plain(cases);
    counts(cases);
    assignments(cases);
    names(cases);
    configs(cases);
}

fn topic(name: &str, partitions: i32, replicas: i16) -> Value {
    json!({ "name": name, "numPartitions": partitions, "replicationFactor": replicas })
}

fn body(topics: &Value) -> Value {
    json!({ "topics": topics, "timeoutMs": 10_000 })
}

fn plain(cases: &mut Cases<'_>) {
    cases.every_version(API, "creates_a_topic", |run, version| {
        let name = run.topic("t");
        run.send(API, version, body(&json!([topic(&name, 3, 1)])));
        run.await_topic(&name, 3);
        run.send(
            "Metadata",
            9,
            json!({ "topics": [{ "name": name }], "allowAutoTopicCreation": false }),
        );
        run.send("ListOffsets", 7, list_body(&name, 2, -1));
    });
    cases.every_version(API, "creates_a_topic_with_configs", |run, version| {
        let mut wanted = topic(&run.topic("t"), 1, 1);
        wanted["configs"] = json!([
            { "name": "retention.ms", "value": "3600000" }, { "name": "cleanup.policy", "value": "compact" },
            { "name": "segment.bytes", "value": "1048576" },
        ]);
        run.send(API, version, body(&json!([wanted])));
    });
    cases.every_version(API, "existing_topic_is_refused", |run, version| {
        let name = run.create_topic("t", 1);
        run.send(API, version, body(&json!([topic(&name, 3, 1)])));
    });
    cases.every_version(API, "validate_only_creates_nothing", |run, version| {
        let (new, old) = (run.topic("new"), run.create_topic("old", 1));
        let mut request = body(&json!([
            topic(&new, 3, 1),
            topic(&old, 1, 1),
            topic("b/d", 1, 1),
            topic("none", 0, 1)
        ]));
        request["validateOnly"] = true.into();
        run.send(API, version, request);
        run.send(
            "Metadata",
            9,
            json!({ "topics": [{ "name": new }], "allowAutoTopicCreation": false }),
        );
    });
    cases.every_version(API, "good_and_bad_topics_in_one_request", |run, version| {
        let (good, old, zero) = (
            run.topic("good"),
            run.create_topic("old", 1),
            run.topic("zero"),
        );
        let request = body(&json!([
            topic(&good, 1, 1),
            topic(&old, 1, 1),
            topic("b d", 1, 1),
            topic(&zero, 0, 1)
        ]));
        run.send(API, version, request);
    });
    cases.one(API, 7, "no_topics", |run| {
        run.send(API, 7, body(&json!([])));
    });
    cases.one(API, 7, "topic_named_twice", |run| {
        let (name, other) = (run.topic("t"), run.topic("other"));
        run.send(
            API,
            7,
            body(&json!([
                topic(&name, 1, 1),
                topic(&name, 2, 1),
                topic(&other, 1, 1)
            ])),
        );
        run.await_topic(&other, 1);
        run.send(
            "Metadata",
            9,
            json!({
                "topics": [{ "name": name }, { "name": other }], "allowAutoTopicCreation": false,
            }),
        );
    });
    for timeout in [0, -1, 1] {
        cases.one(API, 7, &format!("timeout_of_{timeout}"), move |run| {
            let name = run.topic("t");
            let mut request = body(&json!([topic(&name, 1, 1)]));
            request["timeoutMs"] = timeout.into();
            if timeout > 0 {
                // A millisecond may or may not be enough: only what comes of it is compared.
                run.quietly(API, 7, request);
                run.await_topic(&name, 1);
            } else {
                run.send(API, 7, request);
                run.pause(std::time::Duration::from_millis(100));
            }
            run.send(
                "Metadata",
                9,
                json!({ "topics": [{ "name": name }], "allowAutoTopicCreation": false }),
            );
        });
    }
}

fn counts(cases: &mut Cases<'_>) {
    for partitions in [0, -1, -2, i32::MIN, 10_001, i32::MAX] {
        cases.one(API, 7, &format!("{partitions}_partitions"), move |run| {
            let name = run.topic("t");
            run.send(API, 7, body(&json!([topic(&name, partitions, 1)])));
        });
    }
    for replicas in [0, -1, -2, 2, 3, i16::MAX] {
        cases.one(
            API,
            7,
            &format!("replication_factor_{replicas}"),
            move |run| {
                let name = run.topic("t");
                run.send(API, 7, body(&json!([topic(&name, 1, replicas)])));
            },
        );
    }
    cases.every_version(
        API,
        "defaults_for_partitions_and_replicas",
        |run, version| {
            let name = run.topic("t");
            run.send(API, version, body(&json!([topic(&name, -1, -1)])));
        },
    );
}

fn assignments(cases: &mut Cases<'_>) {
    let lists = [
        ("good", json!([[0, [1]], [1, [1]]])),
        ("out_of_order", json!([[1, [1]], [0, [1]]])),
        ("with_a_gap", json!([[0, [1]], [2, [1]]])),
        ("not_from_zero", json!([[1, [1]]])),
        ("negative", json!([[-1, [1]]])),
        ("with_a_partition_twice", json!([[0, [1]], [0, [1]]])),
        ("with_a_broker_twice", json!([[0, [1, 1]]])),
        ("with_an_unknown_broker", json!([[0, [2]]])),
        ("with_a_negative_broker", json!([[0, [-1]]])),
        ("without_brokers", json!([[0, []]])),
        ("of_uneven_length", json!([[0, [1]], [1, [1, 2]]])),
    ];
    for (claim, list) in lists {
        cases.one(API, 7, &format!("assignment_{claim}"), move |run| {
            let mut wanted = topic(&run.topic("t"), -1, -1);
            wanted["assignments"] = assignment(&list);
            run.send(API, 7, body(&json!([wanted])));
        });
    }
    for (partitions, replicas) in [(1, -1), (-1, 1), (1, 1), (0, 0)] {
        cases.one(
            API,
            7,
            &format!("assignment_beside_{partitions}_partitions_and_{replicas}_replicas"),
            move |run| {
                let mut wanted = topic(&run.topic("t"), partitions, replicas);
                wanted["assignments"] = assignment(&json!([[0, [1]]]));
                run.send(API, 7, body(&json!([wanted])));
            },
        );
    }
}

fn assignment(list: &Value) -> Value {
    let one = |entry: &Value| json!({ "partitionIndex": entry[0], "brokerIds": entry[1] });
    list.as_array().into_iter().flatten().map(one).collect()
}

fn names(cases: &mut Cases<'_>) {
    let names = [
        ("empty", String::new()),
        ("dot", ".".to_owned()),
        ("two_dots", "..".to_owned()),
        ("with_slash", "a/b".to_owned()),
        ("with_colon", "a:b".to_owned()),
        ("with_umlaut", "ä".to_owned()),
        ("with_newline", "a\nb".to_owned()),
        ("of_250_letters", "n".repeat(250)),
        ("internal_metadata", "__cluster_metadata".to_owned()),
    ];
    for (claim, name) in names {
        cases.one(API, 7, &format!("name_{claim}"), move |run| {
            run.send(API, 7, body(&json!([topic(&name, 1, 1)])));
        });
    }
    cases.one(API, 7, "name_of_249_letters", |run| {
        let name = format!("{:m<249}", run.topic("long"));
        run.send(API, 7, body(&json!([topic(&name, 1, 1)])));
    });
    for (first, second) in [("a.b", "a_b"), ("a_b", "a.b"), ("a.b_c", "a_b.c")] {
        cases.one(
            API,
            7,
            &format!("name_{second}_after_{first}"),
            move |run| {
                run.create_topic(first, 1);
                let name = run.topic(second);
                run.send(API, 7, body(&json!([topic(&name, 1, 1)])));
            },
        );
    }
    cases.one(API, 7, "names_that_collide_in_one_request", |run| {
        let (one, two) = (run.topic("x.y"), run.topic("x_y"));
        run.send(API, 7, body(&json!([topic(&one, 1, 1), topic(&two, 1, 1)])));
    });
    cases.one(API, 7, "name_in_other_case_is_another_topic", |run| {
        run.create_topic("case", 1);
        let name = run.topic("CASE");
        run.send(API, 7, body(&json!([topic(&name, 1, 1)])));
    });
    cases.one(API, 7, "name_of_a_deleted_topic_is_free_again", |run| {
        let name = run.create_topic("t", 1);
        run.quietly(
            "DeleteTopics",
            5,
            json!({ "topicNames": [name], "timeoutMs": 10_000 }),
        );
        run.send(API, 7, body(&json!([topic(&name, 2, 1)])));
    });
}

/// Config values as clients might give them, right and wrong.
pub(crate) const CONFIG_VALUES: [(&str, &str); 68] = [
    ("cleanup.policy", "compact,delete"),
    ("cleanup.policy", " delete , compact "),
    ("cleanup.policy", ""),
    ("cleanup.policy", "keep"),
    ("cleanup.policy", "delete,delete"),
    ("compression.type", "gzip"),
    ("compression.type", "uncompressed"),
    ("compression.type", "none"),
    ("compression.type", "GZIP"),
    ("compression.type", "bogus"),
    ("compression.gzip.level", "10"),
    ("compression.gzip.level", "0"),
    ("compression.gzip.level", "-1"),
    ("compression.lz4.level", "18"),
    ("compression.zstd.level", "23"),
    ("delete.retention.ms", "-1"),
    ("delete.retention.ms", "0"),
    ("file.delete.delay.ms", "-1"),
    ("flush.messages", "0"),
    ("flush.messages", "1"),
    ("flush.messages", "9223372036854775807"),
    ("flush.messages", "9223372036854775808"),
    ("flush.ms", "-1"),
    ("index.interval.bytes", "-1"),
    ("index.interval.bytes", "0"),
    ("max.compaction.lag.ms", "0"),
    ("max.message.bytes", "-1"),
    ("max.message.bytes", "0"),
    ("max.message.bytes", "2147483648"),
    ("max.message.bytes", "1e6"),
    ("max.message.bytes", " 1000 "),
    ("max.message.bytes", "0x10"),
    ("max.message.bytes", ""),
    ("message.downconversion.enable", "true"),
    ("message.format.version", "2.8"),
    ("message.timestamp.type", "LogAppendTime"),
    ("message.timestamp.type", "logappendtime"),
    ("message.timestamp.after.max.ms", "-1"),
    ("message.timestamp.before.max.ms", "0"),
    ("message.timestamp.difference.max.ms", "1"),
    ("min.cleanable.dirty.ratio", "1.5"),
    ("min.cleanable.dirty.ratio", "-0.1"),
    ("min.cleanable.dirty.ratio", "0.25"),
    ("min.cleanable.dirty.ratio", "half"),
    ("min.compaction.lag.ms", "-1"),
    ("min.insync.replicas", "0"),
    ("min.insync.replicas", "2"),
    ("preallocate", "yes"),
    ("preallocate", "TRUE"),
    ("remote.storage.enable", "true"),
    ("remote.storage.enable", "false"),
    ("local.retention.ms", "-3"),
    ("local.retention.bytes", "5"),
    ("retention.bytes", "-1"),
    ("retention.bytes", "-2"),
    ("retention.ms", "-1"),
    ("retention.ms", "-2"),
    ("retention.ms", "a week"),
    ("segment.bytes", "1048575"),
    ("segment.bytes", "1048576"),
    ("segment.index.bytes", "3"),
    ("segment.index.bytes", "4"),
    ("segment.jitter.ms", "-1"),
    ("segment.ms", "0"),
    ("unclean.leader.election.enable", "maybe"),
    ("leader.replication.throttled.replicas", "0:1,1:1"),
    ("leader.replication.throttled.replicas", "bogus"),
    ("no.such.config", "1"),
];

fn configs(cases: &mut Cases<'_>) {
    for (name, value) in CONFIG_VALUES {
        let claim = format!("config_{name}_is_{}", value.replace(' ', "~"));
        cases.one(API, 7, &claim, move |run| {
            with_configs(run, &json!([{ "name": name, "value": value }]))
        });
    }
    let lists = [
        (
            "with_null_value",
            json!([{ "name": "retention.ms", "value": null }]),
        ),
        (
            "with_null_value_of_unknown_name",
            json!([{ "name": "no.such.config", "value": null }]),
        ),
        ("with_empty_name", json!([{ "name": "", "value": "1" }])),
        (
            "given_twice",
            json!([{ "name": "retention.ms", "value": "1" }, { "name": "retention.ms", "value": "2" }]),
        ),
        (
            "with_two_errors",
            json!([{ "name": "retention.ms", "value": "x" }, { "name": "flush.ms", "value": "y" }]),
        ),
        (
            "where_min_lag_is_over_max_lag",
            json!([
                { "name": "min.compaction.lag.ms", "value": "100" }, { "name": "max.compaction.lag.ms", "value": "10" },
            ]),
        ),
        (
            "where_local_retention_is_over_retention",
            json!([
                { "name": "local.retention.ms", "value": "100" }, { "name": "retention.ms", "value": "10" },
            ]),
        ),
    ];
    for (claim, list) in lists {
        cases.one(API, 7, &format!("configs_{claim}"), move |run| {
            with_configs(run, &list)
        });
    }
    cases.one(
        API,
        7,
        "configs_are_checked_before_or_after_counts",
        |run| {
            let mut wanted = topic(&run.topic("t"), 0, 5);
            wanted["configs"] = json!([{ "name": "no.such.config", "value": "1" }]);
            run.send(API, 7, body(&json!([wanted])));
        },
    );
}

fn with_configs(run: &mut Run<'_>, configs: &Value) {
    let mut wanted = topic(&run.topic("t"), 1, 1);
    wanted["configs"] = configs.clone();
    // Only what is not a default is recorded: `creates_a_topic` compares the full list once per version.
    let mut answer = run.quietly(API, 7, body(&json!([wanted])));
    if let Some(list) = answer
        .pointer_mut("/topics/0/configs")
        .and_then(Value::as_array_mut)
    {
        list.retain(|config| config["configSource"] != 5);
    }
    run.note_answer(API, answer);
}
