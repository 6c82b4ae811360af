//! Settings of a producer, with Kafka's names and defaults.

use crate::batch::Compression;

/// Whose confirmation a producer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// `acks=0`: nobody's; nothing is known about any record.
    None,
    /// `acks=1`: the leader's.
    Leader,
    /// `acks=all`: that of all replicas in sync.
    All,
}

impl Acks {
    /// Returns the number on the wire.
    #[must_use]
    pub const fn code(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}

/// Settings of a producer.
#[derive(Clone, Debug)]
pub struct ProducerConfig {
    /// Whose confirmation to wait for (`acks`).
    pub acks: Acks,
    /// The size a batch is filled to, before compression (`batch.size`).
    pub batch_size: usize,
    /// How long a batch waits to be filled (`linger.ms`).
    pub linger_ms: u64,
    /// How batches are packed (`compression.type` and level).
    pub compression: Compression,
    /// Requests that may wait for an answer per connection
    /// (`max.in.flight.requests.per.connection`). With 1, records of a partition never overtake
    /// each other.
    pub max_in_flight: usize,
    /// Transmissions after the first (`retries`).
    pub retries: u32,
    /// The time after which a record's fate is reported whatever happens (`delivery.timeout.ms`).
    pub delivery_timeout_ms: u64,
    /// How long a record may wait for its topic to become known (`max.block.ms`).
    pub max_block_ms: u64,
    /// The largest request, and with it the largest record (`max.request.size`).
    pub max_request_size: usize,
    /// Bytes of records that may be held (`buffer.memory`).
    pub buffer_memory: usize,
}

impl Default for ProducerConfig {
    fn default() -> Self {
        Self {
            acks: Acks::All,
            batch_size: 16_384,
            linger_ms: 5,
            compression: Compression::None,
            max_in_flight: 5,
            retries: u32::MAX,
            delivery_timeout_ms: 120_000,
            max_block_ms: 60_000,
            max_request_size: 1 << 20,
            buffer_memory: 32 << 20,
        }
    }
}
