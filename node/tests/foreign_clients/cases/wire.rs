//! Requests by hand that no client of today sends, and answers that clients rely on.

use std::collections::BTreeMap;

use super::{Verdict, each, expect, told};
use crate::{
    client::{Consume, Start},
    raw::Batch,
    suite::{Suite, now_ms},
};

pub(super) fn newer_api_versions(suite: &mut Suite) -> Verdict {
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

pub(super) fn unknown_codec(suite: &mut Suite) -> Verdict {
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

pub(super) fn edges_of_the_log(suite: &mut Suite) -> Verdict {
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

pub(super) fn created_then_used(suite: &mut Suite) -> Verdict {
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
