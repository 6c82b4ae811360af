//! Edges that clients show, most of them known from public reports against other brokers.

use std::{
    collections::BTreeMap,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    client::{CODECS, Client, Consume, Failure, Produce, Record, Start},
    matrix::{noise, same},
    raw::{Batch, Connection},
    suite::{Suite, now_ms},
};

type Verdict = Result<String, String>;

/// Runs the cases that are wanted.
pub(crate) fn run(suite: &mut Suite, wanted: &dyn Fn(&str) -> bool) {
    let cases: [(&str, fn(&mut Suite) -> Verdict); 15] = [
        (
            "newer_api_versions_is_answered_in_the_oldest_form",
            newer_api_versions,
        ),
        ("recompressed_batches_are_readable_by_all", recompressed),
        ("unknown_codec_refuses_its_partition_alone", unknown_codec),
        ("idle_consumer_waits_at_the_broker", idle_consumers),
        ("record_above_fetch_limits_is_delivered", large_record),
        (
            "end_is_empty_and_beyond_it_is_out_of_range",
            edges_of_the_log,
        ),
        ("out_of_range_is_told_to_the_application", out_of_range),
        ("time_after_all_records_has_no_offset", nothing_that_late),
        (
            "timestamps_of_any_age_come_back_after_a_kill",
            wild_timestamps,
        ),
        ("internal_records_take_no_offsets", dense_offsets),
        ("colliding_and_illegal_names_are_refused", names),
        ("first_use_creates_the_topic", first_use),
        ("just_created_topic_takes_records", created_then_used),
        ("unacknowledged_records_arrive", without_acks),
        ("null_header_values_stay_null", null_headers),
    ];
    for (name, case) in cases {
        if wanted(name) {
            suite.check(name, case);
        }
    }
}

/// Runs a step with each client in turn, and gathers what failed.
fn each(
    suite: &mut Suite,
    mut step: impl FnMut(&Suite, &mut dyn Client) -> Result<(), String>,
) -> Verdict {
    let mut clients = std::mem::take(&mut suite.clients);
    let mut names = Vec::new();
    let mut wrong = Vec::new();
    for client in &mut clients {
        match step(suite, client.as_mut()) {
            Ok(()) => names.push(client.name()),
            Err(said) => wrong.push(format!("{}: {said}", client.name())),
        }
    }
    suite.clients = clients;
    if wrong.is_empty() {
        Ok(names.join(" "))
    } else {
        Err(wrong.join("; "))
    }
}

fn told(error: impl ToString) -> String {
    error.to_string()
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, wanted: &T) -> Result<(), String> {
    if got == wanted {
        Ok(())
    } else {
        Err(format!("{what}: {got:?} instead of {wanted:?}"))
    }
}

fn newer_api_versions(suite: &mut Suite) -> Verdict {
    let mut connection = suite.raw();
    // A compact header's empty list of tags comes before the body.
    let sent = connection
        .send(18, 99, b"\0no broker knows this body")
        .map_err(told)?;
    let (answered, body) = connection.receive().map_err(told)?;
    expect("correlation id", &answered, &sent)?;
    // Version 0: the error code, then the supported range of this API alone or among others.
    expect("error code", &body.get(..2), &Some(&[0, 35]))?;
    let listed = body
        .get(6..)
        .unwrap_or_default()
        .chunks_exact(6)
        .any(|entry| entry[..2] == [0, 18]);
    expect("ApiVersions is listed", &listed, &true)?;
    let sent = connection
        .send(18, 3, &[0, 2, b'n', 2, b'v', 0])
        .map_err(told)?;
    let (answered, body) = connection.receive().map_err(told)?;
    expect("correlation id on the same connection", &answered, &sent)?;
    expect("error code of version 3", &body.get(..2), &Some(&[0, 0]))?;
    Ok(String::new())
}

