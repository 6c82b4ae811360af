//! Connections between nodes: those that a machine dials.

use seedlog_core::{broker::Input, ids::ConnectionId};

use super::{Cluster, Happening};
use crate::network::{End, LinkId, Parcel, Side};

impl Cluster {
    /// Makes a connection to whoever has this address among its listeners.
    pub(super) fn dial(
        &mut self,
        node: usize,
        connection: ConnectionId,
        (host, port): (&str, u16),
        frame_bytes_max: usize,
    ) {
        let now = self.engine.now();
        let Some((to, listener)) = self.who_listens(host, port) else {
            let delay = self.chance.magnitude(50_000..=2_000_000);
            let incarnation = self.hosts[node].incarnation;
            let unreachable = Happening::Unreachable {
                node,
                incarnation,
                connection,
            };
            self.engine.schedule_in(delay, unreachable);
            return;
        };
        let (from, to) = (End::Node(node), End::Node(to));
        let (link, knock) = self.network.dial(now, from, to, listener);
        self.links_of_nodes.insert(link, connection);
        let dialled = &mut self.hosts[node].dialled;
        dialled.insert(connection, (link, frame_bytes_max));
        if let Some((at, arrival)) = knock {
            self.schedule_arrival(at, arrival);
        }
    }

    fn who_listens(&self, host: &str, port: u16) -> Option<(usize, u16)> {
        self.hosts.iter().enumerate().find_map(|(node, seated)| {
            let mut listeners = seated.seat.config.listeners.iter();
            let number = listeners.position(|listener| {
                listener.advertised_host == host && listener.advertised_port == port
            })?;
            Some((node, u16::try_from(number).ok()?))
        })
    }

    pub(super) fn unreachable(&mut self, node: usize, incarnation: u64, connection: ConnectionId) {
        if self.hosts[node].incarnation == incarnation {
            self.feed(node, Input::Closed { connection });
        }
    }

    /// Takes what arrives at the end that dialled.
    pub(super) fn deliver_dialled(&mut self, node: usize, link: LinkId, parcel: Parcel) {
        let Some(connection) = self.links_of_nodes.get(&link).copied() else {
            return;
        };
        match parcel {
            Parcel::Opened => self.feed(node, Input::Dialled { connection }),
            Parcel::Frame(bytes, _) => {
                let dialled = self.hosts[node].dialled.get(&connection);
                if dialled.is_some_and(|(_, max)| bytes.len() > *max) {
                    self.hang_up(node, connection);
                    self.feed(node, Input::Closed { connection });
                } else {
                    self.feed(node, Input::Frame { connection, bytes });
                }
            }
            Parcel::Closed => {
                self.links_of_nodes.remove(&link);
                self.hosts[node].dialled.remove(&connection);
                self.feed(node, Input::Closed { connection });
            }
            Parcel::Knock(_) => {}
        }
    }

    /// A node closes a connection, whoever made it.
    pub(super) fn hang_up(&mut self, node: usize, connection: ConnectionId) {
        let now = self.engine.now();
        let Some((link, side)) = self.link_of(node, connection) else {
            return;
        };
        if side == Side::Dialer {
            self.links_of_nodes.remove(&link);
            self.hosts[node].dialled.remove(&connection);
        }
        if let Some((at, arrival)) = self.network.close(now, link, side) {
            self.schedule_arrival(at, arrival);
        }
    }

    /// Returns a node's connection as the network knows it, and which side the node is on.
    pub(super) fn link_of(&self, node: usize, connection: ConnectionId) -> Option<(LinkId, Side)> {
        if !connection.is_dialled() {
            return Some((LinkId(connection.0), Side::Acceptor));
        }
        let (link, _) = self.hosts[node].dialled.get(&connection)?;
        Some((*link, Side::Dialer))
    }

