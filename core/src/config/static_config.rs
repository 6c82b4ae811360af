//! The settings a node is started with, checked, with findings for the person who wrote them.

use std::fmt;

use super::{
    broker_keys::{broker_key, broker_keys},
    key::topic_key,
    kind::ConfigError,
    layers::OverrideMap,
    rules::validate_broker_values,
    synonyms::{broker_config_group, topic_synonyms},
    topic_keys::{DURABLE_FLUSH_MESSAGES, KAFKA_FLUSH_MESSAGES},
};

/// Something about the settings that is worth a line at start-up, but no reason not to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The setting is not one of Kafka's.
    Unknown {
        /// Its name.
        name: String,
        /// The name that may have been meant.
        meant: Option<&'static str>,
    },
    /// A topic config stands where broker configs belong.
    TopicConfig {
        /// Its name.
        name: String,
        /// The broker config that sets the default of all topics.
        broker_name: Option<&'static str>,
    },
    /// The setting is Kafka's, but has no effect here.
    NoEffect {
        /// Its name.
        name: String,
    },
    /// The setting is hidden by another name of the same setting.
    Hidden {
        /// Its name.
        name: String,
        /// The name that counts.
        by: &'static str,
    },
    /// Acknowledged records rest on the page cache of their replicas, not on disks.
    FlushRuleReplicated {
        /// The value of `log.flush.interval.messages`.
        value: String,
    },
    /// Topics created without a replication factor can never satisfy `acks=all`.
    MinInsyncReplicasAboveReplicationFactor {
        /// The value of `min.insync.replicas`.
        min_insync_replicas: i64,
        /// The value of `default.replication.factor`.
        replication_factor: i64,
    },
    /// One lost heartbeat is enough to be fenced.
    HeartbeatTooSlow {
        /// The value of `broker.heartbeat.interval.ms`.
        interval_ms: i64,
        /// The value of `broker.session.timeout.ms`.
        timeout_ms: i64,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown {
                name,
                meant: Some(meant),
            } => {
                write!(
                    f,
                    "{name} is not a setting of Kafka and has no effect; did you mean {meant}?"
                )
            }
            Self::Unknown { name, meant: None } => {
                write!(f, "{name} is not a setting of Kafka and has no effect")
            }
            Self::TopicConfig {
                name,
                broker_name: Some(broker_name),
            } => write!(
                f,
                "{name} is a topic config and has no effect here; the default of all topics is set by {broker_name}"
            ),
            Self::TopicConfig {
                name,
                broker_name: None,
            } => {
                write!(f, "{name} is a topic config and has no effect here")
            }
            Self::NoEffect { name } => {
                write!(
                    f,
                    "{name} is a setting of Kafka that has no effect in this release"
                )
            }
            Self::Hidden { name, by } => write!(f, "{name} has no effect because {by} is set too"),
            Self::FlushRuleReplicated { value } => write!(
                f,
                "log.flush.interval.messages={value} chooses the flush rule replicated: acknowledged records rest on \
                 the memory of min.insync.replicas machines until the operating system writes them out; \
                 {DURABLE_FLUSH_MESSAGES} chooses durable"
            ),
            Self::MinInsyncReplicasAboveReplicationFactor {
                min_insync_replicas,
                replication_factor,
            } => write!(
                f,
                "min.insync.replicas={min_insync_replicas} is above default.replication.factor={replication_factor}: \
                 a topic created without its own numbers counts all {replication_factor} of its replicas as enough"
            ),
            Self::HeartbeatTooSlow {
                interval_ms,
                timeout_ms,
            } => write!(
                f,
                "broker.heartbeat.interval.ms={interval_ms} is more than half of \
                 broker.session.timeout.ms={timeout_ms}: one late heartbeat fences this broker"
            ),
        }
    }
}

/// The settings of `server.properties` and of the command line, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaticConfig {
    values: OverrideMap,
    findings: Vec<Finding>,
}

impl StaticConfig {
    /// Checks settings; of a name given more than once the last value counts, as in Kafka.
    ///
    /// # Errors
    /// All settings whose value is refused, and those that contradict each other.
    pub fn new<I: IntoIterator<Item = (String, String)>>(
        settings: I,
    ) -> Result<Self, Vec<ConfigError>> {
        let mut values: OverrideMap = settings.into_iter().collect();
        name_node_by_both_names(&mut values);
        let mut errors = Vec::new();
        for (name, value) in &values {
            if let Some(Err(error)) = broker_key(name).map(|key| key.parse(value)) {
                errors.push(error);
            }
        }
        if errors.is_empty() {
            errors.extend(contradictions(&values));
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let findings = findings(&values);
        Ok(Self { values, findings })
    }

    /// Returns the text of `name`, if it was set.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Returns all settings by name.
    #[must_use]
    pub const fn values(&self) -> &OverrideMap {
        &self.values
    }

    /// Returns what is worth saying about the settings.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }
}

/// `broker.id` is the older name of `node.id`: whichever is set gives the other its value.
fn name_node_by_both_names(values: &mut OverrideMap) {
    match (
        values.get("broker.id").cloned(),
        values.get("node.id").cloned(),
    ) {
        (Some(id), None) => values.insert("node.id".to_owned(), id),
        (None, Some(id)) => values.insert("broker.id".to_owned(), id),
        _ => None,
    };
}

fn number(values: &OverrideMap, name: &str) -> Option<i64> {
    let key = broker_key(name)?;
    let text = values
        .get(name)
        .map(String::as_str)
        .or_else(|| key.default_text())?;
    key.parse(text).ok()?.as_long()
}

fn contradictions(values: &OverrideMap) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    if number(values, "node.id") != number(values, "broker.id") && values.contains_key("node.id") {
        errors.push(ConfigError::new(
            "You must set `node.id` to the same value as `broker.id`.",
        ));
    }
    if let Err(error) = validate_broker_values(&|name| number(values, name)) {
        errors.push(error);
    }
    errors
}

