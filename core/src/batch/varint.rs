//! Zig-zag variable-length integers, as records use them.
//!
//! Surplus bits of a last byte are dropped, as Kafka drops them: a reader that refused them would
//! see another record than the consumers do.

/// Reads a 32-bit integer of at most five bytes and moves `bytes` past it.
pub(super) fn read_i32(bytes: &mut &[u8]) -> Option<i32> {
    let raw = read_u32(bytes)?;
    Some(i32::from_ne_bytes((raw >> 1).to_ne_bytes()) ^ -i32::from(raw & 1 == 1))
}

/// Reads a 64-bit integer of at most ten bytes and moves `bytes` past it.
pub(super) fn read_i64(bytes: &mut &[u8]) -> Option<i64> {
    let mut raw: u64 = 0;
    for shift in (0..=63).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        raw |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            let half = i64::from_ne_bytes((raw >> 1).to_ne_bytes());
            return Some(half ^ -i64::from(raw & 1 == 1));
        }
    }
    None
}

fn read_u32(bytes: &mut &[u8]) -> Option<u32> {
    let mut raw: u32 = 0;
    for shift in (0..=28).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        raw |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(raw);
        }
    }
    None
}

/// Appends a 32-bit integer.
pub(super) fn write_i32(out: &mut Vec<u8>, value: i32) {
    write_i64(out, i64::from(value));
}

/// Appends a 64-bit integer.
pub(super) fn write_i64(out: &mut Vec<u8>, value: i64) {
    let mut raw = zigzag(value);
    while raw > 0x7f {
        let [low, ..] = raw.to_le_bytes();
        out.push(low | 0x80);
        raw >>= 7;
    }
    let [low, ..] = raw.to_le_bytes();
    out.push(low);
}

/// Tells how many bytes an integer takes; the same for both widths.
pub(super) fn size_of(value: i64) -> usize {
    let mut raw = zigzag(value);
    let mut size = 1;
    while raw > 0x7f {
        raw >>= 7;
        size += 1;
    }
    size
}

fn zigzag(value: i64) -> u64 {
    u64::from_ne_bytes(((value << 1) ^ (value >> 63)).to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_have_known_bytes() {
        let cases: &[(i64, &[u8])] = &[
            (0, &[0x00]),
            (-1, &[0x01]),
            (1, &[0x02]),
            (63, &[0x7e]),
            (-64, &[0x7f]),
            (64, &[0x80, 0x01]),
            (8191, &[0xfe, 0x7f]),
            (i64::from(i32::MAX), &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
            (i64::from(i32::MIN), &[0xff, 0xff, 0xff, 0xff, 0x0f]),
            (
                i64::MIN,
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            ),
        ];
        for (value, bytes) in cases {
            let mut out = Vec::new();
            write_i64(&mut out, *value);
            assert_eq!(out, *bytes);
            assert_eq!(size_of(*value), bytes.len());
            assert_eq!(read_i64(&mut out.as_slice()), Some(*value));
            if let Ok(small) = i32::try_from(*value) {
                assert_eq!(read_i32(&mut out.as_slice()), Some(small));
            }
        }
    }

    #[test]
    fn integer_without_end_is_refused() {
        assert_eq!(read_i32(&mut [0x80; 5].as_slice()), None);
        assert_eq!(read_i64(&mut [0x80; 10].as_slice()), None);
        assert_eq!(read_i32(&mut [].as_slice()), None);
        assert_eq!(read_i64(&mut [0xff].as_slice()), None);
    }

    #[test]
    fn surplus_bits_are_dropped_as_kafka_drops_them() {
        let mut bytes: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0x7f, 9];
        assert_eq!(read_i32(&mut bytes), Some(i32::MIN));
        assert_eq!(bytes, [9]);
    }
}
