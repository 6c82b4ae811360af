//! The cluster as one node lives it: the quorum's log, the controller that decides on it, and this broker's registration.
//!
//! Raft orders and commits opaque records; the controller decides what they say; this machine carries records between the two
//! and keeps this node's broker registered. Every node has all three. Which node's controller decides follows from who leads
//! the quorum: what this node wants decided goes to the one here while it leads, and over a link to the leader otherwise.

mod asking;
mod controller_wire;
mod errands;
mod founding;
mod quorum;
mod quorum_wire;
mod refusal;
mod registration;
mod request;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use rand_chacha::{
    ChaCha12Rng,
    rand_core::{Rng, SeedableRng},
};

pub(crate) use self::{errands::ErrandId, quorum::Asked, request::ReplyTo};
use self::{
    errands::{Errands, Purpose},
    registration::Registration,
};
use crate::{
    broker::{BrokerConfig, QuorumProbe},
    config::{BrokerSettings, StaticConfig},
    controller::{
        Controller, ControllerOutput, ControllerReply, ControllerRequest, Ticket,
        decide::{DecisionContext, describe_configs},
        image::{BrokerImage, Change, MetadataImage},
        records::{EndpointV1, Record, RecordError},
    },
    event::Event,
    frontend::Call,
    ids::{NodeId, Offset, Uuid},
    logdir::files::MetaProperties,
    peer,
    planted::PlantedSet,
    protocol::{
        ErrorCode,
        messages::{
            AlterPartitionRequestData, AlterPartitionResponseData, DescribeConfigsRequestData,
            DescribeConfigsResponseData, DescribeQuorumRequestData, DescribeQuorumResponseData,
        },
    },
    raft::{self, AppendError, LocalReplica, Raft, RaftContext, ReplicaKey, wire},
    replication::TopicSettings,
    storage::{Completion, LogDirId, Owner, StorageQueue},
    time::{Instant, Now},
};

/// How long a client's request waits for a controller that decides on it, as in Kafka's forwarding.
const FORWARD_MS: u64 = 60_000;
/// How long a question of the broker itself waits before it is asked anew.
const OWN_MS: u64 = 30_000;
/// The version of AlterPartition that is sent.
const ALTER_PARTITION: i16 = 3;

/// What the cluster's machine is told once.
#[derive(Debug)]
pub(crate) struct ClusterConfig<'a> {
    pub(crate) broker: &'a BrokerConfig,
    pub(crate) fixed: &'a StaticConfig,
    pub(crate) meta: &'a MetaProperties,
    /// Whether that was drawn in this start and is written nowhere yet.
    pub(crate) is_new: bool,
    pub(crate) incarnation: Uuid,
    /// Seeds the controller's draws: topic ids and placement.
    pub(crate) seed: [u8; 32],
    /// Synced mark of the metadata log.
    pub(crate) recovery_point: Offset,
    /// Broker epoch that the clean-shutdown marker vouches for, -1 without a marker.
    pub(crate) clean_epoch: i64,
    /// Who owns the metadata log's storage operations.
    pub(crate) owner: Owner,
}

/// Something that the broker acts on.
#[derive(Debug)]
pub(crate) enum ClusterEvent {
    /// This node founds the cluster alone: its identity must become durable now, [`Cluster::identity_written`] is told when.
    Founding,
    /// The committed image changed.
    Changed(Change),
    /// The committed image was replaced as a whole.
    Reloaded,
    /// The cluster has an id, which this node does not have on disk yet: [`Cluster::join`] once it has.
    Founded(String),
    /// The metadata read here holds this broker's registration.
    Registered,
    /// This broker is unfenced.
    Unfenced,
    /// The controller lets this broker stop.
    MayStop,
    /// An answer to a request.
    Reply(ReplyTo, ControllerReply),
    /// A call to another replica of the quorum.
    CallReplica(NodeId, (raft::CallId, Asked), peer::Call),
    /// A call to the active controller on another node.
    CallController(NodeId, ErrandId, peer::Call),
    /// What became of a proposal of in-sync sets, by its number; nothing is known where there is no answer.
    InSyncSets(u64, Option<AlterPartitionResponseData>),
    /// The metadata log is closed: all of it is durable.
    Closed,
    /// For people and checkers.
    Told(Event),
    /// This node cannot go on.
    Fatal(String),
}

