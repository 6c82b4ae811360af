//! When each broker was last heard of: what the active controller knows without the cluster agreeing on it.

use std::collections::BTreeMap;

use super::{decide::BrokerSession, image::MetadataImage};
use crate::{
    ids::{NodeId, Offset},
    time::Instant,
};

#[derive(Clone, Copy, Debug)]
struct Session {
    /// The registration that was heard of.
    epoch: i64,
    expires: Instant,
    /// The last record that the broker said it has read.
    metadata_offset: Offset,
    /// The last record of its controlled shutdown, once its partitions are moved.
    shutdown_offset: Option<Offset>,
}

/// The sessions of all brokers, fenced ones too: a second process under one id must not register while the first lives.
#[derive(Clone, Debug, Default)]
pub(super) struct Sessions {
    by_broker: BTreeMap<NodeId, Session>,
}

impl Sessions {
    /// Begins with a full session for every broker that is not fenced: a new controller has heard of none yet.
    pub(super) fn begin(image: &MetadataImage, expires: Instant) -> Self {
        let mut sessions = Self::default();
        for broker in image.brokers().values().filter(|broker| !broker.fenced) {
            sessions.touch(broker.id, broker.epoch, expires, -1);
        }
        sessions
    }

    /// Notes that a broker was heard of.
    pub(super) fn touch(
        &mut self,
        broker: NodeId,
        epoch: i64,
        expires: Instant,
        metadata_offset: Offset,
    ) {
        let known = self.by_broker.get(&broker);
        let shutdown_offset = known
            .filter(|session| session.epoch == epoch)
            .and_then(|session| session.shutdown_offset);
        let session = Session {
            epoch,
            expires,
            metadata_offset,
            shutdown_offset,
        };
        self.by_broker.insert(broker, session);
    }

    /// Notes, once, where the last record of a broker's controlled shutdown stands.
    pub(super) fn shuts_down(&mut self, broker: NodeId, offset: Offset) {
        if let Some(session) = self.by_broker.get_mut(&broker) {
            session.shutdown_offset.get_or_insert(offset);
        }
    }

    /// Forgets a broker.
    pub(super) fn forget(&mut self, broker: NodeId) {
        self.by_broker.remove(&broker);
    }

    /// Gives brokers whose session is over until `expires`: this node slept, and what they sent may lie unread.
    pub(super) fn extend(&mut self, now: Instant, expires: Instant) {
        for session in self.by_broker.values_mut() {
            if session.expires <= now {
                session.expires = expires;
            }
        }
    }

    /// Returns what a decision about `broker` may rest on.
    pub(super) fn of(&self, image: &MetadataImage, broker: NodeId, now: Instant) -> BrokerSession {
        let session = self.by_broker.get(&broker).filter(|session| {
            image
                .broker(broker)
                .is_some_and(|broker| broker.epoch == session.epoch)
        });
        let others = self.by_broker.iter().filter(|(id, _)| {
            **id != broker && image.broker(**id).is_some_and(|other| other.is_active())
        });
        let lowest = others.map(|(_, other)| other.metadata_offset).min();
        let shutdown = session.and_then(|session| session.shutdown_offset);
        BrokerSession {
            is_valid: session.is_some_and(|session| now < session.expires),
            shutdown_seen: match (shutdown, lowest) {
                (Some(shutdown), Some(lowest)) => shutdown <= lowest,
                (Some(_), None) => true,
                (None, _) => false,
            },
        }
    }

    /// Returns a broker whose session is over.
    pub(super) fn expired(&self, now: Instant) -> Option<NodeId> {
        let over = self
            .by_broker
            .iter()
            .find(|(_, session)| session.expires <= now);
        over.map(|(broker, _)| *broker)
    }

    /// Returns when the next session is over.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.by_broker.values().map(|session| session.expires).min()
    }
}
