//! A broker as the cluster sees it: frames, file operations and time. Two releases can stand behind it side by side.

use std::{fmt, rc::Rc};

use seedlog_core::{
    broker::{BrokerConfig, Identity, Input, Output},
    ids::{Epoch, NodeId, Offset, TopicPartition},
    time::{Instant, Now},
};

use crate::history::Place;

/// A broker of some release. An older release sits behind an adapter that translates today's boundary.
pub trait Node {
    /// Feeds one input.
    fn handle(&mut self, now: Now, input: Input);
    /// Takes the next output, in order.
    fn poll_output(&mut self) -> Option<Output>;
    /// Says when [`Input::Timeout`] is next due.
    fn deadline(&self) -> Option<Instant>;
    /// Shows white-box checkers what they may see.
    fn probe(&self, probe: &mut Probe);
    /// Digests the whole state.
    fn state_hash(&self) -> u64;
}

/// What white-box checkers see of a broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// One past the last committed record of the metadata log.
    pub committed_metadata: Offset,
    /// The replica of the controller quorum.
    pub quorum: QuorumProbe,
    /// All partitions whose log is open or offline.
    pub partitions: Vec<PartitionProbe>,
    /// Who is in sync, of all partitions, also of those whose log is not open.
    pub assigned: Vec<AssignmentProbe>,
}

/// What a broker has heard of who is in sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignmentProbe {
    /// The partition.
    pub partition: TopicPartition,
    /// The partition epoch.
    pub partition_epoch: i32,
    /// The leader epoch.
    pub epoch: Epoch,
    /// The in-sync replicas of that partition epoch.
    pub isr: Vec<NodeId>,
}

/// What white-box checkers see of one replica of the controller quorum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuorumProbe {
    /// The epoch.
    pub epoch: Epoch,
    /// The leader of that epoch, as far as this node knows.
    pub leader: Option<NodeId>,
    /// The epoch of the durable vote.
    pub voted_epoch: Epoch,
    /// Whom the durable vote is for.
    pub voted: Option<NodeId>,
    /// One past what the latest durable snapshot of the metadata holds.
    pub snapshot: Option<Offset>,
    /// First offset of the metadata log.
    pub log_start: Offset,
    /// One past its last record.
    pub log_end: Offset,
    /// One past its last durable record.
    pub flushed: Offset,
}

/// What white-box checkers see of one partition on one broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionProbe {
    /// The partition.
    pub partition: TopicPartition,
    /// Its place in the scenario, if it has one.
    pub place: Option<Place>,
    /// First offset.
    pub start: Offset,
    /// One past the last offset.
    pub end: Offset,
    /// One past the last offset that is written to the page cache.
    pub written: Offset,
    /// One past the last offset that is known to be durable.
    pub flushed: Offset,
    /// The high watermark.
    pub high_watermark: Offset,
    /// The leader epoch, as this broker knows it; -1 if it knows none.
    pub leader_epoch: Epoch,
    /// Whether this broker believes to lead in that epoch.
    pub leads: bool,
    /// The leader of that epoch, as this broker knows it.
    pub leader: Option<NodeId>,
    /// The partition epoch, as this broker knows it.
    pub partition_epoch: i32,
    /// The committed in-sync replicas, as this broker knows them.
    pub isr: Vec<NodeId>,
    /// Start offset of each leader epoch that has records, and of the present one.
    pub epochs: Vec<(Epoch, Offset)>,
    /// Whether the partition cannot be served.
    pub offline: bool,
    /// Whether a copy counts when it is flushed (rule `durable`) and not when it is written.
    pub durable: bool,
}

/// What one node is, whatever its incarnation.
#[derive(Clone, Debug)]
pub struct Seat {
    /// Its id.
    pub id: NodeId,
    /// What its broker is told at each start.
    pub config: BrokerConfig,
}

/// Starts brokers of one release.
#[derive(Clone)]
pub struct Release {
    name: &'static str,
    start: Rc<StartNode>,
}

type StartNode = dyn Fn(&Seat, Identity, Now) -> Box<dyn Node>;

impl Release {
    /// Names a release and says how its brokers start.
    pub fn new(
        name: &'static str,
        start: impl Fn(&Seat, Identity, Now) -> Box<dyn Node> + 'static,
    ) -> Self {
        Self {
            name,
            start: Rc::new(start),
        }
    }

    /// Returns its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Starts a broker.
    #[must_use]
    pub fn start(&self, seat: &Seat, identity: Identity, now: Now) -> Box<dyn Node> {
        (self.start)(seat, identity, now)
    }
}

impl fmt::Debug for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Release").field(&self.name).finish()
    }
}
