//! Who leads a partition when brokers come and go (KIP-966).
//!
//! | what happens | in-sync set | eligible leaders | leader |
//! | --- | --- | --- | --- |
//! | a broker leaves | loses it | gain it, while the in-sync set is below min ISR | another in-sync replica, else none |
//! | a broker restarted uncleanly | loses it | lose it | as above |
//! | a broker is back | gains it only if it leads | lose it if it leads | it, if there was none and it is eligible |
//!
//! A partition without a leader remembers the last one: if nobody is eligible any more, that replica may lead, marked
//! as recovering.

use super::DecisionContext;
use crate::{
    config::LogConfig,
    controller::{
        image::{BrokerImage, MetadataImage, NO_LEADER, PartitionImage, TopicImage},
        records::{PartitionChangeV1, Record},
    },
    ids::{NodeId, Uuid},
};

/// What happened to one broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BrokerEvent {
    /// It is fenced, shuts down or restarted after a clean stop.
    Gone(NodeId),
    /// It restarted and may have lost what it had not synced.
    RestartedUncleanly(NodeId),
    /// It is unfenced.
    Back(NodeId),
}

/// Decides what an event means for every partition that it touches.
pub(super) fn partition_changes(
    image: &MetadataImage,
    context: &DecisionContext<'_>,
    event: BrokerEvent,
) -> Vec<Record> {
    let touched: Vec<(Uuid, i32)> = match event {
        BrokerEvent::Gone(broker) | BrokerEvent::RestartedUncleanly(broker) => {
            image.partitions_in_sync_with(broker).collect()
        }
        BrokerEvent::Back(_) => image.partitions_in_sync_with(NO_LEADER).collect(),
    };
    // Read once: a broker may keep many thousand partitions.
    let defaults = context.layers(image).log_defaults();
    let decide = |(topic_id, partition_id): (Uuid, i32)| {
        let topic = image.topic_by_id(topic_id)?;
        let partition = topic.partition(partition_id)?;
        let rules = TopicRules::of(image, &defaults, topic);
        let change = Election {
            image,
            partition,
            event,
            rules,
        }
        .run(topic_id, partition_id)?;
        Some(Record::from(change))
    };
    touched.into_iter().filter_map(decide).collect()
}

/// What a topic's configs say about its leaders.
#[derive(Clone, Copy, Debug)]
struct TopicRules {
    min_isr: usize,
    unclean: bool,
}

impl TopicRules {
    fn of(image: &MetadataImage, defaults: &LogConfig, topic: &TopicImage) -> Self {
        let overrides = image.topic_configs(topic.name().as_str());
        // An override that does not parse was refused when it was set: the defaults are the safe reading.
        let own = if overrides.is_empty() {
            None
        } else {
            defaults.with_overrides(overrides).ok()
        };
        let config = own.as_ref().unwrap_or(defaults);
        let replicas = topic
            .partitions()
            .first()
            .map_or(0, |first| first.replicas.len());
        let asked = usize::try_from(config.min_insync_replicas).unwrap_or(1);
        Self {
            min_isr: asked.min(replicas),
            unclean: config.unclean_leader_election_enable,
        }
    }
}

struct Election<'image> {
    image: &'image MetadataImage,
    partition: &'image PartitionImage,
    event: BrokerEvent,
    rules: TopicRules,
}

impl Election<'_> {
    fn run(&self, topic_id: Uuid, partition_id: i32) -> Option<PartitionChangeV1> {
        let partition = self.partition;
        let mut change = PartitionChangeV1::none(topic_id, partition_id);
        let lost = match self.event {
            BrokerEvent::Gone(broker) | BrokerEvent::RestartedUncleanly(broker) => Some(broker),
            BrokerEvent::Back(_) => None,
        };
        let mut isr: Vec<NodeId> = partition
            .isr
            .iter()
            .copied()
            .filter(|id| Some(*id) != lost)
            .collect();
        let mut elr = self.eligible(&isr);
        let (leader, unclean) = self.elect(&isr, &elr);
        if leader != partition.leader {
            change.leader = Some(leader);
            if elr.contains(&leader) {
                isr = vec![leader];
                elr.retain(|id| *id != leader);
            } else if unclean {
                isr = vec![leader];
                elr.clear();
                change.leader_recovering = (!partition.leader_recovering).then_some(true);
            }
        }
        change.elr = (elr != partition.elr).then_some(elr);
        change.isr = (isr != partition.isr).then_some(isr);
        match change.leader {
            Some(NO_LEADER) if partition.last_known_elr.is_empty() => {
                change.last_known_elr = Some(vec![partition.leader]);
            }
            Some(leader) if leader != NO_LEADER && !partition.last_known_elr.is_empty() => {
                change.last_known_elr = Some(Vec::new());
            }
            _ => {}
        }
        (!change.is_none()).then_some(change)
    }

    /// Returns the eligible leader replicas beside an in-sync set.
    fn eligible(&self, isr: &[NodeId]) -> Vec<NodeId> {
        if isr.len() >= self.rules.min_isr {
            return Vec::new();
        }
        let unclean = match self.event {
            BrokerEvent::RestartedUncleanly(broker) => Some(broker),
            BrokerEvent::Gone(_) | BrokerEvent::Back(_) => None,
        };
        let mut eligible: Vec<NodeId> = self
            .partition
            .elr
            .iter()
            .chain(&self.partition.isr)
            .copied()
            .collect();
        eligible.sort_unstable();
        eligible.dedup();
        eligible.retain(|id| !isr.contains(id) && Some(*id) != unclean);
        eligible
    }

    /// Returns the leader and whether electing it may lose records.
    fn elect(&self, isr: &[NodeId], elr: &[NodeId]) -> (NodeId, bool) {
        let valid = |id: NodeId| {
            (isr.contains(&id) || isr.is_empty() && elr.contains(&id)) && self.acceptable(id)
        };
        let partition = self.partition;
        if valid(partition.leader) {
            return (partition.leader, false);
        }
        if let Some(leader) = partition.replicas.iter().copied().find(|id| valid(*id)) {
            return (leader, false);
        }
        if let ([], [], [last]) = (isr, elr, partition.last_known_elr.as_slice())
            && self.acceptable(*last)
        {
            return (*last, true);
        }
        let any = partition
            .replicas
            .iter()
            .copied()
            .find(|id| self.acceptable(*id));
        match any {
            Some(leader) if self.rules.unclean => (leader, true),
            _ => (NO_LEADER, false),
        }
    }

    fn acceptable(&self, id: NodeId) -> bool {
        match self.event {
            BrokerEvent::Gone(broker) | BrokerEvent::RestartedUncleanly(broker) if broker == id => {
                false
            }
            BrokerEvent::Back(broker) if broker == id => true,
            _ => self.image.broker(id).is_some_and(BrokerImage::is_active),
        }
    }
}
