//! What consumers see at the edges of a log.

use std::{sync::mpsc, thread, time::Duration, time::Instant};

use super::{Verdict, each, expect, told};
use crate::{
    client::{Consume, Failure, Produce, Record, Start},
    matrix::noise,
    raw::{Batch, Connection},
    suite::{Suite, now_ms},
};

/// Each client waits at the end of an empty partition; the broker must hold its fetches, and answer when a record comes.
pub(super) fn idle_consumers(suite: &mut Suite) -> Verdict {
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

pub(super) fn large_record(suite: &mut Suite) -> Verdict {
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

pub(super) fn out_of_range(suite: &mut Suite) -> Verdict {
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

pub(super) fn nothing_that_late(suite: &mut Suite) -> Verdict {
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

pub(super) fn dense_offsets(suite: &mut Suite) -> Verdict {
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