/// Who asked the controller here.
#[derive(Debug)]
enum Asker {
    /// This node itself, or one of its clients.
    Errand(ErrandId),
    /// Another node, or a client of the controller's listener; and what they hear if nobody decides.
    Call(Call, ControllerReply),
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Cluster {
    node_id: NodeId,
    planted: PlantedSet,
    fixed: StaticConfig,
    pub(crate) settings: BrokerSettings,
    cluster_id: Option<String>,
    directory: Uuid,
    raft: Raft,
    quorum_timeout_ms: u64,
    controller: Controller,
    /// What a leader that is alone writes first in a new cluster; others agree on their founding first.
    first_records: Vec<Record>,
    /// None on a node that is no broker.
    registration: Option<Registration>,
    errands: Errands,
    askers: BTreeMap<Ticket, Asker>,
    next_ticket: u64,
    events: VecDeque<ClusterEvent>,
}

impl Cluster {
    pub(crate) fn new(config: &ClusterConfig<'_>) -> Self {
        let node_id = config.broker.node_id;
        let fixed = config.fixed.clone();
        let mut rng = ChaCha12Rng::from_seed(config.seed);
        let mut founding_id = [0; 16];
        rng.fill_bytes(&mut founding_id);
        let controller =
            Controller::new(node_id, fixed.clone(), rng).with_planted(config.broker.planted);
        let settings = settings(controller.committed(), &fixed, node_id);
        let local = LocalReplica {
            key: ReplicaKey {
                id: node_id,
                directory: config.meta.directory_id,
            },
            log_dir: LogDirId(0),
            owner: config.owner,
        };
        let founding_id = Uuid::from_random(founding_id);
        let raft_config = founding::raft_config(config, &settings, founding_id);
        Self {
            node_id,
            planted: config.broker.planted,
            fixed,
            settings,
            cluster_id: config.meta.cluster_id.clone(),
            directory: config.meta.directory_id,
            quorum_timeout_ms: raft_config.request_timeout_ms,
            raft: Raft::new(raft_config, local),
            controller,
            first_records: if config.broker.is_alone() {
                founding::first_records(config, founding_id)
            } else {
                Vec::new()
            },
            registration: config.broker.is_broker().then(|| Registration::new(config)),
            errands: Errands::default(),
            askers: BTreeMap::new(),
            next_ticket: 0,
            events: VecDeque::new(),
        }
    }

    /// Starts to read the metadata log.
    pub(crate) fn start(&mut self, now: Now, storage: &mut StorageQueue) {
        let mut context = raft_context(self.planted, now, storage);
        self.raft.start(&mut context);
        if self.cluster_id.is_some() {
            self.begin_registration(now);
        }
    }

    pub(crate) fn on_completion(
        &mut self,
        now: Now,
        storage: &mut StorageQueue,
        completion: Completion,
    ) {
        let mut context = raft_context(self.planted, now, storage);
        self.raft.on_completion(&mut context, completion);
    }

    /// Takes note that the identity asked for with [`ClusterEvent::Founding`] is durable.
    pub(crate) fn identity_written(&mut self, now: Now, storage: &mut StorageQueue) {
        let mut context = raft_context(self.planted, now, storage);
        self.raft.identity_written(&mut context);
    }

    pub(crate) fn on_timeout(&mut self, now: Now, storage: &mut StorageQueue) {
        let mut context = raft_context(self.planted, now, storage);
        self.raft.on_timeout(&mut context);
        // The own heartbeat first: a node that was paused must not fence itself when it wakes.
        self.maybe_heartbeat(now);
        self.controller.on_timeout(now.instant);
        while let Some((request, purpose)) = self.errands.overdue(now.instant) {
            self.give_up(now, &request, purpose);
        }
    }

