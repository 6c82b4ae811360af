//! Producers with acks=all, one for each partition, that look for the leader again whenever they lose it.
//!
//! What was not answered is not sent again: a record is there once or not at all, and no record may be there twice.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::{
    raw::{self, Batch, Connection},
    trio::{Addresses, PARTITIONS, TOPIC, places_at},
};

const IN_FLIGHT: usize = 5;

/// How long a producer waits for an answer before it looks whether somebody else leads.
const PATIENCE: Duration = Duration::from_millis(250);

/// What was acknowledged: by partition and base offset, the ids of a batch's records.
pub(crate) type Acknowledged = BTreeMap<i32, BTreeMap<i64, Vec<u64>>>;

/// What one producer was told.
#[derive(Debug, Default)]
struct Told {
    partition: i32,
    batches: Vec<(i64, Vec<u64>)>,
    times: Vec<Instant>,
    refused: BTreeMap<i16, u64>,
    lost: u64,
}

/// Running producers.
#[derive(Debug)]
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    answers: Vec<Arc<AtomicU64>>,
    producers: Vec<JoinHandle<Told>>,
    begun: Instant,
}

/// What all producers of a load were told.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// How many batches were acknowledged.
    pub(crate) batches: usize,
    /// The longest time for which a partition acknowledged nothing.
    pub(crate) gap: Duration,
    /// How many batches were refused, by error code.
    pub(crate) refused: BTreeMap<i16, u64>,
    /// How many were never answered.
    pub(crate) lost: u64,
}

impl Load {
    /// Begins; `round` makes the ids of its records others than those of any other round.
    pub(crate) fn begin(addresses: &Addresses, round: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut answers = Vec::new();
        let mut producers = Vec::new();
        for partition in 0..PARTITIONS {
            let count = Arc::new(AtomicU64::new(0));
            answers.push(Arc::clone(&count));
            let number = round << 8 | u64::try_from(partition).expect("few partitions");
            let mut producer = Producer {
                addresses: addresses.clone(),
                number,
                dice: Dice(number),
                next: 0,
                stop: Arc::clone(&stop),
                count,
                told: Told {
                    partition,
                    ..Told::default()
                },
            };
            producers.push(thread::spawn(move || {
                producer.run();
                producer.told
            }));
        }
        Self {
            stop,
            answers,
            producers,
            begun: Instant::now(),
        }
    }

