//! Limits and waits of links.

use super::Lane;

/// What holds for one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneConfig {
    /// The wait before a lost connection is made again (`reconnect.backoff.ms`).
    pub backoff_ms: u64,
    /// The longest such wait, after many failures in a row (`reconnect.backoff.max.ms`).
    pub backoff_max_ms: u64,
    /// How long a connection may take to stand (`socket.connection.setup.timeout.ms`).
    pub setup_timeout_ms: u64,
    /// The most calls that are sent and not answered; further ones wait.
    pub in_flight_max: usize,
    /// The most calls that wait to be sent.
    pub waiting_max: usize,
    /// The most bytes of bodies that wait to be sent.
    pub waiting_bytes_max: usize,
    /// The largest answer that any call on this lane may have.
    pub answer_bytes_max: usize,
}

/// What holds for all links of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerConfig {
    /// What this node calls itself in headers.
    pub client_id: String,
    /// The quorum's lane.
    pub quorum: LaneConfig,
    /// The data's lane.
    pub replication: LaneConfig,
    /// The lane to the active controller.
    pub controller: LaneConfig,
}

impl PeerConfig {
    /// Makes the settings of a node with Kafka's defaults, as far as it has such.
    #[must_use]
    pub fn new(client_id: &str) -> Self {
        let lane = LaneConfig {
            backoff_ms: 50,
            backoff_max_ms: 1_000,
            setup_timeout_ms: 10_000,
            in_flight_max: 5,
            waiting_max: 64,
            waiting_bytes_max: 16 << 20,
            answer_bytes_max: 16 << 20,
        };
        Self {
            client_id: client_id.to_owned(),
            // `controller.quorum.retry.backoff.ms`: an election must not wait for a second. A voter that is cut off is
            // given up sooner for the same reason (`controller.quorum.request.timeout.ms`).
            quorum: LaneConfig {
                backoff_ms: 20,
                backoff_max_ms: 200,
                setup_timeout_ms: 2_000,
                ..lane
            },
            // The largest answer to a follower's fetch: `replica.fetch.response.max.bytes` is exceeded by one batch, which may
            // be as large as a frame.
            replication: LaneConfig {
                answer_bytes_max: 100 << 20,
                ..lane
            },
            // Clients' requests are forwarded here.
            controller: LaneConfig {
                waiting_max: 1_000,
                ..lane
            },
        }
    }

    /// Returns what holds for a lane.
    #[must_use]
    pub const fn lane(&self, lane: Lane) -> &LaneConfig {
        match lane {
            Lane::Quorum => &self.quorum,
            Lane::Replication => &self.replication,
            Lane::Controller => &self.controller,
        }
    }
}
