//! What a node is told at its start: Kafka's property names, read, checked, and turned into what the parts need.
//!
//! Names, types, defaults and bounds are the core's table ([`seedlog_core::config`]); this module adds what only the driver
//! knows: sockets, addresses that clients can use, folders. What Kafka has and this release has not is refused by name when
//! ignoring it could lose data or let somebody in; else it is noted.

use std::{
    collections::BTreeMap,
    fmt, io,
    net::TcpListener,
    path::{Path, PathBuf},
    time::Duration,
};

use seedlog_core::{
    broker::{BrokerConfig, Listener, Voter},
    config::{BrokerSettings, Layers, OverrideMap, StaticConfig, parse_properties},
    ids::NodeId,
    planted::PlantedSet,
    protocol::FrameLimits,
};

use crate::shard::Limits;

mod address;
mod listeners;
mod quorum;
mod unsupported;

pub(crate) use listeners::split_host_port;
pub use listeners::{BindError, ListenerConfig};
use quorum::Roles;

/// Everything a node needs to know to start.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// This node.
    pub node_id: NodeId,
    /// Where clients, brokers and controllers are accepted.
    pub listeners: Vec<ListenerConfig>,
    /// The controller voters.
    pub voters: Vec<Voter>,
    /// Where the logs are.
    pub log_dirs: Vec<PathBuf>,
    /// What connections may use.
    pub limits: Limits,
    /// What is worth saying to the person who wrote the settings.
    pub notes: Vec<String>,
    rack: Option<String>,
    properties: BTreeMap<String, String>,
}

/// Why a node cannot start with its settings; all reasons at once, each with its cure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The property file cannot be read.
    #[error("cannot read {}: {cause}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// An override has no `=`.
    #[error("--override {text}: expected NAME=VALUE, for example --override num.partitions=3")]
    Override {
        /// What was given.
        text: String,
    },
    /// Settings are refused.
    #[error("{0}")]
    Refused(Problems),
}

/// Reasons to refuse settings, one line each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, problem: impl Into<String>) {
        self.0.push(problem.into());
    }

    /// Returns the reasons.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [only] => f.write_str(only),
            several => {
                write!(f, "{} settings are refused:", several.len())?;
                several.iter().try_for_each(|line| write!(f, "\n  {line}"))
            }
        }
    }
}

