//! Brokers and their sessions: registrations and heartbeats.

use super::Controller;
use crate::{
    controller::{
        decide::{ApiError, RegistrationStep, broker_heartbeat, register_broker},
        image::BrokerImage,
        messages::{
            BrokerHeartbeatRequestData, BrokerHeartbeatResponseData, BrokerRegistrationRequestData,
            BrokerRegistrationResponseData, own_uuid,
        },
        records::Record,
        request::{ControllerReply, Ticket},
    },
    ids::NodeId,
    time::Instant,
};

impl Controller {
    /// Takes the next step of a registration: parks its reply, or returns what must come true before the next step.
    pub(super) fn registration_step(
        &mut self,
        now: Instant,
        ticket: Ticket,
        request: &BrokerRegistrationRequestData,
    ) -> Option<Vec<Record>> {
        let id = NodeId(request.broker_id);
        let context = self.context();
        let leading = self.leading.as_ref()?;
        let image = &leading.speculative;
        let mut session = leading.sessions.of(image, id, now);
        // A broker that shares this process with the controller is alive only now: its earlier incarnation ended with
        // the earlier controller's.
        session.is_valid &= id != self.node_id;
        // One that was let go to stop has nothing to be heard of any more: its next incarnation need not wait.
        let has_left = |known: &BrokerImage| known.fenced && known.in_controlled_shutdown;
        session.is_valid &= !image.broker(id).is_some_and(has_left);
        let step = register_broker(image, &context, request, leading.log_end, Some(session));
        let is_amended = image
            .broker(id)
            .is_some_and(|known| own_uuid(request.incarnation_id) == known.incarnation_id);
        let leading = self.leading.as_mut()?;
        let reply = match step {
            Ok(RegistrationStep::Cleanup(records)) => return Some(records),
            Ok(RegistrationStep::Registered(decision)) => {
                if !is_amended {
                    // The session of the incarnation before; the new one has one from its first heartbeat on.
                    leading.sessions.forget(id);
                }
                leading.append(decision.records, &mut self.outputs);
                decision.reply
            }
            Err(ApiError { code, .. }) => BrokerRegistrationResponseData {
                error_code: code.code(),
                broker_epoch: -1,
                ..BrokerRegistrationResponseData::default()
            },
        };
        leading.park(ticket, ControllerReply::RegisterBroker(reply));
        None
    }

    /// Decides on a heartbeat.
    pub(super) fn heartbeat(
        &mut self,
        now: Instant,
        ticket: Ticket,
        request: &BrokerHeartbeatRequestData,
    ) {
        let id = NodeId(request.broker_id);
        let expires = self.session_end(now);
        let Some(leading) = &mut self.leading else {
            return;
        };
        let session = leading.sessions.of(&leading.speculative, id, now);
        let reply = match broker_heartbeat(&leading.speculative, request, session) {
            Ok(heard) => {
                let offset = request.current_metadata_offset;
                let epoch = request.broker_epoch;
                leading.sessions.touch(id, epoch, expires, offset);
                leading.append(heard.decision.records, &mut self.outputs);
                if let Some(sweep) = heard.sweep {
                    leading.work.sweep(sweep);
                }
                heard.decision.reply
            }
            Err(ApiError { code, .. }) => BrokerHeartbeatResponseData {
                error_code: code.code(),
                is_caught_up: false,
                is_fenced: true,
                ..BrokerHeartbeatResponseData::default()
            },
        };
        leading.park(ticket, ControllerReply::BrokerHeartbeat(reply));
    }
}
