//! The drill: bugs that real logs had are planted one at a time, and the swarm, not told which, must find each.

use seedlog_core::planted::{Planted, PlantedSet};
use seedlog_sim::{broker::today, report::Report};

use crate::{seeds, swarm, sweep};

/// A planted bug and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Drill {
    /// The bug.
    pub bug: Planted,
    /// The checkers that may be the first to find it, by the bug catalogue.
    pub checkers: &'static [&'static str],
    /// Seeds of the swarm that are known to find it; none yet for B45 and B47.
    pub seeds: &'static [u64],
}

/// All drills.
pub const DRILLS: &[Drill] = &[
    Drill {
        bug: Planted::B33,
        checkers: &["CommitDurable", "lost-write"],
        seeds: &[1, 2],
    },
    Drill {
        bug: Planted::B34,
        checkers: &["RecoveryOracle", "Rejoin"],
        seeds: &[2, 4],
    },
    Drill {
        bug: Planted::B43,
        checkers: &["CommitDurable", "RecoveryOracle", "lost-write"],
        seeds: &[1, 2],
    },
    Drill {
        bug: Planted::B44,
        checkers: &["CommitDurable", "RecoveryOracle", "lost-write"],
        seeds: &[1, 2],
    },
    Drill {
        bug: Planted::B45,
        checkers: &["RecoveryOracle", "Rejoin"],
        seeds: &[],
    },
    Drill {
        bug: Planted::B46,
        checkers: &["RecoveryOracle", "CommitDurable"],
        seeds: &[1, 2],
    },
    Drill {
        bug: Planted::B47,
        checkers: &["RecoveryOracle", "lost-write"],
        seeds: &[],
    },
];

/// Runs a seed of the swarm with a bug planted, or with none.
#[must_use]
pub fn run(seed: u64, bug: Option<Planted>) -> Report {
    let planted = bug.map_or(PlantedSet::NONE, PlantedSet::only);
    swarm::scenario(seed, planted).run_watched(seed, &today(), &seeds::watch())
}

/// Lets the swarm look for a bug; returns the report of the lowest seed that finds it.
#[must_use]
pub fn hunt(bug: Planted, seeds: std::ops::Range<u64>, jobs: usize) -> Option<Report> {
    let mut found: Option<Report> = None;
    let make = |seed| run(seed, Some(bug));
    sweep::run(seeds, jobs, make, |report, _| {
        let lower = found.as_ref().is_none_or(|found| report.seed < found.seed);
        if !report.is_ok() && lower {
            found = Some(report.clone());
        }
        found.is_none()
    });
    found
}

/// Finds a bug by its catalogue id.
#[must_use]
pub fn bug(id: &str) -> Option<Planted> {
    Planted::ALL.into_iter().find(|bug| bug.id() == id)
}
