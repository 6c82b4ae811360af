//! This broker's followers and leaders towards other brokers: fetches out, answers in, in-sync sets to the controller.

use bytes::Bytes;

use super::{Broker, Stage, links::Caller};
use crate::{
    client::Address,
    ids::{NodeId, Offset},
    peer::{Call, CallError, Lane},
    protocol::{
        ApiKey, ErrorCode, decode_body, encode_body,
        messages::{AlterPartitionResponseData, FetchRequestData, ListOffsetsRequestData},
    },
    replication::{
        FetchAsk, FetcherAsk, KnownBroker, OffsetAsk, Readiness,
        wire::{self, Follower},
    },
};

/// What an answer may hold beyond what was asked for: one batch, as large as a frame may be; the lane's own limit counts too.
const ANSWER_BYTES_MORE: usize = 100 << 20;
/// The largest answer that a question about offsets may have.
const OFFSET_ANSWER_BYTES_MAX: usize = 1 << 20;

impl Broker {
    /// Asks leaders and the controller whatever there is to ask.
    pub(super) fn settle_replication(&mut self) -> bool {
        if !self.serves_partitions() {
            return false;
        }
        let mut busy = false;
        let now = self.now.instant;
        let planted = self.config.planted;
        loop {
            let partitions = &self.partitions;
            let ask = self.fetchers.poll(now, |slot| {
                partitions.get(slot).map_or(Readiness::Later, |partition| {
                    partition.readiness(now, planted)
                })
            });
            let Some((leader, ask)) = ask else { break };
            busy = true;
            match ask {
                FetcherAsk::Fetch(ask) => self.fetch(leader, &ask),
                FetcherAsk::Offset(ask) => self.ask_offset(leader, &ask),
            }
        }
        let epoch = self
            .cluster
            .as_ref()
            .and_then(|cluster| cluster.broker_epoch());
        let node = self.config.node_id;
        if let Some(epoch) = epoch
            && let Some(ask) = self.isr_proposals.poll(now, node, epoch)
            && let Some(cluster) = &mut self.cluster
        {
            busy = true;
            let request = wire::alter_request(node, epoch, &ask);
            cluster.propose(self.now, ask.number, request);
        }
        busy
    }

    /// What the link may add to the time that a leader takes for an answer.
    fn socket_timeout_ms(&self) -> u64 {
        let settings = self.cluster.as_ref().map(|cluster| &cluster.settings);
        let timeout = settings.map_or(0, |settings| settings.replica_socket_timeout_ms);
        u64::try_from(timeout).unwrap_or(0)
    }

    fn follower(&self) -> Option<Follower> {
        let cluster = self.cluster.as_deref()?;
        Some(Follower {
            node: self.config.node_id,
            broker_epoch: cluster.broker_epoch()?,
            directory: cluster.directory(),
            partition_bytes_max: cluster.settings.replica_fetch_max_bytes,
            answer_bytes_max: cluster.settings.replica_fetch_response_max_bytes,
            answer_bytes_min: cluster.settings.replica_fetch_min_bytes,
        })
    }

    fn fetch(&mut self, leader: NodeId, ask: &FetchAsk) {
        let now = self.now.instant;
        let lost = |broker: &mut Self| {
            if let Some(fetcher) = broker.fetchers.fetcher(leader) {
                fetcher.on_failed(now, ask.number);
            }
        };
        let Some(follower) = self.follower() else {
            return lost(self);
        };
        let request = wire::fetch_request(&follower, ask);
        let Ok(body) = encode_body(wire::FETCH, &request) else {
            return lost(self);
        };
        let records = usize::try_from(follower.answer_bytes_max).unwrap_or(0);
        let call = Call {
            api_key: ApiKey::Fetch.key(),
            version: wire::FETCH,
            body,
            timeout_ms: ask.max_wait_ms.saturating_add(self.socket_timeout_ms()),
            // One batch may be larger than all that was asked for.
            answer_bytes_max: records.saturating_add(ANSWER_BYTES_MORE),
        };
        let caller = Caller::Fetch(ask.number);
        self.links
            .call(now, (leader, Lane::Replication), caller, call);
    }

    fn ask_offset(&mut self, leader: NodeId, ask: &OffsetAsk) {
        let topic = self.partitions.topic_name(ask.partition.topic_id).cloned();
        let written = self.follower().zip(topic).and_then(|(follower, topic)| {
            let request = wire::offset_request(&follower, &topic, ask);
            encode_body(wire::LIST_OFFSETS, &request).ok()
        });
        let Some(body) = written else {
            return self.on_leader_offset(leader, ask.number, Err(ErrorCode::UnknownServerError));
        };
        let call = Call {
            api_key: ApiKey::ListOffsets.key(),
            version: wire::LIST_OFFSETS,
            body,
            timeout_ms: self.socket_timeout_ms(),
            answer_bytes_max: OFFSET_ANSWER_BYTES_MAX,
        };
        let caller = Caller::Offset(ask.number);
        let way = (leader, Lane::Replication);
        self.links.call(self.now.instant, way, caller, call);
    }

