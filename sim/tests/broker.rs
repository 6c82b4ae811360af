//! The broker of this tree in the simulator: a smoke test; scenarios live in `chaos-tests`.

use seedlog_sim::{
    broker::today,
    disk::Survival,
    history::Acks,
    plan::Fault,
    scenario::{Producers, Rule, Scenario},
};

fn scenario() -> Scenario {
    Scenario::new("broker", "broker")
        .topic("orders", 2, Rule::Durable)
        .producers(Producers::new(2, Acks::All))
        .readers(1)
        .lasting_ms(5_000)
}

#[test]
fn healthy_broker_passes() {
    let report = scenario().run(1, &today());
    println!("{report}");
    report.assert_ok();
}

#[test]
fn power_loss_is_survived() {
    let loss = Fault::PowerLoss {
        node: 0,
        down_ms: 50,
        survival: Survival::Mixed,
    };
    for seed in 0..5 {
        scenario()
            .fault_at(2_000, loss.clone())
            .run(seed, &today())
            .assert_ok();
    }
}
