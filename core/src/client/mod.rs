//! Client machines: producer, consumer and admin client without IO, clock or thread.
//!
//! The simulator's workloads, the command line and tests drive the same machines. Each decides what
//! to send to which broker and when to send it again; its host owns sockets and clock and speaks
//! [`ClientMachine`]. Read [`Producer`] or [`Consumer`] first.
//!
//! What a broker sends is bounded before it is decoded and checked after it; a broker that breaks
//! the protocol is disconnected, never believed and never a reason to panic.

mod admin;
pub(crate) mod backoff;
mod boundary;
mod cluster;
mod config;
mod consumer;
mod link;
mod negotiate;
mod network;
mod offsets;
mod producer;
mod refresh;

#[cfg(test)]
mod tests;

pub use admin::{
    Admin, AdminAnswer, AdminCall, AdminError, AdminEvent, ApiError, BrokerStatus, BrokersStatus,
    CallId, ConfigChange, ConfigEntry, ConfigResource, CreatedTopic, NewTopic, QuorumReplica,
    QuorumStatus,
};
pub use boundary::{Address, AddressError, ClientInput, ClientMachine, ClientOutput};
pub use cluster::{Cluster, PartitionMetadata, TopicMetadata};
pub use config::ClientConfig;
pub use consumer::{
    ConsumeFault, ConsumedBatch, ConsumedRecord, Consumer, ConsumerConfig, ConsumerEvent,
    FetchAnswer, OffsetReset, StartAt,
};
pub use offsets::{ListedOffset, OffsetSpec};
pub use producer::{
    Acks, DeliveryReport, Failure, Header, Outcome, ProduceRecord, Producer, ProducerConfig,
    SendError, Sent, murmur2, partition_for_key,
};
