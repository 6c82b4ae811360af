//! inconsistent-offsets: one offset of a partition is bound to at most one value, over all acknowledgements and reads.

use std::collections::BTreeMap;

use seedlog_core::ids::Epoch;

use super::{Checker, NodeChange, Seen, Verdict};
use crate::{
    batch::{SeenRecord, ValueId},
    ghost::Ghost,
    history::{Acks, Note, Outcome, Place},
    time::SimTime,
};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct InconsistentOffsets {
    bound: BTreeMap<(Place, i64), Binding>,
}

#[derive(Clone, Copy, Debug)]
struct Binding {
    value: ValueId,
    since: SimTime,
    /// Only a leader of this epoch vouches for it: nobody waited for other copies.
    by_leader: Option<Option<Epoch>>,
}

impl Binding {
    fn may_go(&self, ghost: &Ghost, (place, offset): (Place, i64)) -> bool {
        let excuse = match self.by_leader {
            Some(epoch) => ghost.excuse_of_leader(place, offset, self.since, epoch),
            None => ghost.excuse(place, offset, self.since),
        };
        excuse.is_some()
    }
}

impl InconsistentOffsets {
    fn bind(
        &mut self,
        ghost: &Ghost,
        (place, offset): (Place, i64),
        now: Binding,
        verdict: &mut Verdict<'_>,
    ) {
        let before = self.bound.insert((place, offset), now);
        let Some(before) = before else {
            return;
        };
        if before.value == now.value {
            // What somebody read stays, whoever else vouches for it later.
            if before.by_leader.is_none() {
                self.bound.insert((place, offset), before);
            }
            return;
        }
        if before.may_go(ghost, (place, offset)) {
            verdict.allow("offset used again after an allowed loss");
            return;
        }
        if now.by_leader.is_some() && now.may_go(ghost, (place, offset)) {
            verdict.allow("offset of a deposed leader that was used before");
            self.bound.insert((place, offset), before);
            return;
        }
        let value = now.value;
        verdict.fail(
            format!(
                "offset {offset} of {} holds {} (seen at {})",
                ghost.places().partition(place),
                before.value,
                before.since
            ),
            format!("{value} at the same offset"),
        );
    }
}

impl InconsistentOffsets {
    fn read(
        &mut self,
        ghost: &Ghost,
        place: Place,
        records: &[SeenRecord],
        left: SimTime,
        verdict: &mut Verdict<'_>,
    ) {
        for record in records {
            match record.value {
                Some(value) => {
                    let now = Binding {
                        value,
                        since: left,
                        by_leader: None,
                    };
                    self.bind(ghost, (place, record.offset), now, verdict);
                }
                None if ghost.is_damaged(place) => {
                    verdict.allow("damaged bytes, which a reader's checksum finds");
                }
                None => verdict.fail(
                    "a reader gets only bytes that a producer wrote",
                    format!(
                        "unreadable record at offset {} of {}",
                        record.offset,
                        ghost.places().partition(place)
                    ),
                ),
            }
        }
    }
}

impl Checker for InconsistentOffsets {
    fn name(&self) -> &'static str {
        "inconsistent-offsets"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        match seen {
            Seen::Note {
                note:
                    Note::Answered {
                        write,
                        outcome: Outcome::Ok(acked),
                    },
                cause,
                ..
            } => {
                let left = cause.map_or(verdict.at(), |cause| cause.left);
                if let Some(write) = ghost.write(*write) {
                    let by_leader = (write.acks == Acks::Leader
                        && ghost.promise(write.place).copies > 1)
                        .then_some(write.acked_in);
                    for (offset, value) in (acked.base..).zip(write.values.iter()) {
                        let now = Binding {
                            value,
                            since: left,
                            by_leader,
                        };
                        self.bind(ghost, (write.place, offset), now, verdict);
                    }
                }
            }
            Seen::Note {
                note: Note::Polled { place, records, .. },
                cause,
                ..
            } => {
                let left = cause.map_or(verdict.at(), |cause| cause.left);
                self.read(ghost, *place, records, left, verdict);
            }
            // What a reader saw and nobody acknowledged as safe may go with an allowed loss.
            Seen::Node {
                change:
                    NodeChange::LostPower { .. }
                    | NodeChange::LostDirty { .. }
                    | NodeChange::Crashed
                    | NodeChange::Stopped
                    | NodeChange::StopOverdue
                    | NodeChange::GaveUp(_)
                    | NodeChange::Panicked(_),
                ..
            } => {
                let start = SimTime::START;
                self.bound.retain(|(place, offset), _| {
                    ghost.is_durable(*place)
                        || ghost
                            .lost_since(*place, start)
                            .is_none_or(|lost| lost > *offset)
                });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::bench::{Bench, log},
        disk::Disk,
    };

    #[test]
    fn two_values_at_one_offset_are_rejected() {
        let mut bench = Bench::new(InconsistentOffsets::default(), true);
        bench.write(1, Acks::All, 1);
        bench.write(2, Acks::All, 1);
        bench.ack(1, 0);
        bench.read(0, &[1]);
        assert!(bench.is_ok());
        bench.read(0, &[2]);
        assert!(bench.rejects("v2 at the same offset"));
    }

    #[test]
    fn two_acknowledgements_of_one_offset_are_rejected() {
        let mut bench = Bench::new(InconsistentOffsets::default(), true);
        bench.write(1, Acks::All, 2);
        bench.write(5, Acks::All, 1);
        bench.ack(1, 0);
        bench.ack(5, 1);
        assert!(bench.rejects("v5"));
    }

    #[test]
    fn invented_bytes_are_rejected() {
        let mut bench = Bench::new(InconsistentOffsets::default(), true);
        let mut records = crate::checker::bench::records(4, &[1]);
        records[0].value = None;
        bench.note(Note::Polled {
            place: Place(0),
            from: 4,
            records,
            high_watermark: 5,
            log_start: 0,
            asked: 0,
        });
        assert!(bench.rejects("unreadable record at offset 4"));
    }

    #[test]
    fn what_is_written_behind_the_hole_of_a_failed_sync_may_go_with_it_under_replicated_only() {
        for durable in [true, false] {
            let mut bench = Bench::new(InconsistentOffsets::default(), durable);
            log(&mut bench.disk, &[(0, 5)]);
            let before = bench.view();
            bench.disk = Disk::new(1);
            bench.node(NodeChange::LostDirty { before: &before });
            bench.write(1, Acks::Leader, 1);
            bench.ack(1, 5);
            bench.node(NodeChange::GaveUp("the log directory failed"));
            bench.write(2, Acks::Leader, 1);
            bench.ack(2, 5);
            assert_eq!(bench.is_ok(), !durable);
            // The next process knows better.
            bench.write(3, Acks::Leader, 1);
            bench.ack(3, 5);
            assert!(bench.rejects("v3"));
        }
    }
}
