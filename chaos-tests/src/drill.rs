//! The drill: bugs that real logs had are planted one at a time, and the swarm, not told which, must find each.

use std::{collections::BTreeMap, fmt};

use seedlog_core::planted::{Planted, PlantedSet};
use seedlog_sim::{broker::today, report::Report};

use crate::{seeds, swarm::Family, sweep};

/// A planted bug and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Drill {
    /// The bug.
    pub bug: Planted,
    /// The swarm that looks for it.
    pub family: Family,
    /// The checkers that may be the first to find it, by the bug catalogue.
    pub checkers: &'static [&'static str],
    /// Seeds of the swarm that are known to find it.
    pub seeds: &'static [u64],
}

/// All drills.
pub const DRILLS: &[Drill] = &[
    Drill {
        bug: Planted::B33,
        family: Family::Single,
        checkers: &["CommitDurable", "lost-write"],
        seeds: &[0, 1],
    },
    Drill {
        bug: Planted::B34,
        family: Family::Single,
        checkers: &["RecoveryOracle", "Rejoin"],
        seeds: &[0, 2],
    },
    Drill {
        bug: Planted::B43,
        family: Family::Single,
        checkers: &["CommitDurable", "RecoveryOracle", "lost-write"],
        seeds: &[1, 2],
    },
    Drill {
        bug: Planted::B44,
        family: Family::Single,
        checkers: &["CommitDurable", "RecoveryOracle", "lost-write"],
        seeds: &[1, 2],
    },
    Drill {
        bug: Planted::B45,
        family: Family::Single,
        checkers: &["RecoveryOracle", "Rejoin"],
        seeds: &[0, 1],
    },
    Drill {
        bug: Planted::B46,
        family: Family::Single,
        checkers: &["RecoveryOracle", "CommitDurable"],
        seeds: &[0, 2],
    },
    Drill {
        bug: Planted::B47,
        family: Family::Single,
        checkers: &["RecoveryOracle", "lost-write"],
        seeds: &[30],
    },
];

/// Runs a seed of a swarm with a bug planted, or with none.
#[must_use]
pub fn run(family: Family, seed: u64, bug: Option<Planted>) -> Report {
    let planted = bug.map_or(PlantedSet::NONE, PlantedSet::only);
    let scenario = family.scenario(seed, planted);
    scenario.run_watched(seed, &today(), &seeds::watch())
}

/// What the swarm finds of a bug.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The drill.
    pub drill: &'static Drill,
    /// How many seeds were run.
    pub seeds: u64,
    /// The seeds that find the bug, and the checker that found it first in each.
    pub found: BTreeMap<u64, &'static str>,
}

/// Lets the swarm look for a bug with the first seeds.
#[must_use]
pub fn survey(drill: &'static Drill, seeds: u64, jobs: usize) -> Survey {
    let mut found = BTreeMap::new();
    let make = |seed| run(drill.family, seed, Some(drill.bug));
    sweep::run(0..seeds, jobs, make, |report, _| {
        if let Some(checker) = report.failed_checker() {
            found.insert(report.seed, checker);
        }
        true
    });
    Survey {
        drill,
        seeds,
        found,
    }
}

impl Survey {
    /// Whether the bug was found: by the first seed that finds it, and by most that do, first by a checker that the catalogue
    /// names.
    #[must_use]
    pub fn is_found_as_named(&self) -> bool {
        let named = |checker: &&&str| self.drill.checkers.contains(*checker);
        let by_first = self.found.values().next();
        let by_named = self.found.values().filter(named).count();
        by_first.is_some_and(|checker| named(&checker)) && 2 * by_named > self.found.len()
    }

    /// Returns how often each checker was the first.
    #[must_use]
    pub fn by_checker(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for checker in self.found.values() {
            *counts.entry(*checker).or_default() += 1;
        }
        counts
    }
}

impl fmt::Display for Survey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.drill.bug.id();
        let Some((first, _)) = self.found.first_key_value() else {
            return write!(f, "{id} | not found | 0 |");
        };
        write!(f, "{id} | {first} | {} |", self.found.len())?;
        for (checker, count) in self.by_checker() {
            let named = self.drill.checkers.contains(&checker);
            let note = if named { "" } else { " (not named)" };
            write!(f, " {checker} {count}{note}")?;
        }
        Ok(())
    }
}

/// Finds a bug by its catalogue id.
#[must_use]
pub fn bug(id: &str) -> Option<Planted> {
    Planted::ALL.into_iter().find(|bug| bug.id() == id)
}
