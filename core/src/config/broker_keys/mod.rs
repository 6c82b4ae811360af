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

use super::key::ConfigKey;

const AREAS: [&[ConfigKey]; 6] = [
    cluster::KEYS,
    coordinators::KEYS,
    log::KEYS,
    network::KEYS,
    remote::KEYS,
    security::KEYS,
];

/// All of them by name: settings are looked up some thousand times in a start.
const BY_NAME: [&ConfigKey; COUNT] = by_name();

const COUNT: usize = {
    let (mut area, mut count) = (0, 0);
    while area < AREAS.len() {
        count += AREAS[area].len();
        area += 1;
    }
    count
};

/// Merges the areas, each of which is sorted.
const fn by_name() -> [&'static ConfigKey; COUNT] {
    let mut heads = [0; AREAS.len()];
    let mut merged = [&AREAS[0][0]; COUNT];
    let mut at = 0;
    while at < COUNT {
        let mut least: Option<usize> = None;
        let mut area = 0;
        while area < AREAS.len() {
            if heads[area] < AREAS[area].len() {
                let name = AREAS[area][heads[area]].name();
                least = match least {
                    Some(other) if !is_less(name, AREAS[other][heads[other]].name()) => Some(other),
                    Some(_) | None => Some(area),
                };
            }
            area += 1;
        }
        if let Some(area) = least {
            merged[at] = &AREAS[area][heads[area]];
            heads[area] += 1;
        }
        at += 1;
    }
    merged
}

const fn is_less(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() {
        if one[at] != other[at] {
            return one[at] < other[at];
        }
        at += 1;
    }
    one.len() < other.len()
}

/// Returns the broker config `name`, if Kafka 4.3 has it.
#[must_use]
pub fn broker_key(name: &str) -> Option<&'static ConfigKey> {
    let keys: &'static [&ConfigKey] = &BY_NAME;
    let at = keys.binary_search_by(|key| key.name().cmp(name)).ok()?;
    keys.get(at).copied()
}

/// Returns every broker config, in an order that is the same in every run.
pub fn broker_keys() -> impl Iterator<Item = &'static ConfigKey> {
    AREAS.iter().copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_found_by_its_name() {
        for key in broker_keys() {
            let found = broker_key(key.name()).map(ConfigKey::name);
            assert_eq!(found, Some(key.name()));
        }
        assert!(broker_key("").is_none());
        assert!(broker_key("zookeeper.connect.").is_none());
    }

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
