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

use seedlog_sim::{
    cluster::{CONSEQUENCES, FaultTally},
    report::Report,
};

/// A run is idle below so much simulated time, so many acknowledged writes or so many effective faults: it proves little.
pub const BUSY: Busy = Busy {
    simulated: Duration::from_secs(60),
    acknowledged: 500,
    faults: 10,
};

/// How much a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// Simulated time.
    pub simulated: Duration,
    /// Acknowledged writes.
    pub acknowledged: u64,
    /// Faults that took effect; what follows from another fault is not counted.
    pub faults: u64,
}

impl Busy {
    /// Reads it from a report.
    #[must_use]
    pub fn of(report: &Report) -> Self {
        Self {
            simulated: report.simulated,
            acknowledged: report.tally.acknowledged,
            faults: report.tally.effective_faults(),
        }
    }

    /// Whether it is at least `least` in each respect.
    #[must_use]
    pub fn reaches(&self, least: &Self) -> bool {
        self.simulated >= least.simulated
            && self.acknowledged >= least.acknowledged
            && self.faults >= least.faults
    }

    /// Picks a value in each respect, apart from each other.
    fn each(runs: &[Self], pick: impl Fn(usize) -> usize) -> Self {
        Self {
            simulated: nth(runs.iter().map(|run| run.simulated), &pick),
            acknowledged: nth(runs.iter().map(|run| run.acknowledged), &pick),
            faults: nth(runs.iter().map(|run| run.faults), &pick),
        }
    }
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.1} simulated seconds, {} acknowledged writes, {} effective faults",
            self.simulated.as_secs_f64(),
            self.acknowledged,
            self.faults
        )
    }
}

fn nth<T: Ord + Default>(values: impl Iterator<Item = T>, pick: impl Fn(usize) -> usize) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    let at = pick(values.len());
    values.into_iter().nth(at).unwrap_or_default()
}

/// What a sweep over seeds gave. A run that failed counts among the failed ones, one that did too little among the idle ones.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Runs that did enough and in which no checker failed.
    pub counted: Vec<Busy>,
    /// Seeds whose run was idle, and what it did.
    pub idle: Vec<(u64, Busy)>,
    /// Seeds whose run failed, and the checker that failed first.
    pub failed: Vec<(u64, &'static str)>,
    /// Runs that count in which a partition got another leader while writes were under way.
    moved: usize,
    kinds: BTreeMap<&'static str, FaultTally>,
    events: BTreeMap<&'static str, u64>,
    allowed: BTreeMap<&'static str, u64>,
    steps: u64,
    simulated: Duration,
    busy: Duration,
}

impl Sweep {
    /// Takes in a run and how long it took.
    pub fn add(&mut self, report: &Report, took: Duration) {
        self.busy += took;
        self.steps += report.steps;
        self.simulated += report.simulated;
        let done = Busy::of(report);
        if let Some(checker) = report.failed_checker() {
            self.failed.push((report.seed, checker));
            return;
        }
        if !done.reaches(&BUSY) {
            self.idle.push((report.seed, done));
            return;
        }
        self.counted.push(done);
        self.moved += usize::from(report.tally.leader_changes > 0);
        for (kind, tally) in &report.tally.faults {
            let sum = self.kinds.entry(kind).or_default();
            sum.fired += tally.fired;
            sum.effective += tally.effective;
            sum.refused += tally.refused;
        }
        for (name, count) in &report.tally.events {
            *self.events.entry(name).or_default() += count;
        }
        for (what, count) in &report.findings.allowed {
            *self.allowed.entry(what).or_default() += count;
        }
    }

