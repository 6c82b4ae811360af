//! A run is a pure function of scenario and seed: one number says so.

use std::process::Command;

use seedlog_chaos_tests::{seeds, swarm, sweep};
use seedlog_core::planted::PlantedSet;
use seedlog_sim::{broker::today, report::Report, run::Watch};

const CHILD: &str = "SEEDLOG_DIGEST_CHILD";

/// The first seconds of a seed of the swarm, restarts and disk faults included.
fn run(seed: u64, watch: &Watch) -> Report {
    let scenario = swarm::scenario(seed, PlantedSet::NONE).lasting_ms(12_000);
    scenario.run_watched(seed, &today(), watch)
}

fn digests(watch: &Watch, jobs: usize) -> Vec<(u64, u64)> {
    let mut digests = Vec::new();
    let seeds = seeds::seeds(50).into_iter();
    sweep::run(
        seeds,
        jobs,
        |seed| run(seed, watch),
        |report, _| {
            digests.push((report.seed, report.digest));
            true
        },
    );
    digests.sort_unstable();
    digests
}

/// Prints digests when the test below asks for them in a process of its own; does nothing otherwise.
#[test]
fn child_prints_digests() {
    if std::env::var_os(CHILD).is_some() {
        for (seed, digest) in digests(&Watch::default(), 1) {
            println!("digest {seed} {digest:016x}");
        }
    }
}

/// Equal whole-run digests in two processes, with checkers and traces on and off, and on two threads beside other tests.
#[test]
fn digest_is_a_function_of_the_seed() {
    if std::env::var_os(CHILD).is_some() {
        return;
    }
    let unwatched = Watch {
        checkers: false,
        trace_lines: 0,
        ..Watch::default()
    };
    let here = digests(&unwatched, 2);
    let own = std::env::current_exe().expect("a test knows its own path");
    let output = Command::new(own)
        .args(["--exact", "child_prints_digests", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("a test can start itself");
    let text = String::from_utf8_lossy(&output.stdout);
    let there: Vec<String> = text
        .lines()
        .filter_map(|line| line.split_once("digest ").map(|(_, rest)| rest.to_owned()))
        .collect();
    let here: Vec<String> = here
        .iter()
        .map(|(seed, digest)| format!("{seed} {digest:016x}"))
        .collect();
    assert_eq!(here, there, "{text}");
}

/// Each watch alone changes nothing either, and another seed is another run.
#[test]
fn watching_changes_nothing() {
    let usual = run(3, &Watch::default()).digest;
    for (checkers, trace_lines) in [(true, 0), (false, 4_000)] {
        let watch = Watch {
            checkers,
            trace_lines,
            ..Watch::default()
        };
        assert_eq!(run(3, &watch).digest, usual);
    }
    assert_ne!(run(4, &Watch::default()).digest, usual);
}
