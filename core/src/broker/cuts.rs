//! Logs that are to be cut as soon as nothing on disk says more than the cut leaves.
//!
//! A follower whose log is no prefix of its leader's loses records that were synced. A crash after the first byte is gone, while
//! the recovery-point checkpoint or the synced mark still speak of them, would find damage where there is none. So both are lowered
//! first, durably.
//!
//! | the checkpoint is | leads to |
//! | --- | --- |
//! | wanted | writing, when a replacement begins: it says what the partitions say then |
//! | writing | written, when it is durable; wanted, when it could not be written |
//! | written | the cut, once the synced mark is lowered too |

use std::collections::{BTreeMap, BTreeSet};

use crate::{ids::Uuid, replication::SlotId, time::Instant};

/// How long a full disk is left alone.
const RETRY_DELAY_MS: u64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checkpoint {
    Wanted,
    Writing,
    Written,
}

#[derive(Clone, Copy, Debug)]
struct PendingCut {
    log: (Uuid, i32),
    checkpoint: Checkpoint,
    is_mark_lowered: bool,
}

/// All cuts that wait.
#[derive(Debug, Default)]
pub(super) struct PendingCuts {
    cuts: BTreeMap<SlotId, PendingCut>,
    retry_at: Option<Instant>,
}

impl PendingCuts {
    /// Lets a log wait for its cut. One that waits already begins anew: it is to be cut further down, for another leader.
    pub(super) fn want(&mut self, slot: SlotId, log: (Uuid, i32)) {
        let cut = PendingCut {
            log,
            checkpoint: Checkpoint::Wanted,
            is_mark_lowered: false,
        };
        self.cuts.insert(slot, cut);
    }

    /// Forgets a log that is gone.
    pub(super) fn forget(&mut self, slot: SlotId) {
        self.cuts.remove(&slot);
    }

    /// Returns whether the recovery-point checkpoint should be replaced now.
    pub(super) fn wants_checkpoint(&self, now: Instant) -> bool {
        self.retry_at.is_none_or(|at| at <= now)
            && self
                .cuts
                .values()
                .any(|cut| cut.checkpoint == Checkpoint::Wanted)
    }

    /// Notes that the checkpoint is being replaced by what the partitions say at this moment.
    pub(super) fn writing(&mut self) {
        self.retry_at = None;
        self.step(Checkpoint::Wanted, Checkpoint::Writing);
    }

    /// Notes that the replacement is durable.
    pub(super) fn written(&mut self) {
        self.step(Checkpoint::Writing, Checkpoint::Written);
    }

    /// Notes that the replacement failed harmlessly: the disk is full.
    pub(super) fn failed(&mut self, now: Instant) {
        self.step(Checkpoint::Writing, Checkpoint::Wanted);
        if !self.cuts.is_empty() {
            self.retry_at = Some(now.plus_millis(RETRY_DELAY_MS));
        }
    }

    fn step(&mut self, from: Checkpoint, to: Checkpoint) {
        for cut in self.cuts.values_mut() {
            if cut.checkpoint == from {
                cut.checkpoint = to;
            }
        }
    }

    /// Notes that a log's synced mark is durably lowered.
    pub(super) fn mark_lowered(&mut self, log: (Uuid, i32)) {
        for cut in self.cuts.values_mut() {
            cut.is_mark_lowered |= cut.log == log;
        }
    }

    /// Takes a log that may be cut now.
    pub(super) fn pop_due(&mut self) -> Option<SlotId> {
        let is_due =
            |cut: &PendingCut| cut.checkpoint == Checkpoint::Written && cut.is_mark_lowered;
        let slot = *self.cuts.iter().find(|(_, cut)| is_due(cut))?.0;
        self.cuts.remove(&slot);
        Some(slot)
    }

    /// Returns when a full disk is tried again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let wanted = |cut: &PendingCut| cut.checkpoint == Checkpoint::Wanted;
        self.retry_at.filter(|_| self.cuts.values().any(wanted))
    }
}

/// Logs that have begun anew and wait until the log-start checkpoint says so.
#[derive(Debug, Default)]
pub(super) struct NewStarts {
    wanted: BTreeSet<SlotId>,
    writing: BTreeSet<SlotId>,
    retry_at: Option<Instant>,
}

