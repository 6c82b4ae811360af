//! RealTimeOrder: what was acknowledged before another write to the partition began has a lower offset.

use std::collections::BTreeMap;

use super::{Checker, Seen, Verdict};
use crate::{
    ghost::{Ghost, Write},
    history::{Place, WriteId},
    time::SimTime,
};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct RealTimeOrder;

impl Checker for RealTimeOrder {
    fn name(&self) -> &'static str {
        "RealTimeOrder"
    }

    fn see(&mut self, _ghost: &Ghost, _seen: &Seen<'_>, _verdict: &mut Verdict<'_>) {}

    fn judge(&mut self, ghost: &Ghost, verdict: &mut Verdict<'_>) {
        let mut places: BTreeMap<Place, Vec<(WriteId, &Write, i64, SimTime)>> = BTreeMap::new();
        for (id, write) in ghost.writes() {
            if let Some((acked, at)) = write.acked {
                let known = places.entry(write.place).or_default();
                known.push((id, write, acked.base, at));
            }
        }
        for (place, writes) in places {
            order(ghost, place, writes, verdict);
        }
    }
}

fn order(
    ghost: &Ghost,
    place: Place,
    mut writes: Vec<(WriteId, &Write, i64, SimTime)>,
    verdict: &mut Verdict<'_>,
) {
    // What may be lost orders nothing.
    let mut safe = writes.clone();
    safe.retain(|(_, write, base, _)| ghost.excuse_of(write, *base).is_none());
    safe.sort_unstable_by_key(|(_, _, base, at)| (*at, *base));
    writes.sort_unstable_by_key(|(_, write, base, _)| (write.invoked, *base));
    let mut earlier = safe.into_iter().peekable();
    let mut highest: Option<(WriteId, i64)> = None;
    for (id, write, base, _) in writes {
        while let Some((before, _, acked, _)) = earlier.next_if(|(.., at)| *at < write.invoked) {
            if highest.is_none_or(|(_, offset)| acked > offset) {
                highest = Some((before, acked));
            }
        }
        if let Some((before, offset)) = highest.filter(|(_, offset)| *offset >= base) {
            verdict.fail(
                "what was acknowledged before another write began has a lower offset",
                format!(
                    "{}: write {} acknowledged with offset {offset} before write {} began at {}, which got {base}",
                    ghost.places().partition(place),
                    before.0,
                    id.0,
                    write.invoked
                ),
            );
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checker::bench::Bench, history::Acks};

    #[test]
    fn later_write_with_a_lower_offset_is_rejected() {
        let mut bench = Bench::new(RealTimeOrder, true);
        bench.write(1, Acks::All, 2);
        bench.ack(1, 5);
        bench.write(9, Acks::All, 1);
        bench.ack(9, 4);
        bench.judge();
        assert!(bench.rejects("write 1 acknowledged with offset 5 before write 9"));
    }

    #[test]
    fn writes_that_overlap_may_come_in_any_order() {
        let mut bench = Bench::new(RealTimeOrder, true);
        bench.write(1, Acks::All, 1);
        bench.write(9, Acks::All, 1);
        bench.ack(1, 5);
        bench.ack(9, 4);
        bench.judge();
        assert!(bench.is_ok());
    }
}
