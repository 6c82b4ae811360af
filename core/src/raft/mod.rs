//! The controller quorum's replicated metadata log: KRaft (KIP-595; snapshots KIP-630, directory ids KIP-853, pre-vote
//! KIP-996).
//!
//! # What it decides
//!
//! Who leads the quorum in which epoch, what the metadata log holds, and what of it is committed. Metadata records are opaque
//! to it; the host applies them in the order of [`RaftEvent`]s and lets its state be snapshotted when asked. Today's
//! quorum is one voter: rules, files and states are those of three, and what only peers make happen (a vote asked of
//! another, a fetch) is not here yet. A replica whose voter set has more members waits as its role says.
//!
//! # Roles
//!
//! | role | to | when |
//! | --- | --- | --- |
//! | start | `Observer` | this replica is not in the voter set |
//! | start | `Resigned` | the durable vote of this epoch is its own: it may have led |
//! | start | `Follower` | the durable state names a leader that is another voter |
//! | start | `Unattached` | otherwise |
//! | `Unattached`, `Follower`, `Resigned` | `Prospective` | there is no other voter that could lead |
//! | `Prospective` | `Candidate` | a majority would vote for it **and** its vote for itself, in the next epoch, is durable |
//! | `Candidate` | `Leader` | a majority voted for it, the log is open, and the folder's own entry is durable |
//! | `Leader` | – | the only voter has nobody to lose a majority to: it leads until it stops or its storage fails |
//!
//! # The rules it keeps
//!
//! 1. Epoch, vote and voted directory are one record, replaced atomically, durable before anything rests on them.
//! 2. Entries of an epoch are written only after the vote that made it is durable; an epoch is never led twice.
//! 3. The high watermark moves only to an entry of the present epoch that a majority of the voter set holds *synced*; the
//!    leader's own copy counts by its synced offset, and only if the leader is a voter.
//! 4. A snapshot is durable before the log start moves to it, and the log start moves to nothing else.
//! 5. What is damaged is refused by name and never taken for empty.
//!
//! # From an empty folder to committed records: three syncs in a row
//!
//! ```text
//! list ─ create folder ─┬─ write quorum-state.tmp ─ SYNC 1 ─ rename ─ SYNC 2 (folder) ─┬─ LeaderChange, voters and
//!                       ├─ open the log (creates its files)                            │  bootstrap records: one
//!                       └─ sync the parent folder ─────────────────────────────────────┘  SYNC 3 ─ committed, leader
//! ```
//!
//! A restart takes the same three after reading. The log's recovery adds one of its own where it keeps batches that lie past
//! the synced mark of the checkpoint.
//!
//! # What the host must guarantee
//!
//! Besides the storage contract of [`crate::storage`]: the directory id and the node id are durable before
//! [`Raft::start`]; completions of [`LocalReplica::owner`] all come to [`Raft::on_completion`]; events are applied in
//! order, and a snapshot is written from the state at exactly the event that asked for it.

use std::collections::VecDeque;

use crate::{
    ids::{Epoch, NodeId, Offset},
    log::LogEvent,
    storage::{Completion, FilePath, OpId, StorageFault},
    time::{Instant, Timestamp},
};

mod ballot;
mod commit;
mod config;
mod control;
mod election;
mod encoding;
mod entry;
mod event;
mod leader;
mod log;
mod probe;
mod quorum_state;
mod refusal;
mod replay;
mod role;
mod snapshot;
mod snapshots;
mod startup;
mod synced_mark;
#[cfg(test)]
mod tests;
mod voters;

use ballot::Ballot;
use entry::Entry;
use log::{MetadataLog, Progress};
use refusal::{Position, Refusal};
use role::Role;
use snapshots::Snapshots;
use startup::Loading;

pub use config::{LocalReplica, RaftConfig, RaftContext, RecordCheck};
pub use event::{AppendError, RaftEvent};
pub use probe::RaftProbe;
pub use snapshot::SnapshotId;
pub use voters::{Endpoint, ReplicaKey, Voter, VoterSet};

