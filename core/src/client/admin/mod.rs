//! The admin client: topics, settings, offsets, the cluster.
//!
//! A call is a set of units (a topic, a partition, a resource), each with a broker that can answer
//! for it. Units that go to the same broker travel in one request, and each is asked for again on
//! its own until it is answered or the call's time is over. It decides which errors are worth that:
//! those that say "ask elsewhere" or "ask later", never those that are an answer.

mod answer;
mod ask;
mod call;
mod describe;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use self::call::{
    AdminAnswer, AdminCall, AdminError, AdminEvent, ApiError, CallId, ConfigChange, ConfigEntry,
    ConfigResource, CreatedTopic, NewTopic,
};
pub use self::describe::{BrokerStatus, BrokersStatus, QuorumReplica, QuorumStatus};
use super::{
    ClientConfig, ClientInput, ClientMachine, ClientOutput, Cluster,
    network::{Network, Peer, Reply},
};
use crate::{
    ids::{NodeId, TopicName, TopicPartition},
    protocol::{ApiKey, ErrorCode},
    time::{Instant, Now},
};

/// What is answered on its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Whole,
    Topic(TopicName),
    Partition(TopicPartition),
    Resource(ConfigResource),
}

/// Who can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Route {
    Any,
    Controller,
    Broker(NodeId),
}

/// What a request was for.
#[derive(Debug)]
struct Asked {
    call: CallId,
    api: ApiKey,
    units: BTreeSet<Unit>,
}

/// A call that is not over.
#[derive(Debug)]
struct Open {
    call: AdminCall,
    left: BTreeSet<Unit>,
    in_flight: BTreeSet<Unit>,
    answer: AdminAnswer,
    deadline: Instant,
    not_before: Instant,
    failures: u32,
    repeats: u32,
    last_error: ErrorCode,
}

/// An admin client.
#[derive(Debug)]
pub struct Admin {
    network: Network<Asked>,
    timeout_ms: u64,
    calls: BTreeMap<CallId, Open>,
    events: VecDeque<AdminEvent>,
    next_call: u64,
    kicked: bool,
    now: Instant,
}

impl Admin {
    /// Kafka's `default.api.timeout.ms`.
    pub const DEFAULT_API_TIMEOUT_MS: u64 = 60_000;

    /// Makes an admin client whose calls are over after `timeout_ms`.
    #[must_use]
    pub fn new(mut client: ClientConfig, timeout_ms: u64) -> Self {
        client.allow_auto_create_topics = false;
        Self {
            network: Network::new(client),
            timeout_ms,
            calls: BTreeMap::new(),
            events: VecDeque::new(),
            next_call: 0,
            kicked: false,
            now: Instant::ORIGIN,
        }
    }

    /// Begins a call; its end comes as an event.
    pub fn call(&mut self, now: Now, call: AdminCall) -> CallId {
        self.now = self.now.max(now.instant);
        self.next_call += 1;
        let id = CallId(self.next_call);
        let left = units(&call);
        for unit in &left {
            if let Unit::Partition(partition) = unit {
                self.network.refresh.want(&partition.topic);
            }
        }
        let open = Open {
            answer: empty_answer(&call),
            call,
            left,
            in_flight: BTreeSet::new(),
            deadline: self.now.plus_millis(self.timeout_ms),
            not_before: Instant::ORIGIN,
            failures: 0,
            repeats: 0,
            last_error: ErrorCode::None,
        };
        self.calls.insert(id, open);
        self.kicked = true;
        id
    }

    /// Returns what is known of the cluster from calls that needed it.
    #[must_use]
    pub const fn cluster(&self) -> &Cluster {
        &self.network.cluster
    }

    fn pump(&mut self) {
        let now = self.now;
        self.kicked = false;
        let ids: Vec<CallId> = self.calls.keys().copied().collect();
        for id in ids {
            self.advance(now, id);
        }
        self.network.pump(now);
    }

    fn advance(&mut self, now: Instant, id: CallId) {
        let Some(open) = self.calls.get(&id) else {
            return;
        };
        if open.left.is_empty() && open.in_flight.is_empty() {
            self.finish(id, None);
            return;
        }
        if now >= open.deadline {
            self.finish(id, Some(AdminError::TimedOut(open.last_error)));
            return;
        }
        if now < open.not_before {
            return;
        }
        let mut by_route: BTreeMap<Route, BTreeSet<Unit>> = BTreeMap::new();
        let mut leaderless = false;
        for unit in &open.left {
            match route(&open.call, unit, &self.network.cluster, open.failures) {
                Some(route) => {
                    by_route.entry(route).or_default().insert(unit.clone());
                }
                None => leaderless = true,
            }
        }
        if leaderless {
            self.network.refresh.request();
        }
        for (route, units) in by_route {
            if let Some(peer) = self.peer(now, route) {
                self.ask(now, id, peer, units);
            }
        }
    }

    fn peer(&mut self, now: Instant, route: Route) -> Option<Peer> {
        let broker = match route {
            Route::Any => None,
            Route::Controller => self.network.cluster.controller,
            Route::Broker(id) => {
                if !self.network.cluster.brokers.contains_key(&id) {
                    self.network.refresh.request();
                    return None;
                }
                Some(id)
            }
        };
        match broker {
            Some(id) => {
                let peer = Peer::Broker(id);
                self.network.ensure(now, peer).then_some(peer)
            }
            None => self.network.any_peer(now),
        }
    }

    /// Puts units back, to be asked for after a while.
    fn again(&mut self, id: CallId, units: impl IntoIterator<Item = Unit>) {
        let Some(open) = self.calls.get_mut(&id) else {
            return;
        };
        for unit in units {
            if open.in_flight.remove(&unit) {
                open.left.insert(unit);
            }
        }
        open.failures = open.failures.saturating_add(1);
        let backoff = self.network.retry_backoff();
        let wait = backoff.wait_ms(open.failures, &mut self.network.rng);
        open.not_before = self.now.plus_millis(wait);
        self.network.refresh.request();
    }

