//! One row of the definition tables.

use super::{
    check::Check,
    kind::{ConfigError, ConfigType, ConfigValue},
    topic_keys::TOPIC_KEYS,
};

/// How a broker config can be changed while the broker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateMode {
    /// Only in `server.properties`.
    ReadOnly,
    /// For one broker or as the default of all.
    ClusterWide,
    /// For one broker alone.
    PerBroker,
}

/// The definition of one config.
#[derive(Debug)]
pub struct ConfigKey {
    name: &'static str,
    kind: ConfigType,
    default: Option<&'static str>,
    check: Check,
    update: UpdateMode,
    documentation: &'static str,
    internal: bool,
    required: bool,
    honoured: bool,
}

const NO_EFFECT: &str =
    "A setting of Kafka that is known and checked by type, but has no effect here.";

/// Defines a config that has an effect.
pub(super) const fn key(
    name: &'static str,
    kind: ConfigType,
    default: Option<&'static str>,
    check: Check,
    update: UpdateMode,
    documentation: &'static str,
) -> ConfigKey {
    ConfigKey {
        name,
        kind,
        default,
        check,
        update,
        documentation,
        internal: false,
        required: false,
        honoured: true,
    }
}

/// Defines a config that is known, but has no effect.
pub(super) const fn known(
    name: &'static str,
    kind: ConfigType,
    default: Option<&'static str>,
    check: Check,
    update: UpdateMode,
) -> ConfigKey {
    ConfigKey {
        honoured: false,
        ..key(name, kind, default, check, update, NO_EFFECT)
    }
}

impl ConfigKey {
    /// Marks a config that is defined as Kafka defines it, but that nothing reads yet.
    pub(super) const fn without_effect(mut self) -> Self {
        self.honoured = false;
        self
    }

    /// Marks a config that answers show only where it is set.
    pub(super) const fn internal(mut self) -> Self {
        self.internal = true;
        self
    }

    /// Marks a config without a default, which Kafka demands to be set.
    pub(super) const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Returns Kafka's name of the config.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the type of its values.
    #[must_use]
    pub const fn kind(&self) -> ConfigType {
        self.kind
    }

    /// Returns the default as text; `None` where the default is null or there is none.
    #[must_use]
    pub const fn default_text(&self) -> Option<&'static str> {
        self.default
    }

    /// Returns how the config can be changed at run time.
    #[must_use]
    pub const fn update_mode(&self) -> UpdateMode {
        self.update
    }

    /// Returns what the config does, in one line.
    #[must_use]
    pub const fn documentation(&self) -> &'static str {
        self.documentation
    }

    /// Returns whether answers show the config only where it is set.
    #[must_use]
    pub const fn is_internal(&self) -> bool {
        self.internal
    }

    /// Returns whether the config has no default and Kafka demands it.
    #[must_use]
    pub const fn is_required(&self) -> bool {
        self.required
    }

    /// Returns whether the config has an effect here.
    #[must_use]
    pub const fn is_honoured(&self) -> bool {
        self.honoured
    }

    /// Parses and checks `text`.
    ///
    /// # Errors
    /// If the text is not of the config's type, or its check refuses the value.
    pub fn parse(&self, text: &str) -> Result<ConfigValue, ConfigError> {
        let value = self.kind.parse(self.name, text)?;
        if self.kind == ConfigType::Class {
            // No Java class can be loaded here: only the one that Kafka names itself is "found".
            let found =
                matches!(&value, ConfigValue::Text(class) if Some(class.as_str()) == self.default);
            if !found {
                return Err(ConfigError::value(
                    self.name,
                    text,
                    &format!("Class {text} could not be found."),
                ));
            }
        }
        self.check.apply(self.name, value)
    }
}

/// Finds `name` in a table sorted by name.
pub(super) fn find<'table>(table: &'table [ConfigKey], name: &str) -> Option<&'table ConfigKey> {
    let at = table.binary_search_by(|key| key.name.cmp(name)).ok()?;
    table.get(at)
}

/// Returns the topic config `name`, if Kafka 4.3 has it.
#[must_use]
pub fn topic_key(name: &str) -> Option<&'static ConfigKey> {
    find(TOPIC_KEYS, name)
}

/// Returns every topic config, sorted by name.
#[must_use]
pub fn topic_keys() -> &'static [ConfigKey] {
    TOPIC_KEYS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(name: &str, text: &str) -> String {
        topic_key(name)
            .unwrap()
            .parse(text)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn topic_table_is_sorted_and_complete() {
        assert!(
            TOPIC_KEYS
                .windows(2)
                .all(|pair| pair[0].name < pair[1].name)
        );
        assert_eq!(TOPIC_KEYS.len(), 34);
        for key in TOPIC_KEYS {
            if let Some(default) = key.default {
                assert!(key.parse(default).is_ok(), "{}", key.name);
            }
        }
    }

    /// The messages were read off a Kafka 4.3.1 broker.
    #[test]
    fn refusals_are_worded_as_kafka_words_them() {
        for (name, text, message) in [
            (
                "segment.bytes",
                "100",
                "Invalid value 100 for configuration segment.bytes: Value must be at least 1048576",
            ),
            (
                "segment.bytes",
                "abc",
                "Invalid value abc for configuration segment.bytes: Not a number of type INT",
            ),
            (
                "cleanup.policy",
                "foo",
                "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
            ),
            (
                "cleanup.policy",
                "delete,",
                "Configuration 'cleanup.policy' values must not be empty.",
            ),
            (
                "compression.gzip.level",
                "0",
                "Invalid value 0 for configuration compression.gzip.level: \
                 Value must be between 1 and 9 or equal to -1",
            ),
            (
                "compression.type",
                "brotli",
                "Invalid value brotli for configuration compression.type: \
                 String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
            ),
            (
                "preallocate",
                "yes",
                "Invalid value yes for configuration preallocate: Expected value to be either true or false",
            ),
            (
                "min.cleanable.dirty.ratio",
                "1.5",
                "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
            ),
            (
                "retention.ms",
                "-2",
                "Invalid value -2 for configuration retention.ms: Value must be at least -1",
            ),
            (
                "leader.replication.throttled.replicas",
                "x,y",
                "Invalid value [x, y] for configuration leader.replication.throttled.replicas: \
                 leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following \
                 format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
            ),
        ] {
            assert_eq!(refusal(name, text), message);
        }
    }

    #[test]
    fn duplicates_in_a_checked_list_are_dropped_not_refused() {
        let value = topic_key("cleanup.policy")
            .unwrap()
            .parse("delete,delete")
            .unwrap();
        assert_eq!(value.to_string(), "delete");
        assert_eq!(
            topic_key("cleanup.policy")
                .unwrap()
                .parse("")
                .unwrap()
                .to_string(),
            ""
        );
    }
}
