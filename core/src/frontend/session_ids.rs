//! Ids of fetch sessions: not to be guessed, and drawn apart from all other randomness.

use rand_chacha::{
    ChaCha12Rng,
    rand_core::{Rng, SeedableRng},
};

/// The stream of the generator that ids come from; the broker's own draws use the first.
const STREAM: u64 = 1;

/// Where ids come from.
#[derive(Debug)]
pub(crate) struct SessionIds(ChaCha12Rng);

impl SessionIds {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        let mut rng = ChaCha12Rng::from_seed(seed);
        rng.set_stream(STREAM);
        Self(rng)
    }

    /// Draws a number, which may be in use.
    pub(super) fn draw(&mut self) -> i32 {
        let mut bytes = [0; 4];
        self.0.fill_bytes(&mut bytes);
        i32::from_be_bytes(bytes)
    }
}
