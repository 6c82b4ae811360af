//! The two clocks of a process, read together.

use std::time::{Duration, Instant as StdInstant, SystemTime, UNIX_EPOCH};

use seedlog_core::time::{Instant, Now, Timestamp};

/// Reads both clocks; its monotonic origin is the moment it was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: StdInstant,
}

impl Clock {
    /// Starts a clock at its origin.
    #[must_use]
    pub fn start() -> Self {
        Self {
            origin: StdInstant::now(),
        }
    }

    /// Reads the monotonic and the wall clock.
    #[must_use]
    pub fn now(&self) -> Now {
        Now {
            instant: self.instant(),
            wall: wall(),
        }
    }

    /// Reads the monotonic clock.
    #[must_use]
    pub fn instant(&self) -> Instant {
        Instant::ORIGIN + self.origin.elapsed()
    }

    /// Translates an instant of the machine into one that the runtime can sleep until.
    #[must_use]
    pub fn to_std(&self, instant: Instant) -> StdInstant {
        let since_origin = instant.since(Instant::ORIGIN);
        self.origin
            .checked_add(since_origin)
            .unwrap_or_else(|| StdInstant::now() + FAR_AWAY)
    }
}

fn wall() -> Timestamp {
    let millis = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
    };
    Timestamp::from_millis(millis)
}

/// Stands for "never" where the runtime wants an instant; the deadline is looked at again whenever the sleep ends.
const FAR_AWAY: Duration = Duration::from_secs(86_400);
