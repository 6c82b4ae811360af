use super::*;
use crate::{
    controller::records::{
        BrokerRegistrationChangeV1, ClearElrV1, ClusterIdV1, ConfigV1, FeatureLevelV1,
        PartitionChangeV1, PartitionV1, RegisterBrokerV1, RemoveTopicV1, TopicV1,
    },
    ids::Epoch,
};

fn topic_id(number: u8) -> Uuid {
    Uuid([number; 16])
}

fn topic(number: u8, name: &str) -> Record {
    TopicV1 {
        topic_id: topic_id(number),
        name: name.into(),
    }
    .into()
}

fn partition(number: u8, partition_id: i32) -> Record {
    PartitionV1 {
        topic_id: topic_id(number),
        partition_id,
        replicas: vec![NodeId(1), NodeId(2)],
        directories: vec![Uuid::ZERO; 2],
        isr: vec![NodeId(1), NodeId(2)],
        elr: vec![],
        last_known_elr: vec![],
        removing_replicas: vec![],
        adding_replicas: vec![],
        leader: NodeId(1),
        leader_recovering: false,
        leader_epoch: Epoch(0),
        partition_epoch: 0,
    }
    .into()
}

fn config(kind: ResourceKind, resource: &str, name: &str, value: Option<&str>) -> Record {
    ConfigV1 {
        resource_type: kind.code(),
        resource_name: resource.into(),
        name: name.into(),
        value: value.map(str::to_owned),
    }
    .into()
}

fn broker(id: i32) -> Record {
    RegisterBrokerV1 {
        broker_id: NodeId(id),
        broker_epoch: 5,
        incarnation_id: topic_id(9),
        endpoints: vec![],
        rack: None,
        log_dirs: vec![],
        features: vec![],
        fenced: true,
        in_controlled_shutdown: false,
    }
    .into()
}

fn image(records: &[Record]) -> MetadataImage {
    let mut image = MetadataImage::new();
    for record in records {
        let _ = image.replay(record).unwrap();
    }
    image
}

fn full() -> Vec<Record> {
    vec![
        FeatureLevelV1 {
            name: METADATA_VERSION.into(),
            level: 1,
        }
        .into(),
        ClusterIdV1 {
            cluster_id: "c".into(),
        }
        .into(),
        broker(1),
        broker(2),
        topic(1, "b.c"),
        partition(1, 0),
        partition(1, 1),
        config(ResourceKind::Topic, "b.c", "retention.ms", Some("5")),
        topic(2, "a"),
        partition(2, 0),
        config(ResourceKind::Broker, "", "min.insync.replicas", Some("1")),
    ]
}

#[test]
fn changes_say_what_to_act_on() {
    let mut image = MetadataImage::new();
    let changes: Vec<Change> = full()
        .iter()
        .map(|record| image.replay(record).unwrap())
        .collect();
    assert_eq!(changes[4], Change::TopicCreated(topic_id(1)));
    assert_eq!(
        changes[6],
        Change::PartitionCreated {
            topic_id: topic_id(1),
            partition_id: 1
        }
    );
    assert_eq!(changes[7], Change::Config(ConfigResource::topic("b.c")));
    let removed = image
        .replay(
            &RemoveTopicV1 {
                topic_id: topic_id(1),
            }
            .into(),
        )
        .unwrap();
    match removed {
        Change::TopicRemoved(topic) => assert_eq!(topic.partition_count(), 2),
        other => panic!("{other:?}"),
    }
    assert!(
        image.topic_configs("b.c").is_empty(),
        "configs go with their topic"
    );
    assert_eq!(image.partition_count(), 1);
    assert_eq!(image.colliding_topic("b_c"), None);
}

#[test]
fn topics_are_found_by_name_and_id_and_listed_by_name() {
    let image = image(&full());
    assert_eq!(image.topic("a").unwrap().id(), topic_id(2));
    assert_eq!(
        image.topic_by_id(topic_id(1)).unwrap().name().as_str(),
        "b.c"
    );
    let names: Vec<&str> = image.topics().map(|topic| topic.name().as_str()).collect();
    assert_eq!(names, ["a", "b.c"]);
    assert_eq!(image.colliding_topic("b_c").unwrap().as_str(), "b.c");
}

#[test]
fn snapshot_builds_an_equal_image() {
    let image_of_log = image(&full());
    let image_of_snapshot = image(&image_of_log.to_snapshot_records());
    assert_eq!(image_of_snapshot, image_of_log);
    assert_eq!(image_of_snapshot.state_hash(), image_of_log.state_hash());
    let other = image(&full()[..10]);
    assert_ne!(other.state_hash(), image_of_log.state_hash());
}

