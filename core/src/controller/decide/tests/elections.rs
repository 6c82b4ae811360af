use super::*;
use crate::controller::{
    image::Change,
    messages::{ElectLeadersRequestData, elect_leaders_request::TopicPartitions},
    records::{ClearElrV1, PartitionChangeV1},
};

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

fn desk(replicas: &[i32]) -> Desk {
    let mut desk = Desk::with_brokers(&[(1, None), (2, None), (3, None)]);
    add_topic(&mut desk, replicas);
    desk
}

fn change(desk: &mut Desk, isr: &[i32], leader: i32, elr: &[i32]) {
    let list = |ids: &[i32]| Some(ids.iter().copied().map(NodeId).collect());
    let change = PartitionChangeV1 {
        isr: list(isr),
        leader: Some(NodeId(leader)),
        elr: list(elr),
        ..PartitionChangeV1::none(directory(99), 0)
    };
    desk.replay(&[change.into()]);
}

fn request(kind: i8, partitions: Option<&[(&str, i32)]>) -> ElectLeadersRequestData {
    ElectLeadersRequestData {
        election_type: kind,
        topic_partitions: partitions.map(|partitions| {
            let of = |(topic, partition): &(&str, i32)| TopicPartitions {
                topic: wire_string(topic),
                partitions: vec![*partition],
                ..TopicPartitions::default()
            };
            partitions.iter().map(of).collect()
        }),
        ..ElectLeadersRequestData::default()
    }
}

/// Topic, partition, code and message of each answer.
type Answers = Vec<(String, i32, i16, Option<String>)>;

fn ask(desk: &mut Desk, request: &ElectLeadersRequestData) -> (i16, Answers) {
    let reply = desk.decide(|image, context, _| elect_leaders(image, context, request));
    let answers = reply.replica_election_results.iter().flat_map(|topic| {
        topic.partition_result.iter().map(|partition| {
            let message = partition.error_message.as_ref();
            (
                topic.topic.as_str().to_owned(),
                partition.partition_id,
                partition.error_code,
                message.map(|message| message.as_str().to_owned()),
            )
        })
    });
    (reply.error_code, answers.collect())
}

fn elect(desk: &mut Desk, kind: i8) -> (i16, Option<String>) {
    let (error_code, answers) = ask(desk, &request(kind, Some(&[("t", 0)])));
    assert_eq!(error_code, 0);
    (answers[0].2, answers[0].3.clone())
}

#[test]
fn preferred_replica_gets_the_lead_back_if_it_is_in_sync() {
    let mut desk = desk(&[1, 2, 3]);
    let not_needed = Some("Leader election not needed for topic partition.".to_owned());
    assert_eq!(elect(&mut desk, PREFERRED), (84, not_needed));
    change(&mut desk, &[2, 3], 2, &[]);
    let unavailable = Some("The preferred leader was not available.".to_owned());
    assert_eq!(elect(&mut desk, PREFERRED), (80, unavailable));
    change(&mut desk, &[2, 3, 1], 2, &[]);
    assert_eq!(elect(&mut desk, PREFERRED), (0, None));
    assert_eq!(state(&desk), (1, vec![2, 3, 1], vec![], 3));
}

#[test]
fn unclean_election_needs_to_be_asked_for_and_is_reported() {
    let mut desk = desk(&[1, 2, 3]);
    assert_eq!(elect(&mut desk, UNCLEAN).0, 84, "it has a leader");
    change(&mut desk, &[1], 1, &[]);
    desk.fence(1);
    assert_eq!(state(&desk), (-1, vec![], vec![1], 2));
    assert_eq!(elect(&mut desk, PREFERRED).0, 80);
    let context = desk.context();
    let decision = elect_leaders(&desk.image, &context, &request(UNCLEAN, Some(&[("t", 0)])));
    let told = desk.image.clone().replay(&decision.records[0]).unwrap();
    assert!(matches!(
        told,
        Change::LeaderElectedUncleanly {
            partition_id: 0,
            ..
        }
    ));
    desk.replay(&decision.records);
    assert_eq!(state(&desk), (2, vec![2], vec![], 3));
    assert!(partition(&desk).leader_recovering);
}

#[test]
fn unclean_election_prefers_who_is_eligible() {
    let mut desk = desk(&[1, 2, 3]);
    desk.set(2, "t", "min.insync.replicas", "2");
    change(&mut desk, &[], -1, &[3]);
    assert_eq!(elect(&mut desk, UNCLEAN), (0, None));
    assert_eq!(state(&desk), (3, vec![3], vec![], 2));
    assert!(!partition(&desk).leader_recovering, "nothing was lost");
    for id in 1..=3 {
        desk.fence(id);
    }
    let nobody = Some("Eligible topic partition leaders are not available.".to_owned());
    assert_eq!(elect(&mut desk, UNCLEAN), (83, nobody));
}

