//! The cluster as one node lives it: the quorum's log, the controller that decides on it, and this broker's registration.
//!
//! Raft orders and commits opaque records; the controller decides what they say; this machine carries records between the two
//! and keeps this node's broker registered. Requests go in, replies come out once what they rest on is committed and replayed
//! here.

mod registration;
mod request;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use rand_chacha::{ChaCha12Rng, rand_core::SeedableRng};

use self::registration::Registration;
pub(crate) use self::request::{AdminReply, AdminRequest, ReplyTo};
use crate::{
    broker::{BrokerConfig, QuorumProbe},
    config::{BrokerSettings, StaticConfig},
    controller::{
        Controller, ControllerOutput, ControllerReply, ControllerRequest, Ticket,
        decide::{BootstrapContext, DecisionContext, bootstrap_records, describe_configs},
        image::{BrokerImage, Change, MetadataImage},
        records::{EndpointV1, Record, RecordError, VoterV1},
    },
    event::Event,
    ids::{NodeId, Offset, Uuid},
    logdir::files::MetaProperties,
    planted::PlantedSet,
    protocol::messages::{DescribeConfigsRequestData, DescribeConfigsResponseData},
    raft::{
        LocalReplica, PeerReply, PeerRequest, PeerTicket, Raft, RaftConfig, RaftContext, RaftEvent,
        ReplicaKey, Voter, VoterSet,
    },
    replication::TopicSettings,
    storage::{Completion, LogDirId, Owner, StorageQueue},
    time::{Instant, Now},
};

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
    /// This broker is registered and unfenced.
    Registered,
    /// An answer to a request.
    Reply(ReplyTo, AdminReply),
    /// The metadata log is closed: all of it is durable.
    Closed,
    /// For people and checkers.
    Told(Event),
    /// This node cannot go on.
    Fatal(String),
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Cluster {
    node_id: NodeId,
    planted: PlantedSet,
    fixed: StaticConfig,
    pub(crate) settings: BrokerSettings,
    raft: Raft,
    controller: Controller,
    registration: Registration,
    /// What a leader that is alone writes first in a new cluster; others agree on their founding first.
    first_records: Vec<Record>,
    waiting: BTreeMap<Ticket, ReplyTo>,
    next_ticket: u64,
    events: VecDeque<ClusterEvent>,
}

impl Cluster {
    pub(crate) fn new(config: &ClusterConfig<'_>) -> Self {
        let node_id = config.broker.node_id;
        let fixed = config.fixed.clone();
        let rng = ChaCha12Rng::from_seed(config.seed);
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
        let raft = Raft::new(raft_config(config, &settings), local);
        let registration = Registration::new(config);
        Self {
            node_id,
            planted: config.broker.planted,
            fixed,
            settings,
            raft,
            controller,
            registration,
            first_records: if config.broker.is_alone() {
                first_records(config)
            } else {
                Vec::new()
            },
            waiting: BTreeMap::new(),
            next_ticket: 0,
            events: VecDeque::new(),
        }
    }

    /// Starts to read the metadata log.
    pub(crate) fn start(&mut self, now: Now, storage: &mut StorageQueue) {
        let mut context = RaftContext {
            now,
            storage,
            planted: self.planted,
        };
        self.raft.start(&mut context);
    }

    pub(crate) fn on_completion(
        &mut self,
        now: Now,
        storage: &mut StorageQueue,
        completion: Completion,
    ) {
        let mut context = RaftContext {
            now,
            storage,
            planted: self.planted,
        };
        self.raft.on_completion(&mut context, completion);
    }

    /// Takes note that the identity asked for with [`ClusterEvent::Founding`] is durable.
    pub(crate) fn identity_written(&mut self, now: Now, storage: &mut StorageQueue) {
        let mut context = RaftContext {
            now,
            storage,
            planted: self.planted,
        };
        self.raft.identity_written(&mut context);
    }

    pub(crate) fn on_timeout(&mut self, now: Now, storage: &mut StorageQueue) {
        let mut context = RaftContext {
            now,
            storage,
            planted: self.planted,
        };
        self.raft.on_timeout(&mut context);
        // The own heartbeat first: a node that was paused must not fence itself when it wakes.
        if self.registration.is_heartbeat_due(now.instant) {
            self.send_heartbeat(now);
        }
        self.controller.on_timeout(now.instant);
    }

