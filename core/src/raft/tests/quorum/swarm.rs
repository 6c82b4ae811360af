//! Many seeds, each with its own faults: first nothing wrong may happen, then, once the faults are over, the right things must.

use crate::planted::PlantedSet;

use super::{End, Quorum};

/// How long a run has faults, and how long it may then take to recover.
const FAULTS_MS: u64 = 12_000;
const RECOVERY_MS: u64 = 15_000;

/// Draws which faults a run has at all.
fn drawn(seed: u64, planted: PlantedSet) -> Quorum {
    let mut quorum = Quorum::new(seed, 3, 0);
    let voters = if quorum.dice.roll(4) == 0 { 5 } else { 3 };
    let observers = quorum.dice.roll(2);
    let is_eager = quorum.dice.roll(2) == 0;
    quorum = Quorum::new(seed, voters, observers).with(|config| {
        config.segment_bytes = 600;
        if is_eager {
            config.max_record_bytes_between_snapshots = 900;
            config.max_retention_bytes = 0;
        }
    });
    quorum.planted = planted;
    quorum.net.lose = [0, 0, 30, 8][quorum.dice.roll(4)];
    quorum.net.repeat = [0, 20, 6][quorum.dice.roll(3)];
    quorum.net.delay_us = [1_000, 5_000, 60_000][quorum.dice.roll(3)];
    quorum.net.stray = [0, 0, 40][quorum.dice.roll(3)];
    quorum.net.strike = [0, 4][quorum.dice.roll(2)];
    for id in 1..=quorum.nodes.len() {
        quorum.start(id);
    }
    if quorum.dice.roll(4) > 0 {
        quorum.run_until(20_000, |quorum| quorum.leader().is_some());
    }
    quorum
}

/// Lets one thing happen.
fn happen(quorum: &mut Quorum) {
    let nodes = quorum.nodes.len();
    let id = quorum.dice.roll(nodes) + 1;
    let leader = quorum.leader().unwrap_or(id);
    let target = if quorum.dice.roll(2) == 0 { leader } else { id };
    match quorum.dice.roll(10) {
        0 | 1 if quorum.is_up(target) => {
            let end = [End::Kill, End::Power, End::TotalPower][quorum.dice.roll(3)];
            quorum.end(target, end);
        }
        2 | 3 => {
            for id in 1..=nodes {
                if !quorum.is_up(id) && quorum.dice.roll(2) == 0 {
                    quorum.start(id);
                }
            }
        }
        4 => quorum.isolate(target),
        5 => {
            let to = quorum.dice.roll(nodes) + 1;
            quorum.cut(target, to);
        }
        6 | 7 => quorum.heal(),
        8 => {
            let until = quorum.now_us + 100_000 + quorum.dice.roll(4_000_000) as u64;
            quorum.at(target).paused_until = until;
        }
        // A moment's crash: back at once, its messages still under way.
        _ if quorum.is_up(target) => {
            quorum.end(target, End::Power);
            quorum.start(target);
        }
        _ => {}
    }
}

/// Runs a seed; the violation that it showed, if any.
pub(super) fn run(seed: u64, planted: PlantedSet) -> (Quorum, Result<(), (&'static str, String)>) {
    let mut quorum = drawn(seed, planted);
    let end = quorum.now_us + FAULTS_MS * 1_000;
    while quorum.now_us < end && quorum.ghost.violation.is_none() {
        happen(&mut quorum);
        for _ in 0..quorum.dice.roll(6) {
            let id = match quorum.leader() {
                Some(leader) => leader,
                None => quorum.dice.roll(quorum.nodes.len()) + 1,
            };
            if quorum.is_up(id) {
                quorum.append(id);
            }
            let pause = 5 + quorum.dice.roll(120) as u64;
            quorum.run(pause);
        }
    }
    let verdict = judge(&mut quorum);
    (quorum, verdict)
}

/// Ends the faults and waits for everything to be right.
fn judge(quorum: &mut Quorum) -> Result<(), (&'static str, String)> {
    quorum.heal();
    quorum.net.lose = 0;
    quorum.net.stray = 0;
    quorum.net.strike = 0;
    for id in 1..=quorum.nodes.len() {
        quorum.at(id).paused_until = 0;
        if !quorum.is_up(id) {
            quorum.start(id);
        }
    }
    let is_elected = quorum.run_until(RECOVERY_MS, |quorum| quorum.leader().is_some());
    if let Some(violation) = quorum.ghost.violation.clone() {
        return Err(violation);
    }
    if let Some((id, _, Some(fatal))) = quorum
        .probes()
        .into_iter()
        .find(|(_, _, fatal)| fatal.is_some())
    {
        return Err(("Rejoin", format!("node {id}: {fatal}")));
    }
    let state = |quorum: &Quorum| format!("{:#?}", quorum.probes());
    if !is_elected {
        return Err(("LeaderElected", state(quorum)));
    }
    let is_settled = quorum.run_until(RECOVERY_MS, Quorum::is_settled);
    let (leader, epoch) = (quorum.leader(), quorum.epoch());
    if let Some(leader) = leader {
        quorum.append(leader);
    }
    quorum.run(3_000);
    if let Some(violation) = quorum.ghost.violation.clone() {
        return Err(violation);
    }
    if !is_settled || !quorum.is_settled() {
        return Err(("CommitReachesEnd", state(quorum)));
    }
    if (quorum.leader(), quorum.epoch()) != (leader, epoch) {
        return Err(("StableLeader", state(quorum)));
    }
    for id in 1..=quorum.nodes.len() {
        if quorum.live(id).state.len() != quorum.ghost.committed.len() {
            return Err(("ReplayEqual", state(quorum)));
        }
    }
    Ok(())
}

#[test]
fn quorum_keeps_its_promises_under_many_seeds() {
    let mut elections = 0;
    let mut committed = 0;
    for seed in 0..SEEDS {
        let (quorum, verdict) = run(seed, PlantedSet::NONE);
        if let Err((name, what)) = verdict {
            panic!("seed {seed}: {name}: {what}");
        }
        elections += u64::from(quorum.epoch().0.unsigned_abs());
        committed += quorum.ghost.committed.len();
    }
    assert!(elections > 2 * SEEDS, "only {elections} elections");
    assert!(committed > 1_000, "only {committed} records");
}

const SEEDS: u64 = 200;

#[test]
fn same_seed_is_the_same_run() {
    let digest = |seed| {
        let (quorum, _) = run(seed, PlantedSet::NONE);
        format!("{} {} {:?}", quorum.now_us, quorum.sent, quorum.probes())
    };
    for seed in 0..3 {
        assert_eq!(digest(seed), digest(seed));
    }
}
