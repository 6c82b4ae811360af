//! Three brokers, a network that delays, drops, doubles and reorders, crashes and power losses, and a clock: all drawn from a
//! seed, all checked after every step.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ids::{NodeId, Offset},
    log::tests::disk::{Disk, Draw, Keep},
    planted::PlantedSet,
    protocol::ErrorCode,
    replication::{
        Acks, AlterPartitionAsk, FetchAnswer, FetchAsk, FlushRule, OffsetAsk, PartitionAltered,
        PartitionState,
    },
    time::Instant,
};

use super::{
    check::Checks,
    model::Controller,
    node::{self, Birth, Broker, Marks, Out, Peer},
};

pub(super) const REPLICAS: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];
pub(super) const MIN_ISR: usize = 2;
/// How long a run is troubled.
const FAULTS_MS: u64 = 6_000;
/// How long it then has to come to rest.
const REST_MS: u64 = 9_000;
/// How long a sender waits for an answer.
const TIMEOUT_MS: u64 = 900;

/// One run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) seed: u64,
    pub(super) rule: FlushRule,
    pub(super) planted: PlantedSet,
    /// Leadership moves all the time, and little else happens.
    pub(super) is_restless: bool,
}

pub(super) struct Node {
    pub(super) disk: Disk,
    pub(super) marks: Marks,
    pub(super) broker: Option<Broker>,
    incarnation: u64,
    wake: Option<Instant>,
}

#[derive(Clone, Debug)]
enum Message {
    Fetch(Peer, FetchAsk),
    Fetched(NodeId, u64, FetchAnswer),
    Offset(Peer, OffsetAsk),
    LeaderOffset(NodeId, u64, Result<Offset, ErrorCode>),
    Alter(Peer, AlterPartitionAsk),
    Altered(u64, Result<Vec<PartitionAltered>, ErrorCode>),
}

#[derive(Clone, Debug)]
enum Event {
    /// To a node, in one incarnation or in whichever lives.
    Deliver(NodeId, Option<u64>, Box<Message>),
    ToController(Box<Message>),
    Storage(NodeId, u64),
    Wake(NodeId, u64),
    Metadata(NodeId, u64),
    FetchTimeout(NodeId, u64, NodeId, u64),
    AlterTimeout(NodeId, u64, u64),
    Cut(NodeId, u64),
    Started(NodeId, u64),
    Boot(NodeId),
    Tick,
    Produce,
    Fault,
}

pub(super) struct Cluster {
    pub(super) setup: Setup,
    pub(super) now: u64,
    pub(super) nodes: BTreeMap<NodeId, Node>,
    pub(super) controller: Controller,
    pub(super) checks: Checks,
    pub(super) acknowledged: u64,
    pub(super) counts: BTreeMap<&'static str, u64>,
    draw: Draw,
    events: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    cuts: BTreeSet<(NodeId, NodeId)>,
    request: u64,
}

impl Cluster {
    pub(super) fn new(setup: Setup) -> Self {
        let nodes = REPLICAS.into_iter().map(|id| {
            let node = Node {
                disk: Disk::new(),
                marks: Marks::default(),
                broker: None,
                incarnation: 0,
                wake: None,
            };
            (id, node)
        });
        let mut cluster = Self {
            setup,
            now: 1,
            nodes: nodes.collect(),
            controller: Controller::new(&REPLICAS, MIN_ISR),
            checks: Checks::new(setup.rule),
            acknowledged: 0,
            counts: BTreeMap::new(),
            draw: Draw((setup.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1) | 1),
            events: BTreeMap::new(),
            sequence: 0,
            cuts: BTreeSet::new(),
            request: 0,
        };
        for id in REPLICAS {
            cluster.boot(id);
        }
        cluster.at(100, Event::Tick);
        cluster.at(200, Event::Produce);
        cluster.at(500, Event::Fault);
        cluster
    }

    /// Runs through trouble and rest; says what was violated, if anything was.
    pub(super) fn run(&mut self) -> Result<(), String> {
        while let Some(((at, _), event)) = self.events.pop_first() {
            if at > FAULTS_MS + REST_MS {
                break;
            }
            if self.now < FAULTS_MS && at >= FAULTS_MS {
                self.heal();
            }
            self.now = at;
            self.handle(event);
            if let Err(what) = Checks::check(self) {
                let (seed, now) = (self.setup.seed, self.now);
                return Err(format!(
                    "{seed} at {now} ms: {what}
{}",
                    self.trail()
                ));
            }
        }
        Checks::at_rest(self).map_err(|what| {
            format!(
                "{} at rest: {what}
{}",
                self.setup.seed,
                self.trail()
            )
        })
    }

