//! The APIs this crate knows: keys, versions, listeners, header versions.

use super::messages::ApiVersion;

/// The listeners on which an API is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Listener {
    /// A listener for clients and followers.
    Broker,
    /// A listener of the controller quorum.
    Controller,
}

/// Where an API belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Broker,
    Controller,
    Both,
}

/// An inclusive range of API versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// The lowest version.
    pub min: i16,
    /// The highest version.
    pub max: i16,
}

impl VersionRange {
    /// Says whether `version` lies in the range.
    #[must_use]
    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }
}

/// What is known about one API.
#[derive(Clone, Copy, Debug)]
pub struct ApiSpec {
    /// Kafka's name of the API.
    pub name: &'static str,
    /// The versions that are decoded and answered.
    pub served: VersionRange,
    /// The versions that ApiVersions names; wider than `served` for Produce only.
    pub advertised: VersionRange,
    /// The first version with compact types and tagged fields.
    pub flexible_from: i16,
    scope: Scope,
}

macro_rules! apis {
    ($($(#[$doc:meta])* $name:ident = $key:literal:
        $min:literal..=$max:literal, advertised from $advertised:literal,
        flexible from $flexible:literal, $scope:ident;)*) => {
        /// An API that this crate serves; the value is Kafka's key.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ApiKey {
            $($(#[$doc])* $name = $key,)*
        }

        impl ApiKey {
            /// All APIs, by ascending key.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the API of a key from the wire, if it is served.
            #[must_use]
            pub const fn from_i16(key: i16) -> Option<Self> {
                match key {
                    $($key => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Returns Kafka's key.
            #[must_use]
            pub const fn key(self) -> i16 {
                match self {
                    $(Self::$name => $key,)*
                }
            }

            /// Returns the row of the version table.
            #[must_use]
            pub const fn spec(self) -> ApiSpec {
                match self {
                    $(Self::$name => ApiSpec {
                        name: stringify!($name),
                        served: VersionRange { min: $min, max: $max },
                        advertised: VersionRange { min: $advertised, max: $max },
                        flexible_from: $flexible,
                        scope: Scope::$scope,
                    },)*
                }
            }
        }
    };
}

// The version table: Kafka 4.3.1, as far as it is served. Produce is advertised from 0 although
// versions 0 to 2 are refused: clients that look for exactly version 0 would otherwise stop
// compressing (KAFKA-18659).
apis! {
    /// Appends record batches.
    Produce = 0: 3..=13, advertised from 0, flexible from 9, Broker;
    /// Reads record batches, for consumers and followers.
    Fetch = 1: 4..=18, advertised from 4, flexible from 12, Both;
    /// Finds offsets by time or position.
    ListOffsets = 2: 1..=11, advertised from 1, flexible from 6, Broker;
    /// Describes brokers, topics and partitions.
    Metadata = 3: 0..=13, advertised from 0, flexible from 9, Broker;
    /// Finds the coordinator of a group: there are none yet, and every answer says so. It is listed because librdkafka takes
    /// its version 0 for the sign that a broker can store LZ4, and sends uncompressed data otherwise.
    FindCoordinator = 10: 0..=6, advertised from 0, flexible from 3, Broker;
    /// Lists the APIs and features.
    ApiVersions = 18: 0..=4, advertised from 0, flexible from 3, Both;
    /// Creates topics.
    CreateTopics = 19: 2..=7, advertised from 2, flexible from 5, Both;
    /// Deletes topics.
    DeleteTopics = 20: 1..=6, advertised from 1, flexible from 4, Both;
    /// Moves log start offsets.
    DeleteRecords = 21: 0..=2, advertised from 0, flexible from 2, Broker;
    /// Finds where an epoch ends in the leader's log.
    OffsetForLeaderEpoch = 23: 2..=4, advertised from 2, flexible from 4, Broker;
    /// Reads configurations.
    DescribeConfigs = 32: 1..=4, advertised from 1, flexible from 4, Both;
    /// Adds partitions to topics.
    CreatePartitions = 37: 0..=3, advertised from 0, flexible from 2, Both;
    /// Elects preferred leaders, or any.
    ElectLeaders = 43: 0..=2, advertised from 0, flexible from 2, Both;
    /// Changes single configuration entries.
    IncrementalAlterConfigs = 44: 0..=1, advertised from 0, flexible from 1, Both;
    /// Asks a replica of the quorum for its vote.
    Vote = 52: 0..=2, advertised from 0, flexible from 0, Controller;
    /// Tells a replica of the quorum who leads.
    BeginQuorumEpoch = 53: 0..=1, advertised from 0, flexible from 1, Controller;
    /// Tells a replica of the quorum that its leader leads no more.
    EndQuorumEpoch = 54: 0..=1, advertised from 0, flexible from 1, Controller;
    /// Describes the controller quorum to admin clients.
    DescribeQuorum = 55: 0..=2, advertised from 0, flexible from 0, Both;
    /// Changes the in-sync set of a partition: from its leader to the controller.
    AlterPartition = 56: 2..=3, advertised from 2, flexible from 0, Controller;
    /// Carries a client's request from a broker to the active controller.
    Envelope = 58: 0..=0, advertised from 0, flexible from 0, Controller;
    /// Reads a snapshot of the metadata log.
    FetchSnapshot = 59: 0..=1, advertised from 0, flexible from 0, Controller;
    /// Describes the cluster to admin clients.
    DescribeCluster = 60: 0..=2, advertised from 0, flexible from 0, Both;
    /// Registers a broker with the controller.
    BrokerRegistration = 62: 0..=4, advertised from 0, flexible from 0, Controller;
    /// Tells the controller that a broker lives, and what it wants.
    BrokerHeartbeat = 63: 0..=2, advertised from 0, flexible from 0, Controller;
}

impl ApiKey {
    /// Says whether `version` is decoded and answered.
    #[must_use]
    pub const fn serves(self, version: i16) -> bool {
        self.spec().served.contains(version)
    }

    /// Says whether the API is served on `listener`.
    #[must_use]
    pub const fn serves_on(self, listener: Listener) -> bool {
        match self.spec().scope {
            Scope::Both => true,
            Scope::Broker => matches!(listener, Listener::Broker),
            Scope::Controller => matches!(listener, Listener::Controller),
        }
    }

    /// Says whether `version` uses compact types and tagged fields.
    #[must_use]
    pub const fn is_flexible(self, version: i16) -> bool {
        version >= self.spec().flexible_from
    }

    /// Returns the version of the request header.
    #[must_use]
    pub const fn request_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) { 2 } else { 1 }
    }

    /// Returns the version of the response header: always 0 for ApiVersions, whose reader does not
    /// know yet what the broker speaks (KIP-511).
    #[must_use]
    pub const fn response_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) && !matches!(self, Self::ApiVersions) {
            1
        } else {
            0
        }
    }
}

impl std::fmt::Display for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.spec().name)
    }
}

