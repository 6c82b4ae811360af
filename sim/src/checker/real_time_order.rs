//! RealTimeOrder: what was acknowledged before another write to the partition began has a lower offset.

use std::collections::BTreeMap;

use seedlog_core::ids::Epoch;

use super::{Checker, Seen, Verdict};
use crate::{
    ghost::{Ghost, Write},
    history::{Acks, Place, WriteId},
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
    let mut highest = Highest::default();
    for (id, write, base, _) in writes {
        while let Some((before, write, acked, _)) = earlier.next_if(|(.., at)| *at < write.invoked)
        {
            highest.see(write, before, acked);
        }
        // A deposed leader that has not heard of it yet acknowledges from its own end, which no newer leader moved: what it gave is
        // lost with it. It keeps the order all the same against itself, and against what all in sync had under its predecessors; what one
        // of these alone acknowledged it may never have had, though it is committed in the end by a replica that kept it.
        let may_be_lost = ghost.excuse_of(write, base).is_some();
        let until = write.acked_in.filter(|_| may_be_lost);
        if let Some((before, offset)) = highest.until(until).filter(|(_, offset)| *offset >= base) {
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

/// The highest offset acknowledged so far, for each leader epoch; those of no known epoch come first.
#[derive(Default)]
struct Highest {
    any: BTreeMap<Option<Epoch>, (WriteId, i64)>,
    /// Of those that waited for all in-sync replicas.
    by_all: BTreeMap<Option<Epoch>, (WriteId, i64)>,
}

impl Highest {
    fn see(&mut self, write: &Write, id: WriteId, offset: i64) {
        let by_all = (write.acks == Acks::All).then_some(&mut self.by_all);
        for known in [Some(&mut self.any), by_all].into_iter().flatten() {
            let highest = known.entry(write.acked_in).or_insert((id, offset));
            if offset > highest.1 {
                *highest = (id, offset);
            }
        }
    }

    /// Returns the highest that a leader of an epoch must have had, or of all.
    fn until(&self, epoch: Option<Epoch>) -> Option<(WriteId, i64)> {
        let known: Vec<_> = match epoch {
            Some(_) => {
                let earlier = self.by_all.range(..epoch).map(|(_, highest)| *highest);
                earlier.chain(self.any.get(&epoch).copied()).collect()
            }
            None => self.any.values().copied().collect(),
        };
        known.into_iter().max_by_key(|(_, offset)| *offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::bench::{Bench, REPLICATED, log_of_epochs, sound},
        node::PartitionProbe,
    };

    fn led_in(epoch: i32) -> PartitionProbe {
        PartitionProbe {
            leader_epoch: Epoch(epoch),
            high_watermark: 0,
            ..sound()
        }
    }

    /// The new leader, node 1, acknowledges a write at offset 5 for sure; then the old one, node 0, another one.
    fn acknowledged_by_a_deposed_leader(acks: Acks, base: i64) -> Bench<RealTimeOrder> {
        let mut bench = Bench::of(RealTimeOrder, REPLICATED);
        bench.probe(led_in(0));
        bench.on(1);
        bench.probe(led_in(1));
        bench.write(1, Acks::All, 1);
        bench.caused_ack(1, 5, Some(0));
        bench.on(0);
        bench.write(9, acks, 1);
        bench.caused_ack(9, base, Some(0));
        bench
    }

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

    #[test]
    fn deposed_leader_may_acknowledge_alone_below_what_its_successor_acknowledged() {
        let mut bench = acknowledged_by_a_deposed_leader(Acks::Leader, 3);
        bench.judge();
        assert!(bench.is_ok());
    }

    #[test]
    fn deposed_leader_that_says_all_have_it_is_rejected() {
        let mut bench = acknowledged_by_a_deposed_leader(Acks::All, 3);
        bench.judge();
        assert!(bench.rejects("write 1 acknowledged with offset 5 before write 9"));
    }

    #[test]
    fn deposed_leader_that_goes_back_behind_its_own_safe_write_is_rejected() {
        let mut bench = Bench::of(RealTimeOrder, REPLICATED);
        bench.probe(led_in(0));
        bench.write(1, Acks::All, 1);
        bench.caused_ack(1, 5, Some(0));
        bench.on(1);
        bench.probe(led_in(1));
        bench.on(0);
        bench.write(9, Acks::Leader, 1);
        bench.caused_ack(9, 4, Some(0));
        bench.judge();
        assert!(bench.rejects("write 1 acknowledged with offset 5 before write 9"));
    }

    #[test]
    fn newest_leader_that_goes_back_is_rejected_though_it_acknowledges_alone() {
        let mut bench = Bench::of(RealTimeOrder, REPLICATED);
        bench.probe(led_in(0));
        bench.write(1, Acks::All, 1);
        bench.caused_ack(1, 5, Some(0));
        bench.on(1);
        bench.probe(led_in(1));
        bench.write(9, Acks::Leader, 1);
        bench.caused_ack(9, 4, Some(0));
        bench.judge();
        assert!(bench.rejects("write 1 acknowledged with offset 5 before write 9"));
    }

    /// One leader acknowledges a write at offset 5, the next one another at 4, and the first one leads again and commits its own.
    fn acknowledged_by_a_predecessor(acks: Acks) -> Bench<RealTimeOrder> {
        let mut bench = Bench::of(RealTimeOrder, REPLICATED);
        bench.probe(led_in(0));
        bench.write(1, acks, 1);
        bench.caused_ack(1, 5, Some(0));
        bench.on(1);
        bench.probe(led_in(1));
        bench.write(9, Acks::Leader, 1);
        bench.caused_ack(9, 4, Some(0));
        bench.on(0);
        log_of_epochs(&mut bench.disk, &[(0, 5, 0), (5, 6, 0)]);
        bench.probe(PartitionProbe {
            end: 6,
            written: 6,
            flushed: 6,
            high_watermark: 6,
            ..led_in(2)
        });
        bench
    }

    #[test]
    fn leader_need_not_have_what_its_predecessor_acknowledged_alone() {
        let mut bench = acknowledged_by_a_predecessor(Acks::Leader);
        bench.judge();
        assert!(bench.is_ok());
    }

    #[test]
    fn leader_that_goes_behind_what_all_had_before_it_is_rejected() {
        let mut bench = acknowledged_by_a_predecessor(Acks::All);
        bench.judge();
        assert!(bench.rejects("write 1 acknowledged with offset 5 before write 9"));
    }
}
