//! The fault plan as data: what goes wrong, and when. Drawn from a seed, but replayable and editable without it.

use std::fmt;

use seedlog_core::storage::FaultKind;
use serde::{Deserialize, Serialize};

pub use crate::aim::Aim;
use crate::{
    disk::{Damage, Survival},
    network::Cut,
};

/// Everything that will go wrong in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The faults; each fires at most once.
    pub faults: Vec<PlannedFault>,
}

/// One fault and its moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedFault {
    /// When it happens.
    pub when: Trigger,
    /// What happens.
    pub what: Fault,
}

/// The moment of a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trigger {
    /// At a point in simulated time, in milliseconds since the start of the safety phase.
    At(u64),
    /// At the nth matching storage operation of a node since the start of the safety phase, counted from 1.
    Storage {
        /// The node.
        node: usize,
        /// The kind of operation.
        kind: OpKind,
        /// The files.
        file: Glob,
        /// Which one.
        nth: u64,
        /// Before, within or after its effect.
        moment: Moment,
    },
    /// After the nth decisive event of a node since the start of the safety phase, counted from 1.
    Event {
        /// The node.
        node: usize,
        /// What happens there.
        event: Decisive,
        /// Which one.
        nth: u64,
    },
}

/// Where in a storage operation a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moment {
    /// The operation never reaches the disk.
    Before,
    /// So many of a thousand bytes of a write reach the disk; any other operation takes no effect.
    Within(u32),
    /// It takes effect, but its completion never arrives.
    After,
}

/// A kind of storage operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum OpKind {
    /// Any of them.
    Any,
    /// List a folder.
    List,
    /// Create a folder.
    CreateDir,
    /// Open a file.
    Open,
    /// Write bytes.
    Write,
    /// Read bytes.
    Read,
    /// Cut or extend a file.
    Truncate,
    /// Make files and folders durable.
    Sync,
    /// Rename a file or folder.
    Rename,
    /// Remove a file.
    Remove,
    /// Remove a folder.
    RemoveDir,
    /// Forget a file id.
    Close,
}

impl OpKind {
    /// Whether a trigger for this kind fires at an operation of `other`.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self == Self::Any || self == other
    }
}

/// An event of a node at which faults do most harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Decisive {
    /// The broker became ready.
    Ready,
    /// A log opened.
    LogOpened,
    /// Recovery cut a tail.
    TailCut,
    /// A segment rolled.
    SegmentRolled,
    /// A high watermark moved.
    HighWatermark,
    /// The log start moved.
    LogStartMoved,
    /// A leader epoch began.
    BecameLeader,
    /// An answer left for a client.
    Answered,
}

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// The process dies; its page cache stays. It starts again after a while.
    Crash {
        /// The node.
        node: usize,
        /// How long it stays down, milliseconds.
        down_ms: u64,
    },
    /// The machine loses power.
    PowerLoss {
        /// The node.
        node: usize,
        /// How long it stays down, milliseconds.
        down_ms: u64,
        /// What of the unsynced bytes survives.
        survival: Survival,
    },
    /// All machines lose power at once.
    PowerLossAll {
        /// How long they stay down, milliseconds.
        down_ms: u64,
        /// What of the unsynced bytes survives.
        survival: Survival,
    },
    /// The process stops and goes on later, none the wiser.
    Pause {
        /// The node.
        node: usize,
        /// For how long, milliseconds.
        for_ms: u64,
    },
    /// The broker is asked to stop in good order, and starts again after a while.
    CleanStop {
        /// The node.
        node: usize,
        /// How long it stays down, milliseconds.
        down_ms: u64,
    },
    /// The node crashes and comes back with an empty disk.
    Wipe {
        /// The node.
        node: usize,
        /// How long it stays down, milliseconds.
        down_ms: u64,
    },
    /// The node crashes, a file of its goes bad, and it starts again.
    Damage {
        /// The node.
        node: usize,
        /// In what way.
        damage: Damage,
        /// The files to draw from.
        file: Glob,
        /// How long it stays down, milliseconds.
        down_ms: u64,
        /// Whether it is stopped in good order before.
        clean: bool,
    },
    /// A disk fault that waits for its operations.
    Disk {
        /// The node.
        node: usize,
        /// What.
        fault: PlannedDiskFault,
    },
    /// A clock goes wrong.
    Clock {
        /// The node.
        node: usize,
        /// How.
        fault: ClockFault,
    },
    /// Connections of a node go wrong.
    Link {
        /// The node.
        node: usize,
        /// How.
        fault: LinkFault,
    },
    /// Something happens to whoever has a role when its moment comes.
    Aimed {
        /// The role.
        at: Aim,
        /// What, with any node in it.
        fault: Box<Self>,
    },
    /// Nothing gets through in one direction.
    Cut {
        /// From whom to whom.
        cut: Cut,
        /// For how long, milliseconds.
        for_ms: u64,
    },
}

