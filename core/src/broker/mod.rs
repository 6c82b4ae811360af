//! The outer machine: takes inputs, routes them to the machine that decides, and hands out outputs in order.
//!
//! # Life
//!
//! | stage | what happens | leads on |
//! | --- | --- | --- |
//! | reading | the log directory says whose it is and how it was left | all small files read, clean marker durably gone |
//! | identifying | a new directory gets its `meta.properties`, unless this node is alone | durable |
//! | joining | metadata log recovered, or founded with the identity, quorum elected, broker registered | registration committed and read here |
//! | registered | partitions are taken up | unfenced: [`Event::Ready`] |
//! | running | requests are served | [`Input::Stop`] |
//! | stopping | waiting requests answered, logs closed and flushed, checkpoints and clean marker written | [`Output::Stopped`] |
//! | failed | nothing any more | |
//!
//! # The host
//!
//! After every [`Broker::handle`] the host takes all outputs. It may delay or fail storage as it likes: what must wait, waits in
//! here. It calls `handle` with [`Input::Timeout`] at [`Broker::deadline`] or later.

mod boundary;
mod checkpointing;
mod config;
mod cuts;
mod duties;
mod housekeeping;
mod joining;
mod links;
mod opener;
mod probe;
mod replicating;
mod routing;
mod stale_names;
mod starting;
mod stopping;

use std::collections::{BTreeMap, VecDeque};

pub use boundary::{Input, Output};
pub use config::{BrokerConfig, Identity, Listener, Voter};
pub use probe::{PROBE_VERSION, PartitionProbe, Probe, QuorumProbe};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use self::{
    cuts::{NewStarts, PendingCuts},
    housekeeping::Housekeeping,
    links::Links,
    opener::Opener,
    stale_names::StaleNames,
    stopping::Stopping,
};
use crate::{
    cluster::Cluster,
    config::{BrokerSettings, Layers, OverrideMap, StaticConfig},
    event::Event,
    frontend::{Budget, Frontend, Services, SessionIds},
    ids::{Offset, TopicPartition},
    logdir::{Checkpoints, Found, LogStarts, Startup, SyncedMarks},
    replication::{Context, Fetchers, IsrProposals, Partitions, ReplicationConfig, SlotId},
    storage::{FilePath, LogDirId, Owner, StorageQueue},
    time::{Instant, Now},
};

/// Who owns which storage operations; partitions own the rest.
const RAFT: Owner = Owner(1);
const LOG_DIR: Owner = Owner(2);
const FLUSHER: Owner = Owner(3);

/// One broker: every decision of one node.
#[derive(Debug)]
pub struct Broker {
    config: BrokerConfig,
    fixed: StaticConfig,
    identity: Identity,
    rng: ChaCha12Rng,
    now: Now,
    storage: StorageQueue,
    outputs: VecDeque<Output>,
    root: FilePath,
    stage: Stage,
    found: Found,
    marks: BTreeMap<TopicPartition, Marks>,
    cluster: Option<Box<Cluster>>,
    links: Links,
    frontend: Frontend,
    partitions: Partitions,
    log_starts: LogStarts<SlotId>,
    checkpoints: Checkpoints,
    synced_marks: SyncedMarks,
    housekeeping: Option<Housekeeping>,
    opener: Opener,
    cuts: PendingCuts,
    new_starts: NewStarts,
    fetchers: Fetchers,
    isr_proposals: IsrProposals,
    /// Whether consumers are sent to replicas near them.
    reads_near: bool,
    stale_names: StaleNames,
    watermarks_moved: bool,
}

/// What the checkpoints know of a log that was not opened yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Marks {
    recovery_point: Offset,
    log_start: Offset,
    high_watermark: Offset,
}

#[derive(Debug)]
enum Stage {
    Reading(Box<Startup>),
    Identifying,
    Joining,
    Registered,
    Running,
    Stopping(Stopping),
    Failed,
}

impl Broker {
    /// Makes a broker; its first outputs read the log directory.
    ///
    /// Settings that are refused make a broker that says so in [`Event::Fatal`] and stops.
    #[must_use]
    pub fn new(config: BrokerConfig, identity: Identity, now: Now) -> Self {
        let root = FilePath::root(LogDirId(0));
        let mut storage = StorageQueue::default();
        let (planted, is_alone) = (config.planted, config.is_alone());
        let startup = Startup::start(&mut storage, LOG_DIR, root.clone(), planted, is_alone);
        let settings = StaticConfig::new(config.properties.clone());
        let (fixed, refused) = match settings {
            Ok(fixed) => (fixed, None),
            Err(errors) => {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                (StaticConfig::default(), Some(errors.join("; ")))
            }
        };
        let none = OverrideMap::new();
        let settings = BrokerSettings::resolve(&Layers::new(&fixed, &none, &none));
        let session_slots = settings.max_incremental_fetch_session_cache_slots;
        let listeners = config.listeners.clone();
        let mut rng = ChaCha12Rng::from_seed(identity.seed);
        let mut broker = Self {
            fixed,
            links: Links::new(config.node_id, rng.next_u64()),
            rng,
            now,
            storage,
            outputs: VecDeque::new(),
            checkpoints: Checkpoints::new(LOG_DIR, root.clone()),
            synced_marks: SyncedMarks::new(LOG_DIR, &root),
            root,
            stage: Stage::Reading(Box::new(startup)),
            found: Found::default(),
            marks: BTreeMap::new(),
            cluster: None,
            frontend: Frontend::new(
                Budget::default(),
                listeners,
                usize::try_from(session_slots).unwrap_or(0),
                SessionIds::new(identity.seed),
            ),
            partitions: Partitions::new(FLUSHER),
            log_starts: LogStarts::default(),
            housekeeping: None,
            opener: Opener::default(),
            cuts: PendingCuts::default(),
            new_starts: NewStarts::default(),
            fetchers: Fetchers::new(ReplicationConfig::default()),
            isr_proposals: IsrProposals::default(),
            reads_near: settings.reads_near_replicas,
            stale_names: StaleNames::default(),
            watermarks_moved: false,
            identity,
            config,
        };
        if let Some(message) = refused {
            broker.fail(message);
        }
        broker.hand_out_storage();
        broker
    }

