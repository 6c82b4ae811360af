//! All links of a node.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{
    Answer, Call, CallError, CallId, Lane, PeerConfig, PeerOutput,
    link::{Link, Sent, State, Waiting},
};
use crate::{
    client::{Address, backoff::Backoff},
    ids::{ConnectionId, NodeId},
    protocol::encode_call,
    time::Instant,
};

type Way = (NodeId, Lane);

/// The links of this node to others.
#[derive(Debug)]
pub struct Peers {
    config: PeerConfig,
    rng: ChaCha8Rng,
    links: BTreeMap<Way, Link>,
    by_connection: BTreeMap<ConnectionId, Way>,
    next_connection: u64,
    next_correlation: i32,
    outputs: VecDeque<PeerOutput>,
    answers: VecDeque<Answer>,
}

impl Peers {
    /// Makes links to nobody; `seed` decides on the jitter of back-offs.
    ///
    /// Connections are numbered from `first_connection` on, with [`ConnectionId::dialled`].
    #[must_use]
    pub fn new(config: PeerConfig, seed: u64, first_connection: u64) -> Self {
        Self {
            config,
            rng: ChaCha8Rng::seed_from_u64(seed),
            links: BTreeMap::new(),
            by_connection: BTreeMap::new(),
            next_connection: first_connection,
            next_correlation: 0,
            outputs: VecDeque::new(),
            answers: VecDeque::new(),
        }
    }

    /// Says how to reach a node on a lane, or that it cannot be reached any more.
    ///
    /// A connection to another address is closed, and its calls are lost; the same address changes nothing.
    pub fn set_address(
        &mut self,
        now: Instant,
        node: NodeId,
        lane: Lane,
        address: Option<Address>,
    ) {
        let way = (node, lane);
        let known = self.links.get(&way).map(|link| &link.address);
        if known == address.as_ref() {
            return;
        }
        self.close(now, way, None);
        self.links.remove(&way);
        if let Some(address) = address {
            self.links.insert(way, Link::new(address));
        }
    }

    /// Says that a node cannot be reached any more, on any lane.
    pub fn forget(&mut self, now: Instant, node: NodeId) {
        for lane in Lane::ALL {
            self.set_address(now, node, lane, None);
        }
    }

    /// Calls a node; [`Self::poll_answer`] tells once how that ended.
    pub fn call(&mut self, now: Instant, node: NodeId, lane: Lane, id: CallId, call: Call) {
        let way = (node, lane);
        let limits = self.config.lane(lane);
        let refusal = match self.links.get(&way).map(Link::waiting) {
            None => Some(CallError::NoAddress),
            Some((calls, bytes)) => {
                let is_full = calls >= limits.waiting_max
                    || bytes.saturating_add(call.body.len()) > limits.waiting_bytes_max;
                is_full.then_some(CallError::Overloaded)
            }
        };
        if let Some(error) = refusal {
            self.end(way, id, Err(error));
            return;
        }
        let deadline = now.plus_millis(call.timeout_ms);
        if let Some(link) = self.links.get_mut(&way) {
            link.wait(Waiting { id, call, deadline });
        }
        self.advance(now, way);
    }

    /// Notes that a connection stands.
    pub fn on_dialled(&mut self, now: Instant, connection: ConnectionId) {
        let Some(way) = self.by_connection.get(&connection).copied() else {
            return;
        };
        if let Some(link) = self.links.get_mut(&way)
            && matches!(link.state, State::Dialling { .. })
        {
            link.state = State::Up { connection };
            self.advance(now, way);
        }
    }

    /// Takes one frame, without its length prefix.
    pub fn on_frame(&mut self, now: Instant, connection: ConnectionId, frame: &Bytes) {
        let Some(way) = self.by_connection.get(&connection).copied() else {
            return;
        };
        let answered = self
            .links
            .get_mut(&way)
            .and_then(|link| link.answered(frame));
        match answered {
            Some((id, body)) => {
                self.end(way, id, Ok(body));
                self.advance(now, way);
            }
            None => self.close(now, way, Some(CallError::Malformed)),
        }
    }

    /// Notes that a connection is gone, or could not be made.
    pub fn on_closed(&mut self, now: Instant, connection: ConnectionId) {
        if let Some(way) = self.by_connection.remove(&connection) {
            self.lose(now, way, None);
        }
    }