/// A disk fault in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlannedDiskFault {
    /// Syncs of matching files fail.
    FailSync {
        /// Which files.
        file: Glob,
        /// How many times.
        times: u32,
    },
    /// Writes to matching files fail.
    FailWrite {
        /// Which files.
        file: Glob,
        /// How many times.
        times: u32,
        /// No space left, or a device error.
        no_space: bool,
        /// Some first bytes are written before the error.
        short: bool,
    },
    /// Reads of matching files fail.
    FailRead {
        /// Which files.
        file: Glob,
        /// How many times.
        times: u32,
    },
    /// A write is acknowledged and goes nowhere.
    LoseWrite {
        /// Which files.
        file: Glob,
    },
    /// Syncs lie.
    Lie {
        /// For how long, milliseconds.
        for_ms: u64,
    },
    /// Operations take effect late.
    Stall {
        /// For how long, milliseconds.
        for_ms: u64,
        /// Whether only syncs stall.
        syncs_only: bool,
    },
    /// The disk has only so much room left.
    Full {
        /// Bytes left.
        room: u64,
        /// For how long, milliseconds.
        for_ms: u64,
    },
}

impl PlannedDiskFault {
    /// The fault kind of a failing write.
    #[must_use]
    pub const fn write_fault(no_space: bool) -> FaultKind {
        if no_space {
            FaultKind::NoSpace
        } else {
            FaultKind::Io
        }
    }
}

/// A clock fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClockFault {
    /// The wall clock jumps.
    Jump {
        /// How far, milliseconds; negative is back.
        by_ms: i64,
    },
    /// Both clocks run fast or slow until the heal.
    Drift {
        /// Parts per million.
        ppm: i64,
    },
    /// The wall clock flips between two values.
    Strobe {
        /// How far apart, milliseconds.
        by_ms: i64,
        /// How fast, milliseconds.
        period_ms: u64,
        /// For how long, milliseconds.
        for_ms: u64,
    },
    /// The monotonic clock stands still.
    Stall {
        /// For how long, milliseconds.
        for_ms: u64,
    },
}

/// A fault of a node's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkFault {
    /// All connections are reset; frames in flight are lost in both directions.
    Reset,
    /// All connections lose what goes out, without a sign; the peers learn nothing.
    HalfOpen,
    /// New connections are refused.
    Refuse {
        /// For how long, milliseconds.
        for_ms: u64,
    },
    /// New connections hang.
    Hang {
        /// For how long, milliseconds.
        for_ms: u64,
    },
    /// Everything takes longer.
    Slow {
        /// How many milliseconds longer.
        by_ms: u64,
        /// For how long, milliseconds.
        for_ms: u64,
    },
}

impl Fault {
    /// Returns the kind, as it is counted.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Aimed { fault, .. } => fault.kind(),
            Self::Crash { .. } => "crash",
            Self::PowerLoss { .. } => "power-loss",
            Self::PowerLossAll { .. } => "power-loss-all",
            Self::Pause { .. } => "pause",
            Self::CleanStop { .. } => "clean-stop",
            Self::Wipe { .. } => "wipe",
            Self::Damage { damage, .. } => damage.kind(),
            Self::Disk { fault, .. } => match fault {
                PlannedDiskFault::FailSync { .. } => "failed-sync",
                PlannedDiskFault::FailWrite { .. } => "write-error",
                PlannedDiskFault::FailRead { .. } => "read-error",
                PlannedDiskFault::LoseWrite { .. } => "lost-write",
                PlannedDiskFault::Lie { .. } => "lying-sync",
                PlannedDiskFault::Stall { .. } => "disk-stall",
                PlannedDiskFault::Full { .. } => "disk-full",
            },
            Self::Clock { fault, .. } => match fault {
                ClockFault::Jump { .. } => "clock-jump",
                ClockFault::Drift { .. } => "clock-drift",
                ClockFault::Strobe { .. } => "clock-strobe",
                ClockFault::Stall { .. } => "clock-stall",
            },
            Self::Link { fault, .. } => match fault {
                LinkFault::Reset => "link-reset",
                LinkFault::HalfOpen => "half-open",
                LinkFault::Refuse { .. } => "link-refused",
                LinkFault::Hang { .. } => "link-hang",
                LinkFault::Slow { .. } => "link-slow",
            },
            Self::Cut { cut, .. } if cut.listener.is_some() => "control-cut",
            Self::Cut { .. } => "cut",
        }
    }

    /// Returns the node it concerns; all nodes if `None`.
    #[must_use]
    pub const fn node(&self) -> Option<usize> {
        match self {
            Self::PowerLossAll { .. } | Self::Cut { .. } | Self::Aimed { .. } => None,
            Self::Crash { node, .. }
            | Self::PowerLoss { node, .. }
            | Self::Pause { node, .. }
            | Self::CleanStop { node, .. }
            | Self::Wipe { node, .. }
            | Self::Damage { node, .. }
            | Self::Disk { node, .. }
            | Self::Clock { node, .. }
            | Self::Link { node, .. } => Some(*node),
        }
    }
}

