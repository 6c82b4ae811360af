//! HWMonotonicView: end and start as told to clients never go back in real time, and cover what was acknowledged before.
//!
//! With several copies only leaders are asked. A new leader may not know yet how far the old one got: it names no end before it does
//! (KIP-207), but lets readers read; a deposed one that does not know it is measured by what was told up to its epoch.

use std::collections::BTreeMap;

use seedlog_core::{event::Event, ids::Epoch};

use super::{Checker, NodeChange, Seen, Verdict};
use crate::{
    ghost::Ghost,
    history::{Acks, Note, Outcome, Place},
    time::SimTime,
};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct HwMonotonicView {
    told: BTreeMap<Place, Told>,
    /// Nodes whose page cache lost unsynced bytes, and when: until that incarnation ends it answers from what it remembers.
    reverted: BTreeMap<usize, SimTime>,
}

/// By the leader's epoch: each time with the highest value heard up to it.
type ByEpoch = BTreeMap<Epoch, Vec<(SimTime, i64)>>;

/// What was told of one partition.
#[derive(Debug, Default)]
struct Told {
    ends: ByEpoch,
    starts: ByEpoch,
    /// Answers that left by then say nothing about the log after an allowed loss; it may strike at the moment of an answer.
    since: SimTime,
}

impl Checker for HwMonotonicView {
    fn name(&self) -> &'static str {
        "HWMonotonicView"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        match seen {
            Seen::Note { note, cause, .. } => {
                let left = cause.map_or(verdict.at(), |cause| cause.left);
                let by = cause.map(|cause| cause.node);
                self.note(ghost, note, (left, by), verdict);
            }
            Seen::Node { node, change, .. } => self.node(ghost, *node, change, verdict.at()),
            // A leader that had a loss may have been elected with leave.
            Seen::Event {
                node,
                event: Event::LeaderElectedUncleanly { .. },
            } => self.forgive(ghost, *node, verdict.at(), verdict.at()),
            _ => {}
        }
    }
}

impl HwMonotonicView {
    fn node(&mut self, ghost: &Ghost, node: usize, change: &NodeChange<'_>, at: SimTime) {
        match change {
            NodeChange::LostPower { .. } => self.forgive(ghost, node, at, at),
            NodeChange::LostDirty { .. } => {
                self.reverted.entry(node).or_insert(at);
                self.forgive(ghost, node, at, at);
            }
            NodeChange::Crashed
            | NodeChange::Stopped
            | NodeChange::StopOverdue
            | NodeChange::GaveUp(_)
            | NodeChange::Panicked(_) => {
                if let Some(since) = self.reverted.remove(&node) {
                    self.forgive(ghost, node, since, at);
                }
            }
            _ => {}
        }
    }

    /// Forgets the ends that an allowed loss since some time took back.
    fn forgive(&mut self, ghost: &Ghost, node: usize, since: SimTime, at: SimTime) {
        for place in ghost.places().all() {
            // Answers may be under way of which nothing was heard yet.
            let told = self.told.entry(place).or_default();
            let lost = ghost.lost_since(place, since);
            if let Some(lost) = lost.filter(|_| !ghost.is_durable(place)) {
                told.since = at;
                for ends in told.ends.values_mut() {
                    ends.retain(|(_, end)| *end <= lost);
                }
            }
            if ghost.is_beyond(node) {
                told.ends.clear();
                told.starts.clear();
            }
        }
    }

    fn note(
        &mut self,
        ghost: &Ghost,
        note: &Note,
        (left, by): (SimTime, Option<usize>),
        verdict: &mut Verdict<'_>,
    ) {
        // The only copy speaks for itself, over all its epochs.
        let epoch = |place| {
            if ghost.promise(place).copies == 1 {
                return Some(Epoch(0));
            }
            ghost.leadership(by?, place, left)
        };
        match note {
            Note::Polled {
                place,
                high_watermark,
                log_start,
                asked,
                ..
            } => {
                let asked = SimTime::from_nanos(*asked);
                let start = (*log_start >= 0).then_some(*log_start);
                if let Some(epoch) = epoch(*place) {
                    let told = Answer {
                        epoch,
                        asked,
                        left,
                        start,
                        end: Some(*high_watermark),
                        names_end: false,
                    };
                    self.answer(ghost, *place, told, verdict);
                }
            }
            Note::Bounds {
                place,
                start,
                end,
                asked,
            } => {
                let asked = SimTime::from_nanos(*asked);
                if let Some(epoch) = epoch(*place) {
                    let told = Answer {
                        epoch,
                        asked,
                        left,
                        start: *start,
                        end: *end,
                        names_end: true,
                    };
                    self.answer(ghost, *place, told, verdict);
                }
            }
            Note::Answered {
                write,
                outcome: Outcome::Ok(acked),
            } => {
                let Some(write) = ghost.write(*write).filter(|write| write.acks == Acks::All)
                else {
                    return;
                };
                let told = self.told.entry(write.place).or_default();
                if let Some(epoch) = epoch(write.place).filter(|_| left > told.since) {
                    hear(
                        told.ends.entry(epoch).or_default(),
                        verdict.at(),
                        acked.base + i64::from(write.values.count),
                    );
                }
            }
            _ => {}
        }
    }

