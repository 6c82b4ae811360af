//! Fetch sessions (KIP-227): opened, used, changed, closed and misused.

use serde_json::{Value, json};

use super::{Cases, fetch_body};
use crate::{batch::Batch, run::Run};

const API: &str = "Fetch";

/// A topic with two partitions of which the first holds one batch.
fn filled(run: &mut Run<'_>) -> (String, Value) {
    let name = run.create_topic("t", 2);
    run.produce(&name, 0, &Batch::with_records(2));
    let id = run.topic_id(&name);
    (name, id)
}

/// A request of a session, about partitions given as `[partition, offset]`.
fn body(session: &Value, epoch: i32, name: &str, id: &Value, partitions: &[(i32, i64)]) -> Value {
    let partition = |&(partition, offset): &(i32, i64)| json!({ "partition": partition, "fetchOffset": offset, "partitionMaxBytes": 1_048_576 });
    let partitions: Vec<_> = partitions.iter().map(partition).collect();
    let topics = if partitions.is_empty() {
        json!([])
    } else {
        json!([{ "topic": name, "topicId": id, "partitions": partitions }])
    };
    json!({ "sessionId": session, "sessionEpoch": epoch, "maxWaitMs": 100, "minBytes": 1, "topics": topics })
}

/// Opens a session with both partitions; zero means that the broker keeps none.
fn open(run: &mut Run<'_>, version: i16, name: &str, id: &Value) -> Value {
    let answer = run.send(
        API,
        version,
        body(&json!(0), 0, name, id, &[(0, 0), (1, 0)]),
    );
    answer["sessionId"].clone()
}

pub(crate) fn add(cases: &mut Cases<'_>) {
    cases.versions(
        API,
        7..=18,
        "session_answers_only_what_changed",
        |run, version| {
            let (name, id) = filled(run);
            let session = open(run, version, &name, &id);
            run.send(API, version, body(&session, 1, &name, &id, &[(0, 2)]));
            run.produce(&name, 1, &Batch::with_records(1));
            run.send(API, version, body(&session, 2, &name, &id, &[]));
            run.send(API, version, body(&session, 3, &name, &id, &[(1, 1)]));
        },
    );
    cases.one(API, 12, "full_request_without_a_session", |run| {
        let (name, id) = filled(run);
        run.send(API, 12, body(&json!(0), -1, &name, &id, &[(0, 0), (1, 0)]));
        run.send(API, 12, body(&json!(0), -1, &name, &id, &[]));
    });
    cases.one(API, 12, "unknown_session", |run| {
        let (name, id) = filled(run);
        for epoch in [1, 7, -1, 0, -5] {
            run.send(API, 12, body(&json!(123_456), epoch, &name, &id, &[(0, 0)]));
        }
    });
    cases.one(API, 12, "no_session_with_an_epoch", |run| {
        let (name, id) = filled(run);
        for epoch in [1, 2, i32::MAX, -2] {
            run.send(API, 12, body(&json!(0), epoch, &name, &id, &[(0, 0)]));
        }
    });
    cases.one(API, 12, "wrong_session_epoch", |run| {
        let (name, id) = filled(run);
        let session = open(run, 12, &name, &id);
        run.send(API, 12, body(&session, 5, &name, &id, &[(0, 0)]));
        run.send(API, 12, body(&session, 1, &name, &id, &[(0, 0)]));
        run.send(API, 12, body(&session, 1, &name, &id, &[(0, 0)]));
    });
    cases.one(API, 12, "closed_session_is_unknown", |run| {
        let (name, id) = filled(run);
        let session = open(run, 12, &name, &id);
        run.send(API, 12, body(&session, -1, &name, &id, &[(0, 0)]));
        run.send(API, 12, body(&session, 1, &name, &id, &[]));
    });
    cases.one(API, 12, "session_is_replaced_by_a_new_one", |run| {
        let (name, id) = filled(run);
        let session = open(run, 12, &name, &id);
        let answer = run.send(API, 12, body(&session, 0, &name, &id, &[(0, 0)]));
        run.note("another session", (answer["sessionId"] != session).into());
        run.send(API, 12, body(&session, 1, &name, &id, &[]));
    });
    cases.one(API, 12, "forgotten_partitions_are_left_out", |run| {
        let (name, id) = filled(run);
        let session = open(run, 12, &name, &id);
        let mut request = body(&session, 1, &name, &id, &[]);
        request["forgottenTopicsData"] =
            json!([{ "topic": name, "topicId": id, "partitions": [0, 9] }]);
        run.send(API, 12, request);
        run.send(API, 12, body(&session, 2, &name, &id, &[]));
        run.send(API, 12, body(&session, 3, &name, &id, &[(0, 1)]));
    });
    cases.one(API, 13, "forgotten_partitions_are_named_by_id", |run| {
        let (name, id) = filled(run);
        let session = open(run, 13, &name, &id);
        let mut request = body(&session, 1, &name, &id, &[]);
        request["forgottenTopicsData"] =
            json!([{ "topic": name, "topicId": id, "partitions": [0] }]);
        run.send(API, 13, request);
    });
    cases.one(
        API,
        12,
        "partition_with_an_error_stays_in_the_session",
        |run| {
            let (name, id) = filled(run);
            let answer = run.send(
                API,
                12,
                body(&json!(0), 0, &name, &id, &[(0, 99), (5, 0), (1, 0)]),
            );
            let session = answer["sessionId"].clone();
            run.send(API, 12, body(&session, 1, &name, &id, &[]));
            run.send(API, 12, body(&session, 2, &name, &id, &[(0, 0)]));
        },
    );
    cases.one(API, 12, "session_works_from_another_connection", |run| {
        let (name, id) = filled(run);
        let session = open(run, 12, &name, &id);
        run.reconnect();
        run.send(API, 12, body(&session, 1, &name, &id, &[(0, 0)]));
    });
    cases.one(API, 12, "session_of_no_partitions", |run| {
        let (name, id) = filled(run);
        let answer = run.send(API, 12, body(&json!(0), 0, &name, &id, &[]));
        run.note("session", (answer["sessionId"] != 0).into());
    });
    cases.one(API, 13, "session_sees_the_topic_deleted", |run| {
        let (name, id) = filled(run);
        let session = open(run, 13, &name, &id);
        run.quietly(
            "DeleteTopics",
            5,
            json!({ "topicNames": [name], "timeoutMs": 10_000 }),
        );
        run.quietly("Fetch", 13, fetch_body(&name, &id, 0, 0));
        run.pause(std::time::Duration::from_millis(300));
        run.send(API, 13, body(&session, 1, &name, &id, &[]));
    });
    cases.one(API, 12, "high_watermark_move_alone_is_reported", |run| {
        let (name, id) = filled(run);
        let session = open(run, 12, &name, &id);
        run.send(API, 12, body(&session, 1, &name, &id, &[(0, 2)]));
        run.quietly(
            "DeleteRecords",
            2,
            json!({ "timeoutMs": 10_000, "topics": [
            { "name": name, "partitions": [{ "partitionIndex": 0, "offset": 1 }] },
        ] }),
        );
        run.send(API, 12, body(&session, 2, &name, &id, &[]));
    });
}
