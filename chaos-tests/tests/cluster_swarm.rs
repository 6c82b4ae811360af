//! The random swarm of three and five brokers: each seed draws topics, copies, rules, clients and faults.

use seedlog_chaos_tests::{drill, seeds, swarm::Family, sweep::Sweep};

/// Every promise of every checker, whatever happens to the brokers and between them within the fault budget.
#[test]
fn cluster_swarm_holds_every_promise() {
    let seeds = seeds::seeds(3);
    let mut sweep = Sweep::default();
    for seed in &seeds {
        let began = std::time::Instant::now();
        let report = drill::run(Family::Cluster, *seed, None);
        report.assert_ok();
        sweep.add(&report, began.elapsed());
    }
    println!("{sweep}");
    if seeds.len() < 20 {
        return;
    }
    assert!(sweep.idle.is_empty(), "{sweep}");
    for kind in ["crash", "power-loss", "pause", "cut", "link-reset"] {
        assert!(sweep.effective(kind) > 0, "no {kind}: {sweep}");
    }
    assert!(sweep.moved() > 0, "leaders change: {sweep}");
}