    fn trail(&self) -> String {
        let brokers = self.nodes.values().filter_map(|node| node.broker.as_ref());
        let lines: Vec<&str> = brokers
            .flat_map(|broker| broker.trail.iter().map(String::as_str))
            .collect();
        lines.join("\n")
    }

    const fn is_troubled(&self) -> bool {
        self.now < FAULTS_MS
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn at(&mut self, delay: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + delay, self.sequence), event);
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.draw.below(100) < percent
    }

    fn heal(&mut self) {
        self.cuts.clear();
        for id in REPLICAS {
            if self.nodes[&id].broker.is_none() {
                self.at(50, Event::Boot(id));
            }
        }
    }

    fn boot(&mut self, id: NodeId) {
        if self.nodes[&id].broker.is_some() {
            return;
        }
        let (epoch, applied) = self.controller.register(id, self.now);
        let node = self.nodes.get_mut(&id).unwrap();
        node.incarnation += 1;
        node.wake = None;
        let birth = Birth {
            id,
            incarnation: node.incarnation,
            epoch,
            applied,
            rule: self.setup.rule,
            planted: self.setup.planted,
            marks: node.marks,
        };
        let mut broker = Broker::new(&birth, &self.controller.log, self.controller.replicas());
        broker.open(self.now, &node.disk, node.marks.high_watermark);
        let incarnation = node.incarnation;
        node.broker = Some(broker);
        self.settle(id);
        self.at(5, Event::Metadata(id, incarnation));
    }

    /// Runs a step of a living broker and sends what it has to send.
    fn with(
        &mut self,
        id: NodeId,
        incarnation: Option<u64>,
        step: impl FnOnce(&mut Broker, &mut Disk, u64),
    ) {
        let now = self.now;
        let node = self.nodes.get_mut(&id).unwrap();
        if let Some(broker) = &mut node.broker
            && incarnation.is_none_or(|incarnation| incarnation == broker.incarnation)
        {
            step(broker, &mut node.disk, now);
            self.settle(id);
        }
    }

    fn settle(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(&id).unwrap();
        let Some(broker) = &mut node.broker else {
            return;
        };
        let out = std::mem::take(&mut broker.out);
        let peer = Peer {
            node: id,
            incarnation: broker.incarnation,
            broker_epoch: broker.epoch,
        };
        let deadline = broker.deadline();
        let partition = broker.partition();
        if partition.state() == PartitionState::Open && partition.log().is_open() {
            // The checkpoint of log starts is written before anything is deleted, but after a log has begun anew.
            if !broker.keeps_start {
                node.marks.log_start = partition.log_start_mark();
            }
            node.marks.synced = partition.synced_mark();
        }
        if let Some(deadline) = deadline
            && node
                .wake
                .is_none_or(|wake| deadline < wake || wake <= node::now(self.now).instant)
        {
            node.wake = Some(deadline);
            let ms = (deadline.as_nanos().div_ceil(1_000_000)).max(self.now + 1);
            self.at(ms - self.now, Event::Wake(id, peer.incarnation));
        }
        for out in out {
            self.emit(peer, out);
        }
    }

    fn emit(&mut self, peer: Peer, out: Out) {
        let (id, incarnation) = (peer.node, peer.incarnation);
        match out {
            Out::Fetch(leader, ask) => {
                let timeout = Event::FetchTimeout(id, incarnation, leader, ask.number);
                self.at(TIMEOUT_MS, timeout);
                self.send(id, leader, None, Message::Fetch(peer, ask));
            }
            Out::Offset(leader, ask) => {
                let lost = Err(ErrorCode::RequestTimedOut);
                let timeout = Box::new(Message::LeaderOffset(leader, ask.number, lost));
                self.at(TIMEOUT_MS, Event::Deliver(id, Some(incarnation), timeout));
                self.send(id, leader, None, Message::Offset(peer, ask));
            }
            Out::Fetched(to, number, answer) => {
                let message = Message::Fetched(id, number, answer);
                self.send(id, to.node, Some(to.incarnation), message);
            }
            Out::Alter(ask) => {
                self.count("alter");
                self.at(TIMEOUT_MS, Event::AlterTimeout(id, incarnation, ask.number));
                let delay = self.delay();
                if !self.is_lost() {
                    self.at(
                        delay,
                        Event::ToController(Box::new(Message::Alter(peer, ask))),
                    );
                }
            }
            Out::Lower => {
                self.count("cut");
                self.at(3, Event::Cut(id, incarnation));
            }
            Out::KeepStart => self.at(4, Event::Started(id, incarnation)),
            Out::Acknowledged(token, result) => {
                if result.is_ok() {
                    self.acknowledged += 1;
                }
                self.checks.acknowledged(id, token.request, result.ok());
            }
            Out::Moved => self.checks.touch(),
            Out::Storage { is_sync } => {
                let delay = self.draw.below(if is_sync { 9 } else { 2 });
                self.at(delay, Event::Storage(id, incarnation));
            }
        }
    }

    fn is_lost(&mut self) -> bool {
        self.is_troubled() && self.chance(4)
    }

    fn delay(&mut self) -> u64 {
        if self.is_troubled() && self.chance(3) {
            return 50 + self.draw.below(1_500);
        }
        1 + self.draw.below(8)
    }

    fn send(&mut self, from: NodeId, to: NodeId, incarnation: Option<u64>, message: Message) {
        if self.cuts.contains(&(from, to)) || self.is_lost() {
            return;
        }
        let copies = if self.is_troubled() && self.chance(4) {
            2
        } else {
            1
        };
        for _ in 0..copies {
            let delay = self.delay();
            self.at(
                delay,
                Event::Deliver(to, incarnation, Box::new(message.clone())),
            );
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Deliver(to, incarnation, message) => self.deliver(to, incarnation, *message),
            Event::ToController(message) => {
                if let Message::Alter(peer, ask) = *message {
                    self.checks.touch();
                    let answer = self.controller.alter(peer.node, peer.broker_epoch, &ask);
                    let message = Message::Altered(ask.number, answer);
                    let delay = self.delay();
                    if !self.is_lost() {
                        let to = Some(peer.incarnation);
                        self.at(delay, Event::Deliver(peer.node, to, Box::new(message)));
                    }
                }
            }
            Event::Storage(id, incarnation) => {
                let choice = self.draw.next();
                self.with(id, Some(incarnation), |broker, disk, now| {
                    broker.storage_step(now, disk, choice);
                });
            }
            Event::Wake(id, incarnation) => {
                let node = self.nodes.get_mut(&id).unwrap();
                if node.incarnation == incarnation {
                    node.wake = None;
                }
                self.with(id, Some(incarnation), |broker, disk, now| {
                    broker.on_timeout(now, disk);
                });
            }
            Event::Metadata(id, incarnation) => self.metadata(id, incarnation),
            Event::FetchTimeout(id, incarnation, leader, number) => {
                self.with(id, Some(incarnation), |broker, disk, now| {
                    broker.on_fetch_failed(now, disk, leader, number);
                });
            }
            Event::AlterTimeout(id, incarnation, number) => {
                self.with(id, Some(incarnation), |broker, disk, now| {
                    broker.on_alter_failed(now, disk, number);
                });
            }
            Event::Cut(id, incarnation) => {
                let node = self.nodes.get_mut(&id).unwrap();
                if let Some(broker) = &node.broker
                    && broker.incarnation == incarnation
                {
                    let point = broker.partition().recovery_point();
                    node.marks.recovery_point = node.marks.recovery_point.min(point);
                    node.marks.synced = broker.partition().synced_mark();
                }
                self.with(id, Some(incarnation), |broker, disk, now| {
                    broker.cut(now, disk)
                });
            }
            Event::Started(id, incarnation) => {
                let node = self.nodes.get_mut(&id).unwrap();
                if let Some(broker) = &node.broker
                    && broker.incarnation == incarnation
                {
                    node.marks.log_start = broker.partition().log_start_mark();
                }
                self.with(id, Some(incarnation), |broker, disk, now| {
                    broker.start_is_durable(now, disk);
                });
            }
            Event::Boot(id) => self.boot(id),
            Event::Tick => self.tick(),
            Event::Produce => self.produce(),
            Event::Fault => self.fault(),
        }
    }

    fn deliver(&mut self, to: NodeId, incarnation: Option<u64>, message: Message) {
        if let Message::Offset(peer, ask) = &message {
            let Some(broker) = &self.nodes[&to].broker else {
                return;
            };
            let answer = broker.on_offset(ask);
            let reply = Message::LeaderOffset(to, ask.number, answer);
            let delay = self.delay();
            let to = Some(peer.incarnation);
            return self.at(delay, Event::Deliver(peer.node, to, Box::new(reply)));
        }
        self.with(to, incarnation, |broker, disk, now| match message {
            Message::Fetch(peer, ask) => broker.on_fetch(now, disk, peer, &ask),
            Message::Fetched(leader, number, answer) => {
                broker.on_fetched(now, disk, leader, number, answer);
            }
            Message::LeaderOffset(leader, number, answer) => {
                broker.on_leader_offset(now, disk, leader, number, answer);
            }
            Message::Altered(number, answer) => {
                broker.on_altered(now, disk, number, answer.as_deref().map_err(|code| *code));
            }
            Message::Alter(..) | Message::Offset(..) => {}
        });
    }

    fn metadata(&mut self, id: NodeId, incarnation: u64) {
        let log = &self.controller.log;
        let node = self.nodes.get_mut(&id).unwrap();
        let Some(broker) = &mut node.broker else {
            return;
        };
        if broker.incarnation != incarnation {
            return;
        }
        if let Some(record) = log.get(broker.applied).cloned() {
            self.checks.touch();
            let now = self.now;
            broker.apply(now, &node.disk, &record);
            self.settle(id);
        }
        let delay = if self.is_troubled() && self.chance(4) {
            100 + self.draw.below(600)
        } else {
            2 + self.draw.below(15)
        };
        self.at(delay, Event::Metadata(id, incarnation));
    }

    /// Heartbeats, sessions, checkpoints.
    fn tick(&mut self) {
        for id in REPLICAS {
            let is_cut = self.cuts.contains(&(id, NodeId(0)));
            let checkpoints = self.chance(30);
            let node = self.nodes.get_mut(&id).unwrap();
            let Some(broker) = &node.broker else { continue };
            if !is_cut {
                self.controller
                    .heartbeat(id, broker.epoch, broker.applied, self.now);
            }
            let partition = broker.partition();
            if checkpoints && partition.state() == PartitionState::Open && partition.log().is_open()
            {
                node.marks.recovery_point = partition.recovery_point();
                node.marks.high_watermark = partition.high_watermark_mark();
            }
        }
        self.controller.check_sessions(self.now);
        self.checks.touch();
        self.at(100, Event::Tick);
    }

    fn produce(&mut self) {
        if self.now < FAULTS_MS + REST_MS / 2 {
            let at = self.draw.below(3);
            let id = REPLICAS[usize::try_from(at).unwrap()];
            let acks = if self.chance(80) {
                Acks::All
            } else {
                Acks::Leader
            };
            self.request += 1;
            let request = self.request;
            self.checks.sent(request, acks);
            self.with(id, None, |broker, disk, now| {
                broker.produce(now, disk, acks, request);
            });
            let delay = 2 + self.draw.below(if self.is_troubled() { 40 } else { 150 });
            self.at(delay, Event::Produce);
        }
    }

    fn fault(&mut self) {
        if !self.is_troubled() {
            return;
        }
        if self.setup.is_restless && self.chance(90) {
            let choice = self.draw.below(8);
            self.controller.transfer(choice);
            let delay = 10 + self.draw.below(120);
            return self.at(delay, Event::Fault);
        }
        let id = REPLICAS[usize::try_from(self.draw.below(3)).unwrap()];
        let other = REPLICAS[usize::try_from(self.draw.below(3)).unwrap()];
        match self.draw.below(10) {
            0 | 1 => self.crash(id),
            2 => {
                self.crash(id);
                self.crash(other);
            }
            3 => {
                let choice = self.draw.below(8);
                self.controller.transfer(choice);
                self.count("transfer");
            }
            4 | 5 => {
                self.cuts.insert((id, other));
                if self.chance(50) {
                    self.cuts.insert((other, id));
                }
                self.count("partition");
            }
            6 => {
                self.cuts.insert((id, NodeId(0)));
                self.count("control cut");
            }
            7 => self.delete_records(id),
            _ => self.cuts.clear(),
        }
        let delay = 60 + self.draw.below(700);
        self.at(delay, Event::Fault);
    }

    fn delete_records(&mut self, id: NodeId) {
        let Some(broker) = &self.nodes[&id].broker else {
            return;
        };
        let partition = broker.partition();
        let (start, end) = (partition.log().start(), partition.high_watermark());
        if partition.leadership().is_none() || end <= start {
            return;
        }
        let span = u64::try_from(end - start).unwrap();
        let offset = start + i64::try_from(self.draw.below(span + 1)).unwrap();
        self.count("delete records");
        self.checks.deleted_before(offset);
        self.with(id, None, |broker, disk, now| {
            broker.delete_before(now, disk, offset)
        });
    }

    fn crash(&mut self, id: NodeId) {
        let loses_power = self.setup.rule == FlushRule::Durable && self.chance(60);
        let seed = self.draw.next();
        let keep = match (loses_power, self.chance(50)) {
            (false, _) => Keep::All,
            (true, true) => Keep::None,
            (true, false) => Keep::Some(seed),
        };
        let node = self.nodes.get_mut(&id).unwrap();
        if node.broker.take().is_none() {
            return;
        }
        node.disk.crash(keep);
        self.checks.touch();
        self.count(if loses_power { "power loss" } else { "kill" });
        let delay = 20 + self.draw.below(1_500);
        self.at(delay, Event::Boot(id));
    }
}
