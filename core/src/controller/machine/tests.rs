use rand::SeedableRng;

use super::*;
use crate::{
    controller::{
        decide::{BootstrapContext, bootstrap_records},
        messages::{CreateTopicsRequestData, DeleteTopicsRequestData, wire_string, wire_uuid},
        records::{METADATA_VERSION, VoterV1},
    },
    ids::Uuid,
    protocol::messages::{BrokerFeature, CreatableTopic},
};

/// A controller with a quorum of one that commits when told to.
struct Quorum {
    controller: Controller,
    now: Instant,
    log: Vec<Record>,
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
            replies: Vec::new(),
        }
    }

    /// Leads, with broker 1 registered and unfenced.
    fn ready() -> Self {
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
        quorum.ask(1, ControllerRequest::RegisterBroker(registration()));
        quorum.commit();
        let epoch = match quorum.replies.pop() {
            Some((1, ControllerReply::RegisterBroker(reply))) => reply.broker_epoch,
            other => panic!("{other:?}"),
        };
        quorum.ask(
            2,
            ControllerRequest::BrokerHeartbeat(heartbeat(epoch, epoch)),
        );
        quorum.commit();
        quorum.replies.clear();
        quorum
    }

    fn end(&self) -> Offset {
        Offset::try_from(self.log.len()).unwrap()
    }

    fn lead(&mut self) {
        let end = self.end();
        self.controller.become_leader(self.now, Epoch(1), end);
    }

    fn ask(&mut self, ticket: u64, request: ControllerRequest) {
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

fn registration() -> BrokerRegistrationRequestData {
    BrokerRegistrationRequestData {
        broker_id: 1,
        cluster_id: wire_string(&Uuid([3; 16]).to_string()),
        incarnation_id: wire_uuid(Uuid([9; 16])),
        features: vec![BrokerFeature {
            name: wire_string(METADATA_VERSION),
            min_supported_version: 1,
            max_supported_version: 1,
            ..BrokerFeature::default()
        }],
        log_dirs: vec![wire_uuid(Uuid([1; 16]))],
        ..BrokerRegistrationRequestData::default()
    }
}

fn heartbeat(epoch: i64, offset: i64) -> BrokerHeartbeatRequestData {
    BrokerHeartbeatRequestData {
        broker_id: 1,
        broker_epoch: epoch,
        current_metadata_offset: offset,
        ..BrokerHeartbeatRequestData::default()
    }
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
fn silent_broker_is_fenced_when_its_session_is_over() {
    let mut quorum = Quorum::ready();
    quorum.ask(10, create("t"));
    quorum.commit();
    let deadline = quorum.controller.deadline().unwrap();
    assert_eq!(deadline, quorum.now.plus_millis(9000));
    quorum.controller.on_timeout(quorum.now.plus_millis(8999));
    quorum.drain();
    quorum.commit();
    assert!(
        !quorum
            .controller
            .committed()
            .broker(NodeId(1))
            .unwrap()
            .fenced
    );
    quorum.controller.on_timeout(deadline);
    quorum.drain();
    quorum.commit();
    let image = quorum.controller.committed();
    assert!(image.broker(NodeId(1)).unwrap().fenced);
    assert_eq!(
        image.topic("t").unwrap().partition(0).unwrap().leader,
        NodeId(-1)
    );
    assert_eq!(quorum.controller.deadline(), None);
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

#[test]
fn more_records_than_fit_a_batch_are_several_batches_and_one_reply() {
    let mut quorum = Quorum::ready();
    let big = |name: &str| match create(name) {
        ControllerRequest::CreateTopics(mut request) => {
            request.topics[0].num_partitions = 9000;
            ControllerRequest::CreateTopics(request)
        }
        other => other,
    };
    quorum.ask(10, big("a"));
    quorum.ask(11, big("b"));
    quorum.commit();
    let restarted = BrokerRegistrationRequestData {
        incarnation_id: wire_uuid(Uuid([8; 16])),
        ..registration()
    };
    quorum.now = quorum.now.plus_millis(9001);
    let base = quorum.end();
    quorum.ask(12, ControllerRequest::RegisterBroker(restarted));
    assert_eq!(quorum.end() - base, 18_001);
    let first = quorum.controller.on_committed(base + 10_000).unwrap();
    assert_eq!(first.len(), 10_000);
    quorum.drain();
    assert_eq!(quorum.tickets(), [10, 11]);
    quorum.commit();
    assert_eq!(quorum.tickets(), [10, 11, 12]);
    match &quorum.replies[2].1 {
        ControllerReply::RegisterBroker(reply) => assert_eq!(reply.broker_epoch, base + 18_000),
        other => panic!("{other:?}"),
    }
}
