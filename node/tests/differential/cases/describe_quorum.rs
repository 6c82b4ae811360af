//! DescribeQuorum.

use serde_json::{Value, json};

use super::Cases;

const API: &str = "DescribeQuorum";
const METADATA: &str = "__cluster_metadata";

fn body(topics: &[(&str, &[i32])]) -> Value {
    let partition = |index: &i32| json!({ "partitionIndex": index });
    let topic = |(name, partitions): &(&str, &[i32])| {
        let partitions: Vec<_> = partitions.iter().map(partition).collect();
        json!({ "topicName": name, "partitions": partitions })
    };
    json!({ "topics": topics.iter().map(topic).collect::<Vec<_>>() })
}

pub(crate) fn add(cases: &mut Cases<'_>) {
    cases.every_version(API, "describes_the_metadata_quorum", |run, version| {
        run.send(API, version, body(&[(METADATA, &[0])]));
    });
    cases.every_version(API, "knows_no_other_quorum", |run, version| {
        let name = run.create_topic("t", 1);
        run.send(API, version, body(&[(&name, &[0])]));
        run.send(API, version, body(&[(METADATA, &[1, -1])]));
        run.send(API, version, body(&[("", &[i32::MAX])]));
    });
    cases.every_version(API, "asks_for_one_partition_alone", |run, version| {
        run.send(API, version, body(&[(METADATA, &[0]), ("other", &[0])]));
        run.send(API, version, body(&[(METADATA, &[0, 1])]));
        run.send(API, version, body(&[(METADATA, &[])]));
        run.send(API, version, body(&[]));
    });
    cases.one(API, 2, "quorum_asked_for_twice", |run| {
        run.send(API, 2, body(&[(METADATA, &[0, 0])]));
        run.send(API, 2, body(&[(METADATA, &[0]), (METADATA, &[0])]));
    });
}
