//! A quorum of replicas on disks that can fail, behind a network that loses, delays, repeats and reorders, under one clock and one
//! seed.

mod elections;
mod ghost;
#[cfg(feature = "planted-bugs")]
mod mutants;
mod node;
mod replication;
mod snapshots;
mod swarm;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::{
    ids::{Epoch, NodeId},
    planted::PlantedSet,
    raft::{CallId, LinkLost, PeerReply, PeerRequest, RaftConfig, ReplyBody, Voter, VoterSet},
};

use super::{disk::Dice, host::check};
use ghost::Ghost;
use node::{Live, Moment, Node, Outcome};

/// What happens to messages.
#[derive(Clone, Debug)]
struct Net {
    /// One in how many messages is lost; 0 for none.
    lose: usize,
    /// One in how many is delivered twice.
    repeat: usize,
    delay_us: usize,
    /// One in how many takes very long.
    stray: usize,
    /// One in how many voters loses its power right after it was asked for its vote, and is back at once.
    strike: usize,
    /// Directions in which nothing gets through.
    cut: BTreeSet<(NodeId, NodeId)>,
}

#[derive(Clone, Debug)]
enum Message {
    Request(NodeId, NodeId, CallId, PeerRequest),
    Reply(NodeId, NodeId, CallId, Result<PeerReply, LinkLost>),
}

/// How an incarnation ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Kill,
    Power,
    TotalPower,
}

/// The whole.
#[derive(Debug)]
struct Quorum {
    nodes: Vec<Node>,
    voters: usize,
    net: Net,
    messages: BTreeMap<(u64, u64), Message>,
    sent: u64,
    now_us: u64,
    dice: Dice,
    planted: PlantedSet,
    ghost: Ghost,
    appended: u32,
}

fn settings(voters: usize) -> RaftConfig {
    let set = VoterSet::new((1..=voters).map(|id| Voter {
        id: NodeId(i32::try_from(id).unwrap()),
        directory: None,
        endpoints: vec![],
    }));
    RaftConfig {
        cluster_id: None,
        ..RaftConfig::new(String::new(), check, set)
    }
}

impl Quorum {
    /// Makes a quorum of voters and observers that have not started.
    fn new(seed: u64, voters: usize, observers: usize) -> Self {
        let config = settings(voters);
        let nodes = (1..=voters + observers)
            .map(|id| Node::new(i32::try_from(id).unwrap(), config.clone(), seed))
            .collect();
        Self {
            nodes,
            voters,
            net: Net {
                lose: 0,
                repeat: 0,
                delay_us: 2_000,
                stray: 0,
                strike: 0,
                cut: BTreeSet::new(),
            },
            messages: BTreeMap::new(),
            sent: 0,
            now_us: 1_000_000,
            dice: Dice::new(seed + 1),
            planted: PlantedSet::NONE,
            ghost: Ghost::default(),
            appended: 0,
        }
    }

    /// Changes the settings of all.
    fn with(mut self, change: impl Fn(&mut RaftConfig)) -> Self {
        for node in &mut self.nodes {
            change(&mut node.config);
        }
        self
    }

    /// Makes a quorum, starts it and lets it found its cluster.
    fn founded(seed: u64, voters: usize, observers: usize) -> Self {
        Self::new(seed, voters, observers).found()
    }

    fn found(mut self) -> Self {
        for id in 1..=self.nodes.len() {
            self.start(id);
        }
        let leader = self.run_until(20_000, |quorum| quorum.leader().is_some());
        assert!(leader, "no leader: {:?}", self.probes());
        self
    }

    fn at(&mut self, id: usize) -> &mut Node {
        &mut self.nodes[id - 1]
    }

    fn live(&self, id: usize) -> &Live {
        self.nodes[id - 1].live.as_ref().expect("it runs")
    }

    fn is_up(&self, id: usize) -> bool {
        self.nodes[id - 1].live.is_some()
    }

    fn start(&mut self, id: usize) {
        self.act(id, Node::start);
    }