    /// Returns how many runs there were.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.counted.len() + self.idle.len() + self.failed.len()
    }

    /// Returns how often a kind of fault took effect.
    #[must_use]
    pub fn effective(&self, kind: &str) -> u64 {
        self.kinds.get(kind).map_or(0, |tally| tally.effective)
    }

    /// Returns the kinds of faults among `kinds` that never took effect.
    #[must_use]
    pub fn missing<'a>(&self, kinds: &[&'a str]) -> Vec<&'a str> {
        let never = |kind: &&&str| self.effective(kind) == 0;
        kinds.iter().filter(never).copied().collect()
    }

    /// Returns in how many of the runs that count a leader changed while writes were under way.
    #[must_use]
    pub const fn moved(&self) -> usize {
        self.moved
    }

    /// Returns the medians of the runs that count.
    #[must_use]
    pub fn medians(&self) -> Busy {
        Busy::each(&self.counted, |count| count / 2)
    }

    /// Returns the least of each in the runs that count.
    #[must_use]
    pub fn least(&self) -> Busy {
        Busy::each(&self.counted, |_| 0)
    }
}

impl fmt::Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let busy = self.busy.as_secs_f64().max(f64::MIN_POSITIVE);
        writeln!(
            f,
            "{} runs: {} count, {} idle, {} failed",
            self.runs(),
            self.counted.len(),
            self.idle.len(),
            self.failed.len()
        )?;
        writeln!(f, "medians: {}", self.medians())?;
        writeln!(f, "least:   {}", self.least())?;
        writeln!(
            f,
            "speed: {:.0} simulated seconds and {:.0} events a second of one core",
            self.simulated.as_secs_f64() / busy,
            self.steps as f64 / busy
        )?;
        if self.moved > 0 {
            let moved = self.moved;
            writeln!(
                f,
                "a leader changed while writes were under way in {moved} runs"
            )?;
        }
        writeln!(f, "faults: kind, moment came, took effect, refused")?;
        for (kind, tally) in &self.kinds {
            let beside = if CONSEQUENCES.contains(kind) {
                "  part of another"
            } else {
                ""
            };
            writeln!(
                f,
                "  {kind:<14} {:>8} {:>8} {:>8}{beside}",
                tally.fired, tally.effective, tally.refused
            )?;
        }
        write!(f, "brokers said:")?;
        for (name, count) in &self.events {
            write!(f, " {name} {count}")?;
        }
        for (what, count) in &self.allowed {
            write!(f, "\nallowed: {what}, {count} times")?;
        }
        for (seed, done) in &self.idle {
            write!(f, "\nidle: {seed:#x}, {done}")?;
        }
        for (seed, checker) in &self.failed {
            write!(f, "\nfailed: {seed:#x} {checker}")?;
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

    fn did(seconds: u64, acknowledged: u64, faults: u64) -> Busy {
        Busy {
            simulated: Duration::from_secs(seconds),
            acknowledged,
            faults,
        }
    }

    #[test]
    fn run_is_idle_that_falls_short_in_one_respect() {
        assert!(did(60, 500, 10).reaches(&BUSY));
        for idle in [did(59, 900, 30), did(90, 499, 30), did(90, 900, 9)] {
            assert!(!idle.reaches(&BUSY), "{idle}");
        }
    }

    #[test]
    fn median_and_least_are_taken_in_each_respect() {
        let sweep = Sweep {
            counted: vec![did(60, 900, 12), did(61, 500, 30), did(70, 600, 10)],
            ..Sweep::default()
        };
        assert_eq!(sweep.medians(), did(61, 600, 12));
        assert_eq!(sweep.least(), did(60, 500, 10));
        assert_eq!(Sweep::default().medians(), Busy::default());
    }

    #[test]
    fn kind_that_never_took_effect_is_missing() {
        let mut sweep = Sweep::default();
        let happened = FaultTally {
            effective: 1,
            ..FaultTally::default()
        };
        sweep.kinds.insert("crash", happened);
        sweep.kinds.insert("pause", FaultTally::default());
        assert_eq!(
            sweep.missing(&["crash", "pause", "wipe"]),
            ["pause", "wipe"]
        );
    }
}
