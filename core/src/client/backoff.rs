//! Waits that grow: exponential back-off with jitter (KIP-144, KIP-580).

use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// A first and a longest wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    pub(crate) first_ms: u64,
    pub(crate) max_ms: u64,
}

impl Backoff {
    /// Returns the wait after this many failures in a row, in milliseconds: doubled each time, and
    /// 20 % more or less, so that clients that failed together do not come back together.
    pub(crate) fn wait_ms(self, failures: u32, rng: &mut ChaCha8Rng) -> u64 {
        let doublings = failures.saturating_sub(1).min(32);
        let wait = self
            .first_ms
            .saturating_mul(1 << doublings)
            .min(self.max_ms);
        let percent = 80 + u64::from(rng.next_u32() % 41);
        wait.saturating_mul(percent) / 100
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn wait_doubles_up_to_the_longest_with_a_fifth_of_jitter() {
        let backoff = Backoff {
            first_ms: 100,
            max_ms: 1_000,
        };
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for (failures, wait) in [(1, 100), (2, 200), (4, 800), (5, 1_000), (u32::MAX, 1_000)] {
            for _ in 0..50 {
                let drawn = backoff.wait_ms(failures, &mut rng);
                assert!((wait * 80 / 100..=wait * 120 / 100).contains(&drawn));
            }
        }
    }
}
