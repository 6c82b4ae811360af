//! The typed config of one topic's logs: what the hot path reads.

use super::{
    key::topic_key,
    kind::{ConfigError, ConfigValue},
    layers::OverrideMap,
};

/// What happens to old segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// Segments past retention are deleted.
    pub delete: bool,
    /// Closed segments are compacted by key.
    pub compact: bool,
}

/// Whose clock a record's timestamp is read off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer's.
    CreateTime,
    /// The leader's, at append.
    LogAppendTime,
}

/// The codec that batches are stored with, with the level where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionType {
    /// As the producer sent them.
    Producer,
    /// None.
    Uncompressed,
    /// gzip.
    Gzip,
    /// snappy.
    Snappy,
    /// lz4.
    Lz4,
    /// zstd.
    Zstd,
}

/// The config of one topic's logs, parsed and checked.
///
/// Times are milliseconds, sizes are bytes; `None` is "no limit".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// `segment.bytes`, or `internal.segment.bytes` where a test sets it.
    pub segment_bytes: u32,
    /// `segment.ms`.
    pub segment_ms: i64,
    /// `segment.jitter.ms`.
    pub segment_jitter_ms: i64,
    /// `segment.index.bytes`.
    pub segment_index_bytes: u32,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u32,
    /// `flush.messages`: 1 is the flush rule `durable`, any other value is `replicated`.
    pub flush_messages: i64,
    /// `flush.ms`.
    pub flush_ms: i64,
    /// `retention.ms`.
    pub retention_ms: Option<i64>,
    /// `retention.bytes`.
    pub retention_bytes: Option<i64>,
    /// `max.message.bytes`.
    pub max_message_bytes: u32,
    /// `file.delete.delay.ms`.
    pub file_delete_delay_ms: i64,
    /// `delete.retention.ms`.
    pub delete_retention_ms: i64,
    /// `min.compaction.lag.ms`.
    pub min_compaction_lag_ms: i64,
    /// `max.compaction.lag.ms`.
    pub max_compaction_lag_ms: i64,
    /// `min.cleanable.dirty.ratio`, in millionths, so that nothing is decided with fractions.
    pub min_cleanable_dirty_ppm: u32,
    /// `cleanup.policy`.
    pub cleanup_policy: CleanupPolicy,
    /// `compression.type`.
    pub compression_type: CompressionType,
    /// `compression.gzip.level`.
    pub compression_gzip_level: i32,
    /// `compression.lz4.level`.
    pub compression_lz4_level: i32,
    /// `compression.zstd.level`.
    pub compression_zstd_level: i32,
    /// `message.timestamp.type`.
    pub message_timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub message_timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub message_timestamp_after_max_ms: i64,
    /// `min.insync.replicas`.
    pub min_insync_replicas: i32,
    /// `unclean.leader.election.enable`.
    pub unclean_leader_election_enable: bool,
    /// `preallocate`.
    pub preallocate: bool,
    /// `remote.storage.enable`; always false in a config that was accepted.
    pub remote_storage_enable: bool,
    internal_segment_bytes: bool,
}

/// The built-in defaults, as a topic has them on a broker without any setting.
impl Default for LogConfig {
    fn default() -> Self {
        const WEEK_MS: i64 = 7 * 24 * 3_600_000;
        Self {
            segment_bytes: 1 << 30,
            segment_ms: WEEK_MS,
            segment_jitter_ms: 0,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            flush_messages: 1,
            flush_ms: i64::MAX,
            retention_ms: Some(WEEK_MS),
            retention_bytes: None,
            max_message_bytes: (1 << 20) + 12,
            file_delete_delay_ms: 60_000,
            delete_retention_ms: 24 * 3_600_000,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
            min_cleanable_dirty_ppm: 500_000,
            cleanup_policy: CleanupPolicy {
                delete: true,
                compact: false,
            },
            compression_type: CompressionType::Producer,
            compression_gzip_level: -1,
            compression_lz4_level: 9,
            compression_zstd_level: 3,
            message_timestamp_type: TimestampType::CreateTime,
            message_timestamp_before_max_ms: i64::MAX,
            message_timestamp_after_max_ms: 3_600_000,
            min_insync_replicas: 1,
            unclean_leader_election_enable: false,
            preallocate: false,
            remote_storage_enable: false,
            internal_segment_bytes: false,
        }
    }
}

