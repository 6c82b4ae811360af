//! Every broker config of Kafka 4.3.1, by area, generated once from its definition table and kept by hand since.
//!
//! Settings without effect here are kept too: a `server.properties` written for Kafka is then understood, checked by
//! type and explained, and `DescribeConfigs` shows what Kafka's tools expect to find.

mod cluster;
mod coordinators;
mod log;
mod network;
mod remote;
mod security;

use super::key::{ConfigKey, find};

const AREAS: [&[ConfigKey]; 6] = [
    cluster::KEYS,
    coordinators::KEYS,
    log::KEYS,
    network::KEYS,
    remote::KEYS,
    security::KEYS,
];

/// Returns the broker config `name`, if Kafka 4.3 has it.
#[must_use]
pub fn broker_key(name: &str) -> Option<&'static ConfigKey> {
    AREAS.iter().find_map(|area| find(area, name))
}

/// Returns every broker config, in an order that is the same in every run.
pub fn broker_keys() -> impl Iterator<Item = &'static ConfigKey> {
    AREAS.iter().copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_area_is_sorted_and_names_are_unique() {
        let mut names: Vec<_> = broker_keys().map(|key| key.name()).collect();
        for area in AREAS {
            assert!(area.windows(2).all(|pair| pair[0].name() < pair[1].name()));
        }
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        // 360 definitions and the three that exist only as dynamic configs.
        assert_eq!(all, 363);
    }

    #[test]
    fn every_default_passes_its_own_check() {
        for key in broker_keys() {
            if let Some(default) = key.default_text() {
                key.parse(default)
                    .unwrap_or_else(|error| panic!("{}: {error}", key.name()));
            }
        }
    }
}
