//! The whole simulator on a toy broker: a sound one passes, and each bug is found by the checker that should find it.

use crate::{
    disk::Survival,
    history::Acks,
    plan::{Fault, Glob, Moment, OpKind, Trigger},
    report::Report,
    run::{Watch, compare},
    scenario::{Producers, Rule, Scenario},
    toy::{Bug, release},
};

fn scenario() -> Scenario {
    Scenario::new("toy", "toy")
        .topic("d", 2, Rule::Durable)
        .producers(Producers::new(1, Acks::All))
        .producers(Producers::new(1, Acks::Leader))
        .readers(2)
        .lasting_ms(4_000)
}

fn losing_power(times: u64) -> Scenario {
    (1..=times).fold(scenario(), |scenario, time| {
        scenario.fault_at(
            time * 700,
            Fault::PowerLoss {
                node: 0,
                down_ms: 20,
                survival: Survival::Mixed,
            },
        )
    })
}

/// Runs seeds until one fails; returns the report.
fn hunt(scenario: &Scenario, bug: Bug) -> Report {
    let mut reports = (0..30).map(|seed| scenario.run(seed, &release(bug)));
    reports
        .find(|report| !report.is_ok())
        .unwrap_or_else(|| panic!("{bug:?} not found in 30 seeds"))
}

#[test]
fn sound_broker_survives_power_losses() {
    for seed in 0..10 {
        let report = losing_power(5).run(seed, &release(Bug::None));
        report.assert_ok();
        assert!(report.tally.acknowledged > 50, "{report}");
        assert!(report.tally.effective_faults() >= 5, "{report}");
    }
}

#[test]
fn replicated_rule_loses_unsynced_records_and_the_loss_is_counted() {
    let mut lost = 0;
    for seed in 0..10 {
        let scenario = Scenario::new("toy", "toy")
            .topic("r", 2, Rule::Replicated)
            .producers(Producers::new(2, Acks::All))
            .readers(1)
            .lasting_ms(3_000)
            .fault_at(
                2_000,
                Fault::PowerLoss {
                    node: 0,
                    down_ms: 5,
                    survival: Survival::Nothing,
                },
            );
        let report = scenario.run(seed, &release(Bug::None));
        report.assert_ok();
        lost += report.findings.allowed.values().sum::<u64>();
    }
    assert!(lost > 0, "an allowed loss must be seen");
}

#[test]
fn early_answer_is_found_by_commit_durable() {
    let report = hunt(&losing_power(5), Bug::AckBeforeSync);
    assert_eq!(report.failed_checker(), Some("CommitDurable"), "{report}");
    assert!(report.to_string().contains("SEEDLOG_SEED=0x"), "{report}");
    assert!(report.fault_lane.len() < report.trace.len());
}

#[test]
fn missing_folder_sync_is_found() {
    let report = hunt(&losing_power(5), Bug::NoFolderSync);
    assert_eq!(report.failed_checker(), Some("CommitDurable"), "{report}");
}

#[test]
fn cut_at_start_is_found_by_the_recovery_oracle() {
    let crash = Fault::Crash {
        node: 0,
        down_ms: 10,
    };
    let report = hunt(&scenario().fault_at(2_000, crash), Bug::CutsAtStart);
    assert_eq!(report.failed_checker(), Some("RecoveryOracle"), "{report}");
}

#[test]
fn panic_is_found_with_its_message() {
    let report = hunt(&scenario(), Bug::Panics);
    assert_eq!(report.failed_checker(), Some("NoPanic"), "{report}");
    assert!(report.to_string().contains("a toy's panic"), "{report}");
}

#[test]
fn offset_given_twice_is_found() {
    let report = hunt(&scenario(), Bug::SameOffset);
    let by = report.failed_checker();
    let right = ["inconsistent-offsets", "HWSound", "HWMonotonicView"];
    assert!(by.is_some_and(|by| right.contains(&by)), "{report}");
}

#[test]
fn broker_that_stops_answering_is_found_by_produce_answered() {
    let crash = Fault::Crash {
        node: 0,
        down_ms: 10,
    };
    let report = hunt(&scenario().fault_at(2_000, crash), Bug::Mute);
    assert_eq!(report.failed_checker(), Some("ProduceAnswered"), "{report}");
}

#[test]
fn crash_at_each_storage_operation_is_survived() {
    for nth in 1..40 {
        for moment in [Moment::Before, Moment::Within(500), Moment::After] {
            let scenario = scenario().lasting_ms(400).fault(
                Trigger::Storage {
                    node: 0,
                    kind: OpKind::Any,
                    file: Glob::any(),
                    nth,
                    moment,
                },
                Fault::PowerLoss {
                    node: 0,
                    down_ms: 1,
                    survival: Survival::Scattered,
                },
            );
            let report = scenario.run(nth, &release(Bug::None));
            report.assert_ok();
            assert_eq!(report.tally.faults["power-loss"].effective, 1, "{report}");
        }
    }
}