fn recompressed(suite: &mut Suite) -> Verdict {
    let records: Vec<Record> = (0..40)
        .map(|i| Record::of(0, &format!("{i} {}", "again ".repeat(50))))
        .collect();
    for (codec, wanted) in ["uncompressed", "gzip", "snappy", "lz4", "zstd"]
        .into_iter()
        .zip(CODECS)
    {
        let topic = format!("recompressed.{codec}");
        suite.topic(&topic, 1, &[("compression.type", codec)]);
        let other = if codec == "zstd" { "gzip" } else { "zstd" };
        let java = suite
            .clients
            .iter_mut()
            .find(|client| client.name() == "java")
            .expect("there is a Java client");
        let produce = |java: &mut Box<dyn Client>, codec: &str| {
            java.produce(Produce {
                topic: &topic,
                codec,
                acks: "all",
                records: &records,
            })
            .map_err(|e| e.said)
        };
        produce(java, other)?;
        produce(java, "none")?;
        let stored = suite.raw().read_all(&topic, 0, 0).map_err(told)?;
        for batch in &stored {
            expect("codec of the stored batch", &batch.codec(), &wanted)?;
        }
        each(suite, |_, client| {
            let got = client
                .consume(&Consume::of(&topic, 0, Start::Beginning, 80))
                .map_err(|e| e.said)?;
            let values = |records: &[Record]| {
                records
                    .iter()
                    .map(|record| record.value.clone())
                    .collect::<Vec<_>>()
            };
            expect(
                codec,
                &values(&got),
                &values(&[records.as_slice(), &records].concat()),
            )
        })?;
    }
    Ok("each codec read by all clients".to_owned())
}

fn unknown_codec(suite: &mut Suite) -> Verdict {
    suite.topic("unknown.codec", 2, &[]);
    let good = Batch::of(&[b"good".to_vec()], now_ms());
    let mut bad = good.clone();
    bad.bytes[22] |= 5;
    let crc = crc32c::crc32c(&bad.bytes[21..]);
    bad.bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    let mut connection = suite.raw();
    let answers = connection
        .produce(
            "unknown.codec",
            -1,
            &[(0, bad.bytes), (1, good.bytes.clone())],
        )
        .map_err(told)?;
    let by_partition: BTreeMap<i32, i16> = answers
        .iter()
        .map(|answer| (answer.partition, answer.error))
        .collect();
    expect(
        "the good partition's error",
        &by_partition.get(&1),
        &Some(&0),
    )?;
    if by_partition.get(&0).is_none_or(|&error| error == 0) {
        return Err(format!("the bad batch was answered with {answers:?}"));
    }
    let end = connection.offset_at("unknown.codec", 0, -1).map_err(told)?;
    expect("end of the bad partition", &end, &(0, -1, 0))?;
    let again = connection
        .produce("unknown.codec", -1, &[(0, good.bytes)])
        .map_err(told)?;
    expect(
        "a good batch afterwards",
        &(again[0].error, again[0].base_offset),
        &(0, 0),
    )?;
    Ok(format!("error code {}", by_partition[&0]))
}

/// Each client waits at the end of an empty partition; the broker must hold its fetches, and answer when a record comes.
fn idle_consumers(suite: &mut Suite) -> Verdict {
    let address = suite.address();
    let mut slowest = 0;
    let mut most = 0;
    each(suite, |suite, client| {
        let topic = format!("idle.{}", client.name());
        suite.topic(&topic, 1, &[]);
        let _earlier = suite.proxy.take();
        let (sender, receiver) = mpsc::channel();
        let late = topic.clone();
        let producer = thread::spawn(move || {
            thread::sleep(Duration::from_secs(4));
            let batch = Batch::of(&[b"late".to_vec()], now_ms());
            let mut connection = Connection::open(address).map_err(told)?;
            let sent = Instant::now();
            let answers = connection
                .produce(&late, -1, &[(0, batch.bytes)])
                .map_err(told)?;
            sender.send(sent).map_err(told)?;
            expect("error", &answers[0].error, &0)
        });
        let got = client
            .consume(&Consume::of(&topic, 0, Start::Beginning, 1))
            .map_err(|e| e.said);
        let arrived = Instant::now();
        producer.join().expect("producing does not panic")?;
        expect("records", &got?.len(), &1)?;
        let waited = arrived - receiver.recv().map_err(told)?;
        let fetches = suite.proxy.take().requests.remove(&1).unwrap_or_default();
        slowest = slowest.max(waited.as_millis());
        most = most.max(fetches);
        if fetches > 25 {
            return Err(format!("{fetches} fetches in four idle seconds"));
        }
        if waited > Duration::from_secs(2) {
            return Err(format!("the record came {waited:?} after it was produced"));
        }
        Ok(())
    })?;
    Ok(format!(
        "at most {most} fetches in 4 s, record read after at most {slowest} ms"
    ))
}

