//! What a log is told: its settings, and what the broker already knows when it opens one.

use crate::ids::{Offset, Uuid};

/// The settings of one log, parsed; Kafka's names with underscores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// `segment.bytes`: a segment never grows past it.
    pub segment_bytes: u32,
    /// `segment.ms`: a segment older than this is rolled by the next append.
    pub segment_ms: i64,
    /// `segment.jitter.ms`: up to this much is taken off `segment.ms`, differently for each segment.
    pub segment_jitter_ms: i64,
    /// `index.interval.bytes`: how far apart index entries lie.
    pub index_interval_bytes: u32,
    /// `segment.index.bytes`: a segment is rolled when one of its indexes would grow past it.
    pub segment_index_bytes: u32,
    /// `retention.ms`, -1 for ever.
    pub retention_ms: i64,
    /// `retention.bytes`, -1 for any size.
    pub retention_bytes: i64,
    /// `file.delete.delay.ms`: how long a removed segment stays as `.deleted`.
    pub file_delete_delay_ms: u64,
    /// `max.message.bytes`: the usual upper bound of a batch, used to size reads; never to refuse stored data.
    pub max_message_bytes: u32,
    /// Whether `cleanup.policy` names `delete`: only then retention applies.
    pub delete: bool,
    /// Whether `cleanup.policy` names `compact`: only then offsets may have gaps.
    pub compact: bool,
}

impl Default for LogConfig {
    /// Kafka's defaults.
    fn default() -> Self {
        Self {
            segment_bytes: 1_073_741_824,
            segment_ms: 604_800_000,
            segment_jitter_ms: 0,
            index_interval_bytes: 4096,
            segment_index_bytes: 10_485_760,
            retention_ms: 604_800_000,
            retention_bytes: -1,
            file_delete_delay_ms: 60_000,
            max_message_bytes: 1_048_588,
            delete: true,
            compact: false,
        }
    }
}

/// What the broker's checkpoints say about a log before it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenHint {
    /// `log-start-offset-checkpoint`: offsets below are gone, whatever the files still hold.
    pub log_start: Offset,
    /// `recovery-point-offset-checkpoint`: every record below it was synced, with its indexes and epochs. Recovery reads what
    /// lies past it.
    pub recovery_point: Offset,
    /// `synced-marks`: every record below it was synced, whatever became of its index entries. Damage below this mark, or
    /// below the recovery point, is never cut. 0 when nothing is known.
    pub synced: Offset,
    /// The clean-shutdown marker was found: the log ends at `recovery_point` and nothing needs to be read.
    pub clean: bool,
    /// Create the folder when it does not exist, for the topic with this id.
    pub fresh: Option<Uuid>,
}
