mod brokers;
mod walk;

use rand::SeedableRng;

use super::*;
use crate::{
    controller::{
        decide::{BootstrapContext, bootstrap_records},
        image::PartitionImage,
        messages::{
            BrokerHeartbeatRequestData, BrokerHeartbeatResponseData, BrokerRegistrationRequestData,
            BrokerRegistrationResponseData, CreateTopicsRequestData, DeleteTopicsRequestData,
            wire_string, wire_uuid,
        },
        records::{ELIGIBLE_LEADER_REPLICAS_VERSION, METADATA_VERSION, VoterV1},
    },
    ids::Uuid,
    protocol::messages::{
        AlterConfigsResource, AlterableConfig, BrokerFeature, CreatableReplicaAssignment,
        CreatableTopic, IncrementalAlterConfigsRequestData,
    },
};

/// A controller with a quorum of one that commits when told to.
struct Quorum {
    controller: Controller,
    now: Instant,
    log: Vec<Record>,
    /// The number of records of each batch.
    batches: Vec<usize>,
    replies: Vec<(u64, ControllerReply)>,
}

impl Quorum {
    fn new() -> Self {
        Self {
            controller: Controller::new(
                NodeId(1),
                StaticConfig::default(),
                ChaCha12Rng::seed_from_u64(7),
            ),
            now: Instant::ORIGIN,
            log: Vec::new(),
            batches: Vec::new(),
            replies: Vec::new(),
        }
    }

    /// Leads a cluster that has begun, without brokers.
    fn begun() -> Self {
        let mut quorum = Self::new();
        quorum.lead();
        let layers = crate::config::OverrideMap::new();
        let fixed = StaticConfig::default();
        let context = BootstrapContext {
            cluster_id: Uuid([3; 16]),
            voters: vec![VoterV1 {
                node_id: NodeId(1),
                directory_id: Uuid([1; 16]),
                endpoints: vec![],
            }],
            layers: crate::config::Layers::new(&fixed, &layers, &layers),
        };
        let first = bootstrap_records(quorum.controller.committed(), &context);
        quorum.controller.append_own(first);
        quorum.commit();
        quorum
    }

    /// Leads, with broker 1 registered and unfenced.
    fn ready() -> Self {
        let mut quorum = Self::begun();
        quorum.join(1, 9);
        quorum
    }

    /// Registers an incarnation of a broker and unfences it; returns its epoch.
    fn join(&mut self, id: i32, incarnation: u8) -> i64 {
        let epoch = self
            .register(&registration_of(id, incarnation))
            .broker_epoch;
        let heard = self.beat(&heartbeat_of(id, epoch, self.end()));
        assert!(!heard.is_fenced);
        epoch
    }

    fn register(
        &mut self,
        request: &BrokerRegistrationRequestData,
    ) -> BrokerRegistrationResponseData {
        self.ask(u64::MAX, ControllerRequest::RegisterBroker(request.clone()));
        self.commit();
        match self.replies.pop() {
            Some((u64::MAX, ControllerReply::RegisterBroker(reply))) => reply,
            other => panic!("{other:?}"),
        }
    }

    fn beat(&mut self, request: &BrokerHeartbeatRequestData) -> BrokerHeartbeatResponseData {
        self.ask(
            u64::MAX,
            ControllerRequest::BrokerHeartbeat(request.clone()),
        );
        self.commit();
        match self.replies.pop() {
            Some((u64::MAX, ControllerReply::BrokerHeartbeat(reply))) => reply,
            other => panic!("{other:?}"),
        }
    }

    /// Creates topic "t" with so many partitions, each on these brokers.
    fn create_on(&mut self, replicas: &[i32], partitions: i32) {
        let request = CreateTopicsRequestData {
            topics: vec![CreatableTopic {
                name: wire_string("t"),
                num_partitions: -1,
                replication_factor: -1,
                assignments: (0..partitions)
                    .map(|partition_index| CreatableReplicaAssignment {
                        partition_index,
                        broker_ids: replicas.to_vec(),
                        ..CreatableReplicaAssignment::default()
                    })
                    .collect(),
                ..CreatableTopic::default()
            }],
            ..CreateTopicsRequestData::default()
        };
        self.ask(u64::MAX, ControllerRequest::CreateTopics(request));
        self.commit();
        let reply = self.replies.pop().unwrap().1;
        assert_eq!(code(&reply), 0);
    }

