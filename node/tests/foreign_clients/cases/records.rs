//! Records that other brokers changed, lost or refused.

use super::{Verdict, each, expect, told};
use crate::{
    client::{CODECS, Client, Consume, Produce, Record, Start},
    matrix::same,
    suite::{Suite, now_ms},
};

pub(super) fn recompressed(suite: &mut Suite) -> Verdict {
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

/// In one batch and in separate ones, then once more after the broker was killed.
pub(super) fn wild_timestamps(suite: &mut Suite) -> Verdict {
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
        let records = send_wild(client, &topic, times)?;
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

/// Sends records of these times, first all in one batch and then each in its own; returns what must be there.
fn send_wild(client: &mut dyn Client, topic: &str, times: &[i64]) -> Result<Vec<Record>, String> {
    let record = |time: &i64| Record {
        timestamp: Some(*time),
        ..Record::of(0, "x")
    };
    let records: Vec<Record> = times.iter().map(record).collect();
    let mut send = |records: &[Record]| {
        let job = Produce {
            topic,
            codec: "lz4",
            acks: "all",
            records,
        };
        client.produce(job).map_err(|e| e.said)
    };
    send(&records)?;
    for record in &records {
        send(std::slice::from_ref(record))?;
    }
    let mut sent = [records.as_slice(), &records].concat();
    for (record, offset) in sent.iter_mut().zip(0..) {
        record.offset = Some(offset);
    }
    Ok(sent)
}

pub(super) fn without_acks(suite: &mut Suite) -> Verdict {
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

pub(super) fn null_headers(suite: &mut Suite) -> Verdict {
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
