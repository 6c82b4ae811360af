//! Connections: requests start in arrival order, answers leave in arrival order, memory stays bounded.
//!
//! Kafka executes one request of a connection at a time. Here a Produce may also start while earlier Produces wait for
//! storage or replicas; anything else waits until the connection is idle, so a Fetch sees all that was sent before it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use crate::{broker::Output, ids::ConnectionId, storage::Frame};

/// A request being executed: where its answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestToken {
    /// The connection.
    pub connection: ConnectionId,
    seq: u64,
}

/// How much request memory may be held.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Bytes of unanswered frames per connection before it is no longer read.
    pub connection_bytes: usize,
    /// Bytes of unanswered frames over all connections before those that send more are no longer read.
    pub total_bytes: usize,
    /// Unanswered frames per connection before it is no longer read.
    pub connection_frames: usize,
}

impl Default for Budget {
    fn default() -> Self {
        let mib = 1024 * 1024;
        Self {
            connection_bytes: 4 * mib,
            total_bytes: 64 * mib,
            connection_frames: 64,
        }
    }
}

#[derive(Debug)]
struct InFlight {
    seq: u64,
    produce: bool,
    bytes: usize,
    answer: Option<Option<Frame>>,
}

#[derive(Debug, Default)]
struct Connection {
    listener: u16,
    in_flight: VecDeque<InFlight>,
    backlog: VecDeque<Bytes>,
    bytes: usize,
    next_seq: u64,
    paused: bool,
    closing: bool,
}

impl Connection {
    fn may_start(&self, frame: &Bytes) -> bool {
        self.in_flight.is_empty()
            || (is_produce(frame) && self.in_flight.iter().all(|request| request.produce))
    }

    fn frames(&self) -> usize {
        self.in_flight.len() + self.backlog.len()
    }

    fn over(&self, budget: &Budget) -> bool {
        self.bytes > budget.connection_bytes || self.frames() > budget.connection_frames
    }
}

/// Produce has API key 0.
fn is_produce(frame: &Bytes) -> bool {
    frame.starts_with(&[0, 0])
}

/// All connections of a broker.
#[derive(Debug)]
pub struct Connections {
    connections: BTreeMap<ConnectionId, Connection>,
    paused: BTreeSet<ConnectionId>,
    budget: Budget,
    total_bytes: usize,
}

impl Connections {
    /// Makes the table, empty.
    #[must_use]
    pub const fn new(budget: Budget) -> Self {
        let connections = BTreeMap::new();
        Self {
            connections,
            paused: BTreeSet::new(),
            budget,
            total_bytes: 0,
        }
    }

    /// Takes note of a new connection.
    pub fn on_connected(&mut self, connection: ConnectionId, listener: u16) {
        self.connections.insert(
            connection,
            Connection {
                listener,
                ..Connection::default()
            },
        );
    }

    /// Forgets a connection with everything that waits in it.
    pub fn on_closed(&mut self, connection: ConnectionId, outputs: &mut VecDeque<Output>) {
        if let Some(gone) = self.connections.remove(&connection) {
            self.total_bytes -= gone.bytes;
        }
        self.paused.remove(&connection);
        self.resume(outputs);
    }

    /// Takes a frame; it starts when [`Connections::start_next`] says so.
    pub fn on_frame(
        &mut self,
        connection: ConnectionId,
        frame: Bytes,
        outputs: &mut VecDeque<Output>,
    ) {
        let Some(state) = self.connections.get_mut(&connection) else {
            return;
        };
        if state.closing {
            return;
        }
        state.bytes += frame.len();
        self.total_bytes += frame.len();
        state.backlog.push_back(frame);
        let over = state.over(&self.budget) || self.total_bytes > self.budget.total_bytes;
        if over && !state.paused {
            state.paused = true;
            self.paused.insert(connection);
            outputs.push_back(Output::PauseReading { connection });
        }
    }

