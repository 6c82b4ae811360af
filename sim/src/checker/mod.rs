//! Checkers: what must hold, told by ghost state that the system under test never sees.
//!
//! Each streams over what happens and keeps its own small state; [`Ghost`] is what several of them share. An outcome is ok,
//! failed, or unknown: where a run went beyond what was promised, a checker says so instead of guessing.

use std::{collections::BTreeMap, fmt};

use seedlog_core::event::Event;

use crate::{
    disk::{DamageDone, Disk, Loss},
    ghost::{Ghost, LogView},
    history::Note,
    node::Probe,
    time::SimTime,
};

mod ack_honest;
mod ack_offset;
#[cfg(test)]
mod bench;
mod commit_durable;
mod commit_rule;
mod committed_agreement;
mod converges;
mod duplicate;
mod election_safety;
mod epoch_cache;
mod hw_monotonic_view;
mod hw_sound;
mod inconsistent_offsets;
mod leader_completeness;
mod log_matching;
mod loss_budget;
mod lost_write;
mod metadata_log;
mod min_isr_commit;
mod no_panic;
mod produce_answered;
mod quorum_completeness;
mod read_repeat;
mod real_time_order;
mod recovery_oracle;
mod rejoin;
mod replay_equal;
mod snapshot_log;
mod strong_isr;
mod trunc_below_hw;
mod trunc_converges;
mod unclean_exclusion;
mod vote_once;
mod zombie_controller;

/// A stretch of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nodes start, topics are made; nothing goes wrong.
    SetUp,
    /// Clients work and faults happen.
    Safety,
    /// No more faults; everything must recover within a bound.
    Settle,
    /// Fresh readers read everything.
    Drain,
}

/// Something a checker may look at.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'a> {
    /// A new phase begins.
    Phase(Phase),
    /// A client wrote a line of the history.
    Note {
        /// The client.
        client: usize,
        /// The line.
        note: &'a Note,
        /// The frame that made it write, if one did.
        cause: Option<Cause<'a>>,
    },
    /// A broker said what happens inside it.
    Event {
        /// The node.
        node: usize,
        /// What.
        event: &'a Event,
    },
    /// A broker took a step.
    Probe {
        /// The node.
        node: usize,
        /// Its state after it.
        probe: &'a Probe,
        /// The truth about its disk.
        disk: &'a Disk,
    },
    /// A node's process changed its state.
    Node {
        /// The node.
        node: usize,
        /// How.
        change: NodeChange<'a>,
        /// The truth about its disk, after it.
        disk: &'a Disk,
    },
}

/// The frame of a broker that a client acts on.
#[derive(Clone, Copy, Debug)]
pub struct Cause<'a> {
    /// The node that sent it.
    pub node: usize,
    /// When it left the node.
    pub left: SimTime,
    /// The step of the node's disk when it left.
    pub step: u64,
    /// The truth about the node's disk.
    pub disk: &'a Disk,
}

/// A change of a node's process or machine.
#[derive(Clone, Copy, Debug)]
pub enum NodeChange<'a> {
    /// A new incarnation starts.
    Started,
    /// It is ready for clients.
    Ready,
    /// The process died; the page cache stays.
    Crashed,
    /// The machine died.
    LostPower {
        /// What its logs held before, by place.
        before: &'a LogView,
        /// What it lost.
        loss: Loss,
    },
    /// It was asked to stop in good order.
    StopAsked,
    /// A sync failed, and the cache fell back to what the disk holds.
    LostDirty {
        /// What its logs held before, by place.
        before: &'a LogView,
    },
    /// It stopped as it was asked to.
    Stopped,
    /// It did not stop though it was asked to, and was killed.
    StopOverdue,
    /// It stopped by itself.
    GaveUp(&'a str),
    /// It panicked, or spun without an end.
    Panicked(&'a str),
    /// A file went bad while it was down.
    Damaged(&'a DamageDone),
    /// Its disk was replaced by an empty one.
    Wiped,
    /// Its disk acknowledged something that it did not do.
    Lied,
}

impl NodeChange<'_> {
    /// Whether the process is gone after it.
    #[must_use]
    pub const fn ends_process(&self) -> bool {
        match self {
            Self::Crashed
            | Self::LostPower { .. }
            | Self::Stopped
            | Self::StopOverdue
            | Self::GaveUp(_)
            | Self::Panicked(_) => true,
            Self::Started
            | Self::Ready
            | Self::StopAsked
            | Self::LostDirty { .. }
            | Self::Damaged(_)
            | Self::Wiped
            | Self::Lied => false,
        }
    }
}

/// When something was seen.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Simulated time.
    pub at: SimTime,
    /// The event of the run.
    pub step: u64,
}

/// Watches a run for one kind of broken promise.
pub trait Checker: fmt::Debug {
    /// Returns its name in the catalogue.
    fn name(&self) -> &'static str;
    /// Looks at one thing that happened; the ghost knows of it already.
    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>);
    /// Judges the whole run, after the drain.
    fn judge(&mut self, ghost: &Ghost, verdict: &mut Verdict<'_>) {
        let _ = (ghost, verdict);
    }
}

/// A broken promise, or one about which nothing can be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The checker.
    pub checker: &'static str,
    /// When it was found.
    pub at: SimTime,
    /// The event of the run.
    pub step: u64,
    /// What was promised.
    pub promised: String,
    /// What was seen.
    pub seen: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} at {} (event {})", self.checker, self.at, self.step)?;
        writeln!(f, "  promised: {}", self.promised)?;
        write!(f, "  seen:     {}", self.seen)
    }
}

