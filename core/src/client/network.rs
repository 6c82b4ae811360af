//! What all clients share: connections to brokers, requests and their answers, metadata.
//!
//! It decides when to connect to whom, which version of each API to speak, which answer belongs to
//! which request, and when to give up. A machine above it asks for a broker ([`Network::ensure`]),
//! sends, and is told how each request ended, exactly once ([`Network::poll_reply`]).

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{
    ClientConfig, ClientInput, ClientOutput, Cluster,
    backoff::Backoff,
    link::{InFlight, Link},
    refresh::Refresh,
};
use crate::{
    ids::{ConnectionId, Epoch, NodeId, TopicPartition},
    protocol::{ApiKey, ClientRequest, EncodeError, decode_response, encode_request},
    time::Instant,
};

/// Whom a connection leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peer {
    /// A broker named by metadata.
    Broker(NodeId),
    /// An address of the bootstrap list, by position; who answers there is not known.
    Bootstrap(usize),
}

/// What a request was for.
#[derive(Clone, Debug)]
pub(super) enum Tag<T> {
    Negotiate,
    Metadata,
    Caller(T),
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// The request was never handed out.
    NotSent,
    /// The connection ended first.
    Disconnected,
    /// The answer took too long.
    TimedOut,
    /// The answer cannot be read.
    Malformed,
}

/// How a request ended.
#[derive(Debug)]
pub(super) enum Reply<T> {
    /// It was answered; [`Network::decode`] reads the frame.
    Answer {
        peer: Peer,
        tag: T,
        version: i16,
        frame: Bytes,
    },
    /// It was not, and nobody knows whether the broker acted on it.
    Lost { tag: T, loss: Loss },
}

enum Wire {
    Connect(ConnectionId, super::Address),
    Send(ConnectionId, Bytes),
    Close(ConnectionId),
}

/// Connections, requests, metadata; `T` is what a machine attaches to its requests.
pub(super) struct Network<T> {
    pub(super) config: ClientConfig,
    pub(super) rng: ChaCha8Rng,
    pub(super) cluster: Cluster,
    pub(super) refresh: Refresh,
    pub(super) links: BTreeMap<Peer, Link<Tag<T>>>,
    by_connection: BTreeMap<ConnectionId, Peer>,
    outputs: VecDeque<Wire>,
    replies: VecDeque<Reply<T>>,
    next_connection: u64,
    next_correlation: i32,
}

impl<T> std::fmt::Debug for Network<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network")
            .field("connections", &self.by_connection)
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

impl<T> Network<T> {
    pub(super) fn new(config: ClientConfig) -> Self {
        let bootstrap = config.bootstrap.iter().cloned().enumerate();
        Self {
            links: bootstrap
                .map(|(at, address)| (Peer::Bootstrap(at), Link::new(address)))
                .collect(),
            rng: ChaCha8Rng::seed_from_u64(config.seed),
            cluster: Cluster::default(),
            refresh: Refresh::new(),
            by_connection: BTreeMap::new(),
            outputs: VecDeque::new(),
            replies: VecDeque::new(),
            next_connection: 0,
            next_correlation: 0,
            config,
        }
    }

    /// Takes one input; the machine then takes the replies and calls [`pump`](Self::pump).
    pub(super) fn handle(&mut self, now: Instant, input: ClientInput) {
        match input {
            ClientInput::Connected { connection } => {
                let peer = self.by_connection.get(&connection).copied();
                if let Some(peer) = peer
                    && let Some(link) = self.links.get_mut(&peer)
                    && link.is_connecting()
                {
                    link.connected(connection);
                    self.negotiate(now, peer, ApiKey::ApiVersions.spec().served.max);
                }
            }
            ClientInput::ConnectFailed { connection }
            | ClientInput::Disconnected { connection } => {
                if let Some(peer) = self.by_connection.remove(&connection) {
                    self.lose(now, peer, Loss::Disconnected);
                }
            }
            ClientInput::Frame { connection, bytes } => {
                if let Some(peer) = self.by_connection.get(&connection).copied() {
                    self.on_frame(now, peer, bytes);
                }
            }
            ClientInput::Timeout => {}
        }
    }

    /// Gives up what took too long and keeps metadata fresh.
    pub(super) fn pump(&mut self, now: Instant) {
        let late = |link: &Link<Tag<T>>| link.expires().is_some_and(|at| at <= now);
        let late: Vec<Peer> = self
            .links
            .iter()
            .filter(|(_, link)| late(link))
            .map(|(peer, _)| *peer)
            .collect();
        for peer in late {
            self.close(now, peer, Loss::TimedOut);
        }
        self.refresh_metadata(now);
    }

