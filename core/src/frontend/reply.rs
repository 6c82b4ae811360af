//! Answers that rest on committed metadata.

use std::collections::BTreeMap;

use super::{Frontend, Services, metadata};
use crate::{
    cluster::ReplyTo,
    controller::{ControllerReply, decide::AutoCreation},
    protocol::ErrorCode,
};

impl Frontend {
    /// Sends what the controller decided, now that it is committed and this broker shows it.
    pub(crate) fn on_reply(
        &mut self,
        services: &mut Services<'_>,
        to: ReplyTo,
        reply: ControllerReply,
    ) {
        let call = match to {
            ReplyTo::Call(call) => call,
            ReplyTo::Metadata(waiting) => {
                let (call, request) = *waiting;
                let refused = match reply {
                    ControllerReply::AutoCreateTopics(creations) => refusals(creations),
                    _ => BTreeMap::new(),
                };
                return metadata::respond(self, services, call, &request, &refused);
            }
        };
        match reply {
            ControllerReply::CreateTopics(response) => self.answer(services, call, response),
            ControllerReply::DeleteTopics(response) => self.answer(services, call, response),
            ControllerReply::CreatePartitions(response) => self.answer(services, call, response),
            ControllerReply::AlterConfigs(response) => self.answer(services, call, response),
            ControllerReply::ElectLeaders(response) => self.answer(services, call, response),
            ControllerReply::RegisterBroker(response) => self.answer(services, call, response),
            ControllerReply::BrokerHeartbeat(response) => self.answer(services, call, response),
            ControllerReply::AlterPartition(response) => self.answer(services, call, response),
            ControllerReply::DescribeQuorum(response) => self.answer(services, call, response),
            // A lost connection makes the client ask again, of whoever leads then.
            ControllerReply::NotController | ControllerReply::AutoCreateTopics(_) => {
                let reason = "the controller resigned before it decided".to_owned();
                self.close(services.outputs, call.token, reason);
            }
        }
    }
}

/// Returns the topics that were not created, with the code that a Metadata answer gives them.
fn refusals(creations: Vec<AutoCreation>) -> BTreeMap<String, ErrorCode> {
    let refusals = creations.into_iter();
    refusals
        .map(|creation| (creation.name, creation.error))
        .collect()
}
