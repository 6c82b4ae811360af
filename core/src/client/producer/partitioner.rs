//! Which partition a record goes to when it does not say.

use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// Returns the partition of a key, as Kafka's clients agree on it.
#[must_use]
pub fn partition_for_key(key: &[u8], partitions: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff) % partitions.max(1)
}

/// Hashes a key: MurmurHash2 with the seed that Kafka chose.
#[must_use]
pub fn murmur2(data: &[u8]) -> u32 {
    const MIX: u32 = 0x5bd1_e995;
    let (words, tail) = data.as_chunks::<4>();
    // Kafka folds the length into the seed as a 32-bit number.
    let length = u32::try_from(data.len() & 0xffff_ffff).unwrap_or(u32::MAX);
    let mut hash = 0x9747_b28c ^ length;
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(MIX);
        k ^= k >> 24;
        hash = hash.wrapping_mul(MIX) ^ k.wrapping_mul(MIX);
    }
    if !tail.is_empty() {
        let bytes = tail.iter().rev();
        hash ^= bytes.fold(0, |word, byte| word << 8 | u32::from(*byte));
        hash = hash.wrapping_mul(MIX);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MIX);
    hash ^ hash >> 15
}

/// Spreads records without a key: one partition for `batch.size` bytes, then another (KIP-794).
///
/// Kafka can also prefer partitions of brokers that answer fast; this does not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sticky {
    current: Option<i32>,
    bytes: usize,
}

impl Sticky {
    /// Chooses among the partitions that have a leader, or among all if none has.
    pub(super) fn choose(
        &mut self,
        open: &[i32],
        size: usize,
        batch_size: usize,
        rng: &mut ChaCha8Rng,
    ) -> Option<i32> {
        let current = self.current.filter(|at| open.contains(at));
        let stays = current.filter(|_| self.bytes < batch_size.max(1));
        if let Some(partition) = stays {
            self.bytes = self.bytes.saturating_add(size);
            return Some(partition);
        }
        // Another one, if there is another.
        let others: Vec<i32> = open
            .iter()
            .copied()
            .filter(|at| Some(*at) != current)
            .collect();
        let choices = if others.is_empty() { open } else { &others };
        let draw = usize::try_from(rng.next_u32()).unwrap_or_default();
        let chosen = *choices.get(draw.checked_rem(choices.len())?)?;
        *self = Self {
            current: Some(chosen),
            bytes: size,
        };
        Some(chosen)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn keys_hash_as_in_kafkas_clients() {
        let known: [(&[u8], i32); 6] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (
                b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            (b"abc", 479_470_107),
        ];
        for (key, hash) in known {
            assert_eq!(murmur2(key).cast_signed(), hash, "{key:?}");
        }
    }

    #[test]
    fn records_without_key_fill_a_batch_before_they_move_on() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let mut sticky = Sticky::default();
        let mut draw = |sticky: &mut Sticky| sticky.choose(&[0, 1, 2], 50, 100, &mut rng);
        let first = draw(&mut sticky);
        assert_eq!(draw(&mut sticky), first);
        let second = draw(&mut sticky);
        assert_ne!(second, first, "100 bytes are in the first");
        assert_eq!(draw(&mut sticky), second);
    }

    #[test]
    fn partition_without_leader_is_left_at_once() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let mut sticky = Sticky::default();
        assert_eq!(sticky.choose(&[4], 1, 100, &mut rng), Some(4));
        assert_eq!(sticky.choose(&[5], 1, 100, &mut rng), Some(5));
        assert_eq!(sticky.choose(&[], 1, 100, &mut rng), None);
    }
}
