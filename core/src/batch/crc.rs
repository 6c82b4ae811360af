//! Arithmetic on CRC-32C values, so that a changed header costs no pass over the records.
//!
//! A CRC is a polynomial over GF(2) modulo the Castagnoli polynomial, written here with the highest
//! power in the lowest bit. Appending `n` bytes multiplies what came before by x^8n, and the
//! checksum of two pieces is the product for the first plus the checksum of the second.

/// The Castagnoli polynomial, bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// x^1, x^2, x^4, x^8 and so on, for every bit of a length in bits.
const POWERS: [u32; 67] = powers();

/// Gives what `crc` contributes to a checksum once `len` more bytes follow.
pub(super) fn shift(crc: u32, len: usize) -> u32 {
    let mut product = crc;
    let mut rest = len;
    // The first three powers are for single bits, and a length counts bytes.
    for power in &POWERS[3..] {
        if rest & 1 == 1 {
            product = multiply(*power, product);
        }
        rest >>= 1;
        if rest == 0 {
            break;
        }
    }
    product
}

const fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut mask = 1 << 31;
    while mask != 0 {
        if a & mask != 0 {
            product ^= b;
        }
        mask >>= 1;
        b = if b & 1 == 1 {
            (b >> 1) ^ POLYNOMIAL
        } else {
            b >> 1
        };
    }
    product
}

const fn powers() -> [u32; 67] {
    let mut powers = [1 << 30; 67];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = multiply(powers[at - 1], powers[at - 1]);
        at += 1;
    }
    powers
}

#[cfg(test)]
mod tests {
    use super::shift;

    #[test]
    fn shifted_checksum_joins_two_pieces() {
        let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
        for len in [0, 1, 2, 3, 61, 255, 256, 4_095, 65_536, 69_999] {
            let (first, second) = bytes.split_at(bytes.len() - len);
            let joined = shift(crc32c::crc32c(first), len) ^ crc32c::crc32c(second);
            assert_eq!(joined, crc32c::crc32c(&bytes), "{len}");
        }
    }
}
