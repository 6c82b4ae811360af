//! The form of a line: topic id, partition, offset, checksum.

use crate::ids::{Offset, Uuid};

/// Length of a line, its end included.
pub(super) const LINE_BYTES: usize = 64;
/// Bytes of a line that its checksum covers.
const COVERED_BYTES: usize = 55;

/// A log by the id of its topic: a topic created anew under an old name has other marks.
pub(super) type LogId = (Uuid, i32);

/// Writes a line; a blank one for no log.
pub(super) fn encode(line: &Option<(LogId, Offset)>) -> Vec<u8> {
    let Some(((topic_id, partition), offset)) = line else {
        return format!("{:63}\n", "").into_bytes();
    };
    let covered = format!("{topic_id} {partition:>10} {offset:>20} ");
    let crc = crc32c::crc32c(covered.as_bytes());
    format!("{covered}{crc:08x}\n").into_bytes()
}

/// Reads a line; `None` when it is blank or damaged.
pub(super) fn decode(line: &[u8]) -> Option<(LogId, Offset)> {
    let text = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (covered, crc) = text.split_at_checked(COVERED_BYTES)?;
    let crc = u32::from_str_radix(crc, 16).ok()?;
    if crc != crc32c::crc32c(covered.as_bytes()) {
        return None;
    }
    let mut fields = covered.split_ascii_whitespace();
    let topic_id = Uuid::from_base64(fields.next()?)?;
    let partition = fields.next()?.parse().ok()?;
    let offset = fields.next()?.parse().ok()?;
    Some(((topic_id, partition), offset))
}
