//! What this node asks the active controller, and what comes of the answers.

use bytes::Bytes;

use super::{
    Asker, Cluster, ClusterEvent, ErrandId, OWN_MS, Purpose, ReplyTo, controller_wire, refusal,
};
use crate::{
    controller::{ControllerReply, ControllerRequest, Ticket},
    ids::NodeId,
    peer::{self, CallError},
    protocol::ErrorCode,
    time::{Instant, Now},
};

/// The most that an answer of the controller may hold.
const ANSWER_BYTES_MAX: usize = 16 << 20;

impl Cluster {
    pub(super) fn begin_registration(&mut self, now: Now) {
        let Some(cluster_id) = self.cluster_id.clone() else {
            return;
        };
        let registration = self.registration.as_mut();
        if let Some(request) = registration.and_then(|registration| registration.begin(&cluster_id))
        {
            let request = ControllerRequest::RegisterBroker(request);
            let patience = self.registration_patience_ms();
            self.errands
                .add(now.instant, request, Purpose::Registration, patience);
        }
    }

    /// Half a session, as in Kafka: a registration that went over a link of which only the other end is gone holds nobody
    /// up for longer.
    fn registration_patience_ms(&self) -> u64 {
        let session = u64::try_from(self.settings.broker_session_timeout_ms).unwrap_or(OWN_MS);
        (session / 2).clamp(1, OWN_MS)
    }

    pub(super) fn maybe_heartbeat(&mut self, now: Now) {
        if self.has_heartbeat_under_way() {
            return;
        }
        if let Some(registration) = &self.registration
            && registration.is_heartbeat_due(now.instant)
        {
            let read = self.controller.committed_end().saturating_sub(1);
            self.send_heartbeat(now, read);
        }
    }

    pub(super) fn send_heartbeat(&mut self, now: Now, read: i64) {
        let interval = u64::try_from(self.settings.broker_heartbeat_interval_ms).unwrap_or(1);
        let interval = interval.max(1);
        let due = now.instant.plus_millis(interval);
        let registration = self.registration.as_mut();
        if let Some(request) = registration.and_then(|known| known.heartbeat(due, read)) {
            let request = ControllerRequest::BrokerHeartbeat(request);
            self.errands
                .add(now.instant, request, Purpose::Heartbeat, interval);
        }
    }

    /// Returns whether there is anybody to ask. A node that was elected and has not read all that is committed yet decides
    /// nothing.
    pub(super) fn knows_controller(&self) -> bool {
        self.controller.leading_epoch().is_some() || self.elsewhere().is_some()
    }

    fn elsewhere(&self) -> Option<NodeId> {
        self.raft.leader_id().filter(|id| *id != self.node_id)
    }

    /// Asks the active controller the next thing, if it is known who that is.
    pub(super) fn ask_controller(&mut self, now: Now) -> bool {
        if !self.knows_controller() {
            return false;
        }
        let leads_here = self.controller.leading_epoch().is_some();
        let elsewhere = self.elsewhere();
        let Some(id) = self.errands.next_due(now.instant) else {
            return false;
        };
        let Some(request) = self.errands.request(id) else {
            return false;
        };
        if leads_here {
            let request = request.clone();
            if let ControllerRequest::DescribeQuorum(request, version) = &request {
                let described = self.describe_quorum(now, request, *version);
                self.on_controller_reply(now, id, ControllerReply::DescribeQuorum(described));
                return true;
            }
            let ticket = self.ticket();
            self.errands.asked_here(id, ticket);
            self.askers.insert(ticket, Asker::Errand(id));
            self.controller.handle(now.instant, ticket, request);
            return true;
        }
        let written = controller_wire::encode(request);
        let (Some(node), Ok((api, version, body))) = (elsewhere, written) else {
            // A request that cannot be written is one that nobody can decide on.
            if let Some((request, purpose)) = self.errands.finish(id) {
                self.give_up(now, &request, purpose);
            }
            return true;
        };
        if let Some(until) = self.errands.asked_there(id, node) {
            let call = peer::Call {
                api_key: api.key(),
                version,
                body,
                timeout_ms: millis_left(now, until),
                answer_bytes_max: ANSWER_BYTES_MAX,
            };
            let event = ClusterEvent::CallController(node, id, call);
            self.events.push_back(event);
        }
        true
    }

