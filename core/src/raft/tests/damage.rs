//! Bytes changed behind the replica's back: it repairs, goes on or refuses by name, and never says anything else than what was
//! committed.

use crate::raft::RaftConfig;

use super::host::{FOLDER, World, config};

/// A folder with a snapshot, some segments and records behind it, left by a process that was killed.
fn lived_in() -> World {
    let mut world = World::new(21);
    let mut host = world.start_well(small());
    for at in 0..10 {
        let record = format!("{at} {}", "x".repeat(50));
        host.append(&mut world, &[&record]).expect("a leader");
        host.settle(&mut world);
    }
    assert!(host.raft.probe().latest_snapshot.is_some());
    host.end(&mut world);
    world.disk.kill();
    world
}

fn small() -> RaftConfig {
    RaftConfig {
        segment_bytes: 400,
        max_record_bytes_between_snapshots: 700,
        ..config()
    }
}

/// Starts on a damaged folder; true when it refused.
fn refuses(world: &mut World, what: &str) -> bool {
    let mut host = world.start(small());
    host.settle(world);
    if let Some(message) = &host.fatal {
        assert!(
            message.contains(FOLDER) || message.contains("metadata log"),
            "{message}"
        );
        assert!(!host.raft.is_leader());
        return true;
    }
    assert!(host.raft.is_leader(), "{what}");
    assert_eq!(host.state, world.promised, "{what}");
    false
}

#[test]
fn no_damaged_byte_in_the_folder_loses_or_changes_a_committed_record() {
    let world = lived_in();
    let mut refusals = 0;
    for file in world.disk.files(FOLDER) {
        for at in 0..world.disk.durable_content(&file).map_or(0, <[u8]>::len) {
            let mut damaged = world.clone();
            damaged.disk.tamper(&file, |bytes| bytes[at] ^= 0x21);
            refusals += usize::from(refuses(&mut damaged, &format!("{file} at {at}")));
        }
    }
    assert!(refusals > 400, "only {refusals} refusals");
}

#[test]
fn no_cut_or_missing_file_loses_or_changes_a_committed_record() {
    let world = lived_in();
    for file in world.disk.files(FOLDER) {
        let len = world.disk.durable_content(&file).map_or(0, <[u8]>::len);
        for keep in (0..len).step_by(7) {
            let mut cut = world.clone();
            cut.disk.tamper(&file, |bytes| bytes.truncate(keep));
            refuses(&mut cut, &format!("{file} cut to {keep}"));
        }
        let mut gone = world.clone();
        gone.disk.remove(&file);
        refuses(&mut gone, &format!("{file} removed"));
    }
}

#[test]
fn mark_is_durable_a_second_after_the_last_append() {
    let mut world = World::new(22);
    let mut host = world.start_well(small());
    host.append(&mut world, &["last"]).expect("a leader");
    host.settle(&mut world);
    host.pass(&mut world, 1_000);
    host.end(&mut world);
    world.disk.power_loss_total();
    let segments = world.disk.files(FOLDER);
    let segment = segments.iter().rfind(|name| name.ends_with(".log"));
    let segment = segment.expect("a segment");
    world.disk.tamper(segment, |bytes| {
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
    });
    let message = world.start_refused(small());
    assert!(
        message.contains("known to be synced are damaged"),
        "{message}"
    );
}

#[test]
fn stalled_sync_of_the_mark_leaves_no_deadline_in_the_past() {
    let mut world = World::new(23);
    let mut quiet = config();
    quiet.max_snapshot_interval_ms = 0;
    let mut host = world.start_well(quiet);
    assert!(host.raft.deadline().is_some());
    host.tick(&mut world, 1_000);
    assert_eq!(host.raft.deadline(), None, "the sync is under way");
    host.tick(&mut world, 60_000);
    assert_eq!(host.raft.deadline(), None);
    host.settle(&mut world);
    assert_eq!(host.raft.deadline(), None, "the mark is durable");
}
