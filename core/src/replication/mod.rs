//! Replication: what a copy counts for, when an append is answered, how far readers may see.

mod acks;
mod leadership;
mod partition;
mod partitions;
mod settings;

pub use acks::{Accepted, AckToken, Acks, ParkedAcks};
pub use leadership::{LeaderAssignment, Leadership};
pub use partition::{
    Acknowledged, AppendFailure, AppendRefusal, FlushRule, Partition, PartitionState,
};
pub use partitions::{Context, Effects, NewPartition, Outcome, Partitions, SlotId};
pub use settings::TopicSettings;
