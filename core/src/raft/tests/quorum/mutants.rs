//! Every checker is shown to see: bugs that others' logs really had are planted, and the swarm finds them without knowing.

use crate::planted::{Planted, PlantedSet};

use super::swarm;

/// How many seeds a bug may survive.
const SEEDS: u64 = 400;

/// Returns the seed that shows a bug, and the checker that sees it.
fn hunt(bug: Planted) -> (u64, &'static str, String) {
    for seed in 0..SEEDS {
        if let (_, Err((name, what))) = swarm::run(seed, PlantedSet::only(bug)) {
            return (seed, name, what);
        }
    }
    panic!("{} is not found in {SEEDS} seeds", bug.id());
}

fn is_caught_by(bug: Planted, names: &[&str]) {
    let (seed, name, what) = hunt(bug);
    println!("{} seed {seed}: {name}: {what}", bug.id());
    assert!(names.contains(&name), "{name}: {what}");
}

#[test]
fn vote_answered_before_it_is_durable_is_caught() {
    // A founding voter that forgot its vote cannot come back.
    is_caught_by(Planted::B23, &["VoteOnce", "ElectionSafety", "Rejoin"]);
}

#[test]
fn candidate_with_a_shorter_log_is_caught() {
    is_caught_by(
        Planted::B26,
        &["LeaderCompleteness", "TruncBelowHW", "CommittedAgreement"],
    );
}

#[test]
fn commit_of_older_entries_by_counting_copies_is_caught() {
    is_caught_by(Planted::B27, &["CommitRule", "LeaderCompleteness"]);
}

#[test]
fn commit_index_of_another_log_is_caught() {
    is_caught_by(
        Planted::B29,
        &["CommittedAgreement", "HWSound", "TruncBelowHW"],
    );
}

#[test]
fn progress_of_a_diverging_log_is_caught() {
    is_caught_by(Planted::B30, &["CommitRule", "LeaderCompleteness"]);
}

#[test]
fn copies_counted_before_their_sync_are_caught() {
    is_caught_by(Planted::B33, &["CommitRule", "LeaderCompleteness"]);
}

#[test]
fn truncation_to_the_own_high_watermark_is_caught() {
    is_caught_by(Planted::B13, &["TruncBelowHW", "LeaderCompleteness"]);
}
