use std::collections::{BTreeMap, VecDeque};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

const NODES: i32 = 3;

/// The other end of all connections.
#[derive(Default)]
struct World {
    dialling: Vec<ConnectionId>,
    /// What each connection has not answered yet.
    open: BTreeMap<ConnectionId, VecDeque<(i32, Bytes)>>,
    /// What is told of connections that were closed: too late.
    late: Vec<(ConnectionId, Bytes)>,
}

/// What came of each call: its body, which is echoed, and its end.
type Calls = BTreeMap<u64, (NodeId, Bytes, Option<Result<Bytes, CallError>>)>;

struct Fuzz {
    peers: Peers,
    rng: ChaCha8Rng,
    world: World,
    calls: Calls,
    now: u64,
}

impl Fuzz {
    fn below(&mut self, bound: usize) -> usize {
        let drawn = self.rng.next_u64() % u64::try_from(bound.max(1)).unwrap();
        usize::try_from(drawn).unwrap()
    }

    fn lane(&mut self) -> Lane {
        Lane::ALL[self.below(3)]
    }

    fn node(&mut self) -> NodeId {
        NodeId(i32::try_from(self.below(3)).unwrap())
    }

    fn some_open(&mut self) -> Option<ConnectionId> {
        let open: Vec<ConnectionId> = self.world.open.keys().copied().collect();
        let at = self.below(open.len());
        open.get(at).copied()
    }

    fn step(&mut self) {
        match self.below(12) {
            0..=3 => self.call(),
            4 | 5 => self.dial_ends(),
            6..=8 => self.answer(),
            9 => self.break_something(),
            10 => self.time_passes(),
            _ => self.tell_too_late(),
        }
        self.drain();
        self.check();
    }

    fn call(&mut self) {
        let id = u64::try_from(self.calls.len()).unwrap();
        let body = Bytes::from(id.to_string());
        let (node, lane) = (self.node(), self.lane());
        let call = Call {
            api_key: API.0,
            version: API.1,
            body: body.clone(),
            timeout_ms: u64::try_from(self.below(3_000)).unwrap(),
            answer_bytes_max: 64,
        };
        self.calls.insert(id, (node, body, None));
        self.peers.call(at(self.now), node, lane, CallId(id), call);
    }

    fn dial_ends(&mut self) {
        let at_most = self.world.dialling.len();
        if at_most == 0 {
            return;
        }
        let at_index = self.below(at_most);
        let connection = self.world.dialling.remove(at_index);
        if self.below(4) == 0 {
            self.peers.on_closed(at(self.now), connection);
        } else {
            self.world.open.insert(connection, VecDeque::new());
            self.peers.on_dialled(at(self.now), connection);
        }
    }

    fn answer(&mut self) {
        let Some(connection) = self.some_open() else {
            return;
        };
        let next = self
            .world
            .open
            .get_mut(&connection)
            .and_then(VecDeque::pop_front);
        if let Some((correlation_id, body)) = next {
            let frame = answer(correlation_id, &body);
            self.peers.on_frame(at(self.now), connection, &frame);
        }
    }

    fn break_something(&mut self) {
        let Some(connection) = self.some_open() else {
            return;
        };
        let kind = self.below(4);
        let unanswered = self.world.open.get_mut(&connection).unwrap();
        match kind {
            // Garbage, an answer out of turn, or a frame that nobody asked for.
            0 => {
                let mut garbage = vec![0; 1 + usize::try_from(self.now % 9).unwrap()];
                self.rng.fill_bytes(&mut garbage);
                self.peers
                    .on_frame(at(self.now), connection, &Bytes::from(garbage));
            }
            1 if unanswered.len() > 1 => {
                let (correlation_id, body) = unanswered.pop_back().unwrap();
                let frame = answer(correlation_id, &body);
                self.peers.on_frame(at(self.now), connection, &frame);
            }
            2 => {
                let (node, lane) = (self.node(), self.lane());
                let port = u16::try_from(1 + self.below(2)).unwrap();
                let address = Address::new("host", port);
                let address = (self.below(5) > 0).then_some(address);
                self.peers.set_address(at(self.now), node, lane, address);
            }
            _ => {
                let lost = self.world.open.remove(&connection).unwrap();
                let late = lost
                    .into_iter()
                    .map(|(id, body)| (connection, answer(id, &body)));
                self.world.late.extend(late);
                self.peers.on_closed(at(self.now), connection);
            }
        }
    }

