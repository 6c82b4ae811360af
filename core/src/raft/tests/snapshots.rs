//! Snapshots: when they are made, what the log may then forget, and how a restart uses them.

use crate::{
    ids::Epoch,
    raft::{RaftConfig, RaftEvent, SnapshotId},
};

use super::host::{FOLDER, Host, World, config};

/// Settings under which a snapshot is made after some ten records, and nothing old is kept.
fn eager() -> RaftConfig {
    RaftConfig {
        segment_bytes: 600,
        max_record_bytes_between_snapshots: 1_000,
        max_retention_bytes: 0,
        ..config()
    }
}

fn append_many(host: &mut Host, world: &mut World, records: usize) {
    for at in 0..records {
        let record = format!("record {} of many {}", at, "x".repeat(40));
        host.append(world, &[&record]).expect("a leader");
        host.settle(world);
    }
}

fn names(world: &World, suffix: &str) -> Vec<String> {
    let mut names = world.disk.files(FOLDER);
    names.retain(|name| name.ends_with(suffix));
    names
}

#[test]
fn snapshot_is_made_after_enough_bytes_and_the_log_starts_behind_it() {
    let mut world = World::new(1);
    let mut host = world.start_well(eager());
    append_many(&mut host, &mut world, 60);
    assert_eq!(host.fatal, None);
    let probe = host.raft.probe();
    let latest = probe.latest_snapshot.expect("a snapshot");
    assert_eq!(probe.log_start, latest.end_offset);
    assert_eq!(names(&world, ".checkpoint").len(), 1, "older ones are gone");
    assert!(names(&world, ".part").is_empty());
    // Removed segments wait for `file.delete.delay.ms`.
    host.pass(&mut world, 61_000);
    assert!(
        names(&world, ".log").len() <= 3,
        "{:?}",
        names(&world, ".log")
    );
    host.end(&mut world);

    let mut host = world.start_well(eager());
    assert!(matches!(
        host.events
            .iter()
            .find(|event| !matches!(event, RaftEvent::Notice(_))),
        Some(RaftEvent::SnapshotLoaded { .. })
    ));
    append_many(&mut host, &mut world, 3);
    assert_eq!(host.state.len(), 2 + 60 + 3);
}

#[test]
fn snapshot_is_made_after_the_interval_only_if_something_was_committed() {
    let mut world = World::new(2);
    let mut host = world.start_well(config());
    host.pass(&mut world, 1_000);
    let due = host.raft.deadline().expect("records wait for a snapshot");
    assert_eq!(due.as_nanos(), 3_601_000_000_000);
    world.now_ms -= 1_000;
    host.pass(&mut world, 3_599_999);
    assert_eq!(host.raft.probe().latest_snapshot, None);
    host.pass(&mut world, 1);
    let (end_offset, epoch) = (5, Epoch(1));
    let expected = Some(SnapshotId { end_offset, epoch });
    assert_eq!(host.raft.probe().latest_snapshot, expected);
    assert_eq!(host.raft.deadline(), None);
    host.pass(&mut world, 3_600_000);
    assert_eq!(host.raft.probe().latest_snapshot, expected);
}

#[test]
fn byte_counter_survives_changes_of_leadership() {
    let mut world = World::new(3);
    for _ in 0..40 {
        let mut host = world.start_well(eager());
        append_many(&mut host, &mut world, 1);
        host.end(&mut world);
    }
    let host = world.start_well(eager());
    assert!(host.raft.probe().latest_snapshot.is_some());
}

#[test]
fn old_snapshots_and_their_log_stay_within_retention() {
    let mut world = World::new(4);
    let keep = RaftConfig {
        max_retention_bytes: -1,
        max_retention_ms: 10_000,
        ..eager()
    };
    let mut host = world.start_well(keep);
    append_many(&mut host, &mut world, 60);
    assert!(names(&world, ".checkpoint").len() > 2);
    assert_eq!(host.raft.probe().log_start, 0);
    world.now_ms += 1_000_000;
    host.pass(&mut world, 60_000);
    assert_eq!(names(&world, ".checkpoint").len(), 1, "the latest stays");
    let probe = host.raft.probe();
    let latest = probe.latest_snapshot.expect("a snapshot");
    assert_eq!(probe.log_start, latest.end_offset);
}

#[test]
fn leftovers_of_an_interrupted_snapshot_are_removed_at_the_next_start() {
    let mut world = World::new(5);
    world.start_well(config()).end(&mut world);
    for suffix in ["part", "deleted"] {
        let name = format!("{FOLDER}/00000000000000000004-0000000001.checkpoint.{suffix}");
        world.disk.put(&name, b"half of it");
    }
    world.start_well(config());
    assert!(names(&world, ".part").is_empty());
    assert!(names(&world, ".deleted").is_empty());
}

#[test]
fn damaged_snapshot_is_passed_over_while_the_log_covers_it() {
    let mut world = World::new(6);
    let keep = RaftConfig {
        max_retention_bytes: -1,
        ..eager()
    };
    let mut host = world.start_well(keep.clone());
    append_many(&mut host, &mut world, 30);
    host.end(&mut world);
    let snapshots = names(&world, ".checkpoint");
    assert!(snapshots.len() >= 2);
    for damaged in snapshots.iter().rev() {
        world.disk.tamper(damaged, |bytes| bytes[100] ^= 1);
        let host = world.start_well(keep.clone());
        assert_eq!(host.state.len(), 2 + 30);
        host.end(&mut world);
    }
}

#[test]
fn damaged_snapshot_is_refused_by_name_once_the_log_starts_behind_it() {
    let mut world = World::new(7);
    let mut host = world.start_well(eager());
    append_many(&mut host, &mut world, 60);
    // Only a segment that is gone from the disk is gone for a restart.
    host.pass(&mut world, 61_000);
    host.end(&mut world);
    let snapshots = names(&world, ".checkpoint");
    world.disk.tamper(&snapshots[0], |bytes| bytes.truncate(50));
    let message = world.start_refused(eager());
    assert!(message.contains(&snapshots[0]), "{message}");
    assert!(message.contains("is damaged"), "{message}");
    world.disk.remove(&snapshots[0]);
    let message = world.start_refused(eager());
    assert!(
        message.contains("records between them are missing"),
        "{message}"
    );
}

#[test]
fn log_shorter_than_its_snapshot_is_refused() {
    let mut world = World::new(8);
    let mut host = world.start_well(eager());
    append_many(&mut host, &mut world, 60);
    host.end(&mut world);
    let last = names(&world, ".log").pop().expect("a segment");
    world.disk.tamper(&last, Vec::clear);
    let message = world.start_refused(eager());
    assert!(message.contains(&last), "{message}");
}

#[test]
fn answer_for_a_snapshot_that_nobody_asked_for_is_ignored() {
    let mut world = World::new(9);
    let mut host = world.start_well(config());
    host.write_snapshot(&mut world, 5);
    host.settle(&mut world);
    assert_eq!(host.raft.probe().latest_snapshot, None);
    assert!(names(&world, ".part").is_empty());
}
