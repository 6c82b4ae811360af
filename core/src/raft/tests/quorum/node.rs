//! One replica of a simulated quorum: its disk, its incarnation, and the order in which its storage works.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{
    ids::{NodeId, Offset, Uuid},
    planted::PlantedSet,
    raft::{
        CallId, LocalReplica, PeerReply, PeerRequest, PeerTicket, Raft, RaftConfig, RaftContext,
        RaftEvent, RaftProbe, ReplicaKey, ReplyBody, VoteRequest,
    },
    storage::{Completion, FileId, FileOp, LogDirId, OpId, OpResult, Owner, Part, StorageQueue},
    time::{Instant, Now, Timestamp},
};

use super::super::disk::{Dice, Disk, Promise};
use super::super::host::FOLDER;

const OWNER: Owner = Owner(7);

/// What of a replica outlives its incarnations.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) key: ReplicaKey,
    pub(super) disk: Disk,
    pub(super) config: RaftConfig,
    /// What `meta.properties` says.
    pub(super) cluster_id: Option<String>,
    pub(super) live: Option<Box<Live>>,
    pub(super) incarnations: u64,
    /// No input reaches it before that.
    pub(super) paused_until: u64,
    pub(super) seed: u64,
}

/// One incarnation.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) raft: Raft,
    storage: StorageQueue,
    queue: Vec<Queued>,
    paths: BTreeMap<FileId, String>,
    pub(super) tickets: BTreeMap<PeerTicket, Asked>,
    next_ticket: u64,
    /// The state machine: all committed records.
    pub(super) state: Vec<Bytes>,
    pub(super) applied: Offset,
    pub(super) events: Vec<RaftEvent>,
    pub(super) fatal: Option<String>,
    pub(super) is_closed: bool,
    /// What was seen of it after the last input.
    pub(super) seen: Option<RaftProbe>,
    /// The batches that were not committed then, by their ends.
    pub(super) batches: BTreeMap<Offset, crate::ids::Epoch>,
}

/// Who waits for a reply.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) from: NodeId,
    pub(super) call: CallId,
    /// Set where a vote is asked that would be a promise.
    pub(super) vote: Option<VoteRequest>,
}

#[derive(Debug)]
struct Queued {
    id: OpId,
    op: FileOp,
    key: Option<String>,
    promise: Promise,
    ready_at: u64,
}

/// What an input led to.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) events: Vec<RaftEvent>,
    pub(super) sends: Vec<(NodeId, CallId, PeerRequest)>,
    pub(super) replies: Vec<(Asked, PeerReply)>,
}

/// The surroundings of a step.
pub(super) struct Moment<'a> {
    pub(super) now_us: u64,
    pub(super) dice: &'a mut Dice,
    pub(super) planted: PlantedSet,
}

impl Node {
    pub(super) fn new(id: i32, config: RaftConfig, seed: u64) -> Self {
        Self {
            key: ReplicaKey {
                id: NodeId(id),
                directory: Uuid([u8::try_from(id).unwrap(); 16]),
            },
            disk: Disk::default(),
            config,
            cluster_id: None,
            live: None,
            incarnations: 0,
            paused_until: 0,
            seed,
        }
    }

    /// Starts an incarnation.
    pub(super) fn start(&mut self, moment: &mut Moment<'_>) -> Outcome {
        self.incarnations += 1;
        let mut config = self.config.clone();
        config.cluster_id.clone_from(&self.cluster_id);
        let own = format!("cluster=of-{}", self.key.id);
        config.bootstrap_records = vec![Bytes::from(own), Bytes::from_static(b"feature")];
        config.seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        config.seed[8] = u8::try_from(self.key.id.0).unwrap();
        config.seed[16..24].copy_from_slice(&self.incarnations.to_le_bytes());
        let local = LocalReplica {
            key: self.key,
            log_dir: LogDirId(0),
            owner: OWNER,
        };
        self.live = Some(Box::new(Live {
            raft: Raft::new(config, local),
            storage: StorageQueue::default(),
            queue: Vec::new(),
            paths: BTreeMap::new(),
            tickets: BTreeMap::new(),
            next_ticket: 0,
            state: Vec::new(),
            applied: 0,
            events: Vec::new(),
            fatal: None,
            is_closed: false,
            seen: None,
            batches: BTreeMap::new(),
        }));
        self.call(moment, |raft, cx| raft.start(cx))
    }