    /// Waits until every partition has acknowledged so many more batches.
    pub(crate) fn await_answers(&self, more: u64) {
        let counts = || {
            self.answers
                .iter()
                .map(|count| count.load(Ordering::Acquire))
        };
        let wanted: Vec<u64> = counts().map(|count| count + more).collect();
        let deadline = Instant::now() + Duration::from_secs(120);
        while counts().zip(&wanted).any(|(count, wanted)| count < *wanted) {
            assert!(
                Instant::now() < deadline,
                "a partition acknowledged too little in two minutes: {:?} of {wanted:?}",
                counts().collect::<Vec<_>>()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the producers, and notes what they were promised.
    pub(crate) fn end(self, acknowledged: &mut Acknowledged) -> Outcome {
        self.stop.store(true, Ordering::Release);
        let ended = Instant::now();
        let mut outcome = Outcome::default();
        for producer in self.producers {
            let told = producer.join().expect("a producer does not fail");
            outcome.batches += told.batches.len();
            outcome.lost += told.lost;
            for (error, count) in told.refused {
                *outcome.refused.entry(error).or_default() += count;
            }
            let mut last = self.begun;
            for time in told.times.into_iter().chain([ended]) {
                outcome.gap = outcome.gap.max(time.saturating_duration_since(last));
                last = time;
            }
            let place = acknowledged.entry(told.partition).or_default();
            for (base_offset, ids) in told.batches {
                let twice = place.insert(base_offset, ids);
                assert_eq!(
                    twice, None,
                    "offset {base_offset} of partition {} was acknowledged twice",
                    told.partition
                );
            }
        }
        outcome
    }
}

struct Producer {
    addresses: Addresses,
    number: u64,
    dice: Dice,
    next: u64,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    told: Told,
}

impl Producer {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn run(&mut self) {
        while !self.is_over() {
            let Some(leader) = self.find_leader(None) else {
                thread::sleep(Duration::from_millis(20));
                continue;
            };
            let mut pending = VecDeque::new();
            // Whatever ends it: what was not answered is unknown for ever.
            let _ended = self.produce_to(leader, &mut pending);
            self.told.lost += u64::try_from(pending.len()).expect("few batches");
        }
    }

    /// Asks some node, another than `but`, who leads.
    fn find_leader(&mut self, but: Option<usize>) -> Option<usize> {
        let count = u64::try_from(self.addresses.len()).expect("few nodes");
        let at = usize::try_from(self.dice.roll() % count).expect("few nodes");
        if Some(at + 1) == but {
            return None;
        }
        let places = places_at(self.addresses[at]).ok()?;
        let place = places.partitions.get(&self.told.partition)?;
        usize::try_from(place.leader?).ok()
    }

    fn produce_to(
        &mut self,
        leader: usize,
        pending: &mut VecDeque<(i32, Vec<u64>)>,
    ) -> io::Result<()> {
        let mut connection = Connection::open(self.addresses[leader - 1])?;
        let mut over_since = None;
        loop {
            if self.is_over() {
                let since = *over_since.get_or_insert_with(Instant::now);
                if pending.is_empty() || since.elapsed() > Duration::from_secs(5) {
                    return Ok(());
                }
            } else {
                while pending.len() < IN_FLIGHT {
                    let (ids, batch) = self.make_batch();
                    let batches = [(self.told.partition, batch)];
                    let sent = connection.send_produce(TOPIC, -1, &batches)?;
                    pending.push_back((sent, ids));
                }
            }
            if !connection.wait(PATIENCE)? {
                match self.find_leader(Some(leader)) {
                    Some(other) if other != leader => return Ok(()),
                    _ => continue,
                }
            }
            let (answered, body) = connection.receive()?;
            let (sent, ids) = pending.pop_front().expect("requests are in flight");
            assert_eq!(answered, sent, "answers keep the order of requests");
            let [answer] = raw::produced(&body)[..] else {
                panic!("one partition was asked for");
            };
            if answer.error == 0 {
                self.told.batches.push((answer.base_offset, ids));
                self.told.times.push(Instant::now());
                self.count.fetch_add(1, Ordering::AcqRel);
                continue;
            }
            *self.told.refused.entry(answer.error).or_default() += 1;
            thread::sleep(Duration::from_millis(10));
            if !STAY.contains(&answer.error) {
                return Ok(());
            }
        }
    }

    fn make_batch(&mut self) -> (Vec<u64>, Vec<u8>) {
        let records = 1 + self.dice.roll() % 8;
        let ids: Vec<u64> = (self.next..self.next + records)
            .map(|number| self.number << 32 | number)
            .collect();
        self.next += records;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("the clock is past 1970");
        let values: Vec<Vec<u8>> = ids.iter().map(|id| value(*id)).collect();
        let batch = Batch::of(&values, i64::try_from(now.as_millis()).expect("a time"));
        (ids, batch.bytes)
    }
}

/// Errors after which the leader is still the leader: NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT.
const STAY: [i16; 3] = [19, 20, 7];

/// The record that belongs to an id: the id and up to half a kilobyte that follows from it.
fn value(id: u64) -> Vec<u8> {
    let mut dice = Dice(id);
    let size = dice.roll() % 500;
    let mut value = id.to_be_bytes().to_vec();
    value.extend((0..size).map(|_| dice.roll().to_le_bytes()[0]));
    value
}

/// The id of a record, whose content must be the one that belongs to it.
pub(crate) fn checked_id(found: &[u8]) -> u64 {
    let id = u64::from_be_bytes(found[..8].try_into().expect("eight bytes"));
    assert!(found == value(id), "record {id:x} was changed");
    id
}

/// Numbers that look like chance, the same for a seed.
#[derive(Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
