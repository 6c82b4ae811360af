//! The layers a config value can come from, and the one that counts.

use std::collections::BTreeMap;

use super::{
    broker_keys::{broker_key, broker_keys},
    key::{ConfigKey, topic_key, topic_keys},
    kind::ConfigError,
    log_config::LogConfig,
    static_config::StaticConfig,
    synonyms::{broker_config_group, topic_synonyms},
};

/// Config values by name, as somebody set them.
pub type OverrideMap = BTreeMap<String, String>;

/// The layer a value comes from, with the number that answers carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigSource {
    /// Set for the topic.
    Topic,
    /// Set for this broker at run time.
    DynamicBroker,
    /// Set for all brokers at run time.
    DynamicDefaultBroker,
    /// Set in `server.properties` or on the command line.
    StaticBroker,
    /// Built in.
    Default,
}

impl ConfigSource {
    /// Returns Kafka's number of the layer.
    #[must_use]
    pub const fn code(self) -> i8 {
        match self {
            Self::Topic => 1,
            Self::DynamicBroker => 2,
            Self::DynamicDefaultBroker => 3,
            Self::StaticBroker => 4,
            Self::Default => 5,
        }
    }
}

/// A value and the layer it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveValue {
    /// The value as text, `None` for null.
    pub text: Option<String>,
    /// The layer.
    pub source: ConfigSource,
}

/// One place where a value is set, as answers list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SynonymValue {
    /// The name under which it is set.
    pub name: String,
    /// The value; `None` if it must not be shown.
    pub value: Option<String>,
    /// The layer.
    pub source: ConfigSource,
}

/// The broker-level layers of one broker.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'layers> {
    fixed: &'layers StaticConfig,
    cluster_default: &'layers OverrideMap,
    broker: &'layers OverrideMap,
}

impl<'layers> Layers<'layers> {
    /// Makes layers from the settings at start, the dynamic defaults of all brokers and the dynamic configs of one.
    #[must_use]
    pub const fn new(
        fixed: &'layers StaticConfig,
        cluster_default: &'layers OverrideMap,
        broker: &'layers OverrideMap,
    ) -> Self {
        Self {
            fixed,
            cluster_default,
            broker,
        }
    }

    /// Returns the layers with other dynamic configs of the broker.
    #[must_use]
    pub const fn with_broker(self, broker: &'layers OverrideMap) -> Self {
        Self { broker, ..self }
    }

    /// Returns the layers with other dynamic defaults of all brokers.
    #[must_use]
    pub const fn with_cluster_default(self, cluster_default: &'layers OverrideMap) -> Self {
        Self {
            cluster_default,
            ..self
        }
    }

