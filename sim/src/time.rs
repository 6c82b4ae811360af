//! Simulated time, and the clocks of nodes that disagree with it.

use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

use serde::{Deserialize, Serialize};

/// A point in simulated time, in nanoseconds since the start of the run. No node ever sees it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct SimTime(u64);

impl SimTime {
    /// The start of the run.
    pub const START: Self = Self(0);
    /// Later than any event.
    pub const NEVER: Self = Self(u64::MAX);

    /// Makes a point from nanoseconds since the start.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Makes a point from milliseconds since the start.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Returns nanoseconds since the start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns whole milliseconds since the start.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Returns the point `nanos` later.
    #[must_use]
    pub const fn plus_nanos(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }

    /// Returns the point `millis` later.
    #[must_use]
    pub const fn plus_millis(self, millis: u64) -> Self {
        self.plus_nanos(millis.saturating_mul(1_000_000))
    }
}

impl Add<Duration> for SimTime {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        self.plus_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Sub for SimTime {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>4}.{:06}s",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000 / 1_000
        )
    }
}