    /// Writes what a clean stop needs of the metadata log; [`ClusterEvent::Closed`] follows.
    pub(crate) fn close(&mut self, now: Now, storage: &mut StorageQueue) {
        let mut context = raft_context(self.planted, now, storage);
        self.raft.close(&mut context);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let heartbeat = self.registration.as_ref().and_then(Registration::deadline);
        let deadlines = [
            self.raft.deadline(),
            heartbeat.filter(|_| !self.has_heartbeat_under_way()),
            self.controller.deadline(),
            self.errands.deadline(self.knows_controller()),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Asks the active controller, wherever it is; the reply comes as [`ClusterEvent::Reply`].
    pub(crate) fn submit(&mut self, now: Now, request: ControllerRequest, to: ReplyTo) {
        let purpose = Purpose::Client(to);
        self.errands.add(now.instant, request, purpose, FORWARD_MS);
    }

    /// Asks the active controller for a change of in-sync sets; [`ClusterEvent::InSyncSets`] follows under this number.
    pub(crate) fn propose(&mut self, now: Now, number: u64, request: AlterPartitionRequestData) {
        let request = ControllerRequest::AlterPartition(request, ALTER_PARTITION);
        let purpose = Purpose::InSyncSets(number);
        self.errands.add(now.instant, request, purpose, OWN_MS);
    }

    /// Lets the controller here decide on a request that came over its listener; the reply is NOT_CONTROLLER if it does not.
    pub(crate) fn decide(&mut self, now: Now, request: ControllerRequest, call: Call) {
        let refusal = refusal::refused(&request, ErrorCode::NotController);
        let ticket = self.ticket();
        self.askers.insert(ticket, Asker::Call(call, refusal));
        self.controller.handle(now.instant, ticket, request);
    }

    const fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    /// Tells the controller that this broker wants to stop; [`ClusterEvent::MayStop`] follows.
    pub(crate) fn shut_down(&mut self, now: Now) {
        if let Some(registration) = &mut self.registration {
            registration.shut_down();
            self.maybe_heartbeat(now);
        }
    }

    /// Returns whether another broker may take over what this one leads.
    pub(crate) fn has_other_brokers(&self) -> bool {
        let mut brokers = self.image().brokers().values();
        brokers.any(|broker| broker.id != self.node_id && broker.is_active())
    }

    /// Carries records, calls and replies between quorum, controller and links; returns what the broker must act on, oldest
    /// first.
    pub(crate) fn poll(&mut self, now: Now, storage: &mut StorageQueue) -> Option<ClusterEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if let Some(event) = self.raft.poll_event() {
                if let Err(message) = self.on_raft_event(now, storage, event) {
                    return Some(ClusterEvent::Fatal(message));
                }
                continue;
            }
            if let Some(output) = self.controller.poll_output() {
                if let Err(message) = self.on_controller_output(now, storage, output) {
                    return Some(ClusterEvent::Fatal(message));
                }
                continue;
            }
            self.maybe_heartbeat(now);
            if self.ask_controller(now) {
                continue;
            }
            return self.poll_replica();
        }
    }

    fn on_controller_output(
        &mut self,
        now: Now,
        storage: &mut StorageQueue,
        output: ControllerOutput,
    ) -> Result<(), String> {
        match output {
            ControllerOutput::Append { records, .. } => {
                let encoded = encode(&records)?;
                let mut context = raft_context(self.planted, now, storage);
                match self.raft.append(&mut context, encoded) {
                    Ok((base_offset, _)) => self.controller.on_appended(base_offset),
                    // Another leads by now; the controller hears of it next, and forgets what it decided.
                    Err(AppendError::NotLeader { .. }) => return Ok(()),
                    Err(error) => return Err(format!("the metadata log took no record: {error}")),
                }
                // The heartbeat that unfences rides in the same sync as the registration.
                let registration = self.registration.as_mut();
                if registration.is_some_and(|known| known.learn_epoch(&records))
                    && !self.has_heartbeat_under_way()
                {
                    // It counts as read: it is decided here, in this very process.
                    let epoch = self.broker_epoch().unwrap_or(-1);
                    let read = self.controller.committed_end().saturating_sub(1);
                    self.send_heartbeat(now, read.max(epoch));
                }
            }
            ControllerOutput::Reply(ticket, reply) => self.on_decided(now, ticket, reply),
        }
        Ok(())
    }

    /// Reads the broker's settings anew from the committed metadata.
    pub(crate) fn refresh_settings(&mut self) {
        self.settings = settings(self.controller.committed(), &self.fixed, self.node_id);
    }

    /// Returns the committed metadata.
    pub(crate) const fn image(&self) -> &MetadataImage {
        self.controller.committed()
    }

    /// Returns this node's replica of the metadata log.
    pub(crate) const fn raft(&self) -> &Raft {
        &self.raft
    }

    /// Returns a topic's settings, from its own overrides and every layer below.
    pub(crate) fn topic_settings(&self, topic: &str) -> TopicSettings {
        let image = self.image();
        let layers = image.layers(&self.fixed, self.node_id);
        // Committed overrides were checked before they were appended; a release that knows less falls back.
        let config = layers
            .log_config(image.topic_configs(topic))
            .unwrap_or_else(|_| layers.log_defaults());
        TopicSettings::from(&config)
    }

