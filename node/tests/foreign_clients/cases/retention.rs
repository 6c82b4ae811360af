//! Records that leave by themselves.

use std::{collections::BTreeSet, thread, time::Duration, time::Instant};

use super::{Verdict, each, expect, told};
use crate::{
    client::{Consume, Start},
    raw::Batch,
    suite::{Suite, now_ms},
};

/// A record dated years ahead would keep its segment for ever: by default it is refused, and where the broker's clock
/// counts, its date does not.
pub(super) fn far_future(suite: &mut Suite) -> Verdict {
    suite.topic("far.future", 1, &[]);
    suite.topic(
        "append.time",
        1,
        &[
            ("message.timestamp.type", "LogAppendTime"),
            ("retention.ms", "1000"),
        ],
    );
    let batch = Batch::of(&[b"2100".to_vec()], 4_102_444_800_000).bytes;
    let mut connection = suite.raw();
    let refused = connection
        .produce("far.future", -1, &[(0, batch.clone())])
        .map_err(told)?;
    expect("error of a date in 2100", &refused[0].error, &32)?;
    let taken = connection
        .produce("append.time", -1, &[(0, batch)])
        .map_err(told)?;
    expect("error under LogAppendTime", &taken[0].error, &0)?;
    let produced = Instant::now();
    loop {
        let (error, _, start) = connection.offset_at("append.time", 0, -2).map_err(told)?;
        expect("error of the look-up", &error, &0)?;
        if start == 1 {
            return Ok(format!(
                "removed after {:.1} s",
                produced.elapsed().as_secs_f32()
            ));
        }
        if produced.elapsed() > Duration::from_secs(30) {
            return Err("the record is still there after 30 s".to_owned());
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Bursts of records that expire after a second, while a reader asks for the earliest again and again.
pub(super) fn retention(suite: &mut Suite) -> Verdict {
    suite.topic(
        "expiring",
        1,
        &[("retention.ms", "1000"), ("segment.ms", "1000")],
    );
    let mut connection = suite.raw();
    let from = Instant::now();
    let (mut reads, mut raced, mut starts) = (0, 0, BTreeSet::new());
    while from.elapsed() < Duration::from_secs(8) {
        let batch = Batch::of(&[vec![b'x'; 1000], vec![b'y'; 1000]], now_ms());
        expect(
            "produced",
            &connection
                .produce("expiring", 1, &[(0, batch.bytes)])
                .map_err(told)?[0]
                .error,
            &0,
        )?;
        let (error, _, earliest) = connection.offset_at("expiring", 0, -2).map_err(told)?;
        expect("error of the look-up", &error, &0)?;
        let fetched = connection.fetch("expiring", 0, earliest, 0).map_err(told)?;
        match Batch::split(&fetched.records).first() {
            _ if fetched.error == 1 => raced += 1,
            Some(batch)
                if fetched.error == 0
                    && batch.base_offset() <= earliest
                    && earliest < batch.next_offset() => {}
            None if fetched.error == 0 && earliest == fetched.high_watermark => {}
            _ => {
                return Err(format!(
                    "fetch at the earliest offset {earliest}: {fetched:?}"
                ));
            }
        }
        reads += 1;
        starts.insert(earliest);
        thread::sleep(Duration::from_millis(5));
    }
    if starts.len() < 3 {
        return Err(format!("the start moved to {starts:?} only"));
    }
    suite.restart_after_kill();
    suite.await_leaders("expiring", 1);
    each(suite, |suite, client| {
        let batch = Batch::of(&[b"new".to_vec()], now_ms());
        let answer = suite
            .raw()
            .produce("expiring", -1, &[(0, batch.bytes)])
            .map_err(told)?[0];
        expect("produced", &answer.error, &0)?;
        let got = client
            .consume(&Consume::of("expiring", 0, Start::Beginning, 1))
            .map_err(|e| e.said)?;
        expect("records", &got.len(), &1)
    })?;
    Ok(format!(
        "{reads} reads, {} different starts, {raced} races",
        starts.len()
    ))
}
