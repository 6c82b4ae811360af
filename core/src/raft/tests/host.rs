//! A host for one replica: performs its file operations on a [`Disk`], in any order that the storage contract allows, and
//! keeps the state that its events build.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{
    ids::{Epoch, NodeId, Offset, Uuid},
    planted::PlantedSet,
    protocol::ErrorCode,
    raft::{
        AppendError, LocalReplica, PeerRequest, PeerTicket, Raft, RaftConfig, RaftContext,
        RaftEvent, ReplicaKey, Voter, VoterSet, quorum_state::ElectionState,
    },
    storage::{
        Completion, FaultKind, FileId, FileOp, LogDirId, OpId, OpResult, Owner, StorageFault,
        StorageQueue,
    },
    time::{Instant, Now, Timestamp},
};

use super::disk::{Dice, Disk, Promise};

/// The folder of the metadata log.
pub(super) const FOLDER: &str = "__cluster_metadata-0";
pub(super) const CLUSTER: &str = "this-cluster";
pub(super) const NODE: NodeId = NodeId(1);
const OWNER: Owner = Owner(7);

/// What outlives every incarnation: the disk, and what was ever promised.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) disk: Disk,
    pub(super) dice: Dice,
    pub(super) node: NodeId,
    pub(super) directory: Uuid,
    pub(super) now_ms: u64,
    pub(super) planted: PlantedSet,
    /// The records that any incarnation ever said were committed, in order.
    pub(super) promised: Vec<Bytes>,
    /// The latest epoch that any incarnation led.
    led: Epoch,
}

/// One incarnation of the replica.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) raft: Raft,
    storage: StorageQueue,
    queue: Vec<Queued>,
    paths: BTreeMap<FileId, String>,
    /// The state machine: all committed records.
    pub(super) state: Vec<Bytes>,
    pub(super) events: Vec<RaftEvent>,
    pub(super) fatal: Option<String>,
    /// Operations performed so far.
    pub(super) performed: usize,
    /// The operation that fails, and how.
    pub(super) fail_at: Option<(usize, FaultKind)>,
    /// Syncs in a row that led to what happens now.
    depth: usize,
    pub(super) leader_depth: usize,
    applied: Offset,
}

#[derive(Debug)]
struct Queued {
    id: OpId,
    op: FileOp,
    key: Option<String>,
    promise: Promise,
    depth: usize,
}

/// Accepts records that do not name another cluster.
pub(super) fn check(cluster_id: &str, record: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(record);
    match text.strip_prefix("cluster=") {
        Some(other) if other != cluster_id => Err(format!("it is of cluster {other}")),
        _ => Ok(()),
    }
}

/// Settings of a voter that is alone.
pub(super) fn config() -> RaftConfig {
    let voters = VoterSet::new([Voter {
        id: NODE,
        directory: None,
        endpoints: vec![],
    }]);
    RaftConfig {
        bootstrap_records: vec![
            Bytes::from(format!("cluster={CLUSTER}")),
            Bytes::from_static(b"feature"),
        ],
        ..RaftConfig::new(CLUSTER.into(), check, voters)
    }
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            disk: Disk::default(),
            dice: Dice::new(seed),
            node: NODE,
            directory: Uuid([7; 16]),
            now_ms: 1_000,
            planted: PlantedSet::NONE,
            promised: Vec::new(),
            led: Epoch(0),
        }
    }

    /// Starts an incarnation; nothing is performed yet.
    pub(super) fn start(&mut self, config: RaftConfig) -> Host {
        let local = LocalReplica {
            key: ReplicaKey {
                id: self.node,
                directory: self.directory,
            },
            log_dir: LogDirId(0),
            owner: OWNER,
        };
        let mut host = Host {
            raft: Raft::new(config, local),
            storage: StorageQueue::default(),
            queue: Vec::new(),
            paths: BTreeMap::new(),
            state: Vec::new(),
            events: Vec::new(),
            fatal: None,
            performed: 0,
            fail_at: None,
            depth: 0,
            leader_depth: 0,
            applied: 0,
        };
        host.call(self, |raft, cx| raft.start(cx));
        host
    }

    /// Starts an incarnation that must become the leader, and checks that it kept every promise.
    pub(super) fn start_well(&mut self, config: RaftConfig) -> Host {
        let mut host = self.start(config);
        host.settle(self);
        assert_eq!(host.fatal, None);
        assert!(host.raft.is_leader(), "{:?}", host.raft.probe());
        self.check_promises(&host);
        host
    }

    /// Starts an incarnation that must refuse, and returns why.
    pub(super) fn start_refused(&mut self, config: RaftConfig) -> String {
        let mut host = self.start(config);
        host.settle(self);
        assert!(!host.raft.is_leader());
        host.fatal.expect("a refusal")
    }

    pub(super) fn check_promises(&self, host: &Host) {
        assert!(
            host.state.starts_with(&self.promised),
            "a committed record is missing: {} left of {}, the last is {:?} instead of {:?}",
            host.state.len(),
            self.promised.len(),
            host.state.last(),
            self.promised.last()
        );
    }
}

