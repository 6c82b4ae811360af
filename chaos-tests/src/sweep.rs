//! Many runs: on all cores, counted, idle ones told apart.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use seedlog_sim::{cluster::FaultTally, report::Report};

/// A run is idle below so much simulated time, so many acknowledged writes or so many effective faults: it proves little.
pub const BUSY: Busy = Busy {
    simulated: Duration::from_secs(60),
    acknowledged: 500,
    faults: 10,
};

/// What a run must have done to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Simulated time.
    pub simulated: Duration,
    /// Acknowledged writes.
    pub acknowledged: u64,
    /// Faults that took effect.
    pub faults: u64,
}

impl Busy {
    /// Whether a run did enough. One that failed did, whatever it got to before.
    #[must_use]
    pub fn is_met_by(&self, report: &Report) -> bool {
        !report.is_ok()
            || (report.simulated >= self.simulated
                && report.tally.acknowledged >= self.acknowledged
                && report.tally.effective_faults() >= self.faults)
    }
}

/// What a sweep over seeds gave.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Seeds whose run counts.
    pub seeds: u64,
    /// Seeds whose run was idle.
    pub idle: Vec<u64>,
    /// Seeds whose run failed, and the checker that failed first.
    pub failed: Vec<(u64, &'static str)>,
    acknowledged: Vec<u64>,
    faults: Vec<u64>,
    simulated: Vec<Duration>,
    kinds: BTreeMap<&'static str, FaultTally>,
    events: BTreeMap<&'static str, u64>,
    steps: u64,
    busy: Duration,
}

impl Sweep {
    /// Takes in a run and how long it took.
    pub fn add(&mut self, report: &Report, took: Duration) {
        self.busy += took;
        self.steps += report.steps;
        if let Some(checker) = report.failed_checker() {
            self.failed.push((report.seed, checker));
        }
        if !BUSY.is_met_by(report) {
            self.idle.push(report.seed);
            return;
        }
        self.seeds += 1;
        self.acknowledged.push(report.tally.acknowledged);
        self.faults.push(report.tally.effective_faults());
        self.simulated.push(report.simulated);
        for (kind, tally) in &report.tally.faults {
            let sum = self.kinds.entry(kind).or_default();
            sum.fired += tally.fired;
            sum.effective += tally.effective;
            sum.refused += tally.refused;
        }
        for (name, count) in &report.tally.events {
            *self.events.entry(name).or_default() += count;
        }
    }

    /// Returns how often a kind of fault took effect.
    #[must_use]
    pub fn effective(&self, kind: &str) -> u64 {
        self.kinds.get(kind).map_or(0, |tally| tally.effective)
    }

    /// Returns the medians of simulated time, acknowledged writes and effective faults.
    #[must_use]
    pub fn medians(&self) -> Busy {
        Busy {
            simulated: median(&self.simulated),
            acknowledged: median(&self.acknowledged),
            faults: median(&self.faults),
        }
    }
}

fn median<T: Copy + Ord + Default>(values: &[T]) -> T {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

impl fmt::Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let median = self.medians();
        let total: Duration = self.simulated.iter().sum();
        let busy = self.busy.as_secs_f64().max(f64::MIN_POSITIVE);
        writeln!(
            f,
            "{} seeds, {} failed, {} idle and not counted",
            self.seeds,
            self.failed.len(),
            self.idle.len()
        )?;
        writeln!(
            f,
            "medians: {:.1} simulated seconds, {} acknowledged writes, {} effective faults",
            median.simulated.as_secs_f64(),
            median.acknowledged,
            median.faults
        )?;
        writeln!(
            f,
            "speed: {:.0} simulated seconds a second of one core, {:.0} events a second and core",
            total.as_secs_f64() / busy,
            self.steps as f64 / busy
        )?;
        writeln!(f, "faults: kind, moment came, took effect, refused")?;
        for (kind, tally) in &self.kinds {
            writeln!(
                f,
                "  {kind:<16} {:>8} {:>8} {:>6}",
                tally.fired, tally.effective, tally.refused
            )?;
        }
        write!(f, "brokers said:")?;
        for (name, count) in &self.events {
            write!(f, " {name} {count}")?;
        }
        Ok(())
    }
}

/// Runs seeds on `jobs` threads; `each` sees each report as it comes and says whether to go on.
///
/// Which thread runs a seed changes nothing of its run.
pub fn run(
    seeds: impl Iterator<Item = u64> + Send,
    jobs: usize,
    make: impl Fn(u64) -> Report + Sync,
    mut each: impl FnMut(&Report, Duration) -> bool,
) {
    let seeds = std::sync::Mutex::new(seeds);
    let stop = AtomicBool::new(false);
    let (sender, reports) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            let (sender, seeds, stop, make) = (sender.clone(), &seeds, &stop, &make);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let next = seeds.lock().ok().and_then(|mut seeds| seeds.next());
                    let Some(seed) = next else { return };
                    let began = Instant::now();
                    let report = make(seed);
                    if sender.send((report, began.elapsed())).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (report, took) in reports {
            if !each(&report, took) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_value() {
        assert_eq!(median(&[9, 1, 5]), 5);
        assert_eq!(median::<u64>(&[]), 0);
    }
}
