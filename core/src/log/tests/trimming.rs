//! Retention, DeleteRecords and truncation.

use crate::{
    batch::CompressionType,
    event::{Event, StartReason},
    ids::{Epoch, Offset},
    log::{LogConfig, LogEvent, OpenHint},
    time::Timestamp,
};

use super::{
    disk::{Draw, Keep},
    host::{Host, TOPIC_ID, batch, batch_of, fresh, small_config},
    layout::check_layout,
};

fn filled(config: LogConfig, batches: i64) -> Host {
    let mut host = Host::new(config, fresh());
    host.open();
    host.run();
    for at in 0..batches {
        host.append(&batch(at)).unwrap();
    }
    host.flush_all();
    host
}

fn retain(host: &mut Host, now: i64) {
    let high_watermark = host.log.end();
    retain_below(host, now, high_watermark);
}

/// Runs retention and does what it says, as the host would once the start is durable.
fn retain_below(host: &mut Host, now: i64, high_watermark: Offset) {
    host.with(|log, cx| log.apply_retention(cx, Timestamp::from_millis(now), high_watermark));
    host.run();
    let due = |event: &LogEvent| match event {
        LogEvent::RetentionDue { start, reason } => Some((*start, *reason)),
        _ => None,
    };
    let due: Vec<_> = host.events.iter().filter_map(due).collect();
    for (start, reason) in due {
        host.with(|log, cx| log.delete_before(cx, start, reason));
        host.run();
    }
}

fn deleted_names(host: &Host) -> usize {
    host.files()
        .keys()
        .filter(|name| name.ends_with(".deleted"))
        .count()
}

#[test]
fn size_retention_keeps_at_least_the_configured_bytes() {
    let config = LogConfig {
        retention_bytes: 1500,
        ..small_config()
    };
    let mut host = filled(config, 40);
    retain(&mut host, 0);
    let size = host.log.size_bytes();
    assert!((1500..1500 + 700).contains(&size), "{size}");
    assert!(host.log.start() > 0);
    let told = host.events.iter().any(|event| {
        matches!(
            event,
            LogEvent::StartMoved {
                reason: StartReason::RetentionSize,
                ..
            }
        )
    });
    assert!(told);
}

#[test]
fn time_retention_deletes_even_the_active_segment_and_keeps_the_end() {
    let config = LogConfig {
        retention_ms: 100,
        ..small_config()
    };
    let mut host = filled(config.clone(), 40);
    retain(&mut host, 1050);
    assert_eq!(host.log.start(), 0, "nothing is older than 100 ms yet");
    retain(&mut host, 2000);
    assert_eq!((host.log.start(), host.log.end()), (80, 80));
    assert_eq!(host.log.probe().segments, [(80, 0)]);
    assert!(deleted_names(&host) > 0, "files stay for a while");
    host.now.instant = host.log.deadline().unwrap();
    host.with(|log, cx| log.on_timeout(cx));
    host.run();
    assert_eq!(deleted_names(&host), 0);
    let hint = OpenHint {
        log_start: 80,
        recovery_point: 80,
        ..fresh()
    };
    let mut disk = host.disk;
    disk.crash(Keep::None);
    let host = Host::opened(disk, config, hint);
    assert_eq!((host.log.start(), host.log.end()), (80, 80));
}

#[test]
fn retention_works_on_segments_of_an_earlier_incarnation() {
    let config = LogConfig {
        retention_ms: 30,
        ..small_config()
    };
    let host = filled(config.clone(), 40);
    let (disk, hint) = host.stop();
    let mut host = Host::opened(disk, config, hint);
    retain(&mut host, 1045);
    let start = host.log.start();
    assert!(start > 0 && start < 40, "{start}");
}

#[test]
fn record_from_the_future_is_named_and_keeps_its_segment() {
    let config = LogConfig {
        retention_ms: 10,
        ..small_config()
    };
    let mut host = Host::new(config, fresh());
    host.open();
    host.run();
    host.append(&batch_of(&[9_000_000_000_000], 0, CompressionType::None))
        .unwrap();
    for at in 0..20 {
        host.append(&batch(at)).unwrap();
    }
    host.flush_all();
    retain(&mut host, 1_000_000);
    assert_eq!(host.log.start(), 0);
    let named = host.events.iter().any(|event| {
        matches!(
            event,
            LogEvent::Notice(Event::FutureTimestamp {
                offset: 0,
                timestamp: 9_000_000_000_000,
                ..
            })
        )
    });
    assert!(named);
}

#[test]
fn high_watermark_holds_retention_back() {
    let config = LogConfig {
        retention_ms: 0,
        ..small_config()
    };
    let mut host = filled(config, 40);
    retain_below(&mut host, 1 << 40, 30);
    assert!(host.log.start() <= 30);
    assert!(host.log.start() > 0);
}

#[test]
fn deleted_records_cannot_be_read_and_the_rest_can() {
    let mut host = filled(small_config(), 30);
    host.with(|log, cx| log.delete_before(cx, 25, StartReason::DeleteRecords));
    host.run();
    assert_eq!(host.log.start(), 25);
    let request = host.request(24);
    assert!(host.read(request).is_err());
    let request = host.request(25);
    assert_eq!(host.read(request).unwrap().base_offset, 24);
    assert_eq!(host.log.probe().epochs, [(Epoch(1), 25)]);
}

