//! Kafka's own tool reads what our broker left on disk: segments of all codecs, both kinds of index, the epoch checkpoint.
//!
//! Run it with `cargo test -p seedlog --test dump_log`; it installs Kafka's tools below `target/` first (see
//! `.ci/client-tools`).

#[path = "clients/broker.rs"]
#[expect(dead_code, reason = "shared with tests that start other brokers")]
mod broker;
#[path = "foreign_clients/client.rs"]
#[expect(dead_code, reason = "shared with tests that consume")]
mod client;
#[path = "foreign_clients/program.rs"]
mod program;
#[path = "clients/raw/mod.rs"]
#[expect(dead_code, reason = "shared with tests that ask for more")]
mod raw;
#[path = "clients/tools.rs"]
mod tools;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{
    broker::Site,
    client::{CODECS, Client as _, Produce, Record},
    program::Program,
    raw::{Batch, Connection},
};

const TOPIC: &str = "dumped";
const PARTITIONS: [i32; 3] = [0, 1, 2];
/// Of each client, codec and partition in each run.
const RECORDS: usize = 150;

fn main() {
    let tools = tools::install("client-tools", "clients");
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dump-log");
    let site = Site::new(&work, None, "");
    let mut produced = 0;
    for (run, end) in ["stopped", "killed", "stopped again"]
        .into_iter()
        .enumerate()
    {
        let process = site.start();
        let mut connection =
            Connection::open(site.address()).expect("a ready broker accepts connections");
        if run == 0 {
            let created = connection
                .create_topic(TOPIC, 3, &[("segment.bytes", "1048576")])
                .expect("an answer");
            assert_eq!(created, 0, "creating the topic");
        }
        produced += fill(&site, &tools, &work, run);
        let batches = PARTITIONS.map(|partition| {
            let batches = connection.read_all(TOPIC, partition, 0);
            batches.expect("the partition is readable")
        });
        if end == "killed" {
            process.kill();
        } else {
            assert!(process.stop().success(), "the broker ends in good order");
        }
        for (partition, batches) in PARTITIONS.into_iter().zip(&batches) {
            let folder = site.partition(TOPIC, partition);
            check(&folder, &tools, end, produced, batches);
        }
        check_silence(&site, &tools);
    }
    println!("3 passed, 0 failed");
}

/// Produces to each partition with two clients and each codec; what time a record has goes up and down. Returns how many
/// records each partition got.
fn fill(site: &Site, tools: &Path, work: &Path, run: usize) -> usize {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("the clock is past 1970");
    let now = i64::try_from(now.as_millis()).expect("a time");
    let mut clients = Program::all(tools, &site.address().to_string(), work);
    let mut produced = 0;
    for client in clients
        .iter_mut()
        .filter(|client| ["java", "confluent-kafka"].contains(&client.name()))
    {
        for (codec, age) in CODECS.into_iter().zip([3, 5, 1, 4, 2]) {
            let record = |number: usize| {
                let time = now - age * 60_000 + i64::try_from(number % 50).expect("small");
                let value = noise(run * 1000 + number, 3000);
                PARTITIONS.map(|partition| Record {
                    timestamp: Some(time),
                    ..Record::of(partition, &value)
                })
            };
            let records: Vec<Record> = (0..RECORDS).flat_map(record).collect();
            let job = Produce {
                topic: TOPIC,
                codec,
                acks: "all",
                records: &records,
            };
            let offsets = client
                .produce(job)
                .unwrap_or_else(|e| panic!("{} produces {codec}: {e}", client.name()));
            assert_eq!(offsets.len(), records.len(), "all are acknowledged");
            produced += RECORDS;
        }
    }
    produced
}

/// Text of which codecs save a little.
fn noise(seed: usize, size: usize) -> String {
    let mut state = u64::try_from(seed).expect("a small number") ^ 0x9e37_79b9_7f4a_7c15;
    let letter = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + state.to_be_bytes()[0] % 16)
    };
    (0..size).map(letter).collect()
}

/// Files that begin at offset 0, as the tool wants them: of these it says nothing at all on standard error.
fn check_silence(site: &Site, tools: &Path) {
    let first = |partition| {
        let logs = files(&site.partition(TOPIC, partition), "log");
        logs.into_iter().next().expect("a partition has a segment")
    };
    let logs = PARTITIONS.map(first);
    let said = dump(tools, &["--deep-iteration"], &logs, &[]);
    let mixed = CODECS
        .iter()
        .filter(|codec| said.contains(&format!("compresscodec: {codec}")));
    assert!(mixed.count() >= 2, "segments of mixed compression");
}