/// The replica of the metadata log on this node.
#[derive(Debug)]
pub struct Raft {
    config: RaftConfig,
    local: LocalReplica,
    folder: FilePath,
    phase: Phase,
    is_closing: bool,
    /// The sync of the folder's own entry, while it is under way.
    root_sync: Option<OpId>,
    ballot: Ballot,
    epoch: Epoch,
    role: Role,
    /// The last voters in the log, committed or not; the configured ones until the log names some.
    voters: VoterSet,
    committed_voters: Option<VoterSet>,
    /// Whether the log or a snapshot names voters.
    has_voters: bool,
    /// Whether the log or a snapshot holds a metadata record.
    has_data: bool,
    log: MetadataLog,
    uncommitted: VecDeque<Entry>,
    high_watermark: Offset,
    last_committed: (Epoch, Timestamp),
    /// Where the first entries of a leader end: from there on the host knows that it leads.
    announce_from: Offset,
    is_announced: bool,
    snapshots: Snapshots,
    /// Where the log should start: the end of the oldest snapshot to be kept.
    wanted_start: Offset,
    events: VecDeque<RaftEvent>,
}

#[derive(Debug)]
enum Phase {
    New,
    Loading(Box<Loading>),
    Running,
    Failed,
}

impl Raft {
    /// Makes a replica that has not started.
    #[must_use]
    pub fn new(config: RaftConfig, local: LocalReplica) -> Self {
        let partition = MetadataLog::partition().to_string();
        let folder = FilePath::root(local.log_dir).join(&partition);
        let log = MetadataLog::new(&config, folder.clone(), local.owner, config.recovery_point);
        Self {
            snapshots: Snapshots::new(local.owner, folder.clone()),
            voters: config.voters.clone(),
            config,
            local,
            folder,
            phase: Phase::New,
            is_closing: false,
            root_sync: None,
            ballot: Ballot::default(),
            epoch: Epoch(0),
            role: Role::Unattached { leader: None },
            committed_voters: None,
            has_voters: false,
            has_data: false,
            log,
            uncommitted: VecDeque::new(),
            high_watermark: 0,
            last_committed: (Epoch(0), Timestamp::NONE),
            announce_from: 0,
            is_announced: false,
            wanted_start: 0,
            events: VecDeque::new(),
        }
    }

    /// Takes the end of one of this machine's file operations.
    pub fn on_completion(&mut self, cx: &mut RaftContext<'_>, completion: Completion) {
        if matches!(self.phase, Phase::Failed) {
            return;
        }
        if let Err(refusal) = self.route(cx, completion) {
            self.fail(&refusal);
        }
    }

