//! The typed settings of a broker as a whole.

use super::{broker_keys::broker_key, kind::ConfigValue, layers::Layers};

/// Kafka's name of the selector that knows racks.
const RACK_AWARE_SELECTOR: &str = "org.apache.kafka.common.replica.RackAwareReplicaSelector";

/// Broker settings that are read often, parsed and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerSettings {
    /// `num.partitions`.
    pub num_partitions: i32,
    /// `default.replication.factor`.
    pub default_replication_factor: i16,
    /// `auto.create.topics.enable`.
    pub auto_create_topics_enable: bool,
    /// `delete.topic.enable`.
    pub delete_topic_enable: bool,
    /// `log.retention.check.interval.ms`.
    pub log_retention_check_interval_ms: i64,
    /// `log.flush.offset.checkpoint.interval.ms`.
    pub log_flush_offset_checkpoint_interval_ms: i64,
    /// `log.flush.start.offset.checkpoint.interval.ms`.
    pub log_flush_start_offset_checkpoint_interval_ms: i64,
    /// `replica.high.watermark.checkpoint.interval.ms`.
    pub replica_high_watermark_checkpoint_interval_ms: i64,
    /// `replica.lag.time.max.ms`.
    pub replica_lag_time_max_ms: i64,
    /// `replica.fetch.backoff.ms`.
    pub replica_fetch_backoff_ms: i32,
    /// `replica.fetch.max.bytes`: what a follower takes of one partition.
    pub replica_fetch_max_bytes: i32,
    /// `replica.fetch.min.bytes`.
    pub replica_fetch_min_bytes: i32,
    /// `replica.fetch.response.max.bytes`: what a follower takes at once.
    pub replica_fetch_response_max_bytes: i32,
    /// `replica.socket.timeout.ms`: what a follower allows the link beyond the time that its leader may wait.
    pub replica_socket_timeout_ms: i32,
    /// `replica.fetch.wait.max.ms`.
    pub replica_fetch_wait_max_ms: i32,
    /// `broker.heartbeat.interval.ms`.
    pub broker_heartbeat_interval_ms: i64,
    /// `broker.session.timeout.ms`.
    pub broker_session_timeout_ms: i64,
    /// `auto.leader.rebalance.enable`.
    pub auto_leader_rebalance_enable: bool,
    /// `leader.imbalance.check.interval.seconds`.
    pub leader_imbalance_check_interval_seconds: i64,
    /// `unclean.leader.election.interval.ms`.
    pub unclean_leader_election_interval_ms: i64,
    /// `controller.quorum.election.timeout.ms`.
    pub controller_quorum_election_timeout_ms: i64,
    /// `controller.quorum.election.backoff.max.ms`.
    pub controller_quorum_election_backoff_max_ms: i64,
    /// `controller.quorum.fetch.timeout.ms`.
    pub controller_quorum_fetch_timeout_ms: i64,
    /// `controller.quorum.request.timeout.ms`.
    pub controller_quorum_request_timeout_ms: i64,
    /// `metadata.log.max.record.bytes.between.snapshots`.
    pub metadata_log_max_record_bytes_between_snapshots: i64,
    /// `metadata.log.max.snapshot.interval.ms`.
    pub metadata_log_max_snapshot_interval_ms: i64,
    /// `socket.request.max.bytes`.
    pub socket_request_max_bytes: i32,
    /// `fetch.max.bytes`.
    pub fetch_max_bytes: i32,
    /// `queued.max.request.bytes`; `None` for no limit.
    pub queued_max_request_bytes: Option<i64>,
    /// `connections.max.idle.ms`; `None` for no limit.
    pub connections_max_idle_ms: Option<i64>,
    /// `max.connections`.
    pub max_connections: i32,
    /// `max.connections.per.ip`.
    pub max_connections_per_ip: i32,
    /// `max.incremental.fetch.session.cache.slots`.
    pub max_incremental_fetch_session_cache_slots: i32,
    /// `replica.selector.class`: whether consumers are sent to replicas in their own rack.
    pub reads_near_replicas: bool,
    /// `request.timeout.ms`.
    pub request_timeout_ms: i32,
}

