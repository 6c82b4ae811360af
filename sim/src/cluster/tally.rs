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
    /// How often a partition got another leader while writes were under way.
    pub leader_changes: u64,
    /// Broker starts.
    pub starts: u64,
    /// Broker events, by name.
    pub events: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Returns how many faults had an effect, each counted once: what follows from another fault is left out.
    #[must_use]
    pub fn effective_faults(&self) -> u64 {
        let caused = |kind: &&str| !CONSEQUENCES.contains(kind);
        let kinds = self.faults.iter().filter(|(kind, _)| caused(kind));
        kinds.map(|(_, fault)| fault.effective).sum()
    }

    pub(super) fn fault(&mut self, kind: &'static str) -> &mut FaultTally {
        self.faults.entry(kind).or_default()
    }

    /// Disk faults take effect in the device, when their operation comes.
    pub(super) fn add_disk(&mut self, disk: DiskTally) {
        for (kind, count) in [
            ("failed-sync", disk.failed_syncs),
            ("write-error", disk.failed_writes),
            ("disk-full", disk.full),
            ("read-error", disk.failed_reads),
            ("lost-write", disk.lost_writes),
            ("lying-sync", disk.lies),
            ("disk-stall", disk.stalls),
            (TORN_WRITE, disk.torn),
        ] {
            if count > 0 {
                self.fault(kind).effective += count;
            }
        }
    }
}

/// What is counted beside the fault that it is a part of.
pub const CONSEQUENCES: &[&str] = &[CRASH_AT_OPERATION, ENTRY_LOST, TORN_WRITE, UNSYNCED_LOSS];
/// A process or machine died at a chosen storage operation: before, within or after its effect.
pub(super) const CRASH_AT_OPERATION: &str = "crash-at-op";
/// A power loss undid a change of a folder's entries.
pub(super) const ENTRY_LOST: &str = "entry-lost";
/// A write reached the disk in part.
const TORN_WRITE: &str = "torn-write";
/// A power loss took unsynced bytes of a file.
pub(super) const UNSYNCED_LOSS: &str = "unsynced-loss";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_counts_once_though_much_follows_from_it() {
        let mut tally = Tally::default();
        for kind in ["power-loss", UNSYNCED_LOSS, ENTRY_LOST, CRASH_AT_OPERATION] {
            tally.fault(kind).effective += 1;
        }
        tally.add_disk(DiskTally {
            torn: 3,
            stalls: 1,
            ..DiskTally::default()
        });
        assert_eq!(tally.faults["torn-write"].effective, 3);
        assert_eq!(tally.effective_faults(), 2);
    }
}
