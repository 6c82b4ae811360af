//! What a topic's configs say about its in-sync sets and leaders.

use super::DecisionContext;
use crate::{
    config::LogConfig,
    controller::image::{MetadataImage, PartitionImage, TopicImage},
    ids::{NodeId, Uuid},
    planted::Planted,
};

/// The rules of one topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TopicRules {
    /// The least in-sync set that commits records: `min.insync.replicas`, but never more than there are replicas.
    pub(super) min_isr: usize,
    /// `unclean.leader.election.enable`.
    pub(super) unclean: bool,
}

/// Reads rules off an image, the defaults once and those of a topic once for all its partitions in a row.
#[derive(Debug)]
pub(super) struct RuleReader<'image> {
    image: &'image MetadataImage,
    context: &'image DecisionContext<'image>,
    defaults: LogConfig,
    last: Option<(Uuid, TopicRules)>,
}

impl<'image> RuleReader<'image> {
    pub(super) fn new(
        image: &'image MetadataImage,
        context: &'image DecisionContext<'image>,
    ) -> Self {
        Self {
            image,
            context,
            defaults: context.layers(image).log_defaults(),
            last: None,
        }
    }

    /// Returns the rules of a topic.
    pub(super) fn of(&mut self, topic: &TopicImage) -> TopicRules {
        if let Some((topic_id, rules)) = self.last
            && topic_id == topic.id()
        {
            return rules;
        }
        let rules = self.read(topic);
        self.last = Some((topic.id(), rules));
        rules
    }

    fn read(&self, topic: &TopicImage) -> TopicRules {
        let overrides = self.image.topic_configs(topic.name().as_str());
        // An override that does not parse was refused when it was set: the defaults are the safe reading.
        let own = if overrides.is_empty() {
            None
        } else {
            self.defaults.with_overrides(overrides).ok()
        };
        let config = own.as_ref().unwrap_or(&self.defaults);
        let replicas = topic
            .partitions()
            .first()
            .map_or(0, |first| first.replicas.len());
        let asked = usize::try_from(config.min_insync_replicas).unwrap_or(1);
        TopicRules {
            min_isr: asked.min(replicas),
            unclean: config.unclean_leader_election_enable
                || self.context.planted.has(Planted::B20),
        }
    }
}

/// Returns whether a broker may lead a partition: it is active, and the directory of its replica is online.
pub(super) fn may_lead(
    image: &MetadataImage,
    context: &DecisionContext<'_>,
    partition: &PartitionImage,
    id: NodeId,
) -> bool {
    image.broker(id).is_some_and(|broker| {
        let directory = partition.directory(id);
        (broker.is_active() || context.planted.has(Planted::B19))
            && directory.is_none_or(|directory| broker.is_online(directory))
    })
}
