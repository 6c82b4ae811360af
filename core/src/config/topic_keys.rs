//! Every topic config of Kafka 4.3, with its type, default and check.

use crate::config::{
    check::Check::{Any, AtLeast, Between, GzipLevel, ListOf, OneOf, Ratio, ThrottledReplicas},
    key::{ConfigKey, UpdateMode::ClusterWide, key},
    kind::ConfigType::{Boolean, Double, Int, List, Long, String},
};

/// The default of `flush.messages` and `log.flush.interval.messages`: the flush rule `durable`.
///
/// This is Seedlog's one deliberate difference from Kafka's defaults. Kafka leaves flushing to the operating system
/// (the largest long); Seedlog answers a produce only when the record is on disk, unless the owner chooses otherwise.
pub const DURABLE_FLUSH_MESSAGES: &str = "1";

/// Kafka's own default of `flush.messages`: any value above 1 chooses the rule `replicated`.
pub const KAFKA_FLUSH_MESSAGES: i64 = i64::MAX;

/// Sorted by name.
#[rustfmt::skip] // one row a line: a table is read by column
pub(super) const TOPIC_KEYS: &[ConfigKey] = &[
    key("cleanup.policy", List, Some("delete"), ListOf { values: &["compact", "delete"], empty: true }, ClusterWide, "What happens to old segments: delete by age and size, compact by key, both, or an empty list to keep everything."),
    key("compression.gzip.level", Int, Some("-1"), GzipLevel, ClusterWide, "The gzip level used when the broker itself compresses with gzip."),
    key("compression.lz4.level", Int, Some("9"), Between(1, 17), ClusterWide, "The lz4 level used when the broker itself compresses with lz4."),
    key("compression.type", String, Some("producer"), OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]), ClusterWide, "The codec batches are stored with; producer keeps each batch as it was sent."),
    key("compression.zstd.level", Int, Some("3"), Between(-131_072, 22), ClusterWide, "The zstd level used when the broker itself compresses with zstd."),
    key("delete.retention.ms", Long, Some("86400000"), AtLeast(0), ClusterWide, "How long tombstones of a compacted topic stay readable.").without_effect(),
    key("file.delete.delay.ms", Long, Some("60000"), AtLeast(0), ClusterWide, "How long a removed segment waits before its files are unlinked."),
    key("flush.messages", Long, Some(DURABLE_FLUSH_MESSAGES), AtLeast(1), ClusterWide, "Messages between two flushes. 1, the default here, means every produce answer waits for the disk; any larger value leaves flushing to the operating system."),
    key("flush.ms", Long, Some("9223372036854775807"), AtLeast(0), ClusterWide, "The longest time a message may stay unflushed.").without_effect(),
    key("follower.replication.throttled.replicas", List, Some(""), ThrottledReplicas, ClusterWide, "Replicas whose fetching is throttled, as partition:broker pairs, or * for all.").without_effect(),
    key("index.interval.bytes", Int, Some("4096"), AtLeast(0), ClusterWide, "Bytes of log between two entries of the offset index."),
    key("internal.segment.bytes", Int, None, Any, ClusterWide, "Segment size without the lower bound of segment.bytes; for tests only.").internal(),
    key("leader.replication.throttled.replicas", List, Some(""), ThrottledReplicas, ClusterWide, "Replicas whose serving to followers is throttled, as partition:broker pairs, or * for all.").without_effect(),
    key("local.retention.bytes", Long, Some("-2"), AtLeast(-2), ClusterWide, "Bytes kept on local disk under tiered storage; -2 follows retention.bytes.").without_effect(),
    key("local.retention.ms", Long, Some("-2"), AtLeast(-2), ClusterWide, "Age kept on local disk under tiered storage; -2 follows retention.ms.").without_effect(),
    key("max.compaction.lag.ms", Long, Some("9223372036854775807"), AtLeast(1), ClusterWide, "The longest time a record may stay uncompacted.").without_effect(),
    key("max.message.bytes", Int, Some("1048588"), AtLeast(0), ClusterWide, "The largest record batch accepted, after compression."),
    key("message.timestamp.after.max.ms", Long, Some("3600000"), AtLeast(0), ClusterWide, "How far in the future a record's CreateTime may lie before it is refused."),
    key("message.timestamp.before.max.ms", Long, Some("9223372036854775807"), AtLeast(0), ClusterWide, "How far in the past a record's CreateTime may lie before it is refused."),
    key("message.timestamp.type", String, Some("CreateTime"), OneOf(&["CreateTime", "LogAppendTime"]), ClusterWide, "Whether record timestamps are the producer's (CreateTime) or the broker's (LogAppendTime)."),
    key("min.cleanable.dirty.ratio", Double, Some("0.5"), Ratio { min: "0", max: "1" }, ClusterWide, "The share of uncompacted bytes at which a log becomes worth compacting.").without_effect(),
    key("min.compaction.lag.ms", Long, Some("0"), AtLeast(0), ClusterWide, "The shortest time a record stays uncompacted.").without_effect(),
    key("min.insync.replicas", Int, Some("1"), AtLeast(1), ClusterWide, "How many in-sync replicas must hold a record before acks=all is answered."),
    key("preallocate", Boolean, Some("false"), Any, ClusterWide, "Whether a new segment file is allocated at full size.").without_effect(),
    key("remote.log.copy.disable", Boolean, Some("false"), Any, ClusterWide, "Whether copying to tiered storage is off, so that remote data is read-only.").without_effect(),
    key("remote.log.delete.on.disable", Boolean, Some("false"), Any, ClusterWide, "Whether remote data is deleted when tiered storage is turned off for the topic.").without_effect(),
    key("remote.storage.enable", Boolean, Some("false"), Any, ClusterWide, "Whether the topic uses tiered storage.").without_effect(),
    key("retention.bytes", Long, Some("-1"), Any, ClusterWide, "The size per partition above which old segments are deleted; -1 for no limit."),
    key("retention.ms", Long, Some("604800000"), AtLeast(-1), ClusterWide, "The age above which old segments are deleted; -1 for no limit."),
    key("segment.bytes", Int, Some("1073741824"), AtLeast(1_048_576), ClusterWide, "The size at which a segment is closed and a new one begun."),
    key("segment.index.bytes", Int, Some("10485760"), AtLeast(4), ClusterWide, "The largest size of an index file."),
    key("segment.jitter.ms", Long, Some("0"), AtLeast(0), ClusterWide, "The most by which a segment's roll by age is randomly brought forward."),
    key("segment.ms", Long, Some("604800000"), AtLeast(1), ClusterWide, "The age at which a segment is closed even if it is not full."),
    key("unclean.leader.election.enable", Boolean, Some("false"), Any, ClusterWide, "Whether a replica outside the in-sync set may lead, at the price of lost records."),
];