impl NodeConfig {
    /// Reads a property file, then overrides of the form `NAME=VALUE`, which win.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or settings are refused.
    pub fn load(file: &Path, overrides: &[String]) -> Result<Self, SettingsError> {
        let text = std::fs::read(file).map_err(|cause| SettingsError::Unreadable {
            path: file.to_owned(),
            cause,
        })?;
        let text = String::from_utf8_lossy(&text);
        let mut settings: Vec<(String, String)> = parse_properties(&text)
            .into_iter()
            .map(|property| (property.name, property.value))
            .collect();
        for text in overrides {
            let (name, value) = text
                .split_once('=')
                .ok_or_else(|| SettingsError::Override { text: text.clone() })?;
            settings.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        Self::from_settings(settings)
    }

    /// Checks settings; of a name given more than once, the last value counts.
    ///
    /// # Errors
    ///
    /// When settings are refused: all reasons at once.
    pub fn from_settings(
        settings: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, SettingsError> {
        let mut problems = Problems::default();
        let settings = match StaticConfig::new(settings) {
            Ok(settings) => settings,
            Err(errors) => {
                errors
                    .iter()
                    .for_each(|error| problems.add(error.message()));
                return Err(SettingsError::Refused(problems));
            }
        };
        unsupported::check(&settings, &mut problems);
        let roles = Roles::read(&settings);
        let mut notes: Vec<String> = settings
            .findings()
            .iter()
            .map(ToString::to_string)
            .collect();
        let (node_id, voters) = quorum::read(&settings, roles, &mut problems);
        let has_peers = voters.len() > 1;
        let listeners = listeners::read(&settings, roles, has_peers, &mut problems, &mut notes);
        quorum::check_bootstrap(&settings, roles, &listeners, &mut problems);
        note_other_port(node_id, &voters, &listeners, &mut notes);
        let log_dirs = log_dirs(&settings, &mut problems, &mut notes);
        if !problems.0.is_empty() {
            return Err(SettingsError::Refused(problems));
        }
        Ok(Self {
            node_id,
            listeners,
            voters,
            log_dirs,
            limits: limits(&settings),
            notes,
            rack: settings.text("broker.rack").map(str::to_owned),
            properties: properties(&settings),
        })
    }

    /// Binds the sockets of all listeners.
    ///
    /// # Errors
    ///
    /// When an address cannot be bound.
    pub fn bind(&self) -> Result<Vec<TcpListener>, BindError> {
        self.listeners.iter().map(ListenerConfig::bind).collect()
    }

    /// Says to the broker what it needs to know; ports chosen by the system are those that were bound.
    #[must_use]
    pub fn broker_config(&self, bound: &[TcpListener]) -> BrokerConfig {
        let listeners = self.listeners.iter().zip(bound).map(|(listener, bound)| {
            let bound_port = bound.local_addr().map(|address| address.port());
            Listener {
                name: listener.name.clone(),
                advertised_host: listener.advertised_host.clone(),
                advertised_port: match listener.advertised_port {
                    0 => bound_port.unwrap_or_default(),
                    port => port,
                },
                kind: listener.kind,
            }
        });
        BrokerConfig {
            node_id: self.node_id,
            listeners: listeners.collect(),
            voters: self.voters.clone(),
            rack: self.rack.clone(),
            log_dirs: u16::try_from(self.log_dirs.len()).unwrap_or(u16::MAX),
            properties: self.properties.clone(),
            planted: PlantedSet::default(),
        }
    }

    /// Makes this node one voter of several that are known only once all are bound.
    pub(crate) fn join_quorum(&mut self, voters: &[Voter]) {
        let list: Vec<String> = voters
            .iter()
            .map(|voter| format!("{}@{}:{}", voter.node_id, voter.host, voter.port))
            .collect();
        let name = "controller.quorum.voters".to_owned();
        self.properties.insert(name, list.join(","));
        self.voters = voters.to_vec();
    }
}

/// Says that others will look for this voter elsewhere than where it listens, which only a forwarded port makes right.
fn note_other_port(
    node_id: NodeId,
    voters: &[Voter],
    listeners: &[ListenerConfig],
    notes: &mut Vec<String>,
) {
    let own = voters
        .iter()
        .find(|voter| voter.node_id == node_id && voters.len() > 1);
    let mut controllers = listeners.iter().filter(|listener| listener.is_controller());
    if let Some(own) = own
        && let Some(first) = controllers.next()
        && first.port != own.port
        && controllers.all(|listener| listener.port != own.port)
    {
        notes.push(format!(
            "controller.quorum.voters tells the other nodes to connect to port {}, but the controller listener {} is on port \
             {}: unless something forwards that port, they do not reach this node",
            own.port, first.name, first.port
        ));
    }
}

/// The settings as they were given, but for the name of a listener, which the core compares as it stands in the list of them.
fn properties(settings: &StaticConfig) -> BTreeMap<String, String> {
    let mut properties = settings.values().clone();
    if let Some(name) = properties.get_mut("inter.broker.listener.name") {
        *name = name.trim().to_ascii_uppercase();
    }
    properties
}

/// Splits a list at commas; Kafka ignores blanks around the items.
fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}

fn log_dirs(
    settings: &StaticConfig,
    problems: &mut Problems,
    notes: &mut Vec<String>,
) -> Vec<PathBuf> {
    let text = settings
        .text("log.dirs")
        .or_else(|| settings.text("log.dir"));
    if text.is_none() {
        notes.push(format!(
            "log.dirs is not set: data is kept in {LOG_DIR}, which many systems empty at a restart"
        ));
    }
    let mut dirs: Vec<PathBuf> = Vec::new();
    for item in items(text.unwrap_or(LOG_DIR)) {
        let dir = absolute(Path::new(item));
        if dirs.contains(&dir) {
            problems.add(format!("log.dirs names {} twice", dir.display()));
        } else {
            dirs.push(dir);
        }
    }
    if dirs.is_empty() {
        problems.add("log.dirs is empty: name at least one folder for the data");
    }
    if dirs.len() > 1 {
        problems.add(format!(
            "log.dirs names {} folders: more than one is not supported in this release; name the one with the most room",
            dirs.len()
        ));
    }
    if let Some(metadata) = settings.text("metadata.log.dir")
        && dirs.first() != Some(&absolute(Path::new(metadata)))
    {
        problems.add(
            "metadata.log.dir: a folder other than the first of log.dirs is not supported in this release; \
             leave it out, or put that folder first in log.dirs",
        );
    }
    dirs
}

/// Makes an absolute path, so that a relative one is named in full wherever it is reported.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn limits(settings: &StaticConfig) -> Limits {
    let none = OverrideMap::new();
    let layers = Layers::new(settings, &none, &none);
    let values = BrokerSettings::resolve(&layers);
    let count = |value: i64| usize::try_from(value).unwrap_or(usize::MAX);
    let defaults = Limits::default();
    let request_max = count(values.socket_request_max_bytes.into());
    // The first request of a connection may be a produce request, when a client was told the broker's version.
    let message_bytes_max = count(layers.broker_number("message.max.bytes").unwrap_or(0));
    let first = message_bytes_max.saturating_add(REQUEST_BYTES_BESIDE_RECORDS);
    Limits {
        frames: FrameLimits {
            request_max,
            first_max: first.max(defaults.frames.first_max).min(request_max),
            ..defaults.frames
        },
        connections_max: count(values.max_connections.into()),
        connections_per_address_max: count(values.max_connections_per_ip.into()),
        idle_max: values
            .connections_max_idle_ms
            .and_then(|millis| u64::try_from(millis).ok())
            .map(Duration::from_millis),
        partial_bytes_max: match values.queued_max_request_bytes {
            Some(bytes) if bytes > 0 => count(bytes),
            _ => defaults.partial_bytes_max,
        },
    }
}

/// Kafka's default of `log.dir`.
const LOG_DIR: &str = "/tmp/kafka-logs";

/// Room for names and headers around the largest batch.
const REQUEST_BYTES_BESIDE_RECORDS: usize = 64 * 1024;

#[cfg(test)]
mod tests;
