//! What is done to the three nodes.

use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use crate::{
    links::Links,
    load::{Acknowledged, Dice, Load, Outcome},
    trio::{PARTITIONS, Trio},
    verify,
};

/// Where and how a scenario runs.
pub(crate) struct Setting {
    pub(crate) folder: PathBuf,
    pub(crate) session_timeout_ms: u64,
    pub(crate) seed: u64,
}

/// Runs to its end or fails; says what was seen.
pub(crate) type Scenario = fn(&Setting) -> String;

pub(crate) const ALL: [(&str, Scenario); 6] = [
    ("rolling restart", rolling_restart),
    ("leader killed ten times", leader_killed),
    ("two brokers killed at once three times", two_killed),
    ("all brokers killed at once", all_killed),
    ("broker frozen for longer than every timeout", frozen),
    ("links cut one way", cut_one_way),
];

/// Three nodes with a load, and all that they have promised.
struct Run {
    trio: Trio,
    acknowledged: Acknowledged,
    round: u64,
    gaps: Vec<Duration>,
    records: usize,
}

impl Run {
    fn begin(setting: &Setting, links: Option<&Links>) -> Self {
        let mut trio = Trio::new(&setting.folder, setting.session_timeout_ms, links);
        trio.begin();
        Self {
            trio,
            acknowledged: Acknowledged::new(),
            round: setting.seed << 16,
            gaps: Vec::new(),
            records: 0,
        }
    }

    /// Does something under load, and checks everything once all replicas are in sync again.
    fn round(&mut self, what: &str, act: impl FnOnce(&mut Trio, &Load)) {
        self.round += 1;
        let load = Load::begin(&self.trio.addresses(), self.round);
        load.await_answers(50);
        act(&mut self.trio, &load);
        load.await_answers(50);
        let outcome = load.end(&mut self.acknowledged);
        let from = Instant::now();
        self.trio.await_in_sync();
        let healed = from.elapsed();
        self.records = verify::contents(&self.trio, &self.acknowledged);
        self.gaps.push(outcome.gap);
        let Outcome {
            batches,
            gap,
            refused,
            lost,
        } = outcome;
        println!(
            "  {what}: {batches} batches acknowledged, {lost} unanswered, refused {refused:?}; longest gap {} ms; all in sync \
             {} ms after the load; {} records checked",
            gap.as_millis(),
            healed.as_millis(),
            self.records
        );
    }

    fn end(mut self) -> String {
        verify::copies(&mut self.trio);
        let promised: usize = self
            .acknowledged
            .values()
            .flat_map(|partition| partition.values())
            .map(Vec::len)
            .sum();
        let longest = self.gaps.iter().max().copied().unwrap_or_default();
        format!(
            "{promised} acknowledged records are all there, of {}, on three copies alike; longest gap {} ms",
            self.records,
            longest.as_millis()
        )
    }
}

/// One node after the other ends in good order and comes back, without a pause in between.
fn rolling_restart(setting: &Setting) -> String {
    let mut run = Run::begin(setting, None);
    for round in 1..=2 {
        run.round(&format!("restart {round} of all"), |trio, load| {
            for id in 1..=3 {
                let from = Instant::now();
                let status = trio.stop(id);
                assert!(status.success(), "SIGTERM ended node {id} with {status}");
                let stopped = from.elapsed();
                trio.start(&[id]);
                println!(
                    "  node {id} stopped within {} ms, was ready after {} ms",
                    stopped.as_millis(),
                    (from.elapsed() - stopped).as_millis()
                );
                trio.await_in_sync();
                load.await_answers(20);
            }
        });
    }
    run.end()
}

fn leader_killed(setting: &Setting) -> String {
    let mut run = Run::begin(setting, None);
    for round in 0..10 {
        run.round(&format!("kill {}", round + 1), |trio, load| {
            let leader = trio.leader(round % PARTITIONS);
            trio.kill(&[leader]);
            load.await_answers(20);
            trio.start(&[leader]);
        });
    }
    run.end()
}

fn two_killed(setting: &Setting) -> String {
    let mut run = Run::begin(setting, None);
    for round in 0..3 {
        run.round(&format!("kill {} of two", round + 1), |trio, _| {
            let leader = trio.leader(round % PARTITIONS);
            let other = leader % 3 + 1;
            trio.kill(&[leader, other]);
            thread::sleep(Duration::from_secs(1));
            trio.start(&[leader, other]);
        });
    }
    run.end()
}

fn all_killed(setting: &Setting) -> String {
    let mut run = Run::begin(setting, None);
    run.round("kill of all", |trio, _| {
        trio.kill(&[1, 2, 3]);
        thread::sleep(Duration::from_millis(500));
        trio.start(&[1, 2, 3]);
    });
    run.end()
}

/// A leader sleeps through its session, the lag that replicas are allowed, and every request's timeout.
fn frozen(setting: &Setting) -> String {
    let mut run = Run::begin(setting, None);
    run.round("a leader frozen for 40 s", |trio, load| {
        let leader = trio.leader(0);
        trio.pause(leader);
        thread::sleep(Duration::from_secs(40));
        load.await_answers(20);
        trio.resume(leader);
        // It believes to lead until it is told otherwise.
        load.await_answers(50);
    });
    run.end()
}

/// Every way in turn, in an order that the seed chooses; each for longer than a session.
fn cut_one_way(setting: &Setting) -> String {
    let links = Links::default();
    let mut run = Run::begin(setting, Some(&links));
    let mut ways: Vec<(usize, usize)> = (1..=3)
        .flat_map(|from| (1..=3).map(move |to| (from, to)))
        .filter(|(from, to)| from != to)
        .collect();
    let mut dice = Dice(setting.seed);
    ways.sort_by_cached_key(|_| dice.roll());
    let length = Duration::from_millis(setting.session_timeout_ms + 3_000);
    for way in ways {
        run.round(
            &format!("nothing from {} to {}", way.0, way.1),
            |_, load| {
                links.cut(way);
                thread::sleep(length);
                links.heal();
                load.await_answers(20);
            },
        );
    }
    run.end()
}
