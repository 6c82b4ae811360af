//! Requests for the controller, and whom their replies go to.

use std::collections::BTreeMap;

use crate::{
    controller::{ControllerReply, ControllerRequest},
    frontend::Call,
    protocol::{
        ErrorCode,
        messages::{
            CreatePartitionsRequestData, CreatePartitionsResponseData, CreateTopicsRequestData,
            CreateTopicsResponseData, DeleteTopicsRequestData, DeleteTopicsResponseData,
            ElectLeadersRequestData, ElectLeadersResponseData, IncrementalAlterConfigsRequestData,
            IncrementalAlterConfigsResponseData, MetadataRequestData,
        },
    },
};

/// A client's request that the controller decides on.
#[derive(Debug)]
pub(crate) enum AdminRequest {
    CreateTopics(CreateTopicsRequestData),
    DeleteTopics(DeleteTopicsRequestData),
    CreatePartitions(CreatePartitionsRequestData),
    AlterConfigs(IncrementalAlterConfigsRequestData),
    ElectLeaders(ElectLeadersRequestData),
}

impl AdminRequest {
    pub(super) fn for_controller(self, version: i16) -> ControllerRequest {
        match self {
            Self::CreateTopics(request) => ControllerRequest::CreateTopics(request),
            Self::DeleteTopics(request) => ControllerRequest::DeleteTopics(request, version),
            Self::CreatePartitions(request) => ControllerRequest::CreatePartitions(request),
            Self::AlterConfigs(request) => ControllerRequest::AlterConfigs(request),
            Self::ElectLeaders(request) => ControllerRequest::ElectLeaders(request),
        }
    }
}

/// Who waits for a reply.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    /// A request of the same kind.
    Call(Call),
    /// A Metadata request whose missing topics are being created.
    Metadata(Box<(Call, MetadataRequestData)>),
}

/// What the controller answered.
#[derive(Debug)]
pub(crate) enum AdminReply {
    CreateTopics(CreateTopicsResponseData),
    DeleteTopics(DeleteTopicsResponseData),
    CreatePartitions(CreatePartitionsResponseData),
    AlterConfigs(IncrementalAlterConfigsResponseData),
    ElectLeaders(ElectLeadersResponseData),
    /// Topics that were not created, with the code that a Metadata answer gives them.
    AutoCreation(BTreeMap<String, ErrorCode>),
    /// Nobody decided: the controller is elsewhere.
    NotController,
}

impl AdminReply {
    pub(super) fn from_controller(reply: ControllerReply) -> Self {
        match reply {
            ControllerReply::CreateTopics(response) => Self::CreateTopics(response),
            ControllerReply::DeleteTopics(response) => Self::DeleteTopics(response),
            ControllerReply::CreatePartitions(response) => Self::CreatePartitions(response),
            ControllerReply::AlterConfigs(response) => Self::AlterConfigs(response),
            ControllerReply::ElectLeaders(response) => Self::ElectLeaders(response),
            ControllerReply::AutoCreateTopics(created) => Self::AutoCreation(
                created
                    .into_iter()
                    .filter_map(|topic| {
                        Some((topic.name, ErrorCode::from_code(topic.error.code())?))
                    })
                    .collect(),
            ),
            ControllerReply::RegisterBroker(_)
            | ControllerReply::BrokerHeartbeat(_)
            | ControllerReply::AlterPartition(_)
            | ControllerReply::NotController => Self::NotController,
        }
    }
}