/// One line of what ApiVersions advertises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// The API.
    pub api: ApiKey,
    /// Its versions, as told to clients.
    pub versions: VersionRange,
}

/// Lists what is advertised on `listener`, by ascending key.
pub fn advertised(listener: Listener) -> impl Iterator<Item = Advertised> {
    ApiKey::ALL
        .iter()
        .copied()
        .filter(move |api| api.serves_on(listener))
        .map(|api| Advertised {
            api,
            versions: api.spec().advertised,
        })
}

/// Returns what is advertised on `listener`, as an ApiVersions answer carries it.
#[must_use]
pub fn api_versions(listener: Listener) -> Vec<ApiVersion> {
    advertised(listener)
        .map(|Advertised { api, versions }| {
            ApiVersion::default()
                .with_api_key(api.key())
                .with_min_version(versions.min)
                .with_max_version(versions.max)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_table_is_that_of_the_wire_crate_but_for_produce() {
        for api in ApiKey::ALL {
            let wire = kacrab_protocol::version::ApiKey::from_i16(api.key()).unwrap();
            assert_eq!(format!("{wire:?}"), api.to_string());
            let info = kacrab_protocol::version::client_api_info(wire);
            let spec = api.spec();
            assert_eq!(
                (info.min_version, info.max_version),
                (spec.served.min, spec.served.max)
            );
            assert_eq!(info.flexible_versions_start, spec.flexible_from);
            let lie = spec.advertised != spec.served;
            assert_eq!(lie, *api == ApiKey::Produce);
            assert_eq!(ApiKey::from_i16(api.key()), Some(*api));
            for version in spec.served.min..=spec.served.max {
                let key = api.key();
                let request = kacrab_protocol::version::request_header_version(key, version);
                assert_eq!(api.request_header_version(version), request);
                let response = kacrab_protocol::version::response_header_version(key, version);
                assert_eq!(api.response_header_version(version), response);
            }
        }
        assert!(ApiKey::ALL.is_sorted());
    }

    #[test]
    fn produce_is_advertised_from_zero_and_hidden_from_the_quorum() {
        let broker: Vec<Advertised> = advertised(Listener::Broker).collect();
        assert_eq!(broker[0].versions, VersionRange { min: 0, max: 13 });
        assert_eq!(api_versions(Listener::Broker).len(), 16);
        let controller: Vec<i16> = advertised(Listener::Controller)
            .map(|line| line.api.key())
            .collect();
        assert_eq!(
            controller,
            [
                1, 18, 19, 20, 32, 37, 43, 44, 52, 53, 54, 55, 56, 58, 59, 60, 62, 63
            ]
        );
    }
}