    fn partition(&self, number: i32) -> &PartitionImage {
        let topic = self.controller.committed().topic("t").unwrap();
        topic.partition(number).unwrap()
    }

    /// Does one turn of what is due.
    fn turn(&mut self) -> bool {
        let is_due = self
            .controller
            .deadline()
            .is_some_and(|due| due <= self.now);
        if is_due {
            self.controller.on_timeout(self.now);
            self.drain();
        }
        is_due
    }

    /// Does all that is due.
    fn settle(&mut self) {
        while self.turn() {}
    }

    fn end(&self) -> Offset {
        Offset::try_from(self.log.len()).unwrap()
    }

    fn lead(&mut self) {
        let end = self.end();
        self.controller.become_leader(self.now, Epoch(1), end);
    }

    fn ask(&mut self, ticket: u64, request: ControllerRequest) {
        self.ask_only(ticket, request);
        self.settle();
    }

    /// Asks, and leaves it at the one turn that this takes.
    fn ask_only(&mut self, ticket: u64, request: ControllerRequest) {
        self.controller.handle(self.now, Ticket(ticket), request);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.controller.poll_output() {
            match output {
                ControllerOutput::Append {
                    base_offset,
                    records,
                    ..
                } => {
                    assert_eq!(base_offset, self.end());
                    self.batches.push(records.len());
                    self.log.extend(records);
                    self.controller.on_appended(base_offset);
                }
                ControllerOutput::Reply(ticket, reply) => self.replies.push((ticket.0, reply)),
            }
        }
    }

    fn commit(&mut self) -> Vec<Change> {
        let changes = self.controller.on_committed(self.end()).unwrap();
        self.drain();
        changes
    }

    fn tickets(&self) -> Vec<u64> {
        self.replies.iter().map(|(ticket, _)| *ticket).collect()
    }
}

fn registration_of(id: i32, incarnation: u8) -> BrokerRegistrationRequestData {
    let feature = |name| BrokerFeature {
        name: wire_string(name),
        min_supported_version: 0,
        max_supported_version: 1,
        ..BrokerFeature::default()
    };
    BrokerRegistrationRequestData {
        broker_id: id,
        cluster_id: wire_string(&Uuid([3; 16]).to_string()),
        incarnation_id: wire_uuid(Uuid([incarnation; 16])),
        features: vec![
            feature(METADATA_VERSION),
            feature(ELIGIBLE_LEADER_REPLICAS_VERSION),
        ],
        log_dirs: vec![wire_uuid(Uuid([u8::try_from(id).unwrap(); 16]))],
        previous_broker_epoch: -1,
        ..BrokerRegistrationRequestData::default()
    }
}

fn heartbeat_of(id: i32, epoch: i64, offset: i64) -> BrokerHeartbeatRequestData {
    BrokerHeartbeatRequestData {
        broker_id: id,
        broker_epoch: epoch,
        current_metadata_offset: offset,
        ..BrokerHeartbeatRequestData::default()
    }
}

/// Sets a config of a topic, or of all brokers under the empty name.
fn set_config(topic: &str, name: &str, value: &str) -> ControllerRequest {
    ControllerRequest::AlterConfigs(IncrementalAlterConfigsRequestData {
        resources: vec![AlterConfigsResource {
            resource_type: if topic.is_empty() { 4 } else { 2 },
            resource_name: wire_string(topic),
            configs: vec![AlterableConfig {
                name: wire_string(name),
                config_operation: 0,
                value: Some(wire_string(value)),
                ..AlterableConfig::default()
            }],
            ..AlterConfigsResource::default()
        }],
        ..IncrementalAlterConfigsRequestData::default()
    })
}

fn create(name: &str) -> ControllerRequest {
    ControllerRequest::CreateTopics(CreateTopicsRequestData {
        topics: vec![CreatableTopic {
            name: wire_string(name),
            num_partitions: 1,
            replication_factor: 1,
            ..CreatableTopic::default()
        }],
        ..CreateTopicsRequestData::default()
    })
}

