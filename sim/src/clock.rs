//! The clocks of one node: they may be off, drift, jump, flip and stand still, each node on its own.

use seedlog_core::time::{Instant, Now, Timestamp};

use crate::time::SimTime;

/// A monotonic clock and a wall clock, as one node's driver reads them.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Where the present stretch of even running began, in simulated time …
    anchor: SimTime,
    /// … and on the node's monotonic clock.
    local: u64,
    /// Parts per million by which the node's clocks run fast (or slow, if negative); above -1,000,000.
    drift_ppm: i64,
    /// Wall-clock milliseconds at local zero.
    wall_base: i64,
    strobe: Option<Strobe>,
    stalled_until: Option<SimTime>,
}

#[derive(Clone, Copy, Debug)]
struct Strobe {
    by_ms: i64,
    period_nanos: u64,
    until: SimTime,
}

/// The wall clock of a node without skew at the start of a run: 2026-01-01 UTC.
pub const WALL_START_MS: i64 = 1_767_225_600_000;

impl Clock {
    /// Makes a clock that runs evenly and is `skew_ms` off.
    #[must_use]
    pub const fn new(skew_ms: i64) -> Self {
        Self {
            anchor: SimTime::START,
            local: 0,
            drift_ppm: 0,
            wall_base: WALL_START_MS + skew_ms,
            strobe: None,
            stalled_until: None,
        }
    }

    /// Reads both clocks.
    #[must_use]
    pub fn read(&self, at: SimTime) -> Now {
        let local = self.local_at(at);
        Now {
            instant: Instant::from_nanos(local),
            wall: Timestamp::from_millis(self.wall_at(at, local)),
        }
    }

    /// Returns when, in simulated time, the monotonic clock first shows `deadline`.
    #[must_use]
    pub fn when(&self, deadline: Instant) -> SimTime {
        let wait = deadline.as_nanos().saturating_sub(self.local);
        if deadline == Instant::NEVER {
            return SimTime::NEVER;
        }
        let rate = u128::try_from(PPM + self.drift_ppm).unwrap_or(1).max(1);
        let span = (u128::from(wait) * PPM.unsigned_abs() as u128).div_ceil(rate);
        let begin = self
            .stalled_until
            .map_or(self.anchor, |until| until.max(self.anchor));
        begin.plus_nanos(u64::try_from(span).unwrap_or(u64::MAX))
    }

    /// Moves the wall clock.
    pub const fn jump(&mut self, by_ms: i64) {
        self.wall_base = self.wall_base.saturating_add(by_ms);
    }

    /// Makes both clocks run fast or slow from now on; 0 lets them run evenly again.
    pub fn drift(&mut self, at: SimTime, ppm: i64) {
        self.settle(at);
        self.drift_ppm = ppm.clamp(-MAX_DRIFT_PPM, MAX_DRIFT_PPM);
    }

    /// Makes the wall clock flip between right and `by_ms` off until `until`.
    pub const fn strobe(&mut self, by_ms: i64, period_nanos: u64, until: SimTime) {
        self.strobe = Some(Strobe {
            by_ms,
            period_nanos: if period_nanos == 0 { 1 } else { period_nanos },
            until,
        });
    }

    /// Makes the monotonic clock stand still until `until`, as in a suspended virtual machine.
    pub fn stall(&mut self, at: SimTime, until: SimTime) {
        self.settle(at);
        self.stalled_until = Some(until);
    }

    /// Ends every fault but a constant skew: the clock runs evenly from here on.
    pub fn heal(&mut self, at: SimTime) {
        self.settle(at);
        self.drift_ppm = 0;
        self.strobe = None;
        self.stalled_until = None;
    }

    /// A new process: the monotonic clock starts anywhere.
    pub fn restart(&mut self, at: SimTime, origin_nanos: u64) {
        self.settle(at);
        let elapsed_ms = i64::try_from(self.local / 1_000_000).unwrap_or(i64::MAX);
        let origin_ms = i64::try_from(origin_nanos / 1_000_000).unwrap_or(i64::MAX);
        self.wall_base = self.wall_base.saturating_add(elapsed_ms - origin_ms);
        self.local = origin_nanos;
    }

    fn settle(&mut self, at: SimTime) {
        self.local = self.local_at(at);
        self.anchor = at;
        if self.stalled_until.is_some_and(|until| until <= at) {
            self.stalled_until = None;
        }
    }

    fn local_at(&self, at: SimTime) -> u64 {
        let begin = self
            .stalled_until
            .map_or(self.anchor, |until| until.max(self.anchor));
        let span = at.as_nanos().saturating_sub(begin.as_nanos());
        if self.drift_ppm == 0 {
            return self.local.saturating_add(span);
        }
        let rate = u128::try_from(PPM + self.drift_ppm).unwrap_or(1);
        let run = u128::from(span) * rate / PPM.unsigned_abs() as u128;
        self.local
            .saturating_add(u64::try_from(run).unwrap_or(u64::MAX))
    }

    fn wall_at(&self, at: SimTime, local: u64) -> i64 {
        let elapsed = i64::try_from(local / 1_000_000).unwrap_or(i64::MAX);
        let wall = self.wall_base.saturating_add(elapsed);
        match self.strobe {
            Some(strobe) if at < strobe.until && at.as_nanos() / strobe.period_nanos % 2 == 1 => {
                wall.saturating_add(strobe.by_ms)
            }
            Some(_) | None => wall,
        }
    }
}

const PPM: i64 = 1_000_000;
const MAX_DRIFT_PPM: i64 = 500_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn second(n: u64) -> SimTime {
        SimTime::from_millis(n * 1000)
    }

    #[test]
    fn deadline_is_never_early_whatever_the_clock_does() {
        let mut clock = Clock::new(-250);
        clock.drift(second(1), 137);
        clock.stall(second(2), second(5));
        for nanos in [2_000_300_000, 2_500_000_001, 9_999_999_999_u64] {
            let at = clock.when(Instant::from_nanos(nanos));
            assert!(clock.read(at).instant >= Instant::from_nanos(nanos));
            assert!(at > second(5), "the clock stands still until then");
            let before = SimTime::from_nanos(at.as_nanos() - 2);
            assert!(clock.read(before).instant < Instant::from_nanos(nanos));
        }
        assert_eq!(clock.when(Instant::NEVER), SimTime::NEVER);
    }

    #[test]
    fn wall_jumps_but_monotonic_does_not() {
        let mut clock = Clock::new(0);
        clock.jump(-5_000);
        let now = clock.read(second(1));
        assert_eq!(now.instant, Instant::from_nanos(1_000_000_000));
        assert_eq!(now.wall.as_millis(), WALL_START_MS - 4_000);
    }

    #[test]
    fn restart_moves_the_origin_and_keeps_the_wall() {
        let mut clock = Clock::new(0);
        let before = clock.read(second(3));
        clock.restart(second(3), 77_000_000_000);
        let after = clock.read(second(3));
        assert_eq!(after.instant, Instant::from_nanos(77_000_000_000));
        assert_eq!(after.wall, before.wall);
    }

    #[test]
    fn strobe_flips_and_ends() {
        let mut clock = Clock::new(0);
        clock.strobe(60_000, 1_000_000_000, second(10));
        let offs: Vec<i64> = [2, 3, 4, 11]
            .map(|at| {
                clock.read(second(at)).wall.as_millis()
                    - WALL_START_MS
                    - i64::try_from(at).unwrap() * 1000
            })
            .to_vec();
        assert_eq!(offs, [0, 60_000, 0, 0]);
    }
}
