//! All that is known of one partition.

use std::collections::{BTreeMap, BTreeSet};

use seedlog_core::ids::Epoch;

use super::{
    copies::Copies,
    eligible::{Eligible, Ruling},
    promise::{Losses, Promise},
};
use crate::{batch::SeenRecord, time::SimTime};

/// What is known of one partition.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) promise: Promise,
    pub(super) losses: Losses,
    pub(super) copies: Copies,
    pub(super) eligible: Eligible,
    /// Leaders that were elected though they may miss records, by epoch.
    pub(super) unclean: BTreeMap<Epoch, Ruling>,
    /// First offset, moved by rule.
    pub(super) start: i64,
    /// Nodes on which bytes went bad.
    pub(super) damaged: BTreeSet<usize>,
    /// Nodes on which bytes went bad since the log last opened.
    pub(super) unseen: BTreeSet<usize>,
    /// The synced mark that the next opening of a log with such bytes finds, by node.
    pub(super) mark: BTreeMap<usize, i64>,
    /// When the only copy opened with such bytes, and from where on damage could pass for a torn tail then.
    pub(super) past_mark: Vec<(SimTime, i64)>,
    /// The same of the last opening on each node, if there were such bytes.
    pub(super) opened_past: BTreeMap<usize, i64>,
    /// Nodes that cannot serve it.
    pub(super) offline: BTreeSet<usize>,
    pub(super) read: BTreeMap<i64, SeenRecord>,
    pub(super) drained: Option<(i64, i64)>,
    pub(super) unreadable: Option<i16>,
}

impl Known {
    pub(super) fn new(promise: Promise) -> Self {
        Self {
            promise,
            losses: Losses::default(),
            copies: Copies::default(),
            eligible: Eligible::default(),
            unclean: BTreeMap::new(),
            start: 0,
            damaged: BTreeSet::new(),
            unseen: BTreeSet::new(),
            mark: BTreeMap::new(),
            past_mark: Vec::new(),
            opened_past: BTreeMap::new(),
            offline: BTreeSet::new(),
            read: BTreeMap::new(),
            drained: None,
            unreadable: None,
        }
    }

    /// A node lost what it had of some offsets.
    pub(super) fn lose(&mut self, at: SimTime, node: usize, range: (i64, i64), by_disk: bool) {
        self.copies.cut(node, range.0);
        let from = self.losses.lose(self.promise, at, node, range, by_disk);
        if let Some(from) = from {
            self.copies.forget(from);
        }
    }

    /// A node hears that a leader was elected which may miss records.
    pub(super) fn elect_uncleanly(&mut self, at: SimTime, leader: Option<usize>, epoch: Epoch) {
        // Who hears of it later, or again after a restart, adds nothing.
        if self.unclean.contains_key(&epoch) {
            return;
        }
        let ruling = leader.map_or(Ruling::NotEligible, |leader| {
            self.eligible.judge(leader, epoch)
        });
        let last = leader.filter(|_| ruling == Ruling::Allowed);
        if let Some(leader) = leader {
            self.eligible.begin_anew(leader, epoch);
        }
        let (ruling, from) = if self.promise.unclean {
            self.losses.elect_uncleanly(at);
            (Ruling::Allowed, Some(0))
        } else {
            let from = last.and_then(|last| self.losses.give_up(self.promise, at, last));
            (ruling, from)
        };
        self.unclean.insert(epoch, ruling);
        if let Some(from) = from {
            self.copies.forget(from);
        }
    }
}