impl NewStarts {
    /// Lets a log wait; one that waits already has begun anew once more.
    pub(super) fn want(&mut self, slot: SlotId) {
        self.writing.remove(&slot);
        self.wanted.insert(slot);
    }

    /// Forgets a log that is gone.
    pub(super) fn forget(&mut self, slot: SlotId) {
        self.wanted.remove(&slot);
        self.writing.remove(&slot);
    }

    /// Returns whether the checkpoint should be replaced now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.wanted.is_empty() && self.retry_at.is_none_or(|at| at <= now)
    }

    /// Notes that the checkpoint is being replaced by what the partitions say at this moment.
    pub(super) fn begin(&mut self) {
        self.retry_at = None;
        self.writing.append(&mut self.wanted);
    }

    /// Takes the logs of which the replacement speaks: it is durable.
    pub(super) fn finish(&mut self) -> BTreeSet<SlotId> {
        std::mem::take(&mut self.writing)
    }

    /// Notes that the replacement failed harmlessly: the disk is full.
    pub(super) fn failed(&mut self, now: Instant) {
        self.wanted.append(&mut self.writing);
        if !self.wanted.is_empty() {
            self.retry_at = Some(now.plus_millis(RETRY_DELAY_MS));
        }
    }

    /// Returns when a full disk is tried again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.retry_at.filter(|_| !self.wanted.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Owner;

    fn slot(at: u32) -> SlotId {
        SlotId::of(Owner(64 + at)).unwrap()
    }

    const LOG: (Uuid, i32) = (Uuid([7; 16]), 0);

    #[test]
    fn log_is_cut_when_both_promises_are_lowered_in_either_order() {
        let mut cuts = PendingCuts::default();
        cuts.want(slot(0), LOG);
        cuts.want(slot(1), (LOG.0, 1));
        cuts.mark_lowered(LOG);
        assert!(cuts.wants_checkpoint(Instant::ORIGIN));
        cuts.writing();
        assert!(!cuts.wants_checkpoint(Instant::ORIGIN));
        assert_eq!(cuts.pop_due(), None);
        cuts.written();
        assert_eq!(cuts.pop_due(), Some(slot(0)));
        assert_eq!(cuts.pop_due(), None);
        cuts.mark_lowered((LOG.0, 1));
        assert_eq!(cuts.pop_due(), Some(slot(1)));
    }

    #[test]
    fn checkpoint_that_began_before_the_wish_proves_nothing() {
        let mut cuts = PendingCuts::default();
        cuts.writing();
        cuts.want(slot(0), LOG);
        cuts.mark_lowered(LOG);
        cuts.written();
        assert_eq!(cuts.pop_due(), None);
        cuts.writing();
        cuts.want(slot(0), LOG);
        cuts.written();
        cuts.mark_lowered(LOG);
        assert_eq!(cuts.pop_due(), None, "it is to be cut further down by now");
        assert!(cuts.wants_checkpoint(Instant::ORIGIN));
    }

    #[test]
    fn full_disk_is_tried_again_after_a_while() {
        let mut cuts = PendingCuts::default();
        cuts.want(slot(0), LOG);
        cuts.writing();
        cuts.failed(Instant::ORIGIN);
        assert!(!cuts.wants_checkpoint(Instant::ORIGIN));
        let again = cuts.deadline().unwrap();
        assert!(cuts.wants_checkpoint(again));
        cuts.forget(slot(0));
        assert!(!cuts.wants_checkpoint(again));
    }

    #[test]
    fn log_that_began_anew_twice_waits_for_the_second_checkpoint() {
        let mut starts = NewStarts::default();
        starts.want(slot(0));
        starts.want(slot(1));
        starts.begin();
        starts.want(slot(0));
        assert_eq!(starts.finish(), BTreeSet::from([slot(1)]));
        starts.begin();
        starts.failed(Instant::ORIGIN);
        assert!(!starts.is_due(Instant::ORIGIN));
        assert!(starts.is_due(starts.deadline().unwrap()));
        starts.begin();
        assert_eq!(starts.finish(), BTreeSet::from([slot(0)]));
    }
}
