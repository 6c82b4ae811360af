//! Frames and headers that are not as they should be: what is answered, and what closes the connection.

use serde_json::json;

use super::{APIS, Cases};
use crate::connection::framed;

pub(crate) fn add(cases: &mut Cases<'_>) {
    sizes(cases);
    headers(cases);
    bodies(cases);
    for api in APIS.into_iter().filter(|api| *api != "ApiVersions") {
        let valid = cases.valid(api);
        let mut versions = vec![valid.start() - 1, valid.end() + 1, -1, i16::MAX];
        if *valid.start() == 0 {
            versions.remove(0);
        }
        for version in versions {
            cases.one(api, version, "unsupported_version", move |run| {
                let header = run.frame("Metadata", 9, &json!({ "topics": [] }));
                let mut frame = header[..15].to_vec();
                frame[2..4].copy_from_slice(&version.to_be_bytes());
                frame.extend([0; 40]);
                run_api_key(api, &mut frame);
                run.raw("unsupported version", &frame);
            });
        }
    }
}

fn run_api_key(api: &str, frame: &mut [u8]) {
    let key: i16 = match api {
        "Produce" => 0,
        "Fetch" => 1,
        "ListOffsets" => 2,
        "Metadata" => 3,
        "CreateTopics" => 19,
        "DeleteTopics" => 20,
        "DeleteRecords" => 21,
        "DescribeConfigs" => 32,
        "CreatePartitions" => 37,
        "IncrementalAlterConfigs" => 44,
        "ElectLeaders" => 43,
        "DescribeQuorum" => 55,
        "DescribeCluster" => 60,
        other => panic!("no key for {other}"),
    };
    frame[..2].copy_from_slice(&key.to_be_bytes());
}

