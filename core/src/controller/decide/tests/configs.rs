use super::*;
use crate::{
    controller::messages::{
        AlterConfigsResource, CreatableTopic, CreateTopicsRequestData, DescribeConfigsRequestData,
        DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResult,
        IncrementalAlterConfigsRequestData,
    },
    protocol::messages::AlterableConfig,
};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

fn desk() -> Desk {
    let mut desk = Desk::alone();
    let topics = vec![CreatableTopic {
        name: wire_string("t"),
        num_partitions: 1,
        replication_factor: 1,
        ..CreatableTopic::default()
    }];
    let request = CreateTopicsRequestData {
        topics,
        ..CreateTopicsRequestData::default()
    };
    desk.decide(|image, context, rng| create_topics(image, context, rng, &request));
    desk
}

fn resource(kind: i8, name: &str, ops: &[(i8, &str, Option<&str>)]) -> AlterConfigsResource {
    let config = |(operation, name, value): &(i8, &str, Option<&str>)| AlterableConfig {
        name: wire_string(name),
        config_operation: *operation,
        value: value.map(wire_string),
        ..AlterableConfig::default()
    };
    AlterConfigsResource {
        resource_type: kind,
        resource_name: wire_string(name),
        configs: ops.iter().map(config).collect(),
        ..AlterConfigsResource::default()
    }
}

fn alter_all(desk: &mut Desk, resources: Vec<AlterConfigsResource>) -> Vec<(i16, String)> {
    let request = IncrementalAlterConfigsRequestData {
        resources,
        ..IncrementalAlterConfigsRequestData::default()
    };
    let reply = desk.decide(|image, context, _| alter_configs(image, context, &request));
    let outcome = |code: i16, message: Option<&KafkaString>| {
        (
            code,
            message.map_or_else(String::new, |m| m.as_str().to_owned()),
        )
    };
    reply
        .responses
        .iter()
        .map(|r| outcome(r.error_code, r.error_message.as_ref()))
        .collect()
}

fn alter(
    desk: &mut Desk,
    kind: i8,
    name: &str,
    op: i8,
    config: &str,
    value: &str,
) -> (i16, String) {
    alter_all(
        desk,
        vec![resource(kind, name, &[(op, config, Some(value))])],
    )
    .remove(0)
}

fn ok() -> (i16, String) {
    (0, String::new())
}

fn describe(desk: &Desk, kind: i8, name: &str, keys: Option<&[&str]>) -> DescribeConfigsResult {
    let request = DescribeConfigsRequestData {
        resources: vec![DescribeConfigsResource {
            resource_type: kind,
            resource_name: wire_string(name),
            configuration_keys: keys.map(|keys| keys.iter().map(|key| wire_string(key)).collect()),
            ..DescribeConfigsResource::default()
        }],
        include_synonyms: true,
        ..DescribeConfigsRequestData::default()
    };
    let context = DecisionContext {
        node_id: NodeId(1),
        fixed: &desk.fixed,
        planted: PlantedSet::NONE,
    };
    describe_configs(&desk.image, &context, &request)
        .results
        .remove(0)
}

/// One entry as a line: value, source, read-only, sensitive, type, and where it is set.
fn entry(desk: &Desk, kind: i8, name: &str, config: &str) -> String {
    let result = describe(desk, kind, name, Some(&[config]));
    line(result.configs.first().unwrap())
}