    fn time_passes(&mut self) {
        self.now += u64::try_from(self.below(1_500)).unwrap();
        self.peers.on_timeout(at(self.now));
    }

    fn tell_too_late(&mut self) {
        let index = self.below(self.world.late.len());
        if let Some((connection, frame)) = self.world.late.get(index).cloned() {
            self.peers.on_frame(at(self.now), connection, &frame);
            self.peers.on_dialled(at(self.now), connection);
            self.peers.on_closed(at(self.now), connection);
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.peers.poll_output() {
            match output {
                PeerOutput::Dial { connection, .. } => self.world.dialling.push(connection),
                PeerOutput::Send { connection, frame } => {
                    let unanswered = self.world.open.get_mut(&connection);
                    unanswered
                        .expect("sent where a connection stands")
                        .push_back(read(&frame));
                }
                PeerOutput::Close { connection } => {
                    self.world.dialling.retain(|known| *known != connection);
                    let lost = self.world.open.remove(&connection).unwrap_or_default();
                    let late = lost
                        .into_iter()
                        .map(|(id, body)| (connection, answer(id, &body)));
                    self.world.late.extend(late);
                }
            }
        }
        while let Some(Answer { id, node, outcome }) = self.peers.poll_answer() {
            let (asked, body, end) = self.calls.get_mut(&id.0).expect("an answer to a call");
            assert_eq!(*asked, node);
            assert!(end.is_none(), "{id:?} is answered once");
            if let Ok(echo) = &outcome {
                assert_eq!(echo, body, "the answer to this call and to no other");
            }
            *end = Some(outcome);
        }
    }

    fn check(&self) {
        for unanswered in self.world.open.values() {
            assert!(unanswered.len() <= 5, "bounded in flight");
        }
        let open = self
            .calls
            .values()
            .filter(|(_, _, end)| end.is_none())
            .count();
        let counted: usize = (0..NODES)
            .flat_map(|node| Lane::ALL.map(|lane| self.peers.unanswered(NodeId(node), lane)))
            .sum();
        assert_eq!(open, counted, "no call is forgotten");
        // Each link has one connection at most.
        assert!(self.world.open.len() + self.world.dialling.len() <= 9);
    }
}

#[test]
fn each_call_is_answered_once_whatever_the_links_do() {
    let (mut answered, mut lost) = (0, 0);
    for seed in 0..200 {
        let mut peers = Peers::new(PeerConfig::new("node-1"), seed, 0);
        for node in 0..NODES {
            for lane in Lane::ALL {
                peers.set_address(at(0), NodeId(node), lane, Some(Address::new("host", 1)));
            }
        }
        let mut fuzz = Fuzz {
            peers,
            rng: ChaCha8Rng::seed_from_u64(seed),
            world: World::default(),
            calls: Calls::new(),
            now: 0,
        };
        for _ in 0..600 {
            fuzz.step();
        }
        // Whatever is left ends by its deadline.
        fuzz.now += 4_000;
        fuzz.peers.on_timeout(at(fuzz.now));
        fuzz.drain();
        fuzz.check();
        for (_, _, end) in fuzz.calls.values() {
            match end.as_ref().expect("every call ends") {
                Ok(_) => answered += 1,
                Err(_) => lost += 1,
            }
        }
    }
    assert!(
        answered > 4_000 && lost > 4_000,
        "{answered} answered, {lost} lost"
    );
}
