//! Record batches (magic 2) as checkers and workloads see them: written and read on their own, never by the code under test.

use std::fmt;

use bytes::Bytes;

/// A value that no other record of the run carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u64);

impl fmt::Display for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

/// The header of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record.
    pub base: i64,
    /// Bytes of the whole batch.
    pub size: usize,
    /// Epoch of the leader that appended it.
    pub leader_epoch: i32,
    /// Offset of the last record.
    pub last: i64,
    /// Attributes: codec, timestamp type, control.
    pub attributes: i16,
    /// Largest timestamp, milliseconds.
    pub max_timestamp: i64,
    /// How many records.
    pub count: i32,
}

impl BatchHeader {
    /// Reads the header of a batch that is whole in `bytes`; `None` where there is none.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let base = i64::from_be_bytes(field(bytes, 0)?);
        let length = i32::from_be_bytes(field(bytes, 8)?);
        let size = usize::try_from(length).ok()?.checked_add(12)?;
        if size < HEADER || bytes.len() < size || bytes[16] != 2 || base < 0 {
            return None;
        }
        let delta = i32::from_be_bytes(field(bytes, 23)?);
        if delta < 0 {
            return None;
        }
        Some(Self {
            base,
            size,
            leader_epoch: i32::from_be_bytes(field(bytes, 12)?),
            last: base.checked_add(i64::from(delta))?,
            attributes: i16::from_be_bytes(field(bytes, 21)?),
            max_timestamp: i64::from_be_bytes(field(bytes, 35)?),
            count: i32::from_be_bytes(field(bytes, 57)?),
        })
    }

    /// Whether the batch's checksum fits its bytes.
    #[must_use]
    pub fn is_intact(bytes: &[u8]) -> bool {
        let (Some(header), Some(crc)) = (Self::read(bytes), field(bytes, 17)) else {
            return false;
        };
        crc32c::crc32c(&bytes[21..header.size]) == u32::from_be_bytes(crc)
    }

    /// Whether the batch belongs to the log itself and not to a user.
    #[must_use]
    pub const fn is_control(&self) -> bool {
        self.attributes & 0x20 != 0
    }
}

/// A record as a reader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenRecord {
    /// Its offset.
    pub offset: i64,
    /// Its value, `None` if the bytes are nothing that a workload ever wrote.
    pub value: Option<ValueId>,
    /// Its timestamp, milliseconds.
    pub timestamp: i64,
    /// Epoch of the leader that appended it.
    pub leader_epoch: i32,
}

/// Writes an uncompressed batch of unique values.
#[must_use]
pub fn encode(values: &[ValueId], padding: usize, timestamp: i64) -> Bytes {
    let mut records = Vec::with_capacity(values.len() * (padding + 32));
    for (delta, value) in (0_i64..).zip(values) {
        let body = value_bytes(*value, padding);
        let mut record = vec![0]; // attributes
        varint(&mut record, 0);
        varint(&mut record, delta);
        varint(&mut record, -1); // no key
        varint(&mut record, i64::try_from(body.len()).unwrap_or_default());
        record.extend_from_slice(&body);
        varint(&mut record, 0); // headers
        varint(
            &mut records,
            i64::try_from(record.len()).unwrap_or_default(),
        );
        records.extend_from_slice(&record);
    }
    let count = i32::try_from(values.len()).unwrap_or(i32::MAX);
    let mut batch = Vec::with_capacity(HEADER + records.len());
    batch.extend_from_slice(&0_i64.to_be_bytes());
    let length = HEADER - 12 + records.len();
    batch.extend_from_slice(&i32::try_from(length).unwrap_or(i32::MAX).to_be_bytes());
    batch.extend_from_slice(&(-1_i32).to_be_bytes()); // leader epoch, the broker's to set
    batch.push(2);
    batch.extend_from_slice(&[0; 4]); // checksum, below
    batch.extend_from_slice(&0_i16.to_be_bytes());
    batch.extend_from_slice(&(count - 1).to_be_bytes());
    batch.extend_from_slice(&timestamp.to_be_bytes());
    batch.extend_from_slice(&timestamp.to_be_bytes());
    batch.extend_from_slice(&(-1_i64).to_be_bytes()); // producer id
    batch.extend_from_slice(&(-1_i16).to_be_bytes()); // producer epoch
    batch.extend_from_slice(&(-1_i32).to_be_bytes()); // base sequence
    batch.extend_from_slice(&count.to_be_bytes());
    batch.extend_from_slice(&records);
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    Bytes::from(batch)
}

