//! Requests that change metadata: the controller decides, the quorum commits, then the answer leaves.

use super::{Call, Frontend, Services};
use crate::{
    cluster::ReplyTo,
    controller::ControllerRequest,
    protocol::{Listener, RequestBody},
};

/// Hands a request to the controller; its answer comes back as a reply.
///
/// On a broker's listener it goes to the active controller, wherever that is; on the controller's own listener only the
/// controller here is asked, and says so if it is not the active one.
pub(super) fn execute(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    call: Call,
    body: RequestBody,
) {
    let version = call.version;
    let request = match body {
        RequestBody::CreateTopics(request) => ControllerRequest::CreateTopics(request),
        RequestBody::DeleteTopics(request) => ControllerRequest::DeleteTopics(request, version),
        RequestBody::CreatePartitions(request) => ControllerRequest::CreatePartitions(request),
        RequestBody::IncrementalAlterConfigs(request) => ControllerRequest::AlterConfigs(request),
        RequestBody::ElectLeaders(request) => ControllerRequest::ElectLeaders(request),
        RequestBody::BrokerRegistration(request) => ControllerRequest::RegisterBroker(request),
        RequestBody::BrokerHeartbeat(request) => ControllerRequest::BrokerHeartbeat(request),
        RequestBody::AlterPartition(request) => ControllerRequest::AlterPartition(request, version),
        other => {
            let reason = format!("{:?} is decoded but not executed", other.api());
            return frontend.close(services.outputs, call.token, reason);
        }
    };
    match frontend.kind(call.token.connection) {
        Listener::Broker => services
            .cluster
            .submit(services.now, request, ReplyTo::Call(call)),
        Listener::Controller => services.cluster.decide(services.now, request, call),
    }
}
