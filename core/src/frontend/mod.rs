//! Clients' requests: connections, order, budgets, and one file per API group.
//!
//! A request is decoded, waits until the logs it names are open, is executed by its API's file, and is answered when what it
//! waits for has happened. The frontend holds requests; it decides nothing about records or metadata.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use crate::{
    broker::{self, Output},
    event::Event,
    forwarding::{self, ENVELOPE},
    ids::{ConnectionId, Offset},
    protocol::{
        DecodeLimits, ErrorCode, FaultAction, Listener, Request, RequestBody, ResponseBody,
        decode_request, encode_response,
    },
    raft::{PeerReply, PeerRequest, PeerTicket},
    replication::{Outcome, Partition, PartitionState, SlotId},
    storage::Frame,
    time::Instant,
};

mod admin;
mod connection;
mod delete_records;
mod describe;
mod fetch;
mod leader_epoch;
mod list_offsets;
mod metadata;
mod produce;
mod quorum;
mod reply;
mod services;
mod session_ids;

use self::fetch::News;
pub use connection::{Budget, Connections, RequestToken};
pub(crate) use services::{Services, TopicRef};
pub(crate) use session_ids::SessionIds;

/// A request being executed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) token: RequestToken,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    /// The number of the envelope that a broker sent the request in.
    pub(crate) envelope: Option<i32>,
}

/// Requests that wait for logs to open.
#[derive(Debug, Default)]
struct OpeningRequests {
    waiting: BTreeMap<u64, (Call, RequestBody, BTreeSet<SlotId>)>,
    by_slot: BTreeMap<SlotId, BTreeSet<u64>>,
    next: u64,
}

/// All that clients have under way.
#[derive(Debug)]
pub(crate) struct Frontend {
    connections: Connections,
    runnable: VecDeque<ConnectionId>,
    /// Connections of the quorum have a queue of their own: they are served before this broker serves anybody else.
    runnable_quorum: VecDeque<ConnectionId>,
    /// The listeners, by position.
    listeners: Vec<broker::Listener>,
    opening: OpeningRequests,
    produces: produce::PendingProduces,
    fetches: fetch::ParkedFetches,
    session_ids: SessionIds,
    lookups: list_offsets::PendingLookups,
    deletes: delete_records::PendingDeletes,
    peers: quorum::PeerRequests,
}

impl Frontend {
    pub(crate) fn new(
        budget: Budget,
        listeners: Vec<broker::Listener>,
        session_slots: usize,
        session_ids: SessionIds,
    ) -> Self {
        Self {
            listeners,
            connections: Connections::new(budget),
            runnable: VecDeque::new(),
            runnable_quorum: VecDeque::new(),
            opening: OpeningRequests::default(),
            produces: produce::PendingProduces::default(),
            fetches: fetch::ParkedFetches::new(session_slots),
            session_ids,
            lookups: list_offsets::PendingLookups::default(),
            deletes: delete_records::PendingDeletes::default(),
            peers: quorum::PeerRequests::default(),
        }
    }

    pub(crate) fn on_connected(&mut self, connection: ConnectionId, listener: u16) {
        self.connections.on_connected(connection, listener);
    }

    pub(crate) fn on_frame(
        &mut self,
        connection: ConnectionId,
        frame: Bytes,
        outputs: &mut VecDeque<Output>,
    ) {
        self.connections.on_frame(connection, frame, outputs);
        self.make_runnable(connection);
    }

    fn make_runnable(&mut self, connection: ConnectionId) {
        match self.kind(connection) {
            Listener::Broker => self.runnable.push_back(connection),
            Listener::Controller => self.runnable_quorum.push_back(connection),
        }
    }

    pub(crate) fn on_closed(&mut self, connection: ConnectionId, outputs: &mut VecDeque<Output>) {
        self.fetches.on_closed(connection);
        self.peers.on_closed(connection);
        self.connections.on_closed(connection, outputs);
    }

    /// Starts every request that may start now on connections of one kind.
    pub(crate) fn run(&mut self, services: &mut Services<'_>, kind: Listener) {
        while let Some(connection) = self.queue(kind).pop_front() {
            while let Some((token, frame)) = self.connections.start_next(connection) {
                self.start(services, token, &frame);
            }
        }
    }

    const fn queue(&mut self, kind: Listener) -> &mut VecDeque<ConnectionId> {
        match kind {
            Listener::Broker => &mut self.runnable,
            Listener::Controller => &mut self.runnable_quorum,
        }
    }

    fn start(&mut self, services: &mut Services<'_>, token: RequestToken, frame: &Bytes) {
        let kind = self.kind(token.connection);
        let request = match decode_request(frame, &DecodeLimits::new(kind)) {
            Ok(request) => request,
            Err(error) => match error.action() {
                FaultAction::Answer(bytes) => {
                    return self.send(services.outputs, token, Some(Frame::Whole(bytes)));
                }
                FaultAction::Close => {
                    return self.close(services.outputs, token, error.to_string());
                }
            },
        };
        let Request { header, body } = request;
        let call = Call {
            token,
            version: header.version,
            correlation_id: header.correlation_id,
            envelope: None,
        };
        match kind {
            Listener::Broker => self.open_then_execute(services, call, body),
            Listener::Controller => quorum::execute(self, services, call, body),
        }
    }