    /// Returns the settings at start.
    #[must_use]
    pub const fn fixed(&self) -> &'layers StaticConfig {
        self.fixed
    }

    /// Returns the dynamic defaults of all brokers.
    #[must_use]
    pub const fn cluster_default(&self) -> &'layers OverrideMap {
        self.cluster_default
    }

    /// Returns the value of broker config `name` that counts, in Kafka's plain form.
    #[must_use]
    pub fn broker_value(&self, name: &str) -> EffectiveValue {
        let (text, source) = self.raw_broker_value(name);
        let plain = match broker_key(name) {
            Some(key) => text
                .and_then(|text| key.parse(text).ok())
                .map(|value| value.to_string()),
            None => text.map(str::to_owned),
        };
        EffectiveValue {
            text: plain,
            source,
        }
    }

    /// Returns the value of broker config `name` that counts, if it is a whole number.
    #[must_use]
    pub fn broker_number(&self, name: &str) -> Option<i64> {
        broker_key(name)?
            .parse(self.raw_broker_value(name).0?)
            .ok()?
            .as_long()
    }

    /// Returns all names that a description of this broker shows: the definitions, and what is set without one.
    #[must_use]
    pub fn broker_names(&self) -> Vec<String> {
        let set = [self.fixed.values(), self.cluster_default, self.broker];
        let shown = |key: &&ConfigKey| {
            // The three quota configs exist only where somebody sets them.
            !key.is_internal() && !DYNAMIC_ONLY.contains(&key.name())
        };
        let mut names: Vec<String> = broker_keys()
            .filter(shown)
            .map(|key| key.name().to_owned())
            .collect();
        for name in set.into_iter().flat_map(BTreeMap::keys) {
            let defined = broker_key(name).is_some_and(|key| shown(&key));
            if !defined && !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// Returns where broker config `name` is set, strongest first, in the order and with the gaps of Kafka's answers.
    #[must_use]
    pub fn broker_synonyms(&self, name: &str, hide: bool) -> Vec<SynonymValue> {
        let group = broker_config_group(name);
        let own = [name];
        let names: &[&str] = if group.is_empty() { &own } else { group };
        let mut found = Vec::new();
        let mut add = |name: &str, value: Option<&str>, source| {
            if let Some(value) = value {
                let value = (!hide).then(|| value.to_owned());
                found.push(SynonymValue {
                    name: name.to_owned(),
                    value,
                    source,
                });
            }
        };
        for name in names {
            add(
                name,
                self.broker.get(*name).map(String::as_str),
                ConfigSource::DynamicBroker,
            );
        }
        for name in names {
            let value = self.cluster_default.get(*name).map(String::as_str);
            add(name, value, ConfigSource::DynamicDefaultBroker);
        }
        for name in names {
            add(name, self.fixed.text(name), ConfigSource::StaticBroker);
        }
        for name in names {
            let default = broker_key(name)
                .filter(|key| !DYNAMIC_ONLY.contains(&key.name()))
                .and_then(ConfigKey::default_text);
            add(name, default, ConfigSource::Default);
        }
        // Kafka drops everything above the first entry of the asked name, even values that count.
        let first = found
            .iter()
            .position(|entry| entry.name == name)
            .unwrap_or(found.len());
        found.split_off(first)
    }

    /// Returns the value that topic config `name` has where the topic itself sets none, as the controller sees it:
    /// the text as it was set, hours and minutes converted.
    #[must_use]
    pub fn topic_default(&self, name: &str) -> EffectiveValue {
        let synonyms = topic_synonyms(name);
        let set = [
            (ConfigSource::DynamicBroker, self.broker),
            (ConfigSource::DynamicDefaultBroker, self.cluster_default),
            (ConfigSource::StaticBroker, self.fixed.values()),
        ];
        for (source, values) in set {
            for (broker_name, conversion) in synonyms {
                if let Some(text) = values.get(*broker_name) {
                    return EffectiveValue {
                        text: conversion.convert(text),
                        source,
                    };
                }
            }
        }
        let text = topic_key(name)
            .and_then(ConfigKey::default_text)
            .map(str::to_owned);
        EffectiveValue {
            text,
            source: ConfigSource::Default,
        }
    }

    /// Returns the value that a topic config has where the topic itself sets none, in Kafka's plain form.
    #[must_use]
    pub fn topic_default_plain(&self, key: &ConfigKey) -> Option<String> {
        let text = topic_synonyms(key.name())
            .iter()
            .find_map(|(broker_name, conversion)| {
                conversion.convert(&self.broker_value(broker_name).text?)
            });
        match (key.name(), text) {
            // Any negative retention of the broker means "no limit".
            ("retention.ms", Some(text)) if text.starts_with('-') => Some("-1".to_owned()),
            (_, text) => text.or_else(|| key.default_text().map(str::to_owned)),
        }
    }

    /// Returns the log config of a topic without overrides.
    #[must_use]
    pub fn log_defaults(&self) -> LogConfig {
        let mut config = LogConfig::default();
        for key in topic_keys() {
            // Broker values were checked when they were set; one that a later version refuses keeps the default.
            let text = self.topic_default_plain(key);
            if let Some(value) = text.and_then(|text| key.kind().parse(key.name(), &text).ok()) {
                config.set(key.name(), &value);
            }
        }
        config
    }

    /// Returns the log config of a topic with `overrides`.
    ///
    /// # Errors
    /// If an override is refused by its check; unknown names are ignored.
    pub fn log_config(&self, overrides: &OverrideMap) -> Result<LogConfig, ConfigError> {
        self.log_defaults().with_overrides(overrides)
    }

    fn raw_broker_value(&self, name: &str) -> (Option<&'layers str>, ConfigSource) {
        let layers = [
            (ConfigSource::DynamicBroker, self.broker),
            (ConfigSource::DynamicDefaultBroker, self.cluster_default),
            (ConfigSource::StaticBroker, self.fixed.values()),
        ];
        for (source, values) in layers {
            if let Some(text) = values.get(name) {
                return (Some(text), source);
            }
            // A stronger layer hides the group's other names in weaker ones; within one layer each keeps its value.
            let dynamic = source != ConfigSource::StaticBroker;
            let hides = |other: &str| {
                values.contains_key(other) && broker_config_group(other).contains(&name)
            };
            if dynamic
                && broker_config_group_or_sides(name)
                    .iter()
                    .any(|other| hides(other))
            {
                break;
            }
        }
        (
            broker_key(name).and_then(ConfigKey::default_text),
            ConfigSource::Default,
        )
    }
}

/// The names whose being set may hide `name`; setting `log.flush.interval.ms` hides its own default too.
fn broker_config_group_or_sides(name: &str) -> &'static [&'static str] {
    match name {
        "log.flush.scheduler.interval.ms" => broker_config_group("log.flush.interval.ms"),
        _ => broker_config_group(name),
    }
}

