//! What a broker's coming or going means for its partitions, a bounded slice at a time.
//!
//! The record about the broker itself comes first, so every decision from then on knows that it is active or not; the
//! partitions follow. Each change is whole by itself, and what is left to do can be read off the image: a controller
//! that takes over in between goes on, and a broker that comes back in between keeps what it has not lost yet.

use super::{
    DecisionContext,
    election::{Election, Proposal},
    topic_rules::{RuleReader, may_lead},
};
use crate::{
    controller::{
        image::{MetadataImage, NO_LEADER, PartitionImage},
        records::{PartitionChangeV1, Record},
    },
    ids::{NodeId, Uuid},
};

/// The most partitions that one slice looks at.
pub const SLICE_PARTITIONS_MAX: usize = 1_000;

/// What must be done to partitions after something happened to a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Take a broker out of the in-sync sets that it is not fit for any more.
    Unfit(NodeId),
    /// Elect leaders where there is none.
    Leaderless,
    /// Give the lead back to preferred replicas.
    Preferred,
}

/// A part of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Slice {
    /// Changes of partitions.
    pub records: Vec<Record>,
    /// How many partitions were looked at.
    pub seen: usize,
    /// Where the next slice goes on; `None` when the sweep is over.
    pub after: Option<(Uuid, i32)>,
}

/// Decides on the partitions that come next in a sweep, at most `limit`.
pub fn sweep_slice(
    image: &MetadataImage,
    context: &DecisionContext<'_>,
    sweep: Sweep,
    after: Option<(Uuid, i32)>,
    limit: usize,
) -> Slice {
    let limit = limit.max(1);
    let keys: Vec<(Uuid, i32)> = match sweep {
        Sweep::Unfit(broker) => image
            .partitions_in_sync_after(broker, after)
            .take(limit)
            .collect(),
        Sweep::Leaderless => image
            .partitions_in_sync_after(NO_LEADER, after)
            .take(limit)
            .collect(),
        Sweep::Preferred => image.partitions_led_elsewhere(after).take(limit).collect(),
    };
    let after = keys.last().copied().filter(|_| keys.len() == limit);
    let seen = keys.len();
    let records = decide_each(image, context, keys, |proposal, partition| match sweep {
        Sweep::Unfit(broker) => {
            let is_fit = image.broker(broker).is_some_and(|registered| {
                let directory = partition.directory(broker);
                registered.is_active() && directory.is_none_or(|id| registered.is_online(id))
            });
            (!is_fit).then(|| proposal.without(broker))
        }
        Sweep::Leaderless => Some(proposal),
        Sweep::Preferred => Some(Proposal {
            election: Election::Preferred,
            ..proposal
        }),
    });
    Slice {
        records,
        seen,
        after,
    }
}

/// Decides on the next partitions that a broker must leave before a new incarnation of it may register.
///
/// One that restarted uncleanly may have lost what it had: it is not eligible any more either.
pub(super) fn restart_slice(
    image: &MetadataImage,
    context: &DecisionContext<'_>,
    broker: NodeId,
    is_clean: bool,
) -> Vec<Record> {
    let in_sync = image.partitions_in_sync_with(broker);
    let mut keys: Vec<(Uuid, i32)> = in_sync.take(SLICE_PARTITIONS_MAX).collect();
    if !is_clean && keys.is_empty() {
        let eligible = image.partitions_eligible_for(broker);
        keys = eligible.take(SLICE_PARTITIONS_MAX).collect();
    }
    decide_each(image, context, keys, |proposal, _| {
        Some(Proposal {
            restarted_uncleanly: (!is_clean).then_some(broker),
            ..proposal.without(broker)
        })
    })
}

/// Decides on each partition what `propose` has in mind for it.
fn decide_each(
    image: &MetadataImage,
    context: &DecisionContext<'_>,
    keys: Vec<(Uuid, i32)>,
    propose: impl for<'p> Fn(Proposal<'p>, &PartitionImage) -> Option<Proposal<'p>>,
) -> Vec<Record> {
    let mut rules = RuleReader::new(image, context);
    let mut decide = |(topic_id, partition_id): (Uuid, i32)| {
        let topic = image.topic_by_id(topic_id)?;
        let partition = topic.partition(partition_id)?;
        let may_lead = |id| may_lead(image, context, partition, id);
        let proposal = Proposal::new(partition, rules.of(topic), &may_lead);
        let change: PartitionChangeV1 =
            propose(proposal, partition)?.decide(topic_id, partition_id)?;
        Some(Record::from(change))
    };
    keys.into_iter().filter_map(&mut decide).collect()
}