#[test]
fn records_that_do_not_fit_are_refused_and_change_nothing() {
    let before = image(&full());
    let unfit: Vec<Record> = vec![
        topic(1, "other"),
        topic(7, "a"),
        partition(7, 0),
        partition(1, 3),
        PartitionChangeV1::none(topic_id(1), 2).into(),
        PartitionChangeV1::none(topic_id(1), -1).into(),
        RemoveTopicV1 {
            topic_id: topic_id(7),
        }
        .into(),
        ClusterIdV1 {
            cluster_id: "d".into(),
        }
        .into(),
        FeatureLevelV1 {
            name: METADATA_VERSION.into(),
            level: 2,
        }
        .into(),
        ConfigV1 {
            resource_type: 99,
            resource_name: "".into(),
            name: "x".into(),
            value: None,
        }
        .into(),
        BrokerRegistrationChangeV1 {
            broker_id: NodeId(1),
            broker_epoch: 4,
            fenced: Some(false),
            in_controlled_shutdown: None,
            log_dirs: None,
        }
        .into(),
    ];
    for record in unfit {
        let mut image = before.clone();
        assert!(image.replay(&record).is_err(), "{record:?}");
        assert_eq!(image, before, "{record:?}");
    }
}

#[test]
fn leader_epoch_rises_with_a_named_leader_and_partition_epoch_with_any_change() {
    let mut image = image(&full());
    let change = |leader| PartitionChangeV1 {
        leader,
        ..PartitionChangeV1::none(topic_id(1), 0)
    };
    let _ = image.replay(&change(Some(NodeId(1))).into()).unwrap();
    let _ = image.replay(&change(None).into()).unwrap();
    let partition = image.topic("b.c").unwrap().partition(0).unwrap();
    assert_eq!(
        (partition.leader_epoch, partition.partition_epoch),
        (Epoch(1), 2)
    );
}

#[test]
fn in_sync_index_follows_every_change() {
    let mut image = image(&full());
    let of = |image: &MetadataImage, broker| {
        image
            .partitions_in_sync_with(NodeId(broker))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of(&image, 2),
        [(topic_id(1), 0), (topic_id(1), 1), (topic_id(2), 0)]
    );
    let change = PartitionChangeV1 {
        isr: Some(vec![NodeId(2)]),
        leader: Some(NO_LEADER),
        ..PartitionChangeV1::none(topic_id(1), 1)
    };
    let _ = image.replay(&change.into()).unwrap();
    assert_eq!(of(&image, 1), [(topic_id(1), 0), (topic_id(2), 0)]);
    assert_eq!(of(&image, -1), [(topic_id(1), 1)]);
    let _ = image
        .replay(
            &RemoveTopicV1 {
                topic_id: topic_id(1),
            }
            .into(),
        )
        .unwrap();
    assert_eq!(of(&image, -1), []);
    assert_eq!(of(&image, 1), [(topic_id(2), 0)]);
}

#[test]
fn clearing_eligible_leaders_touches_only_partitions_that_have_some() {
    let mut image = image(&full());
    let change = PartitionChangeV1 {
        elr: Some(vec![NodeId(2)]),
        ..PartitionChangeV1::none(topic_id(1), 0)
    };
    let _ = image.replay(&change.into()).unwrap();
    let _ = image
        .replay(&ClearElrV1 { topic_name: None }.into())
        .unwrap();
    let topic = image.topic("b.c").unwrap();
    assert!(topic.partition(0).unwrap().elr.is_empty());
    assert_eq!(topic.partition(0).unwrap().partition_epoch, 2);
    assert_eq!(topic.partition(1).unwrap().partition_epoch, 0);
}

#[test]
fn clone_shares_topics_until_one_changes() {
    let original = image(&full());
    let mut copy = original.clone();
    assert!(Arc::ptr_eq(
        original.topic("a").unwrap(),
        copy.topic("a").unwrap()
    ));
    let change = PartitionChangeV1 {
        leader: Some(NodeId(2)),
        ..PartitionChangeV1::none(topic_id(2), 0)
    };
    let _ = copy.replay(&change.into()).unwrap();
    assert!(Arc::ptr_eq(
        original.topic("b.c").unwrap(),
        copy.topic("b.c").unwrap()
    ));
    assert_eq!(
        original.topic("a").unwrap().partition(0).unwrap().leader,
        NodeId(1)
    );
}
