//! The controller quorum's replicated metadata log: KRaft (KIP-595; snapshots KIP-630, directory ids KIP-853, pre-vote
//! KIP-996).
//!
//! # What it decides
//!
//! Who leads the quorum in which epoch, what the metadata log holds, and what of it is committed. Metadata records are opaque
//! to it; the host applies them in the order of [`RaftEvent`]s and lets its state be snapshotted when asked. Peers are calls
//! and replies in types ([`PeerRequest`], [`PeerReply`]); who carries them, and over what, is the host's matter.
//!
//! # Roles
//!
//! | role | to | when |
//! | --- | --- | --- |
//! | start | `Observer` | this replica is not in the voter set |
//! | start | `Resigned` | the durable vote of this epoch is its own: it may have led |
//! | start | `Follower` | the durable state names a leader that is another voter |
//! | start | `Unattached` | otherwise |
//! | any | `Unattached` | a peer names a later epoch, without its leader |
//! | any but `Leader` | `Follower` | a peer names the leader of this or a later epoch |
//! | `Unattached`, `Resigned` | `Prospective` | an election timeout went by; at once where there is no other voter |
//! | `Follower` | `Prospective` | no fetch was answered for a fetch timeout |
//! | `Follower` | `Unattached` | the leader leads no more |
//! | `Prospective` | `Candidate` | a majority would vote for it: the next epoch begins with its vote for itself |
//! | `Prospective` | `Follower`, `Unattached` | no majority would, or an election timeout went by |
//! | `Candidate` | `Leader` | a majority voted for it, the log is open, and the folder's own entry is durable |
//! | `Candidate` | `Prospective` | the election is lost |
//! | `Leader` | `Resigned` | no majority has fetched for one and a half fetch timeouts, or this replica is closed |
//!
//! An `Observer` follows in the same way and never votes.
//!
//! # The rules it keeps
//!
//! 1. Epoch, vote and voted directory are one record, replaced atomically, durable before anything rests on them.
//! 2. Entries of an epoch are written only after the vote that made it is durable, except where a cluster is founded by one voter:
//!    there they count only then. An epoch is never led twice where anybody may have heard of it.
//! 3. The high watermark moves only to an entry of the present epoch that a majority of the voter set holds *synced*; the
//!    leader's own copy counts by its synced offset, and only if the leader is a voter.
//! 4. A snapshot is durable before the log start moves to it, and the log start moves to nothing else.
//! 5. What is damaged is refused by name and never taken for empty.
//! 6. A vote leaves when it is durable, and a fetch when all that it says to hold is: the offset of a fetch is a promise.
//! 7. A reply counts for the call that is open under its number, and no call outlives the role that made it.
//! 8. What a leader answers about a diverging log is a reason to truncate and nothing else; below the high watermark nothing
//!    is ever truncated.
//! 9. A cluster is founded by all its configured voters, each with an empty log, and its log names their directories. After that
//!    an empty log is a loss: a replica that the log names, and that does not remember having founded it, neither votes nor
//!    follows.
//!
//! # From an empty folder to committed records: three syncs in a row, or one
//!
//! ```text
//! list ─ create folder ─┬─ write quorum-state.tmp ─ SYNC 1 ─ rename ─ SYNC 2 (folder) ─┬─ LeaderChange, voters and
//!                       ├─ open the log (creates its files)                            │  bootstrap records: one
//!                       └─ sync the parent folder ─────────────────────────────────────┘  SYNC 3 ─ committed, leader
//! ```
//!
//! A voter that is alone founds its cluster with one, as `founding.rs` tells. A restart takes the three after reading. The log's recovery adds one of its own where it keeps batches that lie past
//! the synced mark of the checkpoint.
//!
//! # What the host must guarantee
//!
//! Besides the storage contract of [`crate::storage`]: the directory id and the node id are durable before
//! [`Raft::start`]; completions of [`LocalReplica::owner`] all come to [`Raft::on_completion`]; events are applied in
//! order, and a snapshot is written from the state at exactly the event that asked for it. Requests and calls may be lost,
//! late, repeated and reordered at will.

use std::collections::{BTreeSet, VecDeque};