fn sizes(cases: &mut Cases<'_>) {
    let frames: [(&str, &[u8]); 8] = [
        ("size_zero", &[0, 0, 0, 0]),
        ("size_of_one", &[0, 0, 0, 1, 0]),
        ("negative_size", &[0xff, 0xff, 0xff, 0xff]),
        ("smallest_size", &[0x80, 0, 0, 0]),
        ("size_over_the_limit", &[0x06, 0x40, 0, 1, 0, 3, 0, 0]),
        ("largest_size", &[0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 0]),
        ("http_request", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        (
            "tls_hello",
            &[0x16, 0x03, 0x01, 0x00, 0x2f, 0x01, 0x00, 0x00],
        ),
    ];
    for (claim, bytes) in frames {
        let bytes = bytes.to_vec();
        cases.one("Metadata", 0, &format!("frame_with_{claim}"), move |run| {
            run.bytes("bytes", &bytes)
        });
    }
    cases.one("Metadata", 1, "frame_may_come_in_pieces", |run| {
        let frame = framed(&run.frame("Metadata", 1, &json!({ "topics": [] })));
        for (index, byte) in frame.iter().enumerate().take(frame.len() - 1) {
            if index < 8 {
                run.pause(std::time::Duration::from_millis(5));
            }
            run.write_bytes(std::slice::from_ref(byte));
        }
        run.bytes_as("Metadata", 1, "last byte", &frame[frame.len() - 1..]);
    });
    cases.one("Metadata", 1, "frame_cut_by_the_end_of_the_stream", |run| {
        let frame = framed(&run.frame("Metadata", 1, &json!({ "topics": [] })));
        run.write_bytes(&frame[..frame.len() - 2]);
        run.finish_sending("end of stream");
    });
    cases.one(
        "Metadata",
        1,
        "requests_in_one_write_are_answered_in_order",
        |run| {
            let mut bytes = Vec::new();
            for _ in 0..20 {
                bytes.extend(framed(&run.frame("Metadata", 1, &json!({ "topics": [] }))));
            }
            run.write_bytes(&bytes);
            let order: Vec<_> = (0..20).map(|_| run.next_correlation()).collect();
            run.note(
                "order",
                json!(order.windows(2).all(|pair| pair[0] + 1 == pair[1])),
            );
        },
    );
}

fn headers(cases: &mut Cases<'_>) {
    let headers: [(&str, &[u8]); 12] = [
        (
            "api_key_that_does_not_exist",
            &[0x27, 0x0f, 0, 0, 0, 0, 0, 1, 0xff, 0xff],
        ),
        (
            "negative_api_key",
            &[0xff, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff],
        ),
        (
            "removed_api_key",
            &[0, 4, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0],
        ),
        (
            "controller_api_key",
            &[0, 52, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0],
        ),
        ("api_key_alone", &[0, 3]),
        ("no_correlation_id", &[0, 3, 0, 1]),
        ("half_a_correlation_id", &[0, 3, 0, 1, 0, 0]),
        ("no_client_id", &[0, 3, 0, 1, 0, 0, 0, 1]),
        (
            "client_id_longer_than_the_frame",
            &[0, 3, 0, 1, 0, 0, 0, 1, 0, 9, b'a'],
        ),
        (
            "client_id_of_negative_length",
            &[0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xfe, 0, 0, 0, 0],
        ),
        (
            "client_id_that_is_not_utf8",
            &[0, 3, 0, 1, 0, 0, 0, 1, 0, 2, 0xc3, 0x28, 0, 0, 0, 0],
        ),
        (
            "empty_client_id",
            &[0, 3, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0],
        ),
    ];
    for (claim, frame) in headers {
        let frame = frame.to_vec();
        cases.one("Metadata", 1, &format!("header_with_{claim}"), move |run| {
            run.raw_as("Metadata", 1, "frame", &frame);
        });
    }
    cases.one("Metadata", 1, "header_with_null_client_id", |run| {
        run.raw_as(
            "Metadata",
            1,
            "frame",
            &[0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0],
        );
    });
    cases.one("Metadata", 9, "header_with_unknown_tagged_field", |run| {
        let header = [0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 1, 9, 2, 0xaa, 0xbb];
        run.raw_as(
            "Metadata",
            9,
            "frame",
            &[&header[..], &[1, 0, 0, 0, 0]].concat(),
        );
    });
    cases.one(
        "Metadata",
        9,
        "header_with_tagged_field_longer_than_the_frame",
        |run| {
            run.raw(
                "frame",
                &[0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 1, 9, 99, 0xaa],
            );
        },
    );
}

fn bodies(cases: &mut Cases<'_>) {
    let topics_one =
        |name: &[u8]| [&[0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 1][..], name].concat();
    let bodies = [
        ("missing_body", vec![0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff]),
        (
            "array_of_2_to_the_31_elements",
            vec![0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff],
        ),
        (
            "array_of_length_minus_two",
            vec![0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe],
        ),
        (
            "array_longer_than_the_frame",
            vec![0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 2, 0, 1, b'a'],
        ),
        ("null_where_none_is_allowed", topics_one(&[0xff, 0xff])),
        (
            "string_longer_than_the_frame",
            topics_one(&[0x7f, 0xff, b'a']),
        ),
        ("string_of_negative_length", topics_one(&[0x80, 0x00])),
        (
            "compact_array_of_2_to_the_31",
            vec![
                0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0,
            ],
        ),
        (
            "endless_variable_length_integer",
            vec![
                0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                0xff,
            ],
        ),
        (
            "compact_null_where_none_is_allowed",
            vec![0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0, 2, 0, 0, 0, 0, 0, 0],
        ),
    ];
    for (claim, frame) in bodies {
        let version = if frame[3] == 9 { 9 } else { 1 };
        cases.one(
            "Metadata",
            version,
            &format!("body_with_{claim}"),
            move |run| {
                run.raw_as("Metadata", version, "frame", &frame);
            },
        );
    }
    cases.one("Metadata", 1, "body_with_a_name_that_is_not_utf8", |run| {
        run.raw_as(
            "Metadata",
            1,
            "frame",
            &[
                0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 1, 0, 2, 0xc3, 0x28,
            ],
        );
    });
    for api in APIS {
        let valid = cases.valid(api);
        let version = *valid.end();
        cases.one(api, version, "body_with_bytes_left_over", move |run| {
            let mut frame = run.frame(api, version, &json!({}));
            frame.extend([0, 0, 0]);
            run.raw_as(api, version, "frame", &frame);
        });
        cases.one(api, version, "body_cut_short", move |run| {
            let frame = run.frame(api, version, &json!({}));
            run.raw("frame", &frame[..frame.len() - 1]);
        });
        cases.one(api, version, "body_with_unknown_tagged_field", move |run| {
            let frame = run.frame(
                api,
                version,
                &json!({ "_tags": [[200, "0x00"], [300, "0x"]] }),
            );
            run.raw_as(api, version, "frame", &frame);
        });
        cases.one(api, version, "body_of_defaults", move |run| {
            let frame = run.frame(api, version, &json!({}));
            run.raw_as(api, version, "frame", &frame);
        });
    }
}
