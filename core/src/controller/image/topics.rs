//! Topics and partitions in the image, with the look-ups that keep a request's cost independent of their number.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    controller::records::{PartitionChangeV1, PartitionV1},
    ids::{Epoch, NodeId, TopicName, Uuid},
};

/// The leader of a partition without a leader.
pub const NO_LEADER: NodeId = NodeId(-1);

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionImage {
    /// The brokers that keep it, the preferred leader first.
    pub replicas: Vec<NodeId>,
    /// The log directory of each replica, in the same order.
    pub directories: Vec<Uuid>,
    /// The in-sync replicas.
    pub isr: Vec<NodeId>,
    /// The eligible leader replicas (KIP-966).
    pub elr: Vec<NodeId>,
    /// The members of the last eligible set that may have lost data.
    pub last_known_elr: Vec<NodeId>,
    /// Replicas that a reassignment is about to remove.
    pub removing_replicas: Vec<NodeId>,
    /// Replicas that a reassignment is about to add.
    pub adding_replicas: Vec<NodeId>,
    /// The leader, or [`NO_LEADER`].
    pub leader: NodeId,
    /// Whether the leader was elected uncleanly and has not recovered yet.
    pub leader_recovering: bool,
    /// Rises with each new leader.
    pub leader_epoch: Epoch,
    /// Rises with each change.
    pub partition_epoch: i32,
}

impl PartitionImage {
    /// Makes the image of a partition from its record.
    #[must_use]
    pub fn from_record(record: &PartitionV1) -> Self {
        Self {
            replicas: record.replicas.clone(),
            directories: record.directories.clone(),
            isr: record.isr.clone(),
            elr: record.elr.clone(),
            last_known_elr: record.last_known_elr.clone(),
            removing_replicas: record.removing_replicas.clone(),
            adding_replicas: record.adding_replicas.clone(),
            leader: record.leader,
            leader_recovering: record.leader_recovering,
            leader_epoch: record.leader_epoch,
            partition_epoch: record.partition_epoch,
        }
    }

    /// Makes the record that describes the whole partition.
    #[must_use]
    pub fn to_record(&self, topic_id: Uuid, partition_id: i32) -> PartitionV1 {
        PartitionV1 {
            topic_id,
            partition_id,
            replicas: self.replicas.clone(),
            directories: self.directories.clone(),
            isr: self.isr.clone(),
            elr: self.elr.clone(),
            last_known_elr: self.last_known_elr.clone(),
            removing_replicas: self.removing_replicas.clone(),
            adding_replicas: self.adding_replicas.clone(),
            leader: self.leader,
            leader_recovering: self.leader_recovering,
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
        }
    }

    /// Returns the log directory of `broker`'s replica.
    #[must_use]
    pub fn directory(&self, broker: NodeId) -> Option<Uuid> {
        let at = self
            .replicas
            .iter()
            .position(|replica| *replica == broker)?;
        self.directories.get(at).copied()
    }

    fn apply(&mut self, change: &PartitionChangeV1) {
        let set = |field: &mut Vec<NodeId>, value: &Option<Vec<NodeId>>| {
            if let Some(value) = value {
                field.clone_from(value);
            }
        };
        set(&mut self.isr, &change.isr);
        set(&mut self.replicas, &change.replicas);
        set(&mut self.elr, &change.elr);
        set(&mut self.last_known_elr, &change.last_known_elr);
        set(&mut self.removing_replicas, &change.removing_replicas);
        set(&mut self.adding_replicas, &change.adding_replicas);
        if let Some(directories) = &change.directories {
            self.directories.clone_from(directories);
        }
        if let Some(recovering) = change.leader_recovering {
            self.leader_recovering = recovering;
        }
        if let Some(leader) = change.leader {
            self.leader = leader;
            self.leader_epoch = Epoch(self.leader_epoch.0.saturating_add(1));
        }
        self.partition_epoch = self.partition_epoch.saturating_add(1);
    }
}

/// A topic; cheap to share, copied only when it changes while shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicImage {
    id: Uuid,
    name: TopicName,
    partitions: Vec<PartitionImage>,
}

impl TopicImage {
    /// Returns the topic's id.
    #[must_use]
    pub const fn id(&self) -> Uuid {
        self.id
    }

    /// Returns the topic's name.
    #[must_use]
    pub const fn name(&self) -> &TopicName {
        &self.name
    }

    /// Returns the partitions, from number 0 on without a gap.
    #[must_use]
    pub fn partitions(&self) -> &[PartitionImage] {
        &self.partitions
    }

    /// Returns one partition.
    #[must_use]
    pub fn partition(&self, partition_id: i32) -> Option<&PartitionImage> {
        self.partitions.get(usize::try_from(partition_id).ok()?)
    }

    /// Returns the number of partitions.
    #[must_use]
    pub fn partition_count(&self) -> i32 {
        i32::try_from(self.partitions.len()).unwrap_or(i32::MAX)
    }
}

/// All topics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Topics {
    by_id: BTreeMap<Uuid, Arc<TopicImage>>,
    by_name: BTreeMap<TopicName, Uuid>,
    /// Names with a dot or an underscore, by the one form that metrics would show for all of them.
    by_metric_name: BTreeMap<String, BTreeSet<TopicName>>,
    /// The partitions that a broker is in sync with; those without a leader stand under [`NO_LEADER`].
    in_sync: BTreeMap<NodeId, BTreeSet<(Uuid, i32)>>,
    partitions: usize,
}