/// All that the checkers found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Broken promises, in the order in which they were found.
    pub failed: Vec<Finding>,
    /// Questions that the run left open.
    pub unknown: Vec<Finding>,
    /// Things that the promises allow, by what they are.
    pub allowed: BTreeMap<&'static str, u64>,
}

/// Where one checker puts what it finds.
#[derive(Debug)]
pub struct Verdict<'a> {
    checker: &'static str,
    moment: Moment,
    findings: &'a mut Findings,
}

impl<'a> Verdict<'a> {
    /// Makes a place for the findings of a checker at a moment.
    pub const fn new(checker: &'static str, moment: Moment, findings: &'a mut Findings) -> Self {
        Self {
            checker,
            moment,
            findings,
        }
    }

    /// A promise was broken.
    pub fn fail(&mut self, promised: impl Into<String>, seen: impl Into<String>) {
        let finding = self.finding(promised.into(), seen.into());
        self.findings.failed.push(finding);
    }

    /// Nothing can be said.
    pub fn unknown(&mut self, promised: impl Into<String>, seen: impl Into<String>) {
        let finding = self.finding(promised.into(), seen.into());
        if self.findings.unknown.len() < UNKNOWN_KEPT {
            self.findings.unknown.push(finding);
        }
    }

    /// Something happened that the promises allow; it is counted.
    pub fn allow(&mut self, what: &'static str) {
        *self.findings.allowed.entry(what).or_default() += 1;
    }

    /// Returns when.
    #[must_use]
    pub const fn at(&self) -> SimTime {
        self.moment.at
    }

    fn finding(&self, promised: String, seen: String) -> Finding {
        Finding {
            checker: self.checker,
            at: self.moment.at,
            step: self.moment.step,
            promised,
            seen,
        }
    }
}

/// All checkers of a run, and what they found.
#[derive(Debug)]
pub struct Jury {
    ghost: Ghost,
    checkers: Vec<Box<dyn Checker>>,
    findings: Findings,
}

impl Jury {
    /// Seats checkers.
    #[must_use]
    pub fn new(ghost: Ghost, checkers: Vec<Box<dyn Checker>>) -> Self {
        Self {
            ghost,
            checkers,
            findings: Findings::default(),
        }
    }

    /// Shows them what happened.
    pub fn see(&mut self, moment: Moment, seen: &Seen<'_>) {
        self.ghost.see(moment.at, seen);
        for checker in &mut self.checkers {
            let mut verdict = Verdict::new(checker.name(), moment, &mut self.findings);
            checker.see(&self.ghost, seen, &mut verdict);
        }
    }

    /// Asks them for their judgement of the whole run.
    pub fn judge(&mut self, moment: Moment) {
        for checker in &mut self.checkers {
            let mut verdict = Verdict::new(checker.name(), moment, &mut self.findings);
            checker.judge(&self.ghost, &mut verdict);
        }
    }

    /// Returns what they found so far.
    #[must_use]
    pub const fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Returns what they share.
    #[must_use]
    pub const fn ghost(&self) -> &Ghost {
        &self.ghost
    }
}

/// Makes all checkers.
#[must_use]
pub fn all() -> Vec<Box<dyn Checker>> {
    vec![
        Box::new(no_panic::NoPanic),
        Box::<commit_durable::CommitDurable>::default(),
        Box::<hw_sound::HwSound>::default(),
        Box::<recovery_oracle::RecoveryOracle>::default(),
        Box::<epoch_cache::EpochCache>::default(),
        Box::<election_safety::ElectionSafety>::default(),
        Box::<vote_once::VoteOnce>::default(),
        Box::<quorum_completeness::QuorumCompleteness>::default(),
        Box::<commit_rule::CommitRule>::default(),
        Box::<replay_equal::ReplayEqual>::default(),
        Box::<snapshot_log::SnapshotLog>::default(),
        Box::<zombie_controller::ZombieController>::default(),
        Box::<unclean_exclusion::UncleanExclusion>::default(),
        Box::<leader_completeness::LeaderCompleteness>::default(),
        Box::<trunc_below_hw::TruncBelowHw>::default(),
        Box::new(log_matching::LogMatching),
        Box::<committed_agreement::CommittedAgreement>::default(),
        Box::<min_isr_commit::MinIsrCommit>::default(),
        Box::<ack_honest::AckHonest>::default(),
        Box::<strong_isr::StrongIsr>::default(),
        Box::<trunc_converges::TruncConverges>::default(),
        Box::<inconsistent_offsets::InconsistentOffsets>::default(),
        Box::<ack_offset::AckOffset>::default(),
        Box::<hw_monotonic_view::HwMonotonicView>::default(),
        Box::<read_repeat::ReadRepeat>::default(),
        // A node that is not there answers nothing: the cause is told first.
        Box::<rejoin::Rejoin>::default(),
        Box::new(converges::LeaderElected),
        Box::new(converges::MetadataConverges),
        Box::<converges::CommitReachesEnd>::default(),
        Box::new(converges::IsrRegrow),
        Box::new(converges::HwProgress),
        Box::<produce_answered::ProduceAnswered>::default(),
        Box::new(real_time_order::RealTimeOrder),
        Box::new(lost_write::LostWrite),
        Box::new(loss_budget::LossBudget),
        Box::new(duplicate::Duplicate),
    ]
}

const UNKNOWN_KEPT: usize = 20;
