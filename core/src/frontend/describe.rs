//! ApiVersions, DescribeCluster, DescribeQuorum and DescribeConfigs: what a node can do, how it is set up, who else there is.

use super::{Call, Frontend, Services, metadata};
use crate::{
    cluster::{Cluster, ReplyTo},
    controller::ControllerRequest,
    ids::NodeId,
    protocol::{
        self, ErrorCode, KafkaString, Listener,
        messages::{
            ApiVersionsRequestData, ApiVersionsResponseData, Coordinator, DescribeClusterBroker,
            DescribeClusterRequestData, DescribeClusterResponseData, DescribeConfigsRequestData,
            DescribeQuorumRequestData, FindCoordinatorRequestData, FindCoordinatorResponseData,
        },
        names_client_software,
    },
};

/// The kind of endpoint that is asked for on listeners of brokers (KIP-919).
const BROKER_ENDPOINTS: i8 = 1;
/// The kind that is asked for on listeners of the controller quorum.
const CONTROLLER_ENDPOINTS: i8 = 2;
/// "Not asked for".
const NO_OPERATIONS: i32 = i32::MIN;
/// "Nobody".
const NO_NODE: i32 = -1;

/// Answers ApiVersions.
pub(super) fn api_versions(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    call: Call,
    request: &ApiVersionsRequestData,
) {
    let mut response = ApiVersionsResponseData {
        finalized_features_epoch: -1,
        ..ApiVersionsResponseData::default()
    };
    if !names_client_software(call.version, request) {
        response.error_code = ErrorCode::InvalidRequest.code();
        return frontend.answer(services, call, response);
    }
    response.api_keys = protocol::api_versions(frontend.kind(call.token.connection));
    frontend.answer(services, call, response);
}

/// Answers FindCoordinator: there are no groups yet, so no coordinator is available.
pub(super) fn coordinator(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    call: Call,
    request: FindCoordinatorRequestData,
) {
    let keys = if call.version >= 4 {
        request.coordinator_keys
    } else {
        vec![request.key]
    };
    let unavailable = |key| Coordinator {
        key,
        node_id: -1,
        port: -1,
        error_code: ErrorCode::CoordinatorNotAvailable.code(),
        error_message: Some(metadata::text("This broker has no consumer groups yet.")),
        ..Coordinator::default()
    };
    let coordinators = keys.into_iter().map(unavailable).collect();
    let response = FindCoordinatorResponseData {
        coordinators,
        ..FindCoordinatorResponseData::default()
    };
    frontend.answer(services, call, response);
}

/// Answers DescribeCluster on a listener of this broker: the brokers.
pub(super) fn cluster(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    call: Call,
    request: &DescribeClusterRequestData,
) {
    if let Some(refusal) = wrong_endpoints(call.version, request, BROKER_ENDPOINTS) {
        return frontend.answer(services, call, refusal);
    }
    let listener = frontend.listener_name(call.token.connection);
    let cluster = &*services.cluster;
    let include_fenced = request.include_fenced_brokers;
    let brokers = cluster.brokers_on(&listener);
    let brokers = brokers.filter(|(broker, _)| include_fenced || !broker.fenced);
    let nodes = brokers.map(|(broker, endpoint)| DescribeClusterBroker {
        broker_id: broker.id.0,
        host: metadata::text(&endpoint.host),
        port: i32::from(endpoint.port),
        rack: broker.rack.as_deref().map(metadata::text),
        is_fenced: broker.fenced,
        ..DescribeClusterBroker::default()
    });
    let response = described(cluster, request, nodes.collect(), cluster.controller_id());
    frontend.answer(services, call, response);
}