fn large_record(suite: &mut Suite) -> Verdict {
    suite.topic("large.record", 1, &[]);
    let mut records = vec![Record::of(0, &noise(600_000))];
    records.extend((0..100).map(|i| Record::of(0, &format!("small {i}"))));
    let java = suite
        .clients
        .iter_mut()
        .find(|client| client.name() == "java")
        .expect("there is a Java client");
    for part in [&records[..1], &records[1..]] {
        java.produce(Produce {
            topic: "large.record",
            codec: "none",
            acks: "all",
            records: part,
        })
        .map_err(|e| e.said)?;
    }
    each(suite, |_, client| {
        let mut job = Consume::of("large.record", 0, Start::Beginning, records.len());
        job.fetch_bytes = Some(if client.name() == "java" || client.name() == "franz-go" {
            1024
        } else {
            1000
        });
        let got = client.consume(&job).map_err(|e| e.said)?;
        let all = got
            .iter()
            .map(|record| &record.value)
            .eq(records.iter().map(|record| &record.value));
        expect("all records arrived", &all, &true)
    })
}

fn edges_of_the_log(suite: &mut Suite) -> Verdict {
    suite.topic("edges", 1, &[]);
    let mut connection = suite.raw();
    let batch = Batch::of(&[b"a".to_vec(), b"b".to_vec(), b"c".to_vec()], now_ms());
    for _ in 0..2 {
        connection
            .produce("edges", -1, &[(0, batch.bytes.clone())])
            .map_err(told)?;
    }
    let at_end = connection.fetch("edges", 0, 6, 10).map_err(told)?;
    expect(
        "at the end",
        &(at_end.error, at_end.records.len(), at_end.high_watermark),
        &(0, 0, 6),
    )?;
    let beyond = connection.fetch("edges", 0, 7, 10).map_err(told)?;
    expect(
        "beyond the end",
        &(beyond.error, beyond.records.len()),
        &(1, 0),
    )?;
    let inside = connection.fetch("edges", 0, 4, 10).map_err(told)?;
    expect(
        "batch around offset 4",
        &Batch::split(&inside.records)[0].base_offset(),
        &3,
    )?;
    let deleted = connection.delete_records("edges", 0, 4).map_err(told)?;
    expect("deleting below 4", &deleted, &(4, 0))?;
    let below = connection.fetch("edges", 0, 3, 10).map_err(told)?;
    expect(
        "below the start",
        &(below.error, below.records.len()),
        &(1, 0),
    )?;
    let start = connection.fetch("edges", 0, 4, 10).map_err(told)?;
    expect(
        "at the start",
        &(start.error, start.log_start, start.records.is_empty()),
        &(0, 4, false),
    )?;
    let earliest = connection.offset_at("edges", 0, -2).map_err(told)?;
    expect("earliest", &(earliest.0, earliest.2), &(0, 4))?;
    each(suite, |_, client| {
        let got = client
            .consume(&Consume::of("edges", 0, Start::Beginning, 2))
            .map_err(|e| e.said)?;
        let offsets: Vec<_> = got.iter().map(|record| record.offset).collect();
        expect(
            "offsets from the beginning",
            &offsets,
            &vec![Some(4), Some(5)],
        )
    })
}

fn out_of_range(suite: &mut Suite) -> Verdict {
    suite.topic("out.of.range", 1, &[]);
    each(suite, |_, client| {
        let mut job = Consume::of("out.of.range", 0, Start::Offset(100), 1);
        job.patience_ms = 5000;
        match client.consume(&job) {
            Ok(records) if records.is_empty() && !client.is_library() => Ok(()),
            Ok(records) => Err(format!("{records:?} instead of an error")),
            Err(Failure { said, .. })
                if said
                    .to_lowercase()
                    .replace([' ', '_'], "")
                    .contains("range") =>
            {
                Ok(())
            }
            Err(error) => Err(error.said),
        }
    })
}

