//! Death of the process or the machine between, within and after storage operations.

use seedlog_chaos_tests::seeds::{check, effective, events, seeds};
use seedlog_sim::{
    broker::today,
    disk::Survival,
    history::Acks,
    plan::{Decisive, Fault, Glob, Moment, OpKind, Trigger},
    scenario::{Producers, Rule, Scenario},
};

fn scenario(name: &str) -> Scenario {
    Scenario::new("crash_points", name)
        .topic("orders", 1, Rule::Durable)
        .config("internal.segment.bytes", "2048")
        .config("index.interval.bytes", "1")
        .producers(Producers::new(1, Acks::All))
        .readers(1)
        .lasting_ms(1_500)
}

fn at(nth: u64, moment: Moment) -> Trigger {
    Trigger::Storage {
        node: 0,
        kind: OpKind::Any,
        file: Glob::new("*orders-0*"),
        nth,
        moment,
    }
}

const MOMENTS: [Moment; 3] = [Moment::Before, Moment::Within(500), Moment::After];

/// A roll is finished or undone whatever it dies in the middle of: the machine loses power at every storage operation of the
/// partition's folder over several rolls, before, within and after its effect, and nothing acknowledged is missing afterwards.
#[test]
fn power_loss_at_every_storage_operation_of_a_roll_is_survived() {
    let (down_ms, survival) = (1, Survival::Scattered);
    for (nth, moment) in (1..50).flat_map(|nth| MOMENTS.map(|moment| (nth, moment))) {
        let scenario = scenario("power_loss_at_every_storage_operation_of_a_roll_is_survived")
            .fault(
                at(nth, moment),
                Fault::PowerLoss {
                    node: 0,
                    down_ms,
                    survival,
                },
            );
        for seed in seeds(1) {
            let report = scenario.run(seed ^ nth, &today());
            report.assert_ok();
            assert_eq!(report.tally.faults["power-loss"].effective, 1, "{report}");
            assert!(report.tally.events["segment-rolled"] > 1, "{report}");
        }
    }
}

/// The same with a process that dies and a page cache that stays.
#[test]
fn kill_at_every_storage_operation_of_a_roll_is_survived() {
    let kill = Fault::Crash {
        node: 0,
        down_ms: 1,
    };
    for (nth, moment) in (1..50).flat_map(|nth| MOMENTS.map(|moment| (nth, moment))) {
        let scenario = scenario("kill_at_every_storage_operation_of_a_roll_is_survived")
            .fault(at(nth, moment), kill.clone());
        for seed in seeds(1) {
            let report = scenario.run(seed ^ nth, &today());
            report.assert_ok();
            assert_eq!(report.tally.faults["crash"].effective, 1, "{report}");
        }
    }
}

/// A first start that dies leaves a folder that starts: the machine dies at every storage operation of the founding of the cluster,
/// before, within and after its effect, dies once more in the start that finds what is left of it, and then serves. Identity,
/// vote, first entries and registration are written beside each other, so a power loss may leave any of them, each perhaps torn.
#[test]
fn death_at_every_storage_operation_of_a_first_start_is_survived() {
    let kill = Fault::Crash {
        node: 0,
        down_ms: 1,
    };
    let losses = [Survival::Nothing, Survival::Scattered].map(|survival| Fault::PowerLoss {
        node: 0,
        down_ms: 1,
        survival,
    });
    let any = |nth, moment| Trigger::Storage {
        node: 0,
        kind: OpKind::Any,
        file: Glob::new("*"),
        nth,
        moment,
    };
    let mut deaths = 0;
    for death in losses.into_iter().chain([kill]) {
        for (nth, moment) in (1..45).flat_map(|nth| MOMENTS.map(|moment| (nth, moment))) {
            let name = "death_at_every_storage_operation_of_a_first_start_is_survived";
            for seed in seeds(1) {
                let again = nth + 1 + (seed + nth) % 29;
                let scenario = scenario(name)
                    .fault(any(nth, moment), death.clone())
                    .fault(any(again, Moment::After), death.clone());
                let report = scenario.run(seed ^ nth, &today());
                report.assert_ok();
                let kind = death.kind();
                assert!(report.tally.faults[kind].effective >= 1, "{report}");
                deaths += effective(&[report], kind);
            }
        }
    }
    // An operation that the first death took with it may have been the one that the second waited for.
    assert!(deaths > 700, "{deaths}");
}

/// The synced mark is never ahead and never taken for more than it says, whatever the file dies in the middle of: after each death at
/// one of its operations the log opens whole, and is never reported as damaged.
#[test]
fn death_at_every_storage_operation_of_the_synced_marks_is_survived() {
    let kill = Fault::Crash {
        node: 0,
        down_ms: 1,
    };
    let losses = [Survival::Nothing, Survival::Scattered].map(|survival| Fault::PowerLoss {
        node: 0,
        down_ms: 1,
        survival,
    });
    for death in losses.into_iter().chain([kill]) {
        for (nth, moment) in (1..24).flat_map(|nth| MOMENTS.map(|moment| (nth, moment))) {
            let when = Trigger::Storage {
                node: 0,
                kind: OpKind::Any,
                file: Glob::new("synced-marks"),
                nth,
                moment,
            };
            let name = "death_at_every_storage_operation_of_the_synced_marks_is_survived";
            let scenario = scenario(name).fault(when, death.clone());
            for seed in seeds(1) {
                let report = scenario.run(seed ^ nth, &today());
                report.assert_ok();
                let kind = death.kind();
                assert_eq!(report.tally.faults[kind].effective, 1, "{report}");
                let offline = report.tally.events.get("partition-offline");
                assert_eq!(offline, None, "{report}");
            }
        }
    }
}

