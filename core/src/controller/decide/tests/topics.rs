use std::collections::BTreeSet;

use super::*;
use crate::{
    controller::messages::{
        CreatableTopic, CreatableTopicConfig, CreatePartitionsRequestData, CreatePartitionsTopic,
        CreateTopicsRequestData, CreateTopicsResponseData, DeleteTopicsRequestData,
        DeleteTopicsResponseData,
    },
    protocol::messages::{
        CreatableReplicaAssignment, CreatePartitionsAssignment, DeleteTopicState,
    },
};

fn topic(name: &str, partitions: i32, factor: i16) -> CreatableTopic {
    CreatableTopic {
        name: wire_string(name),
        num_partitions: partitions,
        replication_factor: factor,
        ..CreatableTopic::default()
    }
}

fn with_config(name: &str, configs: &[(&str, Option<&str>)]) -> CreatableTopic {
    let config = |(name, value): &(&str, Option<&str>)| CreatableTopicConfig {
        name: wire_string(name),
        value: value.map(wire_string),
        ..CreatableTopicConfig::default()
    };
    CreatableTopic {
        configs: configs.iter().map(config).collect(),
        ..topic(name, 1, 1)
    }
}

fn assigned(name: &str, assignments: &[(i32, &[i32])]) -> CreatableTopic {
    let assignment = |(number, brokers): &(i32, &[i32])| CreatableReplicaAssignment {
        partition_index: *number,
        broker_ids: brokers.to_vec(),
        ..CreatableReplicaAssignment::default()
    };
    CreatableTopic {
        assignments: assignments.iter().map(assignment).collect(),
        ..topic(name, -1, -1)
    }
}

fn create(desk: &mut Desk, topics: Vec<CreatableTopic>) -> CreateTopicsResponseData {
    let request = CreateTopicsRequestData {
        topics,
        ..CreateTopicsRequestData::default()
    };
    desk.decide(|image, context, rng| create_topics(image, context, rng, &request))
}

/// The one answer of a request for one topic: code and message.
fn outcome(desk: &mut Desk, topic: CreatableTopic) -> (i16, String) {
    let reply = create(desk, vec![topic]);
    assert_eq!(reply.topics.len(), 1);
    let message = reply.topics[0].error_message.as_ref();
    (
        reply.topics[0].error_code,
        message.map_or_else(String::new, |m| m.as_str().to_owned()),
    )
}

fn delete(desk: &mut Desk, request: DeleteTopicsRequestData) -> DeleteTopicsResponseData {
    desk.decide(|image, context, _| delete_topics(image, context, &request, 6))
}

fn grow(desk: &mut Desk, name: &str, count: i32, assignments: Option<&[&[i32]]>) -> (i16, String) {
    let assignment = |brokers: &&[i32]| CreatePartitionsAssignment {
        broker_ids: brokers.to_vec(),
        ..CreatePartitionsAssignment::default()
    };
    let request = CreatePartitionsRequestData {
        topics: vec![CreatePartitionsTopic {
            name: wire_string(name),
            count,
            assignments: assignments.map(|list| list.iter().map(assignment).collect()),
            ..CreatePartitionsTopic::default()
        }],
        timeout_ms: 1000,
        ..CreatePartitionsRequestData::default()
    };
    let reply = desk.decide(|image, _, rng| create_partitions(image, rng, &request));
    let message = reply.results[0].error_message.as_ref();
    (
        reply.results[0].error_code,
        message.map_or_else(String::new, |m| m.as_str().to_owned()),
    )
}

