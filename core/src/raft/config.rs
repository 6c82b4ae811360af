//! What the quorum's replica is told once, at its start.

use bytes::Bytes;

use crate::{
    planted::PlantedSet,
    storage::{LogDirId, Owner, StorageQueue},
    time::Now,
};

use super::voters::{ReplicaKey, VoterSet};

/// What every call that may do something needs: the time, and where to submit file operations.
#[derive(Debug)]
pub struct RaftContext<'a> {
    /// Both clocks.
    pub now: Now,
    /// File operations on their way out.
    pub storage: &'a mut StorageQueue,
    /// Historical bugs switched on; always none in a release.
    pub planted: PlantedSet,
}

/// Who this replica is. All of it must be durable (`meta.properties`) before the replica starts: a vote is bound to it. A
/// voter that is alone may start with an identity that is [new](RaftConfig::is_new_identity).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalReplica {
    /// The node and its metadata directory.
    pub key: ReplicaKey,
    /// Where that directory is (`metadata.log.dir`).
    pub log_dir: LogDirId,
    /// Who gets the completions of this machine's file operations; it hands them to
    /// [`Raft::on_completion`](super::Raft::on_completion).
    pub owner: Owner,
}

/// Looks at a metadata record found on disk before this replica takes part in an election; an error says in words why
/// the record belongs to another cluster than the one named first.
pub type RecordCheck = fn(cluster_id: &str, record: &[u8]) -> Result<(), String>;

/// The settings, by Kafka's names where it has them.
#[derive(Clone, Debug)]
pub struct RaftConfig {
    /// The cluster that the log must belong to; none while this node belongs to no cluster yet: [`Raft::join_cluster`]
    /// tells it when the committed records do.
    ///
    /// [`Raft::join_cluster`]: super::Raft::join_cluster
    pub cluster_id: Option<String>,
    /// Seeds the draws of election timeouts; no two nodes may share it.
    pub seed: [u8; 32],
    /// Refuses a log that belongs to another cluster.
    pub check_record: RecordCheck,
    /// `controller.quorum.voters`: who votes until the log says it.
    pub voters: VoterSet,
    /// The first metadata records of a new cluster, committed by its first leader. Without any, the host that founds a cluster
    /// alone leads at once and appends them itself.
    pub bootstrap_records: Vec<Bytes>,
    /// The replica's identity was drawn in this start and is written nowhere yet: a voter that is alone asks for that with
    /// [`RaftEvent::Founding`](super::RaftEvent::Founding), and refuses a folder that is another's.
    pub is_new_identity: bool,
    /// The synced mark of the metadata log in `recovery-point-offset-checkpoint`, 0 when it has none: damage below it is
    /// never taken for a torn tail.
    pub recovery_point: i64,
    /// The clean-shutdown marker was found: the log ends at its recovery point.
    pub clean: bool,
    /// `metadata.log.segment.bytes`.
    pub segment_bytes: u32,
    /// `metadata.log.segment.ms`.
    pub segment_ms: i64,
    /// `metadata.log.max.record.bytes.between.snapshots`.
    pub max_record_bytes_between_snapshots: u64,
    /// `metadata.log.max.snapshot.interval.ms`; 0 makes no snapshot because of time.
    pub max_snapshot_interval_ms: u64,
    /// `metadata.max.retention.bytes`; negative keeps any size.
    pub max_retention_bytes: i64,
    /// `metadata.max.retention.ms`; negative keeps for ever.
    pub max_retention_ms: i64,
    /// `controller.quorum.election.timeout.ms`: a voter without a leader stands for election after one to two of these.
    pub election_timeout_ms: u64,
    /// `controller.quorum.election.backoff.max.ms`: the longest pause after a lost election.
    pub election_backoff_max_ms: u64,
    /// `controller.quorum.fetch.timeout.ms`: how long a follower goes on without a fetch that its leader answered, and a
    /// leader without fetches of a majority.
    pub fetch_timeout_ms: u64,
    /// `controller.quorum.request.timeout.ms`: how long a call waits for its reply.
    pub request_timeout_ms: u64,
    /// `controller.quorum.retry.backoff.ms`: the pause before a failed call is made again.
    pub retry_backoff_ms: u64,
}

impl RaftConfig {
    /// Makes the settings with Kafka's defaults.
    #[must_use]
    pub const fn new(cluster_id: String, check_record: RecordCheck, voters: VoterSet) -> Self {
        Self {
            cluster_id: Some(cluster_id),
            seed: [0; 32],
            check_record,
            voters,
            bootstrap_records: Vec::new(),
            is_new_identity: false,
            recovery_point: 0,
            clean: false,
            segment_bytes: 1024 * 1024 * 1024,
            segment_ms: 7 * 24 * 60 * 60 * 1000,
            max_record_bytes_between_snapshots: 20 * 1024 * 1024,
            max_snapshot_interval_ms: 60 * 60 * 1000,
            max_retention_bytes: 100 * 1024 * 1024,
            max_retention_ms: 7 * 24 * 60 * 60 * 1000,
            election_timeout_ms: 1_000,
            election_backoff_max_ms: 1_000,
            fetch_timeout_ms: 2_000,
            request_timeout_ms: 2_000,
            retry_backoff_ms: 20,
        }
    }
}