    /// Takes the next frame of a connection that may be executed now.
    pub fn start_next(&mut self, connection: ConnectionId) -> Option<(RequestToken, Bytes)> {
        let state = self.connections.get_mut(&connection)?;
        if state.closing || !state.may_start(state.backlog.front()?) {
            return None;
        }
        let frame = state.backlog.pop_front()?;
        state.next_seq += 1;
        let seq = state.next_seq;
        let produce = is_produce(&frame);
        state.in_flight.push_back(InFlight {
            seq,
            produce,
            bytes: frame.len(),
            answer: None,
        });
        Some((RequestToken { connection, seq }, frame))
    }

    /// Gives a request its answer (`None`: acks=0 gets no answer); sends what is first in line.
    ///
    /// Returns whether the connection is still there, so that its next frame may start.
    pub fn answer(
        &mut self,
        token: RequestToken,
        answer: Option<Frame>,
        outputs: &mut VecDeque<Output>,
    ) -> bool {
        let connection = token.connection;
        let Some(state) = self.connections.get_mut(&connection) else {
            return false;
        };
        let Some(request) = state
            .in_flight
            .iter_mut()
            .find(|request| request.seq == token.seq)
        else {
            return false;
        };
        request.answer = Some(answer);
        while let Some(InFlight {
            answer: Some(_), ..
        }) = state.in_flight.front()
        {
            let Some(done) = state.in_flight.pop_front() else {
                break;
            };
            state.bytes -= done.bytes;
            self.total_bytes -= done.bytes;
            if let Some(Some(frame)) = done.answer {
                outputs.push_back(Output::Send { connection, frame });
            }
        }
        self.resume(outputs);
        true
    }

    /// Closes a connection after the answers that are already in line.
    pub fn close(&mut self, connection: ConnectionId, outputs: &mut VecDeque<Output>) {
        let Some(state) = self.connections.get_mut(&connection) else {
            return;
        };
        state.closing = true;
        outputs.push_back(Output::Close { connection });
        self.on_closed(connection, outputs);
    }

    /// Returns the listener that accepted a connection.
    #[must_use]
    pub fn listener(&self, connection: ConnectionId) -> Option<u16> {
        self.connections
            .get(&connection)
            .map(|state| state.listener)
    }

    /// Returns whether a connection is still open.
    #[must_use]
    pub fn is_open(&self, connection: ConnectionId) -> bool {
        self.connections.contains_key(&connection)
    }

