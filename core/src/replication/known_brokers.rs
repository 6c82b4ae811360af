//! Which brokers this broker knows to be alive, and in which incarnation.

use std::collections::BTreeMap;

use crate::ids::NodeId;

/// One registered broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownBroker {
    /// Its broker epoch: a new one with each registration.
    pub epoch: i64,
    /// Whether it may lead and be in sync: neither fenced nor in controlled shutdown (KIP-841).
    pub is_active: bool,
}

/// The registered brokers, as far as the metadata was applied here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownBrokers {
    brokers: BTreeMap<NodeId, KnownBroker>,
}

impl KnownBrokers {
    /// Notes a registration or its change.
    pub fn set(&mut self, node: NodeId, broker: KnownBroker) {
        self.brokers.insert(node, broker);
    }

    /// Forgets a broker.
    pub fn remove(&mut self, node: NodeId) {
        self.brokers.remove(&node);
    }

    /// Returns a broker's epoch; `None` while it is not registered.
    #[must_use]
    pub fn epoch(&self, node: NodeId) -> Option<i64> {
        self.brokers.get(&node).map(|broker| broker.epoch)
    }

    /// Returns whether a fetch of this incarnation comes too late: a newer one has registered (KIP-903).
    #[must_use]
    pub fn is_stale(&self, node: NodeId, broker_epoch: i64) -> bool {
        broker_epoch >= 0 && self.epoch(node).is_some_and(|known| known > broker_epoch)
    }

    /// Returns whether this very incarnation may join an ISR.
    #[must_use]
    pub fn is_eligible(&self, node: NodeId, broker_epoch: i64) -> bool {
        self.brokers
            .get(&node)
            .is_some_and(|broker| broker.is_active && broker.epoch == broker_epoch)
    }
}

impl FromIterator<(NodeId, KnownBroker)> for KnownBrokers {
    fn from_iter<I: IntoIterator<Item = (NodeId, KnownBroker)>>(brokers: I) -> Self {
        Self {
            brokers: brokers.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_registered_incarnation_is_eligible_and_older_ones_are_stale() {
        let active = KnownBroker {
            epoch: 5,
            is_active: true,
        };
        let brokers: KnownBrokers = [(NodeId(1), active)].into_iter().collect();
        assert!(brokers.is_eligible(NodeId(1), 5));
        assert!(!brokers.is_eligible(NodeId(1), 4));
        assert!(
            !brokers.is_eligible(NodeId(1), -1),
            "an unknown epoch proves nothing"
        );
        assert!(brokers.is_stale(NodeId(1), 4));
        assert!(
            !brokers.is_stale(NodeId(1), 6),
            "our metadata may be behind"
        );
        assert!(!brokers.is_stale(NodeId(2), 1));
    }

    #[test]
    fn fenced_broker_is_not_eligible() {
        let mut brokers = KnownBrokers::default();
        let fenced = KnownBroker {
            epoch: 5,
            is_active: false,
        };
        brokers.set(NodeId(1), fenced);
        assert!(!brokers.is_eligible(NodeId(1), 5));
        brokers.remove(NodeId(1));
        assert_eq!(brokers.epoch(NodeId(1)), None);
    }
}
