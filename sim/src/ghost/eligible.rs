//! Who may lead a partition without a loss, as far as a controller can know (KIP-966).
//!
//! Brokers tell the controller whether they stopped cleanly, not what they lost. A copy is eligible while it is in sync, and for as
//! long as the in-sync set that it left stays smaller than min ISR; one whose broker restarted uncleanly is not, until an in-sync set
//! takes it back. When nobody is left the last leader is elected, and what it lost is lost then, though another copy may have it.

use std::collections::{BTreeMap, BTreeSet};

use seedlog_core::ids::Epoch;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Eligible {
    /// The newest in-sync set that anybody has heard of.
    newest: Option<InSyncSet>,
    now: State,
    /// How it was before each leader epoch. Somebody may hear of who is in sync under a new leader before anybody tells of its
    /// election.
    before: BTreeMap<Epoch, State>,
}

/// An in-sync set that the quorum has agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InSyncSet {
    pub(super) partition_epoch: i32,
    pub(super) epoch: Epoch,
    /// The members, by their place in the cluster.
    pub(super) members: Vec<usize>,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// Those in sync, and those that left while too few stayed, whether they stopped cleanly or not.
    members: BTreeSet<usize>,
    /// Copies whose process ended uncleanly and that no in-sync set took back since.
    doubted: BTreeMap<usize, Doubt>,
}

/// Whether a leader that may miss records might be elected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// Nobody else was left, or the topic's configuration allows it.
    Allowed,
    /// It was neither in sync nor eligible.
    NotEligible,
    /// These were eligible, by their place in the cluster, and did not restart uncleanly.
    Beside(Vec<usize>),
}

/// What was seen of a copy since its process ended uncleanly.
#[derive(Clone, Copy, Debug, Default)]
struct Doubt {
    /// Another process started. Before that the controller has not heard of the unclean end.
    restarted: bool,
    /// The present process opened the log, which it does once it is registered: in-sync sets that are older do not vouch for it.
    opened: bool,
}

impl Eligible {
    /// A process ended without a clean stop.
    pub(super) fn doubt(&mut self, node: usize) {
        let doubt = self.now.doubted.entry(node).or_default();
        doubt.opened = false;
    }

    /// Another process starts on a node.
    pub(super) fn restart(&mut self, node: usize) {
        if let Some(doubt) = self.now.doubted.get_mut(&node) {
            doubt.restarted = true;
        }
    }

    /// A node opened its log.
    pub(super) fn open(&mut self, node: usize) {
        if let Some(doubt) = self.now.doubted.get_mut(&node) {
            doubt.opened = true;
        }
    }

    /// Whether nobody knew of a partition epoch yet.
    pub(super) fn is_news(&self, partition_epoch: i32) -> bool {
        let newest = self.newest.as_ref();
        newest.is_none_or(|known| known.partition_epoch < partition_epoch)
    }

    /// Somebody has heard of an in-sync set.
    pub(super) fn see_in_sync(&mut self, set: InSyncSet, min_isr: usize) {
        // Before any set is known, an empty one says that the node has not heard of the partition.
        let is_unheard = self.newest.is_none() && set.members.is_empty();
        if is_unheard || !self.is_news(set.partition_epoch) {
            return;
        }
        let newest = self.newest.as_ref();
        if newest.is_some_and(|known| known.epoch < set.epoch) {
            self.before.insert(set.epoch, self.now.clone());
        }
        let State { members, doubted } = &mut self.now;
        if set.members.len() >= min_isr {
            members.clear();
        }
        members.extend(&set.members);
        doubted.retain(|node, doubt| !doubt.opened || !set.members.contains(node));
        self.newest = Some(set);
    }

    /// Judges the election of a node in an epoch that nobody asked for: it is the last leader once nobody is eligible who did not
    /// restart uncleanly.
    pub(super) fn judge(&self, node: usize, epoch: Epoch) -> Ruling {
        let mut later = self.before.range(epoch..);
        let State { members, doubted } = later.next().map_or(&self.now, |(_, state)| state);
        let is_trusted = |node: &usize| {
            let doubt = doubted.get(node);
            doubt.is_none_or(|doubt| !doubt.restarted)
        };
        let trusted: Vec<usize> = members.iter().copied().filter(is_trusted).collect();
        if !trusted.is_empty() {
            Ruling::Beside(trusted)
        } else if members.contains(&node) {
            Ruling::Allowed
        } else {
            Ruling::NotEligible
        }
    }

