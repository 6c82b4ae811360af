//! Three processes are restarted one after another while every client produces with acks=all and consumes.
//!
//! Every record that a client says was acknowledged must be at the offset that it was told, whole, and every reader must see
//! the same. Idempotence is off, so a record whose answer was lost with its leader may be there twice.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{
    client::{CODECS, Client, Consume, Produce, Record, Start},
    kcat::Kcat,
    program::Program,
    raw::Connection,
    suite::{Suite, now_ms},
    trio::{Trio, places_of},
};

/// Records of one job of a producer, which takes about two seconds for them.
const RECORDS: usize = 200;
const PACE: Duration = Duration::from_millis(10);

/// How long a consumer stays before another takes over.
const CONSUMER_MS: u64 = 6_000;

/// A client as a producer, and the topic that it fills.
struct Producer {
    client: Box<dyn Client>,
    topic: String,
    codec: &'static str,
    partitions: i32,
    jobs: AtomicU64,
}

/// Runs it, and reports one check for each client.
pub(crate) fn run(suite: &mut Suite, tools: &Path, work: &Path) {
    for (name, said) in restart_under_load(tools, work) {
        suite.check(&format!("rolling_restart: {name}"), |_| said);
    }
}

fn clients(tools: &Path, bootstrap: &str, logs: &Path) -> Vec<Box<dyn Client>> {
    fs::create_dir_all(logs).expect("a folder below target/ can be made");
    let mut clients: Vec<Box<dyn Client>> = vec![Box::new(Kcat::new(bootstrap))];
    for program in Program::all(tools, bootstrap, logs) {
        clients.push(Box::new(program));
    }
    clients
}

fn restart_under_load(tools: &Path, work: &Path) -> Vec<(&'static str, Result<String, String>)> {
    let mut trio = Trio::new(&work.join("brokers"), 9_000, None);
    trio.start(&[1, 2, 3]);
    let bootstrap: Vec<String> = trio.addresses().iter().map(ToString::to_string).collect();
    let bootstrap = bootstrap.join(",");
    let producers = clients(tools, &bootstrap, &work.join("producers"));
    let producers = producers.into_iter().zip(CODECS);
    let mut producers: Vec<Producer> = producers
        .map(|(client, codec)| Producer {
            topic: format!("rolling.{}", client.name()),
            // kcat produces to one partition a run.
            partitions: if client.is_library() { 3 } else { 1 },
            codec,
            client,
            jobs: AtomicU64::new(0),
        })
        .collect();
    for producer in &producers {
        trio.create(&producer.topic, producer.partitions, &[]);
    }
    let mut readers = clients(tools, &bootstrap, &work.join("consumers"));
    let Seen { sent, tails } = produce_and_consume(&mut trio, &mut producers, &mut readers);
    let count = producers.len();
    let judge_one = |(number, producer): (usize, &Producer)| {
        let reader = readers[(number + 1) % count].as_mut();
        let judged = sent[number].as_ref().map_err(Clone::clone);
        let judged = judged.and_then(|sent| {
            let name = reader.name();
            let tail = tails[number].as_ref();
            let tail = tail.map_err(|said| format!("{name} reads: {said}"))?;
            let said = judge(&trio, reader, producer, sent, tail)?;
            Ok(format!("{said}; read by {name}"))
        });
        (producer.client.name(), judged)
    };
    producers.iter().enumerate().map(judge_one).collect()
}

/// Whatever fails, the clients' threads are told to end: otherwise it would wait for them for ever.
struct Ended<'a>([&'a AtomicBool; 2]);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        for flag in self.0 {
            flag.store(true, Ordering::Release);
        }
    }
}

/// By producer: what was acknowledged to it, and what was read of its topic's first partition meanwhile.
struct Seen {
    sent: Vec<Result<Vec<Record>, String>>,
    tails: Vec<Result<Vec<Record>, String>>,
}