fn code(reply: &ControllerReply) -> i16 {
    match reply {
        ControllerReply::CreateTopics(reply) => reply.topics[0].error_code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn reply_waits_until_its_records_are_committed() {
    let mut quorum = Quorum::ready();
    quorum.ask(10, create("t"));
    assert!(quorum.replies.is_empty());
    assert!(quorum.controller.committed().topic("t").is_none());
    let changes = quorum.commit();
    assert_eq!(quorum.tickets(), [10]);
    assert!(matches!(changes[0], Change::TopicCreated(_)));
    assert!(quorum.controller.committed().topic("t").is_some());
}

#[test]
fn refusal_that_rests_on_an_uncommitted_decision_waits_for_it() {
    let mut quorum = Quorum::ready();
    quorum.ask(10, create("t"));
    quorum.ask(11, create("t"));
    assert!(quorum.replies.is_empty());
    quorum.commit();
    assert_eq!(quorum.tickets(), [10, 11]);
    assert_eq!(code(&quorum.replies[1].1), 36, "topic already exists");
    quorum.replies.clear();
    quorum.ask(12, create("t"));
    assert_eq!(
        quorum.tickets(),
        [12],
        "with nothing in flight a refusal leaves at once"
    );
}

#[test]
fn batch_is_committed_as_a_whole() {
    let mut quorum = Quorum::ready();
    quorum.ask(10, create("t"));
    let part = quorum.end() - 1;
    assert!(quorum.controller.on_committed(part).unwrap().is_empty());
    quorum.drain();
    assert!(quorum.replies.is_empty());
    assert!(quorum.controller.committed().topic("t").is_none());
}

#[test]
fn resigning_forgets_what_is_not_committed_and_says_so() {
    let mut quorum = Quorum::ready();
    let before = quorum.controller.committed().state_hash();
    quorum.ask(10, create("t"));
    quorum
        .controller
        .handle(quorum.now, Ticket(11), create("u"));
    quorum.controller.resign();
    let mut appended = 0;
    while let Some(output) = quorum.controller.poll_output() {
        match output {
            ControllerOutput::Append { .. } => appended += 1,
            ControllerOutput::Reply(ticket, reply) => quorum.replies.push((ticket.0, reply)),
        }
    }
    assert_eq!(
        appended, 0,
        "nothing of the old leadership is appended any more"
    );
    assert_eq!(quorum.tickets(), [10, 11]);
    assert!(
        quorum
            .replies
            .iter()
            .all(|(_, reply)| *reply == ControllerReply::NotController)
    );
    assert_eq!(quorum.controller.committed().state_hash(), before);
    quorum.ask(12, create("v"));
    assert_eq!(quorum.replies[2], (12, ControllerReply::NotController));
}

#[test]
fn decision_of_a_resigned_leader_may_still_come_into_force() {
    let mut quorum = Quorum::ready();
    let base = quorum.end();
    quorum.ask(10, create("t"));
    quorum.controller.resign();
    let records = quorum.log.split_off(usize::try_from(base).unwrap());
    let changes = quorum.controller.replay_committed(base, &records).unwrap();
    assert_eq!(changes.len(), 2);
    assert!(quorum.controller.committed().topic("t").is_some());
    let again = quorum.controller.replay_committed(base, &records).unwrap();
    assert!(again.is_empty(), "what was replayed is not replayed again");
}

#[test]
fn replayed_log_and_snapshot_agree_with_the_leader() {
    let mut quorum = Quorum::ready();
    for (ticket, name) in (10..).zip(["a", "b.c", "d"]) {
        quorum.ask(ticket, create(name));
    }
    let delete = DeleteTopicsRequestData {
        topic_names: vec![wire_string("a")],
        timeout_ms: 1000,
        ..DeleteTopicsRequestData::default()
    };
    quorum.ask(20, ControllerRequest::DeleteTopics(delete, 5));
    quorum.commit();
    let leader = quorum.controller.committed();
    let mut follower = Quorum::new().controller;
    let _ = follower.replay_committed(0, &quorum.log).unwrap();
    assert_eq!(follower.committed(), leader);
    let mut latecomer = Quorum::new().controller;
    latecomer
        .load_snapshot(quorum.end(), &leader.to_snapshot_records())
        .unwrap();
    assert_eq!(latecomer.committed().state_hash(), leader.state_hash());
    assert_eq!(latecomer.committed_end(), quorum.end());
}

#[test]
fn offset_prediction_holds_across_requests() {
    let mut quorum = Quorum::ready();
    // The harness asserts each base offset; epochs rest on it.
    for ticket in 10..30 {
        quorum.ask(ticket, create(&format!("t{ticket}")));
        if ticket % 3 == 0 {
            quorum.commit();
        }
    }
    quorum.commit();
    assert_eq!(quorum.tickets(), (10..30).collect::<Vec<_>>());
}