    fn on_lost(&mut self, asked: Asked) {
        if let Some(open) = self.calls.get_mut(&asked.call) {
            open.repeats = open.repeats.saturating_add(1);
            open.last_error = ErrorCode::NetworkException;
        }
        self.again(asked.call, asked.units);
    }

    fn finish(&mut self, id: CallId, error: Option<AdminError>) {
        let Some(open) = self.calls.remove(&id) else {
            return;
        };
        for unit in units(&open.call) {
            if let Unit::Partition(partition) = unit {
                let wanted = self.calls.values().any(|other| {
                    let units = other.left.iter().chain(&other.in_flight);
                    units.into_iter().any(
                        |unit| matches!(unit, Unit::Partition(p) if p.topic == partition.topic),
                    )
                });
                if !wanted {
                    self.network.refresh.forget(&partition.topic);
                }
            }
        }
        self.events.push_back(AdminEvent {
            id,
            result: error.map_or(Ok(open.answer), Err),
            repeats: open.repeats,
        });
    }

    fn take_replies(&mut self) {
        while let Some(reply) = self.network.poll_reply() {
            match reply {
                Reply::Answer {
                    peer,
                    tag,
                    version,
                    frame,
                } => self.on_answer(peer, tag, version, &frame),
                Reply::Lost { tag, .. } => self.on_lost(tag),
            }
        }
    }
}

impl ClientMachine for Admin {
    type Event = AdminEvent;

    fn handle(&mut self, now: Now, input: ClientInput) {
        self.now = self.now.max(now.instant);
        self.network.handle(self.now, input);
        self.take_replies();
        self.pump();
        self.take_replies();
    }

    fn poll_output(&mut self) -> Option<ClientOutput<AdminEvent>> {
        self.network
            .poll_output()
            .or_else(|| self.events.pop_front().map(ClientOutput::Event))
    }

    fn deadline(&self) -> Option<Instant> {
        if self.kicked {
            return Some(self.now);
        }
        let calls = self.calls.values();
        calls
            .flat_map(|open| [open.deadline, open.not_before])
            .filter(|at| *at > self.now)
            .chain(self.network.deadline(self.now))
            .min()
    }
}

fn units(call: &AdminCall) -> BTreeSet<Unit> {
    match call {
        AdminCall::CreateTopics { topics, .. } => topics
            .iter()
            .map(|topic| Unit::Topic(topic.name.clone()))
            .collect(),
        AdminCall::DeleteTopics { topics } => topics.iter().cloned().map(Unit::Topic).collect(),
        AdminCall::CreatePartitions { totals, .. } => {
            totals.keys().cloned().map(Unit::Topic).collect()
        }
        AdminCall::DescribeConfigs { resources } => {
            resources.iter().cloned().map(Unit::Resource).collect()
        }
        AdminCall::AlterConfigs { changes, .. } => {
            changes.keys().cloned().map(Unit::Resource).collect()
        }
        AdminCall::DeleteRecords { before } => {
            before.keys().cloned().map(Unit::Partition).collect()
        }
        AdminCall::ListOffsets { specs } => specs.keys().cloned().map(Unit::Partition).collect(),
        AdminCall::DescribeTopics { .. }
        | AdminCall::DescribeCluster
        | AdminCall::DescribeBrokers
        | AdminCall::DescribeQuorum => [Unit::Whole].into(),
    }
}

fn empty_answer(call: &AdminCall) -> AdminAnswer {
    match call {
        AdminCall::CreateTopics { .. } => AdminAnswer::Created(BTreeMap::new()),
        AdminCall::DeleteTopics { .. } => AdminAnswer::Deleted(BTreeMap::new()),
        AdminCall::DescribeTopics { .. } | AdminCall::DescribeCluster => {
            AdminAnswer::Cluster(Cluster::default())
        }
        AdminCall::DescribeBrokers => AdminAnswer::Brokers(None),
        AdminCall::DescribeQuorum => AdminAnswer::Quorum(None),
        AdminCall::CreatePartitions { .. } => AdminAnswer::Grown(BTreeMap::new()),
        AdminCall::DescribeConfigs { .. } => AdminAnswer::Configs(BTreeMap::new()),
        AdminCall::AlterConfigs { .. } => AdminAnswer::Altered(BTreeMap::new()),
        AdminCall::DeleteRecords { .. } => AdminAnswer::RecordsDeleted(BTreeMap::new()),
        AdminCall::ListOffsets { .. } => AdminAnswer::Offsets(BTreeMap::new()),
    }
}

fn route(call: &AdminCall, unit: &Unit, cluster: &Cluster, failures: u32) -> Option<Route> {
    match (call, unit) {
        // The next one each time: one that is no leader and does not forward is not asked again and again.
        (AdminCall::DescribeQuorum, _) => {
            let count = cluster.brokers.len();
            let turn = usize::try_from(failures).unwrap_or_default();
            let next = turn.checked_rem(count)?;
            let mut brokers = cluster.brokers.keys();
            brokers.nth(next).copied().map(Route::Broker)
        }
        (_, Unit::Partition(partition)) => cluster.leader(partition).map(Route::Broker),
        // What a broker has set for itself only it knows.
        (_, Unit::Resource(ConfigResource::Broker(id))) => Some(Route::Broker(*id)),
        (AdminCall::AlterConfigs { .. }, _) | (_, Unit::Topic(_)) => Some(Route::Controller),
        (_, Unit::Resource(_) | Unit::Whole) => Some(Route::Any),
    }
}
