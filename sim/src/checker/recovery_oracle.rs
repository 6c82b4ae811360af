//! RecoveryOracle: a log opens with every synced record, of the unsynced ones with a prefix, and with nothing invented.
//!
//! A damaged synced record is repaired or reported, never silently cut: unless no mark on the disk said that it was synced. When
//! only the process ended, the page cache is still there, and with it every whole record that was written.

use std::collections::{BTreeMap, BTreeSet};

use seedlog_core::event::Event;

use super::{Checker, NodeChange, Seen, Verdict, lost_write::past_mark};
use crate::{
    disk::{BatchMark, Disk},
    ghost::{self, Ghost, LogView},
    history::Place,
};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct RecoveryOracle {
    left: BTreeMap<usize, Left>,
    /// Logs that opened in this step: start and end.
    opened: Vec<(usize, Place, i64, i64)>,
}

/// What a process left behind when it ended.
#[derive(Debug)]
struct Left {
    logs: LogView,
    /// The page cache went with it.
    by_power: bool,
}

impl Checker for RecoveryOracle {
    fn name(&self) -> &'static str {
        "RecoveryOracle"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        match seen {
            Seen::Node { node, change, disk } => self.node(ghost, *node, change, disk),
            Seen::Event {
                node,
                event:
                    Event::LogOpened {
                        partition,
                        start,
                        end,
                        ..
                    },
            } => {
                if let Some(place) = ghost.places().place(partition) {
                    self.opened.push((*node, place, *start, *end));
                }
            }
            Seen::Probe { node, disk, .. } => {
                let opened = std::mem::take(&mut self.opened);
                for (opener, place, start, end) in opened {
                    if opener == *node && !ghost.is_beyond(opener) {
                        self.compare(ghost, opener, (place, start, end), disk, verdict);
                    }
                }
            }
            Seen::Phase(_) | Seen::Note { .. } | Seen::Event { .. } => {}
        }
    }
}

impl RecoveryOracle {
    fn node(&mut self, ghost: &Ghost, node: usize, change: &NodeChange<'_>, disk: &Disk) {
        match change {
            NodeChange::LostPower { before, .. } => {
                let left = Left {
                    logs: (*before).clone(),
                    by_power: true,
                };
                self.left.insert(node, left);
            }
            NodeChange::Crashed
            | NodeChange::Stopped
            | NodeChange::StopOverdue
            | NodeChange::GaveUp(_)
            | NodeChange::Panicked(_) => {
                let left = Left {
                    logs: ghost::view(ghost.places(), disk),
                    by_power: false,
                };
                self.left.insert(node, left);
            }
            NodeChange::Wiped => {
                self.left.remove(&node);
            }
            NodeChange::Started
            | NodeChange::StopAsked
            | NodeChange::LostDirty { .. }
            | NodeChange::Ready
            | NodeChange::Damaged(_)
            | NodeChange::Lied => {}
        }
        self.opened.retain(|(opener, ..)| *opener != node);
    }

    fn compare(
        &mut self,
        ghost: &Ghost,
        node: usize,
        (place, start, end): (Place, i64, i64),
        disk: &Disk,
        verdict: &mut Verdict<'_>,
    ) {
        let Some(Left { logs, by_power }) = self.left.get_mut(&node) else {
            return;
        };
        let by_power = *by_power;
        // What opens again later was changed since.
        let Some(left) = logs.remove(&place) else {
            return;
        };
        let left = left.as_slice();
        let name = ghost.places().partition(place);
        // Past bytes that went bad, what was never synced is beyond every promise.
        let only_synced = by_power || ghost.is_damaged(place);
        let kept = kept(left, ghost.start(place), only_synced);
        let now = ghost::view(ghost.places(), disk)
            .remove(&place)
            .unwrap_or_default();
        let there: BTreeSet<u64> = now.iter().map(|mark| mark.digest).collect();
        for mark in kept.iter().filter(|mark| mark.last >= start) {
            let cut = mark.last >= end;
            if cut
                && ghost
                    .opened_past(node, place)
                    .is_some_and(|from| mark.base >= from)
            {
                verdict.allow(past_mark(ghost, place));
                return;
            }
            if cut || (!there.contains(&mark.digest) && !ghost.is_damaged(place)) {
                let was = if mark.durable.is_some() {
                    "synced"
                } else {
                    "written"
                };
                verdict.fail(
                    format!("a log opens with every record that was {was}, or says that it cannot"),
                    format!(
                        "node {node} {name} opened with {start}..{end}; offsets {}..={} were {was} and are {}",
                        mark.base,
                        mark.last,
                        if cut { "cut" } else { "not what they were" }
                    ),
                );
                return;
            }
        }
        let first = left.first().map_or(start, |mark| mark.base);
        if start > first.max(ghost.start(place)) {
            let mut trimmed = left.iter().filter(|mark| mark.last < start);
            if trimmed.any(|mark| mark.durable.is_some() && mark.base >= ghost.start(place)) {
                verdict.unknown(
                    "a log starts where retention or DeleteRecords left it",
                    format!("node {node} {name} starts at {start}"),
                );
            }
        }
        if ghost.is_damaged(place) {
            // What went bad at rest is not what was written.
            return;
        }
        // What was cut off and not synced may be there again.
        let now: Vec<BatchMark> = now
            .into_iter()
            .filter(|mark| !ghost.was_written(place, mark.digest))
            .collect();
        invented(left, &now, (start, end), |mark| {
            verdict.fail(
                "a log opens with nothing that was not written",
                format!(
                    "node {node} {name}: offsets {}..={} were never there",
                    mark.base, mark.last
                ),
            );
        });
    }
}

