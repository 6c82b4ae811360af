//! What the controller is asked, and what it answers.

use super::{
    decide::AutoCreation,
    messages::{
        AlterPartitionRequestData, AlterPartitionResponseData, BrokerHeartbeatRequestData,
        BrokerHeartbeatResponseData, BrokerRegistrationRequestData, BrokerRegistrationResponseData,
        CreatePartitionsRequestData, CreatePartitionsResponseData, CreateTopicsRequestData,
        CreateTopicsResponseData, DeleteTopicsRequestData, DeleteTopicsResponseData,
        DescribeQuorumRequestData, DescribeQuorumResponseData, ElectLeadersRequestData,
        ElectLeadersResponseData, IncrementalAlterConfigsRequestData,
        IncrementalAlterConfigsResponseData,
    },
    records::Record,
};
use crate::ids::{Epoch, Offset};

/// A request's number, chosen by whoever asks; the reply carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A request that only the active controller may decide on.
#[derive(Clone, Debug, PartialEq)]
pub enum ControllerRequest {
    /// `CreateTopics`.
    CreateTopics(CreateTopicsRequestData),
    /// `DeleteTopics`, in the version it came in.
    DeleteTopics(DeleteTopicsRequestData, i16),
    /// `CreatePartitions`.
    CreatePartitions(CreatePartitionsRequestData),
    /// `IncrementalAlterConfigs`.
    AlterConfigs(IncrementalAlterConfigsRequestData),
    /// `BrokerRegistration`.
    RegisterBroker(BrokerRegistrationRequestData),
    /// `BrokerHeartbeat`.
    BrokerHeartbeat(BrokerHeartbeatRequestData),
    /// `AlterPartition`, in the version it came in.
    AlterPartition(AlterPartitionRequestData, i16),
    /// `ElectLeaders`.
    ElectLeaders(ElectLeadersRequestData),
    /// Topics that a metadata request named and that do not exist.
    AutoCreateTopics(Vec<String>),
    /// `DescribeQuorum`, in the version it came in: the quorum's leader answers it, which is where the active controller is.
    DescribeQuorum(DescribeQuorumRequestData, i16),
}

/// The answer to a [`ControllerRequest`].
#[derive(Clone, Debug, PartialEq)]
pub enum ControllerReply {
    /// To `CreateTopics`.
    CreateTopics(CreateTopicsResponseData),
    /// To `DeleteTopics`.
    DeleteTopics(DeleteTopicsResponseData),
    /// To `CreatePartitions`.
    CreatePartitions(CreatePartitionsResponseData),
    /// To `IncrementalAlterConfigs`.
    AlterConfigs(IncrementalAlterConfigsResponseData),
    /// To `BrokerRegistration`.
    RegisterBroker(BrokerRegistrationResponseData),
    /// To `BrokerHeartbeat`.
    BrokerHeartbeat(BrokerHeartbeatResponseData),
    /// To `AlterPartition`.
    AlterPartition(AlterPartitionResponseData),
    /// To `ElectLeaders`.
    ElectLeaders(ElectLeadersResponseData),
    /// To the metadata request's wish.
    AutoCreateTopics(Vec<AutoCreation>),
    /// To `DescribeQuorum`.
    DescribeQuorum(DescribeQuorumResponseData),
    /// To anything: this node is not the active controller, or ceased to be it before the decision was agreed on. The
    /// decision may still come into force.
    NotController,
}

/// What the controller wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum ControllerOutput {
    /// Append these records as one atomic batch.
    Append {
        /// The epoch of leadership that the decision was taken in; the quorum drops it in any other.
        epoch: Epoch,
        /// Where the first record must stand.
        base_offset: Offset,
        /// The records, one offset each.
        records: Vec<Record>,
    },
    /// Send this answer.
    Reply(Ticket, ControllerReply),
}
