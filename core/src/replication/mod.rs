//! Replication: what a copy counts for, when an append is answered, how far readers may see.
//!
//! A [`Partition`] decides for one replica, as leader or as follower; [`Partitions`] is the table of all on this broker. What
//! partitions need from elsewhere they say as [`PartitionDuty`]; what requests wait for, as [`Outcome`].
//!
//! What the host must guarantee: assignments come in the order of the metadata log, and none before this broker has applied
//! its own registration (a broker that restarts must not lead in an epoch of its earlier life); a fetch is checked with
//! [`Partition::check_fetch`], read, and noted with [`Partition::note_fetch`] in one step; a duty is done once or, like a
//! proposal to the controller, repeated until its answer is known.

mod acks;
mod alter_partition;
mod config;
mod divergence;
mod fetch_sessions;
mod fetcher;
mod fetchers;
mod fetching;
mod following;
mod isr;
mod known_brokers;
mod leadership;
mod new_partition;
mod partition;
mod partitions;
mod payload;
mod progress;
mod read_replica;
mod settings;
mod slot;
pub mod wire;

#[cfg(test)]
mod tests;

pub use acks::{Accepted, AckToken, Acks, ParkedAcks};
pub use alter_partition::{
    AlterPartitionAsk, IsrProposals, PartitionAlteration, PartitionAltered, SettledProposal,
};
pub use config::ReplicationConfig;
pub use divergence::EpochEnd;
pub use fetch_sessions::{
    FetchContext, FetchSessions, ReadPartition, SessionAnswer, SessionError, SessionRequest,
};
pub use fetcher::{Delivery, FetchAnswer, FetchAsk, FetchWant, Fetcher, FetcherAsk, OffsetAsk};
pub use fetchers::Fetchers;
pub use fetching::{FetchClaim, FetchGrant, FetchRefusal, Reader};
pub use following::{FetchPosition, FetchedPartition, LeaderOffset, OffsetQuestion, Readiness};
pub use isr::{IsrAnswer, IsrMember, IsrProposal, ProposalId};
pub use known_brokers::{KnownBroker, KnownBrokers};
pub use leadership::{LeaderAssignment, Leadership};
pub use new_partition::NewPartition;
pub use partition::{
    Acknowledged, AppendFailure, AppendRefusal, FlushRule, Partition, PartitionDuty, PartitionState,
};
pub use partitions::{Context, Effects, Outcome, Partitions};
pub use payload::PayloadFault;
pub use progress::{FollowerFetch, FollowerProgress};
pub use read_replica::{ReadableReplica, preferred_read_replica};
pub use settings::TopicSettings;
pub use slot::SlotId;

use crate::ids::Uuid;

/// A partition as brokers name it to one another: no name that a new topic may bear again (KIP-516).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopicIdPartition {
    /// The topic's id.
    pub topic_id: Uuid,
    /// The partition's number.
    pub partition: i32,
}
