//! Runs the swarm over a range of seeds and says for each what became of it: `census FROM COUNT`, or `census SEED` for one
//! seed with its whole trace.

use std::collections::BTreeMap;

use seedlog_sim::{broker::today, nemesis, run::Watch};

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|number| number.parse().ok())
        .collect();
    match numbers[..] {
        [seed] => one(seed),
        [from, count] => census(from, count),
        _ => println!("usage: census FROM COUNT | census SEED"),
    }
}

fn one(seed: u64) {
    let watch = Watch {
        trace_lines: 1_000_000,
        shown_lines: 1_000_000,
        ..Watch::default()
    };
    let scenario = nemesis::swarm("swarm", "swarm", seed);
    println!("{}", scenario.run_watched(seed, &today(), &watch));
}

fn census(from: u64, count: u64) {
    let mut verdicts = BTreeMap::<&str, Vec<u64>>::new();
    for seed in from..from + count {
        let report = nemesis::swarm("swarm", "swarm", seed).run(seed, &today());
        let seen = report
            .findings
            .failed
            .first()
            .map(|finding| finding.seen.as_str());
        println!(
            "{seed:>6} {:>6.1} s {:>7} events {:>6} acknowledged {:>5} effective faults  {} {}",
            report.simulated.as_secs_f64(),
            report.steps,
            report.tally.acknowledged,
            report.tally.effective_faults(),
            report.failed_checker().unwrap_or("ok"),
            seen.unwrap_or_default()
        );
        let verdict = report.failed_checker().unwrap_or("ok");
        verdicts.entry(verdict).or_default().push(seed);
    }
    for (verdict, seeds) in verdicts {
        println!("{verdict}: {} {seeds:?}", seeds.len());
    }
}
