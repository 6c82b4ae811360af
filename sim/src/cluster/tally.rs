//! What happened in a run, in numbers.

use std::collections::BTreeMap;

use crate::disk::DiskTally;

/// How often a kind of fault was planned, injected and had an effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultTally {
    /// Its moment came.
    pub fired: u64,
    /// It changed something.
    pub effective: u64,
    /// The fault budget or the state of the node ruled it out.
    pub refused: u64,
}

/// Numbers of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, FaultTally>,
    /// Inputs fed to brokers.
    pub inputs: u64,
    /// Frames sent by brokers.
    pub frames: u64,
    /// Storage operations submitted by brokers.
    pub storage_ops: u64,
    /// Produces acknowledged.
    pub acknowledged: u64,
    /// The topics of the scenario exist.
    pub topics_ready: bool,
    /// Broker starts.
    pub starts: u64,
    /// Broker events, by name.
    pub events: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Returns how many faults had an effect.
    #[must_use]
    pub fn effective_faults(&self) -> u64 {
        self.faults.values().map(|fault| fault.effective).sum()
    }

    pub(super) fn fault(&mut self, kind: &'static str) -> &mut FaultTally {
        self.faults.entry(kind).or_default()
    }

    /// Disk faults take effect in the device, when their operation comes.
    pub(super) fn add_disk(&mut self, disk: DiskTally) {
        for (kind, count) in [
            ("failed-sync", disk.failed_syncs),
            ("write-error", disk.failed_writes),
            ("disk-full", disk.no_space),
            ("read-error", disk.failed_reads),
            ("lost-write", disk.lost_writes),
            ("lying-sync", disk.lies),
            ("disk-stall", disk.stalled.min(1)),
            ("torn-write", disk.torn),
        ] {
            if count > 0 {
                self.fault(kind).effective += count;
            }
        }
    }
}
