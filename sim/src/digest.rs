//! A fast, stable digest: the whole run is folded into one number.

/// Folds words and bytes, in order, into 64 bits. Not cryptographic; equal inputs are what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    state: u64,
}

impl Default for Digest {
    fn default() -> Self {
        Self::new()
    }
}

impl Digest {
    /// Starts empty.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: START }
    }

    /// Folds a word. Each step is a bijection of the state, so nothing folded earlier is ever forgotten.
    #[inline]
    pub const fn word(&mut self, word: u64) {
        let mixed = (self.state.rotate_left(23) ^ word).wrapping_mul(FACTOR);
        self.state = mixed ^ (mixed >> 29);
    }

    /// Folds bytes and their number.
    pub fn bytes(&mut self, bytes: &[u8]) {
        // Two lanes: the multiplications of one do not wait for the other's.
        let mut even = self.state;
        let mut odd = START;
        let mut pairs = bytes.chunks_exact(16);
        for pair in pairs.by_ref() {
            let (low, high) = pair.split_at(8);
            even = (even ^ read_word(low)).wrapping_mul(FACTOR).rotate_left(31);
            odd = (odd ^ read_word(high)).wrapping_mul(FACTOR).rotate_left(31);
        }
        self.state = even;
        self.word(odd);
        for rest in pairs.remainder().chunks(8) {
            self.word(read_word(rest));
        }
        self.word(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    }

    /// Returns the digest of all that was folded.
    #[must_use]
    pub const fn value(&self) -> u64 {
        let mixed = (self.state ^ (self.state >> 32)).wrapping_mul(FACTOR);
        mixed ^ (mixed >> 29)
    }

    /// Digests one byte string.
    #[must_use]
    pub fn of(bytes: &[u8]) -> u64 {
        let mut digest = Self::new();
        digest.bytes(bytes);
        digest.value()
    }
}

fn read_word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

const START: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTOR: u64 = 0xd6e8_feb8_6659_fd93;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_and_the_length_count() {
        let bytes: Vec<u8> = (0..100).collect();
        let whole = Digest::of(&bytes);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert_ne!(Digest::of(&changed), whole, "byte {at} bit {bit}");
            }
        }
        assert_ne!(Digest::of(&[0; 8]), Digest::of(&[0; 9]));
        assert_ne!(Digest::of(&[]), Digest::of(&[0]));
    }

    #[test]
    fn order_counts() {
        let mut ab = Digest::new();
        ab.word(1);
        ab.word(2);
        let mut ba = Digest::new();
        ba.word(2);
        ba.word(1);
        assert_ne!(ab.value(), ba.value());
    }
}
