//! The small files of a log directory, in Kafka's forms: `meta.properties` and the clean-shutdown marker.

use std::fmt::Write as _;

use bytes::Bytes;

use crate::ids::{NodeId, Uuid};

/// Name of the file that says whose directory this is.
pub const META_PROPERTIES: &str = "meta.properties";
/// Name of the clean-shutdown marker.
pub const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";
/// Name of the checkpoint of recovery points.
pub const RECOVERY_POINT: &str = "recovery-point-offset-checkpoint";
/// Name of the file of synced marks; Kafka has none.
pub const SYNCED_MARKS: &str = "synced-marks";
/// Name of the checkpoint of log starts.
pub const LOG_START: &str = "log-start-offset-checkpoint";
/// Name of the checkpoint of high watermarks.
pub const HIGH_WATERMARK: &str = "replication-offset-checkpoint";

/// Who owns a log directory (`meta.properties`, version 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaProperties {
    /// The cluster; none while this node has not found out yet which it belongs to.
    pub cluster_id: Option<String>,
    /// The node.
    pub node_id: NodeId,
    /// This directory (KIP-858): another disk under the same path has another id.
    pub directory_id: Uuid,
}

/// Why a `meta.properties` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetaError {
    /// It is not text of `key=value` lines.
    #[error("{META_PROPERTIES} is not readable as `key=value` lines")]
    Unreadable,
    /// A line is missing.
    #[error("{META_PROPERTIES} has no {0}")]
    Missing(&'static str),
    /// A value makes no sense.
    #[error("{META_PROPERTIES} has {key}={value}, which is not valid")]
    Invalid {
        /// The key.
        key: &'static str,
        /// The value found.
        value: String,
    },
}

impl MetaProperties {
    /// Writes Kafka's text form.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut text = String::from("#\n");
        // Writing to a string cannot fail.
        if let Some(cluster_id) = &self.cluster_id {
            let _ = writeln!(text, "cluster.id={cluster_id}");
        }
        let _ = writeln!(text, "directory.id={}", self.directory_id);
        let _ = writeln!(text, "node.id={}", self.node_id);
        let _ = writeln!(text, "version=1");
        Bytes::from(text)
    }

    /// Reads Kafka's text form.
    ///
    /// # Errors
    /// Says what is missing or wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, MetaError> {
        let text = std::str::from_utf8(bytes).map_err(|_| MetaError::Unreadable)?;
        let value = |wanted: &'static str| {
            text.lines()
                .filter(|line| !line.starts_with(['#', '!']))
                .filter_map(|line| line.split_once('='))
                .find(|(key, _)| key.trim() == wanted)
                .map(|(_, value)| value.trim().to_owned())
                .ok_or(MetaError::Missing(wanted))
        };
        let invalid = |key, value| MetaError::Invalid { key, value };
        let version = value("version")?;
        if version != "1" {
            return Err(invalid("version", version));
        }
        let node = value("node.id")?;
        let node_id = node.parse().map_err(|_| invalid("node.id", node))?;
        let directory = value("directory.id")?;
        let directory_id =
            Uuid::from_base64(&directory).ok_or_else(|| invalid("directory.id", directory))?;
        let cluster_id = match value("cluster.id") {
            Ok(empty) if empty.is_empty() => return Err(invalid("cluster.id", empty)),
            cluster_id => cluster_id.ok(),
        };
        Ok(Self {
            cluster_id,
            node_id: NodeId(node_id),
            directory_id,
        })
    }
}

/// Writes the clean-shutdown marker (KIP-966): the broker epoch binds it to one incarnation.
#[must_use]
pub fn encode_clean_shutdown(broker_epoch: i64) -> Bytes {
    Bytes::from(format!("{{\"version\":0,\"brokerEpoch\":{broker_epoch}}}"))
}

/// Reads the clean-shutdown marker; `None` when it does not name a broker epoch, which makes the shutdown unclean.
#[must_use]
pub fn parse_clean_shutdown(bytes: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let field = |wanted: &str| {
        inner
            .split(',')
            .filter_map(|pair| pair.split_once(':'))
            .find(|(key, _)| key.trim().trim_matches('"') == wanted)
            .and_then(|(_, value)| value.trim().parse::<i64>().ok())
    };
    (field("version")? == 0).then_some(())?;
    field("brokerEpoch").filter(|epoch| *epoch >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> MetaProperties {
        let directory_id = Uuid::from_random([7; 16]);
        MetaProperties {
            cluster_id: Some("seed".into()),
            node_id: NodeId(3),
            directory_id,
        }
    }

    #[test]
    fn meta_properties_come_back_as_written() {
        assert_eq!(MetaProperties::parse(&meta().encode()), Ok(meta()));
    }

    #[test]
    fn meta_properties_of_another_version_or_without_an_id_are_refused_by_name() {
        let text = String::from_utf8(meta().encode().to_vec()).unwrap();
        let newer = text.replace("version=1", "version=2");
        let newer = MetaProperties::parse(newer.as_bytes()).unwrap_err();
        assert_eq!(
            newer.to_string(),
            "meta.properties has version=2, which is not valid"
        );
        let nameless = text.replace("node.id=3\n", "");
        let nameless = MetaProperties::parse(nameless.as_bytes()).unwrap_err();
        assert_eq!(nameless, MetaError::Missing("node.id"));
        assert_eq!(
            MetaProperties::parse(&[0xff, 0xfe]),
            Err(MetaError::Unreadable)
        );
    }

    #[test]
    fn clean_marker_without_a_broker_epoch_is_no_marker() {
        assert_eq!(parse_clean_shutdown(&encode_clean_shutdown(12)), Some(12));
        for damaged in [
            "",
            "{}",
            "{\"version\":0}",
            "{\"version\":1,\"brokerEpoch\":3}",
            "xx",
        ] {
            assert_eq!(
                parse_clean_shutdown(damaged.as_bytes()),
                None,
                "{damaged:?}"
            );
        }
    }
}
