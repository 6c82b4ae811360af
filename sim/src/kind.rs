//! The kinds of faults that the nemesis draws, and the names under which faults are counted.

/// A kind of fault that a seed may have or leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Process kill.
    Crash,
    /// Power loss of one machine.
    PowerLoss,
    /// Process kill, then power loss before or after the restart.
    CrashThenPowerLoss,
    /// Pause of a process.
    Pause,
    /// Orderly stop and start.
    CleanStop,
    /// Several kills in a row.
    RestartStorm,
    /// Failing syncs.
    SyncError,
    /// Failing writes.
    WriteError,
    /// Failing reads.
    ReadError,
    /// Slow disk.
    DiskStall,
    /// Full disk.
    DiskFull,
    /// Damaged files that every start can make again.
    IndexDamage,
    /// Clock jumps, drift, strobe, stall.
    Clock,
    /// Resets, refused and hanging connections, half-open ones, slow links.
    Link,
}

impl Kind {
    /// Whether it takes effect at any moment: it waits for no operation of the broker.
    pub(crate) const fn is_sure(self) -> bool {
        matches!(
            self,
            Self::Crash
                | Self::PowerLoss
                | Self::Pause
                | Self::CleanStop
                | Self::IndexDamage
                | Self::Clock
                | Self::Link
        )
    }

    /// All kinds.
    pub const ALL: &'static [Self] = &[
        Self::Crash,
        Self::PowerLoss,
        Self::CrashThenPowerLoss,
        Self::Pause,
        Self::CleanStop,
        Self::RestartStorm,
        Self::SyncError,
        Self::WriteError,
        Self::ReadError,
        Self::DiskStall,
        Self::DiskFull,
        Self::IndexDamage,
        Self::Clock,
        Self::Link,
    ];
}

/// All kinds of faults within the budget and what follows from them, by the names under which they are counted.
pub const KINDS: &[&str] = &[
    "crash",
    "crash-at-op",
    "power-loss",
    "unsynced-loss",
    "entry-lost",
    "torn-write",
    "pause",
    "clean-stop",
    "failed-sync",
    "write-error",
    "read-error",
    "disk-stall",
    "disk-full",
    "bit-flip",
    "file-cut",
    "file-zeroed",
    "file-lost",
    "clock-jump",
    "clock-drift",
    "clock-strobe",
    "clock-stall",
    "link-reset",
    "half-open",
    "link-refused",
    "link-hang",
    "link-slow",
];

/// The kinds that only a cluster of several brokers knows, beside [`KINDS`].
pub const CLUSTER_KINDS: &[&str] = &["cut", "control-cut", "power-loss-all"];
