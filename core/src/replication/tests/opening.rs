//! Which logs are opened though nobody uses them.

use super::node::{KEY, name, now, settings};
use crate::{
    ids::{Epoch, NodeId},
    log::OpenHint,
    planted::PlantedSet,
    replication::{
        Context, FlushRule, LeaderAssignment, NewPartition, PartitionDuty, Partitions, SlotId,
    },
    storage::{FilePath, LogDirId, Owner, StorageQueue},
};

const LOCAL: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);

fn led_by(leader: Option<NodeId>, epoch: i32) -> LeaderAssignment {
    LeaderAssignment {
        epoch: Epoch(epoch),
        partition_epoch: epoch,
        leader,
        local: LOCAL,
        replicas: vec![LOCAL, OTHER],
        adding: 0,
        isr: vec![OTHER],
    }
}

/// A table with one partition, as a broker begins with it that stopped cleanly.
fn with_one(leader: Option<NodeId>) -> (Partitions, SlotId) {
    let mut partitions = Partitions::new(Owner(2));
    let new = NewPartition {
        name: name(),
        topic_id: KEY.topic_id,
        root: FilePath::root(LogDirId(0)),
        hint: OpenHint {
            log_start: 0,
            recovery_point: 0,
            synced: 0,
            clean: true,
            fresh: None,
        },
        settings: settings(FlushRule::Replicated),
        assignment: led_by(leader, 3),
        vouched: true,
    };
    let slot = partitions.add(new).unwrap();
    (partitions, slot)
}

fn assign(partitions: &mut Partitions, slot: SlotId, assignment: LeaderAssignment) {
    let mut storage = StorageQueue::default();
    let mut context = Context {
        now: now(0),
        storage: &mut storage,
        planted: PlantedSet::NONE,
    };
    partitions.with(&mut context, slot, |partition, log, effects| {
        partition.assign(log, assignment, effects);
    });
}

fn wants_open(partitions: &mut Partitions, slot: SlotId) -> bool {
    std::iter::from_fn(|| partitions.poll_duty()).any(|duty| duty == (slot, PartitionDuty::Open))
}

#[test]
fn follower_opens_its_log_at_once() {
    let (mut partitions, slot) = with_one(Some(OTHER));
    assert!(wants_open(&mut partitions, slot));
}

#[test]
fn follower_of_a_leader_that_is_elected_later_opens_its_log_then() {
    let (mut partitions, slot) = with_one(None);
    assert!(!wants_open(&mut partitions, slot), "there is nobody to ask");
    assign(&mut partitions, slot, led_by(Some(OTHER), 4));
    assert!(wants_open(&mut partitions, slot));
}

#[test]
fn leader_that_steps_down_before_anybody_used_its_log_opens_it() {
    let (mut partitions, slot) = with_one(Some(LOCAL));
    assert!(!wants_open(&mut partitions, slot), "its first use opens it");
    assign(&mut partitions, slot, led_by(Some(OTHER), 4));
    assert!(wants_open(&mut partitions, slot));
}
