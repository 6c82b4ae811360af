//! The drill: bugs that real logs had are planted one at a time, and the swarm, not told which, must find each.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

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

/// All drills. A bug that one broker alone can show is looked for there; the others need several.
pub const DRILLS: &[Drill] = &[
    single(Planted::B33, &["CommitDurable", "lost-write"], &[0, 1]),
    single(Planted::B34, &["RecoveryOracle", "Rejoin"], &[0, 2]),
    single(
        Planted::B43,
        &["CommitDurable", "RecoveryOracle", "lost-write"],
        &[1, 2],
    ),
    single(
        Planted::B44,
        &["CommitDurable", "RecoveryOracle", "lost-write"],
        &[1, 2],
    ),
    single(Planted::B45, &["RecoveryOracle", "Rejoin"], &[0, 1]),
    single(Planted::B46, &["RecoveryOracle", "CommitDurable"], &[0, 2]),
    single(Planted::B47, &["RecoveryOracle", "lost-write"], &[30]),
    single(
        Planted::B76,
        &["IdentityRule", "RecoveryOracle", "lost-write"],
        &[],
    ),
    cluster(
        Planted::B01,
        &["StrongIsr", "LeaderCompleteness", "lost-write"],
        &[],
    ),
    cluster(Planted::B03, &["HWSound", "NoPanic", "HWProgress"], &[]),
    cluster(
        Planted::B04,
        &[
            "QuorumSuperset",
            "StrongIsr",
            "lost-write",
            "LeaderCompleteness",
        ],
        &[],
    ),
    cluster(
        Planted::B05,
        &["MinIsrCommit", "StrongIsr", "AckHonest", "lost-write"],
        &[],
    ),
    cluster(
        Planted::B06,
        &["UncleanExclusion", "StrongIsr", "lost-write"],
        &[],
    ),
    cluster(
        Planted::B09,
        &["inconsistent-offsets", "HWSound", "ReadRepeat"],
        &[],
    ),
    cluster(
        Planted::B10,
        &["HWMonotonicView", "nonmonotonic-poll", "poll-skip"],
        &[],
    ),
    cluster(
        Planted::B11,
        &["HWProgress", "IsrRegrow", "CommitReachesEnd"],
        &[],
    ),
    cluster(
        Planted::B13,
        &[
            "LeaderCompleteness",
            "StrongIsr",
            "TruncBelowHW",
            "lost-write",
        ],
        &[],
    ),
    cluster(
        Planted::B14,
        &["CommittedAgreement", "LogMatching", "inconsistent-offsets"],
        &[],
    ),
    cluster(
        Planted::B15,
        &["LogMatching", "CommittedAgreement", "inconsistent-offsets"],
        &[],
    ),
    cluster(Planted::B17, &["StrongIsr", "LogMatching"], &[]),
    cluster(
        Planted::B18,
        &[
            "EpochCache",
            "LogMatching",
            "TruncConverges",
            "RecoveryOracle",
            "LeaderCompleteness",
            "IsrRegrow",
        ],
        &[],
    ),
    cluster(Planted::B19, &["UncleanExclusion", "LeaderElected"], &[]),
    cluster(
        Planted::B20,
        &["UncleanExclusion", "LeaderCompleteness", "lost-write"],
        &[],
    ),
    cluster(
        Planted::B21,
        &["UncleanExclusion", "StrongIsr", "lost-write"],
        &[],
    ),
    cluster(Planted::B23, &["ElectionSafety", "VoteOnce"], &[]),
    cluster(Planted::B24, &["VoteOnce", "ElectionSafety"], &[]),
    cluster(Planted::B26, &["LeaderCompleteness", "lost-write"], &[]),
    cluster(
        Planted::B27,
        &["LeaderCompleteness", "CommitRule", "lost-write"],
        &[],
    ),
    cluster(Planted::B29, &["CommittedAgreement", "ReplayEqual"], &[]),
    cluster(
        Planted::B30,
        &["MatchSound", "CommitRule", "lost-write"],
        &[],
    ),
    cluster(
        Planted::B33,
        &["AckHonest", "CommitDurable", "lost-write"],
        &[],
    ),
    cluster(
        Planted::B36,
        &["SnapshotLog", "RecoveryOracle", "NoLivelock"],
        &[],
    ),
    cluster(
        Planted::B74,
        &["ZombieController", "AlterPartitionClears"],
        &[],
    ),
    cluster(
        Planted::B80,
        &["poll-skip", "nonmonotonic-poll", "consume-skip"],
        &[],
    ),
];

const fn single(bug: Planted, checkers: &'static [&'static str], seeds: &'static [u64]) -> Drill {
    Drill {
        bug,
        family: Family::Single,
        checkers,
        seeds,
    }
}

const fn cluster(bug: Planted, checkers: &'static [&'static str], seeds: &'static [u64]) -> Drill {
    Drill {
        bug,
        family: Family::Cluster,
        checkers,
        seeds,
    }
}

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
    /// The seeds that fail with the bug and without it, and so say nothing of it.
    pub mute: BTreeSet<u64>,
}

/// How long the swarm looks for a bug.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// How many seeds it may run, the first ones.
    pub seeds: u64,
    /// After how many seeds that find it it stops.
    pub enough: usize,
    /// Threads.
    pub jobs: usize,
}

/// Lets the swarm look for a bug. `fails_anyway` says of a seed whether it fails without the bug too.
#[must_use]
pub fn survey(
    drill: &'static Drill,
    search: &Search,
    mut fails_anyway: impl FnMut(u64) -> bool,
) -> Survey {
    let mut survey = Survey {
        drill,
        seeds: 0,
        found: BTreeMap::new(),
        mute: BTreeSet::new(),
    };
    let make = |seed| run(drill.family, seed, Some(drill.bug));
    sweep::run(0..search.seeds, search.jobs, make, |report, _| {
        survey.seeds += 1;
        if let Some(checker) = report.failed_checker() {
            if fails_anyway(report.seed) {
                survey.mute.insert(report.seed);
            } else {
                survey.found.insert(report.seed, checker);
            }
        }
        survey.found.len() < search.enough
    });
    survey
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
        let (id, seeds) = (self.drill.bug.id(), self.seeds);
        match self.found.first_key_value() {
            Some((first, _)) => write!(f, "{id} | {first} | {} of {seeds} |", self.found.len())?,
            None => write!(f, "{id} | not found | 0 of {seeds} |")?,
        }
        for (at, (checker, count)) in self.by_checker().into_iter().enumerate() {
            let named = self.drill.checkers.contains(&checker);
            let (comma, note) = (
                if at == 0 { "" } else { "," },
                if named { "" } else { " (not named)" },
            );
            write!(f, "{comma} {checker} {count}{note}")?;
        }
        if !self.mute.is_empty() {
            write!(f, " ({} fail without it too)", self.mute.len())?;
        }
        Ok(())
    }
}

/// Finds a bug by its catalogue id.
#[must_use]
pub fn bug(id: &str) -> Option<Planted> {
    Planted::ALL.into_iter().find(|bug| bug.id() == id)
}