impl Topics {
    pub(super) fn get(&self, id: Uuid) -> Option<&Arc<TopicImage>> {
        self.by_id.get(&id)
    }

    pub(super) fn find(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.by_id.get(self.by_name.get(name)?)
    }

    pub(super) fn by_name(&self) -> impl Iterator<Item = &Arc<TopicImage>> {
        self.by_name.values().filter_map(|id| self.by_id.get(id))
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) const fn partition_count(&self) -> usize {
        self.partitions
    }

    pub(super) fn colliding(&self, name: &str) -> Option<&TopicName> {
        self.by_metric_name.get(&metric_name(name)?)?.first()
    }

    pub(super) fn in_sync_with(&self, broker: NodeId) -> impl Iterator<Item = (Uuid, i32)> {
        self.in_sync.get(&broker).into_iter().flatten().copied()
    }

    pub(super) fn create(&mut self, id: Uuid, name: &str) -> bool {
        let name = TopicName::new(name);
        if self.by_id.contains_key(&id) || self.by_name.contains_key(&name) {
            return false;
        }
        if let Some(metric_name) = metric_name(name.as_str()) {
            self.by_metric_name
                .entry(metric_name)
                .or_default()
                .insert(name.clone());
        }
        self.by_name.insert(name.clone(), id);
        self.by_id.insert(
            id,
            Arc::new(TopicImage {
                id,
                name,
                partitions: Vec::new(),
            }),
        );
        true
    }

    pub(super) fn remove(&mut self, id: Uuid) -> Option<Arc<TopicImage>> {
        let topic = self.by_id.remove(&id)?;
        self.by_name.remove(&topic.name);
        if let Some(metric_name) = metric_name(topic.name.as_str())
            && let Some(names) = self.by_metric_name.get_mut(&metric_name)
        {
            names.remove(&topic.name);
            if names.is_empty() {
                self.by_metric_name.remove(&metric_name);
            }
        }
        for (number, partition) in (0..).zip(&topic.partitions) {
            self.unindex((id, number), partition);
        }
        self.partitions = self.partitions.saturating_sub(topic.partitions.len());
        Some(topic)
    }

    /// Adds the topic's next partition; false if the topic is unknown or the number is not the next one.
    pub(super) fn add_partition(&mut self, record: &PartitionV1) -> bool {
        let Some(topic) = self.by_id.get_mut(&record.topic_id) else {
            return false;
        };
        if topic.partition_count() != record.partition_id {
            return false;
        }
        let partition = PartitionImage::from_record(record);
        Arc::make_mut(topic).partitions.push(partition.clone());
        self.partitions += 1;
        self.index((record.topic_id, record.partition_id), &partition);
        true
    }

    /// Changes a partition; false if there is none.
    pub(super) fn change_partition(&mut self, change: &PartitionChangeV1) -> bool {
        let Ok(at) = usize::try_from(change.partition_id) else {
            return false;
        };
        let Some(topic) = self.by_id.get_mut(&change.topic_id) else {
            return false;
        };
        if at >= topic.partitions.len() {
            return false;
        }
        let Some(partition) = Arc::make_mut(topic).partitions.get_mut(at) else {
            return false;
        };
        let before = partition.clone();
        partition.apply(change);
        let after = partition.clone();
        let key = (change.topic_id, change.partition_id);
        self.unindex(key, &before);
        self.index(key, &after);
        true
    }

    /// Forgets eligible leader replicas of one topic, or of all.
    pub(super) fn clear_elr(&mut self, name: Option<&str>) {
        let clear = |topic: &mut Arc<TopicImage>| {
            let has = |partition: &PartitionImage| {
                !(partition.elr.is_empty() && partition.last_known_elr.is_empty())
            };
            if topic.partitions.iter().any(has) {
                for partition in &mut Arc::make_mut(topic).partitions {
                    if has(partition) {
                        partition.elr.clear();
                        partition.last_known_elr.clear();
                        partition.partition_epoch = partition.partition_epoch.saturating_add(1);
                    }
                }
            }
        };
        match name {
            Some(name) => {
                if let Some(topic) = self.by_name.get(name).and_then(|id| self.by_id.get_mut(id)) {
                    clear(topic);
                }
            }
            None => self.by_id.values_mut().for_each(clear),
        }
    }

    fn index(&mut self, key: (Uuid, i32), partition: &PartitionImage) {
        for broker in index_entries(partition) {
            self.in_sync.entry(broker).or_default().insert(key);
        }
    }

    fn unindex(&mut self, key: (Uuid, i32), partition: &PartitionImage) {
        for broker in index_entries(partition) {
            if let Some(keys) = self.in_sync.get_mut(&broker) {
                keys.remove(&key);
                if keys.is_empty() {
                    self.in_sync.remove(&broker);
                }
            }
        }
    }
}

fn index_entries(partition: &PartitionImage) -> impl Iterator<Item = NodeId> {
    let leaderless = (partition.leader == NO_LEADER).then_some(NO_LEADER);
    partition.isr.iter().copied().chain(leaderless)
}

/// Returns the one form of all names that metrics cannot tell apart, if the name is of that kind.
fn metric_name(name: &str) -> Option<String> {
    name.contains(['.', '_']).then(|| name.replace('.', "_"))
}
