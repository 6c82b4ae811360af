//! From a known identity to a registered broker that serves: metadata log, quorum, registration, partitions.

use std::sync::Arc;

use rand_chacha::rand_core::Rng;

use super::{Broker, Marks, RAFT, Stage, checkpointing, housekeeping::Housekeeping, links::Caller};
use crate::{
    cluster::{Cluster, ClusterConfig, ClusterEvent},
    controller::image::{Change, ConfigResource, NO_LEADER, PartitionImage, ResourceKind},
    event::Event,
    frontend::Frontend,
    ids::{NodeId, TopicName, TopicPartition, Uuid},
    log::OpenHint,
    logdir::files::MetaProperties,
    peer::Lane,
    planted::Planted,
    replication::{Fetchers, LeaderAssignment, NewPartition, ReplicationConfig, SlotId},
    storage::{Completion, EntryKind, FileOp, Owner},
};

/// The topic whose only partition is the metadata log.
pub(super) const METADATA_TOPIC: &str = "__cluster_metadata";

impl Broker {
    /// Starts the metadata log; `is_new` says that the identity is written nowhere yet.
    pub(super) fn join(&mut self, meta: &MetaProperties, is_new: bool) {
        let metadata_log = checkpointing::metadata_log();
        let recovery_point = self.marks(&metadata_log).recovery_point;
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        let config = ClusterConfig {
            broker: &self.config,
            fixed: &self.fixed,
            meta,
            is_new,
            incarnation: self.identity.incarnation,
            seed,
            recovery_point,
            clean_epoch: self.found.clean.unwrap_or(-1),
            owner: RAFT,
        };
        let mut cluster = Box::new(Cluster::new(&config));
        cluster.start(self.now, &mut self.storage);
        self.cluster = Some(cluster);
        self.stage = Stage::Joining;
        self.address_voters();
    }

    pub(super) fn on_raft_completion(&mut self, completion: Completion) {
        if let Some(cluster) = &mut self.cluster {
            cluster.on_completion(self.now, &mut self.storage, completion);
        }
    }

    pub(super) fn on_raft_timeout(&mut self) {
        if let Some(cluster) = &mut self.cluster {
            cluster.on_timeout(self.now, &mut self.storage);
        }
    }

    /// Applies what the quorum has committed, and hands out the answers that rest on it.
    pub(super) fn settle_cluster(&mut self) -> bool {
        let mut busy = false;
        while let Some(event) = self
            .cluster
            .as_mut()
            .and_then(|cluster| cluster.poll(self.now, &mut self.storage))
        {
            busy = true;
            match event {
                // Before the broker is registered there are no partitions to keep up to date.
                ClusterEvent::Changed(change) if self.serves_partitions() => self.apply(change),
                ClusterEvent::Changed(_) => {}
                ClusterEvent::Founding => self.write_identity(),
                ClusterEvent::Reloaded if self.serves_partitions() => self.reload(),
                ClusterEvent::Reloaded => {}
                ClusterEvent::Founded(cluster_id) => self.on_founded(cluster_id),
                ClusterEvent::Registered => self.on_registered(),
                ClusterEvent::Unfenced => self.on_unfenced(),
                ClusterEvent::MayStop => self.on_may_stop(),
                ClusterEvent::CallReplica(node, (id, asked), call) => {
                    let caller = Caller::Replica(id, asked);
                    let way = (node, Lane::Quorum);
                    self.links.call(self.now.instant, way, caller, call);
                }
                ClusterEvent::CallController(node, id, call) => {
                    let way = (node, Lane::Controller);
                    let caller = Caller::Errand(id);
                    self.links.call(self.now.instant, way, caller, call);
                }
                ClusterEvent::InSyncSets(number, answer) => self.on_in_sync_sets(number, answer),
                ClusterEvent::Reply(to, reply) => {
                    self.with_frontend(|frontend: &mut Frontend, services| {
                        frontend.on_reply(services, to, reply);
                    });
                }
                ClusterEvent::Closed => self.on_metadata_closed(),
                ClusterEvent::Told(event) => self.tell(event),
                ClusterEvent::Fatal(message) => {
                    self.fail(message);
                    return false;
                }
            }
        }
        busy
    }

