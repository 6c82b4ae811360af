//! Which broker configs are the defaults of which topic config, and which broker configs name the same thing.

/// How a broker config's value becomes the value of its topic config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// It is the same value.
    Same,
    /// Minutes become milliseconds.
    MinutesToMillis,
    /// Hours become milliseconds.
    HoursToMillis,
}

impl Conversion {
    /// Converts `text`; `None` if it is not the number it should be.
    #[must_use]
    pub fn convert(self, text: &str) -> Option<String> {
        let factor: i64 = match self {
            Self::Same => return Some(text.to_owned()),
            Self::MinutesToMillis => 60_000,
            Self::HoursToMillis => 3_600_000,
        };
        let number: i64 = i64::from(super::kind::trim(text).parse::<i32>().ok()?);
        Some(number.saturating_mul(factor).to_string())
    }
}

use Conversion::{HoursToMillis, MinutesToMillis, Same};

/// Returns the broker configs that are defaults of topic config `name`; the first one that is set wins.
#[must_use]
pub fn topic_synonyms(name: &str) -> &'static [(&'static str, Conversion)] {
    match name {
        "segment.bytes" => &[("log.segment.bytes", Same)],
        "segment.ms" => &[("log.roll.ms", Same), ("log.roll.hours", HoursToMillis)],
        "segment.jitter.ms" => &[
            ("log.roll.jitter.ms", Same),
            ("log.roll.jitter.hours", HoursToMillis),
        ],
        "segment.index.bytes" => &[("log.index.size.max.bytes", Same)],
        "flush.messages" => &[("log.flush.interval.messages", Same)],
        "flush.ms" => &[
            ("log.flush.interval.ms", Same),
            ("log.flush.scheduler.interval.ms", Same),
        ],
        "retention.bytes" => &[("log.retention.bytes", Same)],
        "retention.ms" => &[
            ("log.retention.ms", Same),
            ("log.retention.minutes", MinutesToMillis),
            ("log.retention.hours", HoursToMillis),
        ],
        "max.message.bytes" => &[("message.max.bytes", Same)],
        "index.interval.bytes" => &[("log.index.interval.bytes", Same)],
        "delete.retention.ms" => &[("log.cleaner.delete.retention.ms", Same)],
        "min.compaction.lag.ms" => &[("log.cleaner.min.compaction.lag.ms", Same)],
        "max.compaction.lag.ms" => &[("log.cleaner.max.compaction.lag.ms", Same)],
        "file.delete.delay.ms" => &[("log.segment.delete.delay.ms", Same)],
        "min.cleanable.dirty.ratio" => &[("log.cleaner.min.cleanable.ratio", Same)],
        "cleanup.policy" => &[("log.cleanup.policy", Same)],
        "unclean.leader.election.enable" => &[("unclean.leader.election.enable", Same)],
        "min.insync.replicas" => &[("min.insync.replicas", Same)],
        "compression.type" => &[("compression.type", Same)],
        "compression.gzip.level" => &[("compression.gzip.level", Same)],
        "compression.lz4.level" => &[("compression.lz4.level", Same)],
        "compression.zstd.level" => &[("compression.zstd.level", Same)],
        "preallocate" => &[("log.preallocate", Same)],
        "message.timestamp.type" => &[("log.message.timestamp.type", Same)],
        "message.timestamp.before.max.ms" => &[("log.message.timestamp.before.max.ms", Same)],
        "message.timestamp.after.max.ms" => &[("log.message.timestamp.after.max.ms", Same)],
        "local.retention.ms" => &[("log.local.retention.ms", Same)],
        "local.retention.bytes" => &[("log.local.retention.bytes", Same)],
        _ => &[],
    }
}

/// Returns the names under which the setting `name` may be given, strongest first; empty if it has no other name.
///
/// A value set in a stronger layer hides all names of the group in weaker layers.
#[must_use]
pub fn broker_config_group(name: &str) -> &'static [&'static str] {
    match name {
        "log.roll.ms" | "log.roll.hours" => &["log.roll.ms", "log.roll.hours"],
        "log.roll.jitter.ms" | "log.roll.jitter.hours" => {
            &["log.roll.jitter.ms", "log.roll.jitter.hours"]
        }
        "log.retention.ms" | "log.retention.minutes" | "log.retention.hours" => &[
            "log.retention.ms",
            "log.retention.minutes",
            "log.retention.hours",
        ],
        // One-sided on purpose: the scheduler interval is a setting of its own that serves as default.
        "log.flush.interval.ms" => &["log.flush.interval.ms", "log.flush.scheduler.interval.ms"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{broker_key, topic_keys};

    #[test]
    fn every_synonym_is_a_broker_config_and_every_first_one_can_change_at_run_time() {
        for key in topic_keys() {
            for (at, (name, _)) in topic_synonyms(key.name()).iter().enumerate() {
                let broker = broker_key(name).unwrap();
                let dynamic = broker.update_mode() == crate::config::UpdateMode::ClusterWide;
                assert_eq!(dynamic, at == 0, "{name}");
            }
        }
    }

    #[test]
    fn hours_become_milliseconds_without_overflow() {
        assert_eq!(HoursToMillis.convert(" 168 ").as_deref(), Some("604800000"));
        assert_eq!(MinutesToMillis.convert("-1").as_deref(), Some("-60000"));
        assert_eq!(
            HoursToMillis.convert("2147483647").as_deref(),
            Some("7730941129200000")
        );
        assert_eq!(HoursToMillis.convert("x"), None);
    }
}
