//! Chance under the seed: named streams, so that a draw added in one part does not shift the draws of another.

use std::ops::RangeInclusive;

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use crate::digest::Digest;

/// Makes the streams of one run.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    seed: u64,
}

impl Streams {
    /// Names the seed from which every stream is derived.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Returns the seed.
    #[must_use]
    pub const fn seed(self) -> u64 {
        self.seed
    }

    /// Makes the stream of one part; the same name always gives the same stream.
    #[must_use]
    pub fn stream(self, name: &str) -> Stream {
        self.numbered(name, 0)
    }

    /// Makes the stream of one of several like parts: a node, a client, an incarnation.
    #[must_use]
    pub fn numbered(self, name: &str, number: u64) -> Stream {
        let mut label = Digest::new();
        label.bytes(name.as_bytes());
        let mut key = [0; 32];
        let words = [self.seed, label.value(), number, KEY_VERSION];
        for (place, word) in key.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        Stream {
            generator: ChaCha8Rng::from_seed(key),
            digest: Digest::new(),
            drawn: 0,
        }
    }
}

/// A generator with a stable stream; every draw is folded into a digest.
#[derive(Clone, Debug)]
pub struct Stream {
    generator: ChaCha8Rng,
    digest: Digest,
    drawn: u64,
}

impl Stream {
    /// A stream for code that draws nothing.
    pub(crate) fn unused() -> Self {
        Streams::new(0).stream("unused")
    }

    /// Draws 64 bits.
    pub fn word(&mut self) -> u64 {
        let word = self.generator.next_u64();
        self.drawn += 1;
        self.digest.word(word);
        word
    }

    /// Draws a number below `bound`; 0 if the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.word()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or_default()
    }

    /// Draws an index into a collection of `len` elements; 0 if it is empty.
    pub fn index(&mut self, len: usize) -> usize {
        let bound = u64::try_from(len).unwrap_or(u64::MAX);
        usize::try_from(self.below(bound)).unwrap_or_default()
    }

    /// Draws a number of a range, each as likely as any other.
    pub fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (low, high) = range.into_inner();
        let span = high.saturating_sub(low).saturating_add(1);
        low + self.below(span)
    }

    /// Draws a number of a range, each order of magnitude as likely as any other.
    pub fn magnitude(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (low, high) = range.into_inner();
        let low = low.max(1);
        let high = high.max(low);
        let bits = self.within(u64::from(low.ilog2())..=u64::from(high.ilog2()));
        let base = 1_u64 << bits;
        let top = base.saturating_mul(2).saturating_sub(1);
        self.within(base.max(low)..=top.min(high))
    }

    /// Says yes `permille` times in a thousand.
    pub fn permille(&mut self, permille: u32) -> bool {
        self.below(1000) < u64::from(permille)
    }

    /// Says yes once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Picks an element.
    ///
    /// # Panics
    ///
    /// Panics if there is none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        assert!(!from.is_empty(), "nothing to pick from");
        &from[self.index(from.len())]
    }

    /// Draws bytes.
    pub fn fill<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        for piece in bytes.chunks_mut(8) {
            let word = self.word().to_le_bytes();
            piece.copy_from_slice(&word[..piece.len()]);
        }
        bytes
    }

    /// Returns a digest over all draws so far and their number.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut all = self.digest;
        all.word(self.drawn);
        all.value()
    }
}

/// Changes every stream at once, should the derivation ever have to change.
const KEY_VERSION: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_different_names_do_not_shift_each_other() {
        let streams = Streams::new(7);
        let mut alone = streams.stream("disk");
        let expected: Vec<u64> = (0..4).map(|_| alone.word()).collect();
        let mut disk = streams.stream("disk");
        let mut link = streams.stream("link");
        let mixed: Vec<u64> = (0..4)
            .map(|_| {
                link.word();
                disk.word()
            })
            .collect();
        assert_eq!(mixed, expected);
        assert_ne!(streams.numbered("disk", 1).word(), expected[0]);
        assert_ne!(Streams::new(8).stream("disk").word(), expected[0]);
    }

    #[test]
    fn stream_is_stable_across_builds() {
        let mut stream = Streams::new(42).stream("golden");
        assert_eq!(stream.word(), 1_243_408_965_806_048_788);
    }

    #[test]
    fn draws_stay_in_range() {
        let mut stream = Streams::new(1).stream("range");
        for _ in 0..10_000 {
            assert!((5..=9).contains(&stream.within(5..=9)));
            assert!((3..=70_000).contains(&stream.magnitude(3..=70_000)));
            assert!(stream.index(3) < 3);
        }
        assert_eq!(stream.below(0), 0);
        assert!(!stream.permille(0));
        assert!(stream.permille(1000));
    }
}
