//! Which partitions a broker matters to: the cost of its coming and going does not grow with all the others.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use super::partition::{NO_LEADER, PartitionImage};
use crate::ids::{NodeId, Uuid};

/// A partition: its topic and which partition of it.
pub(super) type Key = (Uuid, i32);

type ByBroker = BTreeMap<NodeId, BTreeSet<Key>>;

/// The look-ups, kept in step with the partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PartitionIndex {
    /// The partitions that a broker is in sync with; those without a leader stand under [`NO_LEADER`].
    in_sync: ByBroker,
    /// The partitions that a broker is an eligible leader of.
    eligible: ByBroker,
    /// The partitions that another replica leads than the preferred one.
    led_elsewhere: BTreeSet<Key>,
}

impl PartitionIndex {
    pub(super) fn add(&mut self, key: Key, partition: &PartitionImage) {
        for broker in in_sync_entries(partition) {
            self.in_sync.entry(broker).or_default().insert(key);
        }
        for broker in &partition.elr {
            self.eligible.entry(*broker).or_default().insert(key);
        }
        if is_led_elsewhere(partition) {
            self.led_elsewhere.insert(key);
        }
    }

    pub(super) fn remove(&mut self, key: Key, partition: &PartitionImage) {
        for broker in in_sync_entries(partition) {
            forget(&mut self.in_sync, broker, key);
        }
        for broker in &partition.elr {
            forget(&mut self.eligible, *broker, key);
        }
        if is_led_elsewhere(partition) {
            self.led_elsewhere.remove(&key);
        }
    }

    pub(super) fn in_sync(
        &self,
        broker: NodeId,
        after: Option<Key>,
    ) -> impl Iterator<Item = Key> + use<'_> {
        of(&self.in_sync, broker, after)
    }

    pub(super) fn eligible(
        &self,
        broker: NodeId,
        after: Option<Key>,
    ) -> impl Iterator<Item = Key> + use<'_> {
        of(&self.eligible, broker, after)
    }

    /// Returns every partition that has an eligible leader, once.
    pub(super) fn with_eligible(&self) -> BTreeSet<Key> {
        self.eligible.values().flatten().copied().collect()
    }

    pub(super) fn led_elsewhere(&self, after: Option<Key>) -> impl Iterator<Item = Key> + use<'_> {
        self.led_elsewhere.range(from(after)).copied()
    }
}

fn of(by_broker: &ByBroker, broker: NodeId, after: Option<Key>) -> impl Iterator<Item = Key> {
    by_broker
        .get(&broker)
        .into_iter()
        .flat_map(move |keys| keys.range(from(after)))
        .copied()
}

fn from(after: Option<Key>) -> (Bound<Key>, Bound<Key>) {
    (
        after.map_or(Bound::Unbounded, Bound::Excluded),
        Bound::Unbounded,
    )
}

fn forget(by_broker: &mut ByBroker, broker: NodeId, key: Key) {
    if let Some(keys) = by_broker.get_mut(&broker) {
        keys.remove(&key);
        if keys.is_empty() {
            by_broker.remove(&broker);
        }
    }
}

fn in_sync_entries(partition: &PartitionImage) -> impl Iterator<Item = NodeId> {
    let leaderless = (partition.leader == NO_LEADER).then_some(NO_LEADER);
    partition.isr.iter().copied().chain(leaderless)
}

fn is_led_elsewhere(partition: &PartitionImage) -> bool {
    partition.leader != NO_LEADER && !partition.has_preferred_leader()
}
