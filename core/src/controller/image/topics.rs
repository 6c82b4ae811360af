//! Topics and partitions in the image, with the look-ups that keep a request's cost independent of their number.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    index::{Key, PartitionIndex},
    partition::PartitionImage,
};
use crate::{
    controller::records::{PartitionChangeV1, PartitionV1},
    ids::{TopicName, Uuid},
};

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
    index: PartitionIndex,
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

    pub(super) const fn index(&self) -> &PartitionIndex {
        &self.index
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
            self.index.remove((id, number), partition);
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
        self.index
            .add((record.topic_id, record.partition_id), &partition);
        true
    }

    /// Changes a partition and returns what it was; `None` if there is none.
    pub(super) fn change_partition(
        &mut self,
        change: &PartitionChangeV1,
    ) -> Option<PartitionImage> {
        let key = (change.topic_id, change.partition_id);
        self.update(key, |partition| {
            partition.apply(change);
            true
        })
    }

    /// Forgets eligible leader replicas of one topic, or of all; returns the partitions that changed.
    pub(super) fn clear_elr(&mut self, name: Option<&str>) -> Vec<Key> {
        let topic = name.and_then(|name| self.by_name.get(name)).copied();
        let mut keys = self.index.with_eligible();
        keys.retain(|(topic_id, _)| name.is_none() || Some(*topic_id) == topic);
        keys.into_iter()
            .filter(|key| self.update(*key, PartitionImage::clear_elr).is_some())
            .collect()
    }

    /// Changes one partition, unless `change` says that there was nothing to change, and returns what it was.
    fn update(
        &mut self,
        key: Key,
        change: impl FnOnce(&mut PartitionImage) -> bool,
    ) -> Option<PartitionImage> {
        let topic = self.by_id.get_mut(&key.0)?;
        let at = usize::try_from(key.1).ok()?;
        let before = topic.partitions.get(at)?.clone();
        let mut after = before.clone();
        if !change(&mut after) {
            return None;
        }
        self.index.remove(key, &before);
        self.index.add(key, &after);
        if let Some(partition) = Arc::make_mut(topic).partitions.get_mut(at) {
            *partition = after;
        }
        Some(before)
    }
}

/// Returns the one form of all names that metrics cannot tell apart, if the name is of that kind.
fn metric_name(name: &str) -> Option<String> {
    name.contains(['.', '_']).then(|| name.replace('.', "_"))
}
