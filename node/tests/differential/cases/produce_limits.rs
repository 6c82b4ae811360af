//! Produce with codecs, timestamps and sizes, up to and past what is allowed.

use serde_json::Value;

use super::{Cases, log_state, produce_batches::append, produce_body};
use crate::batch::{Batch, Compression, EPOCH_MS, compress};

const API: &str = "Produce";

pub(crate) fn add(cases: &mut Cases<'_>) {
    compressed(cases);
    timestamps(cases);
    sizes(cases);
}

fn compressed(cases: &mut Cases<'_>) {
    let codecs = [
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];
    for codec in codecs {
        let name = format!("{codec:?}").to_lowercase();
        cases.one(
            API,
            9,
            &format!("{name}_batch_with_corrupt_payload"),
            move |run| {
                let batch = Batch::with_records(3).compressed(codec).with(|b| {
                    b.payload = b
                        .payload
                        .take()
                        .map(|bytes| bytes.iter().map(|byte| byte ^ 0x5a).collect());
                });
                append(run, 9, &[], batch.hex());
            },
        );
        cases.one(API, 9, &format!("{name}_batch_cut_short"), move |run| {
            let batch = Batch::with_records(30).compressed(codec).with(|b| {
                if let Some(bytes) = &mut b.payload {
                    bytes.truncate(bytes.len() - 6);
                }
            });
            append(run, 9, &[], batch.hex());
        });
        cases.one(
            API,
            9,
            &format!("{name}_batch_with_wrong_count"),
            move |run| {
                let batch = Batch::with_records(3)
                    .compressed(codec)
                    .with(|b| b.count = Some(2));
                append(run, 9, &[], batch.hex());
            },
        );
        cases.one(
            API,
            9,
            &format!("{name}_batch_with_wrong_count_and_delta"),
            move |run| {
                let change = |b: &mut Batch| (b.count, b.last_offset_delta) = (Some(2), Some(1));
                append(
                    run,
                    9,
                    &[],
                    Batch::with_records(3).compressed(codec).with(change).hex(),
                );
            },
        );
        cases.one(
            API,
            9,
            &format!("{name}_batch_in_a_topic_of_another_codec"),
            move |run| {
                let other = if codec == Compression::Gzip {
                    "lz4"
                } else {
                    "gzip"
                };
                let name = run.create_topic_with("t", 1, &[("compression.type", other)]);
                run.send(
                    API,
                    9,
                    produce_body(
                        &name,
                        &Value::Null,
                        0,
                        Batch::with_records(9).compressed(codec).hex(),
                    ),
                );
                let answer = run.quietly("Fetch", 12, super::fetch_body(&name, &Value::Null, 0, 0));
                let records = answer["responses"][0]["partitions"][0]["records"]
                    .as_str()
                    .unwrap_or("0x")
                    .to_owned();
                let batches = crate::batch::view(&crate::wire::unhex(&records));
                // The bytes depend on the compressor; the codec, count and offsets do not.
                for field in [
                    "attributes",
                    "count",
                    "baseOffset",
                    "lastOffsetDelta",
                    "maxTimestamp",
                ] {
                    run.note(field, batches[0][field].clone());
                }
            },
        );
        cases.one(
            API,
            9,
            &format!("{name}_batch_in_a_topic_of_that_codec"),
            move |run| {
                let config = [("compression.type", format!("{codec:?}").to_lowercase())];
                let config: Vec<_> = config
                    .iter()
                    .map(|(name, value)| (*name, value.as_str()))
                    .collect();
                append(
                    run,
                    9,
                    &config,
                    Batch::with_records(9).compressed(codec).hex(),
                );
            },
        );
    }
    cases.one(API, 9, "compressed_batch_in_an_uncompressed_topic", |run| {
        let batch = Batch::with_records(9).compressed(Compression::Gzip);
        append(run, 9, &[("compression.type", "uncompressed")], batch.hex());
    });
    cases.one(API, 9, "gzip_batch_of_two_members", |run| {
        let batch = Batch::with_records(4).with(|b| {
            let bytes = b.encoded_records();
            let (one, two) = bytes.split_at(bytes.len() / 2);
            b.payload = Some(
                [
                    compress(Compression::Gzip, one),
                    compress(Compression::Gzip, two),
                ]
                .concat(),
            );
            b.attributes = 1;
        });
        append(run, 9, &[], batch.hex());
    });
}

