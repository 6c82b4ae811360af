//! What a leader knows about its epoch: who is in sync, what their copies count for, where the high watermark may stand.

use std::collections::BTreeMap;

use crate::ids::{Epoch, NodeId, Offset};

/// One leadership of one partition.
///
/// The high watermark is the smallest counted position of the *maximal* ISR: members that the controller has committed, and
/// those that a change in flight would add (KIP-497). It moves only while the committed ISR has at least the effective
/// `min.insync.replicas`, which is never more than there are replicas.
#[derive(Clone, Debug)]
pub struct Leadership {
    epoch: Epoch,
    epoch_start: Offset,
    local: NodeId,
    replicas: usize,
    isr: Vec<NodeId>,
    counted: BTreeMap<NodeId, Offset>,
}

/// What the controller has committed about a partition, as one of its replicas sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderAssignment {
    /// The leader epoch.
    pub epoch: Epoch,
    /// The leader; `None` while there is none.
    pub leader: Option<NodeId>,
    /// This node.
    pub local: NodeId,
    /// All replicas.
    pub replicas: Vec<NodeId>,
    /// The committed in-sync replicas.
    pub isr: Vec<NodeId>,
}

impl Leadership {
    /// Starts a leadership whose first record will be at `log_end`.
    #[must_use]
    pub fn new(assignment: &LeaderAssignment, log_end: Offset) -> Self {
        Self {
            epoch: assignment.epoch,
            epoch_start: log_end,
            local: assignment.local,
            replicas: assignment.replicas.len(),
            isr: assignment.isr.clone(),
            counted: BTreeMap::new(),
        }
    }

    /// Returns the leader epoch.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the log end at the start of this leadership.
    #[must_use]
    pub const fn epoch_start(&self) -> Offset {
        self.epoch_start
    }

    /// Returns the committed in-sync replicas.
    #[must_use]
    pub fn isr(&self) -> &[NodeId] {
        &self.isr
    }

    /// Returns how many in-sync replicas an acks=-1 write needs, of a setting of `min_insync_replicas`.
    #[must_use]
    pub fn effective_min_isr(&self, min_insync_replicas: usize) -> usize {
        min_insync_replicas.min(self.replicas)
    }

    /// Returns whether enough replicas are in sync to take an acks=-1 write.
    #[must_use]
    pub fn has_min_isr(&self, min_insync_replicas: usize) -> bool {
        self.isr.len() >= self.effective_min_isr(min_insync_replicas)
    }

    /// Notes up to where this node's own copy counts.
    pub fn count_local(&mut self, up_to: Offset) {
        let counted = self.counted.entry(self.local).or_insert(up_to);
        *counted = up_to.max(*counted);
    }

    /// Returns where the high watermark may stand; `None` while it must not move.
    #[must_use]
    pub fn high_watermark(&self, min_insync_replicas: usize) -> Option<Offset> {
        if !self.has_min_isr(min_insync_replicas) {
            return None;
        }
        let mut lowest = None;
        for member in &self.isr {
            let counted = *self.counted.get(member)?;
            lowest = Some(lowest.map_or(counted, |lowest: Offset| lowest.min(counted)));
        }
        lowest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leadership(replicas: &[i32], isr: &[i32]) -> Leadership {
        let ids = |ids: &[i32]| ids.iter().map(|id| NodeId(*id)).collect();
        let assignment = LeaderAssignment {
            epoch: Epoch(3),
            leader: Some(NodeId(1)),
            local: NodeId(1),
            replicas: ids(replicas),
            isr: ids(isr),
        };
        Leadership::new(&assignment, 10)
    }

    #[test]
    fn high_watermark_of_a_lone_replica_is_its_counted_position() {
        let mut alone = leadership(&[1], &[1]);
        assert_eq!(alone.high_watermark(1), None, "nothing counts yet");
        alone.count_local(12);
        assert_eq!(alone.high_watermark(1), Some(12));
        alone.count_local(11);
        assert_eq!(
            alone.high_watermark(1),
            Some(12),
            "a counted position does not go back"
        );
    }

    #[test]
    fn high_watermark_waits_for_an_isr_member_that_has_not_been_heard_of() {
        let mut leader = leadership(&[1, 2], &[1, 2]);
        leader.count_local(12);
        assert_eq!(leader.high_watermark(1), None);
    }

    #[test]
    fn high_watermark_does_not_move_below_the_effective_min_isr() {
        let mut leader = leadership(&[1, 2], &[1]);
        leader.count_local(12);
        assert_eq!(leader.high_watermark(2), None);
        assert!(!leader.has_min_isr(2));
        let mut alone = leadership(&[1], &[1]);
        alone.count_local(12);
        assert_eq!(
            alone.high_watermark(2),
            Some(12),
            "one replica cannot need two in sync"
        );
    }
}