    /// Writes what a clean stop needs of the metadata log; [`ClusterEvent::Closed`] follows.
    pub(crate) fn close(&mut self, now: Now, storage: &mut StorageQueue) {
        let mut context = RaftContext {
            now,
            storage,
            planted: self.planted,
        };
        self.raft.close(&mut context);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let deadlines = [
            self.raft.deadline(),
            self.registration.deadline(),
            self.controller.deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Takes what another replica of the metadata log asks; [`Self::poll_peer_reply`] hands out the answer.
    pub(crate) fn on_peer_request(
        &mut self,
        now: Now,
        storage: &mut StorageQueue,
        ticket: PeerTicket,
        request: PeerRequest,
    ) {
        let mut context = RaftContext {
            now,
            storage,
            planted: self.planted,
        };
        self.raft.on_peer_request(&mut context, request, ticket);
    }

    /// Takes the oldest answer to another replica.
    pub(crate) fn poll_peer_reply(&mut self) -> Option<(PeerTicket, PeerReply)> {
        self.raft.poll_reply()
    }

    /// Asks the controller; the reply comes as [`ClusterEvent::Reply`].
    pub(crate) fn submit(&mut self, now: Now, version: i16, request: AdminRequest, to: ReplyTo) {
        let ticket = self.ticket();
        self.waiting.insert(ticket, to);
        self.controller
            .handle(now.instant, ticket, request.for_controller(version));
    }

    /// Asks the controller to create topics that a Metadata request named.
    pub(crate) fn auto_create(&mut self, now: Now, names: Vec<String>, to: ReplyTo) {
        let ticket = self.ticket();
        self.waiting.insert(ticket, to);
        let request = ControllerRequest::AutoCreateTopics(names);
        self.controller.handle(now.instant, ticket, request);
    }

    const fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    fn send_heartbeat(&mut self, now: Now) {
        let ticket = self.ticket();
        let interval = u64::try_from(self.settings.broker_heartbeat_interval_ms).unwrap_or(1);
        let due = now.instant.plus_millis(interval.max(1));
        let seen = self.controller.committed_end().saturating_sub(1);
        if let Some(request) = self.registration.heartbeat(ticket, due, seen) {
            let request = ControllerRequest::BrokerHeartbeat(request);
            self.controller.handle(now.instant, ticket, request);
        }
    }

    /// Carries records and replies between quorum and controller; returns what the broker must act on, oldest first.
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
            let output = self.controller.poll_output()?;
            if let Err(message) = self.on_controller_output(now, storage, output) {
                return Some(ClusterEvent::Fatal(message));
            }
        }
    }

    fn on_raft_event(
        &mut self,
        now: Now,
        storage: &mut StorageQueue,
        event: RaftEvent,
    ) -> Result<(), String> {
        match event {
            RaftEvent::SnapshotLoaded {
                end_offset,
                records,
                ..
            } => {
                let records = decode(&records)?;
                let loaded = self.controller.load_snapshot(end_offset, &records);
                loaded.map_err(|error| format!("the metadata snapshot does not fit: {error}"))?;
                self.refresh_settings();
            }
            RaftEvent::Committed {
                base_offset,
                records,
                ..
            } => {
                self.on_committed(base_offset, &records)?;
            }
            RaftEvent::Founding => self.events.push_back(ClusterEvent::Founding),
            RaftEvent::BecameLeader { epoch } => {
                let log_end = self.raft.probe().log_end;
                self.controller.skip_to(self.raft.high_watermark());
                self.controller.become_leader(now.instant, epoch, log_end);
                let first_records = std::mem::take(&mut self.first_records);
                if self.image().cluster_id().is_none() && !first_records.is_empty() {
                    self.controller.append_own(first_records);
                }
                self.register(now);
            }
            RaftEvent::SnapshotNeeded { at } => {
                let records = encode(&self.controller.committed().to_snapshot_records())?;
                let mut context = RaftContext {
                    now,
                    storage,
                    planted: self.planted,
                };
                self.raft.write_snapshot(&mut context, at, records);
            }
            RaftEvent::LostLeadership { .. } => self.controller.resign(),
            // The node has no links to peers yet, so there is nobody to hear these from.
            RaftEvent::LeaderChanged { .. } | RaftEvent::Warning { .. } => {}
            RaftEvent::Notice(event) => self.events.push_back(ClusterEvent::Told(event)),
            RaftEvent::Closed => self.events.push_back(ClusterEvent::Closed),
            RaftEvent::Fatal { message } => return Err(message),
        }
        Ok(())
    }

    fn on_committed(&mut self, base_offset: Offset, records: &[Bytes]) -> Result<(), String> {
        let changes = if self.controller.leading_epoch().is_some() {
            let length = Offset::try_from(records.len()).unwrap_or(Offset::MAX);
            self.controller
                .on_committed(base_offset.saturating_add(length))
        } else {
            self.controller
                .replay_committed(base_offset, &decode(records)?)
        };
        let changes = changes.map_err(|error| format!("the metadata log does not fit: {error}"))?;
        self.events
            .extend(changes.into_iter().map(ClusterEvent::Changed));
        Ok(())
    }

