//! The phases of a run: set up, safety, heal and settle, drain, judge.

use std::fmt;

use crate::{
    checker::{self, Findings, Jury, Moment, Phase, Verdict},
    cluster::Cluster,
    digest::Digest,
    engine::first_difference,
    ghost::Ghost,
    history::Acks,
    node::Release,
    random::Streams,
    report::Report,
    scenario::{Producers, Scenario},
    time::SimTime,
    trace::Trace,
    workload::{Drain, Operator, Producer, ProducerProfile, Reader, ReaderProfile, SetUp, Target},
};

/// How closely a run is watched. Nothing of it changes the run.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// Whether checkers look on.
    pub checkers: bool,
    /// How many lines of the trace are kept.
    pub trace_lines: usize,
    /// How many of them a report shows.
    pub shown_lines: usize,
    /// Whether the report of a run without a finding shows them too.
    pub always_shown: bool,
    /// Whether the digest after each event is kept.
    pub journal: bool,
    /// The event to describe in words.
    pub describe: Option<u64>,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            checkers: true,
            trace_lines: 4_000,
            shown_lines: 200,
            always_shown: false,
            journal: false,
            describe: None,
        }
    }
}

/// Runs a scenario.
pub(crate) fn run(scenario: &Scenario, seed: u64, release: &Release, watch: &Watch) -> Report {
    let streams = Scenario::streams(seed);
    let mut cluster = build(scenario, streams, release, watch);
    let targets = scenario.targets();
    let ready = set_up(&mut cluster, scenario, streams, &targets);
    let mut unfinished = (!ready).then(|| {
        let status = cluster.client_status();
        format!("set-up did not end: {status}")
    });
    if ready {
        work(&mut cluster, scenario, streams, &targets);
        unfinished = settle(&mut cluster, scenario);
        if !failed(&cluster) {
            let undrained = drain(&mut cluster, scenario, streams, &targets);
            unfinished = unfinished.or(undrained);
        }
    }
    let mut extra = Findings::default();
    if watch.checkers && !failed(&cluster) {
        if ready {
            cluster.judge();
        }
        if let Some(unfinished) = unfinished
            && !failed(&cluster)
        {
            let moment = Moment {
                at: cluster.now(),
                step: cluster.steps(),
            };
            Verdict::new("Rejoin", moment, &mut extra).fail(
                "a healthy cluster becomes ready within the settling time",
                unfinished,
            );
        }
    }
    close(scenario, seed, cluster, extra, watch)
}

/// Makes a cluster with its topics, in the safety phase, without clients.
pub(crate) fn stand(scenario: &Scenario, seed: u64, release: &Release) -> Cluster {
    let streams = Scenario::streams(seed);
    let mut cluster = build(scenario, streams, release, &Watch::default());
    let ready = set_up(&mut cluster, scenario, streams, &scenario.targets());
    assert!(ready, "set-up did not end: {}", cluster.client_status());
    cluster.enter(Phase::Safety);
    cluster
}

fn build(scenario: &Scenario, streams: Streams, release: &Release, watch: &Watch) -> Cluster {
    let seats = scenario.seats(release);
    let nodes = seats.iter().map(|(seat, _)| seat.id).collect();
    let ghost = Ghost::new(scenario.places(), &scenario.promises()).of_nodes(nodes);
    let checkers = if watch.checkers {
        checker::all()
    } else {
        Vec::new()
    };
    let mut cluster = Cluster::new(
        streams,
        seats,
        &scenario.surroundings,
        Jury::new(ghost, checkers),
        Trace::new(watch.trace_lines),
    );
    if !watch.checkers {
        cluster.unwatch();
    }
    if let Some(step) = watch.describe {
        cluster.describe(step);
    }
    if watch.journal {
        cluster.keep_journal();
    }
    cluster.set_budget(scenario.budget);
    cluster
}

fn set_up(
    cluster: &mut Cluster,
    scenario: &Scenario,
    streams: Streams,
    targets: &[Target],
) -> bool {
    cluster.enter(Phase::SetUp);
    let topics = scenario.topics.iter().map(|(topic, _)| topic.clone());
    let client = SetUp::new(
        scenario.brokers,
        topics.collect(),
        targets.to_vec(),
        streams.stream("set-up"),
    );
    cluster.add_client(Box::new(client));
    let limit = cluster.now().plus_millis(SET_UP_MS);
    cluster.run(limit, |cluster| cluster.all_idle() && cluster.all_ready())
}

fn work(cluster: &mut Cluster, scenario: &Scenario, streams: Streams, targets: &[Target]) {
    cluster.enter(Phase::Safety);
    cluster.set_plan(scenario.plan.clone());
    let mut number = 0;
    for producers in &scenario.producers {
        for _ in 0..producers.count {
            number += 1;
            let stream = streams.numbered("producer", u64::from(number));
            let profile = profile(producers, targets);
            let producer = Producer::new(number, scenario.brokers, profile, stream);
            cluster.add_client(Box::new(producer));
        }
    }
    for reader in 0..scenario.readers + scenario.follower_readers {
        let number = u64::try_from(reader).unwrap_or(u64::MAX);
        let mut stream = streams.numbered("reader", number);
        let profile = ReaderProfile {
            targets: targets.to_vec(),
            max_wait_ms: stream.within(1..=500),
            max_bytes: stream.magnitude(512..=1 << 20),
            pause_ms: (1, stream.magnitude(2..=200)),
            bounds_permille: 200,
            rack: scenario.rack(reader).filter(|_| reader >= scenario.readers),
        };
        let reader = Reader::new(reader, scenario.brokers, profile, stream);
        cluster.add_client(Box::new(reader));
    }
    for operator in 0..scenario.operators {
        let number = u64::try_from(operator).unwrap_or(u64::MAX);
        let stream = streams.numbered("operator", number);
        let operator = Operator::new(operator, scenario.brokers, targets.to_vec(), stream);
        cluster.add_client(Box::new(operator));
    }
    let limit = cluster.now().plus_millis(scenario.safety_ms);
    cluster.run(limit, |_| false);
    let limit = cluster.now().plus_millis(scenario.patience_ms);
    let least = scenario.least_acknowledged;
    cluster.run(limit, |cluster| cluster.acknowledged() >= least);
}