    /// Executes a request now, or once the logs that it names are open.
    fn open_then_execute(&mut self, services: &mut Services<'_>, call: Call, body: RequestBody) {
        let mut closed = BTreeSet::new();
        named_slots(services, call, &body, |services, slot| {
            let (partitions, mut context) = services.partitions();
            if partitions.open(&mut context, slot) {
                closed.insert(slot);
            }
        });
        if closed.is_empty() {
            return self.execute(services, call, body);
        }
        self.opening.next += 1;
        let id = self.opening.next;
        for slot in &closed {
            self.opening.by_slot.entry(*slot).or_default().insert(id);
        }
        self.opening.waiting.insert(id, (call, body, closed));
    }

    fn on_opened(&mut self, services: &mut Services<'_>, slot: SlotId) {
        for id in self.opening.by_slot.remove(&slot).unwrap_or_default() {
            let Some((_, _, closed)) = self.opening.waiting.get_mut(&id) else {
                continue;
            };
            closed.remove(&slot);
            if closed.is_empty()
                && let Some((call, body, _)) = self.opening.waiting.remove(&id)
            {
                self.execute(services, call, body);
            }
        }
    }

    fn execute(&mut self, services: &mut Services<'_>, call: Call, body: RequestBody) {
        match body {
            RequestBody::Produce(request) => produce::execute(self, services, call, request),
            RequestBody::Fetch(request) => fetch::execute(self, services, call, &request),
            RequestBody::ListOffsets(request) => {
                list_offsets::execute(self, services, call, request);
            }
            RequestBody::OffsetForLeaderEpoch(request) => {
                leader_epoch::execute(self, services, call, &request);
            }
            RequestBody::DeleteRecords(request) => {
                delete_records::execute(self, services, call, request);
            }
            RequestBody::Metadata(request) => metadata::execute(self, services, call, request),
            RequestBody::ApiVersions(request) => {
                describe::api_versions(self, services, call, &request);
            }
            RequestBody::FindCoordinator(request) => {
                describe::coordinator(self, services, call, request);
            }
            RequestBody::DescribeCluster(request) => {
                describe::cluster(self, services, call, &request);
            }
            RequestBody::DescribeConfigs(request) => {
                describe::configs(self, services, call, &request);
            }
            RequestBody::DescribeQuorum(request) => {
                describe::quorum(self, services, call, request);
            }
            other => admin::execute(self, services, call, other),
        }
    }

    /// Handles something that requests may wait for.
    pub(crate) fn on_outcome(&mut self, services: &mut Services<'_>, outcome: Outcome) {
        match outcome {
            Outcome::Acknowledged(token, result) => {
                produce::on_acknowledged(self, services, token, result);
            }
            Outcome::Read(id, result) => fetch::on_read(self, services, id, result),
            Outcome::Lookup(id, result) => list_offsets::on_found(self, services, id, result),
            Outcome::Opened(slot) => self.on_opened(services, slot),
            Outcome::Moved(slot) => fetch::on_news(self, services, slot, News::Committed),
            Outcome::Changed(slot) => {
                fetch::on_news(self, services, slot, News::Changed);
                delete_records::look_at(self, services, slot);
            }
            // The broker itself takes these.
            Outcome::RetentionDue(..)
            | Outcome::Unlinked(_)
            | Outcome::Closed(_)
            | Outcome::SyncFailed(..) => {}
            Outcome::Told(event) => services.outputs.push_back(Output::Event(event)),
        }
    }