/// An orderly stop may be asked for between any two operations, while a log opens, rolls or writes: it ends, and the next start
/// finds everything.
#[test]
fn clean_stop_at_every_storage_operation_is_orderly() {
    let stop = |down_ms| Fault::CleanStop { node: 0, down_ms };
    let mut stops = 0;
    for nth in 1..80 {
        let scenario = scenario("clean_stop_at_every_storage_operation_is_orderly")
            .fault_at(100, stop(5))
            .fault(at(nth, Moment::Before), stop(1));
        for seed in seeds(1) {
            let report = scenario.run(seed ^ nth, &today());
            report.assert_ok();
            stops += effective(&[report], "clean-stop");
        }
    }
    // A node that still recovers is not stopped in good order.
    assert!(stops > 120, "{stops}");
}

/// An orderly stop that comes while logs still recover vouches for none that was not closed (B45): the next start believes no
/// mark that is older than what the recovery kept.
#[test]
fn stop_during_a_recovery_vouches_for_no_log_that_was_not_closed() {
    let ready = Trigger::Event {
        node: 0,
        event: Decisive::Ready,
        nth: 1,
    };
    let crash = Fault::Crash {
        node: 0,
        down_ms: 5,
    };
    let stop = Fault::CleanStop {
        node: 0,
        down_ms: 5,
    };
    let name = "stop_during_a_recovery_vouches_for_no_log_that_was_not_closed";
    let scenario = Scenario::new("crash_points", name)
        .topic("orders", 6, Rule::Durable)
        .producers(Producers::new(3, Acks::All))
        .readers(1)
        .lasting_ms(4_000)
        .fault_at(1_500, crash)
        .fault(ready, stop);
    let reports = check(6, &scenario);
    assert_eq!(effective(&reports, "clean-stop"), reports.len() as u64);
}

/// Recovery may itself die at any operation, again and again: the next one starts from what is there.
#[test]
fn power_loss_at_every_storage_operation_of_a_recovery_is_survived() {
    let loss = |down_ms| Fault::PowerLoss {
        node: 0,
        down_ms,
        survival: Survival::Mixed,
    };
    for nth in 1..40 {
        let storage = Trigger::Storage {
            node: 0,
            kind: OpKind::Any,
            file: Glob::any(),
            nth: 400 + nth,
            moment: MOMENTS[nth as usize % 3],
        };
        let scenario = scenario("power_loss_at_every_storage_operation_of_a_recovery_is_survived")
            .fault_at(700, loss(1))
            .fault(storage, loss(2));
        let report = scenario.run(nth, &today());
        report.assert_ok();
    }
}

/// A write that the power loss tore is a torn tail: it is cut, and what was acknowledged before it stays.
#[test]
fn torn_tail_is_cut_and_nothing_else() {
    let torn = |nth, permille| Trigger::Storage {
        node: 0,
        kind: OpKind::Write,
        file: Glob::new("*orders-0*.log"),
        nth,
        moment: Moment::Within(permille),
    };
    let kill = Fault::Crash {
        node: 0,
        down_ms: 5,
    };
    let scenario = scenario("torn_tail_is_cut_and_nothing_else")
        .fault(torn(5, 900), kill.clone())
        .fault(torn(9, 500), kill.clone())
        .fault(torn(14, 10), kill);
    let reports = check(10, &scenario);
    assert_eq!(effective(&reports, "crash"), 3 * reports.len() as u64);
    assert!(events(&reports, "tail-cut") >= 2 * reports.len() as u64);
}

/// Eight kills in a row, some of them while the broker still recovers from the one before, end in a broker that serves.
#[test]
fn restart_storm_ends_in_service() {
    let kill = Fault::Crash {
        node: 0,
        down_ms: 1,
    };
    let opened = |nth| Trigger::Event {
        node: 0,
        event: Decisive::LogOpened,
        nth,
    };
    let scenario = (0..5)
        .fold(scenario("restart_storm_ends_in_service"), |scenario, n| {
            scenario.fault_at(500 + 40 * n, kill.clone())
        })
        .fault(opened(1), kill.clone())
        .fault(opened(2), kill.clone())
        .fault(opened(3), kill);
    let reports = check(10, &scenario);
    assert!(effective(&reports, "crash") >= 6 * reports.len() as u64);
}

/// The clean marker is gone before anything changes (B45): a clean stop, new writes, then a power loss. A recovery that
/// trusted the old marker would not look at the torn tail.
#[test]
fn stale_clean_marker_is_not_trusted() {
    let scenario = scenario("stale_clean_marker_is_not_trusted")
        .lasting_ms(4_000)
        .fault_at(
            1_000,
            Fault::CleanStop {
                node: 0,
                down_ms: 10,
            },
        )
        .fault_at(
            2_500,
            Fault::PowerLoss {
                node: 0,
                down_ms: 10,
                survival: Survival::Scattered,
            },
        );
    let reports = check(10, &scenario);
    assert_eq!(effective(&reports, "clean-stop"), reports.len() as u64);
    assert_eq!(effective(&reports, "power-loss"), reports.len() as u64);
}
