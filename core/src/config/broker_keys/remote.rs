//! Tiered storage: known by name and type, so that a Kafka file is understood; nothing of it is built.

use crate::config::{
    check::Check::{Any, AtLeast, NonEmpty, Ratio},
    key::{
        ConfigKey,
        UpdateMode::{ClusterWide, ReadOnly},
        known,
    },
    kind::ConfigType::{Boolean, Double, Int, Long, String},
};

/// Sorted by name.
#[rustfmt::skip] // one row a line: a table is read by column
pub(super) const KEYS: &[ConfigKey] = &[
    known("remote.fetch.max.wait.ms", Int, Some("500"), AtLeast(1), ClusterWide),
    known("remote.list.offsets.request.timeout.ms", Long, Some("30000"), AtLeast(1), ClusterWide),
    known("remote.log.index.file.cache.total.size.bytes", Long, Some("1073741824"), AtLeast(1), ClusterWide),
    known("remote.log.index.file.cache.ttl.ms", Long, Some("900000"), AtLeast(-1), ReadOnly).internal(),
    known("remote.log.manager.copier.thread.pool.size", Int, Some("10"), AtLeast(1), ClusterWide),
    known("remote.log.manager.copy.max.bytes.per.second", Long, Some("9223372036854775807"), AtLeast(1), ClusterWide),
    known("remote.log.manager.copy.quota.window.num", Int, Some("11"), AtLeast(1), ReadOnly),
    known("remote.log.manager.copy.quota.window.size.seconds", Int, Some("1"), AtLeast(1), ReadOnly),
    known("remote.log.manager.expiration.thread.pool.size", Int, Some("10"), AtLeast(1), ClusterWide),
    known("remote.log.manager.fetch.max.bytes.per.second", Long, Some("9223372036854775807"), AtLeast(1), ClusterWide),
    known("remote.log.manager.fetch.quota.window.num", Int, Some("11"), AtLeast(1), ReadOnly),
    known("remote.log.manager.fetch.quota.window.size.seconds", Int, Some("1"), AtLeast(1), ReadOnly),
    known("remote.log.manager.follower.thread.pool.size", Int, Some("2"), AtLeast(1), ClusterWide),
    known("remote.log.manager.task.interval.ms", Long, Some("30000"), AtLeast(1), ReadOnly),
    known("remote.log.manager.task.retry.backoff.max.ms", Long, Some("30000"), AtLeast(1), ReadOnly).internal(),
    known("remote.log.manager.task.retry.backoff.ms", Long, Some("500"), AtLeast(1), ReadOnly).internal(),
    known("remote.log.manager.task.retry.jitter", Double, Some("0.2"), Ratio { min: "0", max: "0.5" }, ReadOnly).internal(),
    known("remote.log.manager.thread.pool.size", Int, Some("2"), AtLeast(1), ReadOnly),
    known("remote.log.metadata.custom.metadata.max.bytes", Int, Some("128"), AtLeast(0), ReadOnly),
    known("remote.log.metadata.manager.class.name", String, Some("org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"), NonEmpty, ReadOnly),
    known("remote.log.metadata.manager.class.path", String, None, Any, ReadOnly),
    known("remote.log.metadata.manager.impl.prefix", String, Some("rlmm.config."), NonEmpty, ReadOnly),
    known("remote.log.metadata.manager.listener.name", String, None, NonEmpty, ReadOnly),
    known("remote.log.reader.max.pending.tasks", Int, Some("100"), AtLeast(1), ReadOnly),
    known("remote.log.reader.threads", Int, Some("10"), AtLeast(1), ClusterWide),
    known("remote.log.storage.manager.class.name", String, None, NonEmpty, ReadOnly),
    known("remote.log.storage.manager.class.path", String, None, Any, ReadOnly),
    known("remote.log.storage.manager.impl.prefix", String, Some("rsm.config."), NonEmpty, ReadOnly),
    known("remote.log.storage.system.enable", Boolean, Some("false"), Any, ReadOnly),
];
