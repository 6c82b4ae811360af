//! Configuration: Kafka 4.3's names, types, defaults and checks, and which layer's value counts.
//!
//! What it holds: one table row per topic config and per broker config ([`topic_key`], [`broker_key`]), the parser of
//! `server.properties` with findings for people ([`StaticConfig`]), the layers a value can come from ([`Layers`]) and
//! the typed results that the hot path reads without parsing ([`LogConfig`], [`BrokerSettings`]).
//!
//! A topic's value is the first one found in: topic override, dynamic broker config, dynamic cluster-wide default,
//! `server.properties`, built-in default. Names, types, bounds and messages are those of Kafka 4.3.1's own definition
//! tables. One default differs on purpose: [`DURABLE_FLUSH_MESSAGES`].

mod broker_keys;
mod broker_settings;
mod check;
mod key;
mod kind;
mod layers;
mod log_config;
mod properties;
mod rules;
mod static_config;
mod synonyms;
mod topic_keys;

pub use self::{
    broker_keys::{broker_key, broker_keys},
    broker_settings::BrokerSettings,
    check::Check,
    key::{ConfigKey, UpdateMode, topic_key, topic_keys},
    kind::{ConfigError, ConfigType, ConfigValue},
    layers::{ConfigSource, EffectiveValue, Layers, OverrideMap, SynonymValue},
    log_config::{CleanupPolicy, CompressionType, LogConfig, TimestampType},
    properties::{Property, parse_properties},
    rules::{validate_dynamic_broker_configs, validate_topic_overrides},
    static_config::{Finding, StaticConfig},
    synonyms::{Conversion, broker_config_group, topic_synonyms},
    topic_keys::{DURABLE_FLUSH_MESSAGES, KAFKA_FLUSH_MESSAGES},
};
