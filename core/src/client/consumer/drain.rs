//! From fetched bytes to records, one batch at a time.

use bytes::Bytes;

use super::{ConsumeFault, ConsumedBatch, ConsumedRecord, Consumer, ConsumerEvent, Position};
use crate::{
    batch::{BatchIter, BatchView, Record, Records, ScanFaultKind},
    client::Header,
    ids::{Offset, TopicPartition},
    time::Timestamp,
};

/// Batches of one partition that wait to be handed out.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) partition: TopicPartition,
    pub(super) generation: u64,
    /// What is left of them.
    pub(super) bytes: Bytes,
    /// Whether there were any.
    pub(super) had_bytes: bool,
    pub(super) fetch_offset: Offset,
    pub(super) high_watermark: Offset,
}

/// What came of one batch.
enum Step {
    Records(ConsumedBatch, usize),
    /// Nothing of it is for the user.
    Skipped(Offset, usize),
    /// The answer ends inside of it, as answers of limited size do.
    Cut,
}

impl Consumer {
    /// Makes events of the next batch that waits. Says whether anything came of it.
    pub(super) fn drain(&mut self) -> bool {
        let Some(mut fetched) = self.fetched.pop_front() else {
            return false;
        };
        let current = self
            .assigned
            .get(&fetched.partition)
            .filter(|assigned| assigned.generation == fetched.generation);
        let Some(Position::At(position)) = current.map(|assigned| assigned.position) else {
            return true;
        };
        if fetched.bytes.is_empty() {
            self.drained(&fetched, position);
            return true;
        }
        match self.step(&fetched, position) {
            Ok(Step::Records(batch, size)) => {
                self.set_position(&fetched.partition, batch.next_offset);
                self.events.push_back(ConsumerEvent::Batch(batch));
                fetched.bytes = fetched.bytes.slice(size..);
                self.fetched.push_front(fetched);
            }
            Ok(Step::Skipped(next, size)) => {
                self.set_position(&fetched.partition, next);
                fetched.bytes = fetched.bytes.slice(size..);
                self.fetched.push_front(fetched);
            }
            Ok(Step::Cut) => self.drained(&fetched, position),
            Err(fault) => self.stop(&fetched.partition, Some(position), fault),
        }
        true
    }

    fn set_position(&mut self, partition: &TopicPartition, next: Offset) {
        if let Some(assigned) = self.assigned.get_mut(partition) {
            assigned.position = Position::At(next);
        }
    }

    /// An answer is used up: the partition may be asked for again.
    fn drained(&mut self, fetched: &Fetched, position: Offset) {
        let now = self.now;
        let Some(assigned) = self.assigned.get_mut(&fetched.partition) else {
            return;
        };
        assigned.buffered = false;
        // Bytes that lead nowhere would be fetched over and over.
        if position == fetched.fetch_offset && fetched.had_bytes {
            let fault = ConsumeFault::Damaged(ScanFaultKind::Incomplete {
                have: fetched.bytes.len(),
                need: 0,
            });
            self.stop(&fetched.partition, Some(position), fault);
            return;
        }
        let at_end = position >= fetched.high_watermark;
        if at_end && assigned.end_told != Some(position) {
            assigned.end_told = Some(position);
            self.events.push_back(ConsumerEvent::EndOfPartition {
                partition: fetched.partition.clone(),
                offset: position,
            });
        }
        if self.fetched.is_empty() {
            self.fetch(now);
        }
    }

    fn step(&self, fetched: &Fetched, position: Offset) -> Result<Step, ConsumeFault> {
        let mut batches = BatchIter::new(&fetched.bytes, 0);
        if self.config.check_crcs {
            batches = batches.with_crc();
        }
        let batch = match batches.next() {
            Some(Ok(batch)) => batch,
            Some(Err(fault)) if !fault.kind.is_incomplete() => {
                return Err(ConsumeFault::Damaged(fault.kind));
            }
            Some(Err(_)) | None => return Ok(Step::Cut),
        };
        let header = batch.header();
        let size = batch.bytes().len();
        let next = header
            .next_offset()
            .filter(|_| header.last_offset_delta() >= 0);
        let next = next.ok_or(ConsumeFault::Malformed(crate::batch::RecordFault::Offset))?;
        if next <= position || header.attributes().is_control() {
            return Ok(Step::Skipped(next.max(position), size));
        }
        let records = self.records(&fetched.bytes, &batch, position)?;
        if records.is_empty() {
            return Ok(Step::Skipped(next, size));
        }
        let batch = ConsumedBatch {
            partition: fetched.partition.clone(),
            records,
            leader_epoch: header.partition_leader_epoch(),
            timestamp_type: header.attributes().timestamp_type(),
            next_offset: next,
            high_watermark: fetched.high_watermark,
        };
        Ok(Step::Records(batch, size))
    }

    fn records(
        &self,
        whole: &Bytes,
        batch: &BatchView<'_>,
        position: Offset,
    ) -> Result<Vec<ConsumedRecord>, ConsumeFault> {
        let unpacked = Records::open(batch.bytes(), self.config.unpacked_bytes_max)
            .map_err(ConsumeFault::Unreadable)?;
        let mut records = Vec::new();
        for record in &unpacked {
            let record = record.map_err(ConsumeFault::Malformed)?;
            if record.offset >= position {
                records.push(owned(whole, &record));
            }
        }
        Ok(records)
    }
}

/// Makes a record of its own: slices of the answer, or one copy if it was unpacked elsewhere.
fn owned(whole: &Bytes, record: &Record<'_>) -> ConsumedRecord {
    let field = |bytes: &[u8]| {
        if whole.as_ptr_range().contains(&bytes.as_ptr()) {
            whole.slice_ref(bytes)
        } else {
            Bytes::copy_from_slice(bytes)
        }
    };
    ConsumedRecord {
        offset: record.offset,
        timestamp: Timestamp::from_millis(record.timestamp),
        key: record.key.map(field),
        value: record.value.map(field),
        headers: record
            .headers
            .map(|header| Header {
                key: field(header.key),
                value: header.value.map(field),
            })
            .collect(),
    }
}