#[test]
fn delete_to_the_end_survives_a_power_loss() {
    for seed in 0..20 {
        let mut host = filled(small_config(), 30);
        host.order = Some(Draw(seed + 1));
        host.with(|log, cx| log.delete_before(cx, 60, StartReason::DeleteRecords));
        host.budget = seed;
        host.run();
        let hint = OpenHint {
            log_start: 60,
            recovery_point: 60,
            ..fresh()
        };
        let mut disk = host.disk;
        disk.crash(Keep::Some(seed * 3 + 1));
        let host = Host::opened(disk, small_config(), hint);
        assert!(host.log.is_open(), "{seed} {:?}", host.events);
        assert_eq!((host.log.start(), host.log.end()), (60, 60));
    }
}

fn expected(end: Offset) -> Vec<u8> {
    let mut all = Vec::new();
    for offset in (0..end).step_by(2) {
        let mut bytes = batch(offset / 2).to_vec();
        bytes[..8].copy_from_slice(&offset.to_be_bytes());
        bytes[12..16].copy_from_slice(&1_i32.to_be_bytes());
        all.extend(bytes);
    }
    all
}

#[test]
fn truncation_cuts_at_the_batch_and_the_log_goes_on() {
    for reopened in [false, true] {
        for offset in 1..60 {
            let mut host = filled(small_config(), 30);
            if reopened {
                let (disk, hint) = host.stop();
                host = Host::opened(disk, small_config(), hint);
            }
            host.with(|log, cx| log.truncate_to(cx, offset));
            host.run();
            let end = offset / 2 * 2;
            assert_eq!(
                host.log.end(),
                end,
                "truncated to {offset}: {:?}",
                host.events
            );
            assert!(host.events.contains(&LogEvent::Truncated { end }));
            while host.log.end() < 64 {
                let seed = host.log.end() / 2;
                host.append(&batch(seed)).unwrap();
            }
            host.flush_all();
            assert_eq!(host.read_all().unwrap(), expected(64), "{offset}");
            check_layout(&host, "truncated");
        }
    }
}

#[test]
fn crash_at_every_operation_of_a_truncation_keeps_what_lies_below() {
    for budget in 0.. {
        let mut host = filled(small_config(), 20);
        host.order = Some(Draw(budget + 1));
        host.with(|log, cx| log.truncate_to(cx, 11));
        host.budget = budget;
        let is_over = host.run();
        for keep in [Keep::All, Keep::None, Keep::Some(budget * 7 + 3)] {
            let hint = OpenHint {
                recovery_point: 10,
                ..fresh()
            };
            let mut disk = host.disk.clone();
            disk.crash(keep);
            let mut host = Host::opened(disk, small_config(), hint);
            assert!(host.log.is_open(), "{budget} {keep:?} {:?}", host.events);
            assert!(host.log.end() >= 10);
            let end = host.log.end();
            assert_eq!(host.read_all().unwrap(), expected(end), "{budget} {keep:?}");
        }
        if is_over {
            break;
        }
    }
}

#[test]
fn full_truncation_starts_anew_at_the_offset() {
    let mut host = filled(small_config(), 20);
    host.with(|log, cx| log.truncate_fully_and_start_at(cx, 500));
    host.run();
    assert_eq!((host.log.start(), host.log.end()), (500, 500));
    assert_eq!(host.append(&batch(1)).unwrap().base_offset, 500);
    host.flush_all();
    assert_eq!(host.log.probe().segments.len(), 1);
    let hint = OpenHint {
        log_start: 500,
        recovery_point: host.log.recovery_point(),
        synced: host.log.flushed_end(),
        clean: false,
        fresh: Some(TOPIC_ID),
    };
    let mut disk = host.disk;
    disk.crash(Keep::None);
    let host = Host::opened(disk, small_config(), hint);
    assert_eq!((host.log.start(), host.log.end()), (500, 502));
}

#[test]
fn crash_at_every_operation_of_a_full_truncation_is_no_damage() {
    for budget in 0.. {
        let mut host = filled(small_config(), 20);
        host.flush_all();
        host.order = Some(Draw(budget + 1));
        host.with(|log, cx| log.truncate_fully_and_start_at(cx, 500));
        assert_eq!((host.log.recovery_point(), host.log.synced_mark()), (0, 0));
        host.budget = budget;
        let is_over = host.run();
        for keep in [Keep::All, Keep::None, Keep::Some(budget * 7 + 3)] {
            let hint = OpenHint {
                recovery_point: host.log.recovery_point(),
                synced: host.log.synced_mark(),
                ..fresh()
            };
            let mut disk = host.disk.clone();
            disk.crash(keep);
            let mut host = Host::opened(disk, small_config(), hint);
            assert!(host.log.is_open(), "{budget} {keep:?} {:?}", host.events);
            assert!(host.append(&batch(1)).is_ok());
        }
        if is_over {
            break;
        }
    }
}

#[test]
fn emptied_log_promises_nothing_before_a_flush_has_made_that_durable() {
    let mut host = filled(small_config(), 20);
    host.flush_all();
    host.with(|log, cx| log.truncate_fully_and_start_at(cx, 500));
    host.run();
    assert!(host.log.needs_flush());
    assert_eq!((host.log.recovery_point(), host.log.synced_mark()), (0, 0));
    host.flush_all();
    assert!(!host.log.is_emptying());
    assert_eq!(
        (host.log.recovery_point(), host.log.synced_mark()),
        (500, 500)
    );
}

#[test]
fn truncation_past_the_end_still_trims_empty_epochs() {
    let mut host = filled(small_config(), 5);
    host.with(|log, cx| log.assign_epoch(cx, Epoch(7)));
    host.run();
    assert_eq!(host.log.latest_epoch(), Some(Epoch(7)));
    host.with(|log, cx| log.truncate_to(cx, 10));
    host.run();
    assert_eq!(host.log.latest_epoch(), Some(Epoch(1)));
    assert_eq!(host.log.end(), 10);
}
