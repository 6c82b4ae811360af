//! Kills the broker under load, again and again, on one folder: nothing that it acknowledged may be missing or changed.
//!
//! Run it with `cargo test -p seedlog --test kill_nine`; after `--` a number of rounds (50 when left out) and a seed. The
//! topics have the rule `durable`, which is the default. Some kills are followed by what a crash may leave behind: a write cut
//! short at the end of the log, indexes that are gone. What a kill alone cannot show (the page cache survives it) the
//! simulator does.

#[path = "clients/broker.rs"]
#[expect(dead_code, reason = "shared with tests that start it otherwise")]
mod broker;
#[path = "clients/raw/mod.rs"]
#[expect(dead_code, reason = "shared with tests that ask for more")]
mod raw;

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    fs::{self, File},
    io::{self, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::{
    broker::Site,
    raw::{Batch, Connection},
};

/// What was acknowledged: by topic, partition and base offset, the ids of the batch's records.
type Acknowledged = BTreeMap<(String, i32), BTreeMap<i64, Vec<u64>>>;

/// One acknowledged batch: its topic and partition, its base offset, and the ids of its records.
type Answer = ((String, i32), i64, Vec<u64>);

const TOPIC: &str = "load";
const PARTITIONS: i32 = 3;
const PRODUCERS: u64 = 4;
const IN_FLIGHT: usize = 5;

fn main() {
    let (rounds, seed) = arguments();
    println!("{rounds} rounds with seed {seed}");
    let site = Site::new(
        &Path::new(env!("CARGO_TARGET_TMPDIR")).join("kill-nine"),
        None,
        "",
    );
    let mut dice = Dice(seed);
    let mut acknowledged = Acknowledged::new();
    let mut fastest = Duration::MAX;
    for round in 0..rounds {
        let started = Instant::now();
        let process = site.start();
        let start = started.elapsed();
        fastest = fastest.min(start);
        let mut connection =
            Connection::open(site.address()).expect("a ready broker accepts connections");
        if round == 0 {
            // Small segments, so that kills also meet rolls.
            let error = connection
                .create_topic(TOPIC, PARTITIONS, &[("segment.bytes", "1048576")])
                .expect("an answer");
            assert_eq!(error, 0, "creating the topic");
        }
        let held = verify(&mut connection, &acknowledged);
        let load = begin_load(&site, round, &mut dice);
        let fresh = create_and_fill(&mut connection, round).expect("the broker runs");
        let life = Duration::from_millis(20 + dice.roll() % 380);
        thread::sleep(life);
        let gently = round % 8 == 7;
        if gently {
            let status = process.stop();
            assert!(status.success(), "SIGTERM ended the broker with {status}");
        } else {
            process.kill();
            harm(&site, round, &mut dice);
        }
        let answers = load
            .into_iter()
            .flat_map(|producer| producer.join().expect("a producer does not fail"));
        let gained = note(&mut acknowledged, answers.chain([fresh]));
        println!(
            "round {round:2}: {held} records checked, ready after {} ms, {} after {} ms, {gained} acknowledged",
            start.as_millis(),
            if gently { "SIGTERM" } else { "kill -9" },
            life.as_millis()
        );
        assert!(gained > 1, "a round without load shows nothing");
    }
    let process = site.start();
    let mut connection =
        Connection::open(site.address()).expect("a ready broker accepts connections");
    let held = verify(&mut connection, &acknowledged);
    drop(process);
    let promised: usize = acknowledged
        .values()
        .flat_map(BTreeMap::values)
        .map(Vec::len)
        .sum();
    println!(
        "{promised} acknowledged records are all there, of {held}; fastest start {} ms",
        fastest.as_millis()
    );
    println!("{rounds} passed, 0 failed");
}

/// Returns how many rounds to run, and the seed.
fn arguments() -> (u64, u64) {
    let mut arguments = std::env::args().skip(1);
    let rounds: u64 = arguments
        .next()
        .map_or(50, |rounds| rounds.parse().expect("a number of rounds"));
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("the clock is past 1970");
    let seed = arguments
        .next()
        .map_or(now.as_secs(), |seed| seed.parse().expect("a seed"));
    (rounds, seed)
}

/// Starts the producers, which end when the broker does.
fn begin_load(site: &Site, round: u64, dice: &mut Dice) -> Vec<JoinHandle<Vec<Answer>>> {
    let begin = |producer| {
        let (address, dice) = (site.address(), Dice(dice.roll()));
        thread::spawn(move || produce(address, round << 8 | producer, dice))
    };
    (0..PRODUCERS).map(begin).collect()
}

/// Notes what a round's producers were told; returns how many records they were promised.
fn note(acknowledged: &mut Acknowledged, answers: impl Iterator<Item = Answer>) -> usize {
    let mut gained = 0;
    for (place, base_offset, ids) in answers {
        gained += ids.len();
        let twice = acknowledged
            .entry(place)
            .or_default()
            .insert(base_offset, ids);
        assert_eq!(twice, None, "offset {base_offset} was acknowledged twice");
    }
    gained
}

/// What a crash can leave behind beside the log itself, now and then: a write that was cut short, or no indexes at all.
fn harm(site: &Site, round: u64, dice: &mut Dice) {
    for partition in 0..PARTITIONS {
        let folder = site.partition(TOPIC, partition);
        let files = || {
            fs::read_dir(&folder)
                .expect("the partition has a folder")
                .map(|entry| entry.expect("an entry").path())
        };
        let with = |extension: &str| {
            files()
                .filter(|file| file.extension().is_some_and(|ours| ours == extension))
                .collect()
        };
        if round % 3 == 1 {
            let logs: Vec<PathBuf> = with("log");
            let last = logs.into_iter().max().expect("a log has an active segment");
            let cut = batch(&[id(round << 8 | 0xfe, 0)]);
            let kept = 1 + usize::try_from(dice.roll()).expect("64 bits") % (cut.len() - 1);
            let mut last = File::options()
                .append(true)
                .open(last)
                .expect("the segment can be opened");
            last.write_all(&cut[..kept])
                .expect("the segment can be written");
        }
        if round % 4 == 2 {
            let indexes: [Vec<PathBuf>; 2] = ["index", "timeindex"].map(with);
            indexes
                .concat()
                .iter()
                .for_each(|index| fs::remove_file(index).expect("an index can be removed"));
        }
    }
}

/// A topic of this round alone: what was just made must survive as well.
fn create_and_fill(connection: &mut Connection, round: u64) -> io::Result<Answer> {
    let topic = format!("made.{round}");
    assert_eq!(
        connection.create_topic(&topic, 1, &[])?,
        0,
        "creating {topic}"
    );
    let ids = vec![id(round << 8 | 0xff, 0)];
    let answer = connection.produce(&topic, -1, &[(0, batch(&ids))])?[0];
    assert_eq!(
        (answer.error, answer.base_offset),
        (0, 0),
        "the first record of {topic}"
    );
    Ok(((topic, 0), 0, ids))
}

/// Keeps requests in flight until the broker is gone; hands back what was acknowledged.
fn produce(address: SocketAddr, producer: u64, mut dice: Dice) -> Vec<Answer> {
    let mut acknowledged = Vec::new();
    let mut pending: VecDeque<(i32, BTreeMap<i32, Vec<u64>>)> = VecDeque::new();
    let mut sequence = 0;
    let acks = if producer.is_multiple_of(2) { 1 } else { -1 };
    let Ok(mut connection) = Connection::open(address) else {
        return acknowledged;
    };
    loop {
        while pending.len() < IN_FLIGHT {
            let mut ids: BTreeMap<i32, Vec<u64>> = BTreeMap::new();
            for _ in 0..=dice.roll() % 2 {
                let partition = i32::try_from(dice.roll() % 3).expect("below three");
                let records = 1 + dice.roll() % 8;
                ids.insert(
                    partition,
                    (sequence..sequence + records)
                        .map(|number| id(producer, number))
                        .collect(),
                );
                sequence += records;
            }
            let batches: Vec<(i32, Vec<u8>)> = ids
                .iter()
                .map(|(partition, ids)| (*partition, batch(ids)))
                .collect();
            let Ok(sent) = connection.send_produce(TOPIC, acks, &batches) else {
                return acknowledged;
            };
            pending.push_back((sent, ids));
        }
        let Ok((answered, body)) = connection.receive() else {
            return acknowledged;
        };
        let (sent, mut ids) = pending.pop_front().expect("requests are in flight");
        assert_eq!(answered, sent, "answers keep the order of requests");
        for answer in raw::produced(&body) {
            // A broker that is about to stop may refuse; then nothing is promised.
            let ids = ids
                .remove(&answer.partition)
                .expect("an answer for each partition");
            if answer.error == 0 {
                acknowledged.push((
                    (TOPIC.to_owned(), answer.partition),
                    answer.base_offset,
                    ids,
                ));
            }
        }
    }
}

/// Reads everything: offsets without gaps, each acknowledged batch in its place with its content, nothing twice, nothing
/// that nobody sent.
fn verify(connection: &mut Connection, acknowledged: &Acknowledged) -> usize {
    let topics: HashSet<String> = connection
        .topics()
        .expect("an answer")
        .into_iter()
        .collect();
    let mut places: Vec<(String, i32)> = (0..PARTITIONS)
        .map(|partition| (TOPIC.to_owned(), partition))
        .collect();
    places.extend(
        acknowledged
            .keys()
            .filter(|(topic, _)| topic != TOPIC)
            .cloned(),
    );
    let mut seen = HashSet::new();
    for (topic, partition) in places {
        assert!(topics.contains(&topic), "{topic} is gone");
        let mut promised = acknowledged
            .get(&(topic.clone(), partition))
            .cloned()
            .unwrap_or_default();
        let mut next = 0;
        for batch in connection
            .read_all(&topic, partition, 0)
            .expect("the partition is readable")
        {
            assert_eq!(
                batch.base_offset(),
                next,
                "{topic}-{partition} has a gap or an overlap"
            );
            let ids: Vec<u64> = batch
                .values()
                .iter()
                .map(|value| checked_id(value))
                .collect();
            assert_eq!(
                batch.next_offset(),
                next + i64::try_from(ids.len()).expect("few records")
            );
            if let Some(promised) = promised.remove(&next) {
                assert_eq!(
                    ids, promised,
                    "{topic}-{partition} holds something else at {next}"
                );
            }
            for id in ids {
                assert!(
                    seen.insert(id),
                    "{topic}-{partition} holds record {id:x} twice"
                );
            }
            next = batch.next_offset();
        }
        assert!(
            promised.is_empty(),
            "{topic}-{partition} ends at {next}, and lacks acknowledged {promised:x?}"
        );
        let (error, _, end) = connection
            .offset_at(&topic, partition, -1)
            .expect("an answer");
        assert_eq!((error, end), (0, next), "the end of {topic}-{partition}");
    }
    seen.len()
}

/// An id that no other record has.
fn id(producer: u64, number: u64) -> u64 {
    producer << 32 | number
}

fn batch(ids: &[u64]) -> Vec<u8> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("the clock is past 1970");
    let values: Vec<Vec<u8>> = ids.iter().map(|id| value(*id)).collect();
    Batch::of(&values, i64::try_from(now.as_millis()).expect("a time")).bytes
}

/// The record that belongs to an id: the id and up to a kilobyte that follows from it.
fn value(id: u64) -> Vec<u8> {
    let mut dice = Dice(id);
    let size = dice.roll() % 1000;
    let mut value = id.to_be_bytes().to_vec();
    value.extend((0..size).map(|_| dice.roll().to_le_bytes()[0]));
    value
}

/// The id of a record, whose content must be the one that belongs to it.
fn checked_id(found: &[u8]) -> u64 {
    let id = u64::from_be_bytes(found[..8].try_into().expect("eight bytes"));
    assert!(found == value(id), "record {id:x} was changed");
    id
}

/// Numbers that look like chance, the same for a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