    /// Gives up what is overdue, and dials what may be dialled again.
    pub fn on_timeout(&mut self, now: Instant) {
        let due = |link: &Link| link.deadline().is_some_and(|deadline| deadline <= now);
        let ways: Vec<Way> = self
            .links
            .iter()
            .filter(|(_, link)| due(link))
            .map(|(way, _)| *way)
            .collect();
        for way in ways {
            let Some(link) = self.links.get_mut(&way) else {
                continue;
            };
            if link.is_stuck(now) {
                self.close(now, way, None);
                continue;
            }
            for id in link.overdue(now) {
                self.end(way, id, Err(CallError::TimedOut));
            }
            self.advance(now, way);
        }
    }

    /// Returns when [`Self::on_timeout`] is next due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.links.values().filter_map(Link::deadline).min()
    }

    /// Returns the next thing to do.
    pub fn poll_output(&mut self) -> Option<PeerOutput> {
        self.outputs.pop_front()
    }

    /// Returns how the next call ended.
    pub fn poll_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// Returns whether a connection to a node stands on a lane.
    #[must_use]
    pub fn is_up(&self, node: NodeId, lane: Lane) -> bool {
        let link = self.links.get(&(node, lane));
        link.is_some_and(|link| matches!(link.state, State::Up { .. }))
    }

    /// Returns the number of calls to a node on a lane that are not answered, sent or not.
    #[must_use]
    pub fn unanswered(&self, node: NodeId, lane: Lane) -> usize {
        self.links
            .get(&(node, lane))
            .map_or(0, |link| link.in_flight() + link.waiting().0)
    }

    /// Returns whether a connection is one of these links.
    #[must_use]
    pub fn owns(&self, connection: ConnectionId) -> bool {
        self.by_connection.contains_key(&connection)
    }

    /// Dials, or sends what may be sent.
    fn advance(&mut self, now: Instant, way: Way) {
        let limits = *self.config.lane(way.1);
        let Some(link) = self.links.get_mut(&way) else {
            return;
        };
        if link.wants_dial(now) {
            let connection = ConnectionId::dialled(self.next_connection);
            self.next_connection = self.next_connection.saturating_add(1);
            link.state = State::Dialling {
                connection,
                deadline: now.plus_millis(limits.setup_timeout_ms),
            };
            self.by_connection.insert(connection, way);
            self.outputs.push_back(PeerOutput::Dial {
                connection,
                host: link.address.host.to_string(),
                port: link.address.port,
                frame_bytes_max: limits.answer_bytes_max,
            });
        }
        while let Some(link) = self.links.get_mut(&way)
            && let Some(connection) = link.connection()
            && let Some(waiting) = link.next(limits.in_flight_max)
        {
            let Waiting { id, call, deadline } = waiting;
            let correlation_id = self.next_correlation;
            self.next_correlation = correlation_id.wrapping_add(1) & i32::MAX;
            let api = (call.api_key, call.version);
            match encode_call(api, correlation_id, &self.config.client_id, &call.body) {
                Ok(frame) => {
                    link.sent(Sent {
                        id,
                        api,
                        correlation_id,
                        deadline,
                        answer_bytes_max: call.answer_bytes_max.min(limits.answer_bytes_max),
                    });
                    self.outputs
                        .push_back(PeerOutput::Send { connection, frame });
                }
                Err(_) => self.end(way, id, Err(CallError::TooLong)),
            }
        }
    }

    /// Closes a connection; `oldest` says what its oldest call is answered.
    fn close(&mut self, now: Instant, way: Way, oldest: Option<CallError>) {
        let connection = self.links.get(&way).and_then(Link::connection);
        if let Some(connection) = connection {
            self.by_connection.remove(&connection);
            self.outputs.push_back(PeerOutput::Close { connection });
        }
        self.lose(now, way, oldest);
    }

    /// Answers every call of a link whose connection is gone.
    fn lose(&mut self, now: Instant, way: Way, oldest: Option<CallError>) {
        let limits = self.config.lane(way.1);
        let backoff = Backoff {
            first_ms: limits.backoff_ms,
            max_ms: limits.backoff_max_ms,
        };
        let Some(link) = self.links.get_mut(&way) else {
            return;
        };
        link.failures = link.failures.saturating_add(1);
        let wait = backoff.wait_ms(link.failures, &mut self.rng);
        link.state = State::Down {
            retry_at: now.plus_millis(wait),
        };
        for (id, error) in link.down(now, oldest) {
            self.end(way, id, Err(error));
        }
    }

    fn end(&mut self, (node, _): Way, id: CallId, outcome: Result<Bytes, CallError>) {
        self.answers.push_back(Answer { id, node, outcome });
    }
}
