//! A failure as a file: seed, planted bug, length and fault plan, to be replayed, edited and shrunk.

use std::{fmt, time::Duration};

use seedlog_core::planted::{Planted, PlantedSet};
use seedlog_sim::{
    broker::today,
    plan::{Plan, PlanError},
    report::Report,
    run::Watch,
    scenario::Scenario,
};

use crate::{drill, seeds, swarm::Family};

/// A run of a swarm whose plan may be another than the one its seed draws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capsule {
    /// The swarm.
    pub family: Family,
    /// The seed.
    pub seed: u64,
    /// The planted bug.
    pub bug: Option<Planted>,
    /// Length of the safety phase; as drawn if `None`.
    pub lasting_ms: Option<u64>,
    /// The faults.
    pub plan: Plan,
    /// What it fails with, as it was last seen.
    pub fails: Option<String>,
}

impl Capsule {
    /// Makes the capsule of a run as its seed draws it.
    #[must_use]
    pub fn of(family: Family, seed: u64, bug: Option<Planted>) -> Self {
        let planted = bug.map_or(PlantedSet::NONE, PlantedSet::only);
        Self {
            family,
            seed,
            bug,
            lasting_ms: None,
            plan: family.scenario(seed, planted).planned().clone(),
            fails: None,
        }
    }

    /// Returns the scenario.
    #[must_use]
    pub fn scenario(&self) -> Scenario {
        let planted = self.bug.map_or(PlantedSet::NONE, PlantedSet::only);
        let scenario = self.family.scenario(self.seed, planted);
        let scenario = scenario.plan(self.plan.clone());
        match self.lasting_ms {
            Some(millis) => scenario.lasting_ms(millis),
            None => scenario,
        }
    }

    /// Runs it.
    #[must_use]
    pub fn run(&self, watch: &Watch) -> Report {
        self.scenario().run_watched(self.seed, &today(), watch)
    }

    /// Reads a capsule.
    ///
    /// # Errors
    ///
    /// Says what is missing or wrong.
    pub fn from_text(text: &str) -> Result<Self, CapsuleError> {
        let mut capsule = Self {
            family: Family::default(),
            seed: 0,
            bug: None,
            lasting_ms: None,
            plan: Plan::from_text(text)?,
            fails: None,
        };
        let mut has_seed = false;
        for line in text.lines() {
            let Some((key, value)) = line.strip_prefix("# ").and_then(|l| l.split_once(": "))
            else {
                continue;
            };
            let wrong = || CapsuleError::Value(line.to_owned());
            match key {
                "seed" => {
                    capsule.seed = seeds::parse(value).ok_or_else(wrong)?;
                    has_seed = true;
                }
                "swarm" => capsule.family = Family::named(value).ok_or_else(wrong)?,
                "planted" => capsule.bug = Some(drill::bug(value).ok_or_else(wrong)?),
                "lasting-ms" => {
                    capsule.lasting_ms = Some(seeds::parse(value).ok_or_else(wrong)?);
                }
                "fails" => capsule.fails = Some(value.to_owned()),
                _ => {}
            }
        }
        if has_seed {
            Ok(capsule)
        } else {
            Err(CapsuleError::NoSeed)
        }
    }
}

impl fmt::Display for Capsule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# seed: {:#x}", self.seed)?;
        if self.family != Family::default() {
            writeln!(f, "# swarm: {}", self.family.name())?;
        }
        if let Some(bug) = self.bug {
            writeln!(f, "# planted: {}", bug.id())?;
        }
        if let Some(millis) = self.lasting_ms {
            writeln!(f, "# lasting-ms: {millis}")?;
        }
        if let Some(fails) = &self.fails {
            writeln!(f, "# fails: {fails}")?;
        }
        f.write_str(&self.plan.to_text())
    }
}

/// Names a failure by what does not change when its run is shrunk: the checker and the promise, numbers left out.
#[must_use]
pub fn fingerprint(report: &Report) -> Option<String> {
    let finding = report.findings.failed.first()?;
    let promise: String = finding
        .promised
        .chars()
        .filter(|c| !c.is_ascii_digit())
        .collect();
    Some(format!("{}, {}", finding.checker, promise.trim()))
}

/// Returns how far into a run its first finding is.
#[must_use]
pub fn failed_after(report: &Report) -> Option<Duration> {
    let finding = report.findings.failed.first()?;
    Some(finding.at - seedlog_sim::time::SimTime::START)
}

/// A file is no capsule.
#[derive(Debug)]
pub enum CapsuleError {
    /// A line of the plan is no fault.
    Plan(PlanError),
    /// A heading has a value that is none of its.
    Value(String),
    /// There is no seed.
    NoSeed,
}

impl From<PlanError> for CapsuleError {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
    }
}

impl fmt::Display for CapsuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(error) => error.fmt(f),
            Self::Value(line) => write!(f, "not understood: {line}"),
            Self::NoSeed => f.write_str("there is no line `# seed: …`"),
        }
    }
}

impl std::error::Error for CapsuleError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capsule_survives_its_text() {
        for family in [Family::Single, Family::Cluster] {
            let mut capsule = Capsule::of(family, 7, Some(Planted::B44));
            capsule.lasting_ms = Some(1_234);
            capsule.fails = Some("CommitDurable, x".to_owned());
            let text = capsule.to_string();
            assert_eq!(Capsule::from_text(&text).ok(), Some(capsule));
        }
    }

    #[test]
    fn capsule_without_a_seed_is_refused_by_name() {
        let error = Capsule::from_text("# planted: B44\n").err();
        assert!(error.is_some_and(|error| error.to_string().contains("seed")));
        let error = Capsule::from_text("# seed: 1\n# planted: B99\n").err();
        assert!(error.is_some_and(|error| error.to_string().contains("B99")));
    }
}