/// Answers DescribeCluster on a listener of the controller quorum: its voters, as far as they are known to listen there.
pub(super) fn controllers(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    call: Call,
    request: &DescribeClusterRequestData,
) {
    if let Some(refusal) = wrong_endpoints(call.version, request, CONTROLLER_ENDPOINTS) {
        return frontend.answer(services, call, refusal);
    }
    let listener = frontend.listener_name(call.token.connection);
    let cluster = &*services.cluster;
    let nodes = cluster.raft().voters().iter().filter_map(|voter| {
        let endpoints = &mut voter.endpoints.iter();
        let endpoint = endpoints.find(|endpoint| endpoint.name == listener)?;
        Some(DescribeClusterBroker {
            broker_id: voter.id.0,
            host: metadata::text(&endpoint.host),
            port: i32::from(endpoint.port),
            ..DescribeClusterBroker::default()
        })
    });
    let response = described(
        cluster,
        request,
        nodes.collect(),
        cluster.raft().leader_id(),
    );
    frontend.answer(services, call, response);
}

/// Fills the part of an answer that is alike for both kinds of endpoints. A controller that is not listed is not named, for a
/// client could not find it.
fn described(
    cluster: &Cluster,
    request: &DescribeClusterRequestData,
    nodes: Vec<DescribeClusterBroker>,
    controller: Option<NodeId>,
) -> DescribeClusterResponseData {
    let is_listed = |id: &NodeId| nodes.iter().any(|node| node.broker_id == id.0);
    DescribeClusterResponseData {
        endpoint_type: request.endpoint_type,
        cluster_id: metadata::text(cluster.image().cluster_id().unwrap_or_default()),
        controller_id: controller.filter(is_listed).map_or(NO_NODE, |id| id.0),
        brokers: nodes,
        cluster_authorized_operations: if request.include_cluster_authorized_operations {
            metadata::cluster_operations()
        } else {
            NO_OPERATIONS
        },
        ..DescribeClusterResponseData::default()
    }
}

/// Refuses a request for a kind of endpoints that is not listed here.
fn wrong_endpoints(
    version: i16,
    request: &DescribeClusterRequestData,
    here: i8,
) -> Option<DescribeClusterResponseData> {
    let name = |kind| match kind {
        BROKER_ENDPOINTS => Some("BROKER"),
        CONTROLLER_ENDPOINTS => Some("CONTROLLER"),
        _ => None,
    };
    let asked = request.endpoint_type;
    if asked == here {
        return None;
    }
    let (code, message) = match (name(asked), name(here)) {
        (Some(asked), Some(here)) => (
            ErrorCode::MismatchedEndpointType,
            format!(
                "The request was sent to an endpoint of type {here}, but we wanted an endpoint of type {asked}"
            ),
        ),
        _ => (
            ErrorCode::UnsupportedEndpointType,
            format!("Unsupported endpoint type {asked}"),
        ),
    };
    // Version 0 knows no such kinds, and brokers is what it asks for.
    let code = if version == 0 {
        ErrorCode::InvalidRequest
    } else {
        code
    };
    Some(DescribeClusterResponseData {
        error_code: code.code(),
        error_message: Some(KafkaString::from(message)),
        endpoint_type: BROKER_ENDPOINTS,
        cluster_authorized_operations: NO_OPERATIONS,
        ..DescribeClusterResponseData::default()
    })
}

/// Answers DescribeQuorum on a listener of the quorum, where only its leader can; a broker asks the leader for its client.
pub(super) fn quorum(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    call: Call,
    request: DescribeQuorumRequestData,
) {
    match frontend.kind(call.token.connection) {
        Listener::Broker => {
            let request = ControllerRequest::DescribeQuorum(request, call.version);
            let reply_to = ReplyTo::Call(call);
            services.cluster.submit(services.now, request, reply_to);
        }
        Listener::Controller => {
            let cluster = &*services.cluster;
            let response = cluster.describe_quorum(services.now, &request, call.version);
            frontend.answer(services, call, response);
        }
    }
}

/// Answers DescribeConfigs.
pub(super) fn configs(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    call: Call,
    request: &DescribeConfigsRequestData,
) {
    let response = services.cluster.describe_configs(request);
    frontend.answer(services, call, response);
}
