//! ApiVersions: the one request that any client may send in any version.

use serde_json::json;

use super::Cases;

pub(crate) fn add(cases: &mut Cases<'_>) {
    cases.every_version("ApiVersions", "lists_what_is_supported", |run, version| {
        run.send(
            "ApiVersions",
            version,
            json!({ "clientSoftwareName": "differential", "clientSoftwareVersion": "1.0" }),
        );
    });
    cases.versions("ApiVersions", 3..=4, "client_software_name_must_be_plain", |run, version| {
        for (name, software_version) in
            [("", "1"), ("a", ""), ("a b", "1"), ("a/b", "1"), (".a", "1"), ("a-", "1"), ("a.b-c", "1.2-rc"), ("ä", "1")]
        {
            let body = json!({ "clientSoftwareName": name, "clientSoftwareVersion": software_version });
            let answer = run.quietly("ApiVersions", version, body);
            run.note(&format!("{name:?} {software_version:?}"), answer["errorCode"].clone());
            run.note("number of APIs known", (answer["apiKeys"].as_array().map_or(0, Vec::len) > 0).into());
        }
    });
    cases.versions("ApiVersions", 3..=4, "unknown_tagged_field_is_ignored", |run, version| {
        let answer = run.quietly(
            "ApiVersions",
            version,
            json!({ "clientSoftwareName": "d", "clientSoftwareVersion": "1", "_tags": [[77, "0x0102"]] }),
        );
        run.note("error", answer["errorCode"].clone());
    });
    for version in [5_i16, 6, 99, i16::MAX, -1] {
        cases.one(
            "ApiVersions",
            version,
            "unknown_version_is_answered_in_v0_and_may_be_retried",
            move |run| {
                let mut frame = run.frame(
                    "ApiVersions",
                    4,
                    &json!({ "clientSoftwareName": "d", "clientSoftwareVersion": "1" }),
                );
                frame[2..4].copy_from_slice(&version.to_be_bytes());
                run.raw_as("ApiVersions", 0, "unknown version", &frame);
                let answer = run.quietly(
                    "ApiVersions",
                    3,
                    json!({ "clientSoftwareName": "d", "clientSoftwareVersion": "1" }),
                );
                run.note("retry", answer["errorCode"].clone());
            },
        );
    }
    cases.one(
        "ApiVersions",
        99,
        "unknown_version_may_have_any_body",
        |run| {
            run.raw_as(
                "ApiVersions",
                0,
                "garbage body",
                &[0, 18, 0, 99, 0, 0, 0, 7, 0, 1, b'x', 0xff, 0xff, 0xff, 0xff],
            );
            run.reconnect();
            run.raw_as(
                "ApiVersions",
                0,
                "no body",
                &[0, 18, 0, 99, 0, 0, 0, 7, 0xff, 0xff],
            );
            run.reconnect();
            run.raw_as(
                "ApiVersions",
                0,
                "no client id",
                &[0, 18, 0, 99, 0, 0, 0, 7],
            );
        },
    );
}
