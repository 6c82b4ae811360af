//! Look-ups by time, against a search through everything.

use crate::{
    batch::CompressionType,
    event::StartReason,
    log::{FoundOffset, LogConfig, LookupTarget},
};

use super::{
    disk::Draw,
    host::{Host, batch_of, fresh, small_config},
};

const CODECS: [CompressionType; 5] = [
    CompressionType::None,
    CompressionType::Gzip,
    CompressionType::Snappy,
    CompressionType::Lz4,
    CompressionType::Zstd,
];

/// Appends batches with drawn timestamps; returns all of them by offset.
fn drawn(seed: u64, jumpy: bool) -> (Host, Vec<i64>) {
    let mut draw = Draw(seed);
    let mut host = Host::new(small_config(), fresh());
    host.open();
    host.run();
    let mut all = Vec::new();
    for at in 0..50 {
        let base = if jumpy {
            i64::try_from(draw.below(500)).unwrap()
        } else {
            at * 10
        };
        let count = 1 + draw.below(3);
        let timestamps: Vec<i64> = (0..count)
            .map(|_| base + i64::try_from(draw.below(12)).unwrap())
            .collect();
        let codec = CODECS[usize::try_from(draw.below(5)).unwrap()];
        host.append(&batch_of(&timestamps, at, codec)).unwrap();
        all.extend(timestamps);
    }
    host.run();
    (host, all)
}

/// Kafka's rule: the first segment whose largest timestamp reaches the target, then the first record in it.
fn naive(all: &[i64], target: i64, start: usize) -> Option<(i64, i64)> {
    let offset = (start..all.len()).find(|offset| all[*offset] >= target)?;
    Some((i64::try_from(offset).unwrap(), all[offset]))
}

fn plain(found: Option<FoundOffset>) -> Option<(i64, i64)> {
    found.map(|found| (found.offset, found.timestamp))
}

fn check(host: &mut Host, all: &[i64], what: &str) {
    let start = usize::try_from(host.log.start()).unwrap();
    for target in -2..520 {
        let found = host.lookup(LookupTarget::Timestamp(target)).unwrap();
        assert_eq!(
            plain(found),
            naive(all, target, start),
            "{what} target {target}"
        );
    }
    let max = all.iter().max().copied().unwrap();
    let first = all.iter().position(|timestamp| *timestamp == max).unwrap();
    let found = host.lookup(LookupTarget::MaxTimestamp).unwrap();
    assert_eq!(
        plain(found),
        Some((i64::try_from(first).unwrap(), max)),
        "{what}"
    );
}

#[test]
fn first_record_at_or_after_a_time_is_found_in_memory_and_on_disk() {
    for seed in 1..6 {
        for jumpy in [false, true] {
            let what = format!("seed {seed} jumpy {jumpy}");
            let (mut host, all) = drawn(seed, jumpy);
            check(&mut host, &all, &what);
            host.flush_all();
            check(&mut host, &all, &what);
            let (disk, hint) = host.stop();
            let mut host = Host::opened(disk, small_config(), hint);
            check(&mut host, &all, &format!("{what} reopened"));
            host.with(|log, cx| log.delete_before(cx, 33, StartReason::DeleteRecords));
            host.run();
            let start = usize::try_from(host.log.start()).unwrap();
            for target in 0..520 {
                let found = host.lookup(LookupTarget::Timestamp(target)).unwrap();
                assert_eq!(
                    plain(found),
                    naive(&all, target, start),
                    "{what} deleted {target}"
                );
            }
        }
    }
}

#[test]
fn ends_carry_their_epochs_and_no_timestamp() {
    let (mut host, all) = drawn(3, false);
    let earliest = host.lookup(LookupTarget::Earliest).unwrap().unwrap();
    assert_eq!((earliest.offset, earliest.timestamp), (0, -1));
    assert_eq!(earliest.epoch, Some(crate::ids::Epoch(1)));
    let latest = host.lookup(LookupTarget::Latest).unwrap().unwrap();
    assert_eq!(latest.offset, i64::try_from(all.len()).unwrap());
}

#[test]
fn cost_of_a_look_up_does_not_grow_with_the_log() {
    let mut costs = Vec::new();
    for batches in [200, 20_000] {
        let config = LogConfig {
            index_interval_bytes: 256,
            segment_bytes: 1 << 30,
            ..LogConfig::default()
        };
        let mut host = Host::new(config.clone(), fresh());
        host.open();
        host.run();
        for at in 0..batches {
            host.append(&batch_of(&[at * 10], at, CompressionType::None))
                .unwrap();
        }
        host.run();
        let (disk, hint) = host.stop();
        let mut host = Host::opened(disk, config, hint);
        let (reads, bytes) = (host.reads, host.read_bytes);
        let request = crate::log::ReadRequest {
            max_bytes: 1000,
            ..host.request(batches / 3)
        };
        host.read(request).unwrap();
        let found = host
            .lookup(LookupTarget::Timestamp(batches / 2 * 10))
            .unwrap();
        assert_eq!(found.map(|found| found.offset), Some(batches / 2));
        costs.push((host.reads - reads, host.read_bytes - bytes));
    }
    assert!(costs[1].0 <= costs[0].0 + 2, "{costs:?}");
}