impl LogConfig {
    /// Returns this config with a topic's own values.
    ///
    /// # Errors
    /// If a value is refused by its check; unknown names are ignored, for a newer release may have written them.
    pub fn with_overrides(&self, overrides: &OverrideMap) -> Result<Self, ConfigError> {
        let mut config = self.clone();
        for (name, text) in overrides {
            if let Some(key) = topic_key(name) {
                config.set(key.name(), &key.parse(text)?);
            }
        }
        Ok(config)
    }

    /// Returns whether a produce is answered only when the record is on disk: the flush rule `durable`.
    #[must_use]
    pub const fn flushes_before_answer(&self) -> bool {
        self.flush_messages == 1
    }

    /// Returns the age at which a segment is closed; a compacted topic may not wait longer than its compaction lag.
    #[must_use]
    pub fn max_segment_ms(&self) -> i64 {
        if self.cleanup_policy.compact && self.max_compaction_lag_ms > 0 {
            self.segment_ms.min(self.max_compaction_lag_ms)
        } else {
            self.segment_ms
        }
    }

    /// Sets one topic config from its parsed value.
    pub(super) fn set(&mut self, name: &str, value: &ConfigValue) {
        match value {
            ConfigValue::Int(number) => self.set_number(name, i64::from(*number)),
            ConfigValue::Short(number) => self.set_number(name, i64::from(*number)),
            ConfigValue::Long(number) => self.set_number(name, *number),
            ConfigValue::Boolean(flag) => match name {
                "unclean.leader.election.enable" => self.unclean_leader_election_enable = *flag,
                "preallocate" => self.preallocate = *flag,
                "remote.storage.enable" => self.remote_storage_enable = *flag,
                _ => {}
            },
            ConfigValue::Double(_) if name == "min.cleanable.dirty.ratio" => {
                self.min_cleanable_dirty_ppm = millionths(&value.to_string());
            }
            ConfigValue::Text(word) => self.set_word(name, word),
            ConfigValue::List(items) if name == "cleanup.policy" => {
                let has = |word: &str| items.iter().any(|item| item == word);
                self.cleanup_policy = CleanupPolicy {
                    delete: has("delete"),
                    compact: has("compact"),
                };
            }
            ConfigValue::Double(_) | ConfigValue::List(_) => {}
        }
    }

    fn set_number(&mut self, name: &str, number: i64) {
        let limit = (number >= 0).then_some(number);
        let small = i32::try_from(number).unwrap_or(i32::MAX);
        let size = u32::try_from(number.max(0)).unwrap_or(u32::MAX);
        match name {
            "segment.bytes" if !self.internal_segment_bytes => self.segment_bytes = size,
            "internal.segment.bytes" => {
                self.segment_bytes = size.max(1);
                self.internal_segment_bytes = true;
            }
            "segment.ms" => self.segment_ms = number,
            "segment.jitter.ms" => self.segment_jitter_ms = number,
            "segment.index.bytes" => self.segment_index_bytes = size,
            "index.interval.bytes" => self.index_interval_bytes = size,
            "flush.messages" => self.flush_messages = number,
            "flush.ms" => self.flush_ms = number,
            "retention.ms" => self.retention_ms = limit,
            "retention.bytes" => self.retention_bytes = limit,
            "max.message.bytes" => self.max_message_bytes = size,
            "file.delete.delay.ms" => self.file_delete_delay_ms = number,
            "delete.retention.ms" => self.delete_retention_ms = number,
            "min.compaction.lag.ms" => self.min_compaction_lag_ms = number,
            "max.compaction.lag.ms" => self.max_compaction_lag_ms = number,
            "compression.gzip.level" => self.compression_gzip_level = small,
            "compression.lz4.level" => self.compression_lz4_level = small,
            "compression.zstd.level" => self.compression_zstd_level = small,
            "message.timestamp.before.max.ms" => self.message_timestamp_before_max_ms = number,
            "message.timestamp.after.max.ms" => self.message_timestamp_after_max_ms = number,
            "min.insync.replicas" => self.min_insync_replicas = small,
            _ => {}
        }
    }

