//! The admin client: who is asked, what is asked again, what is told.

use super::{
    broker::{Cast, Mishap, topic_partition},
    world::World,
};
use crate::{
    client::{
        Admin, AdminAnswer, AdminCall, AdminError, ClientConfig, ConfigResource, NewTopic,
        OffsetSpec,
    },
    ids::{NodeId, TopicName},
    protocol::{ApiKey, ErrorCode},
};

fn world(cast: Cast) -> World<Admin> {
    let client = ClientConfig::new(cast.bootstrap(), "test", 1);
    World::new(Admin::new(client, Admin::DEFAULT_API_TIMEOUT_MS), cast)
}

fn answer(world: &mut World<Admin>, call: AdminCall) -> AdminAnswer {
    let now = world.now();
    let id = world.machine.call(now, call);
    world.run_for(5_000);
    assert_eq!(world.events.len(), 1, "one end of a call");
    let event = world.events.pop().unwrap();
    assert_eq!(event.id, id);
    event.result.unwrap()
}

fn create(name: &str) -> AdminCall {
    AdminCall::CreateTopics {
        topics: vec![NewTopic {
            name: TopicName::new(name),
            partitions: Some(3),
            replication_factor: None,
            assignments: [].into(),
            configs: [].into(),
        }],
        validate_only: false,
    }
}

#[test]
fn created_topic_is_told_with_its_numbers() {
    let mut world = world(Cast::new(&[1], 1));
    let AdminAnswer::Created(topics) = answer(&mut world, create("new")) else {
        panic!("another answer");
    };
    let created = topics[&TopicName::new("new")].as_ref().unwrap();
    assert_eq!((created.partitions, created.replication_factor), (3, -1));
}

#[test]
fn not_controller_is_asked_elsewhere_and_an_answer_is_told() {
    let mut cast = Cast::new(&[1, 2], 1);
    for error in [ErrorCode::NotController, ErrorCode::TopicAlreadyExists] {
        let mishap = (ApiKey::CreateTopics, Mishap::Refuse(error));
        cast.mishaps.push_back(mishap);
    }
    let mut world = world(cast);
    let AdminAnswer::Created(topics) = answer(&mut world, create("t")) else {
        panic!("another answer");
    };
    let error = topics[&TopicName::new("t")].as_ref().unwrap_err();
    assert_eq!(error.code, ErrorCode::TopicAlreadyExists);
    assert_eq!(world.cast.asked(ApiKey::CreateTopics), 2);
    let asked = world.cast.requests.iter().rev();
    let mut asked = asked.filter(|(_, r)| r.header.api == ApiKey::CreateTopics);
    assert_eq!(asked.next().unwrap().0, NodeId(1), "the controller");
}

#[test]
fn repeated_order_says_that_it_may_have_been_carried_out_before() {
    let mut cast = Cast::new(&[1], 1);
    cast.mishaps
        .push_back((ApiKey::DeleteTopics, Mishap::DoAndHangUp));
    let missing = Mishap::Refuse(ErrorCode::UnknownTopicOrPartition);
    cast.mishaps.push_back((ApiKey::DeleteTopics, missing));
    let mut world = world(cast);
    let now = world.now();
    let topics = vec![TopicName::new("t")];
    world.machine.call(now, AdminCall::DeleteTopics { topics });
    world.run_for(5_000);
    let event = world.events.pop().unwrap();
    assert_eq!(event.repeats, 1);
    let Ok(AdminAnswer::Deleted(topics)) = event.result else {
        panic!("another answer");
    };
    let error = topics[&TopicName::new("t")].as_ref().unwrap_err();
    assert_eq!(error.code, ErrorCode::UnknownTopicOrPartition);
}

#[test]
fn offsets_are_asked_of_each_leader_and_put_together() {
    let mut cast = Cast::new(&[1, 2, 3], 6);
    for (partition, log) in &mut cast.logs {
        log.start = i64::from(partition.partition) * 10;
        log.end = 100;
    }
    let refusal = Mishap::Refuse(ErrorCode::NotLeaderOrFollower);
    cast.mishaps.push_back((ApiKey::ListOffsets, refusal));
    let mut world = world(cast);
    let specs = (0..6).map(|at| {
        let spec = if at < 5 {
            OffsetSpec::Earliest
        } else {
            OffsetSpec::Latest
        };
        (topic_partition("t", at), spec)
    });
    let specs = specs.collect();
    let AdminAnswer::Offsets(offsets) = answer(&mut world, AdminCall::ListOffsets { specs }) else {
        panic!("another answer");
    };
    let offsets: Vec<_> = offsets.values().map(|listed| listed.offset).collect();
    assert_eq!(offsets, [0, 10, 20, 30, 40, 100]);
    assert_eq!(
        world.cast.asked(ApiKey::ListOffsets),
        4,
        "one of three again"
    );
}

#[test]
fn settings_of_a_broker_are_asked_of_that_broker() {
    let mut world = world(Cast::new(&[1, 2], 1));
    let resources = vec![
        ConfigResource::Broker(NodeId(1)),
        ConfigResource::Broker(NodeId(2)),
        ConfigResource::Topic(TopicName::new("t")),
    ];
    let call = AdminCall::DescribeConfigs { resources };
    let AdminAnswer::Configs(configs) = answer(&mut world, call) else {
        panic!("another answer");
    };
    assert_eq!(configs.len(), 3);
    for id in [1, 2] {
        let entries = &configs[&ConfigResource::Broker(NodeId(id))];
        let value = entries.as_ref().unwrap()[0].value.clone();
        assert_eq!(value, Some(id.to_string()));
    }
}

#[test]
fn topics_are_described_with_their_errors_and_never_created() {
    let mut world = world(Cast::new(&[1], 2));
    let topics = Some(vec![TopicName::new("t"), TopicName::new("nowhere")]);
    let call = AdminCall::DescribeTopics { topics };
    let AdminAnswer::Cluster(cluster) = answer(&mut world, call) else {
        panic!("another answer");
    };
    let known = cluster.topic(&TopicName::new("t")).unwrap();
    assert_eq!((known.error, known.partitions.len()), (ErrorCode::None, 2));
    let unknown = cluster.topic(&TopicName::new("nowhere")).unwrap();
    assert_eq!(unknown.error, ErrorCode::UnknownTopicOrPartition);
}

#[test]
fn what_an_old_broker_cannot_do_is_named() {
    let mut cast = Cast::new(&[1], 1);
    cast.caps.insert(ApiKey::CreateTopics.key(), 3);
    let mut world = world(cast);
    let now = world.now();
    world.machine.call(now, create("new"));
    world.run_for(1_000);
    let result = world.events.pop().unwrap().result;
    let error = AdminError::Unsupported(ApiKey::CreateTopics);
    assert_eq!(result, Err(error), "defaults of the broker need version 4");
}

#[test]
fn call_ends_after_its_time() {
    let mut cast = Cast::new(&[1], 1);
    cast.down.push(1);
    let mut world = world(cast);
    let now = world.now();
    world.machine.call(now, create("new"));
    world.run_for(59_000);
    assert!(world.events.is_empty());
    world.run_for(2_000);
    let result = world.events.pop().unwrap().result;
    assert!(matches!(result, Err(AdminError::TimedOut(_))));
}
