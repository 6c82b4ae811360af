//! How long a replica waits, drawn where two replicas must not wait equally long.

use rand_chacha::{
    ChaCha12Rng,
    rand_core::{Rng, SeedableRng},
};

use crate::time::Instant;

use super::config::RaftConfig;

/// The first bound of the pause after a lost election; it doubles with every further one.
const BACKOFF_BASE_MS: u64 = 100;
/// The stream of the node's seed that is the quorum's.
const STREAM: u64 = 0x5241_4654;

/// The timeouts, and the generator that spreads them.
#[derive(Debug)]
pub(super) struct Timing {
    rng: ChaCha12Rng,
    election_timeout_ms: u64,
    election_backoff_max_ms: u64,
    fetch_timeout_ms: u64,
}

impl Timing {
    pub(super) fn new(config: &RaftConfig) -> Self {
        let mut rng = ChaCha12Rng::from_seed(config.seed);
        rng.set_stream(STREAM);
        Self {
            rng,
            election_timeout_ms: config.election_timeout_ms.max(1),
            election_backoff_max_ms: config.election_backoff_max_ms.max(1),
            fetch_timeout_ms: config.fetch_timeout_ms.max(1),
        }
    }

    /// Draws a number.
    pub(super) fn draw(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// Draws when an election that is not won by then is lost: after one to two election timeouts.
    pub(super) fn election_end(&mut self, now: Instant) -> Instant {
        let extra = self.draw() % self.election_timeout_ms;
        now.plus_millis(self.election_timeout_ms.saturating_add(extra))
    }

    /// Draws when to stand again after `lost` elections in a row.
    pub(super) fn next_election(&mut self, now: Instant, lost: u32) -> Instant {
        let doublings = lost.clamp(1, 20);
        let bound = (BACKOFF_BASE_MS << doublings).min(self.election_backoff_max_ms);
        now.plus_millis(1 + self.draw() % bound.max(1))
    }

    /// Returns when the replica at a place in the list of preferred successors stands for election.
    pub(super) fn succession(&self, now: Instant, place: usize) -> Instant {
        let wait = match u32::try_from(place) {
            Ok(0) => 0,
            Ok(place) => (BACKOFF_BASE_MS << place.clamp(1, 20)).min(self.election_backoff_max_ms),
            Err(_) => self.election_backoff_max_ms,
        };
        now.plus_millis(wait)
    }

    /// Returns when a replica gives up a leader from which it has fetched now.
    pub(super) const fn fetch_end(&self, now: Instant) -> Instant {
        now.plus_millis(self.fetch_timeout_ms)
    }

    /// Returns when a leader gives up that a majority has fetched from by then. As in Kafka it waits one and a half times as
    /// long as its followers: a follower that has just found it gets the time to say so.
    pub(super) const fn quorum_end(&self, heard: Instant) -> Instant {
        heard.plus_millis(self.fetch_timeout_ms.saturating_mul(3) / 2)
    }

    /// Returns when a leader reminds a voter of itself that has last fetched at `heard`.
    pub(super) const fn reminder(&self, heard: Instant) -> Instant {
        heard.plus_millis(self.fetch_timeout_ms / 2)
    }
}
