//! HWSound: log start <= high watermark <= log end, no way back within an incarnation and epoch, no read past it.

use std::collections::BTreeMap;

use seedlog_core::ids::Epoch;

use super::{Checker, NodeChange, Seen, Verdict};
use crate::{
    ghost::Ghost,
    history::{Note, Place},
    node::PartitionProbe,
    time::SimTime,
};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct HwSound {
    last: BTreeMap<(usize, Place), (Epoch, i64, i64)>,
}

impl Checker for HwSound {
    fn name(&self) -> &'static str {
        "HWSound"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        match seen {
            Seen::Probe { node, probe, .. } => {
                for partition in probe
                    .partitions
                    .iter()
                    .filter(|partition| !partition.offline)
                {
                    self.look(ghost, *node, partition, verdict);
                }
            }
            Seen::Node {
                node,
                change: NodeChange::Started,
                ..
            } => self.last.retain(|(known, _), _| known != node),
            Seen::Note {
                client,
                note:
                    Note::Polled {
                        place,
                        records,
                        high_watermark,
                        ..
                    },
                ..
            } => {
                let beyond = records
                    .iter()
                    .find(|record| record.offset >= *high_watermark);
                if let Some(record) = beyond {
                    verdict.fail(
                        "no reader gets a record at or above the high watermark",
                        format!(
                            "client {client}: offset {} of {} with high watermark {high_watermark}",
                            record.offset,
                            ghost.places().partition(*place)
                        ),
                    );
                }
            }
            _ => {}
        }
    }
}

impl HwSound {
    fn look(
        &mut self,
        ghost: &Ghost,
        node: usize,
        probe: &PartitionProbe,
        verdict: &mut Verdict<'_>,
    ) {
        let PartitionProbe {
            start,
            end,
            written,
            flushed,
            high_watermark,
            ..
        } = *probe;
        let ordered = start <= high_watermark && high_watermark <= end;
        if !ordered || written > end || flushed > written {
            verdict.fail(
                "log start <= high watermark <= log end, and flushed <= written <= log end",
                format!("node {node}: {probe:?}"),
            );
        }
        let Some(place) = ghost.places().place(&probe.partition) else {
            return;
        };
        let now = (probe.leader_epoch, high_watermark, start);
        let Some((epoch, before, start_before)) = self.last.insert((node, place), now) else {
            return;
        };
        // A follower whose leader lost with leave what it still has is cut below what it knew to be committed.
        let is_cut = !probe.leads
            && ghost.promise(place).copies > 1
            && ghost
                .excuse(place, high_watermark, SimTime::START)
                .is_some();
        let goes_back = high_watermark < before || start < start_before;
        if epoch == probe.leader_epoch && goes_back && !is_cut {
            verdict.fail(
                "high watermark and log start do not go back within an incarnation and epoch",
                format!(
                    "node {node} {}: high watermark from {before} to {high_watermark}, start from {start_before} to {start}",
                    probe.partition
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::bench::{Bench, records, sound};

    #[test]
    fn watermark_outside_the_log_is_rejected() {
        for bad in [
            PartitionProbe { end: 9, ..sound() },
            PartitionProbe {
                start: 11,
                end: 20,
                ..sound()
            },
            PartitionProbe {
                flushed: 11,
                ..sound()
            },
            PartitionProbe {
                written: 11,
                ..sound()
            },
        ] {
            let mut bench = Bench::new(HwSound::default(), true);
            bench.probe(sound());
            assert!(bench.is_ok());
            bench.probe(bad);
            assert!(!bench.is_ok());
        }
    }

    #[test]
    fn watermark_may_go_back_only_with_the_incarnation() {
        let lower = || PartitionProbe {
            high_watermark: 7,
            ..sound()
        };
        let mut bench = Bench::new(HwSound::default(), true);
        bench.probe(sound());
        bench.node(NodeChange::Started);
        bench.probe(lower());
        assert!(bench.is_ok());
        bench.probe(sound());
        bench.probe(lower());
        assert!(bench.rejects("from 10 to 7"));
    }

    #[test]
    fn read_past_the_watermark_is_rejected() {
        let mut bench = Bench::new(HwSound::default(), true);
        bench.note(Note::Polled {
            place: Place(0),
            from: 0,
            records: records(0, &[1, 2]),
            high_watermark: 1,
            log_start: 0,
            asked: 0,
        });
        assert!(bench.rejects("offset 1"));
    }
}