    fn answer(&mut self, ghost: &Ghost, place: Place, answer: Answer, verdict: &mut Verdict<'_>) {
        let told = self.told.entry(place).or_default();
        let Answer { epoch, asked, .. } = answer;
        if answer.left <= told.since || ghost.is_beyond_any() || ghost.is_damaged(place) {
            return;
        }
        for (what, value, heard, first) in [
            (
                "end",
                answer.end,
                &mut told.ends,
                if answer.names_end {
                    Epoch(i32::MIN)
                } else {
                    epoch
                },
            ),
            ("start", answer.start, &mut told.starts, epoch),
        ] {
            let Some(value) = value else {
                continue;
            };
            let before = heard.range(first..=epoch).filter_map(|(_, heard)| {
                let known = heard.partition_point(|(at, _)| *at < asked);
                known.checked_sub(1).map(|last| heard[last])
            });
            if let Some((at, before)) = before.max_by_key(|(_, value)| *value)
                && value < before
            {
                verdict.fail(
                    format!("the {what} of a log, as told to clients, does not go back"),
                    format!(
                        "{}: {before} known at {at}, {value} answered in epoch {} to a question asked at {asked}",
                        ghost.places().partition(place),
                        epoch.0
                    ),
                );
            }
            hear(heard.entry(epoch).or_default(), verdict.at(), value);
        }
    }
}

/// What a leader answered.
#[derive(Clone, Copy, Debug)]
struct Answer {
    epoch: Epoch,
    asked: SimTime,
    left: SimTime,
    start: Option<i64>,
    end: Option<i64>,
    /// It was asked for the end, which a leader that does not know it refuses to name.
    names_end: bool,
}

/// Remembers a value if it is higher than all before.
fn hear(heard: &mut Vec<(SimTime, i64)>, at: SimTime, value: i64) {
    if heard.last().is_none_or(|(_, highest)| value > *highest) {
        heard.push((at, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::bench::{Bench, log},
        disk::Disk,
        history::{Acked, WriteId},
    };

    fn bounds(asked_ms: u64, end: i64) -> Note {
        Note::Bounds {
            place: Place(0),
            start: None,
            end: Some(end),
            asked: SimTime::from_millis(asked_ms).as_nanos(),
        }
    }

    #[test]
    fn end_that_goes_back_in_real_time_is_rejected() {
        let mut bench = Bench::new(HwMonotonicView::default(), true);
        bench.note(bounds(0, 5));
        bench.note(bounds(0, 4));
        assert!(bench.is_ok(), "asked before the higher answer came");
        bench.note(bounds(3, 4));
        assert!(bench.rejects("5 known at"));
    }

    #[test]
    fn end_below_an_acknowledged_record_is_rejected() {
        let mut bench = Bench::new(HwMonotonicView::default(), true);
        bench.write(1, Acks::All, 3);
        bench.ack(1, 0);
        bench.pass_millis(10);
        bench.note(bounds(9, 2));
        assert!(bench.rejects("3 known at"));
    }

    #[test]
    fn rising_ends_are_accepted() {
        let mut bench = Bench::new(HwMonotonicView::default(), true);
        for end in 0..10 {
            bench.note(bounds(u64::try_from(end).unwrap(), end));
        }
        assert!(bench.is_ok());
    }

    #[test]
    fn answer_under_way_when_its_record_is_lost_is_accepted_under_replicated_only() {
        for (durable, at_once) in [(true, true), (true, false), (false, true), (false, false)] {
            let mut bench = Bench::new(HwMonotonicView::default(), durable);
            bench.write(1, Acks::All, 5);
            log(&mut bench.disk, &[(0, 5)]);
            let (before, earlier) = (bench.view(), bench.now());
            bench.disk = Disk::new(1);
            bench.lose_power(&before);
            let left = if at_once { bench.now() } else { earlier };
            let outcome = Outcome::Ok(Acked {
                base: 0,
                append_time: -1,
                log_start: 0,
            });
            let write = WriteId(1);
            bench.late_note(&Note::Answered { write, outcome }, left);
            bench.pass_millis(10);
            bench.note(bounds(19, 0));
            assert_eq!(bench.is_ok(), !durable);
        }
    }
}
