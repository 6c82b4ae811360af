//! `AlterPartition`, versions 2 and 3: a leader changes the in-sync set of its partition (KIP-497, 841, 903).

use std::collections::BTreeSet;

use super::{
    ApiError, Decision, DecisionContext,
    brokers::check_broker_epoch,
    election::Proposal,
    partitions::default_directory,
    topic_rules::{RuleReader, TopicRules, may_lead},
};
use crate::{
    controller::{
        image::{MetadataImage, PartitionImage, TopicImage},
        messages::{
            AlterPartitionRequestData, AlterPartitionResponseData, ErrorCode,
            alter_partition_request as asked, alter_partition_response as answered, own_uuid,
        },
        records::PartitionChangeV1,
    },
    ids::{Epoch, NodeId, Uuid},
    planted::Planted,
};

/// The first version that names the epoch of each member.
const MEMBER_EPOCHS_SINCE: i16 = 3;

/// Decides on in-sync sets that their leaders propose; each partition succeeds or fails by itself.
///
/// # Errors
/// If the asking broker is not registered with that epoch.
pub fn alter_partition(
    image: &MetadataImage,
    context: &DecisionContext<'_>,
    request: &AlterPartitionRequestData,
    version: i16,
) -> Result<Decision<AlterPartitionResponseData>, ApiError> {
    let leader = NodeId(request.broker_id);
    let _ = check_broker_epoch(image, leader, request.broker_epoch)?;
    let mut records = Vec::new();
    let mut altered = BTreeSet::new();
    let mut rules = RuleReader::new(image, context);
    let mut topics = Vec::with_capacity(request.topics.len());
    for of_topic in &request.topics {
        let topic = image.topic_by_id(own_uuid(of_topic.topic_id));
        let mut partitions = Vec::with_capacity(of_topic.partitions.len());
        for asked in &of_topic.partitions {
            let alteration = topic
                .ok_or(ErrorCode::UnknownTopicId)
                .and_then(|topic| Alteration::check(image, context, topic, leader, asked, version));
            let outcome = alteration.and_then(|alteration| {
                // A second change of the same partition in one request rests on the epoch before the first.
                if !altered.insert((alteration.topic.id(), asked.partition_index)) {
                    return Err(ErrorCode::InvalidUpdateVersion);
                }
                let change = alteration.decide(rules.of(alteration.topic));
                let now = change.as_ref().map_or_else(
                    || alteration.partition.clone(),
                    |change| alteration.partition.merged(change),
                );
                records.extend(change.map(Into::into));
                Ok(now)
            });
            partitions.push(answer(asked.partition_index, outcome));
        }
        topics.push(answered::TopicData {
            topic_id: of_topic.topic_id,
            partitions,
            ..answered::TopicData::default()
        });
    }
    let reply = AlterPartitionResponseData {
        topics,
        ..AlterPartitionResponseData::default()
    };
    Ok(Decision { records, reply })
}

fn answer(
    partition_index: i32,
    outcome: Result<PartitionImage, ErrorCode>,
) -> answered::PartitionData {
    match outcome {
        Ok(partition) => answered::PartitionData {
            partition_index,
            leader_id: partition.leader.0,
            leader_epoch: partition.leader_epoch.0,
            isr: partition.isr.iter().map(|id| id.0).collect(),
            leader_recovery_state: i8::from(partition.leader_recovering),
            partition_epoch: partition.partition_epoch,
            ..answered::PartitionData::default()
        },
        Err(code) => answered::PartitionData {
            partition_index,
            error_code: code.code(),
            ..answered::PartitionData::default()
        },
    }
}

/// A member of the proposed in-sync set, with its broker epoch; -1 if the leader does not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    id: NodeId,
    epoch: i64,
}

/// One partition's change that has passed all checks.
struct Alteration<'image> {
    image: &'image MetadataImage,
    context: &'image DecisionContext<'image>,
    topic: &'image TopicImage,
    partition: &'image PartitionImage,
    partition_id: i32,
    isr: Vec<NodeId>,
    leader_recovering: bool,
}

