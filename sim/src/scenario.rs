//! A scenario: what is set up, what works on it, and what goes wrong. A run of it is a pure function of it and a seed.

use std::collections::BTreeMap;

use seedlog_core::{
    broker::{BrokerConfig, Listener, Voter},
    ids::{NodeId, TopicName, TopicPartition},
    planted::PlantedSet,
    protocol::Listener as Kind,
};

use crate::{
    budget::Budget,
    cluster::{Cluster, Surroundings},
    ghost::Promise,
    history::{Acks, Places},
    node::{Release, Seat},
    plan::{Fault, Plan, PlannedFault, Trigger},
    random::Streams,
    report::Report,
    run,
    workload::{Target, TopicPlan},
};

/// Which of Kafka's settings decides when a copy counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// `flush.messages=1`: when it is flushed.
    Durable,
    /// Any other value: when it is written.
    Replicated,
}

/// Producers of one kind.
#[derive(Clone, Debug)]
pub struct Producers {
    /// How many.
    pub count: usize,
    /// How sure they want to be.
    pub acks: Acks,
    /// Records of a batch.
    pub records: (u64, u64),
    /// Bytes added to each value.
    pub padding: (u64, u64),
    /// Milliseconds between batches.
    pub pause_ms: (u64, u64),
    /// Requests under way at once.
    pub in_flight: usize,
    /// Whether they send again what is unknown.
    pub retries: bool,
}

impl Producers {
    /// Some producers of the usual kind.
    #[must_use]
    pub const fn new(count: usize, acks: Acks) -> Self {
        Self {
            count,
            acks,
            records: (1, 10),
            padding: (1, 100),
            pause_ms: (1, 100),
            in_flight: 5,
            retries: true,
        }
    }
}

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// File and name of the test, for the line that replays it.
    pub(crate) test: (String, String),
    pub(crate) brokers: usize,
    racks: Vec<String>,
    pub(crate) properties: BTreeMap<String, String>,
    /// Properties of single brokers.
    own_properties: BTreeMap<usize, BTreeMap<String, String>>,
    pub(crate) topics: Vec<(TopicPlan, Rule)>,
    pub(crate) producers: Vec<Producers>,
    pub(crate) readers: usize,
    pub(crate) follower_readers: usize,
    pub(crate) operators: usize,
    pub(crate) surroundings: Surroundings,
    pub(crate) plan: Plan,
    pub(crate) budget: Budget,
    pub(crate) safety_ms: u64,
    pub(crate) least_acknowledged: u64,
    pub(crate) patience_ms: u64,
    pub(crate) settle_ms: u64,
    /// How long a cluster of several brokers is left alone before it is judged.
    pub(crate) calm_ms: u64,
    pub(crate) drain_ms: u64,
    pub(crate) planted: PlantedSet,
}

impl Scenario {
    /// Begins a scenario for a test, named by its file and its function.
    #[must_use]
    pub fn new(file: &str, name: &str) -> Self {
        Self {
            test: (file.to_owned(), name.to_owned()),
            brokers: 1,
            racks: Vec::new(),
            properties: BTreeMap::new(),
            own_properties: BTreeMap::new(),
            topics: Vec::new(),
            producers: Vec::new(),
            readers: 0,
            follower_readers: 0,
            operators: 0,
            surroundings: Surroundings::default(),
            plan: Plan::default(),
            budget: Budget::single(true),
            safety_ms: 10_000,
            least_acknowledged: 0,
            patience_ms: 0,
            settle_ms: 120_000,
            calm_ms: 15_000,
            drain_ms: 120_000,
            planted: PlantedSet::NONE,
        }
    }