fn nothing_that_late(suite: &mut Suite) -> Verdict {
    suite.topic("late", 3, &[]);
    let now = now_ms();
    let mut connection = suite.raw();
    for partition in [1, 2] {
        let batch = Batch::of(&[b"early".to_vec()], now - 1000);
        connection
            .produce("late", -1, &[(partition, batch.bytes)])
            .map_err(told)?;
    }
    connection.delete_records("late", 2, -1).map_err(told)?;
    expect(
        "on the wire",
        &connection.offset_at("late", 1, now + 5000).map_err(told)?,
        &(0, -1, -1),
    )?;
    each(suite, |_, client| {
        for (what, partition, time) in [
            ("empty", 0, 0),
            ("older only", 1, now + 5000),
            ("deleted", 2, now - 5000),
        ] {
            let found = client
                .offset_for_time("late", partition, time)
                .map_err(|e| e.said)?;
            expect(what, &found, &None)?;
        }
        let found = client
            .offset_for_time("late", 1, now - 1000)
            .map_err(|e| e.said)?;
        expect("the very time", &found, &Some(0))
    })
}

/// In one batch and in separate ones, then once more after the broker was killed.
fn wild_timestamps(suite: &mut Suite) -> Verdict {
    let day = 86_400_000;
    let now = now_ms();
    let times = [
        now,
        now - 60 * day,
        now + 60 * day,
        1,
        9_000_000_000_000,
        i64::MAX / 2,
        0,
    ];
    let configs = [
        ("message.timestamp.after.max.ms", "9223372036854775807"),
        ("retention.ms", "-1"),
    ];
    let mut filled = Vec::new();
    each(suite, |suite, client| {
        if !client.is_library() {
            return Ok(());
        }
        let topic = format!("wild.{}", client.name());
        suite.topic(&topic, 1, &configs);
        // franz-go's times end in 2262; the others but Java take 0 for none.
        let times = match client.name() {
            "java" => times.as_slice(),
            "franz-go" => &times[..5],
            _ => &times[..6],
        };
        let mut records: Vec<Record> = times
            .iter()
            .map(|time| Record {
                timestamp: Some(*time),
                ..Record::of(0, "x")
            })
            .collect();
        let send = |client: &mut dyn Client, records: &[Record]| {
            client
                .produce(Produce {
                    topic: &topic,
                    codec: "lz4",
                    acks: "all",
                    records,
                })
                .map_err(|e| e.said)
        };
        send(client, &records)?;
        for record in &records {
            send(client, std::slice::from_ref(record))?;
        }
        records = [records.as_slice(), &records].concat();
        records
            .iter_mut()
            .zip(0..)
            .for_each(|(record, offset)| record.offset = Some(offset));
        filled.push((topic, records));
        Ok(())
    })?;
    let check = |suite: &mut Suite| {
        each(suite, |_, client| {
            for (topic, records) in &filled {
                let got = client
                    .consume(&Consume::of(topic, 0, Start::Beginning, records.len()))
                    .map_err(|e| e.said)?;
                let mut wanted = records.clone();
                if client.name() == "franz-go" {
                    // What it makes of times after 2262.
                    let late = wanted
                        .iter_mut()
                        .filter(|record| record.timestamp == Some(i64::MAX / 2));
                    late.for_each(|record| record.timestamp = Some(-1));
                }
                same(&wanted, &got)?;
                let found = client
                    .offset_for_time(topic, 0, now + day)
                    .map_err(|e| e.said)?;
                expect("first record after tomorrow", &found, &Some(2))?;
            }
            Ok(())
        })
    };
    check(suite)?;
    suite.restart_after_kill();
    check(suite)
}

fn dense_offsets(suite: &mut Suite) -> Verdict {
    suite.topic("dense", 1, &[]);
    for expected in 0..3 {
        let kcat = &mut suite.clients[0];
        let record = [Record::of(0, "one")];
        let offsets = kcat.produce(Produce {
            topic: "dense",
            codec: "none",
            acks: "all",
            records: &record,
        });
        expect("offset", &offsets.map_err(|e| e.said)?, &vec![expected])?;
        suite.restart_after_kill();
        suite.await_leaders("dense", 1);
    }
    let mut connection = suite.raw();
    let bounds = (
        connection.offset_at("dense", 0, -2).map_err(told)?.2,
        connection.offset_at("dense", 0, -1).map_err(told)?.2,
    );
    expect("beginning and end", &bounds, &(0, 3))?;
    Ok("over two restarts".to_owned())
}