    pub(crate) fn on_timeout(&mut self, services: &mut Services<'_>) {
        produce::on_timeout(self, services);
        fetch::on_timeout(self, services);
        delete_records::on_timeout(self, services);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let deadlines = [
            self.produces.deadline(),
            self.fetches.deadline(),
            self.deletes.deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Answers every long poll now: the broker stops.
    pub(crate) fn release(&mut self, services: &mut Services<'_>) {
        fetch::release_all(self, services);
    }

    /// Looks at the long polls of followers: a log has grown.
    pub(crate) fn on_grown(&mut self, services: &mut Services<'_>, slot: SlotId) {
        fetch::on_news(self, services, slot, News::Grown);
    }

    /// Answers what waited for a log start that is durable now; `None` if it cannot be.
    pub(crate) fn on_start_moved(
        &mut self,
        services: &mut Services<'_>,
        slot: SlotId,
        start: Option<Offset>,
    ) {
        match start {
            Some(_) => {
                fetch::on_start_moved(self, services, slot);
                delete_records::look_at(self, services, slot);
            }
            None => delete_records::on_start_failed(self, services, slot),
        }
    }

    fn listener(&self, connection: ConnectionId) -> Option<&broker::Listener> {
        let at = self.connections.listener(connection).map(usize::from)?;
        self.listeners.get(at)
    }

    /// Returns the name of the listener that accepted a connection.
    fn listener_name(&self, connection: ConnectionId) -> String {
        self.listener(connection)
            .map(|listener| listener.name.clone())
            .unwrap_or_default()
    }

    /// Returns whom the listener that accepted a connection serves.
    fn kind(&self, connection: ConnectionId) -> Listener {
        self.listener(connection)
            .map_or(Listener::Broker, |listener| listener.kind)
    }

    /// Returns whether any connection of a kind may have a request to start.
    pub(crate) fn is_runnable(&self, kind: Listener) -> bool {
        match kind {
            Listener::Broker => !self.runnable.is_empty(),
            Listener::Controller => !self.runnable_quorum.is_empty(),
        }
    }

    /// Takes the oldest request of a peer in the quorum that the quorum's log has not been asked yet.
    pub(crate) fn poll_peer_request(&mut self) -> Option<(PeerTicket, PeerRequest)> {
        self.peers.poll()
    }

    /// Answers a peer in the quorum.
    pub(crate) fn on_peer_reply(
        &mut self,
        outputs: &mut VecDeque<Output>,
        ticket: PeerTicket,
        reply: &PeerReply,
    ) {
        quorum::on_reply(self, outputs, ticket, reply);
    }

    /// Returns how many requests are being executed.
    pub(crate) fn executing(&self) -> usize {
        self.connections.executing()
    }

    /// Returns how many requests wait for an answer.
    pub(crate) fn unanswered(&self) -> usize {
        self.connections.unanswered()
    }

    /// Encodes and sends an answer.
    pub(crate) fn answer(
        &mut self,
        services: &mut Services<'_>,
        call: Call,
        body: impl Into<ResponseBody>,
    ) {
        let written = match call.envelope {
            None => encode_response(call.version, call.correlation_id, body.into()),
            Some(outer) => forwarding::answer(call.version, call.correlation_id, body.into())
                .and_then(|answer| encode_response(ENVELOPE, outer, answer.into())),
        };
        match written {
            Ok(bytes) => self.send(services.outputs, call.token, Some(Frame::Whole(bytes))),
            Err(error) => self.close(services.outputs, call.token, error.to_string()),
        }
    }

    pub(crate) fn send(
        &mut self,
        outputs: &mut VecDeque<Output>,
        token: RequestToken,
        frame: Option<Frame>,
    ) {
        if self.connections.answer(token, frame, outputs) {
            self.make_runnable(token.connection);
        }
    }

    pub(crate) fn close(
        &mut self,
        outputs: &mut VecDeque<Output>,
        token: RequestToken,
        reason: String,
    ) {
        let connection = token.connection;
        outputs.push_back(Output::Event(Event::ConnectionRefused {
            connection,
            reason,
        }));
        self.connections.close(connection, outputs);
        self.fetches.on_closed(connection);
        self.peers.on_closed(connection);
    }
}

/// Calls `found` with every existing partition whose log a request needs.
fn named_slots(
    services: &mut Services<'_>,
    call: Call,
    body: &RequestBody,
    mut found: impl FnMut(&mut Services<'_>, SlotId),
) {
    let mut visit = |services: &mut Services<'_>, topic: &TopicRef<'_>, partition: i32| {
        if let Ok(slot) = services.slot(topic, partition) {
            found(services, slot);
        }
    };
    match body {
        RequestBody::Produce(request) => {
            for topic in request.topics.iter() {
                let name = TopicRef::new(&topic.name, &topic.topic_id, call.version >= 13);
                for partition in topic.partitions.iter() {
                    visit(services, &name, partition.index);
                }
            }
        }
        RequestBody::Fetch(request) => {
            for topic in request.topics.iter() {
                let name = TopicRef::new(&topic.topic, &topic.topic_id, call.version >= 13);
                for partition in topic.partitions.iter() {
                    visit(services, &name, partition.partition);
                }
            }
        }
        RequestBody::ListOffsets(request) => {
            for topic in &request.topics {
                let name = TopicRef::Name(topic.name.as_str());
                for partition in &topic.partitions {
                    visit(services, &name, partition.partition_index);
                }
            }
        }
        RequestBody::OffsetForLeaderEpoch(request) => {
            for topic in &request.topics {
                let name = TopicRef::Name(topic.topic.as_str());
                for partition in &topic.partitions {
                    visit(services, &name, partition.partition);
                }
            }
        }
        RequestBody::DeleteRecords(request) => {
            for topic in &request.topics {
                let name = TopicRef::Name(topic.name.as_str());
                for partition in &topic.partitions {
                    visit(services, &name, partition.partition_index);
                }
            }
        }
        _ => {}
    }
}

/// Says why a partition without a leader here cannot be used.
fn unavailable(partition: &Partition) -> ErrorCode {
    match partition.state() {
        PartitionState::Offline(_) => ErrorCode::KafkaStorageError,
        _ => ErrorCode::NotLeaderOrFollower,
    }
}
