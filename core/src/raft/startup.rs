//! The start: what the folder holds, whether all of it fits together, and only then an election.
//!
//! ```text
//! list ─┬─ no folder ─── create it ── open the log ∥ election
//!       ├─ left by a founding that did not end ─── remove it, and as above
//!       └─ read quorum-state and synced-mark ── open the log ── latest valid snapshot ── replay ── checks ── election
//! ```
//!
//! Everything is read before anything is decided: a vote given by a replica that is not what it takes itself for cannot be
//! taken back.

use bytes::Bytes;

use crate::{
    ids::{Epoch, Offset},
    storage::{
        Completion, DirEntry, EntryKind, FaultKind, FileOp, OpId, OpResult, ReadFile, ReadProgress,
        StorageFault,
    },
};

use super::{
    Phase, Raft,
    config::RaftContext,
    log::MetadataLog,
    quorum_state::{self, ElectionState, StateFault},
    refusal::Refusal,
    role::Role,
    snapshot::{SnapshotFault, SnapshotId, is_leftover},
    synced_mark,
};

/// What was read so far.
#[derive(Debug)]
pub(super) struct Loading {
    pub(super) step: Step,
    /// Leftovers whose names must be free before they are used again.
    removing: Vec<OpId>,
    state: Option<ElectionState>,
    /// What is wrong with `quorum-state`.
    state_fault: Option<StateFault>,
    /// The synced mark on disk, where there is one.
    pub(super) mark: Option<Offset>,
    /// Whether the folder holds a segment.
    has_segments: bool,
    /// Snapshots not tried yet, the latest last.
    pub(super) untried: Vec<(SnapshotId, u64)>,
    /// The latest snapshot that turned out to be damaged.
    pub(super) damaged: Option<(SnapshotId, SnapshotFault)>,
    /// Where the replay is, and in which epoch.
    pub(super) next: Offset,
    pub(super) epoch: Epoch,
}

/// What the start waits for.
#[derive(Debug)]
pub(super) enum Step {
    Listing(OpId),
    /// Removes what a founding left that did not end.
    Discarding(OpId),
    SyncingDiscarded(OpId),
    Creating(OpId),
    /// Reads `quorum-state` and the synced mark.
    Reading {
        state: Option<ReadFile>,
        mark: Option<ReadFile>,
    },
    /// The log opens.
    Opening,
    Snapshot(SnapshotId, u64, ReadFile),
    /// A snapshot takes the log's place: it was fetched by an incarnation that did not get to that.
    Replacing,
    Replaying,
    Replayed,
}

impl Loading {
    const fn new(list: OpId) -> Self {
        Self {
            step: Step::Listing(list),
            removing: Vec::new(),
            state: None,
            state_fault: None,
            mark: None,
            has_segments: false,
            untried: Vec::new(),
            damaged: None,
            next: 0,
            epoch: Epoch(0),
        }
    }
}

impl Raft {
    /// Starts to read the folder; events tell what follows.
    pub fn start(&mut self, cx: &mut RaftContext<'_>) {
        if !matches!(self.phase, Phase::New) {
            return;
        }
        let dir = self.folder.clone();
        let list = cx.storage.submit(self.local.owner, FileOp::List { dir });
        self.phase = Phase::Loading(Box::new(Loading::new(list)));
    }

    /// Takes a completion while loading; gives it back when it is for somebody else.
    pub(super) fn on_loading(
        &mut self,
        cx: &mut RaftContext<'_>,
        completion: Completion,
    ) -> Result<Option<Completion>, Refusal> {
        let Phase::Loading(loading) = &mut self.phase else {
            return Ok(Some(completion));
        };
        if let Some(at) = loading.removing.iter().position(|op| *op == completion.id) {
            loading.removing.swap_remove(at);
            match completion.result {
                Err(fault) if fault.kind != FaultKind::NotFound => return Err(self.fault(fault)),
                Ok(_) | Err(_) => {
                    self.maybe_open_log(cx)?;
                    self.maybe_finish_loading(cx)?;
                }
            }
            return Ok(None);
        }
        match &mut loading.step {
            Step::Listing(op) if *op == completion.id => self.on_listing(cx, completion.result)?,
            Step::Creating(op) if *op == completion.id => self.on_created(cx, completion.result)?,
            Step::Discarding(op) if *op == completion.id => {
                completion.result.map_err(|fault| self.fault(fault))?;
                self.sync_discarded(cx);
            }
            Step::SyncingDiscarded(op) if *op == completion.id => {
                completion.result.map_err(|fault| self.fault(fault))?;
                self.create(cx);
            }
            Step::Reading {
                state: Some(read), ..
            } if read.awaits(completion.id) => {
                let progress = read.on_completion(cx.storage, completion);
                self.on_state_read(cx, progress)?;
            }
            Step::Reading {
                mark: Some(read), ..
            } if read.awaits(completion.id) => {
                let progress = read.on_completion(cx.storage, completion);
                self.on_mark_read(cx, progress)?;
            }
            Step::Snapshot(id, len, read) if read.awaits(completion.id) => {
                let (id, len) = (*id, *len);
                let progress = read.on_completion(cx.storage, completion);
                self.on_snapshot_read(cx, (id, len), progress)?;
            }
            Step::Listing(_)
            | Step::Discarding(_)
            | Step::SyncingDiscarded(_)
            | Step::Creating(_)
            | Step::Reading { .. }
            | Step::Opening
            | Step::Snapshot(..)
            | Step::Replacing
            | Step::Replaying
            | Step::Replayed => return Ok(Some(completion)),
        }
        Ok(None)
    }

