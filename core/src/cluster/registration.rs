//! This node's broker in the eyes of the controller: registered, heard of, unfenced (KIP-631).

use super::ClusterConfig;
use crate::{
    controller::{
        image::BrokerImage,
        messages::{
            BrokerHeartbeatRequestData, BrokerHeartbeatResponseData, BrokerRegistrationRequestData,
            BrokerRegistrationResponseData,
        },
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

/// How long a registration that another process of this id holds up is tried (`initial.broker.registration.timeout.ms`).
const DUPLICATE_MS_MAX: u64 = 60_000;

/// The registration of this incarnation.
///
/// | stage | what | leads on |
/// | --- | --- | --- |
/// | idle | the cluster or its id is not known yet | [`Registration::begin`] |
/// | asked | the controller is asked for an epoch | the answer, or the record itself, whichever is here first |
/// | registered | heartbeats say how much of the metadata is read here | the record that unfences |
#[derive(Debug)]
pub(super) struct Registration {
    node_id: NodeId,
    incarnation: Uuid,
    request: BrokerRegistrationRequestData,
    clean_epoch: i64,
    was_clean: bool,
    has_begun: bool,
    refused_since: Option<Instant>,
    /// The epoch of the incarnation before, as the metadata read so far knows it.
    previous: Option<i64>,
    epoch: Option<i64>,
    /// Whether the metadata read here holds this registration.
    is_read: bool,
    is_unfenced: bool,
    heartbeat_due: Option<Instant>,
    wants_shut_down: bool,
    may_stop: bool,
}

/// What the metadata says of this broker's registration now that it did not say before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Registered: the partitions assigned to it may be taken up.
    Registered,
    /// It may lead and be in sync.
    Unfenced,
    /// Another incarnation took its place, or somebody unregistered it.
    Replaced,
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
            incarnation_id: config.incarnation.into(),
            listeners,
            rack: config.broker.rack.clone().map(KafkaString::from),
            features: supported_features(),
            log_dirs: vec![config.meta.directory_id.into()],
            // The marker of a clean stop names the epoch that it vouches for; the controller knows whether that was the last.
            previous_broker_epoch: config.clean_epoch,
            ..BrokerRegistrationRequestData::default()
        };
        Self {
            node_id: config.broker.node_id,
            incarnation: config.incarnation,
            request,
            clean_epoch: config.clean_epoch,
            was_clean: false,
            has_begun: false,
            refused_since: None,
            previous: None,
            epoch: None,
            is_read: false,
            is_unfenced: false,
            heartbeat_due: None,
            wants_shut_down: false,
            may_stop: false,
        }
    }

    /// Makes the request, once.
    pub(super) fn begin(&mut self, cluster_id: &str) -> Option<BrokerRegistrationRequestData> {
        if std::mem::replace(&mut self.has_begun, true) {
            return None;
        }
        self.request.cluster_id = KafkaString::from(cluster_id.to_owned());
        Some(self.request.clone())
    }

    /// Looks for this incarnation's registration among records being appended here; its epoch is known from then on.
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

    /// Takes the answer to a registration: `Ok(true)` when it is to be asked for again.
    pub(super) fn on_answer(
        &mut self,
        now: Instant,
        answer: &BrokerRegistrationResponseData,
    ) -> Result<bool, String> {
        match ErrorCode::from_code(answer.error_code) {
            Some(ErrorCode::None) => {
                // What was learnt while it was appended here may have been lost with this node's leadership.
                self.epoch = Some(answer.broker_epoch);
                Ok(false)
            }
            Some(ErrorCode::DuplicateBrokerRegistration) => {
                let since = *self.refused_since.get_or_insert(now);
                if since.plus_millis(DUPLICATE_MS_MAX) > now {
                    return Ok(true);
                }
                Err(format!(
                    "another process is registered as broker {} and alive: stop it, or give this one a node.id of its own",
                    self.node_id
                ))
            }
            code => Err(format!(
                "the controller refused to register broker {}: {}",
                self.node_id,
                code.map_or("UNKNOWN", ErrorCode::name)
            )),
        }
    }

    /// Asks again for what was refused or not answered.
    pub(super) fn request(&self) -> BrokerRegistrationRequestData {
        self.request.clone()
    }

    /// Looks at what the metadata read so far says of this broker.
    pub(super) fn see(&mut self, broker: Option<&BrokerImage>) -> Vec<Standing> {
        let own = broker.filter(|broker| broker.incarnation_id == self.incarnation);
        let Some(own) = own else {
            self.previous = broker.map(|broker| broker.epoch);
            return match self.is_read {
                true => vec![Standing::Replaced],
                false => Vec::new(),
            };
        };
        let mut news = Vec::new();
        self.epoch = Some(own.epoch);
        if !std::mem::replace(&mut self.is_read, true) {
            self.was_clean = self.clean_epoch >= 0 && self.previous == Some(self.clean_epoch);
            // The next heartbeat says that the registration is read: nobody need wait for it.
            self.heartbeat_due = Some(Instant::ORIGIN);
            news.push(Standing::Registered);
        }
        if !own.fenced && !self.is_unfenced {
            news.push(Standing::Unfenced);
        }
        self.is_unfenced = !own.fenced;
        news
    }

    /// Makes a heartbeat, once the epoch is known; the next is due after this one is answered, at the latest at `due`.
    pub(super) fn heartbeat(
        &mut self,
        due: Instant,
        read: i64,
    ) -> Option<BrokerHeartbeatRequestData> {
        let broker_epoch = self.epoch?;
        self.heartbeat_due = Some(due);
        Some(BrokerHeartbeatRequestData {
            broker_id: self.node_id.0,
            broker_epoch,
            current_metadata_offset: read,
            want_shut_down: self.wants_shut_down,
            ..BrokerHeartbeatRequestData::default()
        })
    }

    /// Takes a heartbeat's answer; returns true when this broker may stop, as it wanted.
    pub(super) fn on_heartbeat(&mut self, answer: &BrokerHeartbeatResponseData) -> bool {
        let may_stop = self.wants_shut_down && answer.error_code == 0 && answer.should_shut_down;
        let is_news = may_stop && !self.may_stop;
        self.may_stop |= may_stop;
        is_news
    }

    /// Wants to stop, from the next heartbeat on.
    pub(super) fn shut_down(&mut self) {
        self.wants_shut_down = true;
        self.heartbeat_due = Some(Instant::ORIGIN);
    }

    pub(super) fn is_heartbeat_due(&self, now: Instant) -> bool {
        self.epoch.is_some() && self.heartbeat_due.is_some_and(|due| due <= now)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.heartbeat_due.filter(|_| self.epoch.is_some())
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
