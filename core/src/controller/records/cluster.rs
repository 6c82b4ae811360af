//! Bodies of the records about the cluster and its nodes. Frozen: a change is a new version beside the old one.

use serde::{Deserialize, Serialize};

use crate::ids::{NodeId, Uuid};

/// Nothing; moves the end of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoOpV1 {}

/// A feature's finalized level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureLevelV1 {
    /// The feature's name, as `ApiVersions` answers carry it.
    pub name: String,
    /// Its level; 0 removes the feature.
    pub level: u16,
}

/// The cluster's name, given once by the first leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterIdV1 {
    /// The id, in the text form of a [`Uuid`].
    pub cluster_id: String,
}

/// An address under a listener's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointV1 {
    /// The listener's name.
    pub name: String,
    /// Where to connect to.
    pub host: String,
    /// Where to connect to.
    pub port: u16,
    /// Kafka's number of the security protocol; 0 is plain text.
    pub security_protocol: i16,
}

/// One voter of the controller quorum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoterV1 {
    /// The node.
    pub node_id: NodeId,
    /// The log directory that its votes are bound to (KIP-853).
    pub directory_id: Uuid,
    /// How to reach its controller listeners.
    pub endpoints: Vec<EndpointV1>,
}

/// The whole voter set of the controller quorum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VotersV1 {
    /// The voters, in order of their node id.
    pub voters: Vec<VoterV1>,
}

/// The levels of a feature that a broker supports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureRangeV1 {
    /// The feature's name.
    pub name: String,
    /// The lowest level.
    pub min: u16,
    /// The highest level.
    pub max: u16,
}

/// A broker's registration; replaces an earlier one of the same broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterBrokerV1 {
    /// The broker.
    pub broker_id: NodeId,
    /// Its epoch: the offset of the first registration record of this incarnation.
    pub broker_epoch: i64,
    /// This run of the process.
    pub incarnation_id: Uuid,
    /// Its advertised addresses.
    pub endpoints: Vec<EndpointV1>,
    /// Where it stands.
    pub rack: Option<String>,
    /// Its log directories.
    pub log_dirs: Vec<Uuid>,
    /// What it supports.
    pub features: Vec<FeatureRangeV1>,
    /// Whether it may not lead or be placed upon.
    pub fenced: bool,
    /// Whether it is on its way out.
    pub in_controlled_shutdown: bool,
}

/// A change of a registered broker's state; `None` leaves a part as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerRegistrationChangeV1 {
    /// The broker.
    pub broker_id: NodeId,
    /// The registration that is meant; a record for another epoch changes nothing.
    pub broker_epoch: i64,
    /// Fences or unfences.
    pub fenced: Option<bool>,
    /// Begins a controlled shutdown.
    pub in_controlled_shutdown: Option<bool>,
    /// Replaces the log directories that are online.
    pub log_dirs: Option<Vec<Uuid>>,
}

/// Forgets a broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnregisterBrokerV1 {
    /// The broker.
    pub broker_id: NodeId,
    /// The registration that is meant.
    pub broker_epoch: i64,
}

/// One config of one resource; no value removes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigV1 {
    /// Kafka's number of the resource's type: 2 topic, 4 broker.
    pub resource_type: i8,
    /// The resource: a topic's name, a broker's id, or empty for all brokers.
    pub resource_name: String,
    /// The config.
    pub name: String,
    /// Its value.
    pub value: Option<String>,
}