    fn on_listing(
        &mut self,
        cx: &mut RaftContext<'_>,
        result: Result<OpResult, StorageFault>,
    ) -> Result<(), Refusal> {
        let entries = match result {
            Ok(OpResult::Listing(entries)) => entries,
            Ok(_) => Vec::new(),
            Err(fault) if fault.kind == FaultKind::NotFound => {
                self.create(cx);
                return Ok(());
            }
            Err(fault) => return Err(self.fault(fault)),
        };
        let owner = self.local.owner;
        let removing = entries
            .iter()
            .filter(|entry| is_leftover(&entry.name))
            .map(|entry| {
                let path = self.folder.join(&entry.name);
                cx.storage.submit(owner, FileOp::Remove { path })
            })
            .collect();
        let is_there = |name: &str| entries.iter().any(|entry| entry.name == name);
        let mut read = |name: &str, len_max: u32| {
            is_there(name).then(|| {
                let path = self.folder.join(name);
                ReadFile::start(cx.storage, owner, path, len_max)
            })
        };
        let state = read(quorum_state::FILE_NAME, quorum_state::FILE_LEN_MAX);
        let mark = read(synced_mark::FILE_NAME, synced_mark::FILE_LEN_MAX);
        if let Phase::Loading(loading) = &mut self.phase {
            loading.removing = removing;
            loading.untried = snapshots_among(&entries);
            loading.has_segments = entries.iter().any(|entry| entry.name.ends_with(SEGMENT));
            loading.step = Step::Reading { state, mark };
        }
        self.maybe_open_log(cx)
    }

    /// Opens the log once the small files are read.
    fn maybe_open_log(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        let is_unfounded = self.is_unfounded();
        let Phase::Loading(loading) = &mut self.phase else {
            return Ok(());
        };
        let Step::Reading {
            state: None,
            mark: None,
        } = loading.step
        else {
            return Ok(());
        };
        let is_whole = loading.state.is_some() || !loading.has_segments;
        if self.config.is_new_identity && !is_unfounded {
            return Err(self.identity_lost());
        }
        let is_left = self.config.is_new_identity || loading.state_fault.is_some() || !is_whole;
        if is_unfounded && is_left {
            if loading.removing.is_empty() {
                self.discard(cx);
            }
            return Ok(());
        }
        if let Some(fault) = loading.state_fault {
            let path = self.state_path();
            return Err(Refusal::State { path, fault });
        }
        loading.step = Step::Opening;
        let (mark, has_segments) = (loading.mark, loading.has_segments);
        let snapshot = loading.untried.last().map(|(id, _)| id.end_offset);
        self.sync_root(cx);
        // A truncation lowers the mark on disk and not the broker's checkpoint, which is written now and then, and at a clean
        // stop. The end of a snapshot is synced too, but the log's epoch table and indexes need not reach as far.
        let synced = match mark {
            Some(mark) if !self.config.clean => mark,
            mark => mark.unwrap_or(0).max(self.config.recovery_point),
        };
        // A log that a snapshot has taken the place of begins where the snapshot ends, and has no file before its first entry.
        let start = snapshot.filter(|_| !has_segments).unwrap_or(0);
        let owner = self.local.owner;
        self.log = MetadataLog::new(&self.config, self.folder.clone(), owner, (start, synced));
        self.log.open(cx);
        Ok(())
    }

    /// There was no folder, so there is neither a vote nor a record: the log opens while the election goes on.
    fn on_created(
        &mut self,
        cx: &mut RaftContext<'_>,
        result: Result<OpResult, StorageFault>,
    ) -> Result<(), Refusal> {
        result.map_err(|fault| self.fault(fault))?;
        self.sync_root(cx);
        self.begin_founding();
        self.log.open(cx);
        self.begin(cx, ElectionState::default())
    }

