//! Settings of a consumer, with Kafka's names and defaults.

/// What to do when the log does not hold the position any more (`auto.offset.reset`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetReset {
    /// Go on at the first offset.
    Earliest,
    /// Go on at the end.
    Latest,
    /// Stop and say so.
    None,
}

/// Settings of a consumer.
#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    /// The bytes an answer is held back for (`fetch.min.bytes`).
    pub fetch_min_bytes: u32,
    /// How long it is held back at most (`fetch.max.wait.ms`).
    pub fetch_max_wait_ms: u32,
    /// The size of an answer (`fetch.max.bytes`); one batch may be larger.
    pub fetch_max_bytes: u32,
    /// The share of one partition in it (`max.partition.fetch.bytes`); one batch may be larger.
    pub max_partition_fetch_bytes: u32,
    /// What to do at a position outside of the log.
    pub offset_reset: OffsetReset,
    /// Whether checksums are checked (`check.crcs`).
    pub check_crcs: bool,
    /// The most bytes a batch may unpack to; guards against decompression bombs.
    pub unpacked_bytes_max: usize,
}

impl Default for ConsumerConfig {
    fn default() -> Self {
        Self {
            fetch_min_bytes: 1,
            fetch_max_wait_ms: 500,
            fetch_max_bytes: 50 << 20,
            max_partition_fetch_bytes: 1 << 20,
            offset_reset: OffsetReset::Latest,
            check_crcs: true,
            unpacked_bytes_max: 256 << 20,
        }
    }
}