#[test]
fn all_partitions_are_meant_where_none_is_named() {
    let mut desk = desk(&[1, 2, 3]);
    desk.replay(&[partition_of(directory(99), 1, &[2, 3]).into()]);
    change(&mut desk, &[2, 3, 1], 2, &[]);
    assert_eq!(
        ask(&mut desk, &request(PREFERRED, None)),
        (0, vec![("t".to_owned(), 0, 0, None)])
    );
    assert_eq!(ask(&mut desk, &request(PREFERRED, None)), (0, vec![]));
}

#[test]
fn elections_that_cannot_be_are_refused_as_kafka_does() {
    let mut desk = desk(&[1, 2, 3]);
    change(&mut desk, &[2, 3, 1], 2, &[]);
    let asked = [("x", 0), ("t", 5), ("t", 0), ("t", 0)];
    let (_, answers) = ask(&mut desk, &request(PREFERRED, Some(&asked)));
    let codes: Vec<i16> = answers.iter().map(|answer| answer.2).collect();
    assert_eq!(codes, [3, 3, 0, 84]);
    assert_eq!(answers[0].3.as_deref(), Some("No such topic as x"));
    assert_eq!(answers[1].3.as_deref(), Some("No such partition as t-5"));
    assert_eq!(state(&desk).3, 2, "elected once, though named twice");
    let (error_code, answers) = ask(&mut desk, &request(7, Some(&[("t", 0)])));
    let message = Some("Unknown election type 7".to_owned());
    assert_eq!(
        (error_code, answers),
        (42, vec![("t".to_owned(), 0, 42, message)])
    );
}

#[test]
fn min_isr_that_is_lowered_without_a_leader_leaves_a_clean_way_back() {
    let mut desk = desk(&[1, 2, 3]);
    desk.set(2, "t", "min.insync.replicas", "3");
    for id in [1, 2, 3] {
        desk.fence(id);
    }
    assert_eq!(state(&desk).2, [1, 2, 3]);
    desk.set(2, "t", "min.insync.replicas", "1");
    desk.replay(&[ClearElrV1 {
        topic_name: Some("t".into()),
    }
    .into()]);
    assert_eq!(state(&desk).2, [1, 2, 3], "nothing was committed since");
    desk.replay(&[broker(2, None, false).into()]);
    desk.sweep(Sweep::Leaderless);
    // Alone it is enough: the others fall behind from here on.
    let (leader, isr, elr, _) = state(&desk);
    assert_eq!((leader, isr, elr), (2, vec![2], vec![]));
    assert!(!partition(&desk).leader_recovering);
}

#[test]
fn min_isr_that_changes_under_a_leader_clears_who_is_eligible() {
    let mut desk = desk(&[1, 2, 3]);
    desk.set(2, "t", "min.insync.replicas", "3");
    desk.fence(3);
    assert_eq!(state(&desk).2, [3]);
    desk.set(2, "t", "min.insync.replicas", "1");
    let cleared = desk
        .image
        .replay(&ClearElrV1 { topic_name: None }.into())
        .unwrap();
    assert_eq!(cleared, Change::ElrCleared(vec![(directory(99), 0)]));
    assert_eq!(state(&desk).2, Vec::<i32>::new());
}

#[test]
fn sweeps_go_on_where_their_last_slice_ended() {
    let mut desk = desk(&[1, 2, 3]);
    let more: Vec<Record> = (1..5)
        .map(|number| partition_of(directory(99), number, &[1, 2]).into())
        .collect();
    desk.replay(&more);
    desk.replay(&[broker(1, None, true).into()]);
    assert_eq!(desk.sweep(Sweep::Unfit(NodeId(1))), 3);
    assert_eq!(desk.image.partitions_in_sync_with(NodeId(1)).count(), 0);
    assert_eq!(desk.image.partitions_led_elsewhere(None).count(), 5);
    desk.replay(&[broker(1, None, false).into()]);
    let all = [1, 2].map(NodeId).to_vec();
    let back: Vec<Record> = (0..5)
        .map(|number| {
            PartitionChangeV1 {
                isr: Some(all.clone()),
                ..PartitionChangeV1::none(directory(99), number)
            }
            .into()
        })
        .collect();
    desk.replay(&back);
    assert_eq!(desk.sweep(Sweep::Preferred), 3);
    assert_eq!(desk.image.partitions_led_elsewhere(None).count(), 0);
}

#[test]
fn sweep_leaves_a_broker_alone_that_is_back() {
    let mut desk = desk(&[1, 2, 3]);
    let before = desk.image.state_hash();
    desk.sweep(Sweep::Unfit(NodeId(1)));
    desk.sweep(Sweep::Leaderless);
    desk.sweep(Sweep::Preferred);
    assert_eq!(desk.image.state_hash(), before);
}
