//! What comes on listeners of the controller quorum. What replicas ask each other is handed to the quorum's log, which answers
//! when its promise is durable or when there is news.

use std::collections::{BTreeMap, VecDeque};

use super::{Call, Frontend, RequestToken, Services, admin, describe};
use crate::{
    broker::Output,
    forwarding,
    ids::ConnectionId,
    protocol::{EncodeError, Request, RequestBody, messages::EnvelopeRequestData},
    raft::{PeerReply, PeerRequest, PeerTicket, wire::PeerCall},
    storage::Frame,
};

/// Requests of peers that are not answered.
#[derive(Debug, Default)]
pub(super) struct PeerRequests {
    asked: BTreeMap<PeerTicket, (RequestToken, PeerCall)>,
    new: VecDeque<(PeerTicket, PeerRequest)>,
    next: u64,
}

impl PeerRequests {
    fn add(&mut self, token: RequestToken, call: PeerCall, request: PeerRequest) {
        self.next += 1;
        let ticket = PeerTicket(self.next);
        self.asked.insert(ticket, (token, call));
        self.new.push_back((ticket, request));
    }

    pub(super) fn poll(&mut self) -> Option<(PeerTicket, PeerRequest)> {
        self.new.pop_front()
    }

    /// Forgets what a connection asked; answers to it find nobody.
    pub(super) fn on_closed(&mut self, connection: ConnectionId) {
        self.asked
            .retain(|_, (token, _)| token.connection != connection);
    }
}

/// Executes a request that came on a listener of the controller quorum.
pub(super) fn execute(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    call: Call,
    body: RequestBody,
) {
    match body {
        RequestBody::ApiVersions(_)
        | RequestBody::DescribeConfigs(_)
        | RequestBody::DescribeQuorum(_) => frontend.execute(services, call, body),
        RequestBody::DescribeCluster(request) => {
            describe::controllers(frontend, services, call, &request);
        }
        RequestBody::Envelope(envelope) => open_envelope(frontend, services, call, &envelope),
        other => ask(frontend, services, call, other),
    }
}

/// Hands a request to the quorum's log, or to the controller.
fn ask(frontend: &mut Frontend, services: &mut Services<'_>, call: Call, body: RequestBody) {
    match PeerCall::read(call.version, call.correlation_id, &body) {
        Some((peer, Ok(request))) => frontend.peers.add(call.token, peer, request),
        Some((peer, Err(fault))) => {
            send(frontend, services.outputs, call.token, peer.refuse(fault));
        }
        None => admin::execute(frontend, services, call, body),
    }
}

/// Executes what a broker sent on for a client.
fn open_envelope(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    outer: Call,
    envelope: &EnvelopeRequestData,
) {
    match forwarding::unseal(envelope) {
        Ok(forwarded) => {
            let Request { header, body } = forwarded.request;
            let call = Call {
                token: outer.token,
                version: header.version,
                correlation_id: header.correlation_id,
                envelope: Some(outer.correlation_id),
            };
            frontend.execute(services, call, body);
        }
        Err(error) => frontend.answer(services, outer, forwarding::refuse(error)),
    }
}

/// Sends the answer to a peer's request.
pub(super) fn on_reply(
    frontend: &mut Frontend,
    outputs: &mut VecDeque<Output>,
    ticket: PeerTicket,
    reply: &PeerReply,
) {
    if let Some((token, peer)) = frontend.peers.asked.remove(&ticket) {
        send(frontend, outputs, token, peer.answer(reply));
    }
}

fn send(
    frontend: &mut Frontend,
    outputs: &mut VecDeque<Output>,
    token: RequestToken,
    frame: Result<Frame, EncodeError>,
) {
    match frame {
        Ok(frame) => frontend.send(outputs, token, Some(frame)),
        Err(error) => frontend.close(outputs, token, error.to_string()),
    }
}
