//! The engine: one event queue for the whole cluster, virtual time, and the digest of all that happened.
//!
//! Events at the same time happen in the order in which they were scheduled. Nothing here knows what an event is.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::{digest::Digest, time::SimTime};

/// Runs events of type `E` in order of time.
#[derive(Debug)]
pub struct Engine<E> {
    now: SimTime,
    heap: BinaryHeap<Reverse<(u128, u32)>>,
    slots: Vec<Option<E>>,
    free: Vec<u32>,
    scheduled: u64,
    steps: u64,
    digest: Digest,
    journal: Option<Vec<u64>>,
}

impl<E> Default for Engine<E> {
    fn default() -> Self {
        Self {
            now: SimTime::START,
            heap: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            scheduled: 0,
            steps: 0,
            digest: Digest::new(),
            journal: None,
        }
    }
}

impl<E> Engine<E> {
    /// Keeps the digest after each event, so that two runs can be compared event by event.
    pub fn keep_journal(&mut self) {
        self.journal = Some(Vec::new());
    }

    /// Schedules an event; one in the past happens now, after what is already scheduled for now.
    pub fn schedule(&mut self, at: SimTime, event: E) {
        let at = at.max(self.now);
        self.scheduled += 1;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(event);
                slot
            }
            None => {
                self.slots.push(Some(event));
                u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 pending events")
            }
        };
        let key = u128::from(at.as_nanos()) << 64 | u128::from(self.scheduled);
        self.heap.push(Reverse((key, slot)));
    }

    /// Schedules an event some nanoseconds from now.
    pub fn schedule_in(&mut self, nanos: u64, event: E) {
        self.schedule(self.now.plus_nanos(nanos), event);
    }

    /// Takes the next event not later than `limit` and moves time to it.
    pub fn next(&mut self, limit: SimTime) -> Option<E> {
        let &Reverse((key, slot)) = self.heap.peek()?;
        let at = u64::try_from(key >> 64).unwrap_or(u64::MAX);
        if at > limit.as_nanos() {
            return None;
        }
        self.heap.pop();
        self.free.push(slot);
        self.now = SimTime::from_nanos(at);
        self.steps += 1;
        if let Some(journal) = &mut self.journal {
            journal.push(self.digest.value());
        }
        self.digest.word(at);
        self.slots[slot as usize].take()
    }

    /// Moves time forward to `at` when no event is due before; does nothing otherwise.
    pub fn advance(&mut self, at: SimTime) {
        if self.peek_time().is_none_or(|next| next > at) {
            self.now = self.now.max(at);
        }
    }

    /// Folds something that happened into the digest of the run.
    #[inline]
    pub fn fold(&mut self, word: u64) {
        self.digest.word(word);
    }

    /// Folds bytes that were exchanged into the digest of the run.
    pub fn fold_bytes(&mut self, bytes: &[u8]) {
        self.digest.bytes(bytes);
    }

    /// Returns the present.
    #[must_use]
    pub const fn now(&self) -> SimTime {
        self.now
    }

    /// Returns when the next event happens.
    #[must_use]
    pub fn peek_time(&self) -> Option<SimTime> {
        let &Reverse((key, _)) = self.heap.peek()?;
        Some(SimTime::from_nanos(
            u64::try_from(key >> 64).unwrap_or(u64::MAX),
        ))
    }

    /// Returns how many events happened.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns how many events wait.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.heap.len()
    }

    /// Returns the digest of the run so far.
    #[must_use]
    pub const fn digest(&self) -> u64 {
        self.digest.value()
    }

    /// Takes the digests before each event, if they were kept.
    pub fn take_journal(&mut self) -> Option<Vec<u64>> {
        let mut journal = self.journal.take()?;
        journal.push(self.digest.value());
        Some(journal)
    }
}

/// Finds the first event after which two journals differ, counted from 0.
#[must_use]
pub fn first_difference(left: &[u64], right: &[u64]) -> Option<u64> {
    let differing = left
        .iter()
        .zip(right)
        .position(|(left, right)| left != right);
    let at = match differing {
        Some(at) => at,
        None if left.len() == right.len() => return None,
        None => left.len().min(right.len()),
    };
    // A journal entry is taken before its event: the event to blame is the one before.
    u64::try_from(at.saturating_sub(1)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_then_of_scheduling() {
        let mut engine = Engine::default();
        engine.schedule(SimTime::from_nanos(5), 'c');
        engine.schedule(SimTime::from_nanos(1), 'a');
        engine.schedule(SimTime::from_nanos(5), 'd');
        engine.schedule(SimTime::from_nanos(1), 'b');
        let all: String = std::iter::from_fn(|| engine.next(SimTime::NEVER)).collect();
        assert_eq!(all, "abcd");
        engine.schedule(SimTime::from_nanos(2), 'e');
        assert_eq!(engine.next(SimTime::NEVER), Some('e'));
        assert_eq!(engine.now(), SimTime::from_nanos(5), "time never goes back");
    }

    #[test]
    fn limit_holds_later_events_back() {
        let mut engine = Engine::default();
        engine.schedule(SimTime::from_nanos(5), ());
        assert_eq!(engine.next(SimTime::from_nanos(4)), None);
        engine.advance(SimTime::from_nanos(4));
        assert_eq!(engine.now(), SimTime::from_nanos(4));
        assert_eq!(engine.next(SimTime::from_nanos(5)), Some(()));
    }

    #[test]
    fn first_differing_event_is_named() {
        let run = |odd: u64| {
            let mut engine = Engine::default();
            engine.keep_journal();
            for at in 0..10 {
                engine.schedule(SimTime::from_nanos(at), at);
            }
            while let Some(event) = engine.next(SimTime::NEVER) {
                engine.fold(if event == 7 { odd } else { event });
            }
            engine.take_journal().unwrap()
        };
        assert_eq!(first_difference(&run(1), &run(1)), None);
        assert_eq!(first_difference(&run(1), &run(2)), Some(7));
    }
}