    /// Takes a leader's answer to a fetch, or its loss.
    pub(super) fn on_fetch_answer(
        &mut self,
        leader: NodeId,
        number: u64,
        outcome: Result<Bytes, CallError>,
    ) {
        let now = self.now.instant;
        let Some(fetcher) = self.fetchers.fetcher(leader) else {
            return;
        };
        let answer = outcome
            .ok()
            .and_then(|body| decode_body::<FetchRequestData>(wire::FETCH, body).ok());
        let Some(answer) = answer else {
            return fetcher.on_failed(now, number);
        };
        for delivery in fetcher.on_fetched(now, number, wire::fetch_answer(answer)) {
            let (partitions, mut context) = self.context();
            partitions.with(&mut context, delivery.slot, |partition, log, effects| {
                partition.on_fetched(log, &delivery.sent, &delivery.answer, effects);
            });
        }
    }

    /// Takes a leader's answer to a question about its offsets, or its loss.
    pub(super) fn on_offset_answer(
        &mut self,
        leader: NodeId,
        number: u64,
        outcome: Result<Bytes, CallError>,
    ) {
        let answer = outcome
            .ok()
            .and_then(|body| decode_body::<ListOffsetsRequestData>(wire::LIST_OFFSETS, body).ok())
            .ok_or(ErrorCode::NetworkException)
            .and_then(|answer| wire::offset_answer(&answer));
        self.on_leader_offset(leader, number, answer);
    }

    fn on_leader_offset(&mut self, leader: NodeId, number: u64, answer: Result<Offset, ErrorCode>) {
        let fetcher = self.fetchers.fetcher(leader);
        let Some((slot, question)) = fetcher.and_then(|fetcher| fetcher.on_offset(number)) else {
            return;
        };
        let (partitions, mut context) = self.context();
        partitions.with(&mut context, slot, |partition, log, effects| {
            partition.on_leader_offset(log, question, answer, effects);
        });
    }

    /// Takes the controller's answer to a proposal of in-sync sets; nobody knows what happened where there is none.
    pub(super) fn on_in_sync_sets(
        &mut self,
        number: u64,
        answer: Option<AlterPartitionResponseData>,
    ) {
        let now = self.now.instant;
        let Some(answer) = answer else {
            return self.isr_proposals.on_failed(now, number);
        };
        let altered = wire::alter_answer(&answer);
        let altered = match &altered {
            Ok(altered) => Ok(&altered[..]),
            Err(error) => Err(*error),
        };
        for settled in self.isr_proposals.on_answer(now, number, altered) {
            let (partitions, mut context) = self.context();
            partitions.with(&mut context, settled.slot, |partition, log, effects| {
                partition.on_isr_answer(log, settled.id, settled.answer, effects);
            });
        }
    }

    /// Takes in what the metadata says of a broker: where it is, which incarnation it is, whether it may be in sync.
    pub(super) fn learn_broker(&mut self, node: NodeId) {
        let Some(cluster) = self.cluster.as_deref() else {
            return;
        };
        let known = cluster.image().broker(node);
        let listener = self.config.inter_broker_listener();
        let endpoint = known.and_then(|broker| {
            let mut endpoints = broker.endpoints.iter();
            endpoints.find(|endpoint| endpoint.name == listener)
        });
        let address = endpoint.map(|endpoint| Address::new(&endpoint.host, endpoint.port));
        let broker = known.map(|broker| KnownBroker {
            epoch: broker.epoch,
            is_active: broker.is_active(),
        });
        if node != self.config.node_id {
            let now = self.now.instant;
            self.links
                .set_address(now, node, Lane::Replication, address);
        }
        let (partitions, mut context) = self.context();
        partitions.set_broker(&mut context, node, broker);
    }

    /// Takes in all brokers that the metadata names.
    pub(super) fn learn_brokers(&mut self) {
        let named: Vec<NodeId> = self
            .cluster
            .iter()
            .flat_map(|cluster| cluster.image().brokers().keys().copied())
            .collect();
        for node in named {
            self.learn_broker(node);
        }
    }

    /// A stage in which partitions are kept up to date.
    pub(super) const fn serves_partitions(&self) -> bool {
        matches!(
            self.stage,
            Stage::Registered | Stage::Running | Stage::Stopping(_)
        )
    }
}
