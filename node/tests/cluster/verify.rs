//! What must hold after every scenario.

use std::collections::HashSet;

use crate::{
    load::{Acknowledged, checked_id},
    raw::Connection,
    trio::{PARTITIONS, TOPIC, Trio},
};

/// Reads everything from the leaders: offsets without gaps, each acknowledged batch in its place with its content, nothing
/// twice, nothing that nobody sent. Returns how many records there are.
pub(crate) fn contents(trio: &Trio, acknowledged: &Acknowledged) -> usize {
    let mut seen = HashSet::new();
    for partition in 0..PARTITIONS {
        let leader = trio.leader(partition);
        let mut connection =
            Connection::open(trio.addresses()[leader - 1]).expect("a leader accepts connections");
        let mut promised = acknowledged.get(&partition).cloned().unwrap_or_default();
        let mut next = 0;
        let batches = connection.read_all(TOPIC, partition, 0);
        for batch in batches.expect("the partition is readable") {
            assert_eq!(
                batch.base_offset(),
                next,
                "partition {partition} has a gap or an overlap"
            );
            let values = batch.values();
            let ids: Vec<u64> = values.iter().map(|value| checked_id(value)).collect();
            if let Some(promised) = promised.remove(&next) {
                assert_eq!(
                    ids, promised,
                    "partition {partition} holds something else at {next}"
                );
            }
            for id in ids {
                assert!(
                    seen.insert(id),
                    "partition {partition} holds record {id:x} twice"
                );
            }
            next = batch.next_offset();
        }
        assert!(
            promised.is_empty(),
            "partition {partition} ends at {next}, and lacks acknowledged {promised:x?}"
        );
    }
    seen.len()
}

/// Stops all nodes in good order and compares the three copies of each log, byte for byte.
pub(crate) fn copies(trio: &mut Trio) {
    for id in 1..=3 {
        let status = trio.stop(id);
        assert!(status.success(), "SIGTERM ended node {id} with {status}");
    }
    for partition in 0..PARTITIONS {
        let first = trio.log_bytes(1, partition);
        assert!(!first.is_empty(), "partition {partition} is empty");
        for id in 2..=3 {
            let other = trio.log_bytes(id, partition);
            let differs = first.iter().zip(&other).position(|(a, b)| a != b);
            assert!(
                first == other,
                "the copies of partition {partition} on the nodes 1 and {id} differ: {} and {} bytes, from byte {differs:?}",
                first.len(),
                other.len()
            );
        }
    }
}
