//! What checkers ask about copies and leaders.

use std::collections::BTreeMap;

use seedlog_core::ids::{Epoch, NodeId};

use super::{Committed, Copy, Ghost, InSync};
use crate::{history::Place, time::SimTime};

impl Ghost {
    /// Returns what is committed of a partition with several copies, in order.
    #[must_use]
    pub fn committed(&self, place: Place) -> &[Committed] {
        self.known[place.0].copies.committed()
    }

    /// Returns the committed batch that covers an offset.
    #[must_use]
    pub fn committed_at(&self, place: Place, offset: i64) -> Option<&Committed> {
        self.known[place.0].copies.covering(offset)
    }

    /// Returns one past the last committed offset of a partition with several copies.
    #[must_use]
    pub fn committed_end(&self, place: Place) -> i64 {
        self.known[place.0].copies.end()
    }

    /// Returns the leader epoch in which a node led a partition at a time, or believed so.
    #[must_use]
    pub fn leadership(&self, node: usize, place: Place, at: SimTime) -> Option<Epoch> {
        self.known[place.0].copies.leadership(node, at)
    }

    /// Returns a node's place in the cluster.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<usize> {
        self.nodes.iter().position(|known| *known == id)
    }

    /// Returns how many voters make a majority of the controller quorum.
    #[must_use]
    pub const fn majority(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// Returns all copies of a partition, as they were seen last.
    #[must_use]
    pub fn copies(&self, place: Place) -> &BTreeMap<usize, Copy> {
        self.known[place.0].copies.copies()
    }

    fn copy(&self, node: usize, place: Place) -> Option<&Copy> {
        self.copies(place).get(&node)
    }

    /// Returns one past the last record of a copy.
    #[must_use]
    pub fn log_end(&self, node: usize, place: Place) -> Option<i64> {
        self.copy(node, place).map(|copy| copy.end)
    }

    /// Returns up to where a copy is where its rule wants it.
    #[must_use]
    pub fn safe_end(&self, node: usize, place: Place) -> Option<i64> {
        self.copy(node, place).map(|copy| copy.safe)
    }

    /// Returns up to where a copy holds what is committed.
    #[must_use]
    pub fn holds(&self, node: usize, place: Place) -> i64 {
        self.copy(node, place).map_or(0, |copy| copy.holds)
    }

    /// Returns the first offset that a copy lost and did not get again.
    #[must_use]
    pub fn gap(&self, node: usize, place: Place) -> Option<i64> {
        self.known[place.0].losses.gap(node)
    }

    /// Returns whether a copy lost something and did not get it again.
    #[must_use]
    pub fn has_gap(&self, node: usize, place: Place) -> bool {
        self.gap(node, place).is_some()
    }

    /// Returns the in-sync replicas that the controller has committed, as far as any node has heard.
    #[must_use]
    pub fn isr(&self, place: Place) -> Option<&InSync> {
        self.known[place.0].copies.isr()
    }

    /// Returns whether some disk ever held a batch of these bytes.
    #[must_use]
    pub fn was_written(&self, place: Place, digest: u64) -> bool {
        self.known[place.0].copies.batches.has(digest)
    }

    /// Returns by what two copies of a partition differ though they should not.
    #[must_use]
    pub fn mismatch(&self, place: Place) -> Option<&str> {
        self.known[place.0].copies.batches.mismatch()
    }

    /// Returns who leads a partition in its newest epoch.
    #[must_use]
    pub fn leader(&self, place: Place) -> Option<usize> {
        self.known[place.0].copies.leader()
    }

    /// Returns in how many epochs partitions had a leader, all together.
    #[must_use]
    pub fn leaderships(&self) -> usize {
        self.known
            .iter()
            .map(|known| known.copies.leaderships())
            .sum()
    }
}
