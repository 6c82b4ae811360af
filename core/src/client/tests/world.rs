//! A machine, scripted brokers and virtual time.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::broker::{Cast, Reaction};
use crate::{
    client::{Address, ClientInput, ClientMachine, ClientOutput},
    ids::{ConnectionId, NodeId},
    time::{Instant, Now, Timestamp},
};

/// One way between machine and broker takes this long.
const LATENCY_MS: u64 = 1;

enum Arrival {
    AtClient(ClientInput),
    AtBroker(ConnectionId, Bytes),
}

pub(super) struct World<M: ClientMachine> {
    pub(super) machine: M,
    pub(super) cast: Cast,
    pub(super) events: Vec<M::Event>,
    pub(super) connects: Vec<(Instant, Address)>,
    now: Instant,
    arrivals: BTreeMap<(Instant, u64), Arrival>,
    connections: BTreeMap<ConnectionId, NodeId>,
    next: u64,
}

impl<M: ClientMachine> World<M> {
    pub(super) fn new(machine: M, cast: Cast) -> Self {
        Self {
            machine,
            cast,
            events: Vec::new(),
            connects: Vec::new(),
            now: Instant::ORIGIN.plus_millis(1_000),
            arrivals: BTreeMap::new(),
            connections: BTreeMap::new(),
            next: 0,
        }
    }

    pub(super) fn now(&self) -> Now {
        let millis = i64::try_from(self.now.as_nanos() / 1_000_000).unwrap();
        Now {
            instant: self.now,
            wall: Timestamp::from_millis(1_700_000_000_000 + millis),
        }
    }

    /// Runs until nothing is left to happen before the time is over.
    pub(super) fn run_for(&mut self, millis: u64) {
        let end = self.now.plus_millis(millis);
        let mut turns = 0;
        self.take_outputs();
        loop {
            turns += 1;
            assert!(turns < 200_000, "the machine never comes to rest");
            let arrival = self.arrivals.keys().next().map(|(at, _)| *at);
            let deadline = self.machine.deadline().map(|at| at.max(self.now));
            let next = arrival.into_iter().chain(deadline).min();
            let Some(at) = next.filter(|at| *at <= end) else {
                break;
            };
            self.now = at;
            let input = match (arrival, self.arrivals.pop_first()) {
                (Some(due), Some((_, arrival))) if due == at => match arrival {
                    Arrival::AtClient(input) => Some(input),
                    Arrival::AtBroker(connection, frame) => {
                        self.at_broker(connection, &frame);
                        None
                    }
                },
                (_, other) => {
                    self.arrivals.extend(other);
                    Some(ClientInput::Timeout)
                }
            };
            if let Some(input) = input {
                let now = self.now();
                self.machine.handle(now, input);
                self.take_outputs();
            }
        }
        self.now = end;
    }

    pub(super) fn take_outputs(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                ClientOutput::Connect { connection, to } => {
                    self.connects.push((self.now, to.clone()));
                    let node = self.cast.listening(&to);
                    let input = match node {
                        Some(node) => {
                            self.connections.insert(connection, node);
                            ClientInput::Connected { connection }
                        }
                        None => ClientInput::ConnectFailed { connection },
                    };
                    self.arrive(2 * LATENCY_MS, Arrival::AtClient(input));
                }
                ClientOutput::Send { connection, frame } => {
                    assert_eq!(
                        frame.first_chunk().map(|len| u32::from_be_bytes(*len)),
                        u32::try_from(frame.len() - 4).ok(),
                        "a frame says its length"
                    );
                    let frame = frame.slice(4..);
                    self.arrive(LATENCY_MS, Arrival::AtBroker(connection, frame));
                }
                ClientOutput::Close { connection } => {
                    self.connections.remove(&connection);
                }
                ClientOutput::Event(event) => self.events.push(event),
            }
        }
    }

    /// Breaks all connections to a broker.
    pub(super) fn cut(&mut self, node: i32) {
        let gone: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, to)| to.0 == node)
            .map(|(connection, _)| *connection)
            .collect();
        for connection in gone {
            self.connections.remove(&connection);
            let input = ClientInput::Disconnected { connection };
            self.arrive(LATENCY_MS, Arrival::AtClient(input));
        }
    }

    fn at_broker(&mut self, connection: ConnectionId, frame: &Bytes) {
        let Some(node) = self.connections.get(&connection).copied() else {
            return;
        };
        let mut reactions: VecDeque<Reaction> = self.cast.react(node, frame);
        while let Some(reaction) = reactions.pop_front() {
            let (after, input) = match reaction {
                Reaction::Answer { after_ms, bytes } => {
                    (after_ms, ClientInput::Frame { connection, bytes })
                }
                Reaction::Hangup => {
                    self.connections.remove(&connection);
                    (0, ClientInput::Disconnected { connection })
                }
            };
            self.arrive(LATENCY_MS + after, Arrival::AtClient(input));
        }
    }

    fn arrive(&mut self, after_ms: u64, arrival: Arrival) {
        self.next += 1;
        let at = self.now.plus_millis(after_ms);
        self.arrivals.insert((at, self.next), arrival);
    }
}
