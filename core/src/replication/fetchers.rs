//! The fetchers of this broker, one for each leader that any of its partitions follows.

use std::collections::BTreeMap;

use super::{Fetcher, FetcherAsk, Readiness, ReplicationConfig, SlotId, TopicIdPartition};
use crate::{ids::NodeId, time::Instant};

/// All fetchers.
#[derive(Debug)]
pub struct Fetchers {
    config: ReplicationConfig,
    by_leader: BTreeMap<NodeId, Fetcher>,
    leaders: BTreeMap<SlotId, NodeId>,
}

impl Fetchers {
    /// Makes an empty set.
    #[must_use]
    pub const fn new(config: ReplicationConfig) -> Self {
        Self {
            config,
            by_leader: BTreeMap::new(),
            leaders: BTreeMap::new(),
        }
    }

    /// Lets a partition follow a leader, and no other any more.
    pub fn follow(&mut self, slot: SlotId, partition: TopicIdPartition, leader: NodeId) {
        self.unfollow(slot);
        self.leaders.insert(slot, leader);
        self.by_leader
            .entry(leader)
            .or_insert_with(|| Fetcher::new(self.config))
            .follow(slot, partition);
    }

    /// Lets a partition follow nobody.
    pub fn unfollow(&mut self, slot: SlotId) {
        let Some(leader) = self.leaders.remove(&slot) else {
            return;
        };
        if let Some(fetcher) = self.by_leader.get_mut(&leader) {
            // The fetcher stays: answers to what it sent are told apart by its numbers.
            fetcher.unfollow(slot);
        }
    }

    /// Notes that a partition may ask for something else than before.
    pub fn wake(&mut self, slot: SlotId) {
        if let Some(leader) = self.leaders.get(&slot)
            && let Some(fetcher) = self.by_leader.get_mut(leader)
        {
            fetcher.wake(slot);
        }
    }

    /// Returns the next thing to send to any leader.
    pub fn poll(
        &mut self,
        now: Instant,
        mut readiness: impl FnMut(SlotId) -> Readiness,
    ) -> Option<(NodeId, FetcherAsk)> {
        self.by_leader
            .iter_mut()
            .find_map(|(leader, fetcher)| Some((*leader, fetcher.poll(now, &mut readiness)?)))
    }

    /// Gives access to the fetcher of a leader, for the answers that come from there.
    pub fn fetcher(&mut self, leader: NodeId) -> Option<&mut Fetcher> {
        self.by_leader.get_mut(&leader)
    }

    /// Returns the leaders that are followed: links to them are wanted.
    pub fn leaders(&self) -> impl Iterator<Item = NodeId> {
        let fetchers = self.by_leader.iter();
        fetchers
            .filter(|(_, fetcher)| !fetcher.is_empty())
            .map(|(leader, _)| *leader)
    }

    /// Returns when [`Fetchers::poll`] is to be called although nothing has changed.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.by_leader.values().filter_map(Fetcher::deadline).min()
    }
}