    /// The registration is committed and read: take up all partitions. From here on every assignment is one of this
    /// incarnation.
    fn on_registered(&mut self) {
        if !matches!(self.stage, Stage::Joining) {
            return;
        }
        self.stage = Stage::Registered;
        let trusts_any_marker = self.trusts_any_marker();
        let Some(cluster) = self.cluster.as_deref_mut() else {
            return;
        };
        cluster.refresh_settings();
        // The marker vouches for one incarnation: the last one that registered (KIP-966).
        let clean = cluster.was_clean() || trusts_any_marker;
        let settings = cluster.settings.clone();
        let topics: Vec<(Uuid, i32)> = cluster
            .image()
            .topics()
            .flat_map(|topic| (0..topic.partition_count()).map(|at| (topic.id(), at)))
            .collect();
        self.housekeeping = Some(Housekeeping::new(self.now.instant, &settings));
        let replication = ReplicationConfig::from(&settings);
        self.partitions.configure(replication);
        self.fetchers = Fetchers::new(replication);
        self.learn_brokers();
        if self.config.planted.has(Planted::B76) {
            self.clear_leftovers();
        }
        for (topic_id, partition_id) in topics {
            self.add_partition(topic_id, partition_id, clean, false);
        }
        if self.found.clean.is_some() {
            self.tell(Event::CleanShutdown { found: clean });
        }
        self.forget_synced_marks();
        self.clear_leftovers();
        self.found = crate::logdir::Found::default();
        self.marks.clear();
    }

    /// This broker may lead and be in sync: it serves.
    fn on_unfenced(&mut self) {
        if matches!(self.stage, Stage::Registered)
            || matches!(self.stage, Stage::Joining) && !self.config.is_broker()
        {
            self.stage = Stage::Running;
            self.tell(Event::Ready);
        }
    }

    /// A snapshot took the place of all metadata: what has changed is found by comparing.
    fn reload(&mut self) {
        let Some(cluster) = self.cluster.as_deref_mut() else {
            return;
        };
        cluster.refresh_settings();
        let image = cluster.image();
        let known = self.partitions.topics();
        let gone: Vec<TopicName> = known
            .filter(|(_, id)| image.topic_by_id(*id).is_none())
            .map(|(name, _)| name.clone())
            .collect();
        let present: Vec<(Uuid, i32)> = image
            .topics()
            .flat_map(|topic| (0..topic.partition_count()).map(|at| (topic.id(), at)))
            .collect();
        self.learn_brokers();
        for topic in gone {
            self.remove_topic(&topic);
        }
        for (topic_id, partition_id) in present {
            if self.slot_of(topic_id, partition_id).is_some() {
                self.reassign(topic_id, partition_id);
            } else {
                self.add_partition(topic_id, partition_id, true, true);
            }
        }
        self.apply_config(&ConfigResource::all_brokers());
    }

    fn slot_of(&self, topic_id: Uuid, partition_id: i32) -> Option<SlotId> {
        let name = self.partitions.topic_name(topic_id)?;
        self.partitions.slot(name.as_str(), partition_id)
    }

    /// Forgets the synced marks of topics that are gone.
    fn forget_synced_marks(&mut self) {
        if let Some(cluster) = self.cluster.as_deref() {
            let image = cluster.image();
            self.synced_marks
                .retain(|topic_id| image.topic_by_id(topic_id).is_some());
        }
    }

    /// The bug B45 has two halves: the marker stays, and whoever finds it trusts it, whichever incarnation left it. The epoch in
    /// the marker makes the first half harmless by itself.
    const fn trusts_any_marker(&self) -> bool {
        self.config.planted.has(Planted::B45) && self.found.clean.is_some()
    }

