//! What checkers may see of a log.

use crate::ids::{Epoch, Offset, TopicPartition};

use super::machine::{Log, State};

/// A log's state in brief.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogState {
    /// Nothing was read yet.
    Closed,
    /// Recovery, or a truncation, is under way.
    Opening,
    /// In service.
    Open,
    /// Given up.
    Offline,
    /// Being deleted, or deleted.
    Deleted,
}

/// A snapshot of what a log holds, for checkers; it costs nothing unless asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogProbe {
    /// The partition.
    pub partition: TopicPartition,
    /// Its state.
    pub state: LogState,
    /// First offset.
    pub start: Offset,
    /// One past the last assigned offset.
    pub end: Offset,
    /// One past the last written offset.
    pub written: Offset,
    /// One past the last flushed offset.
    pub flushed: Offset,
    /// Base offset and size of each segment.
    pub segments: Vec<(Offset, u32)>,
    /// The epoch table.
    pub epochs: Vec<(Epoch, Offset)>,
}

impl Log {
    /// Shows what the log holds.
    #[must_use]
    pub fn probe(&self) -> LogProbe {
        LogProbe {
            partition: self.partition.clone(),
            state: self.state(),
            start: self.start,
            end: self.end,
            written: self.written_end,
            flushed: self.flushed_end,
            segments: self
                .segments
                .iter()
                .map(|segment| (segment.base, segment.size))
                .collect(),
            epochs: self.epochs.entries().to_vec(),
        }
    }

    /// Returns the state in brief.
    #[must_use]
    pub const fn state(&self) -> LogState {
        match self.state {
            State::Closed => LogState::Closed,
            State::Opening(_) => LogState::Opening,
            State::Open => LogState::Open,
            State::Offline => LogState::Offline,
            State::Deleting | State::Deleted => LogState::Deleted,
        }
    }

    /// Folds what the log holds into one number: equal states have equal numbers on every machine.
    #[must_use]
    pub fn state_hash(&self) -> u64 {
        let mut hash = Fnv::default();
        hash.add(self.partition.topic.as_str().as_bytes());
        hash.add(&self.partition.partition.to_be_bytes());
        let state = match self.state() {
            LogState::Closed => 0_u8,
            LogState::Opening => 1,
            LogState::Open => 2,
            LogState::Offline => 3,
            LogState::Deleted => 4,
        };
        hash.add(&[state]);
        for offset in [self.start, self.end, self.written_end, self.flushed_end] {
            hash.add(&offset.to_be_bytes());
        }
        for segment in &self.segments {
            hash.add(&segment.base.to_be_bytes());
            hash.add(&segment.size.to_be_bytes());
        }
        for (epoch, start) in self.epochs.entries() {
            hash.add(&epoch.0.to_be_bytes());
            hash.add(&start.to_be_bytes());
        }
        hash.finish()
    }
}

/// FNV-1a with 64 bits: stable for ever, and nothing a peer could profit from flooding.
#[derive(Debug)]
pub(super) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(super) const fn finish(&self) -> u64 {
        self.0
    }
}
