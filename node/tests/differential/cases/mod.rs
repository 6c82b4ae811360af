//! The cases, a file for each API. A case is a short script of requests; what it records is compared.

#![expect(
    clippy::too_many_lines,
    reason = "a list of cases is data: it grows by entries, not by logic"
)]

mod alter_configs;
mod api_versions;
mod create_partitions;
mod create_topics;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_quorum;
mod elect_leaders;
mod fetch;
mod fetch_sessions;
mod frames;
mod list_offsets;
mod metadata;
mod produce;
mod produce_batches;
mod produce_limits;

use std::{collections::BTreeSet, ops::RangeInclusive};

use serde_json::{Value, json};

use crate::{run::Run, schema::Schemas};

/// The APIs of this suite.
const APIS: [&str; 14] = [
    "ApiVersions",
    "CreatePartitions",
    "CreateTopics",
    "DeleteRecords",
    "DeleteTopics",
    "DescribeCluster",
    "DescribeConfigs",
    "DescribeQuorum",
    "ElectLeaders",
    "Fetch",
    "IncrementalAlterConfigs",
    "ListOffsets",
    "Metadata",
    "Produce",
];

/// A named script; the name is a claim with the API and version in front.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) api: &'static str,
    pub(crate) version: i16,
    pub(crate) script: Box<dyn Fn(&mut Run<'_>)>,
}

/// The list under construction.
pub(crate) struct Cases<'a> {
    schemas: &'a Schemas,
    list: Vec<Case>,
}

/// Every case, in the order in which they run.
pub(crate) fn all(schemas: &Schemas) -> Vec<Case> {
    let mut cases = Cases {
        schemas,
        list: Vec::new(),
    };
    api_versions::add(&mut cases);
    frames::add(&mut cases);
    describe_cluster::add(&mut cases);
    describe_quorum::add(&mut cases);
    metadata::add(&mut cases);
    create_topics::add(&mut cases);
    delete_topics::add(&mut cases);
    create_partitions::add(&mut cases);
    describe_configs::add(&mut cases);
    alter_configs::add(&mut cases);
    produce::add(&mut cases);
    produce_batches::add(&mut cases);
    produce_limits::add(&mut cases);
    fetch::add(&mut cases);
    fetch_sessions::add(&mut cases);
    list_offsets::add(&mut cases);
    delete_records::add(&mut cases);
    elect_leaders::add(&mut cases);
    cases.check();
    cases.list
}

impl Cases<'_> {
    /// Adds one case.
    pub(crate) fn one(
        &mut self,
        api: &'static str,
        version: i16,
        claim: &str,
        script: impl Fn(&mut Run<'_>) + 'static,
    ) {
        let name = format!("{}/v{version}/{claim}", snake(api));
        self.list.push(Case {
            name,
            api,
            version,
            script: Box::new(script),
        });
    }

    /// Adds a case for each of some versions.
    pub(crate) fn versions(
        &mut self,
        api: &'static str,
        versions: RangeInclusive<i16>,
        claim: &str,
        script: impl Fn(&mut Run<'_>, i16) + Copy + 'static,
    ) {
        for version in versions {
            self.one(api, version, claim, move |run| script(run, version));
        }
    }

    /// Adds a case for each valid version of the API.
    pub(crate) fn every_version(
        &mut self,
        api: &'static str,
        claim: &str,
        script: impl Fn(&mut Run<'_>, i16) + Copy + 'static,
    ) {
        let valid = self.schemas.api(api).request.valid.clone();
        self.versions(api, valid, claim, script);
    }

    /// Each name stands for one case, and each version of each API has one.
    fn check(&self) {
        let names: BTreeSet<_> = self.list.iter().map(|case| &case.name).collect();
        assert_eq!(names.len(), self.list.len(), "two cases have the same name");
        for api in APIS {
            for version in self.valid(api) {
                let covers = |case: &Case| case.api == api && case.version == version;
                assert!(self.list.iter().any(covers), "{api} v{version} has no case");
            }
        }
    }

    /// The valid versions of an API.
    pub(crate) fn valid(&self, api: &str) -> RangeInclusive<i16> {
        self.schemas.api(api).request.valid.clone()
    }
}

/// The resource type of a topic's configs.
const TOPIC: i8 = 2;
/// The resource type of a broker's configs.
const BROKER: i8 = 4;
/// An id that no topic has.
const UNKNOWN_ID: &str = "11111111-2222-4333-8444-555555555555";
/// The id that means none.
const ZERO_ID: &str = "00000000-0000-0000-0000-000000000000";

fn snake(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

/// A Fetch body for one partition that waits for nothing.
fn fetch_body(topic: &str, id: &Value, partition: i32, offset: i64) -> Value {
    json!({
        "maxWaitMs": 0, "minBytes": 0, "topics": [{ "topic": topic, "topicId": id, "partitions": [
            { "partition": partition, "fetchOffset": offset, "partitionMaxBytes": 1_048_576 },
        ] }],
    })
}

/// A ListOffsets body for one time in one partition.
fn list_body(topic: &str, partition: i32, timestamp: i64) -> Value {
    json!({ "replicaId": -1, "topics": [{ "name": topic, "partitions": [
        { "partitionIndex": partition, "timestamp": timestamp },
    ] }] })
}

/// A Produce body for one partition.
fn produce_body(topic: &str, id: &Value, partition: i32, records: Value) -> Value {
    json!({
        "acks": -1, "timeoutMs": 10_000,
        "topicData": [{ "name": topic, "topicId": id, "partitionData": [{ "index": partition, "records": records }] }],
    })
}

/// Records what a partition holds: its first offset, its end, and its batches.
fn log_state(run: &mut Run<'_>, topic: &str, partition: i32) {
    run.send("ListOffsets", 7, list_body(topic, partition, -2));
    run.send("ListOffsets", 7, list_body(topic, partition, -1));
    run.send("Fetch", 12, fetch_body(topic, &Value::Null, partition, 0));
}
