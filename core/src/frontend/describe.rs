//! ApiVersions, DescribeCluster and DescribeConfigs: what a broker can do and how it is set up.

use super::{Call, Frontend, Services, metadata};
use crate::protocol::{
    self, ErrorCode, KafkaString, Listener,
    messages::{
        ApiVersionsRequestData, ApiVersionsResponseData, Coordinator, DescribeClusterBroker,
        DescribeClusterRequestData, DescribeClusterResponseData, DescribeConfigsRequestData,
        FindCoordinatorRequestData, FindCoordinatorResponseData,
    },
    names_client_software,
};

/// The only kind of endpoint that a broker lists (KIP-919).
const BROKER_ENDPOINTS: i8 = 1;

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
    response.api_keys = protocol::api_versions(Listener::Broker);
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

/// Answers DescribeCluster.
pub(super) fn cluster(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    call: Call,
    request: &DescribeClusterRequestData,
) {
    let mut response = DescribeClusterResponseData {
        endpoint_type: BROKER_ENDPOINTS,
        cluster_authorized_operations: i32::MIN,
        ..DescribeClusterResponseData::default()
    };
    if call.version >= 1 && request.endpoint_type != BROKER_ENDPOINTS {
        let (code, message) = wrong_endpoints(request.endpoint_type);
        response.error_code = code.code();
        response.error_message = Some(KafkaString::from(message));
        return frontend.answer(services, call, response);
    }
    let listener = frontend.listener_name(call.token.connection);
    let cluster = &*services.cluster;
    response.cluster_id = metadata::text(cluster.image().cluster_id().unwrap_or_default());
    response.controller_id = cluster.controller_id().0;
    response.brokers = cluster
        .live_brokers(&listener)
        .map(|(id, endpoint, rack)| DescribeClusterBroker {
            broker_id: id.0,
            host: metadata::text(&endpoint.host),
            port: i32::from(endpoint.port),
            rack: rack.map(metadata::text),
            ..DescribeClusterBroker::default()
        })
        .collect();
    if request.include_cluster_authorized_operations {
        response.cluster_authorized_operations = metadata::cluster_operations();
    }
    frontend.answer(services, call, response);
}

fn wrong_endpoints(kind: i8) -> (ErrorCode, String) {
    if kind == 2 {
        let message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
            .to_owned();
        return (ErrorCode::MismatchedEndpointType, message);
    }
    (
        ErrorCode::UnsupportedEndpointType,
        format!("Unsupported endpoint type {kind}"),
    )
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