/// Configs that are not settings of `server.properties` and have no default to show.
const DYNAMIC_ONLY: [&str; 3] = [
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> OverrideMap {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    fn fixed(pairs: &[(&str, &str)]) -> StaticConfig {
        StaticConfig::new(map(pairs)).unwrap()
    }

    #[test]
    fn stronger_layers_win_and_hide_other_names_of_a_setting() {
        let fixed = fixed(&[
            ("log.retention.hours", "100"),
            ("log.segment.bytes", "2000000"),
        ]);
        let none = OverrideMap::new();
        let layers = Layers::new(&fixed, &none, &none);
        assert_eq!(layers.log_defaults().retention_ms, Some(360_000_000));
        assert_eq!(layers.log_defaults().segment_bytes, 2_000_000);

        let cluster = map(&[
            ("log.retention.ms", "7000"),
            ("log.segment.bytes", "3000000"),
        ]);
        let layers = layers.with_cluster_default(&cluster);
        assert_eq!(layers.log_defaults().retention_ms, Some(7000));
        // Read off a Kafka 4.3.1 broker: the hours go back to their default, not to the file's value.
        assert_eq!(
            layers.broker_value("log.retention.hours").text.as_deref(),
            Some("168")
        );

        let broker = map(&[("log.segment.bytes", "4000000")]);
        let layers = layers.with_broker(&broker);
        assert_eq!(layers.log_defaults().segment_bytes, 4_000_000);
        assert_eq!(
            layers.topic_default("segment.bytes"),
            EffectiveValue {
                text: Some("4000000".into()),
                source: ConfigSource::DynamicBroker
            }
        );
        let overrides = map(&[("segment.bytes", "5000000")]);
        assert_eq!(
            layers.log_config(&overrides).unwrap().segment_bytes,
            5_000_000
        );
    }

    /// As Kafka 4.3.1 answers, gaps included.
    #[test]
    fn synonyms_are_listed_from_the_asked_name_on() {
        let none = OverrideMap::new();
        let file = fixed(&[("log.retention.hours", "100")]);
        let layers = Layers::new(&file, &none, &none);
        assert!(layers.broker_synonyms("log.retention.ms", false).is_empty());
        let hours = layers.broker_synonyms("log.retention.hours", false);
        assert_eq!(hours.len(), 2);
        let dynamic = map(&[("log.retention.ms", "1000")]);
        let layers = layers.with_broker(&dynamic);
        let listed: Vec<_> = layers
            .broker_synonyms("log.retention.ms", false)
            .into_iter()
            .map(|entry| (entry.name, entry.source))
            .collect();
        assert_eq!(
            listed,
            [
                ("log.retention.ms".to_owned(), ConfigSource::DynamicBroker),
                ("log.retention.hours".to_owned(), ConfigSource::StaticBroker),
                ("log.retention.hours".to_owned(), ConfigSource::Default),
            ]
        );
    }

    #[test]
    fn default_flush_rule_is_durable() {
        let (file, none) = (StaticConfig::default(), OverrideMap::new());
        let layers = Layers::new(&file, &none, &none);
        assert!(layers.log_defaults().flushes_before_answer());
        let kafka = map(&[("flush.messages", "9223372036854775807")]);
        assert!(!layers.log_config(&kafka).unwrap().flushes_before_answer());
    }

    #[test]
    fn negative_retention_of_the_broker_is_no_limit() {
        let (file, none) = (fixed(&[("log.retention.hours", "-5")]), OverrideMap::new());
        assert_eq!(
            Layers::new(&file, &none, &none).log_defaults().retention_ms,
            None
        );
    }
}
