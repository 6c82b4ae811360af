//! Power loss under both flush rules.

use seedlog_chaos_tests::seeds::{allowed, check, effective, events};
use seedlog_sim::{
    disk::Survival,
    history::Acks,
    plan::{Decisive, Fault, Trigger},
    scenario::{Producers, Rule, Scenario},
};

const LOSS: &str = "unsynced record lost by power loss";

fn scenario(name: &str, rule: Rule) -> Scenario {
    Scenario::new("power_loss", name)
        .topic("orders", 2, rule)
        .config("internal.segment.bytes", "4096")
        .producers(Producers::new(1, Acks::All))
        .producers(Producers::new(1, Acks::Leader))
        .readers(1)
        .lasting_ms(8_000)
}

fn power_loss(survival: Survival) -> Fault {
    Fault::PowerLoss {
        node: 0,
        down_ms: 100,
        survival,
    }
}

/// Without a fault every write is answered, found again, and in order; nothing at all is lost.
#[test]
fn healthy_minute_keeps_everything() {
    let scenario = scenario("healthy_minute_keeps_everything", Rule::Durable).lasting_ms(60_000);
    let reports = check(2, &scenario);
    assert!(reports.iter().all(|r| r.tally.acknowledged > 1_000));
    assert!(reports.iter().all(|r| r.findings.allowed.is_empty()));
}

/// Rule `durable`: whatever acks=1 or acks=-1 acknowledged survives any number of power losses, whatever they take of the
/// unsynced bytes.
#[test]
fn durable_loses_nothing() {
    let scenario = [
        Survival::Nothing,
        Survival::Scattered,
        Survival::Mixed,
        Survival::Prefix,
    ]
    .into_iter()
    .zip([1_000, 2_500, 4_000, 6_000])
    .fold(
        scenario("durable_loses_nothing", Rule::Durable),
        |s, (kind, at)| s.fault_at(at, power_loss(kind)),
    );
    let reports = check(6, &scenario);
    assert!(effective(&reports, "power-loss") >= 4 * reports.len() as u64 / 2);
    assert_eq!(allowed(&reports, LOSS), 0);
}

/// Rule `replicated` with one copy: a power loss may take unsynced records, and only those. The loss must be seen: a checker
/// that cannot see an allowed loss cannot see a forbidden one.
#[test]
fn replicated_loses_only_what_was_unsynced() {
    let scenario = scenario("replicated_loses_only_what_was_unsynced", Rule::Replicated)
        .fault_at(3_000, power_loss(Survival::Nothing))
        .fault_at(6_000, power_loss(Survival::Mixed));
    let reports = check(6, &scenario);
    assert!(allowed(&reports, LOSS) > 0, "no loss was seen");
}

/// Rule `replicated`: the page cache outlives the process, so a kill alone loses nothing.
#[test]
fn kill_loses_nothing_under_replicated() {
    let kill = Fault::Crash {
        node: 0,
        down_ms: 50,
    };
    let scenario = scenario("kill_loses_nothing_under_replicated", Rule::Replicated)
        .fault_at(2_000, kill.clone())
        .fault_at(5_000, kill);
    let reports = check(6, &scenario);
    assert_eq!(effective(&reports, "crash"), 2 * reports.len() as u64);
    assert_eq!(allowed(&reports, LOSS), 0);
}

/// Recovery syncs what it keeps before it counts it (B46): records that a kill left in the page cache, that recovery read back
/// and served, are still there after the power loss that follows.
#[test]
fn kill_then_power_loss_keeps_what_recovery_served() {
    let after_recovery = Trigger::Event {
        node: 0,
        event: Decisive::Ready,
        nth: 1,
    };
    let scenario = scenario(
        "kill_then_power_loss_keeps_what_recovery_served",
        Rule::Durable,
    )
    .fault_at(
        3_000,
        Fault::Crash {
            node: 0,
            down_ms: 20,
        },
    )
    .fault(after_recovery, power_loss(Survival::Nothing));
    let reports = check(6, &scenario);
    assert_eq!(effective(&reports, "power-loss"), reports.len() as u64);
    assert!(events(&reports, "log-opened") > 0);
    assert_eq!(allowed(&reports, LOSS), 0);
}
