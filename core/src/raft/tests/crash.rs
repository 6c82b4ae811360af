//! Crashes, power losses and failing storage at every operation of bootstrap, appends, snapshots and restarts.

use crate::{raft::RaftConfig, storage::FaultKind};

use super::host::{Host, World, config};

/// How an incarnation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The process dies; the page cache stays.
    Kill,
    /// The power fails; some of what was not synced stays.
    Power,
    /// The power fails; nothing that was not synced stays.
    TotalPower,
}

const ENDS: [End; 3] = [End::Kill, End::Power, End::TotalPower];

/// A snapshot after some four appends, one segment for three of them, nothing old kept.
fn small() -> RaftConfig {
    RaftConfig {
        segment_bytes: 400,
        max_record_bytes_between_snapshots: 500,
        max_retention_bytes: 0,
        ..config()
    }
}

/// Starts, leads, appends one batch after another, and ends in the middle after `ops` operations; false when it came to
/// its end before that.
fn live(
    world: &mut World,
    config: RaftConfig,
    ops: usize,
    fault: Option<FaultKind>,
) -> (Host, bool) {
    let mut host = world.start(config);
    host.fail_at = fault.map(|kind| (ops, kind));
    let ops = if fault.is_some() { usize::MAX } else { ops };
    let mut appended = 0;
    while host.performed < ops {
        // Appends meet others under way, or find nothing to do.
        if host.raft.is_leader() && appended < 12 && (host.is_idle() || world.dice.roll(12) == 0) {
            let record = format!("{appended} {}", "x".repeat(60));
            host.append(world, &[&record, "y"]).expect("a leader");
            appended += 1;
        } else if !host.step(world) {
            return (host, false);
        }
    }
    (host, true)
}

fn end(world: &mut World, mut host: Host, end: End) {
    // The last operation may be done without anybody hearing of it.
    if world.dice.roll(2) == 0 {
        host.step_unseen(world);
    }
    host.end(world);
    match end {
        End::Kill => world.disk.kill(),
        End::Power => world.disk.power_loss(&mut world.dice),
        End::TotalPower => world.disk.power_loss_total(),
    }
}

/// Restarts on what is left and checks that nothing promised is missing, twice: the first restart must not break it either.
fn recovers(world: &mut World, config: &RaftConfig) {
    for _ in 0..2 {
        let mut host = world.start_well(config.clone());
        host.append(world, &["after"]).expect("a leader");
        host.settle(world);
        assert_eq!(host.fatal, None);
        world.check_promises(&host);
        host.end(world);
        world.disk.power_loss(&mut world.dice);
    }
}

#[test]
fn nothing_committed_is_lost_by_a_crash_at_any_operation() {
    for crash in ENDS {
        for seed in 0..4 {
            for ops in 0.. {
                let mut world = World::new(seed);
                let (host, is_early) = live(&mut world, small(), ops, None);
                let mut config = small();
                config.recovery_point = host.raft.recovery_point();
                end(&mut world, host, crash);
                recovers(&mut world, &config);
                if !is_early {
                    break;
                }
            }
        }
    }
}

#[test]
fn nothing_committed_is_lost_by_a_crash_of_a_restart_at_any_operation() {
    for (first, second) in [
        (End::Kill, End::Power),
        (End::Kill, End::TotalPower),
        (End::Power, End::Power),
    ] {
        for seed in 0..4 {
            for ops in 0.. {
                let mut world = World::new(seed);
                let before = 20 + world.dice.roll(150);
                let (host, _) = live(&mut world, small(), before, None);
                end(&mut world, host, first);
                let (host, is_early) = live(&mut world, small(), ops, None);
                assert_eq!(host.fatal, None);
                end(&mut world, host, second);
                recovers(&mut world, &small());
                if !is_early {
                    break;
                }
            }
        }
    }
}

#[test]
fn replica_whose_storage_fails_stops_by_name_and_loses_nothing() {
    for kind in [FaultKind::Io, FaultKind::NoSpace, FaultKind::Denied] {
        for ops in 1.. {
            let mut world = World::new(11);
            let (host, _) = live(&mut world, small(), ops, Some(kind));
            let was_hit = host.performed >= ops;
            if let Some(message) = &host.fatal {
                assert!(!host.raft.is_leader());
                assert!(host.raft.deadline().is_none());
                assert!(message.len() > 20, "{message}");
            }
            host.end(&mut world);
            world.disk.power_loss(&mut world.dice);
            recovers(&mut world, &small());
            if !was_hit {
                break;
            }
        }
    }
}

/// A restart on what a run with a planted bug left behind: what a checker would say about it.
#[cfg(feature = "planted-bugs")]
fn verdict(world: &mut World) -> Result<(), String> {
    world.planted = crate::planted::PlantedSet::NONE;
    let mut host = world.start(small());
    host.settle(world);
    match host.fatal {
        Some(message) => Err(message),
        None if host.state.starts_with(&world.promised) => Ok(()),
        None => Err("a committed record is missing".into()),
    }
}

/// Restarts with a planted bug until a power loss at some operation shows it, and returns how.
#[cfg(feature = "planted-bugs")]
fn hunt(bug: crate::planted::Planted) -> Option<String> {
    for seed in 0..4 {
        for ops in 0.. {
            let mut world = World::new(seed);
            let (host, _) = live(&mut world, small(), 100, None);
            end(&mut world, host, End::Kill);
            world.planted = crate::planted::PlantedSet::only(bug);
            let (host, is_early) = live(&mut world, small(), ops, None);
            drop(host);
            world.disk.power_loss_total();
            if let Err(shown) = verdict(&mut world) {
                return Some(shown);
            }
            if !is_early {
                break;
            }
        }
    }
    None
}

#[cfg(feature = "planted-bugs")]
#[test]
fn leader_that_counts_what_is_only_written_loses_a_committed_record() {
    let shown = hunt(crate::planted::Planted::B33).expect("the bug shows");
    assert_eq!(shown, "a committed record is missing");
}

#[cfg(feature = "planted-bugs")]
#[test]
fn leader_that_does_not_wait_for_its_vote_leaves_a_log_ahead_of_it() {
    let shown = hunt(crate::planted::Planted::B34).expect("the bug shows");
    assert!(shown.contains("older copy of the disk"), "{shown}");
}
