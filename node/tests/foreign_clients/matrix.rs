//! Every producer with every codec, read by every consumer: from the beginning, from inside a batch and by time.

use crate::{
    client::{CODECS, Client, Consume, Produce, Record, Start},
    raw::Batch,
    suite::{Suite, now_ms},
};

/// A topic that one client filled, and what every client must read from it.
#[derive(Debug)]
struct Filled {
    topic: String,
    codec: &'static str,
    /// In two partitions, in the order of their offsets.
    partitions: [Vec<Record>; 2],
}

/// Runs the whole matrix, one line for each pair of clients.
pub(crate) fn run(suite: &mut Suite, wanted: &dyn Fn(&str) -> bool) {
    for producer in 0..suite.clients.len() {
        let name = suite.clients[producer].name();
        let consumers: Vec<&str> = suite.clients.iter().map(|client| client.name()).collect();
        if !consumers
            .iter()
            .any(|consumer| wanted(&pair(name, consumer)))
        {
            continue;
        }
        let mut filled = Vec::new();
        suite.check(&format!("{name} produces"), |suite| {
            for codec in CODECS {
                filled
                    .push(fill(suite, producer, codec).map_err(|said| format!("{codec}: {said}"))?);
            }
            Ok("each codec, batches identical from the magic byte on".to_owned())
        });
        for (consumer, other) in consumers.iter().enumerate() {
            if wanted(&pair(name, other)) {
                suite.check(&pair(name, other), |suite| {
                    let client = suite.clients[consumer].as_mut();
                    let mut records = 0;
                    for topic in &mut filled {
                        records += read(client, topic)
                            .map_err(|said| format!("{}: {said}", topic.codec))?;
                    }
                    Ok(format!("{} {records} records", CODECS.join(" ")))
                });
            }
        }
    }
}

fn pair(producer: &str, consumer: &str) -> String {
    format!("{producer} to {consumer}")
}

/// Produces two halves to a new topic, and compares what the client sent with what the broker hands out.
fn fill(suite: &mut Suite, producer: usize, codec: &'static str) -> Result<Filled, String> {
    let client = suite.clients[producer].name();
    let topic = format!("matrix.{client}.{codec}");
    suite.topic(&topic, 2, &[]);
    let mut records = content(suite.clients[producer].as_ref());
    let _earlier = suite.proxy.take();
    let (first, second) = records.split_at_mut(HALF);
    for (half, acks) in [(&mut *first, "all"), (second, "1")] {
        let offsets = suite.clients[producer].produce(Produce {
            topic: &topic,
            codec,
            acks,
            records: half,
        });
        let offsets = offsets.map_err(|e| e.said)?;
        half.iter_mut()
            .zip(offsets)
            .for_each(|(record, offset)| record.offset = Some(offset));
    }
    let partitions = [0, 1].map(|partition| {
        let mut of_it: Vec<Record> = records
            .iter()
            .filter(|record| record.partition == partition)
            .cloned()
            .collect();
        of_it.sort_by_key(|record| record.offset);
        of_it
    });
    for (records, partition) in partitions.iter().zip(0..) {
        let dense = records
            .iter()
            .zip(0..)
            .all(|(record, offset)| record.offset == Some(offset));
        if !dense {
            return Err(format!(
                "offsets of partition {partition} are not 0, 1, 2 and so on"
            ));
        }
    }
    identical(suite, &topic, codec)?;
    Ok(Filled {
        topic,
        codec,
        partitions,
    })
}

/// What stands on the wire of a fetch must be what stood on the wire of the produce requests.
fn identical(suite: &Suite, topic: &str, codec: &str) -> Result<(), String> {
    let mut sent = suite.proxy.take().batches;
    let mut connection = suite.raw();
    for partition in [0, 1] {
        let sent = sent.remove(&partition).unwrap_or_default();
        let stored = connection
            .read_all(topic, partition, 0)
            .map_err(|e| e.to_string())?;
        if sent.len() != stored.len() || sent.len() < 2 {
            return Err(format!(
                "partition {partition}: {} batches sent, {} stored",
                sent.len(),
                stored.len()
            ));
        }
        let mut next = 0;
        for (sent, stored) in sent.iter().zip(&stored) {
            if sent.codec() != codec {
                return Err(format!(
                    "partition {partition}: the client sent {}",
                    sent.codec()
                ));
            }
            if sent.kept_bytes() != stored.kept_bytes() || sent.bytes[8..12] != stored.bytes[8..12]
            {
                return Err(format!(
                    "partition {partition}: the batch at {} was changed",
                    stored.base_offset()
                ));
            }
            if stored.base_offset() != next {
                return Err(format!(
                    "partition {partition}: {} where {next} is next",
                    stored.base_offset()
                ));
            }
            next = Batch::next_offset(stored);
        }
    }
    Ok(())
}

