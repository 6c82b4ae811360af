//! The table at the end.

use crate::{Plan, measure::Sample, subject::Subject};

/// Prints medians; `false` when the last subject costs more than the gate allows.
pub(crate) fn print(subjects: &[Subject], samples: &[Vec<Sample>], plan: &Plan) -> bool {
    println!(
        "{:<8} {:>10} {:>12} {:>9} {:>9} {:>14} {:>9}",
        "subject", "CPU-s/GB", "min-max", "to floor", "MB/s", "sleeps/request", "RSS MiB"
    );
    let mut last_ratio = 1.0;
    for (subject, own) in subjects.iter().zip(samples) {
        let costs = sorted(own.iter().map(Sample::cpu_per_gb));
        // Each run is compared with the floor of its own round: what the machine did at that time concerned both.
        let pairs = own.iter().zip(&samples[0]);
        let ratios = sorted(pairs.map(|(own, floor)| own.cpu_per_gb() / floor.cpu_per_gb()));
        last_ratio = median(&ratios);
        println!(
            "{:<8} {:>10.3} {:>12} {:>9.2} {:>9.0} {:>14.3} {:>9.1}",
            subject.name(),
            median(&costs),
            format!("{:.2}-{:.2}", costs[0], costs[costs.len() - 1]),
            last_ratio,
            median(&sorted(own.iter().map(Sample::rate))),
            median(&sorted(own.iter().map(Sample::sleeps_per_request))),
            median(&sorted(
                own.iter().map(|sample| sample.rss_kib as f64 / 1024.0)
            )),
        );
    }
    match plan.gate {
        Some(gate) if last_ratio > gate => {
            println!("more than {gate} times the floor");
            false
        }
        _ => true,
    }
}

pub(crate) fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

pub(crate) fn median(values: &[f64]) -> f64 {
    values[values.len() / 2]
}