fn timestamps(cases: &mut Cases<'_>) {
    let far = i64::MAX;
    let base_times = [
        ("of_zero", 0),
        ("of_minus_one", -1),
        ("of_minus_two", -2),
        ("of_minimum", i64::MIN),
        ("of_maximum", far),
        ("in_2100", 4_102_444_800_000),
        ("in_seconds", 1_780_000_000),
        ("in_microseconds", EPOCH_MS * 1000),
    ];
    for (claim, time) in base_times {
        cases.one(API, 9, &format!("timestamp_{claim}"), move |run| {
            append(run, 9, &[], Batch::with_records(1).at(time).hex());
        });
    }
    cases.one(API, 9, "timestamp_older_than_the_topic_allows", |run| {
        append(
            run,
            9,
            &[("message.timestamp.before.max.ms", "1000")],
            Batch::with_records(2).at(1000).hex(),
        );
    });
    cases.one(API, 9, "timestamp_newer_than_the_topic_allows", |run| {
        let batch = Batch::with_records(2).at(4_102_444_800_000);
        append(
            run,
            9,
            &[("message.timestamp.after.max.ms", "1000")],
            batch.hex(),
        );
    });
    cases.one(API, 9, "one_timestamp_of_three_is_too_new", |run| {
        let batch = Batch::with_records(3)
            .at(1000)
            .with(|b| b.records[1].timestamp_delta = 4_102_444_800_000);
        append(run, 9, &[], batch.hex());
    });
    cases.one(
        API,
        9,
        "any_future_is_allowed_when_the_topic_says_so",
        |run| {
            let batch = Batch::with_records(2).at(4_102_444_800_000);
            append(
                run,
                9,
                &[("message.timestamp.after.max.ms", "9223372036854775807")],
                batch.hex(),
            );
        },
    );
    for version in [3, 7, 8, 9, 13] {
        cases.one(
            API,
            version,
            "append_time_replaces_timestamps",
            move |run| {
                let name =
                    run.create_topic_with("t", 1, &[("message.timestamp.type", "LogAppendTime")]);
                let id = run.topic_id(&name);
                for time in [0, EPOCH_MS, 4_102_444_800_000] {
                    run.send(
                        API,
                        version,
                        produce_body(&name, &id, 0, Batch::with_records(2).at(time).hex()),
                    );
                }
                log_state(run, &name, 0);
            },
        );
    }
    cases.one(API, 9, "append_time_of_a_compressed_batch", |run| {
        let batch = Batch::with_records(5).compressed(Compression::Lz4);
        append(
            run,
            9,
            &[("message.timestamp.type", "LogAppendTime")],
            batch.hex(),
        );
    });
}

fn sizes(cases: &mut Cases<'_>) {
    let sized = |bytes: usize| {
        let empty = Batch::of(&[""]).bytes().len();
        // Two more bytes: lengths above 63 take two bytes each, of the record and of its value.
        Batch::of(&["x".repeat(bytes - empty - 2).as_str()])
    };
    for size in [998, 999, 1000, 1001, 1002, 1012, 1013] {
        cases.one(
            API,
            9,
            &format!("batch_of_{size}_bytes_where_1000_are_allowed"),
            move |run| {
                append(run, 9, &[("max.message.bytes", "1000")], sized(size).hex());
            },
        );
    }
    for size in [1_048_587_usize, 1_048_588, 1_048_589, 1_100_000] {
        cases.one(API, 9, &format!("batch_of_{size}_bytes"), move |run| {
            let name = run.create_topic("t", 1);
            // Lengths above a million take three bytes.
            let batch = sized(size - 2);
            run.note("size", batch.bytes().len().into());
            run.send(API, 9, produce_body(&name, &Value::Null, 0, batch.hex()));
        });
    }
    cases.one(
        API,
        9,
        "compressed_batch_that_is_small_only_compressed",
        |run| {
            let batch = Batch::of(&["x".repeat(5000).as_str()]).compressed(Compression::Gzip);
            append(run, 9, &[("max.message.bytes", "1000")], batch.hex());
        },
    );
    cases.one(API, 9, "batch_larger_than_a_segment", move |run| {
        append(
            run,
            9,
            &[
                ("segment.bytes", "1048576"),
                ("max.message.bytes", "2000000"),
            ],
            sized(1_050_000).hex(),
        );
    });
}
