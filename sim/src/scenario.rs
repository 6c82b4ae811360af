//! A scenario: what is set up, what works on it, and what goes wrong. A run of it is a pure function of it and a seed.

use std::collections::BTreeMap;

use seedlog_core::{
    broker::{BrokerConfig, Listener, Voter},
    ids::{NodeId, TopicName, TopicPartition},
    planted::PlantedSet,
};

use crate::{
    budget::Budget,
    cluster::{Cluster, Surroundings},
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
    pub(crate) properties: BTreeMap<String, String>,
    pub(crate) topics: Vec<(TopicPlan, Rule)>,
    pub(crate) producers: Vec<Producers>,
    pub(crate) readers: usize,
    pub(crate) surroundings: Surroundings,
    pub(crate) plan: Plan,
    pub(crate) budget: Budget,
    pub(crate) safety_ms: u64,
    pub(crate) least_acknowledged: u64,
    pub(crate) patience_ms: u64,
    pub(crate) settle_ms: u64,
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
            properties: BTreeMap::new(),
            topics: Vec::new(),
            producers: Vec::new(),
            readers: 0,
            surroundings: Surroundings::default(),
            plan: Plan::default(),
            budget: Budget::single(true),
            safety_ms: 10_000,
            least_acknowledged: 0,
            patience_ms: 0,
            settle_ms: 120_000,
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
            configs: vec![("flush.messages".to_owned(), flush.to_owned())],
        };
        self.topics.push((topic, rule));
        self.budget.durable = self.topics.iter().all(|(_, rule)| *rule == Rule::Durable);
        self
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

    pub(crate) fn durable(&self) -> Vec<bool> {
        let rules = self
            .topics
            .iter()
            .flat_map(|(topic, rule)| (0..topic.partitions).map(move |_| *rule == Rule::Durable));
        rules.collect()
    }

    pub(crate) fn seats(&self, release: &Release) -> Vec<(Seat, Release)> {
        let voters: Vec<Voter> = (0..self.brokers)
            .map(|node| Voter {
                node_id: node_id(node),
                host: host_name(node),
                port: 9093,
            })
            .collect();
        let seat = |node| Seat {
            id: node_id(node),
            config: BrokerConfig {
                node_id: node_id(node),
                listeners: vec![Listener {
                    name: "PLAINTEXT".to_owned(),
                    advertised_host: host_name(node),
                    advertised_port: 9092,
                    kind: seedlog_core::protocol::Listener::Broker,
                }],
                voters: voters.clone(),
                rack: None,
                log_dirs: 1,
                properties: self.properties.clone(),
                planted: self.planted,
            },
        };
        (0..self.brokers)
            .map(|node| (seat(node), release.clone()))
            .collect()
    }

    pub(crate) fn streams(seed: u64) -> Streams {
        Streams::new(seed)
    }
}

fn node_id(node: usize) -> NodeId {
    NodeId(i32::try_from(node).unwrap_or(i32::MAX).saturating_add(1))
}

fn host_name(node: usize) -> String {
    format!("node-{node}")
}
