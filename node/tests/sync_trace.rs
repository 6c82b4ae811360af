//! Watches the broker's system calls: an answer leaves only when what it promises is synced.
//!
//! Run it with `cargo test -p seedlog --test sync_trace`; it needs strace. Under the rule `durable` the log file of each
//! acknowledged batch is synced between the write of the batch and the answer, and so is the directory of a file that is new
//! since the last answer. Under `replicated` answers leave without any sync. The answers are read from the trace itself.

#[path = "clients/broker.rs"]
#[expect(dead_code, reason = "shared with tests that kill brokers")]
mod broker;
#[path = "clients/raw/mod.rs"]
#[expect(dead_code, reason = "shared with tests that ask for more")]
mod raw;
#[path = "clients/strace.rs"]
mod strace;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    thread,
};

use crate::{
    broker::Site,
    raw::{Batch, Connection},
    strace::Call,
};

const CALLS: &str = "trace=openat,mkdir,mkdirat,rename,renameat,renameat2,write,writev,pwrite64,pwritev,pwritev2,\
                     fsync,fdatasync,sendto,sendmsg";

const PARTITIONS: i32 = 2;
const CONNECTIONS: usize = 3;
const REQUESTS: usize = 150;

fn main() {
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sync-trace");
    let site = Site::new(&work, None, "");
    let trace = work.join("trace");
    let to = trace.to_str().expect("a path in UTF-8");
    // Strings and paths in hexadecimal, whole; descriptors with what is behind them.
    let strace = [
        "strace", "-f", "-ttt", "-yy", "-xx", "-s", "100000", "-e", CALLS, "-o", to,
    ];
    let process = site.start_under(&strace);
    let mut connection =
        Connection::open(site.address()).expect("a ready broker accepts connections");
    let small = ("segment.bytes", "1048576");
    let never = ("flush.messages", "9223372036854775807");
    for (topic, configs) in [("durable", [small].as_slice()), ("replicated", &[never])] {
        let created = connection
            .create_topic(topic, PARTITIONS, configs)
            .expect("an answer");
        assert_eq!(created, 0, "creating {topic}");
    }
    // A broker with one connection waits for its syncs itself.
    drop(connection);
    let mut ports = HashMap::new();
    for topic in ["durable", "replicated"] {
        // One request at a time, one log with as many as one sync takes, then several connections with several each.
        ports.extend(load(site.address(), topic, 1, PARTITIONS, 20, 1));
        ports.extend(load(site.address(), topic, 1, 1, REQUESTS, 20));
        ports.extend(load(
            site.address(),
            topic,
            CONNECTIONS,
            PARTITIONS,
            REQUESTS,
            5,
        ));
    }
    assert!(process.stop().success(), "the broker ends in good order");
    let text = fs::read_to_string(&trace).expect("strace wrote its output");
    let calls = strace::read(&text);
    println!("{} system calls traced", calls.len());
    check_durable(&site, &calls, &answers(&calls, &ports, "durable"));
    check_replicated(&site, &calls, &answers(&calls, &ports, "replicated"));
    println!("2 passed, 0 failed");
}

/// Produces on new connections, and hands back their ports with the topic.
fn load(
    address: SocketAddr,
    topic: &'static str,
    connections: usize,
    partitions: i32,
    requests: usize,
    in_flight: usize,
) -> Vec<(u16, &'static str)> {
    let producers = (0..connections).map(|number| {
        thread::spawn(move || {
            let mut connection =
                Connection::open(address).expect("a ready broker accepts connections");
            let acks = if number % 2 == 0 { -1 } else { 1 };
            let mut waiting = 0;
            for request in 0..requests {
                let partition = i32::try_from(request).expect("few requests") % partitions;
                let values = vec![vec![b'x'; 8000]; if connections == 1 { 1 } else { 2 }];
                let batches = [(partition, Batch::of(&values, 1_000_000_000_000).bytes)];
                connection
                    .send_produce(topic, acks, &batches)
                    .expect("the broker runs");
                waiting += 1;
                while waiting == in_flight || (waiting > 0 && request + 1 == requests) {
                    let (_, answer) = connection.receive().expect("the broker runs");
                    assert!(
                        raw::produced(&answer)
                            .iter()
                            .all(|answer| answer.error == 0)
                    );
                    waiting -= 1;
                }
            }
            (connection.port(), topic)
        })
    });
    #[expect(
        clippy::needless_collect,
        reason = "all of them run before one is waited for"
    )]
    let producers: Vec<_> = producers.collect();
    producers
        .into_iter()
        .map(|producer| producer.join().expect("a producer does not fail"))
        .collect()
}

/// An acknowledgement, with the place in the trace where its answer began to leave.
#[derive(Debug)]
struct Answer {
    partition: i32,
    base_offset: i64,
    place: usize,
}

