//! Settings that every client has, with Kafka's names and defaults.

use std::sync::Arc;

use super::Address;

/// Settings of the part that all clients share: connections and metadata.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Where to begin (`bootstrap.servers`); at least one.
    pub bootstrap: Vec<Address>,
    /// What the broker's logs call this client (`client.id`).
    pub client_id: Arc<str>,
    /// Feeds the jitter of back-offs, the choice of brokers and the sticky partitioner.
    pub seed: u64,
    /// How long an answer may take (`request.timeout.ms`).
    pub request_timeout_ms: u64,
    /// The wait before a broker is connected to again (`reconnect.backoff.ms`).
    pub reconnect_backoff_ms: u64,
    /// The longest such wait (`reconnect.backoff.max.ms`).
    pub reconnect_backoff_max_ms: u64,
    /// The wait before a failed request is sent again (`retry.backoff.ms`).
    pub retry_backoff_ms: u64,
    /// The longest such wait (`retry.backoff.max.ms`).
    pub retry_backoff_max_ms: u64,
    /// How long making a connection may take (`socket.connection.setup.timeout.ms`).
    pub connection_setup_timeout_ms: u64,
    /// The age at which metadata is asked for again (`metadata.max.age.ms`).
    pub metadata_max_age_ms: u64,
    /// Whether asking for a topic may create it (`allow.auto.create.topics`).
    pub allow_auto_create_topics: bool,
    /// The largest answer that is read at all; drivers hold frames to it as well.
    pub response_bytes_max: usize,
}

impl ClientConfig {
    /// The largest answer to anything but Fetch: such an answer is decoded as a whole, and takes
    /// several times its size in memory.
    pub const CONTROL_BYTES_MAX: usize = 16 << 20;

    /// Takes Kafka's defaults.
    #[must_use]
    pub fn new(bootstrap: Vec<Address>, client_id: &str, seed: u64) -> Self {
        Self {
            bootstrap,
            client_id: Arc::from(client_id),
            seed,
            request_timeout_ms: 30_000,
            reconnect_backoff_ms: 50,
            reconnect_backoff_max_ms: 1_000,
            retry_backoff_ms: 100,
            retry_backoff_max_ms: 1_000,
            connection_setup_timeout_ms: 10_000,
            metadata_max_age_ms: 300_000,
            allow_auto_create_topics: true,
            response_bytes_max: 100 << 20,
        }
    }
}
