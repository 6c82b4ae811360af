//! Answers that rest on committed metadata.

use super::{Frontend, Services, metadata};
use crate::cluster::{AdminReply, ReplyTo};

impl Frontend {
    /// Sends what the controller decided, now that it is committed and this broker shows it.
    pub(crate) fn on_reply(&mut self, services: &mut Services<'_>, to: ReplyTo, reply: AdminReply) {
        let call = match to {
            ReplyTo::Call(call) => call,
            ReplyTo::Metadata(waiting) => {
                let (call, request) = *waiting;
                let refused = match reply {
                    AdminReply::AutoCreation(refused) => refused,
                    _ => Default::default(),
                };
                return metadata::respond(self, services, call, &request, &refused);
            }
        };
        match reply {
            AdminReply::CreateTopics(response) => self.answer(services, call, response),
            AdminReply::DeleteTopics(response) => self.answer(services, call, response),
            AdminReply::CreatePartitions(response) => self.answer(services, call, response),
            AdminReply::AlterConfigs(response) => self.answer(services, call, response),
            AdminReply::ElectLeaders(response) => self.answer(services, call, response),
            // A lost connection makes the client ask again, of whoever leads then.
            AdminReply::NotController | AdminReply::AutoCreation(_) => {
                let reason = "the controller resigned before it decided".to_owned();
                self.close(services.outputs, call.token, reason);
            }
        }
    }
}