/// Reads the answers to the producers of a topic from what the broker sent to their ports.
fn answers(calls: &[Call], ports: &HashMap<u16, &str>, topic: &str) -> Vec<Answer> {
    let mut streams: BTreeMap<u16, Vec<(usize, Vec<u8>)>> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.result() > 0) {
        let port = call
            .socket()
            .and_then(|socket| socket.rsplit(':').next()?.parse().ok());
        if let Some(port) = port.filter(|port| ports.get(port) == Some(&topic)) {
            streams
                .entry(port)
                .or_default()
                .push((call.start, call.bytes()));
        }
    }
    let mut out = Vec::new();
    for pieces in streams.into_values() {
        let places: Vec<usize> = pieces
            .iter()
            .flat_map(|(place, bytes)| vec![*place; bytes.len()])
            .collect();
        let bytes: Vec<u8> = pieces.into_iter().flat_map(|(_, bytes)| bytes).collect();
        let mut at = 0;
        while let Some(size) = bytes.get(at..at + 4) {
            let size = u32::from_be_bytes(size.try_into().expect("four bytes"));
            let end = at + 4 + usize::try_from(size).expect("a size");
            // Size and correlation id come first.
            for answer in raw::produced(&bytes[at + 8..end]) {
                let (partition, base_offset) = (answer.partition, answer.base_offset);
                out.push(Answer {
                    partition,
                    base_offset,
                    place: places[at],
                });
            }
            at = end;
        }
    }
    let wanted = 20 + REQUESTS + CONNECTIONS * REQUESTS;
    assert_eq!(out.len(), wanted, "the trace shows each answer on {topic}");
    out
}

/// Where each batch of a partition was written: its file and the place where the write had ended.
fn appends(calls: &[Call], folder: &Path) -> BTreeMap<i64, (PathBuf, usize)> {
    let mut out = BTreeMap::new();
    for call in calls
        .iter()
        .filter(|call| call.name.contains("write") && call.result() > 0)
    {
        let log = call
            .file()
            .filter(|file| file.parent() == Some(folder) && is_log(file));
        if let Some(file) = log {
            for batch in Batch::split(&call.bytes()) {
                out.insert(batch.base_offset(), (file.clone(), call.end));
            }
        }
    }
    out
}

fn is_log(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "log")
}

/// Whether a file or directory was synced, begun and ended between two places.
fn synced(syncs: &[(&Call, PathBuf)], path: &Path, after: usize, before: usize) -> bool {
    syncs
        .iter()
        .any(|(call, synced)| synced == path && call.start > after && call.end < before)
}

fn syncs(calls: &[Call]) -> Vec<(&Call, PathBuf)> {
    let calls = calls
        .iter()
        .filter(|call| ["fsync", "fdatasync"].contains(&call.name.as_str()) && call.result() == 0);
    calls
        .filter_map(|call| Some((call, call.file()?)))
        .collect()
}

fn check_durable(site: &Site, calls: &[Call], answers: &[Answer]) {
    let syncs = syncs(calls);
    let mut files = BTreeSet::new();
    let mut directories = 0;
    for partition in 0..PARTITIONS {
        let folder = site.partition("durable", partition);
        let appends = appends(calls, &folder);
        for answer in answers
            .iter()
            .filter(|answer| answer.partition == partition)
        {
            let what = format!("durable-{partition} at {}", answer.base_offset);
            let (file, written) = appends
                .get(&answer.base_offset)
                .unwrap_or_else(|| panic!("{what} was never written"));
            assert!(
                *written < answer.place,
                "{what} was answered before it was written"
            );
            assert!(
                synced(&syncs, file, *written, answer.place),
                "{what} was answered at line {} of the trace, and {} not synced since it was written at line {written}",
                answer.place + 1,
                file.display()
            );
            files.insert(file.clone());
        }
        // The first answer that rests on a file or folder comes after the sync of the folder around it.
        for (path, made) in made(calls)
            .into_iter()
            .filter(|(path, _)| *path == folder || files.contains(path))
        {
            let rests = |answer: &&Answer| {
                answer.partition == partition
                    && (path == folder || appends[&answer.base_offset].0 == path)
            };
            let parent = path.parent().expect("a folder below another");
            if let Some(first) = answers
                .iter()
                .filter(rests)
                .map(|answer| answer.place)
                .min()
            {
                assert!(
                    synced(&syncs, parent, made, first),
                    "{} was not synced in {}",
                    path.display(),
                    parent.display()
                );
                directories += 1;
            }
        }
    }
    assert!(
        files.len() >= 4,
        "each partition rolled at least once: {files:?}"
    );
    let log_syncs = syncs
        .iter()
        .filter(|(_, path)| files.contains(path))
        .count();
    println!(
        "durable: {} answers, each after one of {log_syncs} syncs of {} log files; {directories} new names synced first",
        answers.len(),
        files.len()
    );
}

/// Files and folders that came to be, and the place where the call had ended.
fn made(calls: &[Call]) -> Vec<(PathBuf, usize)> {
    let made = calls
        .iter()
        .filter(|call| call.result() >= 0)
        .filter_map(|call| {
            let path = match call.name.as_str() {
                "openat" if call.has("O_CREAT") => call.opened(),
                "mkdir" | "mkdirat" => call.first_path(),
                _ => None,
            };
            Some((path?, call.end))
        });
    made.collect()
}

fn check_replicated(site: &Site, calls: &[Call], answers: &[Answer]) {
    let syncs = syncs(calls);
    let mut without = 0;
    for partition in 0..PARTITIONS {
        let appends = appends(calls, &site.partition("replicated", partition));
        for answer in answers
            .iter()
            .filter(|answer| answer.partition == partition)
        {
            let (file, written) = &appends[&answer.base_offset];
            assert!(*written < answer.place, "answered before it was written");
            without += usize::from(!synced(&syncs, file, *written, answer.place));
        }
    }
    println!(
        "replicated: {without} of {} answers left without a sync of their log file",
        answers.len()
    );
    assert_eq!(without, answers.len(), "no answer waits for a sync");
}
