//! The files are what Kafka's dump tool expects: each index entry names a batch that is there.

use std::collections::BTreeMap;

use crate::{
    batch::CompressionType,
    log::{
        offset_index::OffsetEntry,
        scan::{BatchFacts, crc_fits},
        segment::parse_name,
        time_index::TimeEntry,
    },
};

use super::host::{Host, batch, batch_of, fresh, small_config};

/// Walks a `.log` file: position to facts.
fn walk(bytes: &[u8]) -> BTreeMap<u32, BatchFacts> {
    let mut batches = BTreeMap::new();
    let mut at = 0;
    while at < bytes.len() {
        let facts = BatchFacts::read(&bytes[at..]).expect("a batch");
        let size = usize::try_from(facts.size).unwrap();
        assert!(crc_fits(&bytes[at..at + size]));
        batches.insert(u32::try_from(at).unwrap(), facts);
        at += size;
    }
    batches
}

/// Checks every index of a folder as `--verify-index-only` does.
pub(super) fn check_layout(host: &Host, what: &str) {
    let files = host.files();
    for (name, bytes) in &files {
        let Some((base, ".log")) = parse_name(name) else {
            continue;
        };
        let batches = walk(bytes);
        let stem = name.trim_end_matches(".log");
        let index = files
            .get(&format!("{stem}.index"))
            .cloned()
            .unwrap_or_default();
        let mut last = None;
        assert_eq!(index.len() % 8, 0, "{what} {name}");
        for chunk in index.chunks(8) {
            let entry = OffsetEntry::decode(chunk).unwrap();
            let batch = batches
                .get(&entry.position)
                .unwrap_or_else(|| panic!("{what}: {name} has no batch at {entry:?}"));
            assert_eq!(batch.last, entry.offset(base), "{what} {name}");
            assert!(last < Some(entry.relative), "{what} {name}");
            last = Some(entry.relative);
        }
        let times = files
            .get(&format!("{stem}.timeindex"))
            .cloned()
            .unwrap_or_default();
        assert_eq!(times.len() % 12, 0, "{what} {name}");
        let mut last = None;
        for chunk in times.chunks(12) {
            let entry = TimeEntry::decode(chunk).unwrap();
            let batch = batches
                .values()
                .find(|batch| batch.last == entry.offset(base))
                .unwrap_or_else(|| panic!("{what}: {name} has no batch of {entry:?}"));
            assert_eq!(batch.max_timestamp, entry.timestamp, "{what} {name}");
            assert!(last < Some(entry.timestamp), "{what} {name}");
            last = Some(entry.timestamp);
        }
    }
}

#[test]
fn every_index_entry_names_a_batch() {
    let mut host = Host::new(small_config(), fresh());
    host.open();
    host.run();
    for at in 0..60 {
        host.append(&batch(at)).unwrap();
        host.run();
        if at % 5 == 0 {
            host.flush_all();
            check_layout(&host, "while running");
        }
    }
    host.flush_all();
    check_layout(&host, "at the end");
    let files = host.files();
    let indexed = files
        .iter()
        .filter(|(name, bytes)| name.ends_with(".index") && !bytes.is_empty());
    assert!(indexed.count() > 5);
}

#[test]
fn sealed_segment_ends_with_its_largest_timestamp() {
    let mut host = Host::new(small_config(), fresh());
    host.open();
    host.run();
    for timestamp in [50, 90, 20, 70, 30, 10, 60, 40, 80, 35] {
        host.append(&batch_of(&[timestamp], timestamp, CompressionType::None))
            .unwrap();
    }
    host.flush_all();
    let (disk, _) = host.stop();
    let files = disk.files(&super::host::dir());
    for (name, bytes) in &files {
        let Some((_, ".log")) = parse_name(name) else {
            continue;
        };
        let largest = walk(bytes).values().map(|batch| batch.max_timestamp).max();
        let times = &files[&name.replace(".log", ".timeindex")];
        let last = TimeEntry::decode(&times[times.len() - 12..]).unwrap();
        assert_eq!(Some(last.timestamp), largest, "{name}");
    }
}