/// Reads both partitions and compares; the first reader of a topic whose timestamps its producer took from its clock
/// settles them for all.
fn read(client: &mut dyn Client, filled: &mut Filled) -> Result<usize, String> {
    let [whole, tail] = &mut filled.partitions;
    let topic = &filled.topic;
    let got = consume(client, topic, 0, Start::Beginning, whole.len())?;
    if whole[0].timestamp.is_none() {
        settle(whole, &got)?;
    }
    same(whole, &got)?;
    let middle = &mut tail[INSIDE..];
    let got = consume(client, topic, 1, Start::Offset(7), middle.len())?;
    if middle[0].timestamp.is_none() {
        settle(middle, &got)?;
    }
    same(middle, &got).map_err(|said| format!("from offset 7: {said}"))?;
    // Inside a batch for those that choose timestamps; the first record that is not earlier.
    let time =
        whole[whole.len() * 3 / 4].timestamp.unwrap_or_default() - i64::from(client.is_library());
    let first = whole
        .iter()
        .position(|record| record.timestamp >= Some(time))
        .expect("the record itself, at the latest");
    let later = &whole[first..];
    let got = consume(client, topic, 0, Start::Time(time), later.len())?;
    same(later, &got).map_err(|said| format!("by time {time}: {said}"))?;
    Ok(whole.len() + middle.len() + later.len())
}

fn consume(
    client: &mut dyn Client,
    topic: &str,
    partition: i32,
    start: Start,
    count: usize,
) -> Result<Vec<Record>, String> {
    client
        .consume(&Consume::of(topic, partition, start, count))
        .map_err(|e| format!("{start:?}: {e}"))
}

fn settle(wanted: &mut [Record], got: &[Record]) -> Result<(), String> {
    let now = now_ms();
    for (wanted, got) in wanted.iter_mut().zip(got) {
        let time = got
            .timestamp
            .filter(|time| (now - 600_000..=now).contains(time));
        wanted.timestamp =
            Some(time.ok_or_else(|| format!("timestamp {:?} at {now}", got.timestamp))?);
    }
    Ok(())
}

/// Compares record by record.
pub(crate) fn same(wanted: &[Record], got: &[Record]) -> Result<(), String> {
    if let Some((wanted, got)) = wanted.iter().zip(got).find(|(wanted, got)| wanted != got) {
        return Err(format!("expected {}, read {}", brief(wanted), brief(got)));
    }
    if wanted.len() != got.len() {
        return Err(format!("{} of {} records", got.len(), wanted.len()));
    }
    Ok(())
}

fn brief(record: &Record) -> String {
    let said = format!("{record:?}");
    said.chars().take(300).collect()
}

/// Records of all shapes that the client can make. Those of a library are an hour old and a second apart.
fn content(client: &dyn Client) -> Vec<Record> {
    let from = now_ms() - 3_600_000;
    (0..2 * HALF)
        .zip(0..)
        .map(|(number, seconds)| {
            let kind = number % 10;
            let value = match kind {
                3 => None,
                5 if client.is_library() => Some(String::new()),
                5 => None,
                6 => Some(format!("{number} größer ☃ {}", "ab".repeat(30))),
                7 if number == 17 => Some(noise(2_000)),
                _ => Some(format!("value {number} {}", "compressible ".repeat(20))),
            };
            let key = (number % 4 != 0 || value.is_none()).then(|| format!("key {}", number % 7));
            let headers = match (client.is_library(), number % 3) {
                (true, 0) => vec![
                    ("number", number.to_string()),
                    ("from", client.name().to_owned()),
                    ("", String::new()),
                ],
                (true, _) => Vec::new(),
                (false, _) => vec![("from", "kcat".to_owned()), ("from", "twice".to_owned())],
            };
            Record {
                partition: i32::from(number % 3 == 2),
                offset: None,
                timestamp: client.is_library().then_some(from + seconds * 1000),
                key,
                value,
                headers: headers
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), Some(value)))
                    .collect(),
            }
        })
        .collect()
}

/// Letters that no codec makes much smaller.
pub(crate) fn noise(size: usize) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let letter = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(33 + state.to_be_bytes()[0] % 90)
    };
    (0..size).map(letter).collect()
}

const HALF: usize = 60;

/// An offset of partition 1 inside its first batch.
const INSIDE: usize = 7;
