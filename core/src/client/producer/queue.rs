//! The batches of one partition: the one being filled, those ready to be sent, those in flight.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::{ProduceRecord, Sent};
use crate::{
    batch::{BatchBuilder, BuildError, Compression, NewRecord, RecordHeader, Records},
    protocol::ErrorCode,
    time::{Instant, Timestamp},
};

/// A batch that is being filled.
#[derive(Debug)]
pub(super) struct Open {
    builder: BatchBuilder,
    records: Vec<Sent>,
    memory: usize,
    pub(super) created: Instant,
}

/// A batch as it is sent.
#[derive(Debug)]
pub(super) struct Sealed {
    /// The number of its first record among those of its partition: batches keep this order.
    pub(super) first: u64,
    pub(super) bytes: Bytes,
    pub(super) records: Vec<Sent>,
    pub(super) memory: usize,
    pub(super) created: Instant,
    pub(super) transmissions: u32,
    pub(super) refusals: u32,
    pub(super) not_before: Instant,
    pub(super) last_error: ErrorCode,
}

impl Sealed {
    /// Says whether it is certain that the log does not hold the batch.
    pub(super) const fn is_unwritten(&self) -> bool {
        self.refusals == self.transmissions
    }

    /// Makes two batches of one that the broker finds too large.
    pub(super) fn split(self, compression: Compression) -> Result<[Self; 2], Self> {
        match self.halves(compression) {
            Some(halves) => Ok(halves),
            None => Err(self),
        }
    }

    fn halves(&self, compression: Compression) -> Option<[Self; 2]> {
        let middle = self.records.len() / 2;
        let unpacked = Records::open(&self.bytes, usize::MAX).ok()?;
        let mut builders = [
            BatchBuilder::new(compression),
            BatchBuilder::new(compression),
        ];
        for (at, record) in unpacked.iter().enumerate() {
            let record = record.ok()?;
            let headers: Vec<_> = record.headers.collect();
            let record = NewRecord {
                timestamp: record.timestamp,
                key: record.key,
                value: record.value,
                headers: &headers,
            };
            builders[usize::from(at >= middle)].append(&record).ok()?;
        }
        let [front, back] = [builders[0].build().ok()?, builders[1].build().ok()?];
        let (head, tail) = self.records.split_at(middle);
        let half = |first, bytes, records: &[Sent], memory| Self {
            first,
            bytes,
            records: records.to_vec(),
            memory,
            ..*self
        };
        let head_memory = self.memory / 2;
        Some([
            half(self.first, front, head, head_memory),
            half(
                self.first + u64::try_from(middle).unwrap_or_default(),
                back,
                tail,
                self.memory - head_memory,
            ),
        ])
    }
}

/// What became of an attempt to add a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// It is in the open batch.
    Yes,
    /// The open batch must be sealed first.
    Full,
    /// It fits no batch.
    Impossible,
}

/// All batches of one partition.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) open: Option<Open>,
    pub(super) ready: VecDeque<Sealed>,
    pub(super) in_flight: BTreeMap<u64, Sealed>,
    next_record: u64,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_none() && self.ready.is_empty() && self.in_flight.is_empty()
    }

    /// Adds a record to the open batch.
    pub(super) fn add(
        &mut self,
        record: &ProduceRecord,
        timestamp: Timestamp,
        since: Instant,
        (batch_size, compression): (usize, Compression),
    ) -> Added {
        let headers: Vec<RecordHeader<'_>> = record
            .headers
            .iter()
            .map(|header| RecordHeader {
                key: &header.key,
                value: header.value.as_deref(),
            })
            .collect();
        let new = NewRecord {
            timestamp: timestamp.as_millis(),
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: &headers,
        };
        let open = self.open.get_or_insert_with(|| Open {
            builder: BatchBuilder::new(compression),
            records: Vec::new(),
            memory: 0,
            created: since,
        });
        if !open.builder.has_room_for(&new, batch_size) {
            return Added::Full;
        }
        if open.builder.append(&new).is_err() {
            if open.records.is_empty() {
                self.open = None;
            }
            return Added::Impossible;
        }
        open.records.push(Sent {
            token: record.token,
            timestamp,
        });
        open.memory = open.memory.saturating_add(super::memory_of(record));
        Added::Yes
    }

    /// Says whether the open batch should be sent.
    pub(super) fn is_due(&self, now: Instant, linger_ms: u64) -> bool {
        let open = self.open.as_ref();
        open.is_some_and(|open| now >= open.created.plus_millis(linger_ms))
    }

    /// Closes the open batch and packs it. A batch that cannot be packed is handed back.
    pub(super) fn seal(&mut self) -> Result<(), (BuildError, Vec<Sent>, usize)> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let bytes = match open.builder.build() {
            Ok(bytes) => bytes,
            Err(error) => return Err((error, open.records, open.memory)),
        };
        let first = self.next_record;
        self.next_record += u64::try_from(open.records.len()).unwrap_or(u64::MAX);
        self.ready.push_back(Sealed {
            first,
            bytes,
            records: open.records,
            memory: open.memory,
            created: open.created,
            transmissions: 0,
            refusals: 0,
            not_before: Instant::ORIGIN,
            last_error: ErrorCode::None,
        });
        Ok(())
    }

    /// Puts a batch back where its records belong.
    pub(super) fn put_back(&mut self, batch: Sealed) {
        let at = self
            .ready
            .partition_point(|other| other.first < batch.first);
        self.ready.insert(at, batch);
    }

    /// Says whether a batch may be sent; `ordered` allows one in flight.
    pub(super) fn can_send(&self, now: Instant, ordered: bool) -> bool {
        let ready = self.ready.front();
        ready.is_some_and(|batch| batch.not_before <= now)
            && (!ordered || self.in_flight.is_empty())
    }

    /// Takes out what was created before `before`: batches in flight as well.
    pub(super) fn expire(&mut self, before: Instant) -> Vec<Sealed> {
        let mut expired: Vec<Sealed> = Vec::new();
        while let Some(first) = self
            .in_flight
            .iter()
            .find_map(|(first, batch)| (batch.created <= before).then_some(*first))
        {
            expired.extend(self.in_flight.remove(&first));
        }
        while self.ready.front().is_some_and(|b| b.created <= before) {
            expired.extend(self.ready.pop_front());
        }
        expired
    }

    /// Lists the moments after `now` at which something becomes due.
    pub(super) fn wakes(&self, now: Instant, linger_ms: u64, timeout_ms: u64) -> Option<Instant> {
        let open = self.open.iter().flat_map(|open| {
            [
                open.created.plus_millis(linger_ms),
                open.created.plus_millis(timeout_ms),
            ]
        });
        let ready = self
            .ready
            .iter()
            .take(1)
            .flat_map(|batch| [batch.not_before, batch.created.plus_millis(timeout_ms)]);
        let in_flight = self.in_flight.values();
        let in_flight = in_flight.map(|batch| batch.created.plus_millis(timeout_ms));
        open.chain(ready)
            .chain(in_flight)
            .filter(|at| *at > now)
            .min()
    }
}