    /// Removes folders of deleted partitions, and puts aside, as Kafka does, those that no committed partition owns.
    fn clear_leftovers(&mut self) {
        for entry in std::mem::take(&mut self.found.entries) {
            let path = self.root.join(&entry.name);
            if entry.kind != EntryKind::Dir || entry.name.ends_with("-stray") {
                continue;
            }
            if entry.name.ends_with("-delete") {
                self.storage
                    .submit(Owner::NOBODY, FileOp::RemoveDir { dir: path });
                continue;
            }
            let Some((topic, partition)) = entry.name.rsplit_once('-') else {
                continue;
            };
            let Ok(partition) = partition.parse::<i32>() else {
                continue;
            };
            let is_owned =
                topic == METADATA_TOPIC || self.partitions.slot(topic, partition).is_some();
            if !is_owned {
                let aside = format!("{topic}-{partition}.{}-stray", self.random_hex());
                let to = self.root.join(&aside);
                self.storage
                    .submit(Owner::NOBODY, FileOp::Rename { from: path, to });
            }
        }
    }

    fn random_hex(&mut self) -> String {
        self.random_id()
            .0
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::PartitionCreated {
                topic_id,
                partition_id,
            } => {
                self.add_partition(topic_id, partition_id, true, true);
            }
            Change::PartitionChanged {
                topic_id,
                partition_id,
            } => {
                self.tell_of(topic_id, partition_id, partition_changed);
                self.reassign(topic_id, partition_id);
            }
            Change::LeaderElectedUncleanly {
                topic_id,
                partition_id,
            } => {
                self.tell_of(topic_id, partition_id, elected_uncleanly);
                self.tell_of(topic_id, partition_id, partition_changed);
                self.reassign(topic_id, partition_id);
            }
            Change::TopicRemoved(topic) => {
                self.remove_topic(topic.name());
            }
            Change::Config(resource) => self.apply_config(&resource),
            Change::Broker(node) => self.learn_broker(node),
            // The epoch of the partition rose with it: a leader's next proposal must name the new one.
            Change::ElrCleared(partitions) => {
                for (topic_id, partition_id) in partitions {
                    self.reassign(topic_id, partition_id);
                }
            }
            Change::None
            | Change::FeatureLevel(_)
            | Change::ClusterId
            | Change::Voters
            | Change::TopicCreated(_) => {}
        }
    }

    pub(super) fn add_partition(
        &mut self,
        topic_id: Uuid,
        partition_id: i32,
        clean: bool,
        fresh: bool,
    ) {
        let Some(cluster) = self.cluster.as_deref() else {
            return;
        };
        let Some(topic) = cluster.image().topic_by_id(topic_id) else {
            return;
        };
        let Some(partition) = topic.partition(partition_id) else {
            return;
        };
        if !partition.replicas.contains(&self.config.node_id) {
            return;
        }
        let name = TopicPartition {
            topic: topic.name().clone(),
            partition: partition_id,
        };
        if fresh && self.stale_names.hold(&name, (topic_id, partition_id)) {
            return;
        }
        let assignment = assignment(partition, self.config.node_id);
        let settings = Arc::new(cluster.topic_settings(topic.name().as_str()));
        let marks = if fresh {
            Marks::default()
        } else {
            self.marks(&name)
        };
        let hint = OpenHint {
            log_start: marks.log_start,
            recovery_point: marks.recovery_point,
            synced: self.synced_marks.get(topic_id, partition_id),
            clean: clean && !fresh,
            fresh: Some(topic_id),
        };
        let root = self.root.clone();
        let vouched = clean || fresh;
        let new = NewPartition {
            name,
            topic_id,
            root,
            hint,
            settings,
            assignment,
            vouched,
        };
        let slot = self.partitions.add(new);
        if let Some(slot) = slot {
            let (partitions, mut context) = self.context();
            partitions.with(&mut context, slot, |partition, _, _| {
                partition.seed_high_watermark(marks.high_watermark);
            });
        }
        if let Some(slot) = slot.filter(|_| !clean) {
            self.opener.push(slot);
        }
    }

    fn remove_topic(&mut self, topic: &TopicName) {
        for (slot, partition) in self.partitions.iter() {
            if partition.name().topic == *topic {
                self.stale_names.add(partition.name().clone());
                self.log_starts.forget(slot);
                self.cuts.forget(slot);
                self.new_starts.forget(slot);
                self.fetchers.unfollow(slot);
                self.isr_proposals.withdraw(slot);
            }
        }
        let (partitions, mut context) = self.context();
        partitions.delete_topic(&mut context, topic);
        self.forget_synced_marks();
    }

    /// Every broker says what became of a partition, whether it keeps it or not.
    fn tell_of(
        &mut self,
        topic_id: Uuid,
        partition_id: i32,
        what: fn(TopicPartition, &PartitionImage) -> Event,
    ) {
        let cluster = self.cluster.as_deref();
        let topic = cluster.and_then(|cluster| cluster.image().topic_by_id(topic_id));
        let event = topic.and_then(|topic| {
            let name = TopicPartition {
                topic: topic.name().clone(),
                partition: partition_id,
            };
            Some(what(name, topic.partition(partition_id)?))
        });
        if let Some(event) = event {
            self.tell(event);
        }
    }

    fn reassign(&mut self, topic_id: Uuid, partition_id: i32) {
        let Some(cluster) = self.cluster.as_deref() else {
            return;
        };
        let Some(topic) = cluster.image().topic_by_id(topic_id) else {
            return;
        };
        let Some(partition) = topic.partition(partition_id) else {
            return;
        };
        let assignment = assignment(partition, self.config.node_id);
        let Some(slot) = self.partitions.slot(topic.name().as_str(), partition_id) else {
            return;
        };
        let (partitions, mut context) = self.context();
        let leads = partitions.with(&mut context, slot, |partition, log, effects| {
            partition.assign(log, assignment, effects);
            partition.leadership().is_some()
        });
        if leads == Some(false) {
            self.isr_proposals.withdraw(slot);
        }
    }

    /// A config changed: of one topic, or of the broker and with it of every topic that does not override it.
    fn apply_config(&mut self, resource: &ConfigResource) {
        let Some(cluster) = self.cluster.as_deref_mut() else {
            return;
        };
        cluster.refresh_settings();
        let affected: Vec<_> = self
            .partitions
            .iter()
            .filter(|(_, partition)| {
                resource.kind != ResourceKind::Topic
                    || partition.name().topic.as_str() == resource.name
            })
            .map(|(slot, partition)| (slot, partition.name().topic.clone()))
            .collect();
        for (slot, topic) in affected {
            let Some(cluster) = self.cluster.as_deref() else {
                return;
            };
            let settings = Arc::new(cluster.topic_settings(topic.as_str()));
            let (partitions, mut context) = self.context();
            partitions.with(&mut context, slot, |partition, _, effects| {
                partition.set_settings(settings, effects);
            });
        }
    }
}

fn elected_uncleanly(name: TopicPartition, partition: &PartitionImage) -> Event {
    Event::LeaderElectedUncleanly {
        partition: name,
        leader: partition.leader,
        epoch: partition.leader_epoch,
    }
}

fn partition_changed(name: TopicPartition, partition: &PartitionImage) -> Event {
    Event::PartitionChanged {
        partition: name,
        partition_epoch: partition.partition_epoch,
        leader: (partition.leader != NO_LEADER).then_some(partition.leader),
        epoch: partition.leader_epoch,
        isr: partition.isr.clone(),
    }
}

fn assignment(partition: &PartitionImage, local: NodeId) -> LeaderAssignment {
    LeaderAssignment {
        epoch: partition.leader_epoch,
        partition_epoch: partition.partition_epoch,
        leader: (partition.leader != NO_LEADER).then_some(partition.leader),
        local,
        replicas: partition.replicas.clone(),
        adding: partition.adding_replicas.len(),
        isr: partition.isr.clone(),
    }
}