    /// Hands an input in and takes what follows.
    pub(super) fn call(
        &mut self,
        moment: &mut Moment<'_>,
        act: impl FnOnce(&mut Raft, &mut RaftContext<'_>),
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let Some(live) = &mut self.live else {
            return outcome;
        };
        act(&mut live.raft, &mut context(moment, &mut live.storage));
        while let Some(event) = live.raft.poll_event() {
            live.on_event(moment, &event, &mut self.cluster_id);
            outcome.events.push(event);
        }
        while let Some(send) = live.raft.poll_send() {
            outcome.sends.push(send);
        }
        while let Some((ticket, reply)) = live.raft.poll_reply() {
            let asked = live.tickets.remove(&ticket).expect("one reply per request");
            let reply = read_files(&mut self.disk, reply);
            outcome.replies.push((asked, reply));
        }
        live.submit(&self.disk, moment);
        outcome
    }

    pub(super) fn take_request(
        &mut self,
        moment: &mut Moment<'_>,
        (from, call): (NodeId, CallId),
        request: PeerRequest,
    ) -> Outcome {
        let Some(live) = &mut self.live else {
            return Outcome::default();
        };
        live.next_ticket += 1;
        let ticket = PeerTicket(live.next_ticket);
        let vote = match &request {
            PeerRequest::Vote(vote) if !vote.is_pre_vote => Some(vote.clone()),
            _ => None,
        };
        live.tickets.insert(ticket, Asked { from, call, vote });
        self.call(moment, |raft, cx| raft.on_peer_request(cx, request, ticket))
    }

    /// Returns when this replica has something to do on its own: an operation that ends, or a deadline.
    pub(super) fn next_at(&self) -> Option<u64> {
        let live = self.live.as_ref()?;
        let storage = live.first_ready().map(|at| live.queue[at].ready_at);
        let deadline = live.raft.deadline().map(|due| due.as_nanos() / 1_000);
        let next = storage.into_iter().chain(deadline).min()?;
        Some(next.max(self.paused_until))
    }

    /// Does it.
    pub(super) fn act(&mut self, moment: &mut Moment<'_>) -> Outcome {
        let Some(live) = &mut self.live else {
            return Outcome::default();
        };
        let ready = live
            .first_ready()
            .filter(|at| live.queue[*at].ready_at <= moment.now_us);
        let Some(at) = ready else {
            return self.call(moment, |raft, cx| raft.on_timeout(cx));
        };
        let queued = live.queue.remove(at);
        let result = self.disk.run(queued.op, queued.promise);
        let id = queued.id;
        if id.owner != OWNER {
            return Outcome::default();
        }
        self.call(moment, |raft, cx| {
            raft.on_completion(cx, Completion { id, result });
        })
    }

    /// Returns the batches that are durable here, as epoch and end of each, and the end of the latest durable snapshot.
    pub(super) fn durable_log(&self) -> (Vec<(crate::ids::Epoch, Offset)>, Offset) {
        let mut files = self.disk.files(FOLDER);
        files.sort();
        let mut batches = Vec::new();
        let mut snapshot = 0;
        for path in files {
            let Some(content) = self.disk.durable_content(&path) else {
                continue;
            };
            let name = path.rsplit('/').next().unwrap_or_default();
            if let Some(id) = crate::raft::SnapshotId::from_file_name(name) {
                snapshot = snapshot.max(id.end_offset);
            }
            if name.ends_with(".log") {
                for view in crate::batch::BatchIter::new(content, 0) {
                    let Ok(view) = view else { break };
                    let header = view.header();
                    if view.check_crc().is_err() {
                        break;
                    }
                    let end = header.next_offset().unwrap_or(0);
                    batches.push((header.partition_leader_epoch(), end));
                }
            }
        }
        (batches, snapshot)
    }
}

impl Live {
    fn on_event(
        &mut self,
        moment: &Moment<'_>,
        event: &RaftEvent,
        cluster_id: &mut Option<String>,
    ) {
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
            }
            RaftEvent::SnapshotNeeded { at } => {
                let state = self.state.clone();
                self.raft
                    .write_snapshot(&mut context(moment, &mut self.storage), *at, state);
            }
            RaftEvent::Fatal { message } => self.fatal = Some(message.clone()),
            RaftEvent::Closed => self.is_closed = true,
            RaftEvent::Founding
            | RaftEvent::BecameLeader { .. }
            | RaftEvent::LostLeadership { .. }
            | RaftEvent::LeaderChanged { .. }
            | RaftEvent::Warning { .. }
            | RaftEvent::Notice(_) => {}
        }
        if cluster_id.is_none()
            && let Some(first) = self.state.first()
        {
            let text = String::from_utf8_lossy(first);
            let id = text.strip_prefix("cluster=").expect("the first record");
            *cluster_id = Some(id.to_owned());
            self.raft.join_cluster(id.to_owned());
        }
    }

    /// Takes what was submitted into the queue. Operations on one file keep their order, whatever id names it.
    fn submit(&mut self, disk: &Disk, moment: &mut Moment<'_>) {
        while let Some(submitted) = self.storage.pop() {
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
            let takes_us = match &submitted.op {
                FileOp::Sync { .. } => 500 + moment.dice.roll(4_000),
                _ => moment.dice.roll(150),
            };
            self.queue.push(Queued {
                id: submitted.id,
                promise: disk.promise(&submitted.op),
                op: submitted.op,
                key,
                ready_at: moment.now_us + takes_us as u64,
            });
        }
    }

    /// Finds the operation that ends first among those that nothing on their file comes before.
    fn first_ready(&self) -> Option<usize> {
        let mut busy: Vec<&str> = Vec::new();
        let mut first: Option<usize> = None;
        for (at, queued) in self.queue.iter().enumerate() {
            if let Some(key) = &queued.key {
                if busy.contains(&key.as_str()) {
                    continue;
                }
                busy.push(key);
            }
            if first.is_none_or(|first| queued.ready_at < self.queue[first].ready_at) {
                first = Some(at);
            }
        }
        first
    }
}

/// Reads the ranges of files in a reply, as a link does when it sends them.
fn read_files(disk: &mut Disk, mut reply: PeerReply) -> PeerReply {
    if let ReplyBody::Fetch(fetch) = &mut reply.body
        && let crate::raft::FetchNews::Records(parts) = &mut fetch.news
    {
        for part in parts {
            if let Part::File(range) = part {
                let op = FileOp::Read {
                    file: range.file,
                    at: range.at,
                    len: range.len,
                };
                let read = disk.run(op, Promise::default()).map(OpResult::into_data);
                let bytes = read.expect("a range that was promised");
                assert_eq!(bytes.len(), range.len as usize, "a range is whole");
                *part = Part::Bytes(bytes);
            }
        }
    }
    reply
}

fn context<'a>(moment: &Moment<'_>, storage: &'a mut StorageQueue) -> RaftContext<'a> {
    RaftContext {
        now: Now {
            instant: Instant::from_nanos(moment.now_us * 1_000),
            wall: Timestamp::from_millis(i64::try_from(moment.now_us / 1_000).unwrap()),
        },
        storage,
        planted: moment.planted,
    }
}