    fn register(&mut self, now: Now) {
        self.refresh_settings();
        let ticket = self.ticket();
        let previous = self
            .controller
            .committed()
            .broker(self.node_id)
            .map(|broker| broker.epoch);
        let request = self.registration.register(ticket, previous);
        self.controller.handle(
            now.instant,
            ticket,
            ControllerRequest::RegisterBroker(request),
        );
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
                let mut context = RaftContext {
                    now,
                    storage,
                    planted: self.planted,
                };
                match self.raft.append(&mut context, encoded) {
                    Ok((base_offset, _)) => self.controller.on_appended(base_offset),
                    Err(error) => return Err(format!("the metadata log took no record: {error}")),
                }
                // The heartbeat that unfences rides in the same sync as the registration.
                if self.registration.learn_epoch(&records) {
                    self.send_heartbeat(now);
                }
            }
            ControllerOutput::Reply(ticket, reply) => self.on_reply(ticket, reply)?,
        }
        Ok(())
    }

    fn on_reply(&mut self, ticket: Ticket, reply: ControllerReply) -> Result<(), String> {
        match reply {
            ControllerReply::RegisterBroker(response) => {
                self.registration.on_registered(response.error_code)
            }
            ControllerReply::BrokerHeartbeat(response) => {
                if self
                    .registration
                    .on_heartbeat(ticket, response.error_code, response.is_fenced)
                {
                    self.refresh_settings();
                    self.events.push_back(ClusterEvent::Registered);
                }
                Ok(())
            }
            reply => {
                if let Some(to) = self.waiting.remove(&ticket) {
                    let reply = AdminReply::from_controller(reply);
                    self.events.push_back(ClusterEvent::Reply(to, reply));
                }
                Ok(())
            }
        }
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

    /// Returns the active controller, as clients are told: any broker takes their requests.
    pub(crate) const fn controller_id(&self) -> NodeId {
        self.node_id
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
    pub(crate) const fn broker_epoch(&self) -> Option<i64> {
        self.registration.epoch()
    }

    /// Returns whether the incarnation before this one stopped cleanly.
    pub(crate) const fn was_clean(&self) -> bool {
        self.registration.was_clean()
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
        }
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

fn raft_config(config: &ClusterConfig<'_>, settings: &BrokerSettings) -> RaftConfig {
    let own = config.meta.directory_id;
    let node_id = config.broker.node_id;
    let named = config.broker.voters.iter().map(|voter| Voter {
        id: voter.node_id,
        directory: (voter.node_id == node_id).then_some(own),
        endpoints: Vec::new(),
    });
    let alone = Voter {
        id: node_id,
        directory: Some(own),
        endpoints: Vec::new(),
    };
    let voters = if config.broker.voters.is_empty() {
        VoterSet::new([alone])
    } else {
        VoterSet::new(named)
    };
    let cluster_id = config.meta.cluster_id.clone();
    let mut raft = RaftConfig::new(cluster_id, check_cluster, voters);
    raft.seed = config.seed;
    raft.recovery_point = config.recovery_point;
    raft.is_new_identity = config.is_new;
    if !config.broker.is_alone() {
        raft.bootstrap_records = encode(&first_records(config)).unwrap_or_default();
    }
    let unsigned = |value: i64| u64::try_from(value).unwrap_or(0);
    raft.max_record_bytes_between_snapshots =
        unsigned(settings.metadata_log_max_record_bytes_between_snapshots);
    raft.max_snapshot_interval_ms = unsigned(settings.metadata_log_max_snapshot_interval_ms);
    raft
}

fn first_records(config: &ClusterConfig<'_>) -> Vec<Record> {
    let image = MetadataImage::new();
    let Some(cluster_id) = Uuid::from_base64(&config.meta.cluster_id) else {
        return Vec::new();
    };
    let voter = VoterV1 {
        node_id: config.broker.node_id,
        directory_id: config.meta.directory_id,
        endpoints: Vec::new(),
    };
    let context = BootstrapContext {
        cluster_id,
        voters: vec![voter],
        layers: image.layers(config.fixed, config.broker.node_id),
    };
    bootstrap_records(&image, &context)
}

/// Refuses the metadata log of another cluster.
fn check_cluster(cluster_id: &str, record: &[u8]) -> Result<(), String> {
    match Record::decode(record) {
        Ok(Record::ClusterId(found)) if found.cluster_id != cluster_id => Err(format!(
            "it names cluster {}, this is {cluster_id}",
            found.cluster_id
        )),
        _ => Ok(()),
    }
}