impl Plan {
    /// Writes the plan as text that [`Plan::from_text`] reads.
    #[must_use]
    pub fn to_text(&self) -> String {
        let lines = self.faults.iter().map(|fault| {
            serde_json::to_string(fault).unwrap_or_else(|error| format!("\"{error}\""))
        });
        let mut text = lines.collect::<Vec<_>>().join("\n");
        text.push('\n');
        text
    }

    /// Reads a plan: one fault a line, empty lines and lines that begin with `#` left out.
    ///
    /// # Errors
    ///
    /// Names the line that is no fault.
    pub fn from_text(text: &str) -> Result<Self, PlanError> {
        let mut faults = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let fault = serde_json::from_str(text).map_err(|source| PlanError { line, source })?;
            faults.push(fault);
        }
        Ok(Self { faults })
    }
}

/// A line of a plan is no fault.
#[derive(Debug, thiserror::Error)]
#[error("line {line} of the plan is no fault: {source}")]
pub struct PlanError {
    line: usize,
    source: serde_json::Error,
}

/// A pattern for paths: `*` stands for any characters, `/` included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Glob(String);

impl Glob {
    /// Makes a pattern.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        Self(pattern.to_owned())
    }

    /// Matches everything.
    #[must_use]
    pub fn any() -> Self {
        Self::new("*")
    }

    /// Whether the pattern fits a path.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        let mut pieces = self.0.split('*');
        let first = pieces.next().unwrap_or_default();
        let Some(mut rest) = path.strip_prefix(first) else {
            return false;
        };
        let mut pieces = pieces.peekable();
        if pieces.peek().is_none() {
            return rest.is_empty();
        }
        while let Some(piece) = pieces.next() {
            if pieces.peek().is_none() {
                return rest.ends_with(piece);
            }
            match rest.find(piece) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        true
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_matches_whole_paths() {
        for (pattern, path, fits) in [
            ("*", "", true),
            ("*.log", "t-0/00.log", true),
            ("*.log", "t-0/00.log.deleted", false),
            ("t-*/0*.index", "t-0/00.index", true),
            ("t-0", "t-0/00.index", false),
            ("*a*a", "a", false),
        ] {
            assert_eq!(Glob::new(pattern).matches(path), fits, "{pattern} {path}");
        }
    }

    #[test]
    fn plan_is_text_that_people_can_edit() {
        let plan = Plan {
            faults: vec![
                PlannedFault {
                    when: Trigger::At(1_500),
                    what: Fault::PowerLoss {
                        node: 0,
                        down_ms: 20,
                        survival: Survival::Scattered,
                    },
                },
                PlannedFault {
                    when: Trigger::Storage {
                        node: 0,
                        kind: OpKind::Sync,
                        file: Glob::new("*.log"),
                        nth: 3,
                        moment: Moment::After,
                    },
                    what: Fault::Crash {
                        node: 0,
                        down_ms: 5,
                    },
                },
            ],
        };
        let text = plan.to_text();
        assert_eq!(text.lines().count(), 2);
        let edited = format!("# by hand\n\n{text}");
        assert_eq!(Plan::from_text(&edited).unwrap(), plan);
        let error = Plan::from_text("{\"when\":1}").unwrap_err().to_string();
        assert!(error.starts_with("line 1 of the plan"), "{error}");
    }
}