impl BrokerSettings {
    /// Reads the settings off the layers in force.
    #[must_use]
    pub fn resolve(layers: &Layers<'_>) -> Self {
        let long = |name: &str| {
            layers
                .broker_number(name)
                .or_else(|| built_in(name))
                .unwrap_or(0)
        };
        let int = |name: &str| i32::try_from(long(name)).unwrap_or(i32::MAX);
        let flag = |name: &str| {
            let text = layers.broker_value(name).text;
            let key = broker_key(name);
            let value = text.and_then(|text| key?.parse(&text).ok());
            matches!(value, Some(ConfigValue::Boolean(true)))
        };
        let limit = |name: &str| Some(long(name)).filter(|number| *number >= 0);
        Self {
            num_partitions: int("num.partitions"),
            default_replication_factor: i16::try_from(long("default.replication.factor"))
                .unwrap_or(i16::MAX),
            auto_create_topics_enable: flag("auto.create.topics.enable"),
            delete_topic_enable: flag("delete.topic.enable"),
            log_retention_check_interval_ms: long("log.retention.check.interval.ms"),
            log_flush_offset_checkpoint_interval_ms: long(
                "log.flush.offset.checkpoint.interval.ms",
            ),
            log_flush_start_offset_checkpoint_interval_ms: long(
                "log.flush.start.offset.checkpoint.interval.ms",
            ),
            replica_high_watermark_checkpoint_interval_ms: long(
                "replica.high.watermark.checkpoint.interval.ms",
            ),
            replica_lag_time_max_ms: long("replica.lag.time.max.ms"),
            replica_fetch_backoff_ms: int("replica.fetch.backoff.ms"),
            replica_fetch_max_bytes: int("replica.fetch.max.bytes"),
            replica_fetch_min_bytes: int("replica.fetch.min.bytes"),
            replica_fetch_response_max_bytes: int("replica.fetch.response.max.bytes"),
            replica_socket_timeout_ms: int("replica.socket.timeout.ms"),
            replica_fetch_wait_max_ms: int("replica.fetch.wait.max.ms"),
            broker_heartbeat_interval_ms: long("broker.heartbeat.interval.ms"),
            broker_session_timeout_ms: long("broker.session.timeout.ms"),
            auto_leader_rebalance_enable: flag("auto.leader.rebalance.enable"),
            leader_imbalance_check_interval_seconds: long(
                "leader.imbalance.check.interval.seconds",
            ),
            unclean_leader_election_interval_ms: long("unclean.leader.election.interval.ms"),
            controller_quorum_election_timeout_ms: long("controller.quorum.election.timeout.ms"),
            controller_quorum_election_backoff_max_ms: long(
                "controller.quorum.election.backoff.max.ms",
            ),
            controller_quorum_fetch_timeout_ms: long("controller.quorum.fetch.timeout.ms"),
            controller_quorum_request_timeout_ms: long("controller.quorum.request.timeout.ms"),
            metadata_log_max_record_bytes_between_snapshots: long(
                "metadata.log.max.record.bytes.between.snapshots",
            ),
            metadata_log_max_snapshot_interval_ms: long("metadata.log.max.snapshot.interval.ms"),
            socket_request_max_bytes: int("socket.request.max.bytes"),
            fetch_max_bytes: int("fetch.max.bytes"),
            queued_max_request_bytes: limit("queued.max.request.bytes"),
            connections_max_idle_ms: limit("connections.max.idle.ms"),
            max_connections: int("max.connections"),
            max_connections_per_ip: int("max.connections.per.ip"),
            max_incremental_fetch_session_cache_slots: int(
                "max.incremental.fetch.session.cache.slots",
            ),
            reads_near_replicas: layers
                .broker_value("replica.selector.class")
                .text
                .is_some_and(|class| class == RACK_AWARE_SELECTOR),
            request_timeout_ms: int("request.timeout.ms"),
        }
    }
}

fn built_in(name: &str) -> Option<i64> {
    broker_key(name)?.default_text()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{OverrideMap, StaticConfig};

    #[test]
    fn unset_settings_have_kafkas_defaults() {
        let (file, none) = (StaticConfig::default(), OverrideMap::new());
        let settings = BrokerSettings::resolve(&Layers::new(&file, &none, &none));
        assert_eq!(settings.num_partitions, 1);
        assert_eq!(settings.default_replication_factor, 1);
        assert!(settings.auto_create_topics_enable && settings.delete_topic_enable);
        assert_eq!(settings.socket_request_max_bytes, 104_857_600);
        assert_eq!(settings.log_retention_check_interval_ms, 300_000);
        assert_eq!(settings.queued_max_request_bytes, None);
        assert_eq!(settings.connections_max_idle_ms, Some(600_000));
    }
}
