//! Dynamic configs in the image.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::{config::OverrideMap, controller::records::ConfigV1};

/// What a config belongs to, with Kafka's number of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResourceKind {
    /// A topic.
    Topic,
    /// A broker, or all brokers under the empty name.
    Broker,
}

impl ResourceKind {
    /// Returns Kafka's number of the kind.
    #[must_use]
    pub const fn code(self) -> i8 {
        match self {
            Self::Topic => 2,
            Self::Broker => 4,
        }
    }

    /// Returns the kind of a number.
    #[must_use]
    pub const fn from_code(code: i8) -> Option<Self> {
        match code {
            2 => Some(Self::Topic),
            4 => Some(Self::Broker),
            _ => None,
        }
    }
}

/// A resource that has configs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigResource {
    /// What it is.
    pub kind: ResourceKind,
    /// A topic's name, a broker's id, or empty for all brokers.
    pub name: String,
}

impl ConfigResource {
    /// Names the configs of a topic.
    #[must_use]
    pub fn topic(name: &str) -> Self {
        Self {
            kind: ResourceKind::Topic,
            name: name.to_owned(),
        }
    }

    /// Names the configs of a broker.
    #[must_use]
    pub fn broker(id: crate::ids::NodeId) -> Self {
        Self {
            kind: ResourceKind::Broker,
            name: id.to_string(),
        }
    }

    /// Names the defaults of all brokers.
    #[must_use]
    pub const fn all_brokers() -> Self {
        Self {
            kind: ResourceKind::Broker,
            name: String::new(),
        }
    }
}

impl fmt::Display for ConfigResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ResourceKind::Topic => write!(f, "topic {}", self.name),
            ResourceKind::Broker if self.name.is_empty() => f.write_str("all brokers"),
            ResourceKind::Broker => write!(f, "broker {}", self.name),
        }
    }
}

/// No configs at all.
pub(super) static NO_CONFIGS: OverrideMap = OverrideMap::new();

/// All dynamic configs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Configs {
    by_resource: BTreeMap<ConfigResource, Arc<OverrideMap>>,
}

impl Configs {
    pub(super) fn of(&self, resource: &ConfigResource) -> &OverrideMap {
        self.by_resource
            .get(resource)
            .map_or(&NO_CONFIGS, |configs| configs)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&ConfigResource, &OverrideMap)> {
        self.by_resource
            .iter()
            .map(|(resource, configs)| (resource, &**configs))
    }

    pub(super) fn set(&mut self, resource: ConfigResource, record: &ConfigV1) {
        let configs = self.by_resource.entry(resource.clone()).or_default();
        match &record.value {
            Some(value) => {
                Arc::make_mut(configs).insert(record.name.clone(), value.clone());
            }
            None => {
                Arc::make_mut(configs).remove(&record.name);
            }
        }
        if configs.is_empty() {
            self.by_resource.remove(&resource);
        }
    }

    pub(super) fn forget(&mut self, resource: &ConfigResource) {
        self.by_resource.remove(resource);
    }
}
