//! The broker's settings for replication.

use crate::config::BrokerSettings;

/// Kafka's names, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicationConfig {
    /// `replica.lag.time.max.ms`: a follower that has not caught up for this long leaves the ISR.
    pub replica_lag_time_max_ms: u64,
    /// `replica.fetch.backoff.ms`: how long a follower waits after an error.
    pub replica_fetch_backoff_ms: u64,
    /// `replica.fetch.wait.max.ms`: how long the leader may wait for records before it answers.
    pub replica_fetch_wait_max_ms: u64,
}

impl From<&BrokerSettings> for ReplicationConfig {
    fn from(settings: &BrokerSettings) -> Self {
        Self {
            replica_lag_time_max_ms: u64::try_from(settings.replica_lag_time_max_ms).unwrap_or(0),
            replica_fetch_backoff_ms: u64::try_from(settings.replica_fetch_backoff_ms).unwrap_or(0),
            replica_fetch_wait_max_ms: u64::try_from(settings.replica_fetch_wait_max_ms)
                .unwrap_or(0),
        }
    }
}

impl Default for ReplicationConfig {
    /// Kafka's defaults.
    fn default() -> Self {
        Self {
            replica_lag_time_max_ms: 30_000,
            replica_fetch_backoff_ms: 1_000,
            replica_fetch_wait_max_ms: 500,
        }
    }
}