impl<'image> Alteration<'image> {
    fn check(
        image: &'image MetadataImage,
        context: &'image DecisionContext<'_>,
        topic: &'image TopicImage,
        leader: NodeId,
        asked: &asked::PartitionData,
        version: i16,
    ) -> Result<Self, ErrorCode> {
        let partition_id = asked.partition_index;
        let partition = topic
            .partition(partition_id)
            .ok_or(ErrorCode::UnknownTopicOrPartition)?;
        check_epochs(context, partition, leader, asked)?;
        let members: Vec<Member> = if version < MEMBER_EPOCHS_SINCE {
            let unknown = |id: &i32| Member {
                id: NodeId(*id),
                epoch: -1,
            };
            asked.new_isr.iter().map(unknown).collect()
        } else {
            let named = |state: &asked::BrokerState| Member {
                id: NodeId(state.broker_id),
                epoch: state.broker_epoch,
            };
            asked.new_isr_with_epochs.iter().map(named).collect()
        };
        let leader_recovering = match asked.leader_recovery_state {
            0 => false,
            1 => true,
            _ => return Err(ErrorCode::InvalidRequest),
        };
        check_members(partition, &members, leader_recovering)?;
        let is_eligible = |member: &Member| {
            image.broker(member.id).is_some_and(|broker| {
                (broker.is_active() || context.planted.has(Planted::B19))
                    && (member.epoch == -1 || member.epoch == broker.epoch)
            })
        };
        if !members.iter().all(is_eligible) {
            return Err(ErrorCode::IneligibleReplica);
        }
        Ok(Self {
            image,
            context,
            topic,
            partition,
            partition_id,
            isr: members.iter().map(|member| member.id).collect(),
            leader_recovering,
        })
    }

    fn decide(&self, rules: TopicRules) -> Option<PartitionChangeV1> {
        let (topic_id, partition) = (self.topic.id(), self.partition);
        let may_lead = |id| may_lead(self.image, self.context, partition, id);
        let proposal = Proposal {
            isr: self.isr.clone(),
            leader_recovering: self.leader_recovering,
            ..Proposal::new(partition, rules, &may_lead)
        };
        let directories = self.directories();
        let moved = (directories != partition.directories).then_some(directories);
        let change = proposal.decide(topic_id, self.partition_id);
        if moved.is_none() {
            return change;
        }
        let change = change.unwrap_or_else(|| PartitionChangeV1::none(topic_id, self.partition_id));
        Some(PartitionChangeV1 {
            directories: moved,
            ..change
        })
    }

    /// Returns the directories of all replicas: a member that came back with another disk is in sync on that one.
    fn directories(&self) -> Vec<Uuid> {
        let partition = self.partition;
        let replicas = partition.replicas.iter().zip(&partition.directories);
        replicas
            .map(|(id, directory)| {
                let is_lost = self.isr.contains(id)
                    && self
                        .image
                        .broker(*id)
                        .is_some_and(|broker| !broker.is_online(*directory));
                if is_lost {
                    default_directory(self.image, *id)
                } else {
                    *directory
                }
            })
            .collect()
    }
}

/// Checks that the leader knows the partition as it is.
fn check_epochs(
    context: &DecisionContext<'_>,
    partition: &PartitionImage,
    leader: NodeId,
    asked: &asked::PartitionData,
) -> Result<(), ErrorCode> {
    let leader_epoch = Epoch(asked.leader_epoch);
    if context.planted.has(Planted::B74) && leader_epoch != partition.leader_epoch {
        return Err(ErrorCode::FencedLeaderEpoch);
    }
    // A leader that is ahead has heard of a newer controller than this one.
    if leader_epoch > partition.leader_epoch || asked.partition_epoch > partition.partition_epoch {
        return Err(ErrorCode::NotController);
    }
    if leader_epoch < partition.leader_epoch {
        return Err(ErrorCode::FencedLeaderEpoch);
    }
    if leader != partition.leader {
        return Err(ErrorCode::InvalidRequest);
    }
    if asked.partition_epoch < partition.partition_epoch {
        return Err(ErrorCode::InvalidUpdateVersion);
    }
    Ok(())
}

/// Checks that the proposed set makes sense, whoever its members are.
fn check_members(
    partition: &PartitionImage,
    members: &[Member],
    leader_recovering: bool,
) -> Result<(), ErrorCode> {
    let distinct: BTreeSet<NodeId> = members.iter().map(|member| member.id).collect();
    let makes_sense = distinct.len() == members.len()
        && distinct.iter().all(|id| partition.replicas.contains(id))
        && distinct.contains(&partition.leader)
        // Until the leader has recovered from an unclean election nobody can be in sync with it.
        && !(leader_recovering && members.len() > 1)
        && (!leader_recovering || partition.leader_recovering);
    makes_sense.then_some(()).ok_or(ErrorCode::InvalidRequest)
}