#[test]
fn crash_whose_operation_comes_after_the_faults_takes_no_completion_with_it() {
    let scenario = || scenario().lasting_ms(400);
    let operations = scenario().run(1, &release(Bug::None)).tally.storage_ops;
    for nth in operations.saturating_sub(40)..=operations {
        for moment in [Moment::Within(500), Moment::After] {
            let when = Trigger::Storage {
                node: 0,
                kind: OpKind::Any,
                file: Glob::any(),
                nth,
                moment,
            };
            let crash = Fault::Crash {
                node: 0,
                down_ms: 1,
            };
            let report = scenario().fault(when, crash);
            report.run(1, &release(Bug::None)).assert_ok();
        }
    }
}

#[test]
fn run_is_a_function_of_scenario_and_seed() {
    for seed in 0..5 {
        let scenario = losing_power(3).lasting_ms(2_500);
        assert_eq!(compare(&scenario, seed, &release(Bug::None)), None);
    }
}

#[test]
fn checkers_and_traces_change_nothing() {
    let scenario = losing_power(3);
    let release = release(Bug::None);
    let digest = |checkers, trace_lines| {
        let watch = Watch {
            checkers,
            trace_lines,
            ..Watch::default()
        };
        scenario.run_watched(7, &release, &watch).digest
    };
    let usual = digest(true, 4_000);
    assert_eq!(digest(true, 0), usual);
    assert_eq!(digest(false, 4_000), usual);
    assert_eq!(digest(false, 0), usual);
    assert_ne!(scenario.run(8, &release).digest, usual);
}

#[test]
fn plan_alone_replays_a_run() {
    let scenario = losing_power(3);
    let first = scenario.run(3, &release(Bug::None));
    let text = first.plan.to_text();
    let again = self::scenario().plan(crate::plan::Plan::from_text(&text).unwrap());
    assert_eq!(again.run(3, &release(Bug::None)).digest, first.digest);
}

#[test]
fn difference_of_two_runs_is_shown() {
    use std::{cell::Cell, rc::Rc};

    use crate::node::Release;

    // Every second run starts a broker that answers early: not a function of the seed.
    let runs = Rc::new(Cell::new(0));
    let fickle = Release::new("fickle", move |seat, identity, now| {
        runs.set(runs.get() + 1);
        let bug = if runs.get() % 2 == 0 {
            Bug::AckBeforeSync
        } else {
            Bug::None
        };
        release(bug).start(seat, identity, now)
    });
    let difference = compare(&scenario(), 1, &fickle).unwrap();
    assert!(difference.step > 0);
    assert!(difference.to_string().contains("at "), "{difference}");
}

#[cfg(all(feature = "madsim", madsim))]
#[test]
fn async_scenario_drives_the_cluster_on_virtual_time() {
    use std::time::Duration;

    use crate::{
        driver::{Kit, Madsim, block_on},
        workload::{Producer, ProducerProfile},
    };

    let run = |seed: u64| {
        block_on(seed, async move {
            let scenario = scenario();
            let kit = Kit::new(Madsim, scenario.cluster(seed, &release(Bug::None)));
            let profile = ProducerProfile {
                targets: scenario.targets(),
                acks: Acks::All,
                records: (1, 3),
                padding: (1, 10),
                pause_ms: (1, 20),
                in_flight: 1,
                request_timeout_ms: 1_000,
                delivery_timeout_ms: 10_000,
                retries: true,
            };
            let stream = crate::random::Streams::new(seed).stream("application");
            kit.with(|cluster| cluster.add_client(Box::new(Producer::new(1, 1, profile, stream))));
            let some = |cluster: &crate::cluster::Cluster| cluster.tally().acknowledged >= 20;
            assert!(kit.until(Duration::from_secs(20), some).await);
            kit.with(|cluster| {
                cluster.strike(Fault::PowerLoss {
                    node: 0,
                    down_ms: 300,
                    survival: Survival::Nothing,
                });
            });
            assert!(!kit.with(|cluster| cluster.all_ready()));
            kit.pass(Duration::from_secs(1)).await;
            assert!(kit.with(|cluster| cluster.all_ready()));
            let more = |cluster: &crate::cluster::Cluster| cluster.tally().acknowledged >= 60;
            assert!(kit.until(Duration::from_secs(30), more).await);
            kit.into_cluster().seal()
        })
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

/// Prints digests when a parent asks for them; nothing otherwise.
#[test]
fn child_prints_digests() {
    if std::env::var_os(CHILD).is_some() {
        for seed in 0..3 {
            let report = losing_power(3).run(seed, &release(Bug::None));
            println!("digest {seed} {:016x}", report.digest);
        }
    }
}

#[test]
fn digests_are_equal_in_two_processes() {
    let child = || {
        let own = std::env::current_exe().unwrap();
        let output = std::process::Command::new(own)
            .args(["--exact", "tests::child_prints_digests", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let digests: Vec<String> = text
            .lines()
            .filter_map(|line| line.split_once("digest ").map(|(_, rest)| rest.to_owned()))
            .collect();
        assert_eq!(digests.len(), 3, "{text}");
        digests
    };
    assert_eq!(child(), child());
}

const CHILD: &str = "SEEDLOG_SIM_DIGEST_CHILD";
