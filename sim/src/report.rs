//! The report of a run: what failed, what was promised and seen, what went on, and the line that replays it.

use std::{fmt, time::Duration};

use crate::{checker::Findings, cluster::Tally, plan::Plan};

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Report {
    pub(crate) test: (String, String),
    /// The seed.
    pub seed: u64,
    /// The fault plan; with it the run can be replayed, or edited, without the seed that drew it.
    pub plan: Plan,
    /// What the checkers found.
    pub findings: Findings,
    /// What happened, in numbers.
    pub tally: Tally,
    /// How much time passed in the simulation.
    pub simulated: Duration,
    /// How many events happened.
    pub steps: u64,
    /// The digest of the whole run: its events, draws, length, end state and verdict.
    pub digest: u64,
    /// The last lines of the trace, if the run failed.
    pub trace: String,
    /// The faults among them.
    pub fault_lane: String,
    /// The digests after each event, if they were kept.
    pub journal: Option<Vec<u64>>,
    /// The event that was to be described.
    pub described: Option<String>,
}

impl Report {
    /// Whether no checker failed.
    #[must_use]
    pub const fn is_ok(&self) -> bool {
        self.findings.failed.is_empty()
    }

    /// Returns the checker that failed first.
    #[must_use]
    pub fn failed_checker(&self) -> Option<&'static str> {
        self.findings.failed.first().map(|finding| finding.checker)
    }

    /// Returns the command that replays the run.
    #[must_use]
    pub fn replay(&self) -> String {
        let (file, name) = &self.test;
        let seed = self.seed;
        format!("SEEDLOG_SEED={seed:#x} cargo test -p seedlog-chaos-tests --test {file} -- {name}")
    }

    /// Panics with the report if a checker failed.
    ///
    /// # Panics
    ///
    /// Panics if the run failed.
    pub fn assert_ok(&self) {
        assert!(self.is_ok(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_ok() || !self.trace.is_empty() {
            writeln!(f, "\n---- what went on ----\n{}", self.trace)?;
            writeln!(f, "\n---- faults ----\n{}", self.fault_lane)?;
            writeln!(f, "\n---- fault plan ----\n{}", self.plan.to_text())?;
        }
        for finding in &self.findings.failed {
            writeln!(f, "FAILED {finding}")?;
        }
        for (what, count) in &self.findings.allowed {
            writeln!(f, "allowed: {what} ({count} times)")?;
        }
        writeln!(
            f,
            "{:.3} simulated seconds, {} events, {} acknowledged writes, {} effective faults, digest {:016x}",
            self.simulated.as_secs_f64(),
            self.steps,
            self.tally.acknowledged,
            self.tally.effective_faults(),
            self.digest
        )?;
        write!(f, "replay: {}", self.replay())
    }
}
