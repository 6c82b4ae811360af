//! The first records of a metadata log.

use crate::{
    config::Layers,
    controller::{
        image::{ConfigResource, MetadataImage},
        records::{
            ClusterIdV1, ConfigV1, ELIGIBLE_LEADER_REPLICAS_VERSION, FeatureLevelV1,
            METADATA_VERSION, METADATA_VERSION_MAX, Record, VoterV1, VotersV1,
        },
    },
    ids::Uuid,
};

/// What the first leader knows when the log is empty.
#[derive(Clone, Debug)]
pub struct BootstrapContext<'context> {
    /// The cluster's id, drawn now.
    pub cluster_id: Uuid,
    /// The voters that answered as empty.
    pub voters: Vec<VoterV1>,
    /// The settings of this node.
    pub layers: Layers<'context>,
}

/// Decides what a new leader writes first; nothing if the cluster has begun.
#[must_use]
pub fn bootstrap_records(image: &MetadataImage, context: &BootstrapContext<'_>) -> Vec<Record> {
    if image.cluster_id().is_some() {
        return Vec::new();
    }
    let feature = |name: &str, level| {
        FeatureLevelV1 {
            name: name.to_owned(),
            level,
        }
        .into()
    };
    let all_brokers = ConfigResource::all_brokers();
    let min_isr = context.layers.broker_value("min.insync.replicas").text;
    vec![
        feature(METADATA_VERSION, METADATA_VERSION_MAX),
        feature(ELIGIBLE_LEADER_REPLICAS_VERSION, 1),
        ClusterIdV1 {
            cluster_id: context.cluster_id.to_string(),
        }
        .into(),
        VotersV1 {
            voters: context.voters.clone(),
        }
        .into(),
        // Eligible leader replicas need one min ISR that all nodes agree on, so it moves from the files into the log.
        ConfigV1 {
            resource_type: all_brokers.kind.code(),
            resource_name: all_brokers.name,
            name: "min.insync.replicas".to_owned(),
            value: Some(min_isr.unwrap_or_else(|| "1".to_owned())),
        }
        .into(),
    ]
}