    /// A node was elected uncleanly in an epoch: nobody else is eligible beside it but whom it took in since.
    pub(super) fn begin_anew(&mut self, node: usize, epoch: Epoch) {
        let newest = self.newest.as_ref().filter(|known| known.epoch >= epoch);
        self.now.members = newest.map_or_else(
            || BTreeSet::from([node]),
            |newest| newest.members.iter().copied().collect(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN_ISR: usize = 2;

    fn hear(eligible: &mut Eligible, (partition_epoch, epoch): (i32, i32), nodes: &[usize]) {
        let set = InSyncSet {
            partition_epoch,
            epoch: Epoch(epoch),
            members: nodes.to_vec(),
        };
        eligible.see_in_sync(set, MIN_ISR);
    }

    /// Copies that were in sync as of partition epoch 0.
    fn in_sync(nodes: &[usize]) -> Eligible {
        let mut eligible = Eligible::default();
        hear(&mut eligible, (0, 0), nodes);
        eligible
    }

    fn restart_uncleanly(eligible: &mut Eligible, node: usize) {
        eligible.doubt(node);
        eligible.restart(node);
        eligible.open(node);
    }

    fn may_be_last(eligible: &Eligible, node: usize) -> bool {
        eligible.judge(node, Epoch(9)) == Ruling::Allowed
    }

    #[test]
    fn last_leader_is_elected_once_every_eligible_copy_restarted_uncleanly() {
        let mut eligible = in_sync(&[0, 1]);
        restart_uncleanly(&mut eligible, 0);
        hear(&mut eligible, (1, 0), &[1]);
        assert!(!may_be_last(&eligible, 0), "the other may lead");
        restart_uncleanly(&mut eligible, 2);
        assert!(!may_be_last(&eligible, 0), "it was not eligible");
        eligible.doubt(1);
        assert!(!may_be_last(&eligible, 0), "nobody knows how it ended");
        eligible.restart(1);
        assert!(may_be_last(&eligible, 0) && may_be_last(&eligible, 1));
        assert_eq!(eligible.judge(2, Epoch(9)), Ruling::NotEligible);
    }

    #[test]
    fn copy_taken_back_into_the_in_sync_set_is_vouched_for() {
        let mut eligible = in_sync(&[0, 1]);
        restart_uncleanly(&mut eligible, 1);
        hear(&mut eligible, (1, 0), &[0]);
        hear(&mut eligible, (2, 0), &[0, 1]);
        restart_uncleanly(&mut eligible, 0);
        assert!(!may_be_last(&eligible, 0));
        restart_uncleanly(&mut eligible, 1);
        assert!(may_be_last(&eligible, 0));
    }

    #[test]
    fn in_sync_set_of_before_the_unclean_end_heard_late_vouches_for_nobody() {
        let mut eligible = in_sync(&[0, 1]);
        restart_uncleanly(&mut eligible, 0);
        eligible.doubt(1);
        hear(&mut eligible, (1, 0), &[1]);
        eligible.restart(1);
        assert!(may_be_last(&eligible, 1));
    }

    #[test]
    fn clean_copy_that_left_a_small_in_sync_set_is_still_eligible() {
        let mut eligible = in_sync(&[0, 1]);
        hear(&mut eligible, (1, 0), &[0]);
        restart_uncleanly(&mut eligible, 0);
        hear(&mut eligible, (2, 0), &[]);
        assert_eq!(eligible.judge(0, Epoch(9)), Ruling::Beside(vec![1]));
    }

    #[test]
    fn copy_that_left_an_in_sync_set_that_is_large_enough_is_not_eligible() {
        let mut eligible = in_sync(&[0, 1, 2]);
        hear(&mut eligible, (1, 0), &[0, 1]);
        restart_uncleanly(&mut eligible, 0);
        restart_uncleanly(&mut eligible, 1);
        assert!(may_be_last(&eligible, 0));
        assert!(!may_be_last(&eligible, 2));
    }

    #[test]
    fn copy_elected_uncleanly_is_the_only_eligible_one() {
        let mut eligible = in_sync(&[0, 1]);
        eligible.begin_anew(2, Epoch(1));
        restart_uncleanly(&mut eligible, 2);
        assert!(may_be_last(&eligible, 2));
        assert!(!may_be_last(&eligible, 0));
    }

    #[test]
    fn election_that_is_told_late_is_judged_by_what_was_before_it() {
        for restarts in [false, true] {
            let mut eligible = in_sync(&[0, 1]);
            restart_uncleanly(&mut eligible, 0);
            if restarts {
                restart_uncleanly(&mut eligible, 1);
            }
            hear(&mut eligible, (1, 1), &[0]);
            let ruling = eligible.judge(0, Epoch(1));
            let expected = if restarts {
                Ruling::Allowed
            } else {
                Ruling::Beside(vec![1])
            };
            assert_eq!(ruling, expected);
            eligible.begin_anew(0, Epoch(1));
            restart_uncleanly(&mut eligible, 0);
            assert!(may_be_last(&eligible, 0), "nobody is beside it");
        }
    }
}
