//! A topic's settings, parsed once, in the form that the hot path needs.

use std::sync::Arc;

use super::FlushRule;
use crate::{
    batch::{self, Compression, ProduceRules},
    config::{self, CompressionType},
    log,
};

/// What a partition's machines need of its topic's configuration.
#[derive(Clone, Debug)]
pub struct TopicSettings {
    /// For the log.
    pub log: Arc<log::LogConfig>,
    /// For checking what clients send.
    pub produce_rules: ProduceRules,
    /// When a copy counts.
    pub rule: FlushRule,
    /// `min.insync.replicas`.
    pub min_insync_replicas: usize,
    /// `flush.messages`: records after which a `replicated` log is flushed without anybody waiting for it.
    pub flush_messages: i64,
    /// `flush.ms`: the age of unflushed records after which a `replicated` log is flushed.
    pub flush_ms: i64,
}

impl From<&config::LogConfig> for TopicSettings {
    fn from(config: &config::LogConfig) -> Self {
        let rule = if config.flush_messages == 1 {
            FlushRule::Durable
        } else {
            FlushRule::Replicated
        };
        Self {
            log: Arc::new(log_config(config)),
            produce_rules: produce_rules(config),
            rule,
            min_insync_replicas: usize::try_from(config.min_insync_replicas).unwrap_or(1),
            flush_messages: config.flush_messages,
            flush_ms: config.flush_ms,
        }
    }
}

fn log_config(config: &config::LogConfig) -> log::LogConfig {
    log::LogConfig {
        segment_bytes: config.segment_bytes,
        segment_ms: config.segment_ms,
        segment_jitter_ms: config.segment_jitter_ms,
        index_interval_bytes: config.index_interval_bytes,
        segment_index_bytes: config.segment_index_bytes,
        retention_ms: config.retention_ms.unwrap_or(-1),
        retention_bytes: config.retention_bytes.unwrap_or(-1),
        file_delete_delay_ms: u64::try_from(config.file_delete_delay_ms).unwrap_or(0),
        max_message_bytes: config.max_message_bytes,
        delete: config.cleanup_policy.delete,
        compact: config.cleanup_policy.compact,
    }
}

fn produce_rules(config: &config::LogConfig) -> ProduceRules {
    let size = |bytes: u32| usize::try_from(bytes).unwrap_or(usize::MAX);
    ProduceRules {
        max_message_bytes: size(config.max_message_bytes),
        segment_bytes: size(config.segment_bytes),
        timestamp_type: match config.message_timestamp_type {
            config::TimestampType::CreateTime => batch::TimestampType::CreateTime,
            config::TimestampType::LogAppendTime => batch::TimestampType::LogAppendTime,
        },
        timestamp_before_max_ms: config.message_timestamp_before_max_ms,
        timestamp_after_max_ms: config.message_timestamp_after_max_ms,
        compacted: config.cleanup_policy.compact,
        compression: compression(config),
        ..ProduceRules::default()
    }
}

fn compression(config: &config::LogConfig) -> Option<Compression> {
    Some(match config.compression_type {
        CompressionType::Producer => return None,
        CompressionType::Uncompressed => Compression::None,
        CompressionType::Gzip => Compression::Gzip {
            level: config.compression_gzip_level,
        },
        CompressionType::Snappy => Compression::Snappy,
        CompressionType::Lz4 => Compression::Lz4 {
            level: config.compression_lz4_level,
        },
        CompressionType::Zstd => Compression::Zstd {
            level: config.compression_zstd_level,
        },
    })
}