fn findings(values: &OverrideMap) -> Vec<Finding> {
    let mut findings: Vec<Finding> = values
        .keys()
        .filter_map(|name| finding_about(values, name))
        .collect();
    let flush = number(values, "log.flush.interval.messages");
    let durable = DURABLE_FLUSH_MESSAGES.parse().ok();
    if flush != durable {
        let value = flush.unwrap_or(KAFKA_FLUSH_MESSAGES).to_string();
        findings.push(Finding::FlushRuleReplicated { value });
    }
    if let (Some(min), Some(factor)) = (
        number(values, "min.insync.replicas"),
        number(values, "default.replication.factor"),
    ) && min > factor
    {
        findings.push(Finding::MinInsyncReplicasAboveReplicationFactor {
            min_insync_replicas: min,
            replication_factor: factor,
        });
    }
    if let (Some(interval_ms), Some(timeout_ms)) = (
        number(values, "broker.heartbeat.interval.ms"),
        number(values, "broker.session.timeout.ms"),
    ) && interval_ms.saturating_mul(2) > timeout_ms
    {
        findings.push(Finding::HeartbeatTooSlow {
            interval_ms,
            timeout_ms,
        });
    }
    findings
}

fn finding_about(values: &OverrideMap, name: &str) -> Option<Finding> {
    let owned = || name.to_owned();
    if let Some(key) = broker_key(name) {
        let stronger = broker_config_group(name)
            .iter()
            .take_while(|other| **other != name);
        if let Some(by) = stronger.copied().find(|other| values.contains_key(*other)) {
            return Some(Finding::Hidden { name: owned(), by });
        }
        if name == "log.dir" && values.contains_key("log.dirs") {
            return Some(Finding::Hidden {
                name: owned(),
                by: "log.dirs",
            });
        }
        return (!key.is_honoured()).then(|| Finding::NoEffect { name: owned() });
    }
    if topic_key(name).is_some() {
        let broker_name = topic_synonyms(name)
            .first()
            .map(|(broker_name, _)| *broker_name);
        return Some(Finding::TopicConfig {
            name: owned(),
            broker_name,
        });
    }
    if name.starts_with("listener.name.") {
        return Some(Finding::NoEffect { name: owned() });
    }
    Some(Finding::Unknown {
        name: owned(),
        meant: nearest_name(name),
    })
}

/// Returns the known name that differs least, if the difference looks like a slip of the keyboard.
fn nearest_name(name: &str) -> Option<&'static str> {
    // The distance costs the product of both lengths; no name of Kafka's is anywhere near this long.
    if name.len() > 100 {
        return None;
    }
    let best = broker_keys()
        .map(|key| (distance(name, key.name()), key.name()))
        .min()?;
    (best.0 <= 2).then_some(best.1)
}

/// Counts the single-character edits between two names (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.bytes().enumerate() {
        let mut diagonal = i;
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
        for (j, right) in b.bytes().enumerate() {
            let above = row[j + 1];
            let changed = diagonal + usize::from(left != right);
            row[j + 1] = changed.min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(settings: &[(&str, &str)]) -> Result<StaticConfig, Vec<ConfigError>> {
        StaticConfig::new(
            settings
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned())),
        )
    }

    fn messages(settings: &[(&str, &str)]) -> Vec<String> {
        config(settings)
            .unwrap()
            .findings()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn node_id_and_broker_id_are_one_setting() {
        assert_eq!(
            config(&[("node.id", "3")]).unwrap().text("broker.id"),
            Some("3")
        );
        assert_eq!(
            config(&[("broker.id", "3")]).unwrap().text("node.id"),
            Some("3")
        );
        let errors = config(&[("node.id", "3"), ("broker.id", "4")]).unwrap_err();
        assert_eq!(
            errors[0].message(),
            "You must set `node.id` to the same value as `broker.id`."
        );
    }

    #[test]
    fn refused_values_are_all_reported() {
        let errors = config(&[
            ("log.segment.bytes", "5"),
            ("num.partitions", "x"),
            ("node.id", "1"),
        ])
        .unwrap_err();
        assert_eq!(errors.len(), 2);
    }

    #[test]
    fn contradicting_settings_are_refused() {
        let errors = config(&[("log.retention.ms", "0")]).unwrap_err();
        assert_eq!(
            errors[0].message(),
            "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
        );
    }

    #[test]
    fn doubtful_settings_are_explained() {
        assert_eq!(
            messages(&[("log.retention.ms", "5"), ("log.retention.hours", "1")]),
            ["log.retention.hours has no effect because log.retention.ms is set too"]
        );
        assert_eq!(
            messages(&[("retention.ms", "5")]),
            ["retention.ms is a topic config and has no effect here; \
             the default of all topics is set by log.retention.ms"]
        );
        assert_eq!(
            messages(&[("num.partitons", "5")]),
            [
                "num.partitons is not a setting of Kafka and has no effect; did you mean num.partitions?"
            ]
        );
        assert_eq!(
            messages(&[("metric.reporters", "")]),
            ["metric.reporters is a setting of Kafka that has no effect in this release"]
        );
        let replicated = messages(&[("log.flush.interval.messages", "9223372036854775807")]);
        assert!(replicated[0].contains("chooses the flush rule replicated"));
        assert_eq!(messages(&[("min.insync.replicas", "2")]).len(), 1);
        assert_eq!(
            messages(&[("broker.heartbeat.interval.ms", "8000")]).len(),
            1
        );
    }
}
