//! Operations that fail.

use crate::{
    event::OfflineReason,
    ids::Offset,
    log::{AppendError, LogConfig, LogEvent, segment::parse_name},
    storage::{FaultKind, FileOp},
};

use super::{
    disk::{Draw, Keep},
    host::{Host, TOPIC_ID, batch, fresh, small_config},
};

fn is_write(op: &FileOp) -> bool {
    matches!(op, FileOp::Write { .. })
}

fn is_growth(op: &FileOp) -> bool {
    matches!(op, FileOp::Write { .. } | FileOp::Open { create: true, .. })
}

fn is_sync(op: &FileOp) -> bool {
    matches!(op, FileOp::Sync { .. })
}

/// Appends batches, of which those from `from` on find no space for a while.
fn full_disk(seed: u64, from: i64, rule: fn(&FileOp) -> bool) -> Host {
    let mut host = Host::new(small_config(), fresh());
    host.order = (seed > 0).then_some(Draw(seed));
    host.open();
    host.run();
    let mut failing = false;
    while host.log.end() < 60 {
        let seed = host.log.end() / 2;
        match host.append(&batch(seed)) {
            Ok(_) => {}
            Err(AppendError::NotOpen) => {
                host.run();
                continue;
            }
            Err(error) => panic!("{error}"),
        }
        if seed == from && !failing && host.fail.is_none() {
            failing = true;
            host.fail = Some((rule, FaultKind::NoSpace));
            for more in 1..4 {
                let _ = host.append(&batch(seed + more));
            }
            host.run();
            host.fail = Some((|_| false, FaultKind::NoSpace));
        }
        if seed % 3 == 0 {
            host.run();
        }
    }
    host.run();
    host
}

/// A roll is taken back while its files are still being created: whichever the disk does first, none of them stays.
#[test]
fn segment_that_was_never_written_leaves_no_file_behind() {
    for seed in 1..300 {
        let mut host = Host::new(small_config(), fresh());
        host.order = Some(Draw(seed));
        host.open();
        host.run();
        let mut at = 0;
        while host.log.end() < 20 {
            host.append(&batch(at)).unwrap();
            at += 1;
        }
        host.run();
        host.fail = Some((is_write, FaultKind::NoSpace));
        for more in 0..12 {
            let _ = host.append(&batch(at + more));
        }
        host.run();
        host.fail = None;
        assert_eq!(host.log.end(), 20);
        let beyond: Vec<_> = host
            .files()
            .into_keys()
            .filter(|name| parse_name(name).is_some_and(|(base, _)| base >= 20))
            .collect();
        assert!(beyond.is_empty(), "seed {seed}: {beyond:?}");
    }
}

/// What recovery keeps is counted only once it was written again: the cache may show bytes that no sync will make durable.
#[test]
fn batch_that_finds_no_space_to_be_written_again_is_not_believed() {
    let mut host = Host::new(small_config(), fresh());
    host.open();
    host.run();
    host.append(&batch(0)).unwrap();
    host.run();
    let hint = crate::log::OpenHint {
        recovery_point: 0,
        ..fresh()
    };
    host.disk.crash(Keep::All);
    let mut host = Host::on(host.disk, small_config(), hint);
    host.fail = Some((is_write, FaultKind::NoSpace));
    host.open();
    host.run();
    assert!(!host.log.is_open(), "{:?}", host.events);
    let reason = host.events.iter().find_map(|event| match event {
        LogEvent::Offline { reason, .. } => Some(*reason),
        _ => None,
    });
    assert!(
        matches!(reason, Some(OfflineReason::Fault(fault)) if fault.kind == FaultKind::NoSpace),
        "{reason:?}"
    );
    host.disk.crash(Keep::All);
    let mut host = Host::opened(host.disk, small_config(), hint);
    assert_eq!(host.log.end(), 2, "with space again all of it is there");
    assert!(host.read_all().is_ok());
}

