//! A crash at every operation of appends, rolls, flushes, deletions and recoveries loses nothing that was flushed.

use crate::{event::StartReason, ids::Offset, log::OpenHint};

use super::{
    disk::{Disk, Draw, Keep},
    host::{Host, TOPIC_ID, batch, fresh, small_config},
    layout::check_layout,
};

/// What the outside world knows when the process dies.
#[derive(Clone, Debug, Default)]
struct Known {
    start: Offset,
    flushed: Offset,
    end: Offset,
    checkpoint: Offset,
}

const BATCHES: i64 = 26;

/// Appends, flushes, checkpoints, rolls and deletes until the budget is used up.
fn work(host: &mut Host, known: &mut Known) -> Option<()> {
    let alive = |host: &mut Host, known: &mut Known| {
        let is_alive = host.run();
        known.flushed = known.flushed.max(host.log.flushed_end());
        known.end = known.end.max(host.log.end());
        is_alive.then_some(())
    };
    host.open();
    alive(host, known)?;
    for at in 0..BATCHES {
        host.append(&batch(at)).unwrap();
        known.end = host.log.end();
        if at % 3 == 0 {
            alive(host, known)?;
        }
        if at % 4 == 1 {
            host.flush();
            alive(host, known)?;
        }
        if at % 9 == 8 {
            host.with(|log, cx| log.write_indexes(cx));
            alive(host, known)?;
            known.checkpoint = host.log.recovery_point();
        }
        if at == 20 {
            // The host makes the start durable before it answers.
            known.start = 17;
            host.with(|log, cx| log.delete_before(cx, 17, StartReason::DeleteRecords));
            alive(host, known)?;
        }
        if at == 23 {
            host.now.instant = host.now.instant.plus_millis(60_000);
            host.with(|log, cx| log.on_timeout(cx));
            alive(host, known)?;
        }
    }
    host.flush();
    alive(host, known)?;
    known.checkpoint = host.log.recovery_point();
    Some(())
}

fn stored(offset: Offset) -> Vec<u8> {
    let mut bytes = batch(offset / 2).to_vec();
    bytes[..8].copy_from_slice(&offset.to_be_bytes());
    bytes[12..16].copy_from_slice(&1_i32.to_be_bytes());
    bytes
}

/// Opens what a crash left, and checks that it holds all that was flushed and nothing invented.
fn check(disk: Disk, known: &Known, what: &str) -> Host {
    let hint = hint(known);
    let mut host = Host::opened(disk, small_config(), hint);
    assert!(
        host.log.is_open(),
        "{what}: {known:?} {:?} {:?}",
        host.events,
        host.files().keys()
    );
    let (start, end) = (host.log.start(), host.log.end());
    assert!(end >= known.flushed, "{what}: {known:?} lost {end}");
    assert!(
        end <= known.end.max(known.start),
        "{what}: {known:?} invented {end}"
    );
    assert!(start >= known.start, "{what}");
    let all = host
        .read_all()
        .unwrap_or_else(|error| panic!("{what}: {known:?} {error} {:?}", host.events));
    let mut expected = Vec::new();
    let mut at = start / 2 * 2;
    while at < end {
        expected.extend(stored(at));
        at += 2;
    }
    assert_eq!(all, expected, "{what}: {known:?}");
    host
}

fn hint(known: &Known) -> OpenHint {
    OpenHint {
        log_start: known.start,
        recovery_point: known.checkpoint,
        synced: known.flushed,
        clean: false,
        fresh: Some(TOPIC_ID),
    }
}

fn crashed(seed: u64, budget: u64) -> (Host, Known, bool) {
    let mut host = Host::new(small_config(), fresh());
    host.order = (seed > 0).then_some(Draw(seed));
    host.budget = budget;
    let mut known = Known::default();
    let is_over = work(&mut host, &mut known).is_some();
    (host, known, is_over)
}

fn keeps(budget: u64) -> [Keep; 4] {
    [
        Keep::All,
        Keep::None,
        Keep::Some(budget.wrapping_mul(77) + 5),
        Keep::Some(budget.wrapping_mul(31) + 1013),
    ]
}

