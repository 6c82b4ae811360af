//! One batch of the metadata log or of a snapshot, written and read.

use bytes::Bytes;

use crate::{
    batch::{
        Batch, BatchView, BuildError, CompressionType, NewRecord, OpenError, RecordFault, Records,
        ScanFault,
    },
    ids::{Epoch, Offset},
    time::Timestamp,
};

use super::control::{ControlFault, ControlRecord, builder, control_batch};

/// No batch of records is larger; Kafka's limit for the metadata log.
pub(super) const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A batch, read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) base_offset: Offset,
    /// The offset after the last record.
    pub(super) next_offset: Offset,
    pub(super) epoch: Epoch,
    pub(super) timestamp: Timestamp,
    /// Size of the whole batch.
    pub(super) bytes: u64,
    pub(super) content: Content,
}

/// What a batch holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Metadata records, opaque to the quorum.
    Data(Vec<Bytes>),
    /// Records of the quorum itself.
    Control(Vec<ControlRecord>),
}

/// Why a batch cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum EntryFault {
    /// The bytes are no batch, or not the one whose checksum was taken.
    #[error(transparent)]
    Scan(#[from] ScanFault),
    /// The records cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A record is malformed.
    #[error("a record is malformed: {0}")]
    Record(#[from] RecordFault),
    /// A control record is not understood.
    #[error("a control record is not understood: {0}")]
    Control(#[from] ControlFault),
    /// Compressed, or a record without a value: the quorum never writes such a batch.
    #[error("no quorum writes such a batch")]
    Foreign,
}

impl Entry {
    /// Reads a batch out of the bytes that hold it; values of records share those bytes.
    pub(super) fn read(view: &BatchView<'_>, bytes: &Bytes) -> Result<Self, EntryFault> {
        view.check_crc()?;
        let header = view.header();
        let attributes = header.attributes();
        if attributes.codec() != Some(CompressionType::None) {
            return Err(EntryFault::Foreign);
        }
        let records = Records::open(view.bytes(), BATCH_BYTES_MAX)?;
        let content = if attributes.is_control() {
            let read = records
                .iter()
                .map(|record| Ok(ControlRecord::read(&record?)?));
            Content::Control(read.collect::<Result<_, EntryFault>>()?)
        } else {
            let read = records.iter().map(|record| {
                // The records are not compressed, so each value lies within the bytes that were read.
                let value = record?.value.ok_or(EntryFault::Foreign)?;
                Ok(bytes.slice_ref(value))
            });
            Content::Data(read.collect::<Result<_, EntryFault>>()?)
        };
        let held = match &content {
            Content::Data(records) => records.len(),
            Content::Control(records) => records.len(),
        };
        let delta = usize::try_from(header.last_offset_delta()).ok();
        if held == 0 || delta != Some(held - 1) || header.base_offset() < 0 {
            return Err(EntryFault::Foreign);
        }
        Ok(Self {
            base_offset: header.base_offset(),
            next_offset: header.next_offset().ok_or(EntryFault::Foreign)?,
            epoch: header.partition_leader_epoch(),
            timestamp: Timestamp::from_millis(header.max_timestamp()),
            bytes: u64::try_from(view.bytes().len()).unwrap_or(u64::MAX),
            content,
        })
    }

    /// Makes an entry out of records that are about to be written, and the batch to write.
    ///
    /// # Errors
    /// Passes on why the batch cannot be built: it would be too large.
    pub(super) fn build(
        base_offset: Offset,
        epoch: Epoch,
        timestamp: Timestamp,
        content: Content,
    ) -> Result<(Self, Batch), BuildError> {
        let mut batch = builder(base_offset, epoch);
        match &content {
            Content::Control(records) => batch = control_batch(batch, timestamp, records)?,
            Content::Data(records) => {
                for record in records {
                    let record = data_record(timestamp, record);
                    if !batch.has_room_for(&record, BATCH_BYTES_MAX) {
                        return Err(BuildError::TooLarge);
                    }
                    batch.append(&record)?;
                }
            }
        }
        let batch = batch.build_batch()?;
        if batch.size() > BATCH_BYTES_MAX {
            return Err(BuildError::TooLarge);
        }
        let entry = Self {
            base_offset,
            next_offset: batch.header().next_offset().ok_or(BuildError::TooLarge)?,
            epoch,
            timestamp,
            bytes: u64::try_from(batch.size()).unwrap_or(u64::MAX),
            content,
        };
        Ok((entry, batch))
    }
}

/// A metadata record: a value without a key.
pub(super) fn data_record(timestamp: Timestamp, value: &Bytes) -> NewRecord<'_> {
    NewRecord {
        timestamp: timestamp.as_millis(),
        key: None,
        value: Some(value),
        headers: &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::BatchIter;

    fn read(bytes: &Bytes) -> Result<Entry, EntryFault> {
        let view = BatchIter::new(bytes, 0).next().expect("a batch")?;
        Entry::read(&view, bytes)
    }

    fn built(content: Content) -> (Entry, Bytes) {
        let timestamp = Timestamp::from_millis(1_000);
        let (entry, batch) = Entry::build(7, Epoch(3), timestamp, content).expect("small");
        (entry, batch.to_bytes())
    }

    #[test]
    fn entry_is_read_as_it_was_built() {
        let data = Content::Data(vec![Bytes::from_static(b"one"), Bytes::from_static(b"two")]);
        let control = Content::Control(vec![ControlRecord::current_kraft_version()]);
        for content in [data, control] {
            let (entry, bytes) = built(content);
            assert_eq!(read(&bytes), Ok(entry));
        }
    }

    #[test]
    fn no_damaged_byte_behind_the_length_is_read() {
        let (entry, bytes) = built(Content::Data(vec![Bytes::from_static(b"one")]));
        for at in 16..bytes.len() {
            let mut bad = bytes.to_vec();
            bad[at] ^= 0x40;
            assert!(read(&Bytes::from(bad)).is_err(), "byte {at}");
        }
        assert_eq!(entry.next_offset, 8);
    }

    #[test]
    fn entry_above_the_limit_is_refused() {
        let records = vec![Bytes::from(vec![0; BATCH_BYTES_MAX])];
        let timestamp = Timestamp::from_millis(0);
        let built = Entry::build(0, Epoch(1), timestamp, Content::Data(records));
        assert_eq!(built.map(|(entry, _)| entry), Err(BuildError::TooLarge));
    }
}
