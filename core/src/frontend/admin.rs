//! Requests that change metadata: the controller decides, the quorum commits, then the answer leaves.

use super::{Call, Frontend, Services};
use crate::{
    cluster::{AdminRequest, ReplyTo},
    protocol::RequestBody,
};

/// Hands a request to the controller; its answer comes back as a reply.
pub(super) fn execute(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    call: Call,
    body: RequestBody,
) {
    let version = call.version;
    let request = match body {
        RequestBody::CreateTopics(request) => AdminRequest::CreateTopics(request),
        RequestBody::DeleteTopics(request) => AdminRequest::DeleteTopics(request),
        RequestBody::CreatePartitions(request) => AdminRequest::CreatePartitions(request),
        RequestBody::IncrementalAlterConfigs(request) => AdminRequest::AlterConfigs(request),
        RequestBody::ElectLeaders(request) => AdminRequest::ElectLeaders(request),
        other => {
            let reason = format!("{:?} is decoded but not executed", other.api());
            return frontend.close(services.outputs, call.token, reason);
        }
    };
    services
        .cluster
        .submit(services.now, version, request, ReplyTo::Call(call));
}