use crate::{
    ids::{Epoch, NodeId, Offset},
    log::LogEvent,
    protocol::ErrorCode,
    storage::{Completion, FilePath, OpId, StorageFault},
    time::{Instant, Timestamp},
};

mod ballot;
mod calls;
mod commit;
mod config;
mod control;
mod description;
mod election;
mod encoding;
mod entry;
mod event;
mod follow;
mod founding;
mod install;
mod leader;
mod log;
mod messages;
mod peers;
mod probe;
mod quorum_state;
mod refusal;
mod replay;
mod role;
mod serve;
mod snapshot;
mod snapshots;
mod startup;
mod succession;
mod synced_mark;
#[cfg(test)]
mod tests;
mod timing;
mod transitions;
mod truncate;
mod vote;
mod voters;
pub mod wire;

use ballot::Ballot;
use calls::Calls;
use entry::Entry;
use follow::Following;
use founding::Founding;
use install::Installing;
use log::{MetadataLog, Progress};
use refusal::{Position, Refusal};
use role::Role;
use serve::{ParkedFetch, PieceRead, Reading};
use snapshots::Snapshots;
use startup::Loading;
use succession::Ending;
use timing::Timing;
use truncate::Cut;
use vote::ParkedVote;

pub use config::{LocalReplica, RaftConfig, RaftContext, RecordCheck};
pub use description::{QuorumDescription, ReplicaProgress};
pub use event::{AppendError, RaftEvent};
pub use messages::{
    BeginQuorumEpochRequest, CallId, EndQuorumEpochRequest, FetchLogReply, FetchLogRequest,
    FetchNews, FetchSnapshotRequest, LinkLost, LogPosition, PeerReply, PeerRequest, PeerTicket,
    ReplyBody, SnapshotPiece, VoteRequest,
};
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
    /// Until when a close waits for the voters to hear that this leader leads no more.
    close_by: Option<Instant>,
    is_log_closed: bool,
    /// The sync of the folder's own entry, while it is under way.
    root_sync: Option<OpId>,
    /// What a founding waits for besides that and the vote.
    founding: Option<Founding>,
    ballot: Ballot,
    epoch: Epoch,
    role: Role,
    /// When the role has waited long enough.
    role_until: Option<Instant>,
    timing: Timing,
    elections_lost: u32,
    /// The epoch whose leader is known to lead no more.
    ended: Option<Epoch>,
    ending: Option<Ending>,
    cluster_id: Option<String>,
    /// The last voters in the log, committed or not; the configured ones until the log names some.
    voters: VoterSet,
    committed_voters: Option<VoterSet>,
    /// Whether the log or a snapshot names voters.
    has_voters: bool,
    /// Whether the log or a snapshot holds a metadata record.
    has_data: bool,
    has_committed_data: bool,
    log: MetadataLog,
    uncommitted: VecDeque<Entry>,
    high_watermark: Offset,
    last_committed: (Epoch, Timestamp),
    /// Where the first entries of a leader end: from there on the host knows that it leads.
    announce_from: Offset,
    announced: Option<Epoch>,
    told_leader: Option<(Epoch, NodeId)>,
    snapshots: Snapshots,
    /// Where the log should start: the end of the oldest snapshot to be kept.
    wanted_start: Offset,
    following: Following,
    cut: Option<Cut>,
    installing: Option<Installing>,
    /// The place among the voters that is asked next who leads.
    looked_at: usize,
    calls: Calls,
    sends: VecDeque<(NodeId, CallId, PeerRequest)>,
    replies: VecDeque<(PeerTicket, PeerReply)>,
    parked_votes: Vec<ParkedVote>,
    parked_fetches: Vec<ParkedFetch>,
    reading: Vec<Reading>,
    pieces: Vec<PieceRead>,
    warned: BTreeSet<(NodeId, ErrorCode)>,
    /// The time of the last input.
    woken_at: Instant,
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
        let synced = (0, config.recovery_point);
        let log = MetadataLog::new(&config, folder.clone(), local.owner, synced);
        let mut timing = Timing::new(&config);
        Self {
            snapshots: Snapshots::new(local.owner, folder.clone()),
            voters: config.voters.clone(),
            cluster_id: config.cluster_id.clone(),
            calls: Calls::new(timing.draw()),
            timing,
            config,
            local,
            folder,
            phase: Phase::New,
            is_closing: false,
            close_by: None,
            is_log_closed: false,
            root_sync: None,
            founding: None,
            ballot: Ballot::default(),
            epoch: Epoch(0),
            role: Role::Unattached { leader: None },
            role_until: None,
            elections_lost: 0,
            ended: None,
            ending: None,
            committed_voters: None,
            has_voters: false,
            has_data: false,
            has_committed_data: false,
            log,
            uncommitted: VecDeque::new(),
            high_watermark: 0,
            last_committed: (Epoch(0), Timestamp::NONE),
            announce_from: 0,
            announced: None,
            told_leader: None,
            wanted_start: 0,
            following: Following::default(),
            cut: None,
            installing: None,
            looked_at: 0,
            sends: VecDeque::new(),
            replies: VecDeque::new(),
            parked_votes: Vec::new(),
            parked_fetches: Vec::new(),
            reading: Vec::new(),
            pieces: Vec::new(),
            warned: BTreeSet::new(),
            woken_at: Instant::ORIGIN,
            events: VecDeque::new(),
        }
    }

    /// Takes the end of one of this machine's file operations.
    pub fn on_completion(&mut self, cx: &mut RaftContext<'_>, completion: Completion) {
        if matches!(self.phase, Phase::Failed) {
            return;
        }
        let taken = self.route(cx, completion);
        self.finish(cx, taken);
    }

    /// Returns when [`Raft::on_timeout`] is next due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if !matches!(self.phase, Phase::Running) {
            return None;
        }
        if self.is_closing {
            let by = self
                .close_by
                .filter(|by| !self.is_end_told() && *by > self.woken_at)?;
            return self.calls.deadline().into_iter().chain([by]).min();
        }
        let deadlines = [
            self.snapshots.deadline(&self.config),
            self.log.deadline(),
            self.role_until,
            self.leader_deadline(),
            self.calls.deadline(),
            self.fetches_due(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Does what has come due.
    pub fn on_timeout(&mut self, cx: &mut RaftContext<'_>) {
        if !matches!(self.phase, Phase::Running) {
            return;
        }
        let done = self.on_due(cx);
        self.finish(cx, done);
    }

    fn on_due(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        let now = cx.now.instant;
        for call in self.calls.expire(now) {
            self.on_silence(cx, call);
        }
        self.calls.wake(now);
        if self.is_closing {
            return Ok(());
        }
        self.on_role_timeout(cx)?;
        self.wake_parked(cx);
        self.log.on_timeout(cx);
        self.maybe_ask_for_snapshot(cx);
        if self.snapshots.cleaning_is_due(now) && !self.is_busy() {
            self.clean(cx)
        } else {
            self.drain_log(cx)
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
            && self.announced.is_some()
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
            self.release_votes();
            self.count_own_vote(cx)?;
            self.maybe_found(cx);
            return Ok(());
        }
        if self.ballot.awaits(completion.id) {
            return self.on_ballot(cx, completion);
        }
        if self.snapshots.awaits(completion.id) {
            return self.on_snapshot_written(cx, completion);
        }
        let Some(completion) = self.on_piece_read(completion) else {
            return Ok(());
        };
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
                self.follow_commit(cx);
                self.log.flush(cx);
                self.maybe_move_start(cx)
            }
            Progress::Read(bytes) => self.on_replayed(cx, &bytes),
            Progress::ReadFailed(error) => Err(Refusal::Read { error }),
            Progress::Served(id, result) => {
                self.on_served(id, result);
                Ok(())
            }
            Progress::Lowered => self.on_lowered(cx),
            Progress::Truncated => self.on_truncated(cx),
            Progress::Fault(path, fault) => Err(Refusal::Storage { path, fault }),
            Progress::Other(event) => self.on_log_event(cx, event),
        }
    }

    fn on_log_event(&mut self, cx: &mut RaftContext<'_>, event: LogEvent) -> Result<(), Refusal> {
        match event {
            LogEvent::Written { .. } => {
                self.log.flush(cx);
                self.count_own_copy(cx);
                self.wake_parked(cx);
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
                self.is_log_closed = true;
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
