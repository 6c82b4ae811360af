//! EpochCache: strictly increasing in both columns, and equal to the table that the batches on disk give.

use std::collections::BTreeMap;

use seedlog_core::{
    event::Event,
    ids::{Epoch, Offset},
};

use super::{Checker, Seen, Verdict};
use crate::{
    disk::Disk,
    ghost::{self, Ghost},
    history::Place,
    node::PartitionProbe,
};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct EpochCache {
    looked: BTreeMap<(usize, Place), Vec<(Epoch, Offset)>>,
}

impl Checker for EpochCache {
    fn name(&self) -> &'static str {
        "EpochCache"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        match seen {
            Seen::Event {
                node,
                event: Event::LogOpened { partition, .. },
            } => {
                if let Some(place) = ghost.places().place(partition) {
                    self.looked.remove(&(*node, place));
                }
            }
            Seen::Probe { node, probe, disk } if !ghost.is_beyond(*node) => {
                for partition in probe
                    .partitions
                    .iter()
                    .filter(|partition| !partition.offline)
                {
                    let Some(place) = ghost.places().place(&partition.partition) else {
                        continue;
                    };
                    let looked = self.looked.get(&(*node, place));
                    if looked != Some(&partition.epochs) && !ghost.is_damaged(place) {
                        self.looked.insert((*node, place), partition.epochs.clone());
                        compare(ghost, place, partition, disk, verdict);
                    }
                }
            }
            _ => {}
        }
    }
}

fn compare(
    ghost: &Ghost,
    place: Place,
    probe: &PartitionProbe,
    disk: &Disk,
    verdict: &mut Verdict<'_>,
) {
    let rising = probe
        .epochs
        .windows(2)
        .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1);
    if !rising {
        verdict.fail(
            "the epoch table rises strictly in both columns",
            format!("{}: {:?}", probe.partition, probe.epochs),
        );
        return;
    }
    let batches = ghost::view(ghost.places(), disk)
        .remove(&place)
        .unwrap_or_default();
    let on_disk = batches.last().map_or(0, |mark| mark.last + 1);
    let mut expected: Vec<(Epoch, Offset)> = Vec::new();
    for mark in batches.iter().filter(|mark| mark.last >= probe.start) {
        let epoch = Epoch(mark.leader_epoch);
        if expected.last().is_none_or(|(last, _)| *last < epoch) {
            expected.push((epoch, mark.base.max(probe.start)));
        }
    }
    // Entries at or past the end of what is on disk belong to records under way, or to the present leadership.
    let told: Vec<(Epoch, Offset)> = probe
        .epochs
        .iter()
        .map(|(epoch, offset)| (*epoch, (*offset).max(probe.start)))
        .filter(|(_, offset)| *offset < on_disk)
        .collect();
    if told != expected {
        verdict.fail(
            "the epoch table is the one that the batches give",
            format!(
                "{}: table {:?}, by the batches {expected:?}, log start {}",
                probe.partition, probe.epochs, probe.start
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::bench::{Bench, log_of_epochs, sound};

    fn look(epochs: &[(i32, i64)], batches: &[(i64, i64, i32)]) -> bool {
        let mut bench = Bench::new(EpochCache::default(), true);
        log_of_epochs(&mut bench.disk, batches);
        bench.probe(PartitionProbe {
            epochs: epochs
                .iter()
                .map(|(epoch, offset)| (Epoch(*epoch), *offset))
                .collect(),
            ..sound()
        });
        bench.is_ok()
    }

    #[test]
    fn table_of_the_batches_is_accepted() {
        let batches = [(0, 4, 0), (4, 7, 0), (7, 10, 2)];
        assert!(look(&[(0, 0), (2, 7)], &batches));
        assert!(
            look(&[(0, 0), (2, 7), (5, 10)], &batches),
            "the present leadership"
        );
    }

    #[test]
    fn missing_invented_or_falling_entries_are_rejected() {
        let batches = [(0, 4, 0), (4, 7, 0), (7, 10, 2)];
        assert!(!look(&[(0, 0)], &batches));
        assert!(!look(&[(0, 0), (1, 4), (2, 7)], &batches));
        assert!(!look(&[(0, 0), (2, 8)], &batches));
        assert!(!look(&[(2, 7), (0, 9)], &batches));
        assert!(!look(&[(0, 0), (2, 7), (3, 7)], &batches));
    }
}