/// Restarts the nodes while each client fills its topic and the next one follows it.
fn produce_and_consume(
    trio: &mut Trio,
    producers: &mut [Producer],
    readers: &mut [Box<dyn Client>],
) -> Seen {
    let (over, filled) = (&AtomicBool::new(false), &AtomicBool::new(false));
    let topics: Vec<String> = producers.iter().map(|it| it.topic.clone()).collect();
    let count = topics.len();
    thread::scope(|scope| {
        let _ended = Ended([over, filled]);
        let (mut jobs, mut filling): (Vec<&AtomicU64>, Vec<_>) = (Vec::new(), Vec::new());
        for producer in producers {
            let job = (producer.topic.as_str(), producer.partitions, producer.codec);
            let (client, done) = (producer.client.as_mut(), &producer.jobs);
            jobs.push(done);
            filling.push(scope.spawn(move || fill(client, job, done, over)));
        }
        let mut following = Vec::new();
        for (number, reader) in readers.iter_mut().enumerate() {
            let topic = &topics[(number + count - 1) % count];
            following.push(scope.spawn(move || follow(reader.as_mut(), topic, filled)));
        }
        restart_each(trio, &jobs);
        over.store(true, Ordering::Release);
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().expect("a client's failure is no panic")
        };
        let sent = filling.into_iter().map(join).collect();
        filled.store(true, Ordering::Release);
        let mut tails: Vec<_> = following.into_iter().map(join).collect();
        // The first reader follows the last producer.
        tails.rotate_left(1);
        Seen { sent, tails }
    })
}

/// Restarts one node after another; before each, and in the end, every producer has to finish a job.
fn restart_each(trio: &mut Trio, jobs: &[&AtomicU64]) {
    let await_jobs = |wanted: &[u64]| {
        let deadline = Instant::now() + Duration::from_mins(3);
        let missing = || {
            let counts = jobs.iter().map(|jobs| jobs.load(Ordering::Acquire));
            counts.zip(wanted).any(|(count, wanted)| count < *wanted)
        };
        while missing() {
            assert!(
                Instant::now() < deadline,
                "a producer hangs for three minutes"
            );
            thread::sleep(Duration::from_millis(20));
        }
    };
    let next = || -> Vec<u64> {
        let counts = jobs.iter().map(|jobs| jobs.load(Ordering::Acquire));
        counts.map(|count| count.saturating_add(1)).collect()
    };
    await_jobs(&next());
    for id in 1..=3 {
        let more = next();
        let from = Instant::now();
        let status = trio.stop(id);
        assert!(status.success(), "SIGTERM ended node {id} with {status}");
        trio.start(&[id]);
        trio.await_in_sync();
        println!(
            "      node {id} stopped, started and in sync again within {:.1} s",
            from.elapsed().as_secs_f32()
        );
        await_jobs(&more);
    }
}

/// Produces job after job until it is over, and one after that. A failure counts as any number of jobs.
fn fill(
    client: &mut dyn Client,
    (topic, partitions, codec): (&str, i32, &str),
    jobs: &AtomicU64,
    over: &AtomicBool,
) -> Result<Vec<Record>, String> {
    let mut acknowledged = Vec::new();
    loop {
        let is_last = over.load(Ordering::Acquire);
        let job = jobs.load(Ordering::Acquire);
        let mut records = content(client, partitions, job);
        let produced = client.keep_producing(
            Produce {
                topic,
                codec,
                acks: "all",
                records: &records,
            },
            PACE,
        );
        let offsets = produced.map_err(|e| e.said).and_then(|offsets| {
            match offsets.iter().position(|it| *it < 0) {
                None if offsets.len() == records.len() => Ok(offsets),
                first => Err(format!(
                    "{} of {} acknowledged, without an offset: {first:?}",
                    offsets.len(),
                    records.len()
                )),
            }
        });
        match offsets {
            Ok(offsets) => {
                for (record, offset) in records.iter_mut().zip(offsets) {
                    record.offset = Some(offset);
                }
                acknowledged.append(&mut records);
            }
            Err(said) => {
                jobs.store(u64::MAX, Ordering::Release);
                return Err(format!("job {job}: {said}"));
            }
        }
        jobs.fetch_add(1, Ordering::AcqRel);
        if is_last {
            return Ok(acknowledged);
        }
    }
}