fn profile(producers: &Producers, targets: &[Target]) -> ProducerProfile {
    ProducerProfile {
        targets: targets.to_vec(),
        acks: producers.acks,
        records: producers.records,
        padding: producers.padding,
        pause_ms: producers.pause_ms,
        in_flight: producers.in_flight,
        request_timeout_ms: 3_000,
        delivery_timeout_ms: 20_000,
        retries: producers.retries && producers.acks != Acks::None,
    }
}

fn settle(cluster: &mut Cluster, scenario: &Scenario) -> Option<String> {
    if failed(cluster) {
        return None;
    }
    cluster.enter(Phase::Settle);
    cluster.heal();
    cluster.wind_down();
    let limit = cluster.now().plus_millis(scenario.settle_ms);
    let settled = cluster.run(limit, |cluster| cluster.all_idle() && cluster.all_ready());
    if scenario.brokers > 1 {
        // Copies that lag catch up, replicas join, and everybody hears of it.
        let limit = cluster.now().plus_millis(scenario.calm_ms);
        cluster.run(limit, |_| false);
    }
    let excused = cluster.all_ready() && has_lost_a_partition(cluster, scenario);
    (!settled && !failed(cluster) && !excused).then(|| {
        let ready = cluster.all_ready();
        let status = cluster.client_status();
        format!(
            "after {} ms all nodes ready: {ready}; {status}",
            scenario.settle_ms
        )
    })
}

/// Whether a partition went bad at rest and its broker says so: its clients retry for ever.
fn has_lost_a_partition(cluster: &Cluster, scenario: &Scenario) -> bool {
    let ghost = cluster.jury().ghost();
    let mut places = scenario.places().all();
    places.any(|place| ghost.is_damaged(place) && ghost.is_offline(place))
}

fn drain(
    cluster: &mut Cluster,
    scenario: &Scenario,
    streams: Streams,
    targets: &[Target],
) -> Option<String> {
    cluster.enter(Phase::Drain);
    let (places, promises) = (scenario.places(), scenario.promises());
    let mut readers = Vec::new();
    for target in targets {
        let number = u64::try_from(target.place.0).unwrap_or(u64::MAX);
        let stream = streams.numbered("drain", number);
        let reader = Drain::new(scenario.brokers, target.clone(), stream);
        readers.push((target.place, cluster.add_client(Box::new(reader))));
    }
    let limit = cluster.now().plus_millis(scenario.drain_ms);
    let drained = cluster.run(limit, |cluster| {
        readers.iter().all(|(place, reader)| {
            let offline = cluster.offline_copies(places.partition(*place));
            let promise = promises[place.0];
            cluster.is_idle(*reader) || offline + promise.min_isr > promise.copies
        })
    });
    (!drained && !failed(cluster)).then(|| cluster.client_status())
}

fn close(
    scenario: &Scenario,
    seed: u64,
    mut cluster: Cluster,
    extra: Findings,
    watch: &Watch,
) -> Report {
    let mut findings = cluster.jury().findings().clone();
    findings.failed.extend(extra.failed);
    let sealed = cluster.seal();
    let mut digest = Digest::new();
    digest.word(sealed);
    for finding in &findings.failed {
        digest.bytes(finding.to_string().as_bytes());
    }
    let (trace, fault_lane) = if findings.failed.is_empty() && !watch.always_shown {
        (String::new(), String::new())
    } else {
        let trace = cluster.trace();
        (trace.render(watch.shown_lines), trace.faults())
    };
    Report {
        test: scenario.test.clone(),
        seed,
        plan: scenario.plan.clone(),
        tally: cluster.tally(),
        simulated: cluster.now() - SimTime::START,
        steps: cluster.steps(),
        digest: digest.value(),
        trace,
        fault_lane,
        journal: cluster.take_journal(),
        described: cluster.take_description(),
        findings,
    }
}

fn failed(cluster: &Cluster) -> bool {
    !cluster.jury().findings().failed.is_empty()
}

/// The first event by which two runs differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its number.
    pub step: u64,
    /// What it was in the first run.
    pub first: String,
    /// What it was in the second.
    pub second: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "runs differ first at event {}:", self.step)?;
        writeln!(f, "  {}", self.first)?;
        write!(f, "  {}", self.second)
    }
}

/// Runs a scenario twice and finds the first event by which the runs differ; `None` if they are equal.
#[must_use]
pub fn compare(scenario: &Scenario, seed: u64, release: &Release) -> Option<Difference> {
    let run = |describe| {
        let watch = Watch {
            journal: true,
            describe,
            ..Watch::default()
        };
        run(scenario, seed, release, &watch)
    };
    let journal = || run(None).journal.unwrap_or_default();
    let step = first_difference(&journal(), &journal())?;
    let describe = || run(Some(step)).described.unwrap_or_default();
    Some(Difference {
        step,
        first: describe(),
        second: describe(),
    })
}

const SET_UP_MS: u64 = 60_000;