impl Host {
    /// Performs operations until nothing is left to do.
    pub(super) fn settle(&mut self, world: &mut World) {
        while self.step(world) {}
    }

    /// Performs one operation that may come next and hands in its completion; false when there is none.
    pub(super) fn step(&mut self, world: &mut World) -> bool {
        let Some(queued) = self.take(world) else {
            return false;
        };
        let is_sync = matches!(queued.op, FileOp::Sync { .. });
        let result = self.perform(world, queued.op, queued.promise);
        let id = queued.id;
        self.depth = queued.depth + usize::from(is_sync);
        if id.owner == OWNER {
            let completion = Completion { id, result };
            self.call(world, |raft, cx| raft.on_completion(cx, completion));
        }
        true
    }

    /// Performs one operation and ends before its completion is handed in.
    pub(super) fn step_unseen(&mut self, world: &mut World) {
        if let Some(queued) = self.take(world) {
            let _ = self.perform(world, queued.op, queued.promise);
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn append(
        &mut self,
        world: &mut World,
        records: &[&str],
    ) -> Result<(Offset, Offset), AppendError> {
        let records = records
            .iter()
            .map(|text| Bytes::copy_from_slice(text.as_bytes()))
            .collect();
        self.depth = 0;
        self.call(world, |raft, cx| raft.append(cx, records))
    }

    /// Lets time pass, runs what comes due, and performs all that follows.
    pub(super) fn pass(&mut self, world: &mut World, millis: u64) {
        self.tick(world, millis);
        self.settle(world);
    }

    /// Lets time pass and runs what comes due, while the storage stands still.
    pub(super) fn tick(&mut self, world: &mut World, millis: u64) {
        world.now_ms += millis;
        if self
            .raft
            .deadline()
            .is_some_and(|due| due <= instant(world))
        {
            self.call(world, |raft, cx| raft.on_timeout(cx));
        }
    }

    /// Hands in the state as a snapshot, asked for or not.
    pub(super) fn write_snapshot(&mut self, world: &mut World, at: Offset) {
        let state = self.state.clone();
        self.call(world, |raft, cx| raft.write_snapshot(cx, at, state));
    }

    pub(super) fn close(&mut self, world: &mut World) {
        self.call(world, |raft, cx| raft.close(cx));
        self.settle(world);
    }

    /// Tells the replica that its new identity is durable.
    pub(super) fn identity_written(&mut self, world: &mut World) {
        self.call(world, |raft, cx| raft.identity_written(cx));
    }

    /// Hands in a peer's request and returns the error of the reply, which must come at once.
    pub(super) fn asked_by_a_peer(&mut self, world: &mut World, request: PeerRequest) -> ErrorCode {
        self.call(world, |raft, cx| {
            raft.on_peer_request(cx, request, PeerTicket(1));
        });
        let (_, reply) = self.raft.poll_reply().expect("a reply at once");
        reply.error
    }

    fn take(&mut self, world: &mut World) -> Option<Queued> {
        let mut free = Vec::new();
        let mut busy: Vec<&str> = Vec::new();
        for (at, queued) in self.queue.iter().enumerate() {
            match &queued.key {
                Some(key) if busy.contains(&key.as_str()) => {}
                Some(key) => {
                    busy.push(key);
                    free.push(at);
                }
                None => free.push(at),
            }
        }
        let at = *free.get(world.dice.roll(free.len()))?;
        Some(self.queue.remove(at))
    }

    fn perform(
        &mut self,
        world: &mut World,
        op: FileOp,
        promise: Promise,
    ) -> Result<OpResult, StorageFault> {
        self.performed += 1;
        match self.fail_at {
            Some((at, kind)) if at == self.performed => Err(StorageFault::new(kind)),
            _ => world.disk.run(op, promise),
        }
    }

    fn call<T>(
        &mut self,
        world: &mut World,
        act: impl FnOnce(&mut Raft, &mut RaftContext<'_>) -> T,
    ) -> T {
        let result = act(&mut self.raft, &mut context(world, &mut self.storage));
        while let Some(event) = self.raft.poll_event() {
            self.on_event(world, &event);
            self.events.push(event);
        }
        while let Some(submitted) = self.storage.pop() {
            // Operations on one file keep their order, whatever id names it.
            let key = match &submitted.op {
                FileOp::Open { file, path, .. } => {
                    self.paths.insert(*file, path.relative().to_owned());
                    Some(path.relative().to_owned())
                }
                FileOp::Write { file, .. }
                | FileOp::Read { file, .. }
                | FileOp::Truncate { file, .. }
                | FileOp::Close { file } => self.paths.get(file).cloned(),
                FileOp::Remove { path } => Some(path.relative().to_owned()),
                FileOp::List { .. }
                | FileOp::CreateDir { .. }
                | FileOp::Sync { .. }
                | FileOp::Rename { .. }
                | FileOp::RemoveDir { .. } => None,
            };
            self.queue.push(Queued {
                id: submitted.id,
                promise: world.disk.promise(&submitted.op),
                op: submitted.op,
                key,
                depth: self.depth,
            });
        }
        self.check_rules(world);
        result
    }

    fn on_event(&mut self, world: &mut World, event: &RaftEvent) {
        match event {
            RaftEvent::SnapshotLoaded {
                end_offset,
                records,
                ..
            } => {
                self.state.clone_from(records);
                self.applied = *end_offset;
            }
            RaftEvent::Committed {
                base_offset,
                records,
                ..
            } => {
                assert!(*base_offset >= self.applied, "applied twice");
                self.applied = *base_offset + records.len() as Offset;
                self.state.extend(records.iter().cloned());
                if self.state.len() > world.promised.len() {
                    world.promised.clone_from(&self.state);
                }
            }
            RaftEvent::BecameLeader { .. } => self.leader_depth = self.depth,
            RaftEvent::SnapshotNeeded { at } => {
                let state = self.state.clone();
                self.raft
                    .write_snapshot(&mut context(world, &mut self.storage), *at, state);
            }
            RaftEvent::Fatal { message } => self.fatal = Some(message.clone()),
            RaftEvent::Founding
            | RaftEvent::LostLeadership { .. }
            | RaftEvent::LeaderChanged { .. } => {}
            RaftEvent::Warning { message } => panic!("{message}"),
            RaftEvent::Closed | RaftEvent::Notice(_) => {}
        }
    }

    /// Checks what must hold after every step.
    fn check_rules(&self, world: &World) {
        let probe = self.raft.probe();
        if self.fatal.is_some() || probe.log_end == 0 && probe.role != "Leader" {
            return;
        }
        assert!(probe.high_watermark <= probe.log_end);
        if world.planted != PlantedSet::NONE {
            return;
        }
        if self.raft.is_leader() {
            assert!(
                probe.high_watermark <= probe.flushed_end,
                "committed beyond what is synced"
            );
        }
        if self.raft.founding.is_some() {
            assert_eq!(probe.high_watermark, 0, "committed before it is founded");
        } else if probe.role == "Leader" {
            let content = world
                .disk
                .durable_content(&format!("{FOLDER}/quorum-state"));
            let state = content.map(ElectionState::decode).expect("a durable vote");
            let state = state.expect("a vote that can be read");
            assert_eq!(state.epoch, probe.epoch, "leads without a durable vote");
            assert_eq!(state.voted, probe.voted);
            assert!(
                probe.epoch >= world.led,
                "an epoch falls below one that was led"
            );
        }
    }

    /// Notes at its end which epoch this incarnation led: no other may. Of a founding that did not end nobody has heard.
    pub(super) fn end(self, world: &mut World) {
        let probe = self.raft.probe();
        if probe.role == "Leader" && self.raft.founding.is_none() {
            assert!(probe.epoch > world.led, "one epoch was led twice");
            world.led = probe.epoch;
        }
    }
}

fn instant(world: &World) -> Instant {
    Instant::ORIGIN.plus_millis(world.now_ms)
}

fn context<'a>(world: &World, storage: &'a mut StorageQueue) -> RaftContext<'a> {
    let wall = i64::try_from(world.now_ms).unwrap();
    RaftContext {
        now: Now {
            instant: instant(world),
            wall: Timestamp::from_millis(wall),
        },
        storage,
        planted: world.planted,
    }
}
