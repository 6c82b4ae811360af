//! Clients' requests: connections, order, budgets, and one file per API group.
//!
//! A request is decoded, waits until the logs it names are open, is executed by its API's file, and is answered when what it
//! waits for has happened. The frontend holds requests; it decides nothing about records or metadata.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use crate::{
    broker::{self, Output},
    cluster::Cluster,
    event::Event,
    forwarding::{self, ENVELOPE},
    ids::{ConnectionId, Epoch, Offset, Uuid},
    logdir::LogStarts,
    planted::PlantedSet,
    protocol::{
        DecodeLimits, ErrorCode, FaultAction, KafkaString, KafkaUuid, Listener, Request,
        RequestBody, ResponseBody, decode_request, encode_response,
    },
    raft::{PeerReply, PeerRequest, PeerTicket},
    replication::{Context, Outcome, Partition, PartitionState, Partitions, SlotId},
    storage::{Frame, StorageQueue},
    time::{Instant, Now},
};

mod admin;
mod connection;
mod delete_records;
mod describe;
mod fetch;
mod list_offsets;
mod metadata;
mod produce;
mod quorum;
mod reply;

pub use connection::{Budget, Connections, RequestToken};

/// A request being executed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) token: RequestToken,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    /// The number of the envelope that a broker sent the request in.
    pub(crate) envelope: Option<i32>,
}

/// What a request may use beyond the frontend itself.
#[derive(Debug)]
pub(crate) struct Services<'a> {
    pub(crate) now: Now,
    pub(crate) planted: PlantedSet,
    pub(crate) storage: &'a mut StorageQueue,
    pub(crate) outputs: &'a mut VecDeque<Output>,
    pub(crate) partitions: &'a mut Partitions,
    pub(crate) log_starts: &'a mut LogStarts<SlotId>,
    pub(crate) cluster: &'a mut Cluster,
}

impl Services<'_> {
    /// Returns the partitions together with what they need.
    pub(crate) const fn partitions(&mut self) -> (&mut Partitions, Context<'_>) {
        let context = Context {
            now: self.now,
            storage: self.storage,
            planted: self.planted,
        };
        (self.partitions, context)
    }

    /// Finds the partition that a request names by topic name, or by topic id in versions that use ids.
    pub(crate) fn slot(&self, topic: &TopicRef<'_>, partition: i32) -> Result<SlotId, ErrorCode> {
        let (name, missing) = match *topic {
            TopicRef::Name(name) => (name, ErrorCode::UnknownTopicOrPartition),
            TopicRef::Id(id) => {
                let name = self
                    .partitions
                    .topic_name(id)
                    .ok_or(ErrorCode::UnknownTopicId)?;
                (name.as_str(), ErrorCode::UnknownTopicOrPartition)
            }
        };
        self.partitions.slot(name, partition).ok_or(missing)
    }
}

/// How a request names a topic.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TopicRef<'a> {
    Name(&'a str),
    Id(Uuid),
}

impl<'a> TopicRef<'a> {
    /// Reads the pair of fields of which one is used, depending on the version.
    pub(crate) fn new(name: &'a KafkaString, id: &KafkaUuid, by_id: bool) -> Self {
        if by_id {
            Self::Id(Uuid::from(*id))
        } else {
            Self::Name(name.as_str())
        }
    }
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
    lookups: list_offsets::PendingLookups,
    deletes: delete_records::PendingDeletes,
    peers: quorum::PeerRequests,
}

impl Frontend {
    pub(crate) fn new(budget: Budget, listeners: Vec<broker::Listener>) -> Self {
        Self {
            listeners,
            connections: Connections::new(budget),
            runnable: VecDeque::new(),
            runnable_quorum: VecDeque::new(),
            opening: OpeningRequests::default(),
            produces: produce::PendingProduces::default(),
            fetches: fetch::ParkedFetches::default(),
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
            RequestBody::Fetch(request) => fetch::execute(self, services, call, request),
            RequestBody::ListOffsets(request) => {
                list_offsets::execute(self, services, call, request);
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
                describe::quorum(self, services, call, &request);
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
            Outcome::Moved(slot) => fetch::on_moved(self, services, slot),
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
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let deadlines = [self.produces.deadline(), self.fetches.deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Answers every long poll now: the broker stops.
    pub(crate) fn release(&mut self, services: &mut Services<'_>) {
        fetch::release_all(self, services);
    }

    /// Answers what waited for a log start that is durable now; `None` if it cannot be.
    pub(crate) fn on_start_moved(
        &mut self,
        services: &mut Services<'_>,
        slot: SlotId,
        start: Option<Offset>,
    ) {
        delete_records::on_start_moved(self, services, slot, start);
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

/// Compares the leader epoch a client knows with the partition's (KIP-320); negative is unknown.
fn check_epoch(current: Epoch, known: i32) -> Result<(), ErrorCode> {
    match known {
        known if known < 0 || known == current.0 => Ok(()),
        known if known < current.0 => Err(ErrorCode::FencedLeaderEpoch),
        _ => Err(ErrorCode::UnknownLeaderEpoch),
    }
}
