//! The cluster: nodes and clients on one event queue.
//!
//! The cluster plays the driver for every machine. It decides when things happen, never what they mean.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use seedlog_core::ids::{ConnectionId, TopicPartition};

use crate::{
    checker::{Jury, Moment, Phase, Seen},
    clock::Clock,
    disk::{Device, Latency},
    engine::Engine,
    network::{Arrival, LinkId, LinkProfile, Network},
    node::{Probe, Release, Seat},
    plan::Plan,
    random::{Stream, Streams},
    time::SimTime,
    trace::{Trace, What},
};

mod client_side;
mod host;
mod inject;
mod naming;
mod node_side;
mod peer_side;
mod tally;
mod waiting;

pub use client_side::ClientId;
pub use tally::{CONSEQUENCES, FaultTally, Tally};

use client_side::Visitor;
use host::{Door, Happening, Host, Status};
use waiting::PlanRunner;

/// How the world around the nodes is.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Delays of the network.
    pub links: LinkProfile,
    /// Delays of each node's disk.
    pub disks: Latency,
    /// Wall-clock skew of each node, milliseconds; 0 where none is given.
    pub skew_ms: Vec<i64>,
}

/// Nodes, clients, and everything between them.
#[derive(Debug)]
pub struct Cluster {
    engine: Engine<Happening>,
    network: Network,
    hosts: Vec<Host>,
    visitors: Vec<Visitor>,
    links_of_clients: BTreeMap<LinkId, (usize, crate::client::ClientLink)>,
    /// Connections that nodes dialled, by the node's own number.
    links_of_nodes: BTreeMap<LinkId, ConnectionId>,
    jury: Jury,
    trace: Trace,
    plan: PlanRunner,
    probe: Probe,
    chance: Stream,
    tally: Tally,
    phase: Phase,
    /// Checkers see every step; off only to show that they change nothing.
    watched: bool,
    sent_pending: BTreeSet<(usize, ConnectionId)>,
    /// Who said last that it leads a partition.
    led_by: BTreeMap<TopicPartition, usize>,
    /// Writes that left and are not answered.
    writes_under_way: u64,
    /// The event to describe, and its description.
    described: Option<(u64, String)>,
}

impl Cluster {
    /// Makes a cluster whose nodes start at once.
    #[must_use]
    pub fn new(
        streams: Streams,
        seats: Vec<(Seat, Release)>,
        surroundings: &Surroundings,
        jury: Jury,
        trace: Trace,
    ) -> Self {
        let hosts = seats
            .into_iter()
            .enumerate()
            .map(|(index, (seat, release))| {
                let number = u64::try_from(index).unwrap_or(u64::MAX);
                let disk = streams.numbered("disk", number);
                let skew = surroundings.skew_ms.get(index).copied().unwrap_or_default();
                Host {
                    device: Device::new(seat.config.log_dirs, surroundings.disks.clone(), disk),
                    clock: Clock::new(skew),
                    stream: streams.numbered("node", number),
                    seat,
                    release,
                    machine: None,
                    status: Status::Down,
                    incarnation: 0,
                    armed: None,
                    paused_until: None,
                    backlog: VecDeque::new(),
                    refusing: Door::default(),
                    hanging: Door::default(),
                    stopping: None,
                    returning: true,
                    spins: (SimTime::START, 0),
                    last_words: None,
                    offline: BTreeSet::new(),
                    starts: 0,
                    lies_seen: 0,
                    dialled: BTreeMap::new(),
                }
            });
        let mut cluster = Self {
            hosts: hosts.collect(),
            engine: Engine::default(),
            network: Network::new(surroundings.links.clone(), streams.stream("network")),
            chance: streams.stream("faults"),
            visitors: Vec::new(),
            links_of_clients: BTreeMap::new(),
            links_of_nodes: BTreeMap::new(),
            jury,
            trace,
            plan: PlanRunner::default(),
            probe: Probe::default(),
            tally: Tally::default(),
            phase: Phase::SetUp,
            watched: true,
            sent_pending: BTreeSet::new(),
            led_by: BTreeMap::new(),
            writes_under_way: 0,
            described: None,
        };
        for node in 0..cluster.hosts.len() {
            cluster
                .engine
                .schedule(SimTime::START, Happening::Start { node });
        }
        cluster
    }

    /// Switches the checkers off; a run is the same without them.
    pub const fn unwatch(&mut self) {
        self.watched = false;
    }

    /// Keeps the digest after each event, to compare two runs.
    pub fn keep_journal(&mut self) {
        self.engine.keep_journal();
    }

    /// Lets a plan's faults happen from now on; its times count from now.
    pub fn set_plan(&mut self, plan: Plan) {
        let at_times = self.plan.load(plan);
        for (index, at_ms) in at_times {
            let at = self.engine.now().plus_millis(at_ms);
            self.engine.schedule(at, Happening::Fault { index });
        }
    }