/// Returns the batches that were synced, or all that were written, without a gap from the log start on: what lies beyond a
/// lost one is out of reach, also when the lost ones were the first.
fn kept(left: &[BatchMark], start: i64, only_synced: bool) -> &[BatchMark] {
    let Some(first) = left.first().filter(|first| first.base <= start) else {
        return &[];
    };
    let mut next = first.base;
    let reached = left.iter().take_while(|mark| {
        let reached = mark.base == next && (mark.durable.is_some() || !only_synced);
        next = mark.last + 1;
        reached
    });
    &left[..reached.count()]
}

/// Reports the first batch within bounds that was not on the disk when the process ended.
fn invented(
    left: &[BatchMark],
    now: &[BatchMark],
    (start, end): (i64, i64),
    report: impl FnOnce(&BatchMark),
) {
    let known: BTreeSet<u64> = left.iter().map(|mark| mark.digest).collect();
    let strange = now
        .iter()
        .find(|mark| mark.base >= start && mark.last < end && !known.contains(&mark.digest));
    if let Some(strange) = strange {
        report(strange);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::bench::{Bench, log, partition, sound},
        disk::Survival,
        random::Streams,
    };

    fn opened(start: i64, end: i64) -> Event {
        Event::LogOpened {
            partition: partition(),
            start,
            end,
            recovered: true,
        }
    }

    /// A log of two synced batches and one unsynced one.
    fn written() -> Bench<RecoveryOracle> {
        let mut bench = Bench::new(RecoveryOracle::default(), true);
        log(&mut bench.disk, &[(0, 5), (5, 10)]);
        let mut stream = Streams::new(1).stream("loss");
        bench.disk.lose_power(Survival::Everything, &mut stream);
        log(&mut bench.disk, &[(10, 12)]);
        bench
    }

    fn crashed() -> Bench<RecoveryOracle> {
        let mut bench = written();
        bench.node(NodeChange::Crashed);
        bench.node(NodeChange::Started);
        bench
    }

    fn out_of_power() -> Bench<RecoveryOracle> {
        let mut bench = written();
        let before = bench.view();
        bench.lose_power(&before);
        bench.node(NodeChange::Started);
        bench
    }

    #[test]
    fn synced_records_and_any_prefix_of_the_rest_are_accepted_after_a_power_loss() {
        for end in [10, 12] {
            let mut bench = out_of_power();
            bench.event(opened(0, end));
            bench.probe(sound());
            assert!(bench.is_ok(), "end {end}");
        }
    }

    #[test]
    fn all_that_the_page_cache_kept_is_accepted_after_a_crash_and_nothing_less() {
        let mut bench = crashed();
        bench.event(opened(0, 12));
        bench.probe(sound());
        assert!(bench.is_ok());
        let mut bench = crashed();
        bench.event(opened(0, 10));
        bench.probe(sound());
        assert!(bench.rejects("offsets 10..=11 were written and are cut"));
    }

    #[test]
    fn unsynced_record_of_a_damaged_log_may_be_cut_after_a_crash() {
        let mut bench = crashed();
        let done = crate::disk::DamageDone {
            path: format!("{}/00000000000000000000.log", partition()),
            at: 3,
        };
        bench.node(NodeChange::Damaged(&done));
        bench.event(opened(0, 10));
        bench.probe(sound());
        assert!(bench.is_ok());
    }

    #[test]
    fn cut_synced_record_is_rejected() {
        for mut bench in [crashed(), out_of_power()] {
            bench.event(opened(0, 5));
            bench.probe(sound());
            assert!(bench.rejects("offsets 5..=9 were synced and are cut"));
        }
    }

    #[test]
    fn changed_synced_record_is_rejected() {
        let mut bench = crashed();
        bench.disk = Disk::new(1);
        log(&mut bench.disk, &[(0, 5)]);
        bench.event(opened(0, 12));
        bench.probe(sound());
        assert!(bench.rejects("not what they were"));
    }

    #[test]
    fn invented_record_is_rejected() {
        let mut bench = crashed();
        log(&mut bench.disk, &[(12, 13)]);
        bench.event(opened(0, 13));
        bench.probe(sound());
        assert!(bench.rejects("offsets 12..=12 were never there"));
    }
}
