//! Which seeds a test runs, and running a scenario over them.

use seedlog_sim::{broker::today, report::Report, run::Watch, scenario::Scenario};

/// Replays one seed, decimal or `0x…`.
pub const SEED: &str = "SEEDLOG_SEED";
/// Runs so many seeds instead of the fixed few.
pub const SEEDS: &str = "SEEDLOG_SEEDS";
/// Shows so many lines of the trace of a run that fails.
pub const LINES: &str = "SEEDLOG_LINES";

/// Returns the seeds of a test: `default` of them unless the environment says otherwise.
///
/// # Panics
///
/// Panics on a variable that is no number: running other seeds than those meant would hide it.
#[must_use]
pub fn seeds(default: u64) -> Vec<u64> {
    if let Some(seed) = read(SEED) {
        return vec![seed];
    }
    (0..read(SEEDS).unwrap_or(default)).collect()
}

fn read(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = parse(&text);
    assert!(number.is_some(), "{name}={text} is no number");
    number
}

/// Returns how a run is watched, as the environment says.
#[must_use]
pub fn watch() -> Watch {
    let mut watch = Watch::default();
    if let Some(lines) = read(LINES) {
        let lines = usize::try_from(lines).unwrap_or(usize::MAX);
        watch.trace_lines = watch.trace_lines.max(lines);
        watch.shown_lines = lines;
    }
    watch
}

/// Reads a seed as it is printed: decimal or `0x…`.
#[must_use]
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Runs a scenario with today's broker over its seeds; all checkers must hold in each.
///
/// # Panics
///
/// Panics with the report of the first run that fails.
pub fn check(default: u64, scenario: &Scenario) -> Vec<Report> {
    let run = |seed| {
        let report = scenario.run_watched(seed, &today(), &watch());
        report.assert_ok();
        report
    };
    seeds(default).into_iter().map(run).collect()
}

/// Counts over reports how often a fault of a kind took effect.
#[must_use]
pub fn effective(reports: &[Report], kind: &str) -> u64 {
    let of = |report: &Report| report.tally.faults.get(kind).map_or(0, |f| f.effective);
    reports.iter().map(of).sum()
}

/// Counts over reports how often brokers said an event, by its name.
#[must_use]
pub fn events(reports: &[Report], name: &str) -> u64 {
    let of = |report: &Report| report.tally.events.get(name).copied().unwrap_or_default();
    reports.iter().map(of).sum()
}

/// Counts over reports how often something happened that no promise forbids.
#[must_use]
pub fn allowed(reports: &[Report], what: &str) -> u64 {
    let of = |report: &Report| {
        report
            .findings
            .allowed
            .get(what)
            .copied()
            .unwrap_or_default()
    };
    reports.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_is_read_as_it_is_printed() {
        assert_eq!(parse("0x1f"), Some(31));
        assert_eq!(parse(" 31\n"), Some(31));
        assert_eq!(parse("1f"), None);
    }
}
