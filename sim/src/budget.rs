//! The fault budget: how far a run may go before the promises of the system end.

use serde::{Deserialize, Serialize};

use crate::{
    disk::Damage,
    plan::{Fault, PlannedDiskFault},
};

/// What the system promises about itself, and whether the run may go beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Copies of each partition.
    pub replication_factor: usize,
    /// `min.insync.replicas`.
    pub min_isr: usize,
    /// Whether all partitions count copies only when flushed.
    pub durable: bool,
    /// Faults past the promises are injected too; then only agreement, honesty and no invented data are demanded.
    pub beyond: bool,
}

impl Budget {
    /// The budget of one broker.
    #[must_use]
    pub const fn single(durable: bool) -> Self {
        Self {
            replication_factor: 1,
            min_isr: 1,
            durable,
            beyond: false,
        }
    }

    /// Whether a fault may be injected while `lossy` other copies have lost bytes that were promised to be safe.
    #[must_use]
    pub fn allows(&self, fault: &Fault, lossy: usize) -> bool {
        if self.beyond {
            return true;
        }
        match fault {
            Fault::Aimed { fault, .. } => self.allows(fault, lossy),
            // A lost or lying disk is one copy gone for good.
            Fault::Wipe { .. } => lossy + 1 < self.min_isr,
            Fault::Disk { fault, .. } => match fault {
                PlannedDiskFault::Lie { .. } | PlannedDiskFault::LoseWrite { .. } => {
                    lossy + 1 < self.min_isr
                }
                PlannedDiskFault::FailSync { .. }
                | PlannedDiskFault::FailWrite { .. }
                | PlannedDiskFault::FailRead { .. }
                | PlannedDiskFault::Stall { .. }
                | PlannedDiskFault::Full { .. } => true,
            },
            Fault::Damage { damage, file, .. } => {
                let rebuilt = REBUILT.iter().any(|name| file.matches(name))
                    && !NEEDED.iter().any(|name| file.matches(name));
                rebuilt || (lossy + 1 < self.min_isr && *damage != Damage::Remove)
            }
            // Under `durable` any number of these is promised to be survived; under `replicated` what they take from
            // unsynced tails is a loss that the checkers count.
            Fault::Crash { .. }
            | Fault::PowerLoss { .. }
            | Fault::PowerLossAll { .. }
            | Fault::Pause { .. }
            | Fault::CleanStop { .. }
            | Fault::Clock { .. }
            | Fault::Link { .. }
            | Fault::Cut { .. } => true,
        }
    }
}

/// Files that every start can make again.
const REBUILT: &[&str] = &[
    "t-0/00000000000000000000.index",
    "t-0/00000000000000000000.timeindex",
];
/// Files that carry what nothing else does.
const NEEDED: &[&str] = &[
    "t-0/00000000000000000000.log",
    "t-0/partition.metadata",
    "t-0/leader-epoch-checkpoint",
    "meta.properties",
    "__cluster_metadata-0/quorum-state",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Glob;

    fn damage(file: &str) -> Fault {
        Fault::Damage {
            node: 0,
            damage: Damage::FlipBit,
            file: Glob::new(file),
            down_ms: 1,
            clean: false,
        }
    }

    #[test]
    fn single_copy_allows_no_damage_to_what_cannot_be_made_again() {
        let budget = Budget::single(true);
        assert!(budget.allows(&damage("*.index"), 0));
        assert!(!budget.allows(&damage("*.log"), 0));
        assert!(!budget.allows(&damage("*"), 0));
        assert!(!budget.allows(
            &Fault::Wipe {
                node: 0,
                down_ms: 1
            },
            0
        ));
        let beyond = Budget {
            beyond: true,
            ..budget
        };
        assert!(beyond.allows(&damage("*"), 0));
    }

    #[test]
    fn second_copy_pays_for_one_lost_disk() {
        let budget = Budget {
            replication_factor: 3,
            min_isr: 2,
            durable: true,
            beyond: false,
        };
        let wipe = Fault::Wipe {
            node: 0,
            down_ms: 1,
        };
        assert!(budget.allows(&wipe, 0));
        assert!(!budget.allows(&wipe, 1));
    }
}
