//! What a broker is told once, at its start.

use crate::{
    ids::{NodeId, Uuid},
    planted::PlantedSet,
    protocol,
};

/// Settings of one broker that never change while it runs.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// This node (`node.id`).
    pub node_id: NodeId,
    /// Where connections are accepted, and what those who come there are told (`listeners`, `advertised.listeners`).
    pub listeners: Vec<Listener>,
    /// All controller voters (`controller.quorum.voters`); alone when only this node is named.
    pub voters: Vec<Voter>,
    /// The rack, for placement (`broker.rack`).
    pub rack: Option<String>,
    /// How many log directories there are (`log.dirs`).
    pub log_dirs: u16,
    /// All other settings, by Kafka's names, exactly as the property file gave them.
    pub properties: std::collections::BTreeMap<String, String>,
    /// Historical bugs to switch on; always empty in a release.
    pub planted: PlantedSet,
}

impl BrokerConfig {
    /// Returns whether this node is the whole quorum: nobody else has a say in what its cluster is.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.voters
            .iter()
            .all(|voter| voter.node_id == self.node_id)
    }

    /// Returns whether this node is a broker, and not a controller alone: it has a listener for clients.
    #[must_use]
    pub fn is_broker(&self) -> bool {
        self.listeners
            .iter()
            .any(|listener| !listener.is_controller())
    }

    /// Returns the name of the listener over which brokers reach one another (`inter.broker.listener.name`); the first one
    /// where none is named.
    #[must_use]
    pub fn inter_broker_listener(&self) -> &str {
        if let Some(named) = self.properties.get("inter.broker.listener.name") {
            return named;
        }
        let mut listeners = self.listeners.iter();
        let first = listeners.find(|listener| !listener.is_controller());
        first.map_or("PLAINTEXT", |listener| &listener.name)
    }

    /// Returns the name of the listener for the controller quorum.
    #[must_use]
    pub fn controller_listener(&self) -> &str {
        let mut listeners = self.listeners.iter();
        let named = listeners.find(|listener| listener.is_controller());
        named.map_or("CONTROLLER", |listener| &listener.name)
    }
}

/// A listener.
///
/// It reaches clients and other brokers, or the controller quorum (`controller.listener.names`): which APIs it serves depends on
/// that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its name (`PLAINTEXT`).
    pub name: String,
    /// The host that others are told to connect to.
    pub advertised_host: String,
    /// The port that others are told to connect to; the driver fills in a port chosen by the system.
    pub advertised_port: u16,
    /// Whom it serves.
    pub kind: protocol::Listener,
}

impl Listener {
    /// Returns whether the listener is one of the controller quorum.
    #[must_use]
    pub fn is_controller(&self) -> bool {
        self.kind == protocol::Listener::Controller
    }
}

/// A controller voter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voter {
    /// The node.
    pub node_id: NodeId,
    /// Host of its controller listener.
    pub host: String,
    /// Port of its controller listener.
    pub port: u16,
}

/// What the driver draws anew for each incarnation, so that the core needs no randomness of its own.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// This incarnation of the process (KIP-631).
    pub incarnation: Uuid,
    /// Seeds the broker's one generator and its hash tables. Secret: a peer that knew it could flood them.
    pub seed: [u8; 32],
}
