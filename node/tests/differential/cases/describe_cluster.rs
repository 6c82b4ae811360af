//! DescribeCluster.

use serde_json::json;

use super::Cases;

pub(crate) fn add(cases: &mut Cases<'_>) {
    cases.every_version(
        "DescribeCluster",
        "names_the_cluster_and_its_brokers",
        |run, version| {
            run.send("DescribeCluster", version, json!({}));
        },
    );
    cases.every_version(
        "DescribeCluster",
        "authorized_operations_are_given_on_request",
        |run, version| {
            run.send(
                "DescribeCluster",
                version,
                json!({ "includeClusterAuthorizedOperations": true }),
            );
        },
    );
    cases.versions(
        "DescribeCluster",
        1..=2,
        "endpoint_type_is_checked",
        |run, version| {
            for kind in [0, 1, 2, 3, 99, -1] {
                run.send("DescribeCluster", version, json!({ "endpointType": kind }));
            }
        },
    );
    cases.one(
        "DescribeCluster",
        2,
        "fenced_brokers_may_be_asked_for",
        |run| {
            run.send(
                "DescribeCluster",
                2,
                json!({ "includeFencedBrokers": true }),
            );
        },
    );
}
