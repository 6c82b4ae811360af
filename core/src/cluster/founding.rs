//! What the quorum's replica is told at its start, and the first records of a cluster.

use super::{ClusterConfig, encode};
use crate::{
    config::BrokerSettings,
    controller::{
        decide::{BootstrapContext, bootstrap_records},
        image::MetadataImage,
        records::{EndpointV1, Record, VoterV1},
    },
    ids::Uuid,
    raft::{Endpoint, RaftConfig, Voter, VoterSet},
};

/// `PLAINTEXT` in Kafka's numbering of security protocols.
const PLAINTEXT: i16 = 0;

pub(super) fn raft_config(
    config: &ClusterConfig<'_>,
    settings: &BrokerSettings,
    founding_id: Uuid,
) -> RaftConfig {
    let mut raft = RaftConfig::new(String::new(), check_cluster, voters(config));
    raft.cluster_id.clone_from(&config.meta.cluster_id);
    raft.seed = config.seed;
    raft.recovery_point = config.recovery_point;
    raft.is_new_identity = config.is_new;
    if !config.broker.is_alone() {
        raft.bootstrap_records = encode(&first_records(config, founding_id)).unwrap_or_default();
    }
    let unsigned = |value: i64| u64::try_from(value).unwrap_or(0);
    raft.max_record_bytes_between_snapshots =
        unsigned(settings.metadata_log_max_record_bytes_between_snapshots);
    raft.max_snapshot_interval_ms = unsigned(settings.metadata_log_max_snapshot_interval_ms);
    raft.election_timeout_ms = unsigned(settings.controller_quorum_election_timeout_ms);
    raft.election_backoff_max_ms = unsigned(settings.controller_quorum_election_backoff_max_ms);
    raft.fetch_timeout_ms = unsigned(settings.controller_quorum_fetch_timeout_ms);
    raft.request_timeout_ms = unsigned(settings.controller_quorum_request_timeout_ms);
    raft
}

fn voters(config: &ClusterConfig<'_>) -> VoterSet {
    let own = config.meta.directory_id;
    let node_id = config.broker.node_id;
    if config.broker.is_alone() {
        return VoterSet::new([Voter {
            id: node_id,
            directory: Some(own),
            endpoints: Vec::new(),
        }]);
    }
    let name = config.broker.controller_listener();
    VoterSet::new(config.broker.voters.iter().map(|voter| Voter {
        id: voter.node_id,
        directory: (voter.node_id == node_id).then_some(own),
        endpoints: vec![Endpoint {
            name: name.to_owned(),
            host: voter.host.clone(),
            port: voter.port,
        }],
    }))
}

/// Makes the first records of a new cluster.
pub(super) fn first_records(config: &ClusterConfig<'_>, founding_id: Uuid) -> Vec<Record> {
    let image = MetadataImage::new();
    let known = config.meta.cluster_id.as_deref().map(Uuid::from_base64);
    let Some(cluster_id) = known.unwrap_or(Some(founding_id)) else {
        return Vec::new();
    };
    let voters = voters(config);
    let voter = |voter: &Voter| VoterV1 {
        node_id: voter.id,
        directory_id: voter.directory.unwrap_or(Uuid::ZERO),
        endpoints: voter.endpoints.iter().map(endpoint).collect(),
    };
    let context = BootstrapContext {
        cluster_id,
        voters: voters.iter().map(voter).collect(),
        layers: image.layers(config.fixed, config.broker.node_id),
    };
    bootstrap_records(&image, &context)
}

fn endpoint(endpoint: &Endpoint) -> EndpointV1 {
    EndpointV1 {
        name: endpoint.name.clone(),
        host: endpoint.host.clone(),
        port: endpoint.port,
        security_protocol: PLAINTEXT,
    }
}

/// Refuses the metadata log of another cluster.
fn check_cluster(cluster_id: &str, record: &[u8]) -> Result<(), String> {
    match Record::decode(record) {
        Ok(Record::ClusterId(found)) if found.cluster_id != cluster_id => Err(format!(
            "it names cluster {}, this is {cluster_id}",
            found.cluster_id
        )),
        _ => Ok(()),
    }
}
