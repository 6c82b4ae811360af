//! The planted-bug drill over known seeds: each bug is found, first by a checker that the catalogue names, and the same seeds pass
//! without it. The full hunt is `cargo run -p seedlog-chaos-tests --release -- drill`.

use seedlog_chaos_tests::{
    drill::{self, DRILLS},
    swarm::Family,
};
use seedlog_core::planted::Planted;

fn drill(bug: Planted) {
    drill_in(Family::Single, bug);
}

fn drill_in(family: Family, bug: Planted) {
    let drill = DRILLS
        .iter()
        .find(|drill| drill.bug == bug && drill.family == family)
        .expect("a drill for each bug");
    assert!(!drill.seeds.is_empty(), "no seed finds {}", bug.id());
    for seed in drill.seeds {
        let report = drill::run(drill.family, *seed, Some(bug));
        let checker = report.failed_checker();
        assert!(
            checker.is_some_and(|checker| drill.checkers.contains(&checker)),
            "{} with seed {seed:#x} was found first by {checker:?}\n{report}",
            bug.id()
        );
        drill::run(drill.family, *seed, None).assert_ok();
    }
}

/// A copy counts only when it is durable.
#[test]
fn b33_answer_before_the_sync_is_found() {
    drill(Planted::B33);
}

/// What refers to data is durable after the data.
#[test]
fn b34_mark_saved_before_its_data_is_found() {
    drill(Planted::B34);
}

/// A failed sync is fatal; a later one proves nothing.
#[test]
fn b43_failed_sync_believed_is_found() {
    drill(Planted::B43);
}

/// A new file counts when its folder is synced.
#[test]
fn b44_missing_folder_sync_is_found() {
    drill(Planted::B44);
}

/// The clean marker vouches for the stop that wrote it and for no later one.
#[test]
fn b45_stale_clean_marker_is_found() {
    drill(Planted::B45);
}

/// Recovery syncs what it keeps before it counts it.
#[test]
fn b46_recovery_without_a_sync_is_found() {
    drill(Planted::B46);
}

/// Damage in the middle is no torn tail.
#[test]
fn b47_damage_cut_like_a_torn_tail_is_found() {
    drill(Planted::B47);
}