#[test]
fn created_topic_is_described_in_full() {
    let mut desk = Desk::alone().setting("log.retention.hours", "100");
    let reply = create(
        &mut desk,
        vec![with_config("t", &[("retention.bytes", Some(" 5 "))])],
    );
    let result = &reply.topics[0];
    let image = desk.image.topic("t").unwrap();
    assert_eq!(result.topic_id, wire_uuid(image.id()));
    assert_eq!((result.num_partitions, result.replication_factor), (1, 1));
    let configs = result.configs.as_ref().unwrap();
    assert_eq!(configs.len(), 33, "all but the internal one");
    let entry = |name: &str| {
        let found = configs
            .iter()
            .find(|config| config.name.as_str() == name)
            .unwrap();
        (found.value.as_ref().unwrap().as_str(), found.config_source)
    };
    assert_eq!(entry("retention.bytes"), (" 5 ", 1), "as it was sent");
    assert_eq!(entry("retention.ms"), ("360000000", 4));
    assert_eq!(entry("flush.messages"), ("1", 5));
    let partition = image.partition(0).unwrap();
    assert_eq!((partition.leader, partition.leader_epoch.0), (NodeId(1), 0));
    assert_eq!(partition.directories, [directory(1)]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn refusals_carry_kafkas_codes_and_words() {
    let mut desk = Desk::alone();
    create(&mut desk, vec![topic("a.b", 1, 1)]);
    let long = "x".repeat(250);
    let cases: Vec<(CreatableTopic, i16, String)> = vec![
        (topic("a.b", 1, 1), 36, "Topic 'a.b' already exists.".into()),
        (topic("a_b", 1, 1), 17, "Topic 'a_b' collides with existing topic: a.b".into()),
        (topic("", 1, 1), 17, "Topic name is invalid: the empty string is not allowed".into()),
        (topic("..", 1, 1), 17, "Topic name is invalid: '..' is not allowed".into()),
        (
            topic("b c", 1, 1),
            17,
            "Topic name is invalid: 'b c' contains one or more characters other than ASCII \
             alphanumerics, '.', '_' and '-'"
                .into(),
        ),
        (
            topic(&long, 1, 1),
            17,
            format!(
                "Topic name is invalid: the length of '{long}' is longer than the max allowed length 249"
            ),
        ),
        (
            topic("t", 1, 2),
            38,
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached \
             because only 1 broker(s) are registered or some brokers have all their log directories cordoned."
                .into(),
        ),
        (
            topic("t", 1, 0),
            38,
            "Replication factor must be larger than 0, or -1 to use the default value.".into(),
        ),
        (topic("t", 0, 1), 37, "Number of partitions was set to an invalid non-positive value.".into()),
        (topic("t", 20_000, 1), 44, "Excessively large number of partitions per request.".into()),
        (topic("t", 10_000, 1), 44, "Unable to perform excessively large batch operation.".into()),
        (
            topic("__cluster_metadata", 1, 1),
            42,
            "Creation of internal topic __cluster_metadata is prohibited.".into(),
        ),
        (
            with_config("t", &[("nope", Some("1"))]),
            40,
            "Unknown topic config name: nope".into(),
        ),
        (
            with_config("t", &[("retention.ms", None), ("segment.ms", None)]),
            40,
            "Null value not supported for topic configs: retention.ms,segment.ms".into(),
        ),
        (
            with_config("t", &[("min.compaction.lag.ms", Some("10")), ("max.compaction.lag.ms", Some("5"))]),
            40,
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)".into(),
        ),
        (
            with_config("t", &[("remote.storage.enable", Some("true"))]),
            40,
            "Tiered Storage functionality is disabled in the broker. \
             Topic cannot be configured with remote log storage."
                .into(),
        ),
    ];
    for (topic, code, message) in cases {
        assert_eq!(
            outcome(&mut desk, topic.clone()),
            (code, message),
            "{topic:?}"
        );
        assert_eq!(desk.image.topic_count(), 1);
    }
    assert_eq!(outcome(&mut desk, topic("t", 9_999, 1)).0, 0);
    assert_eq!(desk.image.topic("t").unwrap().partition_count(), 9_999);
}

#[test]
fn manual_assignments_are_checked_one_by_one() {
    let mut desk = Desk::with_brokers(&[(1, None), (2, None)]);
    desk.replay(&[broker(3, None, true).into()]);
    let cases: [(CreatableTopic, i16, &str); 8] = [
        (
            assigned("t", &[(0, &[1]), (2, &[1])]),
            39,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            assigned("t", &[(0, &[1, 1])]),
            39,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            assigned("t", &[(0, &[9])]),
            39,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            assigned("t", &[(0, &[])]),
            39,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            assigned("t", &[(0, &[1]), (0, &[2])]),
            39,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            assigned("t", &[(0, &[1]), (1, &[1, 2])]),
            39,
            "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent with \
             previous partitions, which have 1 replica(s).",
        ),
        (
            assigned("t", &[(0, &[3])]),
            39,
            "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled \
             shutdown.",
        ),
        (
            CreatableTopic {
                num_partitions: 1,
                ..assigned("t", &[(0, &[1])])
            },
            42,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
    ];
    for (topic, code, message) in cases {
        assert_eq!(outcome(&mut desk, topic), (code, message.to_owned()));
    }
    assert_eq!(
        outcome(&mut desk, assigned("t", &[(1, &[2, 3]), (0, &[3, 1])])).0,
        0
    );
    let created = desk.image.topic("t").unwrap();
    assert_eq!(
        created.partition(0).unwrap().replicas,
        [NodeId(3), NodeId(1)]
    );
    assert_eq!(
        created.partition(0).unwrap().leader,
        NodeId(1),
        "the first live replica leads"
    );
    assert_eq!(created.partition(1).unwrap().isr, [NodeId(2)]);
}

#[test]
fn duplicates_fail_and_the_rest_succeeds() {
    let mut desk = Desk::alone();
    let reply = create(
        &mut desk,
        vec![topic("a", 1, 1), topic("b", 1, 1), topic("a", 2, 1)],
    );
    let answers: Vec<_> = reply
        .topics
        .iter()
        .map(|topic| (topic.name.as_str(), topic.error_code))
        .collect();
    assert_eq!(answers, [("b", 0), ("a", 42)]);
    assert_eq!(
        reply.topics[1].error_message.as_ref().unwrap().as_str(),
        "Duplicate topic name."
    );
}

#[test]
fn validation_alone_answers_the_same_and_changes_nothing() {
    let mut desk = Desk::alone();
    let request = CreateTopicsRequestData {
        topics: vec![topic("a", 3, -1)],
        validate_only: true,
        ..CreateTopicsRequestData::default()
    };
    let reply = desk.decide(|image, context, rng| create_topics(image, context, rng, &request));
    assert_eq!(
        (reply.topics[0].error_code, reply.topics[0].num_partitions),
        (0, 3)
    );
    assert_eq!(desk.image.topic_count(), 0);
}

#[test]
fn replicas_spread_over_racks_and_leaders_over_brokers() {
    let brokers: Vec<(i32, Option<&str>)> = (0..9)
        .map(|id| (id, Some(["a", "b", "c"][usize::try_from(id).unwrap() / 3])))
        .collect();
    let mut desk = Desk::with_brokers(&brokers);
    create(&mut desk, vec![topic("t", 9, 3)]);
    let mut leaders = BTreeSet::new();
    for partition in desk.image.topic("t").unwrap().partitions() {
        let racks: BTreeSet<i32> = partition.replicas.iter().map(|id| id.0 / 3).collect();
        assert_eq!(racks.len(), 3, "{partition:?}");
        leaders.insert(partition.leader);
    }
    assert_eq!(leaders.len(), 9);
}

#[test]
fn any_mix_of_live_and_fenced_brokers_gives_distinct_replicas_and_a_live_leader() {
    for brokers in 1..6_i32 {
        for fenced in 0..brokers {
            let mut desk = Desk::with_brokers(&[]);
            for id in 0..brokers {
                let rack = ["a", "b"][usize::try_from(id % 2).unwrap()];
                desk.replay(&[broker(id, Some(rack), id < fenced).into()]);
            }
            for factor in 1..=brokers {
                let name = format!("t{factor}");
                let factor = i16::try_from(factor).unwrap();
                assert_eq!(outcome(&mut desk, topic(&name, 20, factor)).0, 0);
                for partition in desk.image.topic(&name).unwrap().partitions() {
                    let distinct: BTreeSet<_> = partition.replicas.iter().collect();
                    assert_eq!(distinct.len(), usize::try_from(factor).unwrap());
                    assert!(partition.leader.0 >= fenced);
                }
            }
        }
    }
}

#[test]
fn same_seed_places_and_names_alike() {
    let run = || {
        let mut desk = Desk::with_brokers(&[(1, None), (2, None), (3, None)]);
        create(&mut desk, vec![topic("t", 50, 2)]);
        desk.image.state_hash()
    };
    assert_eq!(run(), run());
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn topics_are_deleted_by_name_and_by_id_but_not_by_both() {
    let mut desk = Desk::alone();
    create(
        &mut desk,
        ["a", "b", "c", "d"].map(|name| topic(name, 1, 1)).to_vec(),
    );
    let id = |desk: &Desk, name: &str| wire_uuid(desk.image.topic(name).unwrap().id());
    let (a, b, c) = (id(&desk, "a"), id(&desk, "b"), id(&desk, "c"));
    let by_name = |name: &str| DeleteTopicState {
        name: Some(wire_string(name)),
        topic_id: wire_uuid(Uuid::ZERO),
        ..DeleteTopicState::default()
    };
    let by_id = |topic_id| DeleteTopicState {
        name: None,
        topic_id,
        ..DeleteTopicState::default()
    };
    let request = DeleteTopicsRequestData {
        topics: vec![
            by_name("a"),
            by_id(b),
            by_name("c"),
            by_id(c),
            by_name("nosuch"),
            by_id(wire_uuid(directory(77))),
            by_id(wire_uuid(Uuid::ZERO)),
            DeleteTopicState {
                topic_id: a,
                ..by_name("d")
            },
        ],
        timeout_ms: 1000,
        ..DeleteTopicsRequestData::default()
    };
    let reply = delete(&mut desk, request);
    let mut answers: Vec<(String, i16, String)> = reply
        .responses
        .iter()
        .map(|topic| {
            let text = |t: Option<&KafkaString>| t.map_or("null", |t| t.as_str()).to_owned();
            (
                text(topic.name.as_ref()),
                topic.error_code,
                text(topic.error_message.as_ref()),
            )
        })
        .collect();
    answers.sort();
    let expected = [
        ("a", 0, "null"),
        ("b", 0, "null"),
        (
            "c",
            42,
            "The provided topic name maps to an ID that was already supplied.",
        ),
        ("d", 42, "You may not specify both topic name and topic id."),
        (
            "nosuch",
            3,
            "This server does not host this topic-partition.",
        ),
        ("null", 42, "Neither topic name nor id were specified."),
        ("null", 100, "This server does not host this topic ID."),
    ];
    assert_eq!(
        answers,
        expected.map(|(name, code, text)| (name.to_owned(), code, text.to_owned()))
    );
    assert_eq!(
        desk.image
            .topics()
            .map(|t| t.name().to_string())
            .collect::<Vec<_>>(),
        ["c", "d"]
    );
}

#[test]
fn deletion_can_be_switched_off() {
    let mut desk = Desk::alone().setting("delete.topic.enable", "false");
    create(&mut desk, vec![topic("a", 1, 1)]);
    let request = DeleteTopicsRequestData {
        topic_names: vec![wire_string("a")],
        timeout_ms: 1000,
        ..DeleteTopicsRequestData::default()
    };
    for (version, code) in [(1, 42), (2, 42), (3, 73), (5, 73)] {
        let reply =
            desk.decide(|image, context, _| delete_topics(image, context, &request, version));
        assert_eq!(reply.responses[0].error_code, code);
        assert_eq!(reply.responses[0].error_message, None);
    }
    assert_eq!(desk.image.topic_count(), 1);
}

#[test]
fn partitions_can_only_be_added() {
    let mut desk = Desk::with_brokers(&[(1, None), (2, None)]);
    create(&mut desk, vec![topic("t", 2, 1)]);
    let ok = (0, String::new());
    assert_eq!(grow(&mut desk, "t", 3, None), ok);
    assert_eq!(
        grow(&mut desk, "t", 3, None),
        (37, "Topic already has 3 partition(s).".into())
    );
    assert_eq!(
        grow(&mut desk, "t", 1, None),
        (
            37,
            "The topic t currently has 3 partition(s); 1 would not be an increase.".into()
        )
    );
    assert_eq!(grow(&mut desk, "nosuch", 3, None), (3, String::new()));
    assert_eq!(grow(&mut desk, "t", i32::MAX, None), (-1, String::new()));
    assert_eq!(
        grow(&mut desk, "t", 5, Some(&[&[1]])),
        (
            39,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."
                .into()
        )
    );
    assert_eq!(
        grow(&mut desk, "t", 4, Some(&[&[1, 2]])),
        (
            39,
            "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent with \
             previous partitions, which have 1 replica(s)."
                .into()
        )
    );
    assert_eq!(grow(&mut desk, "t", 4, Some(&[&[2]])), ok);
    assert_eq!(
        desk.image.topic("t").unwrap().partition(3).unwrap().leader,
        NodeId(2)
    );
}

#[test]
fn asked_for_topics_are_created_with_the_brokers_numbers() {
    let mut desk = Desk::alone().setting("num.partitions", "4");
    let names = [
        "t".to_owned(),
        "bad name".to_owned(),
        "__consumer_offsets".to_owned(),
    ];
    let answers =
        desk.decide(|image, context, rng| auto_create_topics(image, context, rng, &names));
    let codes: Vec<(&str, ErrorCode)> = answers
        .iter()
        .map(|answer| (answer.name.as_str(), answer.error))
        .collect();
    assert_eq!(
        codes,
        [
            ("bad name", ErrorCode::InvalidTopicException),
            ("t", ErrorCode::UnknownTopicOrPartition),
            ("__consumer_offsets", ErrorCode::UnknownTopicOrPartition),
        ]
    );
    assert_eq!(desk.image.topic("t").unwrap().partition_count(), 4);
    assert!(
        desk.image.topic("__consumer_offsets").is_none(),
        "three replicas on one broker"
    );
    assert!(
        answers[2]
            .message
            .as_ref()
            .unwrap()
            .contains("target replication factor of 3")
    );
}

/// Kafka finds such a request overdue when it takes it up, and does nothing for it.
#[test]
fn request_that_gives_no_time_is_timed_out_unless_there_is_nothing_to_do() {
    let mut desk = Desk::alone();
    create(&mut desk, vec![topic("t", 1, 1)]);
    for timeout_ms in [0, -1] {
        let names = |names: &[&str]| names.iter().map(|name| topic(name, 1, 1)).collect();
        let mut creation = |topics| {
            let request = CreateTopicsRequestData {
                topics,
                timeout_ms,
                ..CreateTopicsRequestData::default()
            };
            let reply =
                desk.decide(|image, context, rng| create_topics(image, context, rng, &request));
            reply
                .topics
                .iter()
                .map(|topic| topic.error_code)
                .collect::<Vec<_>>()
        };
        assert_eq!(creation(names(&["u", "d", "d"])), [7, 7, 7]);
        assert_eq!(creation(names(&["d", "d"])), [42]);
        let mut deletion = |names: &[&str]| {
            let request = DeleteTopicsRequestData {
                topic_names: names.iter().map(|name| wire_string(name)).collect(),
                timeout_ms,
                ..DeleteTopicsRequestData::default()
            };
            let reply = delete(&mut desk, request);
            reply
                .responses
                .iter()
                .map(|topic| topic.error_code)
                .collect::<Vec<_>>()
        };
        assert_eq!(deletion(&["t", "d", "d"]), [7, 7, 7]);
        assert_eq!(deletion(&["d", "d"]), [42]);
        let request = CreatePartitionsRequestData {
            topics: vec![CreatePartitionsTopic {
                name: wire_string("t"),
                count: 2,
                assignments: None,
                ..CreatePartitionsTopic::default()
            }],
            timeout_ms,
            ..CreatePartitionsRequestData::default()
        };
        let reply = desk.decide(|image, _, rng| create_partitions(image, rng, &request));
        assert_eq!(reply.results[0].error_code, 7);
    }
    assert_eq!(desk.image.partition_count(), 1);
}
