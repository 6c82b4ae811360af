//! What white-box checkers may read: a small, versioned picture, never private fields.

use super::Broker;
use crate::{
    ids::{Epoch, NodeId, Offset, TopicPartition, Uuid},
    log::LogState,
    replication::{FlushRule, Partition, PartitionState},
};

/// Version of the picture; a field that changes its meaning raises it.
pub const PROBE_VERSION: u16 = 1;

/// A broker at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// [`PROBE_VERSION`] of the broker that made it.
    pub version: u16,
    /// Whether the broker serves clients.
    pub ready: bool,
    /// The controller quorum as this node knows it.
    pub quorum: QuorumProbe,
    /// Every partition, by name.
    pub partitions: Vec<PartitionProbe>,
    /// Requests that were taken and not yet answered.
    pub unanswered: usize,
}

/// The controller quorum at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuorumProbe {
    /// The epoch.
    pub epoch: Epoch,
    /// First offset of the metadata log.
    pub log_start: Offset,
    /// One past the last record.
    pub log_end: Offset,
    /// One past the last durable record.
    pub flushed: Offset,
    /// One past the last committed record.
    pub committed: Offset,
    /// The leader of the epoch, where it is known.
    pub leader: Option<NodeId>,
    /// The epoch of the durable vote.
    pub voted_epoch: Epoch,
    /// Whom the durable vote is for.
    pub voted: Option<NodeId>,
    /// One past what the latest durable snapshot of the metadata holds.
    pub snapshot: Option<Offset>,
}

/// A partition at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionProbe {
    /// Its name.
    pub name: TopicPartition,
    /// Its topic's id.
    pub topic_id: Uuid,
    /// When a copy counts.
    pub rule: FlushRule,
    /// How far it is from being served.
    pub state: PartitionState,
    /// Whether the log is being cut: its fields do not fit together before that is done.
    pub is_cutting: bool,
    /// First offset.
    pub start: Offset,
    /// One past the last assigned offset.
    pub end: Offset,
    /// One past the last record in the page cache.
    pub written: Offset,
    /// One past the last durable record.
    pub flushed: Offset,
    /// One past the last record that consumers may read.
    pub high_watermark: Offset,
    /// The epoch in which this broker leads.
    pub leader_epoch: Option<Epoch>,
    /// The leader epoch that was assigned last.
    pub assigned_epoch: Epoch,
    /// The leader of that epoch.
    pub leader: Option<NodeId>,
    /// The partition epoch that was assigned last.
    pub partition_epoch: i32,
    /// The in-sync replicas of that partition epoch.
    pub isr: Vec<NodeId>,
    /// The leader-epoch cache: each epoch with its first offset.
    pub epochs: Vec<(Epoch, Offset)>,
}

pub(super) fn take(broker: &Broker) -> Probe {
    let quorum = broker
        .cluster
        .as_ref()
        .map(|cluster| cluster.quorum_probe())
        .unwrap_or_default();
    let mut partitions: Vec<PartitionProbe> = broker
        .partitions
        .iter()
        .map(|(_, partition)| of(partition))
        .collect();
    partitions.sort_by(|one, other| one.name.cmp(&other.name));
    Probe {
        version: PROBE_VERSION,
        ready: broker.is_serving(),
        quorum,
        partitions,
        unanswered: broker.frontend.unanswered(),
    }
}

fn of(partition: &Partition) -> PartitionProbe {
    let log = partition.log().probe();
    let assignment = partition.assignment();
    PartitionProbe {
        name: partition.name().clone(),
        topic_id: partition.topic_id(),
        rule: partition.settings().rule,
        state: partition.state(),
        is_cutting: log.state == LogState::Opening,
        start: log.start,
        end: log.end,
        written: log.written,
        flushed: log.flushed,
        high_watermark: partition.high_watermark(),
        leader_epoch: partition.leader_epoch(),
        assigned_epoch: assignment.epoch,
        leader: assignment.leader,
        partition_epoch: assignment.partition_epoch,
        isr: assignment.isr.clone(),
        epochs: log.epochs,
    }
}

/// Folds the probe and the committed metadata into one number: FNV-1a over their printed form, which names every field.
pub(super) fn hash(broker: &Broker) -> u64 {
    use std::fmt::Write;
    let mut fold = Fold(0xcbf2_9ce4_8422_2325);
    // Writing to a hash cannot fail.
    let _ = write!(fold, "{:?}", take(broker));
    let image = broker
        .cluster
        .as_ref()
        .map_or(0, |cluster| cluster.image().state_hash());
    let _ = write!(fold, "{image:x}");
    fold.0
}

struct Fold(u64);

impl std::fmt::Write for Fold {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}
