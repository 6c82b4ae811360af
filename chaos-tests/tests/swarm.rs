//! The random swarm: each seed draws which topics, sizes, clients and faults exist at all.

use seedlog_chaos_tests::{drill, seeds, swarm::Family, sweep::Sweep};

/// Every promise of every checker, whatever happens to one broker within the fault budget; damaged logs beyond it are reported
/// and never silently cut. Runs that did too little do not count, and the runs that do reach every usual kind of fault.
#[test]
fn swarm_holds_every_promise() {
    let seeds = seeds::seeds(20);
    let mut sweep = Sweep::default();
    for seed in &seeds {
        let began = std::time::Instant::now();
        let report = drill::run(Family::Single, *seed, None);
        report.assert_ok();
        sweep.add(&report, began.elapsed());
    }
    println!("{sweep}");
    if seeds.len() < 20 {
        return;
    }
    assert!(sweep.idle.is_empty(), "{sweep}");
    for kind in [
        "crash",
        "power-loss",
        "unsynced-loss",
        "clean-stop",
        "pause",
    ] {
        assert!(sweep.effective(kind) > 0, "no {kind}: {sweep}");
    }
}
