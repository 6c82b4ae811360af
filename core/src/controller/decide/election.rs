//! How one partition changes: its in-sync set, its eligible leaders and its leader, together (KIP-966).
//!
//! | proposed in-sync set | eligible leaders | leader |
//! | --- | --- | --- |
//! | as large as min ISR | nobody | the present one while it is in sync and fit, else the first fit in-sync replica |
//! | smaller | those of before and whoever left the in-sync set, without who restarted uncleanly | as above |
//! | empty | as above | an eligible replica, which then is the in-sync set; else the last leader, if nobody is eligible; else, where that is allowed, any fit replica; else none |
//!
//! The last two rows of leaders may lose records: they mark the leader as recovering, and replaying the change says so.

use super::topic_rules::TopicRules;
use crate::{
    controller::{
        image::{NO_LEADER, PartitionImage},
        records::PartitionChangeV1,
    },
    ids::{NodeId, Uuid},
};

/// Who may be elected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Election {
    /// Whoever keeps the partition online without a loss; the present leader if it can stay.
    Online,
    /// As [`Self::Online`], but the preferred replica if it can lead.
    Preferred,
    /// As [`Self::Online`], and if nobody can lead without a loss, anybody.
    Unclean,
}

/// A change of one partition that somebody has in mind.
pub(super) struct Proposal<'image> {
    /// What the partition is.
    pub(super) partition: &'image PartitionImage,
    /// What its in-sync set shall be.
    pub(super) isr: Vec<NodeId>,
    /// Whether its leader shall be recovering.
    pub(super) leader_recovering: bool,
    /// A replica that may have lost what it had.
    pub(super) restarted_uncleanly: Option<NodeId>,
    /// Who may be elected.
    pub(super) election: Election,
    /// The least in-sync set that commits records.
    pub(super) min_isr: usize,
    /// Whether a broker may lead the partition at all.
    pub(super) may_lead: &'image dyn Fn(NodeId) -> bool,
}

impl<'image> Proposal<'image> {
    /// Proposes to look at the leader anew; members that cannot lead leave the in-sync set, all at once, so that a set
    /// of which nobody is left is an eligible one as a whole.
    pub(super) fn new(
        partition: &'image PartitionImage,
        rules: TopicRules,
        may_lead: &'image dyn Fn(NodeId) -> bool,
    ) -> Self {
        let election = if rules.unclean {
            Election::Unclean
        } else {
            Election::Online
        };
        Self {
            partition,
            isr: partition
                .isr
                .iter()
                .copied()
                .filter(|id| may_lead(*id))
                .collect(),
            leader_recovering: partition.leader_recovering,
            restarted_uncleanly: None,
            election,
            min_isr: rules.min_isr,
            may_lead,
        }
    }

    /// Proposes that `broker` leaves the in-sync set.
    pub(super) fn without(mut self, broker: NodeId) -> Self {
        self.isr.retain(|id| *id != broker);
        self
    }

    /// Decides what the proposal changes; `None` if nothing.
    pub(super) fn decide(&self, topic_id: Uuid, partition_id: i32) -> Option<PartitionChangeV1> {
        let partition = self.partition;
        let mut change = PartitionChangeV1::none(topic_id, partition_id);
        let mut isr = self.isr.clone();
        let mut elr = self.eligible();
        let (leader, unclean) = self.elect(&elr);
        let mut recovering = self.leader_recovering;
        if leader != partition.leader {
            change.leader = Some(leader);
            if unclean {
                isr = vec![leader];
                elr.clear();
                recovering = true;
            } else if elr.contains(&leader) {
                isr = vec![leader];
                elr.retain(|id| *id != leader);
            }
        }
        // A leader elected alone may be enough for the min ISR, if that was lowered while there was no leader: from
        // here on the others fall behind.
        if isr.len() >= self.min_isr {
            elr.clear();
        }
        change.isr = (isr != partition.isr).then_some(isr);
        change.elr = (elr != partition.elr).then_some(elr);
        change.leader_recovering =
            (recovering != partition.leader_recovering).then_some(recovering);
        change.last_known_elr = match change.leader {
            Some(NO_LEADER) if partition.last_known_elr.is_empty() => Some(vec![partition.leader]),
            Some(leader) if leader != NO_LEADER && !partition.last_known_elr.is_empty() => {
                Some(Vec::new())
            }
            _ => None,
        };
        (!change.is_none()).then_some(change)
    }

    /// Returns the eligible leader replicas beside the proposed in-sync set.
    fn eligible(&self) -> Vec<NodeId> {
        if self.isr.len() >= self.min_isr {
            return Vec::new();
        }
        let partition = self.partition;
        let mut eligible: Vec<NodeId> = partition
            .elr
            .iter()
            .chain(&partition.isr)
            .copied()
            .collect();
        eligible.sort_unstable();
        eligible.dedup();
        eligible.retain(|id| !self.isr.contains(id) && Some(*id) != self.restarted_uncleanly);
        eligible
    }

    /// Returns the leader and whether electing it may lose records.
    fn elect(&self, elr: &[NodeId]) -> (NodeId, bool) {
        let partition = self.partition;
        let is_clean = |id: &NodeId| {
            (self.isr.contains(id) || self.isr.is_empty() && elr.contains(id))
                && (self.may_lead)(*id)
        };
        let preferred = partition.replicas.first().filter(|id| is_clean(id));
        if let (Election::Preferred, Some(preferred)) = (self.election, preferred) {
            return (*preferred, false);
        }
        if is_clean(&partition.leader) {
            return (partition.leader, false);
        }
        if let Some(leader) = partition.replicas.iter().find(|id| is_clean(id)) {
            return (*leader, false);
        }
        if let ([], [], [last]) = (
            self.isr.as_slice(),
            elr,
            partition.last_known_elr.as_slice(),
        ) && (self.may_lead)(*last)
        {
            return (*last, true);
        }
        let any = || partition.replicas.iter().find(|id| (self.may_lead)(**id));
        match self.election {
            Election::Unclean => any().map_or((NO_LEADER, false), |leader| (*leader, true)),
            Election::Online | Election::Preferred => (NO_LEADER, false),
        }
    }
}