    fn set_word(&mut self, name: &str, word: &str) {
        match (name, word) {
            ("message.timestamp.type", "LogAppendTime") => {
                self.message_timestamp_type = TimestampType::LogAppendTime;
            }
            ("message.timestamp.type", _) => {
                self.message_timestamp_type = TimestampType::CreateTime;
            }
            ("compression.type", word) => {
                self.compression_type = match word {
                    "uncompressed" => CompressionType::Uncompressed,
                    "gzip" => CompressionType::Gzip,
                    "snappy" => CompressionType::Snappy,
                    "lz4" => CompressionType::Lz4,
                    "zstd" => CompressionType::Zstd,
                    _ => CompressionType::Producer,
                };
            }
            _ => {}
        }
    }
}

/// Reads a fraction between 0 and 1 as millionths, digit by digit; what is finer than a millionth is cut.
fn millionths(text: &str) -> u32 {
    const ONE: u32 = 1_000_000;
    if text.contains('E') {
        // Java's notation below a thousandth: d.dddE-n.
        let (digits, exponent) = text.split_once('E').unwrap_or((text, "0"));
        let shift: u32 = exponent.trim_start_matches('-').parse().unwrap_or(u32::MAX);
        return millionths(digits)
            .checked_div(10_u32.saturating_pow(shift))
            .unwrap_or(0);
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.parse::<u32>().unwrap_or(0).min(9).saturating_mul(ONE);
    let mut unit = ONE / 10;
    let mut sum = whole;
    for digit in fraction
        .chars()
        .filter_map(|character| character.to_digit(10))
    {
        sum = sum.saturating_add(digit.saturating_mul(unit));
        unit /= 10;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::topic_keys;

    #[test]
    fn typed_defaults_are_the_tables_defaults() {
        let mut config = LogConfig::default();
        for key in topic_keys() {
            if let Some(default) = key.default_text() {
                config.set(key.name(), &key.parse(default).unwrap());
            }
        }
        assert_eq!(config, LogConfig::default());
    }

    #[test]
    fn every_topic_config_reaches_its_field() {
        // Values that differ from every default, so that an override without effect is noticed.
        let value = |name: &str| match name {
            "cleanup.policy" => "compact",
            "compression.type" => "zstd",
            "message.timestamp.type" => "LogAppendTime",
            "min.cleanable.dirty.ratio" => "0.25",
            "preallocate" | "remote.storage.enable" | "unclean.leader.election.enable" => "true",
            "compression.gzip.level" | "compression.lz4.level" | "compression.zstd.level" => "7",
            _ => "1234567",
        };
        let without_field = [
            "follower.replication.throttled.replicas",
            "leader.replication.throttled.replicas",
            "local.retention.bytes",
            "local.retention.ms",
            "remote.log.copy.disable",
            "remote.log.delete.on.disable",
        ];
        for key in topic_keys()
            .iter()
            .filter(|key| !without_field.contains(&key.name()))
        {
            let overrides =
                OverrideMap::from([(key.name().to_owned(), value(key.name()).to_owned())]);
            let config = LogConfig::default().with_overrides(&overrides).unwrap();
            assert_ne!(config, LogConfig::default(), "{}", key.name());
        }
    }

    #[test]
    fn internal_segment_size_wins_whatever_the_order() {
        let overrides = OverrideMap::from([
            ("internal.segment.bytes".to_owned(), "100".to_owned()),
            ("segment.bytes".to_owned(), "2000000".to_owned()),
        ]);
        assert_eq!(
            LogConfig::default()
                .with_overrides(&overrides)
                .unwrap()
                .segment_bytes,
            100
        );
    }

    #[test]
    fn fractions_become_millionths() {
        for (text, ppm) in [
            ("0.5", 500_000),
            ("1.0", 1_000_000),
            ("0.0", 0),
            ("1.0E-4", 100),
            ("0.3333333333", 333_333),
        ] {
            assert_eq!(millionths(text), ppm);
        }
    }
}