#[test]
fn full_disk_undoes_the_append_and_the_log_stays_usable() {
    for rule in [is_write as fn(&FileOp) -> bool, is_growth] {
        for seed in 0..4 {
            for from in 0..20 {
                let mut host = full_disk(seed * 77, from, rule);
                let failed = host.events.iter().filter_map(|event| match event {
                    LogEvent::AppendFailed { from, fault } => {
                        assert_eq!(fault.kind, FaultKind::NoSpace);
                        Some(*from)
                    }
                    _ => None,
                });
                let at = failed.min().expect("appends failed");
                assert!(
                    at <= from * 2,
                    "everything from the first failure on is undone"
                );
                let mut expected = Vec::new();
                for offset in (0..60).step_by(2) {
                    let mut bytes = batch(offset / 2).to_vec();
                    bytes[..8].copy_from_slice(&Offset::to_be_bytes(offset));
                    bytes[12..16].copy_from_slice(&1_i32.to_be_bytes());
                    expected.extend(bytes);
                }
                assert_eq!(host.read_all().unwrap(), expected, "{seed} {from}");
                assert!(host.flush_all());
                super::layout::check_layout(&host, "full disk");
                let hint = crate::log::OpenHint {
                    recovery_point: host.log.recovery_point(),
                    ..fresh()
                };
                let mut disk = host.disk;
                disk.crash(Keep::None);
                let mut host = Host::opened(disk, small_config(), hint);
                assert_eq!(host.read_all().unwrap(), expected, "{seed} {from}");
            }
        }
    }
}

#[test]
fn device_error_takes_the_log_offline_and_names_the_file() {
    let mut host = Host::new(small_config(), fresh());
    host.open();
    host.run();
    host.append(&batch(0)).unwrap();
    host.run();
    host.fail = Some((is_write, FaultKind::Io));
    host.append(&batch(1)).unwrap();
    host.run();
    assert!(host.log.is_offline());
    let named = host.events.iter().any(|event| {
        matches!(event, LogEvent::Offline { file, at: Some(_), reason: OfflineReason::Fault(_) }
            if file.name() == "00000000000000000000.log")
    });
    assert!(named, "{:?}", host.events);
    assert_eq!(host.append(&batch(2)), Err(AppendError::Offline));
}

#[test]
fn failed_sync_of_the_log_itself_is_told() {
    let mut host = Host::new(small_config(), fresh());
    host.open();
    host.run();
    host.fail = Some((is_sync, FaultKind::Io));
    host.with(|log, cx| log.assign_epoch(cx, crate::ids::Epoch(3)));
    host.run();
    assert!(host.log.is_offline());
    assert!(
        host.events
            .iter()
            .any(|event| matches!(event, LogEvent::SyncFailed { .. }))
    );
}

#[test]
fn full_disk_at_open_of_an_old_log_still_lets_it_be_read() {
    let mut host = Host::new(small_config(), fresh());
    host.open();
    host.run();
    for at in 0..12 {
        host.append(&batch(at)).unwrap();
    }
    host.run();
    let (disk, hint) = host.stop();
    let mut host = Host::on(disk, small_config(), hint);
    host.fail = Some((is_growth_of_new, FaultKind::NoSpace));
    host.open();
    host.run();
    assert!(host.log.is_open(), "{:?}", host.events);
    assert!(host.read_all().is_ok());
}

fn is_growth_of_new(op: &FileOp) -> bool {
    matches!(op, FileOp::Write { .. })
}

#[test]
fn whole_log_is_renamed_then_removed_after_the_delay() {
    let mut host = Host::new(LogConfig::default(), fresh());
    host.open();
    host.run();
    host.append(&batch(0)).unwrap();
    host.run();
    host.with(|log, cx| log.delete(cx));
    host.run();
    let root = super::host::dir().parent();
    let hex: String = TOPIC_ID
        .0
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(host.disk.names(&root), [format!("orders-0.{hex}-delete")]);
    assert!(!host.events.contains(&LogEvent::Deleted));
    host.now.instant = host.log.deadline().unwrap();
    host.with(|log, cx| log.on_timeout(cx));
    host.run();
    assert!(host.events.contains(&LogEvent::Deleted));
    assert!(host.disk.names(&root).is_empty());
}

#[test]
fn log_that_never_opened_keeps_its_recovery_point() {
    let mut host = Host::new(small_config(), fresh());
    host.open();
    host.run();
    host.append(&batch(0)).unwrap();
    host.run();
    let (mut disk, hint) = host.stop();
    assert!(hint.recovery_point > 0);
    let path = super::host::dir().join("00000000000000000000.log");
    disk.damage(&path, Some(vec![7; 40]));
    let hint = crate::log::OpenHint {
        clean: false,
        ..hint
    };
    let mut host = Host::on(disk, small_config(), hint);
    assert_eq!(host.log.recovery_point(), hint.recovery_point, "closed");
    host.open();
    host.run();
    assert!(host.log.is_offline());
    assert_eq!(host.log.recovery_point(), hint.recovery_point, "offline");
}
