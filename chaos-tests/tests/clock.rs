//! Clocks that jump, drift, flip and stand still.

use seedlog_chaos_tests::seeds::{check, effective};
use seedlog_sim::{
    history::Acks,
    plan::{ClockFault, Fault},
    scenario::{Producers, Rule, Scenario},
};

fn scenario(name: &str) -> Scenario {
    Scenario::new("clock", name)
        .topic("orders", 2, Rule::Durable)
        .config("message.timestamp.after.max.ms", "9223372036854775807")
        .producers(Producers::new(2, Acks::All))
        .readers(1)
        .lasting_ms(10_000)
}

fn clock(fault: ClockFault) -> Fault {
    Fault::Clock { node: 0, fault }
}

/// Wall time is data and decides nothing: it jumps by a day in both directions under load, and offsets, answers and records
/// are what they would be anyway.
#[test]
fn jumping_wall_clock_harms_nothing() {
    let day = 86_400_000;
    let scenario = scenario("jumping_wall_clock_harms_nothing")
        .fault_at(2_000, clock(ClockFault::Jump { by_ms: day }))
        .fault_at(4_000, clock(ClockFault::Jump { by_ms: -2 * day }))
        .fault_at(
            6_000,
            clock(ClockFault::Strobe {
                by_ms: 5_000,
                period_ms: 10,
                for_ms: 2_000,
            }),
        );
    let reports = check(6, &scenario);
    assert_eq!(effective(&reports, "clock-jump"), 2 * reports.len() as u64);
}

/// Timers that run fast, slow or not at all delay; they break nothing.
#[test]
fn drifting_and_standing_clock_only_delays() {
    let scenario = scenario("drifting_and_standing_clock_only_delays")
        .fault_at(1_000, clock(ClockFault::Drift { ppm: 80_000 }))
        .fault_at(4_000, clock(ClockFault::Stall { for_ms: 2_000 }))
        .fault_at(7_000, clock(ClockFault::Drift { ppm: -80_000 }));
    let reports = check(6, &scenario);
    assert_eq!(effective(&reports, "clock-stall"), reports.len() as u64);
}
