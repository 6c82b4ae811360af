//! This node's broker in the eyes of the controller: registered, heard of, unfenced (KIP-631).

use super::ClusterConfig;
use crate::{
    controller::{
        Ticket,
        messages::{BrokerHeartbeatRequestData, BrokerRegistrationRequestData},
        records::{
            ELIGIBLE_LEADER_REPLICAS_VERSION, METADATA_VERSION, METADATA_VERSION_MAX, Record,
        },
    },
    ids::{NodeId, Uuid},
    protocol::{
        ErrorCode, KafkaString,
        messages::registration::{Feature, Listener},
    },
    time::Instant,
};

/// `PLAINTEXT` in Kafka's numbering of security protocols.
const PLAINTEXT: i16 = 0;

/// The registration of this incarnation.
#[derive(Debug)]
pub(super) struct Registration {
    node_id: NodeId,
    incarnation: Uuid,
    request: BrokerRegistrationRequestData,
    clean_epoch: i64,
    was_clean: bool,
    epoch: Option<i64>,
    is_serving: bool,
    heartbeat_due: Option<Instant>,
    asked: Option<Ticket>,
}

impl Registration {
    pub(super) fn new(config: &ClusterConfig<'_>) -> Self {
        let listeners = config
            .broker
            .listeners
            .iter()
            .filter(|listener| !listener.is_controller())
            .map(|listener| Listener {
                name: KafkaString::from(listener.name.clone()),
                host: KafkaString::from(listener.advertised_host.clone()),
                port: listener.advertised_port,
                security_protocol: PLAINTEXT,
                ..Listener::default()
            })
            .collect();
        let request = BrokerRegistrationRequestData {
            broker_id: config.broker.node_id.0,
            cluster_id: KafkaString::from(config.meta.cluster_id.clone()),
            incarnation_id: config.incarnation.into(),
            listeners,
            rack: config.broker.rack.clone().map(KafkaString::from),
            features: supported_features(),
            log_dirs: vec![config.meta.directory_id.into()],
            previous_broker_epoch: -1,
            ..BrokerRegistrationRequestData::default()
        };
        Self {
            node_id: config.broker.node_id,
            incarnation: config.incarnation,
            request,
            clean_epoch: config.clean_epoch,
            was_clean: false,
            epoch: None,
            is_serving: false,
            heartbeat_due: None,
            asked: None,
        }
    }

    /// Makes the request; a clean marker counts only for the incarnation that registered last.
    pub(super) fn register(
        &mut self,
        ticket: Ticket,
        previous: Option<i64>,
    ) -> BrokerRegistrationRequestData {
        self.asked = Some(ticket);
        self.was_clean = previous.is_some_and(|previous| previous == self.clean_epoch);
        let mut request = self.request.clone();
        request.previous_broker_epoch = if self.was_clean { self.clean_epoch } else { -1 };
        request
    }

    /// Looks for this incarnation's registration among records being appended; its epoch is known from then on.
    pub(super) fn learn_epoch(&mut self, records: &[Record]) -> bool {
        let own = records.iter().find_map(|record| match record {
            Record::RegisterBroker(own)
                if own.broker_id == self.node_id && own.incarnation_id == self.incarnation =>
            {
                Some(own.broker_epoch)
            }
            _ => None,
        });
        if own.is_some() {
            self.epoch = own;
        }
        own.is_some()
    }

    pub(super) fn on_registered(&self, error_code: i16) -> Result<(), String> {
        match ErrorCode::from_code(error_code) {
            Some(ErrorCode::None) => Ok(()),
            code => Err(format!(
                "the controller refused to register broker {}: {}",
                self.node_id,
                code.map_or("UNKNOWN", ErrorCode::name)
            )),
        }
    }

    /// Makes a heartbeat, once the epoch is known.
    pub(super) fn heartbeat(
        &mut self,
        ticket: Ticket,
        due: Instant,
        seen: i64,
    ) -> Option<BrokerHeartbeatRequestData> {
        self.heartbeat_due = Some(due);
        self.asked = Some(ticket);
        let broker_epoch = self.epoch?;
        // The registration itself counts as read: it is decided here, in this very process.
        let current_metadata_offset = seen.max(broker_epoch);
        Some(BrokerHeartbeatRequestData {
            broker_id: self.node_id.0,
            broker_epoch,
            current_metadata_offset,
            ..BrokerHeartbeatRequestData::default()
        })
    }

    /// Takes a heartbeat's answer; returns true when this broker is unfenced for the first time.
    pub(super) fn on_heartbeat(&mut self, ticket: Ticket, error_code: i16, fenced: bool) -> bool {
        let is_first = self.asked == Some(ticket) && error_code == 0 && !fenced && !self.is_serving;
        self.is_serving |= is_first;
        is_first
    }

    pub(super) fn is_heartbeat_due(&self, now: Instant) -> bool {
        self.heartbeat_due.is_some_and(|due| due <= now)
    }

    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.heartbeat_due
    }

    pub(super) const fn epoch(&self) -> Option<i64> {
        self.epoch
    }

    pub(super) const fn was_clean(&self) -> bool {
        self.was_clean
    }
}

/// Says which metadata records this release understands, and which of the cluster's habits.
fn supported_features() -> Vec<Feature> {
    let newest = i16::try_from(METADATA_VERSION_MAX).unwrap_or(i16::MAX);
    let ranges = [
        (METADATA_VERSION, 1, newest),
        (ELIGIBLE_LEADER_REPLICAS_VERSION, 0, 1),
    ];
    let feature =
        |(name, min_supported_version, max_supported_version): (&str, i16, i16)| Feature {
            name: KafkaString::from(name.to_owned()),
            min_supported_version,
            max_supported_version,
            ..Feature::default()
        };
    ranges.into_iter().map(feature).collect()
}