    /// Returns how many requests wait for an answer or for their turn.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.connections.values().map(Connection::frames).sum()
    }

    /// Returns how many requests are being executed.
    #[must_use]
    pub fn executing(&self) -> usize {
        self.connections
            .values()
            .map(|state| state.in_flight.len())
            .sum()
    }

    /// Returns all connections, in the order of their ids.
    #[must_use]
    pub fn ids(&self) -> Vec<ConnectionId> {
        self.connections.keys().copied().collect()
    }

    /// Reads on where budgets allow; half of a budget must be free, so that reading does not flutter.
    fn resume(&mut self, outputs: &mut VecDeque<Output>) {
        if self.paused.is_empty() || self.total_bytes > self.budget.total_bytes / 2 {
            return;
        }
        let half = Budget {
            connection_bytes: self.budget.connection_bytes / 2,
            connection_frames: self.budget.connection_frames / 2,
            ..self.budget
        };
        self.paused.retain(|connection| {
            let Some(state) = self.connections.get_mut(connection) else {
                return false;
            };
            if state.over(&half) {
                return true;
            }
            state.paused = false;
            outputs.push_back(Output::ResumeReading {
                connection: *connection,
            });
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCE: &[u8] = &[0, 0, 0, 9];
    const FETCH: &[u8] = &[0, 1, 0, 9];
    const A: ConnectionId = ConnectionId(1);

    fn connected() -> (Connections, VecDeque<Output>) {
        let mut connections = Connections::new(Budget {
            connection_bytes: 100,
            total_bytes: 150,
            connection_frames: 8,
        });
        connections.on_connected(A, 0);
        (connections, VecDeque::new())
    }

    fn sent(outputs: &VecDeque<Output>) -> Vec<Frame> {
        let frame = |output: &Output| match output {
            Output::Send { frame, .. } => Some(frame.clone()),
            _ => None,
        };
        outputs.iter().filter_map(frame).collect()
    }

    fn frame(text: &'static str) -> Frame {
        Frame::Whole(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn answers_leave_in_arrival_order_whatever_the_order_of_completion() {
        let (mut connections, mut outputs) = connected();
        for _ in 0..3 {
            connections.on_frame(A, Bytes::from_static(PRODUCE), &mut outputs);
        }
        let tokens: Vec<_> = std::iter::from_fn(|| connections.start_next(A))
            .map(|(token, _)| token)
            .collect();
        assert_eq!(tokens.len(), 3, "produces may overlap");
        connections.answer(tokens[2], Some(frame("third")), &mut outputs);
        connections.answer(tokens[1], None, &mut outputs);
        assert_eq!(sent(&outputs), []);
        connections.answer(tokens[0], Some(frame("first")), &mut outputs);
        assert_eq!(sent(&outputs), [frame("first"), frame("third")]);
    }

    #[test]
    fn fetch_starts_only_when_every_earlier_produce_is_answered() {
        let (mut connections, mut outputs) = connected();
        connections.on_frame(A, Bytes::from_static(PRODUCE), &mut outputs);
        connections.on_frame(A, Bytes::from_static(FETCH), &mut outputs);
        connections.on_frame(A, Bytes::from_static(PRODUCE), &mut outputs);
        let (produce, _) = connections.start_next(A).unwrap();
        assert!(connections.start_next(A).is_none());
        connections.answer(produce, None, &mut outputs);
        let (fetch, bytes) = connections.start_next(A).unwrap();
        assert_eq!(&bytes[..], FETCH);
        assert!(
            connections.start_next(A).is_none(),
            "a produce does not overtake a fetch"
        );
        connections.answer(fetch, None, &mut outputs);
        assert!(connections.start_next(A).is_some());
    }

    #[test]
    fn connection_over_its_budget_is_paused_and_read_again_once_half_is_free() {
        let (mut connections, mut outputs) = connected();
        let mut big = vec![0; 60];
        big[3] = 9;
        connections.on_frame(A, Bytes::from(big.clone()), &mut outputs);
        assert!(outputs.is_empty());
        connections.on_frame(A, Bytes::from(big), &mut outputs);
        assert!(matches!(
            outputs.pop_back(),
            Some(Output::PauseReading { connection: A })
        ));
        let (first, _) = connections.start_next(A).unwrap();
        let (second, _) = connections.start_next(A).unwrap();
        connections.answer(first, None, &mut outputs);
        assert!(outputs.is_empty(), "60 of 100 bytes are still held");
        connections.answer(second, None, &mut outputs);
        assert!(matches!(
            outputs.pop_back(),
            Some(Output::ResumeReading { connection: A })
        ));
    }

    #[test]
    fn total_budget_pauses_whoever_sends_more() {
        let (mut connections, mut outputs) = connected();
        let b = ConnectionId(2);
        connections.on_connected(b, 0);
        connections.on_frame(A, Bytes::from(vec![0; 90]), &mut outputs);
        connections.on_frame(b, Bytes::from(vec![0; 90]), &mut outputs);
        assert!(
            matches!(outputs.pop_back(), Some(Output::PauseReading { connection }) if connection == b)
        );
        connections.on_closed(A, &mut outputs);
        assert!(outputs.is_empty(), "90 of 150 bytes are still held");
        connections.on_closed(b, &mut outputs);
        assert!(
            outputs.is_empty(),
            "a connection that is gone is not read again"
        );
    }

    #[test]
    fn nothing_starts_after_a_close() {
        let (mut connections, mut outputs) = connected();
        connections.on_frame(A, Bytes::from_static(PRODUCE), &mut outputs);
        connections.close(A, &mut outputs);
        assert!(connections.start_next(A).is_none());
        assert!(!connections.is_open(A));
    }
}
