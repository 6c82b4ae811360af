//! Finding a record inside a batch by its timestamp, for ListOffsets.

use super::record::{RecordFault, Records};
use crate::ids::Offset;

/// A record's place and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampOffset {
    /// The timestamp.
    pub timestamp: i64,
    /// The offset.
    pub offset: Offset,
}

/// Finds the first record at or after `timestamp` whose offset is at least `offset_min`.
///
/// Timestamps need not be in order within a batch; the first by offset counts. The caller skips
/// batches whose header says that their max timestamp is smaller.
pub fn first_at_or_after(
    records: &Records<'_>,
    timestamp: i64,
    offset_min: Offset,
) -> Result<Option<TimestampOffset>, RecordFault> {
    for record in records {
        let record = record?;
        if record.timestamp >= timestamp && record.offset >= offset_min {
            return Ok(Some(TimestampOffset {
                timestamp: record.timestamp,
                offset: record.offset,
            }));
        }
    }
    Ok(None)
}

/// Finds the record with the largest timestamp; the earliest of several, as for Kafka's
/// ListOffsets timestamp -3. Under `LogAppendTime` that is the first of the batch.
pub fn max_timestamp(records: &Records<'_>) -> Result<Option<TimestampOffset>, RecordFault> {
    let mut found: Option<TimestampOffset> = None;
    for record in records {
        let record = record?;
        if found.is_none_or(|best| record.timestamp > best.timestamp) {
            found = Some(TimestampOffset {
                timestamp: record.timestamp,
                offset: record.offset,
            });
        }
    }
    Ok(found)
}