    pub(super) fn poll_reply(&mut self) -> Option<Reply<T>> {
        self.replies.pop_front()
    }

    pub(super) fn poll_output<E>(&mut self) -> Option<ClientOutput<E>> {
        Some(match self.outputs.pop_front()? {
            Wire::Connect(connection, to) => ClientOutput::Connect { connection, to },
            Wire::Send(connection, frame) => ClientOutput::Send { connection, frame },
            Wire::Close(connection) => ClientOutput::Close { connection },
        })
    }

    /// Returns when the network next needs attention after `now`.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        let links = self.links.values().filter_map(|link| link.wakes(now));
        links.chain(self.refresh.due().filter(|at| *at > now)).min()
    }

    /// Says whether requests can be sent to a broker; starts to connect if not.
    pub(super) fn ensure(&mut self, now: Instant, peer: Peer) -> bool {
        let Some(link) = self.links.get_mut(&peer) else {
            return false;
        };
        if link.may_connect(now) {
            self.next_connection += 1;
            let connection = ConnectionId(self.next_connection);
            let patience = self.config.connection_setup_timeout_ms;
            link.begin(connection, now.plus_millis(patience));
            let address = link.address.clone();
            self.by_connection.insert(connection, peer);
            self.outputs.push_back(Wire::Connect(connection, address));
        }
        self.links.get(&peer).is_some_and(Link::is_ready)
    }

    /// Returns a broker that is ready for a request that any broker can answer: the one with the
    /// fewest requests in flight. If there is none, starts to connect to one.
    pub(super) fn any_peer(&mut self, now: Instant) -> Option<Peer> {
        let ready = self.links.iter().filter(|(_, link)| link.is_ready());
        if let Some((peer, _)) = ready.min_by_key(|(_, link)| link.in_flight()) {
            return Some(*peer);
        }
        if self.links.values().any(Link::is_coming) {
            return None;
        }
        // The bootstrap list again when no broker known by name answers.
        let known = |peer: &Peer| matches!(peer, Peer::Broker(_));
        let lost = self
            .links
            .iter()
            .all(|(peer, link)| !known(peer) || link.failures() > 1);
        let choices: Vec<Peer> = self
            .links
            .iter()
            .filter(|(peer, link)| link.may_connect(now) && (lost || known(peer)))
            .map(|(peer, _)| *peer)
            .collect();
        let draw = usize::try_from(self.rng.next_u32()).unwrap_or_default();
        let peer = *choices.get(draw.checked_rem(choices.len())?)?;
        self.ensure(now, peer);
        None
    }

    /// Returns the number of requests to a broker that wait for an answer.
    pub(super) fn in_flight(&self, peer: Peer) -> usize {
        self.links.get(&peer).map_or(0, Link::in_flight)
    }

    /// Returns the highest version up to `cap` that a ready broker and this client speak.
    pub(super) fn version(&self, peer: Peer, api: ApiKey, cap: i16) -> Option<i16> {
        self.links.get(&peer)?.version(api, cap)
    }

    /// Sends a request whose end is told by [`poll_reply`](Self::poll_reply).
    pub(super) fn send<R: ClientRequest>(
        &mut self,
        now: Instant,
        peer: Peer,
        version: i16,
        request: &R,
        tag: T,
    ) -> Result<(), EncodeError> {
        self.transmit(now, peer, version, request, Tag::Caller(tag))
    }

    /// Sends a request that is never answered: Produce with acks=0. Says whether it was handed out.
    pub(super) fn send_unanswered<R: ClientRequest>(
        &mut self,
        peer: Peer,
        version: i16,
        request: &R,
    ) -> Result<bool, EncodeError> {
        let id = self.correlation_id();
        let frame = encode_request(version, id, &self.config.client_id, request)?;
        let connection = self.links.get(&peer).and_then(Link::connection);
        if let Some(connection) = connection {
            self.outputs.push_back(Wire::Send(connection, frame));
        }
        Ok(connection.is_some())
    }

    /// Reads an answer. One that cannot be read ends the connection.
    pub(super) fn decode<R: ClientRequest>(
        &mut self,
        now: Instant,
        peer: Peer,
        version: i16,
        frame: &Bytes,
    ) -> Option<R::Response> {
        match decode_response::<R>(version, frame) {
            Ok((_, answer)) => Some(answer),
            Err(_) => {
                self.close(now, peer, Loss::Malformed);
                None
            }
        }
    }

    /// Takes in a hint about a new leader; asks for metadata if the hint is not enough.
    pub(super) fn hint_leader(&mut self, partition: &TopicPartition, leader: i32, epoch: i32) {
        let leader = NodeId(leader);
        let known = self.cluster.brokers.contains_key(&leader);
        if !known || !self.cluster.update_leader(partition, leader, Epoch(epoch)) {
            self.refresh.request();
        }
    }

    pub(super) fn transmit<R: ClientRequest>(
        &mut self,
        now: Instant,
        peer: Peer,
        version: i16,
        request: &R,
        tag: Tag<T>,
    ) -> Result<(), EncodeError> {
        let correlation_id = self.correlation_id();
        let frame = encode_request(version, correlation_id, &self.config.client_id, request)?;
        let deadline = now.plus_millis(self.config.request_timeout_ms);
        let request = InFlight {
            correlation_id,
            api: R::API,
            version,
            deadline,
            tag,
        };
        let link = self.links.get_mut(&peer);
        match link.and_then(|link| Some((link.connection()?, link))) {
            Some((connection, link)) => {
                link.sent(request);
                self.outputs.push_back(Wire::Send(connection, frame));
            }
            None => self.end_lost(now, request.tag, Loss::NotSent),
        }
        Ok(())
    }

    /// Closes a connection; what was in flight is lost.
    pub(super) fn close(&mut self, now: Instant, peer: Peer, loss: Loss) {
        let connection = self.links.get(&peer).and_then(Link::connection);
        if let Some(connection) = connection {
            self.by_connection.remove(&connection);
            self.outputs.push_back(Wire::Close(connection));
        }
        self.lose(now, peer, loss);
    }

    /// Lets a connection stand for another peer: the bootstrap address was a broker's own.
    pub(super) fn rename(&mut self, from: Peer, to: Peer) {
        let Some(link) = self.links.remove(&from) else {
            return;
        };
        self.links.insert(from, Link::new(link.address.clone()));
        if let Some(connection) = link.connection() {
            self.by_connection.insert(connection, to);
        }
        self.links.insert(to, link);
    }

    fn lose(&mut self, now: Instant, peer: Peer, loss: Loss) {
        let backoff = Backoff {
            first_ms: self.config.reconnect_backoff_ms,
            max_ms: self.config.reconnect_backoff_max_ms,
        };
        let Some(link) = self.links.get_mut(&peer) else {
            return;
        };
        let lost = link.down();
        let wait = backoff.wait_ms(link.failures(), &mut self.rng);
        link.retry_at(now.plus_millis(wait));
        for request in lost {
            self.end_lost(now, request.tag, loss);
        }
    }

    fn end_lost(&mut self, now: Instant, tag: Tag<T>, loss: Loss) {
        match tag {
            Tag::Negotiate => {}
            Tag::Metadata => self.metadata_failed(now),
            Tag::Caller(tag) => self.replies.push_back(Reply::Lost { tag, loss }),
        }
    }

    fn on_frame(&mut self, now: Instant, peer: Peer, frame: Bytes) {
        let Some(link) = self.links.get_mut(&peer) else {
            return;
        };
        let id = frame.first_chunk().map(|id| i32::from_be_bytes(*id));
        let expected = link.oldest().is_some_and(|oldest| {
            let max = match oldest.api {
                ApiKey::Fetch => self.config.response_bytes_max,
                _ => ClientConfig::CONTROL_BYTES_MAX,
            };
            id == Some(oldest.correlation_id) && frame.len() <= max
        });
        let request = if expected { link.answered() } else { None };
        let Some(request) = request else {
            self.close(now, peer, Loss::Malformed);
            return;
        };
        match request.tag {
            Tag::Negotiate => self.on_versions(now, peer, request.version, &frame),
            Tag::Metadata => self.on_metadata(now, peer, request.version, &frame),
            Tag::Caller(tag) => self.replies.push_back(Reply::Answer {
                peer,
                tag,
                version: request.version,
                frame,
            }),
        }
    }

    const fn correlation_id(&mut self) -> i32 {
        let id = self.next_correlation;
        self.next_correlation = id.wrapping_add(1) & i32::MAX;
        id
    }
}
