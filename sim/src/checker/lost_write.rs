//! lost-write: every value whose produce with acks=-1 was acknowledged is found by the final drain.

use super::{Checker, Seen, Verdict};
use crate::{
    ghost::{Excuse, Ghost, Write},
    history::{Acks, Place, WriteId},
};

/// Returns what is counted when bytes go bad of which no mark on the disk says that they were synced. Under `replicated` no sync
/// was promised.
pub(super) fn past_mark(ghost: &Ghost, place: Place) -> &'static str {
    if ghost.is_durable(place) {
        "durable record gone bad past the synced mark"
    } else {
        "unsynced record gone bad"
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct LostWrite;

impl Checker for LostWrite {
    fn name(&self) -> &'static str {
        "lost-write"
    }

    fn see(&mut self, _ghost: &Ghost, _seen: &Seen<'_>, _verdict: &mut Verdict<'_>) {}

    fn judge(&mut self, ghost: &Ghost, verdict: &mut Verdict<'_>) {
        for (id, write) in ghost.writes() {
            if write.acks == Acks::All {
                find(ghost, id, write, verdict);
            }
        }
    }
}

/// Looks for all values of an acknowledged write in the drain; says which are missing without an excuse.
pub(super) fn find(ghost: &Ghost, id: WriteId, write: &Write, verdict: &mut Verdict<'_>) {
    let Some((acked, at)) = write.acked else {
        return;
    };
    let place = write.place;
    let read = ghost.drained(place);
    let mut missing = Vec::new();
    for (offset, value) in (acked.base..).zip(write.values.iter()) {
        if read
            .get(&offset)
            .is_some_and(|record| record.value == Some(value))
        {
            continue;
        }
        match ghost.excuse_of(write, offset) {
            Some(Excuse::Unsynced) => verdict.allow("unsynced record lost by power loss"),
            Some(Excuse::Trimmed) => {}
            Some(Excuse::Damaged) => verdict.allow("record of a damaged partition"),
            Some(Excuse::PastMark) => verdict.allow(past_mark(ghost, place)),
            Some(Excuse::Beyond) => verdict.allow("record on a disk that broke every promise"),
            Some(Excuse::Failover) => {
                verdict.allow("record of a deposed leader that nobody else had")
            }
            Some(Excuse::Unclean) => verdict.allow("record lost by an unclean election"),
            None if ghost.drained_bounds(place).is_none() => {
                verdict.unknown(
                    "acknowledged values are found by the drain",
                    format!("{} could not be drained", ghost.places().partition(place)),
                );
                return;
            }
            None => missing.push((offset, value)),
        }
    }
    if let Some((offset, value)) = missing.first() {
        let there = read.get(offset).map(|record| record.value);
        let elsewhere = read.values().find(|record| record.value == Some(*value));
        verdict.fail(
            format!(
                "write {} (acks={}) acknowledged at {at} with offset {} stays in {}",
                id.0,
                write.acks.wire(),
                acked.base,
                ghost.places().partition(place)
            ),
            format!(
                "{} of {} values missing; first {value} at offset {offset}: the drain found {there:?} there, \
                 the value at {:?}",
                missing.len(),
                write.values.count,
                elsewhere.map(|record| record.offset)
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checker::bench::Bench, disk::BatchMark, history::Place};

    #[test]
    fn acknowledged_value_missing_from_the_drain_is_rejected() {
        let mut bench = Bench::new(LostWrite, true);
        bench.write(1, Acks::All, 2);
        bench.ack(1, 0);
        bench.drain(&[1]);
        assert!(bench.rejects("1 of 2 values missing"));
    }

    #[test]
    fn unknown_and_unacknowledged_values_may_be_missing() {
        let mut bench = Bench::new(LostWrite, true);
        bench.write(1, Acks::All, 2);
        bench.ack(1, 0);
        bench.write(9, Acks::All, 1);
        bench.drain(&[1, 2]);
        assert!(bench.is_ok());
    }

    #[test]
    fn unsynced_loss_excuses_replicated_but_not_durable() {
        for durable in [true, false] {
            let mut bench = Bench::new(LostWrite, durable);
            bench.write(1, Acks::All, 1);
            bench.ack(1, 0);
            let lost = BatchMark {
                base: 0,
                last: 0,
                leader_epoch: 0,
                at: 0,
                end: 70,
                digest: 1,
                written: 1,
                durable: None,
            };
            bench.lose_power(&[(Place(0), vec![lost])].into());
            bench.drain(&[]);
            assert_eq!(bench.is_ok(), !durable);
            assert_eq!(bench.allowed(), u64::from(!durable));
        }
    }
}