    /// Sets a property of all brokers, by Kafka's name.
    #[must_use]
    pub fn property(mut self, name: &str, value: &str) -> Self {
        self.properties.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Sets a property of one broker, by Kafka's name.
    #[must_use]
    pub fn property_of(mut self, node: usize, name: &str, value: &str) -> Self {
        let own = self.own_properties.entry(node).or_default();
        own.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Sets up so many brokers; each is a voter of the controller quorum too.
    ///
    /// # Panics
    ///
    /// Panics without a broker.
    #[must_use]
    pub fn brokers(mut self, count: usize) -> Self {
        assert!(count > 0, "a cluster has a broker");
        self.brokers = count;
        self
    }

    /// Puts brokers into racks, one after the other and over again (`broker.rack`).
    #[must_use]
    pub fn racks(mut self, racks: &[&str]) -> Self {
        self.racks = racks.iter().map(|rack| (*rack).to_owned()).collect();
        self
    }

    /// Keeps so many copies of the topic added last, and commits what at least `min_isr` of them have
    /// (`min.insync.replicas`).
    ///
    /// # Panics
    ///
    /// Panics if there is no topic yet.
    #[must_use]
    pub fn replication(mut self, factor: u8, min_isr: u8) -> Self {
        let (topic, _) = self.topics.last_mut().expect("a topic to replicate");
        topic.replication_factor = i16::from(factor);
        topic.min_isr = usize::from(min_isr.clamp(1, factor.max(1)));
        let value = min_isr.to_string();
        topic
            .configs
            .push(("min.insync.replicas".to_owned(), value));
        self.weigh();
        self
    }

    /// Adds a topic.
    #[must_use]
    pub fn topic(mut self, name: &str, partitions: i32, rule: Rule) -> Self {
        let flush = match rule {
            Rule::Durable => "1",
            Rule::Replicated => "9223372036854775807",
        };
        let topic = TopicPlan {
            name: name.to_owned(),
            partitions,
            replication_factor: 1,
            min_isr: 1,
            configs: vec![("flush.messages".to_owned(), flush.to_owned())],
        };
        self.topics.push((topic, rule));
        self.weigh();
        self
    }

    /// What is promised is what the weakest topic promises.
    fn weigh(&mut self) {
        let topics = self.topics.iter();
        self.budget.durable = topics.clone().all(|(_, rule)| *rule == Rule::Durable);
        let factors = topics
            .clone()
            .map(|(topic, _)| usize::try_from(topic.replication_factor).unwrap_or(1));
        self.budget.replication_factor = factors.min().unwrap_or(1);
        self.budget.min_isr = topics.map(|(topic, _)| topic.min_isr).min().unwrap_or(1);
    }

    /// Configures the topic added last, by Kafka's name.
    ///
    /// # Panics
    ///
    /// Panics if there is no topic yet.
    #[must_use]
    pub fn config(mut self, name: &str, value: &str) -> Self {
        let (topic, _) = self.topics.last_mut().expect("a topic to configure");
        topic.configs.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds producers that write to all partitions.
    #[must_use]
    pub fn producers(mut self, producers: Producers) -> Self {
        self.producers.push(producers);
        self
    }

    /// Adds readers of all partitions.
    #[must_use]
    pub const fn readers(mut self, count: usize) -> Self {
        self.readers += count;
        self
    }

    /// Adds readers that read from the replica in their own rack, if there is one (KIP-392).
    #[must_use]
    pub const fn follower_readers(mut self, count: usize) -> Self {
        self.follower_readers += count;
        self
    }

    /// Adds operators, who have preferred leaders elected and change harmless settings.
    #[must_use]
    pub const fn operators(mut self, count: usize) -> Self {
        self.operators += count;
        self
    }

    /// Lets clients work, and faults happen, for so long.
    #[must_use]
    pub const fn lasting_ms(mut self, millis: u64) -> Self {
        self.safety_ms = millis;
        self
    }

    /// Lets clients go on, if fewer writes were acknowledged by then, until so many were, but no longer than `patience_ms`.
    #[must_use]
    pub const fn at_least_acknowledged(mut self, writes: u64, patience_ms: u64) -> Self {
        self.least_acknowledged = writes;
        self.patience_ms = patience_ms;
        self
    }

    /// Adds a fault at a time, in milliseconds.
    #[must_use]
    pub fn fault_at(self, at_ms: u64, fault: Fault) -> Self {
        self.fault(Trigger::At(at_ms), fault)
    }

    /// Adds a fault.
    #[must_use]
    pub fn fault(mut self, when: Trigger, what: Fault) -> Self {
        self.plan.faults.push(PlannedFault { when, what });
        self
    }

    /// Takes a whole plan instead of the faults so far.
    #[must_use]
    pub fn plan(mut self, plan: Plan) -> Self {
        self.plan = plan;
        self
    }

    /// Lets faults go beyond what is promised to be survived.
    #[must_use]
    pub const fn beyond_budget(mut self) -> Self {
        self.budget.beyond = true;
        self
    }

    /// Sets delays of network and disks.
    #[must_use]
    pub fn surroundings(mut self, surroundings: Surroundings) -> Self {
        self.surroundings = surroundings;
        self
    }

    /// Plants historical bugs, to see that the checkers find them.
    #[must_use]
    pub const fn planted(mut self, planted: PlantedSet) -> Self {
        self.planted = planted;
        self
    }

    /// Runs it.
    #[must_use]
    pub fn run(&self, seed: u64, release: &Release) -> Report {
        run::run(self, seed, release, &run::Watch::default())
    }

    /// Runs it, watched in a certain way.
    #[must_use]
    pub fn run_watched(&self, seed: u64, release: &Release, watch: &run::Watch) -> Report {
        run::run(self, seed, release, watch)
    }

    /// Makes its cluster, to be driven by hand: nodes start, topics are made, clients and faults are the caller's.
    ///
    /// # Panics
    ///
    /// Panics if the cluster does not become ready.
    #[must_use]
    pub fn cluster(&self, seed: u64, release: &Release) -> Cluster {
        run::stand(self, seed, release)
    }

    /// Returns the partitions, as clients name them.
    #[must_use]
    pub fn targets(&self) -> Vec<Target> {
        let places = self.places();
        let target = |place| {
            let partition = places.partition(place);
            Target {
                place,
                topic: partition.topic.as_str().to_owned(),
                partition: partition.partition,
            }
        };
        places.all().map(target).collect()
    }

    /// Returns the fault plan.
    #[must_use]
    pub const fn planned(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn places(&self) -> Places {
        let partitions = self.topics.iter().flat_map(|(topic, _)| {
            let name = TopicName::new(&topic.name);
            (0..topic.partitions).map(move |partition| TopicPartition {
                topic: name.clone(),
                partition,
            })
        });
        Places::new(partitions.collect())
    }

    pub(crate) fn promises(&self) -> Vec<Promise> {
        let of_topic = |(topic, rule): &(TopicPlan, Rule)| {
            let promise = Promise {
                durable: *rule == Rule::Durable,
                copies: usize::try_from(topic.replication_factor).unwrap_or(1),
                min_isr: topic.min_isr,
                unclean: topic.configs.iter().any(|(name, value)| {
                    name == "unclean.leader.election.enable" && value == "true"
                }),
            };
            (0..topic.partitions).map(move |_| promise)
        };
        self.topics.iter().flat_map(of_topic).collect()
    }

    /// Returns the rack of a broker, or of the reader of the same number.
    pub(crate) fn rack(&self, number: usize) -> Option<String> {
        let count = self.racks.len().max(1);
        self.racks.get(number % count).cloned()
    }

    pub(crate) fn seats(&self, release: &Release) -> Vec<(Seat, Release)> {
        let voters: Vec<Voter> = (0..self.brokers)
            .map(|node| Voter {
                node_id: node_id(node),
                host: host_name(node),
                port: CONTROLLER_PORT,
            })
            .collect();
        let seat = |node| Seat {
            id: node_id(node),
            config: BrokerConfig {
                node_id: node_id(node),
                listeners: self.listeners(node),
                voters: voters.clone(),
                rack: self.rack(node),
                log_dirs: 1,
                properties: self.properties_of(node),
                planted: self.planted,
            },
        };
        (0..self.brokers)
            .map(|node| (seat(node), release.clone()))
            .collect()
    }

    fn properties_of(&self, node: usize) -> BTreeMap<String, String> {
        let mut properties = self.properties.clone();
        if let Some(own) = self.own_properties.get(&node) {
            properties.extend(own.clone());
        }
        properties
    }

    fn listeners(&self, node: usize) -> Vec<Listener> {
        let mut listeners = vec![Listener {
            name: "PLAINTEXT".to_owned(),
            advertised_host: host_name(node),
            advertised_port: 9092,
            kind: Kind::Broker,
        }];
        // A node alone talks to itself without a connection.
        if self.brokers > 1 {
            listeners.push(controller_listener(node));
        }
        listeners
    }

    pub(crate) fn streams(seed: u64) -> Streams {
        Streams::new(seed)
    }
}

/// Where the other voters are served.
fn controller_listener(node: usize) -> Listener {
    Listener {
        name: "CONTROLLER".to_owned(),
        advertised_host: host_name(node),
        advertised_port: CONTROLLER_PORT,
        kind: Kind::Controller,
    }
}

const CONTROLLER_PORT: u16 = 9093;
/// The position of the controller listener among a broker's listeners: what a cut of the control plane names.
pub const CONTROL_PLANE: u16 = 1;

fn node_id(node: usize) -> NodeId {
    NodeId(i32::try_from(node).unwrap_or(i32::MAX).saturating_add(1))
}

fn host_name(node: usize) -> String {
    format!("node-{node}")
}
