//! Checks that need more than one config: contradictions, and what may change while a broker runs.

use super::{
    broker_keys::broker_key,
    key::{UpdateMode, topic_key, topic_keys},
    kind::ConfigError,
    layers::{Layers, OverrideMap},
    synonyms::topic_synonyms,
};

/// Checks that broker configs agree with each other; `number` gives the value in force, `None` for null.
///
/// # Errors
/// The first contradiction, worded as Kafka words it at start-up and when a change is asked for.
pub(super) fn validate_broker_values(
    number: &dyn Fn(&str) -> Option<i64>,
) -> Result<(), ConfigError> {
    let first = |topic_name: &str| {
        topic_synonyms(topic_name)
            .iter()
            .find_map(|(name, conversion)| {
                conversion
                    .convert(&number(name)?.to_string())?
                    .parse::<i64>()
                    .ok()
            })
    };
    let require = |holds: bool, message: &str| {
        if holds {
            Ok(())
        } else {
            Err(ConfigError::new(format!("requirement failed: {message}")))
        }
    };
    let at_most = |small: &str, large: &str| match (number(small), number(large)) {
        (Some(small), Some(large)) => small <= large,
        _ => true,
    };
    require(
        first("segment.ms").is_none_or(|ms| ms >= 1),
        "log.roll.ms must be greater than or equal to 1",
    )?;
    require(
        first("segment.jitter.ms").is_none_or(|ms| ms >= 0),
        "log.roll.jitter.ms must be greater than or equal to 0",
    )?;
    // Any negative retention means "no limit"; only zero is senseless.
    require(
        first("retention.ms") != Some(0),
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )?;
    let buffer = number("log.cleaner.dedupe.buffer.size").unwrap_or(i64::MAX);
    let threads = number("log.cleaner.threads").unwrap_or(1).max(1);
    require(
        buffer / threads > 1024 * 1024,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )?;
    require(
        at_most("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms \
         to prevent unnecessary socket timeouts",
    )?;
    require(
        at_most("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms \
         to prevent frequent changes in ISR",
    )?;
    let queued = number("queued.max.request.bytes").unwrap_or(-1);
    require(
        queued <= 0 || at_most("socket.request.max.bytes", "queued.max.request.bytes"),
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
}

/// Checks the whole set of overrides that a topic would have.
///
/// # Errors
/// The first refusal, worded as Kafka words it; all of them are `INVALID_CONFIG`.
pub fn validate_topic_overrides(
    layers: &Layers<'_>,
    overrides: &OverrideMap,
) -> Result<(), ConfigError> {
    if let Some(unknown) = overrides.keys().find(|name| topic_key(name).is_none()) {
        return Err(ConfigError::new(format!(
            "Unknown topic config name: {unknown}"
        )));
    }
    for key in topic_keys() {
        if let Some(text) = overrides.get(key.name()) {
            key.parse(text)?;
        }
    }
    let config = layers.log_config(overrides)?;
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms {
        return Err(ConfigError::new(format!(
            "conflict topic config setting min.compaction.lag.ms ({}) > max.compaction.lag.ms ({})",
            config.min_compaction_lag_ms, config.max_compaction_lag_ms
        )));
    }
    if config.remote_storage_enable {
        return Err(ConfigError::new(
            "Tiered Storage functionality is disabled in the broker. \
             Topic cannot be configured with remote log storage.",
        ));
    }
    Ok(())
}

/// Configs of key stores: they can change only under a listener's prefix.
const SECURITY_CONFIGS: [&str; 10] = [
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
];

/// Checks the whole set of dynamic configs `proposed` of one broker, or of all brokers unless `per_broker`.
///
/// `layers` are those in force now.
///
/// # Errors
/// The first refusal, worded as Kafka words it; all of them are `INVALID_REQUEST`.
pub fn validate_dynamic_broker_configs(
    layers: &Layers<'_>,
    proposed: &OverrideMap,
    per_broker: bool,
) -> Result<(), ConfigError> {
    let refuse_any = |why: &str, refused: &dyn Fn(&str) -> bool| {
        let names: Vec<&str> = proposed
            .keys()
            .map(String::as_str)
            .filter(|name| refused(name))
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        Err(ConfigError::new(format!("{why}: [{}]", names.join(", "))))
    };
    let mode = |name: &str| broker_key(name).map(super::key::ConfigKey::update_mode);
    refuse_any("Cannot update these configs dynamically", &|name| {
        mode(name) == Some(UpdateMode::ReadOnly)
    })?;
    refuse_any(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        &|name| SECURITY_CONFIGS.contains(&name),
    )?;
    for (name, text) in proposed {
        if let Some(key) = broker_key(base_name(name)) {
            key.parse(text)?;
        }
    }
    if !per_broker {
        refuse_any(
            "Cannot update these configs at default cluster level, broker id must be specified",
            &|name| mode(name) == Some(UpdateMode::PerBroker) || base_name(name) != name,
        )?;
    }
    let after = if per_broker {
        layers.with_broker(proposed)
    } else {
        layers.with_cluster_default(proposed)
    };
    validate_broker_values(&|name| after.broker_number(name))?;
    validate_steps(layers, &after)
}

/// Strips the prefix of a listener's own setting: `listener.name.<listener>.<config>`.
fn base_name(name: &str) -> &str {
    name.strip_prefix("listener.name.")
        .and_then(|rest| rest.split_once('.'))
        .map_or(name, |(_, base)| base)
}

/// Numbers of threads may at most halve or double in one change.
fn validate_steps(before: &Layers<'_>, after: &Layers<'_>) -> Result<(), ConfigError> {
    // Kafka wraps the reason in an exception whose own text becomes the "configuration".
    let wrap = |why: String| {
        Err(ConfigError::new(format!(
            "Invalid value org.apache.kafka.common.config.ConfigException: {why} \
             for configuration Invalid dynamic configuration"
        )))
    };
    let change = |name: &str| {
        let (old, new) = (before.broker_number(name)?, after.broker_number(name)?);
        (old != new).then_some((old, new))
    };
    if let Some((old, new)) = change("log.cleaner.threads") {
        if new < 1 {
            return wrap("Log cleaner threads should be at least 1".to_owned());
        }
        if new < old / 2 {
            return wrap(format!(
                "Log cleaner threads cannot be reduced to less than half the current value {old}"
            ));
        }
        if new > old.saturating_mul(2) {
            return wrap(format!(
                "Log cleaner threads cannot be increased to more than double the current value {old}"
            ));
        }
    }
    let pools = [
        "background.threads",
        "num.io.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
    ];
    for name in pools {
        let Some((old, new)) = change(name) else {
            continue;
        };
        let failed = format!("Dynamic thread count update validation failed for {name}={new}");
        if new < old / 2 {
            return wrap(format!(
                "{failed}, value should be at least half the current value {old}"
            ));
        }
        if new > old.saturating_mul(2) {
            return wrap(format!(
                "{failed}, value should not be greater than double the current value {old}"
            ));
        }
    }
    Ok(())
}