fn check(folder: &Path, tools: &Path, end: &str, produced: usize, batches: &[Batch]) {
    let logs = files(folder, "log");
    assert!(logs.len() >= 3, "{} segments", logs.len());
    let said = dump(tools, &["--deep-iteration"], &logs, &first_offsets(&logs));
    let records = said
        .lines()
        .filter(|line| line.starts_with("| offset: "))
        .count();
    assert_eq!(records, produced, "records that the tool found");
    let headers = said
        .lines()
        .filter(|line| line.starts_with("baseOffset: "))
        .count();
    assert_eq!(headers, batches.len(), "batches that the tool found");
    for codec in CODECS {
        assert!(
            said.contains(&format!("compresscodec: {codec}")),
            "no batch of {codec}"
        );
    }
    for bad in ["isvalid: false", "Found ", "Mismatch"] {
        assert!(!said.contains(bad), "the tool says {bad:?}");
    }
    let indexes = [files(folder, "index"), files(folder, "timeindex")].concat();
    assert_eq!(
        indexes.len(),
        2 * logs.len(),
        "each segment has both indexes"
    );
    let said = dump(tools, &["--index-sanity-check"], &indexes, &[]);
    // What the active segment's index had in memory only is made again at the next start.
    let lost = usize::from(end == "killed");
    let passed = said
        .lines()
        .filter(|line| line.ends_with("passed sanity check."))
        .count();
    assert!(
        (indexes.len() - lost..=indexes.len()).contains(&passed),
        "the tool says\n{said}"
    );
    let said = dump(tools, &["--verify-index-only"], &indexes, &[]);
    let more = said
        .lines()
        .filter(|line| !line.starts_with("Dumping ") && !line.ends_with(" is empty."));
    assert_eq!(more.count(), 0, "the tool says\n{said}");
    let entries: u64 = files(folder, "timeindex")
        .iter()
        .map(|file| size(file) / 12)
        .sum();
    assert!(entries >= 3, "there is something in the indexes to verify");
    let epochs = check_epochs(folder, batches);
    println!(
        "{end:<14} {} segments, {} batches, {records} records, {entries} time index entries, epochs {epochs:?}",
        logs.len(),
        batches.len()
    );
}

/// What the tool says on standard error about each good segment but that of offset 0: it expects every file to begin there.
fn first_offsets(logs: &[PathBuf]) -> Vec<String> {
    let offset = |log: &PathBuf| log.file_stem()?.to_str()?.parse::<u64>().ok();
    let later = logs
        .iter()
        .filter_map(|log| Some((log, offset(log).filter(|offset| *offset > 0)?)));
    let lines = later.flat_map(|(log, offset)| {
        [
            format!("Non-consecutive offsets in {}", log.display()),
            format!("  -1 is followed by {offset}"),
        ]
    });
    lines.collect()
}

/// Runs the tool, which must succeed and say nothing else on standard error than what is expected there.
fn dump(tools: &Path, options: &[&str], files: &[PathBuf], expected: &[String]) -> String {
    let names: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let mut command = Command::new("java");
    command
        .args([
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
        ])
        .arg(tools.join("jars/*"));
    command
        .arg("org.apache.kafka.tools.DumpLogSegments")
        .args(options)
        .args(["--files", &names.join(",")]);
    let output = command.output().expect("java starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    let expected: BTreeSet<&str> = expected.iter().map(String::as_str).collect();
    let said: BTreeSet<&str> = errors.lines().filter(|line| !line.is_empty()).collect();
    assert!(
        output.status.success() && said == expected,
        "{options:?}: {}\n{errors}",
        output.status
    );
    String::from_utf8(output.stdout).expect("the tool prints UTF-8")
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .expect("the partition has a folder")
        .map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|ours| ours == extension))
        .collect();
    files.sort();
    files
}

fn size(file: &Path) -> u64 {
    fs::metadata(file).expect("the file is there").len()
}

/// Reads the checkpoint in Kafka's text form, and holds each batch's epoch against it.
fn check_epochs(folder: &Path, batches: &[Batch]) -> Vec<(i32, i64)> {
    let text =
        fs::read_to_string(folder.join("leader-epoch-checkpoint")).expect("the checkpoint is text");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("0"), "the version");
    let count: usize = lines
        .next()
        .and_then(|line| line.parse().ok())
        .expect("a count");
    let entry = |line: &str| {
        let (epoch, offset) = line.split_once(' ').expect("an epoch and an offset");
        (
            epoch.parse().expect("an epoch"),
            offset.parse().expect("an offset"),
        )
    };
    let entries: Vec<(i32, i64)> = lines.map(entry).collect();
    assert_eq!(entries.len(), count, "{text}");
    assert!(
        entries.is_sorted_by(|left, right| left.0 < right.0 && left.1 < right.1),
        "{text}"
    );
    assert!(text.ends_with('\n'), "the last line is whole");
    for batch in batches {
        let held = entries
            .iter()
            .rfind(|(_, start)| *start <= batch.base_offset());
        assert_eq!(
            held.map(|(epoch, _)| *epoch),
            Some(batch.leader_epoch()),
            "{} in {text}",
            batch.base_offset()
        );
    }
    entries
}
