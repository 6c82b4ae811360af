//! Many seeds of a troubled cluster; and one bug after the other, each of which a check must see.

use crate::{planted::PlantedSet, replication::FlushRule};

use super::cluster::{Cluster, Setup};

fn run(seed: u64, rule: FlushRule, planted: PlantedSet) -> (Cluster, Result<(), String>) {
    let mut cluster = Cluster::new(Setup {
        seed,
        rule,
        planted,
        is_restless: seed.is_multiple_of(4),
    });
    let result = cluster.run();
    (cluster, result)
}

fn swarm(seeds: std::ops::Range<u64>, rule: FlushRule) {
    let (mut acknowledged, mut epochs) = (0, 0);
    for seed in seeds.clone() {
        let (cluster, result) = run(seed, rule, PlantedSet::NONE);
        if let Err(violation) = result {
            panic!("seed {violation}");
        }
        acknowledged += cluster.acknowledged;
        epochs += cluster.controller.partition.epoch.0;
    }
    let runs = seeds.end - seeds.start;
    assert!(acknowledged > 40 * runs, "too little was acknowledged");
    assert!(
        i64::from(epochs) > 3 * i64::try_from(runs).unwrap(),
        "too quiet"
    );
}

#[test]
fn durable_copies_survive_crashes_and_power_losses() {
    swarm(0..120, FlushRule::Durable);
}

#[test]
fn replicated_copies_survive_crashes_of_processes() {
    swarm(1_000..1_060, FlushRule::Replicated);
}

#[test]
fn same_seed_runs_the_same() {
    let view = |seed| {
        let (cluster, _) = run(seed, FlushRule::Durable, PlantedSet::NONE);
        let partition = cluster.controller.partition.clone();
        (partition, cluster.acknowledged, cluster.counts)
    };
    assert_eq!(view(5), view(5));
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use super::*;
    use crate::planted::Planted;

    /// Runs seeds with a bug until a check that names it sees it.
    fn seen(bug: Planted, names: &[&str], seeds: impl Iterator<Item = u64>) {
        let mut others = Vec::new();
        for seed in seeds {
            let ran =
                std::panic::catch_unwind(|| run(seed, FlushRule::Durable, PlantedSet::only(bug)).1);
            let violation = match ran {
                Ok(Ok(())) => continue,
                Ok(Err(violation)) => violation,
                Err(_) => "NoPanic".to_owned(),
            };
            if names.iter().any(|name| violation.contains(name)) {
                return;
            }
            others.push(violation.lines().next().unwrap_or_default().to_owned());
        }
        panic!("{} was not seen as {names:?}, but as {others:?}", bug.id());
    }

    #[test]
    fn joining_on_an_old_high_watermark_is_seen() {
        seen(Planted::B01, &["StrongIsr", "CommittedAgreement"], 0..400);
    }

    #[test]
    fn counting_a_removal_in_flight_is_seen() {
        seen(Planted::B04, &["StrongIsr", "QuorumSuperset"], 0..400);
    }

    #[test]
    fn committing_below_min_isr_is_seen() {
        seen(Planted::B05, &["MinIsrCommit"], 0..100);
    }

    #[test]
    fn truncating_to_the_high_watermark_is_seen() {
        seen(Planted::B13, &["StrongIsr"], 0..100);
    }

    #[test]
    fn taking_equal_length_for_equal_content_is_seen() {
        seen(
            Planted::B14,
            &["LogMatching", "CommittedAgreement", "StrongIsr"],
            0..400,
        );
    }

    #[test]
    fn using_the_end_of_an_unknown_epoch_is_seen() {
        // Each fetch is checked anew, so the wrong cut never becomes a wrong log here: it is made again and again.
        seen(
            Planted::B15,
            &["LogMatching", "CommittedAgreement", "IsrRegrow"],
            (0..400).step_by(4),
        );
    }

    #[test]
    fn leaving_a_high_watermark_below_the_log_start_is_seen() {
        seen(Planted::B03, &["HWSound", "NoPanic"], 0..100);
    }

    #[test]
    fn promising_before_the_flush_is_seen() {
        seen(Planted::B33, &["StrongIsr", "MatchSound"], 0..100);
    }
}