    /// Begins a phase.
    pub fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.engine.fold(PHASE_MARK);
        self.trace_line(|| What::Phase(phase));
        let moment = self.moment();
        self.jury.see(moment, &Seen::Phase(phase));
    }

    /// Runs until `limit`, until `done` says so, or until a checker found something.
    ///
    /// Returns whether `done` said so.
    pub fn run(&mut self, limit: SimTime, mut done: impl FnMut(&Self) -> bool) -> bool {
        let mut asked = self.engine.steps();
        loop {
            if !self.jury.findings().failed.is_empty() {
                return false;
            }
            // `done` may look at every node and client: not after each event.
            if self.engine.steps() >= asked {
                if done(self) {
                    return true;
                }
                asked = self.engine.steps() + ASK_EVERY;
            }
            let Some(happening) = self.engine.next(limit) else {
                if done(self) {
                    return true;
                }
                self.engine.advance(limit);
                return done(self);
            };
            self.happen(happening);
        }
    }

    /// Returns the present.
    #[must_use]
    pub const fn now(&self) -> SimTime {
        self.engine.now()
    }

    /// Returns how many events happened.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.engine.steps()
    }

    /// Returns what was counted so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut tally = self.tally.clone();
        for host in &self.hosts {
            tally.add_disk(host.device.tally());
        }
        tally
    }

    /// Returns how many produces were acknowledged so far.
    #[must_use]
    pub const fn acknowledged(&self) -> u64 {
        self.tally.acknowledged
    }

    /// Returns the checkers.
    #[must_use]
    pub const fn jury(&self) -> &Jury {
        &self.jury
    }

    /// Asks the checkers for their judgement of the whole run.
    pub fn judge(&mut self) {
        let moment = self.moment();
        self.jury.judge(moment);
    }

    /// Returns the last lines.
    #[must_use]
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Returns a node's disk: the truth about it.
    #[must_use]
    pub fn disk(&self, node: usize) -> &crate::disk::Disk {
        &self.hosts[node].device.disk
    }

    /// Returns how many nodes say that they cannot serve a partition.
    #[must_use]
    pub fn offline_copies(&self, partition: &TopicPartition) -> usize {
        let hosts = self.hosts.iter();
        hosts
            .filter(|host| host.offline.contains(partition))
            .count()
    }

    /// Whether all nodes serve clients.
    #[must_use]
    pub fn all_ready(&self) -> bool {
        self.hosts.iter().all(|host| host.status == Status::Ready)
    }

    /// Folds all draws, the length, the end state and the verdict into the digest of the run.
    pub fn seal(&mut self) -> u64 {
        self.engine.fold(self.network.draws());
        self.engine.fold(self.chance.digest());
        for host in &self.hosts {
            self.engine.fold(host.device.draws());
            self.engine.fold(host.stream.digest());
            let state = host
                .machine
                .as_ref()
                .map_or(0, |machine| machine.state_hash());
            self.engine.fold(state);
            for (path, id) in host.device.disk.files() {
                self.engine.fold_bytes(path.as_bytes());
                if let Some((bytes, _)) = host.device.disk.content(id) {
                    self.engine.fold_bytes(bytes);
                }
            }
        }
        self.engine.fold(self.engine.steps());
        self.engine.digest()
    }

    /// Takes the digests after each event, if they were kept.
    pub fn take_journal(&mut self) -> Option<Vec<u64>> {
        self.engine.take_journal()
    }

    /// Describes an event in words, when it happens.
    pub fn describe(&mut self, step: u64) {
        self.described = Some((step, String::new()));
    }

    /// Takes the description, if one was asked for.
    pub fn take_description(&mut self) -> Option<String> {
        self.described.take().map(|(_, words)| words)
    }

    fn happen(&mut self, happening: Happening) {
        if let Some((step, words)) = &mut self.described
            && *step + 1 == self.engine.steps()
        {
            *words = format!("at {}: {happening:?}", self.engine.now());
        }
        match happening {
            Happening::NodeTimer { node } => self.node_timer(node),
            Happening::ClientTimer { client } => self.client_timer(client),
            Happening::Arrival(arrival) => self.arrive(arrival),
            Happening::Device { node, ticket } => self.device(node, ticket),
            Happening::Sent {
                node,
                incarnation,
                connection,
            } => self.sent(node, incarnation, connection),
            Happening::Unreachable {
                node,
                incarnation,
                connection,
            } => self.unreachable(node, incarnation, connection),
            Happening::CutOver => self.release_cuts(),
            Happening::Start { node } => self.start(node),
            Happening::Resume { node } => self.resume(node),
            Happening::Fault { index } => self.fire(index),
            Happening::RoomAgain { node } => self.hosts[node].device.limit_room(None),
            Happening::StopAsked { node, incarnation } => self.stop_asked(node, incarnation),
            Happening::StopTooLong { node, incarnation } => self.stop_too_long(node, incarnation),
        }
    }

    fn schedule_arrival(&mut self, at: SimTime, arrival: Arrival) {
        self.engine.schedule(at, Happening::Arrival(arrival));
    }

    const fn moment(&self) -> Moment {
        Moment {
            at: self.engine.now(),
            step: self.engine.steps(),
        }
    }

    fn trace_line(&mut self, what: impl FnOnce() -> What) {
        let (at, step) = (self.engine.now(), self.engine.steps());
        self.trace.push(at, step, what);
    }
}

const PHASE_MARK: u64 = 0x7068_6173_6500;
const ASK_EVERY: u64 = 64;
