//! What a leader knows of one follower, from that follower's own fetches in this leader epoch.

use crate::{
    ids::{NodeId, Offset},
    time::Instant,
};

/// A fetch of a follower that passed every check: what it says of the follower's copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerFetch {
    /// The follower.
    pub node: NodeId,
    /// The follower's broker epoch, -1 where its version of Fetch does not carry it (KIP-903).
    pub broker_epoch: i64,
    /// Everything below this offset is a counted copy: the promise of a fetch offset.
    pub fetch_offset: Offset,
    /// The follower's log start.
    pub log_start: Offset,
}

/// One follower as the leader sees it. Nothing is carried over from an earlier leader epoch: a replica that was removed,
/// wiped and added again would otherwise be believed to hold what it lost (KIP-966).
#[derive(Clone, Debug, Default)]
pub struct FollowerProgress {
    end: Option<Offset>,
    log_start: Option<Offset>,
    broker_epoch: Option<i64>,
    /// When it last held everything that the leader had.
    caught_up: Option<Instant>,
    /// Its last fetch, and the leader's end at that moment.
    last_fetch: Option<(Instant, Offset)>,
    /// Whether it could join the ISR when that was last looked at.
    is_eligible: bool,
}

impl FollowerProgress {
    /// Begins with a leader epoch. A member of the ISR is given the whole lag time to report; others hold nothing back.
    pub(super) fn new(is_in_sync: bool, now: Instant) -> Self {
        Self {
            caught_up: is_in_sync.then_some(now),
            ..Self::default()
        }
    }

    /// Takes what a fetch says, while the leader's log ends at `leader_end`.
    pub(super) fn on_fetch(
        &mut self,
        fetch: &FollowerFetch,
        leader_end: Offset,
        is_eligible: bool,
        now: Instant,
    ) {
        let end = fetch.fetch_offset;
        if end >= leader_end {
            self.caught_up = self.caught_up.max(Some(now));
        } else if let Some((at, end_then)) = self.last_fetch
            && end >= end_then
        {
            // It has by now what the leader had at its last fetch: it was caught up with that moment.
            self.caught_up = self.caught_up.max(Some(at));
        }
        self.end = Some(end);
        self.log_start = Some(fetch.log_start);
        self.broker_epoch = Some(fetch.broker_epoch);
        self.last_fetch = Some((now, leader_end));
        self.is_eligible = is_eligible;
    }

    /// Notes that the leader's end leaves `old_end`: who stood there was caught up until now. Followers of an idle partition
    /// need no fetch to stay in sync (KIP-227).
    pub(super) fn on_leader_grew(&mut self, old_end: Offset, now: Instant) {
        if self.end == Some(old_end) {
            self.caught_up = self.caught_up.max(Some(now));
        }
    }

    /// Notes that it is proposed for the ISR: from here on its lag is measured.
    pub(super) fn admitted(&mut self, now: Instant) {
        self.caught_up = self.caught_up.max(Some(now));
    }

    /// Returns when it falls out of sync if it does not move; `None` while it has all that the leader has.
    pub(super) fn lag_deadline(&self, leader_end: Offset, lag_max_ms: u64) -> Option<Instant> {
        if self.end == Some(leader_end) {
            return None;
        }
        let since = self.caught_up.unwrap_or(Instant::ORIGIN);
        Some(since.plus_millis(lag_max_ms))
    }

    /// Returns whether it holds, or lately held, all that the leader has.
    pub(super) fn is_caught_up(&self, leader_end: Offset, lag_max_ms: u64, now: Instant) -> bool {
        self.end == Some(leader_end)
            || self
                .caught_up
                .is_some_and(|since| now < since.plus_millis(lag_max_ms))
    }

    /// Notes whether it could join the ISR as far as is known now.
    pub(super) const fn set_eligible(&mut self, is_eligible: bool) {
        self.is_eligible = is_eligible;
    }

    /// Returns whether it could join the ISR when that was last looked at.
    pub(super) const fn is_eligible(&self) -> bool {
        self.is_eligible
    }

    /// Returns one past the last offset of its counted copy; `None` before its first fetch in this leader epoch.
    #[must_use]
    pub const fn end(&self) -> Option<Offset> {
        self.end
    }

    /// Returns its log start, if it has fetched.
    #[must_use]
    pub const fn log_start(&self) -> Option<Offset> {
        self.log_start
    }

    /// Returns the broker epoch of its last fetch.
    #[must_use]
    pub const fn broker_epoch(&self) -> Option<i64> {
        self.broker_epoch
    }

    /// Returns when it last held everything that the leader had.
    #[must_use]
    pub const fn caught_up(&self) -> Option<Instant> {
        self.caught_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN.plus_millis(ms)
    }

    fn fetch(fetch_offset: Offset) -> FollowerFetch {
        FollowerFetch {
            node: NodeId(2),
            broker_epoch: 7,
            fetch_offset,
            log_start: 0,
        }
    }

    #[test]
    fn follower_that_always_has_what_the_leader_had_one_fetch_ago_is_caught_up() {
        let mut follower = FollowerProgress::new(true, at(0));
        follower.on_fetch(&fetch(10), 15, true, at(1_000));
        assert_eq!(follower.caught_up(), Some(at(0)));
        follower.on_fetch(&fetch(15), 20, true, at(2_000));
        assert_eq!(follower.caught_up(), Some(at(1_000)));
        follower.on_fetch(&fetch(20), 20, true, at(3_000));
        assert_eq!(follower.caught_up(), Some(at(3_000)));
        assert_eq!(follower.lag_deadline(20, 500), None);
    }

    #[test]
    fn idle_follower_stays_in_sync_without_fetching_until_the_leader_grows() {
        let mut follower = FollowerProgress::new(true, at(0));
        follower.on_fetch(&fetch(20), 20, true, at(1));
        assert!(follower.is_caught_up(20, 500, at(100_000)));
        follower.on_leader_grew(20, at(100_000));
        assert_eq!(follower.lag_deadline(21, 500), Some(at(100_500)));
        assert!(follower.is_caught_up(21, 500, at(100_499)));
        assert!(!follower.is_caught_up(21, 500, at(100_500)));
    }

    #[test]
    fn follower_outside_the_isr_begins_an_epoch_without_having_caught_up() {
        let follower = FollowerProgress::new(false, at(100_000));
        assert!(!follower.is_caught_up(0, 500, at(100_000)));
        assert_eq!(follower.lag_deadline(0, 500), Some(at(500)));
    }
}