fn names(suite: &mut Suite) -> Verdict {
    let long = "n".repeat(250);
    each(suite, |_, client| {
        if !client.is_library() {
            return Ok(());
        }
        let dotted = format!("{}.a", client.name());
        client.create_topic(&dotted).map_err(|e| e.said)?;
        let scored = dotted.replace('.', "_");
        for name in [scored.as_str(), ".", "..", "a b", "ä", &long] {
            match client.create_topic(name) {
                Err(Failure { code: Some(17), .. }) => {}
                other => return Err(format!("creating {name:?}: {other:?}")),
            }
        }
        client
            .create_topic(&long[..249 - client.name().len()])
            .map_err(|e| e.said)?;
        match client.create_topic(&dotted) {
            Err(Failure { code: Some(36), .. }) => Ok(()),
            other => Err(format!("creating {dotted} twice: {other:?}")),
        }
    })
}

fn first_use(suite: &mut Suite) -> Verdict {
    each(suite, |_, client| {
        for number in 0..10 {
            let topic = format!("first.{}.{number}", client.name());
            let record = [Record::of(0, "first")];
            let offsets = client.produce(Produce {
                topic: &topic,
                codec: "none",
                acks: "all",
                records: &record,
            });
            expect(&topic, &offsets.map_err(|e| e.said)?, &vec![0])?;
        }
        Ok(())
    })
}

fn created_then_used(suite: &mut Suite) -> Verdict {
    let batch = Batch::of(&[b"at once".to_vec()], now_ms());
    let mut connection = suite.raw();
    // Kafka may still be about to lead what it said was created.
    let topics = if suite.is_kafka() { 0 } else { 50 };
    for number in 0..topics {
        let topic = format!("created.{number}");
        expect(
            "creating",
            &connection.create_topic(&topic, 3, &[]).map_err(told)?,
            &0,
        )?;
        let batches = [0, 1, 2].map(|partition| (partition, batch.bytes.clone()));
        for answer in connection.produce(&topic, -1, &batches).map_err(told)? {
            expect(&topic, &(answer.error, answer.base_offset), &(0, 0))?;
        }
    }
    Ok(format!("{topics} topics without a pause"))
}

fn without_acks(suite: &mut Suite) -> Verdict {
    each(suite, |suite, client| {
        let topic = format!("without.acks.{}", client.name());
        suite.topic(&topic, 1, &[]);
        let records: Vec<Record> = (0..20)
            .map(|i| Record::of(0, &format!("value {i}")))
            .collect();
        let job = Produce {
            topic: &topic,
            codec: "gzip",
            acks: "0",
            records: &records,
        };
        client.produce(job).map_err(|e| e.said)?;
        let got = client
            .consume(&Consume::of(&topic, 0, Start::Beginning, 20))
            .map_err(|e| e.said)?;
        let all = got
            .iter()
            .map(|record| &record.value)
            .eq(records.iter().map(|record| &record.value));
        expect("all records arrived", &all, &true)
    })
}

fn null_headers(suite: &mut Suite) -> Verdict {
    suite.topic("null.headers", 1, &[]);
    let headers = [("a", None), ("b", Some("")), ("a", Some("again"))];
    let headers = headers
        .map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned)))
        .to_vec();
    let record = Record {
        headers,
        ..Record::of(0, "x")
    };
    let mut writers = 0;
    for client in &mut suite.clients {
        // kcat and kafka-python cannot make them.
        if ["confluent-kafka", "java", "franz-go"].contains(&client.name()) {
            let records = std::slice::from_ref(&record);
            let job = Produce {
                topic: "null.headers",
                codec: "none",
                acks: "all",
                records,
            };
            client.produce(job).map_err(|e| e.said)?;
            writers += 1;
        }
    }
    each(suite, |_, client| {
        let got = client
            .consume(&Consume::of("null.headers", 0, Start::Beginning, writers))
            .map_err(|e| e.said)?;
        expect("records", &got.len(), &writers)?;
        for got in got {
            expect("headers", &got.headers, &record.headers)?;
        }
        Ok(())
    })
}