    fn end(&mut self, id: usize, end: End) {
        let node = &mut self.nodes[id - 1];
        node.live = None;
        match end {
            End::Kill => node.disk.kill(),
            End::Power => node.disk.power_loss(&mut self.dice),
            End::TotalPower => node.disk.power_loss_total(),
        }
    }

    /// Returns the replica that leads in the latest epoch, once it may append.
    fn leader(&self) -> Option<usize> {
        (1..=self.nodes.len())
            .filter(|id| self.is_up(*id) && self.live(*id).raft.is_leader())
            .max_by_key(|id| self.live(*id).raft.epoch())
    }

    /// Appends a record that is like no other.
    fn append(&mut self, id: usize) -> bool {
        self.appended += 1;
        let record = Bytes::from(format!("record {} {}", self.appended, "x".repeat(40)));
        let mut is_taken = false;
        self.act(id, |node, moment| {
            node.call(moment, |raft, cx| {
                is_taken = raft.append(cx, vec![record]).is_ok();
            })
        });
        is_taken
    }

    /// Lets a replica do something, sends what it says, and checks what must hold.
    fn act(&mut self, id: usize, act: impl FnOnce(&mut Node, &mut Moment<'_>) -> Outcome) {
        let node = &mut self.nodes[id - 1];
        let mut moment = Moment {
            now_us: self.now_us,
            dice: &mut self.dice,
            planted: self.planted,
        };
        let outcome = act(node, &mut moment);
        let key = node.key;
        for event in outcome.events {
            self.ghost.on_event(key.id, &event);
            if let Some(live) = &mut self.nodes[id - 1].live {
                live.events.push(event);
            }
        }
        for (to, call, request) in outcome.sends {
            if let PeerRequest::Vote(vote) = &request
                && !vote.is_pre_vote
            {
                self.ghost.on_vote(key, vote.epoch, key);
            }
            self.post(Message::Request(key.id, to, call, request));
        }
        for (asked, reply) in outcome.replies {
            if let (Some(vote), ReplyBody::Vote { granted: true }) = (&asked.vote, &reply.body) {
                self.ghost.on_vote(key, vote.epoch, vote.candidate);
            }
            self.post(Message::Reply(key.id, asked.from, asked.call, Ok(reply)));
        }
        self.ghost.on_step(&mut self.nodes[id - 1]);
        self.ghost.check_commit(&self.nodes, self.voters);
    }

    fn post(&mut self, message: Message) {
        let (from, to) = match &message {
            Message::Request(from, to, ..) | Message::Reply(from, to, ..) => (*from, *to),
        };
        let rolls = |dice: &mut Dice, one_in: usize| one_in > 0 && dice.roll(one_in) == 0;
        if self.net.cut.contains(&(from, to)) || rolls(&mut self.dice, self.net.lose) {
            // The sender may notice, or not.
            if let Message::Request(from, to, call, _) = message
                && self.dice.roll(2) == 0
            {
                self.put(Message::Reply(to, from, call, Err(LinkLost)));
            }
            return;
        }
        if rolls(&mut self.dice, self.net.repeat) {
            self.put(message.clone());
        }
        self.put(message);
    }

    fn put(&mut self, message: Message) {
        let mut delay = 50 + self.dice.roll(self.net.delay_us);
        if self.net.stray > 0 && self.dice.roll(self.net.stray) == 0 {
            delay += self.dice.roll(4_000_000);
        }
        self.sent += 1;
        let at = self.now_us + delay as u64;
        self.messages.insert((at, self.sent), message);
    }

    fn deliver(&mut self, message: Message) {
        let place = |id: NodeId| usize::try_from(id.0).unwrap();
        match message {
            Message::Request(from, to, call, request) => {
                if self.is_up(place(to)) {
                    let is_vote = matches!(&request, PeerRequest::Vote(vote) if !vote.is_pre_vote);
                    self.act(place(to), |node, moment| {
                        node.take_request(moment, (from, call), request)
                    });
                    if is_vote && self.net.strike > 0 && self.dice.roll(self.net.strike) == 0 {
                        self.end(place(to), End::Power);
                        self.start(place(to));
                    }
                } else {
                    self.put(Message::Reply(to, from, call, Err(LinkLost)));
                }
            }
            Message::Reply(from, to, call, reply) => self.act(place(to), |node, moment| {
                node.call(moment, |raft, cx| raft.on_peer_reply(cx, from, call, reply))
            }),
        }
    }

    /// Does what comes next, unless it lies after `until_us`.
    fn step(&mut self, until_us: u64) -> bool {
        let message = self.messages.first_key_value().map(|((at, _), _)| *at);
        let node = (1..=self.nodes.len())
            .filter_map(|id| Some((self.nodes[id - 1].next_at()?, id)))
            .min();
        let paused = |to: &NodeId| self.nodes[usize::try_from(to.0).unwrap() - 1].paused_until;
        match (message, node) {
            (Some(at), node) if at <= until_us && node.is_none_or(|(next, _)| at <= next) => {
                let (_, message) = self.messages.pop_first().expect("it is there");
                self.now_us = self.now_us.max(at);
                let (Message::Request(_, to, ..) | Message::Reply(_, to, ..)) = &message;
                let wake = paused(to);
                if wake > self.now_us {
                    self.sent += 1;
                    self.messages.insert((wake, self.sent), message);
                } else {
                    self.deliver(message);
                }
                true
            }
            (_, Some((at, id))) if at <= until_us => {
                self.now_us = self.now_us.max(at);
                self.act(id, Node::act);
                true
            }
            _ => false,
        }
    }

    fn run(&mut self, millis: u64) {
        let until_us = self.now_us + millis * 1_000;
        while self.ghost.violation.is_none() && self.step(until_us) {}
        self.now_us = self.now_us.max(until_us);
    }

    /// Runs until something holds; false when it does not within the time.
    fn run_until(&mut self, millis: u64, holds: impl Fn(&Self) -> bool) -> bool {
        let until_us = self.now_us + millis * 1_000;
        while !holds(self) {
            if self.ghost.violation.is_some() || !self.step(until_us) {
                self.now_us = self.now_us.max(until_us);
                return holds(self);
            }
        }
        true
    }

    /// Cuts a replica off, in both directions.
    fn isolate(&mut self, id: usize) {
        for other in 1..=self.nodes.len() {
            if other != id {
                self.cut(id, other);
                self.cut(other, id);
            }
        }
    }

    fn cut(&mut self, from: usize, to: usize) {
        let pair = [from, to].map(|id| self.nodes[id - 1].key.id);
        self.net.cut.insert((pair[0], pair[1]));
    }

    fn heal(&mut self) {
        self.net.cut.clear();
    }

    fn epoch(&self) -> Epoch {
        let ids = (1..=self.nodes.len()).filter(|id| self.is_up(*id));
        ids.map(|id| self.live(id).raft.epoch())
            .max()
            .unwrap_or_default()
    }

    /// Returns whether there is a leader, and everybody has committed all that it holds.
    fn is_settled(&self) -> bool {
        let Some(leader) = self.leader() else {
            return false;
        };
        let end = self.live(leader).raft.probe().log_end;
        (1..=self.nodes.len())
            .filter(|id| self.is_up(*id))
            .all(|id| {
                let probe = self.live(id).raft.probe();
                probe.high_watermark == end && probe.epoch == self.epoch()
            })
    }

    fn probes(&self) -> Vec<(usize, Option<crate::raft::RaftProbe>, Option<String>)> {
        if let Some(violation) = &self.ghost.violation {
            println!("{violation:?}");
        }
        (1..=self.nodes.len())
            .map(|id| {
                let live = self.nodes[id - 1].live.as_ref();
                let probe = live.map(|live| live.raft.probe());
                (id, probe, live.and_then(|live| live.fatal.clone()))
            })
            .collect()
    }

    /// Fails the test if anything was violated.
    fn check(&self) {
        assert_eq!(self.ghost.violation, None, "{:#?}", self.probes());
        for (id, _, fatal) in self.probes() {
            assert_eq!(fatal, None, "node {id}");
        }
    }
}