fn line(entry: &DescribeConfigsResourceResult) -> String {
    let text = |value: Option<&KafkaString>| value.map_or("null", |v| v.as_str()).to_owned();
    let synonyms: Vec<String> = entry
        .synonyms
        .iter()
        .map(|s| format!("{}:{}={}", s.source, s.name, text(s.value.as_ref())))
        .collect();
    format!(
        "{} src={} ro={} sens={} type={} [{}]",
        text(entry.value.as_ref()),
        entry.config_source,
        entry.read_only,
        entry.is_sensitive,
        entry.config_type,
        synonyms.join(", ")
    )
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn topic_configs_change_as_kafka_changes_them() {
    let mut desk = desk();
    let cases = [
        (SET, "retention.ms", " 5000 ", ok()),
        (
            APPEND,
            "retention.ms",
            "1",
            (
                40,
                "Can't APPEND to key retention.ms because its type is not LIST.".into(),
            ),
        ),
        (
            SUBTRACT,
            "nope",
            "1",
            (
                40,
                "Can't SUBTRACT to key nope because its type is not LIST.".into(),
            ),
        ),
        (
            SET,
            "nope",
            "1",
            (40, "Unknown topic config name: nope".into()),
        ),
        (DELETE, "nope", "", ok()),
        (
            SET,
            "retention.ms",
            "-2",
            (
                40,
                "Invalid value -2 for configuration retention.ms: Value must be at least -1".into(),
            ),
        ),
        (
            SET,
            "retention.ms",
            "x",
            (
                40,
                "Invalid value x for configuration retention.ms: Not a number of type LONG".into(),
            ),
        ),
        (APPEND, "cleanup.policy", "compact,delete", ok()),
        (SUBTRACT, "cleanup.policy", "delete", ok()),
        (
            APPEND,
            "cleanup.policy",
            "",
            (
                40,
                "Configuration 'cleanup.policy' values must not be empty.".into(),
            ),
        ),
        (
            9,
            "retention.ms",
            "1",
            (42, "Unknown operations type 9".into()),
        ),
    ];
    for (op, config, value, expected) in cases {
        assert_eq!(
            alter(&mut desk, TOPIC, "t", op, config, value),
            expected,
            "{op} {config} {value}"
        );
    }
    assert_eq!(desk.image.topic_configs("t")["cleanup.policy"], "compact");
    assert_eq!(
        entry(&desk, TOPIC, "t", "retention.ms"),
        "5000 src=1 ro=false sens=false type=5 [1:retention.ms=5000]"
    );
    assert_eq!(
        alter(&mut desk, TOPIC, "t", DELETE, "retention.ms", ""),
        ok()
    );
    assert_eq!(
        entry(&desk, TOPIC, "t", "retention.ms"),
        "604800000 src=5 ro=false sens=false type=5 []"
    );
}

#[test]
fn resources_that_cannot_be_are_refused() {
    let mut desk = desk();
    let mut refused = |kind, name: &str| alter(&mut desk, kind, name, SET, "retention.ms", "1");
    assert_eq!(
        refused(TOPIC, "nosuch"),
        (3, "The topic 'nosuch' does not exist.".into())
    );
    assert_eq!(
        refused(TOPIC, "bad name"),
        (
            17,
            "Topic name is invalid: 'bad name' contains one or more characters other than ASCII alphanumerics, '.', \
             '_' and '-'"
                .into()
        )
    );
    assert_eq!(
        refused(TOPIC, ""),
        (42, "Default topic resources are not allowed.".into())
    );
    assert_eq!(refused(0, "x"), (42, "Unknown resource type 0".into()));
    assert_eq!(
        refused(BROKER, "x"),
        (42, "Node id must be an integer, but it is: x".into())
    );
    assert_eq!(
        refused(BROKER, "7"),
        (
            42,
            "Unexpected broker id, expected 1, but received 7".into()
        )
    );
}

#[test]
fn malformed_changes_are_refused_whole() {
    let mut desk = desk();
    let twice = [
        (SET, "retention.ms", Some("1")),
        (SET, "retention.ms", Some("2")),
    ];
    let nulls = [
        (SET, "retention.ms", None),
        (APPEND, "cleanup.policy", None),
        (DELETE, "segment.ms", None),
    ];
    let good = [(SET, "retention.ms", Some("7"))];
    let outcomes = alter_all(
        &mut desk,
        vec![
            resource(TOPIC, "t", &good),
            resource(TOPIC, "u", &twice),
            resource(TOPIC, "v", &nulls),
            resource(TOPIC, "t", &good),
        ],
    );
    let once = (42, "Each resource must appear at most once.".to_owned());
    assert_eq!(
        outcomes,
        [
            once.clone(),
            (42, "Error due to duplicate config keys".into()),
            (
                42,
                "Null value not supported for : retention.ms, cleanup.policy".into()
            ),
            once,
        ]
    );
    let long = "x".repeat(32_768);
    assert_eq!(
        alter(
            &mut desk,
            TOPIC,
            "t",
            SET,
            "leader.replication.throttled.replicas",
            &long
        )
        .1,
        "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes."
    );
    assert!(desk.image.topic_configs("t").is_empty());
}

/// As the same changes were answered by a Kafka 4.3.1 broker.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn broker_configs_change_as_kafka_changes_them() {
    let mut desk = desk();
    let dynamic = |list: &str| {
        (
            42,
            format!("Cannot update these configs dynamically: [{list}]"),
        )
    };
    let wrapped = |why: &str| {
        (
            42,
            format!(
                "Invalid value org.apache.kafka.common.config.ConfigException: {why} for configuration Invalid dynamic \
                 configuration"
            ),
        )
    };
    let cases = [
        ("1", SET, "log.retention.ms", "1000", ok()),
        ("1", SET, "log.retention.hours", "1", dynamic("log.retention.hours")),
        ("1", SET, "nope", "1", ok()),
        ("", SET, "nope2", "1", ok()),
        ("1", SET, "num.partitions", "3", dynamic("num.partitions")),
        (
            "1",
            SET,
            "min.insync.replicas",
            "1",
            (40, "Broker-level min.insync.replicas cannot be altered while ELR is enabled.".into()),
        ),
        ("", SET, "min.insync.replicas", "2", ok()),
        (
            "",
            DELETE,
            "min.insync.replicas",
            "",
            (40, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.".into()),
        ),
        (
            "",
            SET,
            "log.segment.bytes",
            "5",
            (42, "Invalid value 5 for configuration log.segment.bytes: Value must be at least 1048576".into()),
        ),
        ("", SET, "log.segment.bytes", "2000000", ok()),
        (
            "1",
            SET,
            "ssl.keystore.location",
            "x",
            (
                42,
                "These security configs can be dynamically updated only per-listener using the listener prefix: \
                 [ssl.keystore.location]"
                    .into(),
            ),
        ),
        (
            "",
            SET,
            "listeners",
            "PLAINTEXT://:1",
            (42, "Cannot update these configs at default cluster level, broker id must be specified: [listeners]".into()),
        ),
        ("", APPEND, "log.cleanup.policy", "compact", ok()),
        ("", APPEND, "nope3", "x", (40, "Unknown config name: nope3".into())),
        (
            "",
            APPEND,
            "log.segment.bytes",
            "x",
            (40, "Config value append is not allowed for config key: log.segment.bytes".into()),
        ),
        ("", SET, "leader.replication.throttled.rate", "5", ok()),
        (
            "1",
            SET,
            "log.cleaner.threads",
            "100",
            wrapped("Log cleaner threads cannot be increased to more than double the current value 1"),
        ),
        (
            "1",
            SET,
            "num.io.threads",
            "100",
            wrapped(
                "Dynamic thread count update validation failed for num.io.threads=100, value should not be greater \
                 than double the current value 8",
            ),
        ),
        (
            "1",
            SET,
            "log.retention.ms",
            "0",
            (42, "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1".into()),
        ),
    ];
    for (name, op, config, value, expected) in cases {
        assert_eq!(
            alter(&mut desk, BROKER, name, op, config, value),
            expected,
            "{name} {op} {config} {value}"
        );
    }
    let seen = |kind, name: &str, config: &str| entry(&desk, kind, name, config);
    assert_eq!(
        seen(BROKER, "1", "log.retention.ms"),
        "1000 src=2 ro=false sens=false type=5 [2:log.retention.ms=1000, 5:log.retention.hours=168]"
    );
    assert_eq!(
        seen(BROKER, "1", "log.retention.hours"),
        "168 src=5 ro=true sens=false type=3 [5:log.retention.hours=168]"
    );
    assert_eq!(
        seen(BROKER, "1", "nope"),
        "null src=2 ro=true sens=true type=0 [2:nope=null]"
    );
    assert_eq!(
        seen(BROKER, "1", "min.insync.replicas"),
        "2 src=3 ro=false sens=false type=3 [3:min.insync.replicas=2, 5:min.insync.replicas=1]"
    );
    assert_eq!(
        seen(BROKER, "1", "leader.replication.throttled.rate"),
        "5 src=3 ro=false sens=false type=5 [3:leader.replication.throttled.rate=5]"
    );
    assert_eq!(
        seen(TOPIC, "t", "cleanup.policy"),
        "delete,compact src=3 ro=false sens=false type=7 \
         [3:log.cleanup.policy=delete,compact, 5:log.cleanup.policy=delete]"
    );
    let all: Vec<String> = describe(&desk, BROKER, "", None)
        .configs
        .iter()
        .map(|entry| format!("{}={}", entry.name, line(entry)))
        .collect();
    assert_eq!(
        all,
        [
            "leader.replication.throttled.rate=5 src=3 ro=false sens=false type=5 [3:leader.replication.throttled.rate=5]",
            "log.cleanup.policy=delete,compact src=3 ro=false sens=false type=7 [3:log.cleanup.policy=delete,compact]",
            "log.segment.bytes=2000000 src=3 ro=false sens=false type=3 [3:log.segment.bytes=2000000]",
            "min.insync.replicas=2 src=3 ro=false sens=false type=3 [3:min.insync.replicas=2]",
            "nope2=null src=3 ro=true sens=true type=0 [3:nope2=null]",
        ]
    );
}

#[test]
fn unset_configs_are_described_as_kafka_describes_them() {
    let desk = desk();
    let topic = describe(&desk, TOPIC, "t", None);
    assert_eq!((topic.error_code, topic.configs.len()), (0, 33));
    assert_eq!(topic.error_message.unwrap().as_str(), "");
    let seen = |kind, name: &str, config: &str| entry(&desk, kind, name, config);
    for (config, expected) in [
        (
            "flush.ms",
            "9223372036854775807 src=5 ro=false sens=false type=5 []",
        ),
        (
            "follower.replication.throttled.replicas",
            " src=5 ro=false sens=false type=7 []",
        ),
        (
            "min.cleanable.dirty.ratio",
            "0.5 src=5 ro=false sens=false type=6 [5:log.cleaner.min.cleanable.ratio=0.5]",
        ),
        (
            "preallocate",
            "false src=5 ro=false sens=false type=1 [5:log.preallocate=false]",
        ),
        (
            "remote.storage.enable",
            "false src=5 ro=false sens=false type=1 []",
        ),
        (
            "retention.ms",
            "604800000 src=5 ro=false sens=false type=5 []",
        ),
        (
            "flush.messages",
            "1 src=5 ro=false sens=false type=5 [5:log.flush.interval.messages=1]",
        ),
    ] {
        assert_eq!(seen(TOPIC, "t", config), expected, "{config}");
    }
    for (config, expected) in [
        (
            "log.retention.ms",
            "null src=5 ro=false sens=false type=5 []",
        ),
        (
            "log.dir",
            "/tmp/kafka-logs src=5 ro=true sens=false type=7 [5:log.dir=/tmp/kafka-logs]",
        ),
        (
            "delegation.token.secret.key",
            "null src=5 ro=true sens=true type=9 []",
        ),
        (
            "cordoned.log.dirs",
            " src=5 ro=false sens=false type=7 [5:cordoned.log.dirs=]",
        ),
        (
            "log.cleaner.io.max.bytes.per.second",
            "1.7976931348623157E308 src=5 ro=false sens=false type=6 \
             [5:log.cleaner.io.max.bytes.per.second=1.7976931348623157E308]",
        ),
    ] {
        assert_eq!(seen(BROKER, "1", config), expected, "{config}");
    }
    // 360 definitions less 20 internal ones: what a Kafka 4.3.1 broker shows.
    assert_eq!(describe(&desk, BROKER, "1", None).configs.len(), 340);
    assert_eq!(describe(&desk, BROKER, "", Some(&[])).configs.len(), 0);
    assert_eq!(
        describe(&desk, TOPIC, "t", Some(&["nope"])).configs.len(),
        0
    );
    assert_eq!(describe(&desk, TOPIC, "t", Some(&[])).configs.len(), 33);
}

#[test]
fn settings_of_the_file_are_shown_as_such() {
    let mut desk = desk().setting("log.retention.hours", "100");
    assert_eq!(
        entry(&desk, TOPIC, "t", "retention.ms"),
        "360000000 src=5 ro=false sens=false type=5 []"
    );
    desk.fixed = StaticConfig::new([("some.unknown".to_owned(), "abc".to_owned())]).unwrap();
    assert_eq!(
        entry(&desk, BROKER, "1", "some.unknown"),
        "null src=4 ro=true sens=true type=0 [4:some.unknown=null]"
    );
}

#[test]
fn descriptions_of_what_is_not_there_are_errors() {
    let mut desk = desk();
    let refusal = |desk: &Desk, kind, name: &str| {
        let result = describe(desk, kind, name, None);
        assert!(result.configs.is_empty());
        (
            result.error_code,
            result
                .error_message
                .map_or_else(String::new, |m| m.as_str().to_owned()),
        )
    };
    assert_eq!(refusal(&desk, TOPIC, "nosuch"), (3, String::new()));
    assert_eq!(
        refusal(&desk, TOPIC, ""),
        (
            17,
            "Topic name is invalid: the empty string is not allowed".into()
        )
    );
    assert_eq!(
        refusal(&desk, BROKER, "7"),
        (
            42,
            "Unexpected broker id, expected 1 or empty string, but received 7".into()
        )
    );
    assert_eq!(
        refusal(&desk, BROKER, "x"),
        (42, "Broker id must be an integer, but it is: x".into())
    );
    assert_eq!(refusal(&desk, 99, "x").0, 42);
    desk.set(TOPIC, "t", "internal.segment.bytes", "100");
    assert_eq!(
        entry(&desk, TOPIC, "t", "internal.segment.bytes"),
        "100 src=1 ro=false sens=false type=3 [1:internal.segment.bytes=100]"
    );
}