    /// Takes the other node's answer to a request for the controller, or its loss.
    pub(crate) fn on_controller_answer(
        &mut self,
        now: Now,
        id: ErrandId,
        outcome: Result<Bytes, CallError>,
    ) {
        let Some(request) = self.errands.request(id) else {
            return;
        };
        let reply = outcome.map(|body| controller_wire::decode(request, body));
        match reply {
            Ok(Ok(reply)) => self.on_controller_reply(now, id, reply),
            Ok(Err(_)) | Err(_) => self.errands.rest(now.instant, id),
        }
    }

    fn on_controller_reply(&mut self, now: Now, id: ErrandId, reply: ControllerReply) {
        if refusal::is_of_no_controller(&reply) {
            self.errands.rest(now.instant, id);
        } else {
            self.conclude(now, id, reply);
        }
    }

    /// Hands the controller's decision to whoever wants it.
    fn conclude(&mut self, now: Now, id: ErrandId, reply: ControllerReply) {
        let Some((_, purpose)) = self.errands.finish(id) else {
            return;
        };
        match (purpose, reply) {
            (Purpose::Client(to), reply) => self.events.push_back(ClusterEvent::Reply(to, reply)),
            (Purpose::Registration, ControllerReply::RegisterBroker(reply)) => {
                let Some(registration) = &mut self.registration else {
                    return;
                };
                match registration.on_answer(now.instant, &reply) {
                    Ok(false) => {}
                    Ok(true) => self.register_again(now),
                    Err(message) => self.events.push_back(ClusterEvent::Fatal(message)),
                }
            }
            (Purpose::Heartbeat, ControllerReply::BrokerHeartbeat(reply)) => {
                let registration = self.registration.as_mut();
                if registration.is_some_and(|known| known.on_heartbeat(&reply)) {
                    self.events.push_back(ClusterEvent::MayStop);
                }
            }
            (Purpose::InSyncSets(number), ControllerReply::AlterPartition(reply)) => {
                let event = ClusterEvent::InSyncSets(number, Some(reply));
                self.events.push_back(event);
            }
            // An answer to something else than was asked is none.
            (Purpose::InSyncSets(number), _) => {
                self.events
                    .push_back(ClusterEvent::InSyncSets(number, None));
            }
            (Purpose::Registration | Purpose::Heartbeat, _) => {}
        }
    }

    /// Nobody decided in time.
    pub(super) fn give_up(&mut self, now: Now, request: &ControllerRequest, purpose: Purpose) {
        match purpose {
            Purpose::Client(to) => {
                let reply = refusal::refused(request, ErrorCode::RequestTimedOut);
                self.events.push_back(ClusterEvent::Reply(to, reply));
            }
            Purpose::Registration => self.register_again(now),
            Purpose::Heartbeat => {}
            Purpose::InSyncSets(number) => {
                self.events
                    .push_back(ClusterEvent::InSyncSets(number, None));
            }
        }
    }

    fn register_again(&mut self, now: Now) {
        let Some(registration) = &self.registration else {
            return;
        };
        let request = ControllerRequest::RegisterBroker(registration.request());
        let patience = self.registration_patience_ms();
        let at = self
            .errands
            .add(now.instant, request, Purpose::Registration, patience);
        self.errands.rest(now.instant, at);
    }

    /// Takes a decision of the controller here.
    pub(super) fn on_decided(&mut self, now: Now, ticket: Ticket, reply: ControllerReply) {
        match self.askers.remove(&ticket) {
            Some(Asker::Call(call, refusal)) => {
                let reply = match reply {
                    ControllerReply::NotController => refusal,
                    reply => reply,
                };
                let event = ClusterEvent::Reply(ReplyTo::Call(call), reply);
                self.events.push_back(event);
            }
            Some(Asker::Errand(id)) => {
                self.errands.answered_here(ticket);
                match reply {
                    ControllerReply::NotController => self.errands.rest(now.instant, id),
                    reply => self.conclude(now, id, reply),
                }
            }
            None => {}
        }
    }
}

fn millis_left(now: Now, until: Instant) -> u64 {
    let left = until.since(now.instant).as_millis();
    u64::try_from(left).unwrap_or(OWN_MS).clamp(1, OWN_MS)
}