    /// Describes the quorum as this replica sees it, which only its leader can do.
    pub(crate) fn describe_quorum(
        &self,
        now: Now,
        request: &DescribeQuorumRequestData,
        version: i16,
    ) -> DescribeQuorumResponseData {
        if !wire::asks_for_metadata_quorum(request) {
            return wire::unknown_quorum(request);
        }
        let description = self.raft.describe_quorum(now.wall);
        wire::describe_quorum_response(description.as_ref(), self.raft.voters(), version)
    }

    pub(crate) fn describe_configs(
        &self,
        request: &DescribeConfigsRequestData,
    ) -> DescribeConfigsResponseData {
        let context = DecisionContext {
            node_id: self.node_id,
            fixed: &self.fixed,
            planted: self.planted,
        };
        describe_configs(self.image(), &context, request)
    }

    /// Returns the active controller, as clients are told: some live broker, for any of them takes their requests (KIP-590).
    pub(crate) fn controller_id(&self) -> Option<NodeId> {
        let live = |id: &NodeId| {
            self.image()
                .broker(*id)
                .is_some_and(|broker| !broker.fenced)
        };
        let own = Some(self.node_id).filter(live);
        own.or_else(|| self.image().brokers().keys().copied().find(live))
    }

    /// Lists registered brokers with their address on a listener, fenced ones too.
    pub(crate) fn brokers_on(
        &self,
        listener: &str,
    ) -> impl Iterator<Item = (&BrokerImage, &EndpointV1)> {
        self.image().brokers().values().filter_map(move |broker| {
            let mut endpoints = broker.endpoints.iter();
            let endpoint = endpoints.find(|endpoint| endpoint.name == listener)?;
            Some((broker, endpoint))
        })
    }

    /// Lists live brokers with their address on a listener, by its position in the configuration.
    pub(crate) fn live_brokers(
        &self,
        listener: &str,
    ) -> impl Iterator<Item = (NodeId, &EndpointV1, Option<&str>)> {
        self.brokers_on(listener)
            .filter(|(broker, _)| !broker.fenced)
            .map(|(broker, endpoint)| (broker.id, endpoint, broker.rack.as_deref()))
    }

    /// Returns the epoch of this broker's registration.
    pub(crate) fn broker_epoch(&self) -> Option<i64> {
        self.registration.as_ref().and_then(Registration::epoch)
    }

    /// Returns whether the incarnation before this one stopped cleanly.
    pub(crate) fn was_clean(&self) -> bool {
        self.registration
            .as_ref()
            .is_some_and(Registration::was_clean)
    }

    /// Returns the id of this node's log directory.
    pub(crate) const fn directory(&self) -> Uuid {
        self.directory
    }

    /// Returns the synced mark of the metadata log.
    pub(crate) fn recovery_point(&self) -> Offset {
        self.raft.recovery_point()
    }

    pub(crate) fn quorum_probe(&self) -> QuorumProbe {
        let raft = self.raft.probe();
        QuorumProbe {
            epoch: raft.epoch,
            log_start: raft.log_start,
            log_end: raft.log_end,
            flushed: raft.flushed_end,
            committed: raft.high_watermark,
            leader: raft.leader,
            voted_epoch: raft.voted_epoch,
            voted: raft.voted.map(|voted| voted.id),
            snapshot: raft.latest_snapshot.map(|snapshot| snapshot.end_offset),
        }
    }
}

const fn raft_context(
    planted: PlantedSet,
    now: Now,
    storage: &mut StorageQueue,
) -> RaftContext<'_> {
    RaftContext {
        now,
        storage,
        planted,
    }
}

fn settings(image: &MetadataImage, fixed: &StaticConfig, node_id: NodeId) -> BrokerSettings {
    BrokerSettings::resolve(&image.layers(fixed, node_id))
}

fn encode(records: &[Record]) -> Result<Vec<Bytes>, String> {
    let encoded: Result<Vec<Bytes>, RecordError> = records
        .iter()
        .map(|record| record.encode().map(Bytes::from))
        .collect();
    encoded.map_err(|error| error.to_string())
}

fn decode(records: &[Bytes]) -> Result<Vec<Record>, String> {
    let decoded: Result<Vec<Record>, RecordError> =
        records.iter().map(|bytes| Record::decode(bytes)).collect();
    decoded.map_err(|error| error.to_string())
}
