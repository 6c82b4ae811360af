//! A run is a pure function of scenario and seed: one number says so.

use std::process::Command;

use seedlog_chaos_tests::{seeds, swarm::Family, sweep};
use seedlog_core::planted::PlantedSet;
use seedlog_sim::{broker::today, report::Report, run::Watch};

const CHILD: &str = "SEEDLOG_DIGEST_CHILD";

/// The first seconds of a seed of a swarm, restarts and disk faults included.
fn run(family: Family, seed: u64, watch: &Watch) -> Report {
    let scenario = family.scenario(seed, PlantedSet::NONE).lasting_ms(12_000);
    scenario.run_watched(seed, &today(), watch)
}

/// Runs the seeds on two threads; returns each digest and whether all checkers held.
fn digests(family: Family, watch: &Watch) -> Vec<(u64, u64, bool)> {
    let mut digests = Vec::new();
    let seeds = seeds::seeds(match family {
        Family::Single => 50,
        Family::Cluster => 10,
    });
    sweep::run(
        seeds.into_iter(),
        2,
        |seed| run(family, seed, watch),
        |report, _| {
            digests.push((report.seed, report.digest, report.is_ok()));
            true
        },
    );
    digests.sort_unstable();
    digests
}

/// The swarm that a parent process asks for.
fn asked_for() -> Option<Family> {
    let name = std::env::var(CHILD).ok()?;
    Family::named(&name)
}

/// Prints digests when a test below asks for them in a process of its own; does nothing otherwise.
#[test]
fn child_prints_digests() {
    if let Some(family) = asked_for() {
        for (seed, digest, _) in digests(family, &Watch::default()) {
            println!("digest {seed} {digest:016x}");
        }
    }
}

/// Equal whole-run digests in two processes and in one, with checkers and traces on and off, beside other runs and tests.
#[test]
fn digest_is_a_function_of_the_seed() {
    compare(Family::Single);
}

/// The same of several brokers, with all faults between them.
#[test]
fn digest_of_a_cluster_is_a_function_of_the_seed() {
    compare(Family::Cluster);
}

fn compare(family: Family) {
    if asked_for().is_some() {
        return;
    }
    let own = std::env::current_exe().expect("a test knows its own path");
    let output = Command::new(own)
        .args(["--exact", "child_prints_digests", "--nocapture"])
        .env(CHILD, family.name())
        .output()
        .expect("a test can start itself");
    let text = String::from_utf8_lossy(&output.stdout);
    let there: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once("digest ").map(|(_, rest)| rest))
        .collect();
    let here = digests(family, &Watch::default());
    let lines: Vec<String> = here
        .iter()
        .map(|(seed, digest, _)| format!("{seed} {digest:016x}"))
        .collect();
    assert_eq!(lines, there, "two processes differ");
    let unwatched = Watch {
        checkers: false,
        trace_lines: 0,
        ..Watch::default()
    };
    // A run ends when a checker finds something: only without checkers does it go on.
    let sound = here
        .iter()
        .zip(digests(family, &unwatched))
        .filter(|(seen, _)| seen.2);
    for (watched, unwatched) in sound {
        assert_eq!((watched.0, watched.1), (unwatched.0, unwatched.1));
    }
}

/// Each watch alone changes nothing either, and another seed is another run.
#[test]
fn watching_changes_nothing() {
    let run = |seed, watch: &Watch| run(Family::Single, seed, watch);
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
