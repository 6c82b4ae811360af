//! Brokers in the image.

use std::collections::BTreeMap;

use crate::{
    controller::records::{
        BrokerRegistrationChangeV1, EndpointV1, FeatureRangeV1, RegisterBrokerV1,
    },
    ids::{NodeId, Uuid},
};

/// A registered broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerImage {
    /// The broker.
    pub id: NodeId,
    /// Its epoch.
    pub epoch: i64,
    /// This run of its process.
    pub incarnation_id: Uuid,
    /// Its advertised addresses.
    pub endpoints: Vec<EndpointV1>,
    /// Where it stands.
    pub rack: Option<String>,
    /// Its log directories that are online.
    pub log_dirs: Vec<Uuid>,
    /// What it supports.
    pub features: Vec<FeatureRangeV1>,
    /// Whether it may not lead or be placed upon.
    pub fenced: bool,
    /// Whether it is on its way out.
    pub in_controlled_shutdown: bool,
}

impl BrokerImage {
    /// Returns whether the broker may lead and be in sync.
    #[must_use]
    pub const fn is_active(&self) -> bool {
        !self.fenced && !self.in_controlled_shutdown
    }

    /// Returns whether a log directory is online, as far as is known: one not chosen yet counts as online.
    #[must_use]
    pub fn is_online(&self, directory: Uuid) -> bool {
        // Kafka's reserved ids: 0 stands for one that is being moved, 1 for one not assigned, 2 for one that is lost.
        match u128::from_be_bytes(directory.0) {
            0 | 1 => true,
            2 => false,
            _ => self.log_dirs.contains(&directory),
        }
    }

    /// Makes the record that describes the whole registration.
    #[must_use]
    pub fn to_record(&self) -> RegisterBrokerV1 {
        RegisterBrokerV1 {
            broker_id: self.id,
            broker_epoch: self.epoch,
            incarnation_id: self.incarnation_id,
            endpoints: self.endpoints.clone(),
            rack: self.rack.clone(),
            log_dirs: self.log_dirs.clone(),
            features: self.features.clone(),
            fenced: self.fenced,
            in_controlled_shutdown: self.in_controlled_shutdown,
        }
    }

    fn from_record(record: &RegisterBrokerV1) -> Self {
        Self {
            id: record.broker_id,
            epoch: record.broker_epoch,
            incarnation_id: record.incarnation_id,
            endpoints: record.endpoints.clone(),
            rack: record.rack.clone(),
            log_dirs: record.log_dirs.clone(),
            features: record.features.clone(),
            fenced: record.fenced,
            in_controlled_shutdown: record.in_controlled_shutdown,
        }
    }
}

/// All registered brokers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Brokers {
    by_id: BTreeMap<NodeId, BrokerImage>,
}

impl Brokers {
    pub(super) const fn all(&self) -> &BTreeMap<NodeId, BrokerImage> {
        &self.by_id
    }

    pub(super) fn register(&mut self, record: &RegisterBrokerV1) {
        self.by_id
            .insert(record.broker_id, BrokerImage::from_record(record));
    }

    /// Changes a registration; false if that epoch of the broker is not registered.
    pub(super) fn change(&mut self, record: &BrokerRegistrationChangeV1) -> bool {
        let Some(broker) = self.by_id.get_mut(&record.broker_id) else {
            return false;
        };
        if broker.epoch != record.broker_epoch {
            return false;
        }
        if let Some(fenced) = record.fenced {
            broker.fenced = fenced;
        }
        if let Some(leaving) = record.in_controlled_shutdown {
            broker.in_controlled_shutdown = leaving;
        }
        if let Some(log_dirs) = &record.log_dirs {
            broker.log_dirs.clone_from(log_dirs);
        }
        true
    }

    pub(super) fn unregister(&mut self, id: NodeId, epoch: i64) -> bool {
        let known = self
            .by_id
            .get(&id)
            .is_some_and(|broker| broker.epoch == epoch);
        known && self.by_id.remove(&id).is_some()
    }
}