    /// Returns when [`Raft::on_timeout`] is next due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if !matches!(self.phase, Phase::Running) || self.is_closing {
            return None;
        }
        let snapshots = self.snapshots.deadline(&self.config);
        snapshots.into_iter().chain(self.log.deadline()).min()
    }

    /// Does what has come due.
    pub fn on_timeout(&mut self, cx: &mut RaftContext<'_>) {
        if !matches!(self.phase, Phase::Running) || self.is_closing {
            return;
        }
        self.log.on_timeout(cx);
        self.maybe_ask_for_snapshot(cx);
        let cleaned = if self.snapshots.cleaning_is_due(cx.now.instant) {
            self.clean(cx)
        } else {
            self.drain_log(cx)
        };
        if let Err(refusal) = cleaned {
            self.fail(&refusal);
        }
    }

    /// Prepares a clean stop; [`RaftEvent::Closed`] says that all is durable. Nothing can be appended any more.
    pub fn close(&mut self, cx: &mut RaftContext<'_>) {
        self.is_closing = true;
        if !matches!(self.phase, Phase::Running) || !self.log.is_open() {
            self.events.push_back(RaftEvent::Closed);
            return;
        }
        self.log.close(cx);
        if let Err(refusal) = self.drain_log(cx) {
            self.fail(&refusal);
        }
    }

    /// Takes the oldest event not taken yet.
    pub fn poll_event(&mut self) -> Option<RaftEvent> {
        self.events.pop_front()
    }

    /// Returns whether this replica leads with all that was committed before it known to the host.
    #[must_use]
    pub const fn is_leader(&self) -> bool {
        matches!(self.phase, Phase::Running)
            && matches!(self.role, Role::Leader(_))
            && self.is_announced
            && !self.is_closing
    }

    /// Returns the present epoch.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the leader of the present epoch, where known.
    #[must_use]
    pub const fn leader_id(&self) -> Option<NodeId> {
        self.role.leader(self.local.key.id)
    }

    /// Returns one past the last committed offset that this replica knows.
    #[must_use]
    pub const fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// Returns the synced mark for `recovery-point-offset-checkpoint`.
    #[must_use]
    pub fn recovery_point(&self) -> Offset {
        self.log.recovery_point()
    }

    /// Returns the voters in the order of their ids.
    #[must_use]
    pub const fn voters(&self) -> &VoterSet {
        &self.voters
    }

    fn route(&mut self, cx: &mut RaftContext<'_>, completion: Completion) -> Result<(), Refusal> {
        if self.root_sync == Some(completion.id) {
            completion.result.map_err(|fault| self.fault(fault))?;
            self.root_sync = None;
            return self.maybe_lead(cx);
        }
        if self.ballot.awaits(completion.id) {
            return self.on_ballot(cx, completion);
        }
        if self.snapshots.awaits(completion.id) {
            return self.on_snapshot_written(cx, completion);
        }
        let Some(completion) = self.on_loading(cx, completion)? else {
            return Ok(());
        };
        for progress in self.log.on_completion(cx, completion) {
            self.on_progress(cx, progress)?;
        }
        if self.is_closing {
            self.log.flush(cx);
        }
        Ok(())
    }

    /// Takes what the log said on its own.
    fn drain_log(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        for progress in self.log.take_progress(cx) {
            self.on_progress(cx, progress)?;
        }
        if self.is_closing {
            self.log.flush(cx);
        }
        Ok(())
    }

    fn on_progress(&mut self, cx: &mut RaftContext<'_>, progress: Progress) -> Result<(), Refusal> {
        match progress {
            Progress::Opened => {
                self.on_opened(cx)?;
                self.maybe_lead(cx)
            }
            Progress::Flushed => {
                self.count_own_copy(cx);
                self.log.flush(cx);
                self.maybe_move_start(cx)
            }
            Progress::Read(bytes) => self.on_replayed(cx, &bytes),
            Progress::ReadFailed(error) => Err(Refusal::Read { error }),
            Progress::Fault(path, fault) => Err(Refusal::Storage { path, fault }),
            Progress::Other(event) => self.on_log_event(cx, event),
        }
    }

    fn on_log_event(&mut self, cx: &mut RaftContext<'_>, event: LogEvent) -> Result<(), Refusal> {
        match event {
            LogEvent::Written { .. } => {
                self.log.flush(cx);
                self.count_own_copy(cx);
                Ok(())
            }
            LogEvent::AppendFailed { fault, .. } => Err(self.fault(fault)),
            LogEvent::SyncFailed { path, fault } => Err(Refusal::Storage { path, fault }),
            LogEvent::Offline { file, at, reason } => Err(Refusal::Offline {
                file,
                position: Position(at),
                reason,
            }),
            LogEvent::StartMoved { start, .. } => {
                self.snapshots.remove_before(cx.storage, start);
                Ok(())
            }
            LogEvent::Notice(notice) => {
                self.events.push_back(RaftEvent::Notice(notice));
                Ok(())
            }
            LogEvent::Closed => {
                self.events.push_back(RaftEvent::Closed);
                Ok(())
            }
            LogEvent::Opened { .. }
            | LogEvent::RetentionDue { .. }
            | LogEvent::Unlinked
            | LogEvent::ReadDone { .. }
            | LogEvent::LookupDone { .. }
            | LogEvent::EpochRecorded { .. }
            | LogEvent::Truncated { .. }
            | LogEvent::Deleted => Ok(()),
        }
    }

    fn fault(&self, fault: StorageFault) -> Refusal {
        Refusal::Storage {
            path: self.folder.clone(),
            fault,
        }
    }

    /// Stops for good and says why.
    fn fail(&mut self, refusal: &Refusal) {
        if matches!(self.phase, Phase::Failed) {
            return;
        }
        self.phase = Phase::Failed;
        self.events.push_back(RaftEvent::Fatal {
            message: refusal.to_string(),
        });
    }
}