    /// Takes one input. What follows from it is in the outputs; nothing is half-handled.
    pub fn handle(&mut self, now: Now, input: Input) {
        self.now = now;
        if matches!(self.stage, Stage::Failed) {
            return;
        }
        self.route(input);
        self.settle();
        self.hand_out_storage();
    }

    /// Takes the oldest output.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns when [`Input::Timeout`] is next due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        if matches!(self.stage, Stage::Failed) {
            return None;
        }
        let stopping = match &self.stage {
            Stage::Stopping(stopping) => stopping.deadline(),
            _ => None,
        };
        let deadlines = [
            self.partitions.deadline(),
            self.frontend.deadline(),
            self.cluster.as_ref().and_then(|cluster| cluster.deadline()),
            self.housekeeping.as_ref().map(Housekeeping::deadline),
            self.synced_marks.deadline(),
            self.cuts.deadline().filter(|_| self.is_serving()),
            self.new_starts.deadline(),
            self.fetchers.deadline(),
            self.isr_proposals.deadline(),
            self.links.deadline(),
            stopping,
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Returns what white-box checkers may see.
    #[must_use]
    pub fn probe(&self) -> Probe {
        probe::take(self)
    }

    /// Hashes what decides the broker's future behaviour, as far as checkers compare it.
    #[must_use]
    pub fn state_hash(&self) -> u64 {
        probe::hash(self)
    }

    /// Handles whatever machines have to say until all are quiet.
    fn settle(&mut self) {
        loop {
            let mut busy = self.settle_peers();
            busy |= self.settle_cluster();
            busy |= self.settle_links();
            busy |= self.settle_partitions();
            busy |= self.settle_duties();
            // Only now: what a fetch would say of a partition that has just taken records is out of date before.
            busy |= self.settle_replication();
            busy |= self.run_requests();
            if !busy || matches!(self.stage, Stage::Failed) {
                break;
            }
        }
        if matches!(self.stage, Stage::Failed) {
            return;
        }
        self.free_stale_names();
        self.write_log_starts();
        self.write_lowered_recovery_points();
        self.open_more();
        self.write_synced_marks();
        self.partitions.flush(&mut self.storage);
        self.step_stopping();
    }

    fn hand_out_storage(&mut self) {
        while let Some(op) = self.storage.pop() {
            self.outputs.push_back(Output::Storage(op));
        }
    }

    /// Gives up: says why, once, and does nothing any more.
    fn fail(&mut self, message: String) {
        if matches!(self.stage, Stage::Failed) {
            return;
        }
        self.stage = Stage::Failed;
        self.outputs
            .push_back(Output::Event(Event::Fatal { message }));
        self.outputs.push_back(Output::Stopped);
    }

    fn tell(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    const fn context(&mut self) -> (&mut Partitions, Context<'_>) {
        let planted = self.config.planted;
        let context = Context {
            now: self.now,
            storage: &mut self.storage,
            planted,
        };
        (&mut self.partitions, context)
    }

    /// Runs a step of the frontend with all that requests may use; `None` before the cluster is known.
    fn with_frontend<R>(
        &mut self,
        step: impl FnOnce(&mut Frontend, &mut Services<'_>) -> R,
    ) -> Option<R> {
        let cluster = self.cluster.as_deref_mut()?;
        let mut services = Services {
            now: self.now,
            planted: self.config.planted,
            storage: &mut self.storage,
            outputs: &mut self.outputs,
            partitions: &mut self.partitions,
            log_starts: &mut self.log_starts,
            cluster,
            reads_near: self.reads_near,
        };
        Some(step(&mut self.frontend, &mut services))
    }

    const fn is_serving(&self) -> bool {
        matches!(
            self.stage,
            Stage::Running | Stage::Stopping(Stopping::Handing { .. })
        )
    }
}

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod listener_tests;
#[cfg(test)]
mod replica_tests;
#[cfg(test)]
mod session_tests;
#[cfg(test)]
mod tests;