    /// The process is gone, and with it what it knew of its connections.
    pub(super) fn forget_dialled(&mut self, node: usize) {
        for (link, _) in std::mem::take(&mut self.hosts[node].dialled).into_values() {
            self.links_of_nodes.remove(&link);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::VecDeque, rc::Rc};

    use bytes::{BufMut as _, Bytes, BytesMut};
    use seedlog_core::{
        broker::{BrokerConfig, Listener, Output},
        event::Event,
        ids::NodeId,
        storage::Frame,
        time::{Instant, Now},
    };

    use super::*;
    use crate::{
        checker::{Jury, Phase},
        cluster::Surroundings,
        ghost::Ghost,
        history::Places,
        network::{Cut, Ends},
        node::{Node, Probe, Release, Seat},
        plan::{Fault, LinkFault, Plan, PlannedFault, Trigger},
        random::Streams,
        trace::Trace,
    };

    /// What the callers of a run have seen, in order.
    #[derive(Debug, Default)]
    struct Seen {
        answers: u64,
        lost: u64,
        refused: u64,
    }

    /// Asks the other node one number after the other over a connection of its own, and answers who asks it. It dials anew
    /// after each loss.
    #[derive(Debug)]
    struct Caller {
        outputs: VecDeque<Output>,
        other: String,
        dials: u64,
        /// The present connection, whether it is up, and the number asked last.
        current: Option<(ConnectionId, bool, u64)>,
        again: Option<Instant>,
        answer_bytes: usize,
        seen: Rc<RefCell<Seen>>,
    }

    impl Caller {
        fn dial(&mut self) {
            self.dials += 1;
            let connection = ConnectionId::dialled(self.dials);
            self.current = Some((connection, false, 0));
            self.outputs.push_back(Output::Dial {
                connection,
                host: self.other.clone(),
                port: 9092,
                frame_bytes_max: ANSWER_BYTES_MAX,
            });
        }

        fn ask(&mut self) {
            let (connection, is_up, number) = self.current.as_mut().expect("there is a connection");
            assert!(*is_up, "nothing can be sent before it is there");
            *number += 1;
            let frame = Frame::Whole(frame(&number.to_be_bytes()));
            let connection = *connection;
            self.outputs.push_back(Output::Send { connection, frame });
        }
    }

    impl Node for Caller {
        fn handle(&mut self, now: Now, input: Input) {
            match input {
                Input::Dialled { connection } => {
                    let current = self.current.as_mut().expect("it was asked for");
                    assert_eq!((current.0, current.1), (connection, false));
                    current.1 = true;
                    self.ask();
                }
                Input::Frame { connection, bytes } if connection.is_dialled() => {
                    let (current, _, number) = self.current.expect("it was asked for");
                    assert_eq!(connection, current, "nothing comes of an older connection");
                    assert_eq!(
                        &bytes[..8],
                        number.to_be_bytes(),
                        "answers keep their order"
                    );
                    self.seen.borrow_mut().answers += 1;
                    self.ask();
                }
                Input::Frame { connection, bytes } => {
                    let mut answer = bytes.to_vec();
                    answer.resize(self.answer_bytes.max(8), 0);
                    let frame = Frame::Whole(frame(&answer));
                    self.outputs.push_back(Output::Send { connection, frame });
                }
                Input::Closed { connection } if connection.is_dialled() => {
                    let (current, was_up, _) = self.current.take().expect("it was asked for");
                    assert_eq!(connection, current, "each connection ends once");
                    let mut seen = self.seen.borrow_mut();
                    seen.lost += u64::from(was_up);
                    seen.refused += u64::from(!was_up);
                    self.again = Some(now.instant.plus_millis(5));
                }
                Input::Timeout if self.again.is_some_and(|at| at <= now.instant) => {
                    self.again = None;
                    self.dial();
                }
                _ => {}
            }
        }

        fn poll_output(&mut self) -> Option<Output> {
            self.outputs.pop_front()
        }

        fn deadline(&self) -> Option<Instant> {
            self.again
        }

        fn probe(&self, _: &mut Probe) {}

        fn state_hash(&self) -> u64 {
            self.dials
        }
    }

    const ANSWER_BYTES_MAX: usize = 1000;

    fn frame(body: &[u8]) -> Bytes {
        let mut frame = BytesMut::new();
        frame.put_u32(u32::try_from(body.len()).expect("small"));
        frame.put_slice(body);
        frame.freeze()
    }

    fn name(node: i32) -> String {
        format!("node-{node}")
    }

    /// Two nodes that call each other; `elsewhere` is whom the first one calls instead.
    fn pair(
        seed: u64,
        elsewhere: Option<&str>,
        answer_bytes: usize,
    ) -> (Cluster, Rc<RefCell<Seen>>) {
        let seen = Rc::new(RefCell::new(Seen::default()));
        let elsewhere = elsewhere.map(str::to_owned);
        let shared = Rc::clone(&seen);
        let release = Release::new("caller", move |seat, _, now| {
            let own = seat.id.0;
            let mut caller = Caller {
                outputs: VecDeque::from([Output::Event(Event::Ready)]),
                other: elsewhere
                    .clone()
                    .filter(|_| own == 0)
                    .unwrap_or_else(|| name(1 - own)),
                dials: 0,
                current: None,
                again: None,
                answer_bytes,
                seen: Rc::clone(&shared),
            };
            caller.handle(now, Input::Timeout);
            caller.dial();
            Box::new(caller)
        });
        let seat = |node| Seat {
            id: NodeId(node),
            config: BrokerConfig {
                node_id: NodeId(node),
                listeners: vec![Listener {
                    name: "PLAINTEXT".to_owned(),
                    advertised_host: name(node),
                    advertised_port: 9092,
                    kind: seedlog_core::protocol::Listener::Broker,
                }],
                voters: Vec::new(),
                rack: None,
                log_dirs: 1,
                properties: std::collections::BTreeMap::default(),
                planted: seedlog_core::planted::PlantedSet::default(),
            },
        };
        let seats = vec![(seat(0), release.clone()), (seat(1), release)];
        let jury = Jury::new(Ghost::new(Places::new(Vec::new()), &[]), Vec::new());
        let surroundings = Surroundings::default();
        let streams = Streams::new(seed);
        let cluster = Cluster::new(streams, seats, &surroundings, jury, Trace::new(0));
        (cluster, seen)
    }

    fn run_ms(cluster: &mut Cluster, millis: u64) {
        let until = cluster.now().plus_millis(millis);
        cluster.run(until, |_| false);
    }

    #[test]
    fn nodes_that_call_each_other_are_answered_in_order() {
        let (mut cluster, seen) = pair(1, None, 8);
        run_ms(&mut cluster, 1000);
        let seen = seen.borrow();
        assert!(seen.answers > 1000, "{seen:?}");
        assert_eq!((seen.lost, seen.refused), (0, 0));
    }

    #[test]
    fn connections_end_with_their_process_and_are_made_anew() {
        for seed in 0..20 {
            let (mut cluster, seen) = pair(seed, None, 8);
            let faults = (1..=8).map(|time| {
                let node = usize::try_from(time % 2).expect("small");
                let fault = match time % 4 {
                    0 => Fault::Link {
                        node,
                        fault: LinkFault::Reset,
                    },
                    _ => Fault::Crash { node, down_ms: 40 },
                };
                PlannedFault {
                    when: Trigger::At(time * 100),
                    what: fault,
                }
            });
            let faults = faults.collect();
            let plan = Plan { faults };
            run_ms(&mut cluster, 20);
            cluster.enter(Phase::Safety);
            cluster.set_plan(plan);
            run_ms(&mut cluster, 1500);
            let before = seen.borrow().answers;
            assert!(seen.borrow().lost >= 4, "{:?}", seen.borrow());
            run_ms(&mut cluster, 500);
            assert!(seen.borrow().answers > before + 200, "{:?}", seen.borrow());
        }
    }

    #[test]
    fn cut_holds_up_answers_and_loses_none() {
        for seed in 0..20 {
            let (mut cluster, seen) = pair(seed, None, 8);
            run_ms(&mut cluster, 100);
            cluster.enter(Phase::Safety);
            let cut = Cut {
                from: Ends::Node(0),
                to: Ends::Node(1),
                listener: None,
            };
            let faults = vec![PlannedFault {
                when: Trigger::At(10),
                what: Fault::Cut { cut, for_ms: 500 },
            }];
            cluster.set_plan(Plan { faults });
            run_ms(&mut cluster, 100);
            let before = seen.borrow().answers;
            run_ms(&mut cluster, 400);
            assert_eq!(seen.borrow().answers, before, "seed {seed}");
            run_ms(&mut cluster, 1_500);
            let seen = seen.borrow();
            assert!(seen.answers > before + 200, "seed {seed}: {seen:?}");
            assert_eq!((seen.lost, seen.refused), (0, 0), "seed {seed}");
        }
    }

    #[test]
    fn address_of_nobody_is_told_as_closed() {
        let (mut cluster, seen) = pair(1, Some("nowhere"), 8);
        run_ms(&mut cluster, 200);
        assert!(seen.borrow().refused > 10, "{:?}", seen.borrow());
    }

    #[test]
    fn node_may_dial_itself() {
        let (mut cluster, seen) = pair(1, Some("node-0"), 8);
        run_ms(&mut cluster, 300);
        assert!(seen.borrow().answers > 300, "{:?}", seen.borrow());
        assert_eq!(seen.borrow().refused, 0);
    }

    #[test]
    fn answer_beyond_its_limit_ends_the_connection() {
        let (mut cluster, seen) = pair(1, None, ANSWER_BYTES_MAX);
        run_ms(&mut cluster, 100);
        assert!(seen.borrow().answers > 10);
        let (mut cluster, seen) = pair(1, None, ANSWER_BYTES_MAX + 1);
        run_ms(&mut cluster, 100);
        assert_eq!(seen.borrow().answers, 0);
        assert!(seen.borrow().lost > 3, "{:?}", seen.borrow());
    }

    #[test]
    fn run_of_nodes_that_call_each_other_is_a_function_of_its_seed() {
        let digest = |seed| {
            let (mut cluster, _) = pair(seed, None, 8);
            run_ms(&mut cluster, 200);
            cluster.seal()
        };
        assert_eq!(digest(3), digest(3));
        assert_ne!(digest(3), digest(4));
    }
}