fn content(client: &dyn Client, partitions: i32, job: u64) -> Vec<Record> {
    let now = now_ms();
    let name = client.name();
    (0..RECORDS)
        .zip((0..partitions).cycle())
        .map(|(number, partition)| {
            let value = format!("{name} {job} {number} {}", "content ".repeat(number % 40));
            let headers = client
                .is_library()
                .then(|| ("job".to_owned(), Some(job.to_string())));
            Record {
                timestamp: client.is_library().then_some(now),
                key: Some(format!("key {number}")),
                headers: headers.into_iter().collect(),
                ..Record::of(partition, &value)
            }
        })
        .collect()
}

/// Consumes partition 0 from its beginning until nothing comes any more after all is there.
fn follow(
    client: &mut dyn Client,
    topic: &str,
    filled: &AtomicBool,
) -> Result<Vec<Record>, String> {
    let mut seen: Vec<Record> = Vec::new();
    let mut next = 0;
    loop {
        let is_filled = filled.load(Ordering::Acquire);
        let job = Consume {
            patience_ms: CONSUMER_MS,
            ..Consume::of(topic, 0, Start::Offset(next), 1_000_000)
        };
        let records = client.consume(&job);
        let records = records.map_err(|e| format!("from offset {next}: {e}"))?;
        if is_filled && records.is_empty() {
            return Ok(seen);
        }
        next = dense(&records, next)?;
        seen.extend(records);
    }
}

/// Offsets have no gaps: the one after the last.
fn dense(records: &[Record], mut next: i64) -> Result<i64, String> {
    for record in records {
        if record.offset != Some(next) {
            return Err(format!("offset {:?} where {next} is next", record.offset));
        }
        next += 1;
    }
    Ok(next)
}

/// The end of a partition, as its leader says.
fn end_of(trio: &Trio, topic: &str, partition: i32) -> Option<i64> {
    let addresses = trio.addresses();
    let places = places_of(topic, addresses[0]).ok()?;
    let leader = usize::try_from(places.partitions.get(&partition)?.leader?).ok()?;
    let mut connection = Connection::open(addresses[leader - 1]).ok()?;
    let (error, _time, end) = connection.offset_at(topic, partition, -1).ok()?;
    (error == 0).then_some(end)
}

/// Reads all partitions again, and compares them with what was acknowledged and with what was read meanwhile.
fn judge(
    trio: &Trio,
    reader: &mut dyn Client,
    producer: &Producer,
    sent: &[Record],
    tail: &[Record],
) -> Result<String, String> {
    let topic = &producer.topic;
    let mut twice = 0;
    for partition in 0..producer.partitions {
        let end = end_of(trio, topic, partition).ok_or("the partition has no end")?;
        let count = usize::try_from(end).map_err(|e| e.to_string())?;
        let job = Consume::of(topic, partition, Start::Beginning, count);
        let stored = reader.consume(&job).map_err(|e| e.said)?;
        if dense(&stored, 0)? != end {
            return Err(format!("{} of {count} records are readable", stored.len()));
        }
        if partition == 0 && tail != stored {
            let differs = tail.iter().zip(&stored).position(|(a, b)| a != b);
            return Err(format!(
                "meanwhile {} records were read, now {}; they differ from {differs:?}",
                tail.len(),
                stored.len()
            ));
        }
        let mut wanted = BTreeSet::new();
        for record in sent.iter().filter(|record| record.partition == partition) {
            let offset = record
                .offset
                .and_then(|offset| usize::try_from(offset).ok());
            let found = offset.and_then(|offset| stored.get(offset));
            let is_it = found.is_some_and(|found| {
                let timestamp = record.timestamp.or(found.timestamp);
                *found
                    == (Record {
                        timestamp,
                        ..record.clone()
                    })
            });
            if !is_it {
                return Err(format!("acknowledged {record:?}, but there is {found:?}"));
            }
            wanted.insert(&record.value);
        }
        if let Some(other) = stored.iter().find(|stored| !wanted.contains(&stored.value)) {
            return Err(format!("nobody sent {other:?}"));
        }
        twice += count - wanted.len();
    }
    Ok(format!(
        "{} records acknowledged, all in place, {twice} twice",
        sent.len()
    ))
}