#[test]
fn crash_at_every_operation_loses_nothing_flushed() {
    for seed in 0..6 {
        for budget in 0.. {
            let (host, known, is_over) = crashed(seed * 7919, budget);
            for keep in keeps(budget + seed * 1000) {
                let mut disk = host.disk.clone();
                disk.crash(keep);
                let what = format!("seed {seed} budget {budget} {keep:?}");
                let mut host = check(disk, &known, &what);
                // What recovery served must outlive a power loss that follows at once.
                let served = Known {
                    flushed: host.log.flushed_end(),
                    end: host.log.end(),
                    ..known.clone()
                };
                let mut disk = host.disk.clone();
                disk.crash(Keep::None);
                check(disk, &served, &format!("{what}, then power loss"));
                host.run();
                host.flush_all();
                check_layout(&host, &what);
            }
            if is_over {
                assert!(budget > 80, "the work is worth crashing: {budget}");
                break;
            }
        }
    }
}

#[test]
fn crash_at_every_operation_of_recovery_loses_nothing_flushed() {
    for budget in (3..400).step_by(7) {
        let (host, known, _) = crashed(budget * 31, budget);
        let mut disk = host.disk;
        disk.crash(Keep::Some(budget + 9));
        for again in 0.. {
            let mut host = Host::on(disk.clone(), small_config(), hint(&known));
            host.budget = again;
            host.order = Some(Draw(budget + 17));
            host.open();
            let is_over = host.run();
            for keep in keeps(again) {
                let mut disk = host.disk.clone();
                disk.crash(keep);
                check(
                    disk,
                    &known,
                    &format!("budget {budget} again {again} {keep:?}"),
                );
            }
            if is_over {
                break;
            }
        }
    }
}

#[test]
fn crashed_log_goes_on() {
    for budget in (40..300).step_by(11) {
        let (host, mut known, _) = crashed(budget, budget);
        let mut disk = host.disk;
        disk.crash(Keep::Some(budget));
        let mut host = check(disk, &known, "go on");
        while host.log.end() < 70 {
            let seed = host.log.end() / 2;
            host.append(&batch(seed)).unwrap();
        }
        host.run();
        host.flush_all();
        known.flushed = host.log.flushed_end();
        known.end = host.log.end();
        known.start = host.log.start();
        known.checkpoint = host.log.recovery_point();
        assert_eq!(known.flushed, 70);
        let mut disk = host.disk;
        disk.crash(Keep::None);
        let host = check(disk, &known, "after going on");
        check_layout(&host, "after going on");
    }
}

#[test]
fn recovery_reads_only_past_the_recovery_point() {
    let config = crate::log::LogConfig {
        index_interval_bytes: 100,
        ..crate::log::LogConfig::default()
    };
    let mut host = Host::new(config.clone(), fresh());
    host.open();
    host.run();
    for at in 0..2000 {
        host.append(&batch(at)).unwrap();
    }
    host.flush_all();
    host.with(|log, cx| log.write_indexes(cx));
    host.flush_all();
    let hint = OpenHint {
        recovery_point: host.log.recovery_point(),
        fresh: Some(TOPIC_ID),
        ..OpenHint::default()
    };
    assert_eq!(hint.recovery_point, 4000);
    let mut disk = host.disk;
    disk.crash(Keep::None);
    let host = Host::opened(disk, config, hint);
    assert_eq!(host.log.end(), 4000);
    let indexes: usize = host
        .files()
        .iter()
        .filter(|(name, _)| name.ends_with("index"))
        .map(|(_, bytes)| bytes.len())
        .sum();
    let log_bytes = host.read_bytes - u64::try_from(indexes).unwrap();
    assert!(
        log_bytes < 1000,
        "{log_bytes} of {} bytes",
        host.log.size_bytes()
    );
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_of_the_log_lose_data() {
    use crate::planted::Planted;
    for bug in [Planted::B34, Planted::B44, Planted::B46] {
        let mut lost = 0;
        for budget in 0..300 {
            let mut host = Host::new(small_config(), fresh());
            host.planted = crate::planted::PlantedSet::only(bug);
            host.budget = budget;
            let mut known = Known::default();
            work(&mut host, &mut known);
            let mut disk = host.disk;
            disk.crash(Keep::All);
            let mut host = Host::on(disk, small_config(), hint(&known));
            host.planted = crate::planted::PlantedSet::only(bug);
            host.open();
            host.run();
            let flushed = host.log.flushed_end().max(known.flushed);
            let mut disk = host.disk;
            disk.crash(Keep::None);
            let host = Host::opened(disk, small_config(), hint(&known));
            lost += u32::from(!host.log.is_open() || host.log.end() < flushed);
        }
        assert!(lost > 0, "{bug:?} never shows");
    }
}