/// Reads all whole batches at the start of `bytes`, as a consumer reads a fetch answer.
///
/// A batch whose checksum or structure is wrong gives one record without a value at its base offset: invented data.
#[must_use]
pub fn decode(mut bytes: &[u8]) -> Vec<SeenRecord> {
    let mut seen = Vec::new();
    while let Some(header) = BatchHeader::read(bytes) {
        let (batch, rest) = bytes.split_at(header.size);
        bytes = rest;
        if header.is_control() {
            continue;
        }
        let whole = BatchHeader::is_intact(batch) && header.attributes & 0x07 == 0;
        let records = if whole {
            decode_records(batch, header)
        } else {
            None
        };
        match records {
            Some(mut records) => seen.append(&mut records),
            None => seen.push(SeenRecord {
                offset: header.base,
                value: None,
                timestamp: header.max_timestamp,
                leader_epoch: header.leader_epoch,
            }),
        }
    }
    seen
}

fn decode_records(batch: &[u8], header: BatchHeader) -> Option<Vec<SeenRecord>> {
    let base_timestamp = i64::from_be_bytes(field(batch, 27)?);
    let log_append_time = header.attributes & 0x08 != 0;
    let mut rest = &batch[HEADER..];
    let mut records = Vec::new();
    for _ in 0..header.count {
        let length = usize::try_from(read_varint(&mut rest)?).ok()?;
        let mut record = rest.get(..length)?;
        rest = &rest[length..];
        record = record.get(1..)?;
        let timestamp = base_timestamp.checked_add(read_varint(&mut record)?)?;
        let delta = read_varint(&mut record)?;
        let key = usize::try_from(read_varint(&mut record)?.max(0)).ok()?;
        record = record.get(key..)?;
        let length = usize::try_from(read_varint(&mut record)?).ok()?;
        records.push(SeenRecord {
            offset: header.base.checked_add(delta)?,
            value: read_value(record.get(..length)?),
            timestamp: if log_append_time {
                header.max_timestamp
            } else {
                timestamp
            },
            leader_epoch: header.leader_epoch,
        });
    }
    Some(records)
}

/// The bytes of a value: its number, then padding that only this number has.
fn value_bytes(value: ValueId, padding: usize) -> Vec<u8> {
    let mut bytes = value.0.to_be_bytes().to_vec();
    bytes.extend((0..padding).map(|at| pad(value, at)));
    bytes
}

fn read_value(bytes: &[u8]) -> Option<ValueId> {
    let value = ValueId(u64::from_be_bytes(field(bytes, 0)?));
    let right = bytes[8..]
        .iter()
        .enumerate()
        .all(|(at, byte)| *byte == pad(value, at));
    right.then_some(value)
}

fn pad(value: ValueId, at: usize) -> u8 {
    value.0.to_le_bytes()[at % 8] ^ at.to_le_bytes()[0] ^ 0x5a
}

fn varint(out: &mut Vec<u8>, value: i64) {
    let mut zigzag = ((value << 1) ^ (value >> 63)).cast_unsigned();
    loop {
        let low = zigzag.to_le_bytes()[0] & 0x7f;
        zigzag >>= 7;
        if zigzag == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

fn read_varint(bytes: &mut &[u8]) -> Option<i64> {
    let mut zigzag = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        zigzag |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed());
        }
    }
    None
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// Bytes of a batch header, base offset and length included.
pub const HEADER: usize = 61;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let values: Vec<ValueId> = (300..310).map(ValueId).collect();
        let batch = encode(&values, 33, 1_234);
        let header = BatchHeader::read(&batch).unwrap();
        assert_eq!((header.base, header.last, header.count), (0, 9, 10));
        let seen = decode(&batch);
        assert_eq!(seen.len(), 10);
        assert_eq!(seen[9].value, Some(ValueId(309)));
        assert_eq!((seen[9].offset, seen[9].timestamp), (9, 1_234));
    }

    #[test]
    fn every_flipped_bit_past_the_patched_fields_is_seen() {
        let batch = encode(&[ValueId(5)], 4, 1);
        for at in 17..batch.len() {
            let mut bad = batch.to_vec();
            bad[at] ^= 1;
            assert!(!BatchHeader::is_intact(&bad), "byte {at}");
        }
    }

    #[test]
    fn torn_batch_is_no_batch() {
        let batch = encode(&[ValueId(5)], 4, 1);
        for len in 0..batch.len() {
            assert_eq!(BatchHeader::read(&batch[..len]), None);
            assert!(decode(&batch[..len]).is_empty());
        }
    }
}