    /// Makes the folder's own entry durable. It may be new, or left behind by a process that died before this.
    fn sync_root(&mut self, cx: &mut RaftContext<'_>) {
        let sync = FileOp::Sync {
            files: vec![],
            dirs: vec![self.folder.parent()],
        };
        self.root_sync = Some(cx.storage.submit(self.local.owner, sync));
    }

    fn on_state_read(
        &mut self,
        cx: &mut RaftContext<'_>,
        progress: Result<ReadProgress, StorageFault>,
    ) -> Result<(), Refusal> {
        let path = self.state_path();
        let state = match progress {
            Ok(ReadProgress::Pending) => return Ok(()),
            Ok(ReadProgress::Missing) => Ok(None),
            Ok(ReadProgress::TooLarge) => Err(StateFault::TooLarge),
            Ok(ReadProgress::Content(content)) => ElectionState::decode(&content).map(Some),
            Err(fault) => return Err(Refusal::Storage { path, fault }),
        };
        if let Phase::Loading(loading) = &mut self.phase {
            loading.state_fault = state.err();
            loading.state = state.unwrap_or_default();
            if let Step::Reading { state, .. } = &mut loading.step {
                *state = None;
            }
        }
        self.maybe_open_log(cx)
    }

    fn on_mark_read(
        &mut self,
        cx: &mut RaftContext<'_>,
        progress: Result<ReadProgress, StorageFault>,
    ) -> Result<(), Refusal> {
        let content = match progress {
            Ok(ReadProgress::Pending) => return Ok(()),
            // A mark that cannot be read says nothing; it never says too much.
            Ok(ReadProgress::Missing | ReadProgress::TooLarge) => Bytes::new(),
            Ok(ReadProgress::Content(content)) => content,
            Err(fault) => {
                let path = self.folder.join(synced_mark::FILE_NAME);
                return Err(Refusal::Storage { path, fault });
            }
        };
        if let Phase::Loading(loading) = &mut self.phase {
            loading.mark = synced_mark::decode(&content);
            if let Step::Reading { mark, .. } = &mut loading.step {
                *mark = None;
            }
        }
        self.maybe_open_log(cx)
    }

    /// Goes on once the log is open.
    pub(super) fn on_opened(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        match &self.phase {
            Phase::Loading(loading) if matches!(loading.step, Step::Opening) => {
                self.next_snapshot(cx)
            }
            Phase::New | Phase::Loading(_) | Phase::Running | Phase::Failed => Ok(()),
        }
    }

    pub(super) fn maybe_finish_loading(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        let Phase::Loading(loading) = &self.phase else {
            return Ok(());
        };
        if !matches!(loading.step, Step::Replayed) || !loading.removing.is_empty() {
            return Ok(());
        }
        self.has_voters |= self.committed_voters.is_some();
        let state = loading.state;
        let is_empty = self.uncommitted.is_empty() && self.committed_voters.is_none();
        if !is_empty {
            self.check_state(state, loading.epoch)?;
        }
        self.check_identity(state.and_then(|state| state.voted))?;
        self.begin(cx, state.unwrap_or_default())
    }

    fn check_state(&self, state: Option<ElectionState>, log: Epoch) -> Result<(), Refusal> {
        let path = self.state_path();
        let Some(state) = state else {
            return Err(Refusal::StateMissing { path });
        };
        if state.epoch < log {
            return Err(Refusal::StateBehind {
                path,
                state: state.epoch,
                log,
            });
        }
        if !self.has_voters {
            return Err(Refusal::NoVoters);
        }
        Ok(())
    }

    /// The loading is over: this replica takes its place in the quorum.
    fn begin(&mut self, cx: &mut RaftContext<'_>, state: ElectionState) -> Result<(), Refusal> {
        self.phase = Phase::Running;
        self.epoch = state.epoch;
        self.ballot.restore(state);
        self.role = Role::at_start(&state, &self.voters, self.local.key);
        self.snapshots.started(cx.now.instant);
        let role = self.role.clone();
        self.enter(cx, role);
        self.maybe_elect(cx)?;
        // Where an election has begun already its vote is on the way, and comes after this state.
        let path = self.state_path();
        self.ballot.keep(cx.storage, self.local.owner, path);
        Ok(())
    }
}

/// How the name of a segment ends.
const SEGMENT: &str = ".log";

/// Finds the snapshots in a listing, the latest last.
fn snapshots_among(entries: &[DirEntry]) -> Vec<(SnapshotId, u64)> {
    let mut found: Vec<_> = entries
        .iter()
        .filter_map(|entry| {
            let EntryKind::File { len } = entry.kind else {
                return None;
            };
            SnapshotId::from_file_name(&entry.name).map(|id| (id, len))
        })
        .collect();
    found.sort_unstable();
    found
}
