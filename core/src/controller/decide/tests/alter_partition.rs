use super::*;
use crate::{
    controller::messages::{
        AlterPartitionRequestData, alter_partition_request as asked,
        alter_partition_response as answered,
    },
    controller::records::{PartitionChangeV1, RemoveTopicV1},
};

/// Brokers 1 to 4 and topic "t" on 1, 2, 3, all in sync, led by 1.
fn desk() -> Desk {
    let mut desk = Desk::with_brokers(&[(1, None), (2, None), (3, None), (4, None)]);
    add_topic(&mut desk, &[1, 2, 3]);
    desk
}

/// Proposes an in-sync set under the registered epochs and the partition's present ones.
fn proposal(desk: &Desk, isr: &[i32]) -> asked::PartitionData {
    let partition = partition(desk);
    let member = |id: &i32| asked::BrokerState {
        broker_id: *id,
        broker_epoch: desk
            .image
            .broker(NodeId(*id))
            .map_or(-1, |known| known.epoch),
        ..asked::BrokerState::default()
    };
    asked::PartitionData {
        partition_index: 0,
        leader_epoch: partition.leader_epoch.0,
        partition_epoch: partition.partition_epoch,
        new_isr: isr.to_vec(),
        new_isr_with_epochs: isr.iter().map(member).collect(),
        leader_recovery_state: 0,
        ..asked::PartitionData::default()
    }
}

fn request(leader: i32, partitions: Vec<asked::PartitionData>) -> AlterPartitionRequestData {
    AlterPartitionRequestData {
        broker_id: leader,
        broker_epoch: i64::from(leader) * 10,
        topics: vec![asked::TopicData {
            topic_id: wire_uuid(directory(99)),
            partitions,
            ..asked::TopicData::default()
        }],
        ..AlterPartitionRequestData::default()
    }
}

fn ask(
    desk: &mut Desk,
    request: &AlterPartitionRequestData,
    version: i16,
) -> Vec<answered::PartitionData> {
    let decision = alter_partition(&desk.image, &desk.context(), request, version).unwrap();
    desk.replay(&decision.records);
    decision
        .reply
        .topics
        .into_iter()
        .flat_map(|topic| topic.partitions)
        .collect()
}

fn alter(desk: &mut Desk, leader: i32, partition: asked::PartitionData) -> ErrorCode {
    let answer = ask(desk, &request(leader, vec![partition]), 3);
    ErrorCode::from_code(answer[0].error_code).unwrap()
}

#[test]
fn leader_shrinks_and_grows_its_in_sync_set() {
    let mut desk = desk();
    let smaller = proposal(&desk, &[1, 2]);
    let answer = ask(&mut desk, &request(1, vec![smaller]), 3);
    let expected = answered::PartitionData {
        partition_index: 0,
        leader_id: 1,
        leader_epoch: 0,
        isr: vec![1, 2],
        leader_recovery_state: 0,
        partition_epoch: 1,
        ..answered::PartitionData::default()
    };
    assert_eq!(answer, [expected]);
    let larger = proposal(&desk, &[1, 2, 3]);
    assert_eq!(alter(&mut desk, 1, larger), ErrorCode::None);
    assert_eq!(state(&desk), (1, vec![1, 2, 3], vec![], 0));
    assert_eq!(partition(&desk).partition_epoch, 2);
    let same = proposal(&desk, &[1, 2, 3]);
    let answer = ask(&mut desk, &request(1, vec![same]), 3);
    assert_eq!(
        (answer[0].error_code, answer[0].partition_epoch),
        (0, 2),
        "nothing to agree on"
    );
}

#[test]
fn members_that_leave_below_min_isr_stay_eligible_until_it_is_reached_again() {
    let mut desk = desk();
    desk.set(2, "t", "min.insync.replicas", "2");
    let alone = proposal(&desk, &[1]);
    assert_eq!(alter(&mut desk, 1, alone), ErrorCode::None);
    assert_eq!(state(&desk), (1, vec![1], vec![2, 3], 0));
    let pair = proposal(&desk, &[1, 3]);
    assert_eq!(alter(&mut desk, 1, pair), ErrorCode::None);
    assert_eq!(state(&desk), (1, vec![1, 3], vec![], 0));
}

#[test]
fn proposal_must_rest_on_the_partition_as_it_is() {
    let mut desk = desk();
    let known = PartitionChangeV1 {
        leader: Some(NodeId(1)),
        ..PartitionChangeV1::none(directory(99), 0)
    };
    desk.replay(&[known.into()]);
    let good = proposal(&desk, &[1, 2]);
    let with = |leader_epoch, partition_epoch| asked::PartitionData {
        leader_epoch: good.leader_epoch + leader_epoch,
        partition_epoch: good.partition_epoch + partition_epoch,
        ..good.clone()
    };
    for (leader, proposal, code) in [
        (1, with(1, 0), ErrorCode::NotController),
        (1, with(0, 1), ErrorCode::NotController),
        (1, with(-1, 1), ErrorCode::NotController),
        (1, with(-1, 0), ErrorCode::FencedLeaderEpoch),
        (1, with(-1, -1), ErrorCode::FencedLeaderEpoch),
        (2, with(0, 0), ErrorCode::InvalidRequest),
        (2, with(0, -1), ErrorCode::InvalidRequest),
        (1, with(0, -1), ErrorCode::InvalidUpdateVersion),
    ] {
        assert_eq!(
            alter(&mut desk, leader, proposal.clone()),
            code,
            "{proposal:?}"
        );
    }
    assert_eq!(partition(&desk).partition_epoch, 1, "nothing changed");
    assert_eq!(alter(&mut desk, 1, good), ErrorCode::None);
}

#[test]
fn proposal_must_make_sense() {
    let mut desk = desk();
    let recovering = |desk: &Desk, isr: &[i32], state| asked::PartitionData {
        leader_recovery_state: state,
        ..proposal(desk, isr)
    };
    for (isr, recovery_state) in [
        (&[2, 3][..], 0),
        (&[], 0),
        (&[1, 4], 0),
        (&[1, 1, 2], 0),
        (&[1, -1], 0),
        (&[1], 1),
        (&[1, 2], 1),
        (&[1], 2),
    ] {
        let proposal = recovering(&desk, isr, recovery_state);
        assert_eq!(
            alter(&mut desk, 1, proposal),
            ErrorCode::InvalidRequest,
            "{isr:?}"
        );
    }
}

#[test]
fn member_must_be_active_and_of_the_registered_epoch() {
    let mut desk = desk();
    let pair = |desk: &Desk| proposal(desk, &[1, 2]);
    let mut stale = pair(&desk);
    stale.new_isr_with_epochs[1].broker_epoch = 19;
    assert_eq!(
        alter(&mut desk, 1, stale.clone()),
        ErrorCode::IneligibleReplica
    );
    stale.new_isr_with_epochs[1].broker_epoch = -1;
    assert_eq!(
        alter(&mut desk, 1, stale),
        ErrorCode::None,
        "not known is not checked"
    );
    let leaving = RegisterBrokerV1 {
        in_controlled_shutdown: true,
        ..broker(2, None, false)
    };
    desk.replay(&[leaving.into()]);
    let proposal = pair(&desk);
    assert_eq!(alter(&mut desk, 1, proposal), ErrorCode::IneligibleReplica);
    desk.replay(&[broker(2, None, true).into()]);
    let proposal = pair(&desk);
    assert_eq!(alter(&mut desk, 1, proposal), ErrorCode::IneligibleReplica);
}

#[test]
fn version_two_names_members_without_epochs() {
    let mut desk = desk();
    let mut proposal = proposal(&desk, &[1, 3]);
    proposal.new_isr_with_epochs.clear();
    let answer = ask(&mut desk, &request(1, vec![proposal]), 2);
    assert_eq!(
        (answer[0].error_code, answer[0].isr.as_slice()),
        (0, &[1, 3][..])
    );
}

#[test]
fn stale_broker_is_refused_as_a_whole_and_unknown_partitions_one_by_one() {
    let mut desk = desk();
    let good = proposal(&desk, &[1, 2]);
    for (id, epoch) in [(1, 9), (7, 70)] {
        let stale = AlterPartitionRequestData {
            broker_id: id,
            broker_epoch: epoch,
            ..request(1, vec![good.clone()])
        };
        let error = alter_partition(&desk.image, &desk.context(), &stale, 3).unwrap_err();
        assert_eq!(error.code, ErrorCode::StaleBrokerEpoch);
    }
    let unknown = asked::PartitionData {
        partition_index: 8,
        ..good.clone()
    };
    let codes: Vec<i16> = ask(
        &mut desk,
        &request(1, vec![unknown, good.clone(), good.clone()]),
        3,
    )
    .iter()
    .map(|partition| partition.error_code)
    .collect();
    assert_eq!(
        codes,
        [3, 0, 95],
        "the third rests on the epoch before the second"
    );
    desk.replay(&[RemoveTopicV1 {
        topic_id: directory(99),
    }
    .into()]);
    let answer = ask(&mut desk, &request(1, vec![good]), 3);
    assert_eq!(answer[0].error_code, ErrorCode::UnknownTopicId.code());
}

#[test]
fn recovered_leader_lets_others_in() {
    let mut desk = desk();
    let uncleanly = PartitionChangeV1 {
        isr: Some(vec![NodeId(1)]),
        leader: Some(NodeId(1)),
        leader_recovering: Some(true),
        ..PartitionChangeV1::none(directory(99), 0)
    };
    desk.replay(&[uncleanly.into()]);
    let early = asked::PartitionData {
        leader_recovery_state: 1,
        ..proposal(&desk, &[1, 2])
    };
    assert_eq!(alter(&mut desk, 1, early), ErrorCode::InvalidRequest);
    let recovered = proposal(&desk, &[1]);
    assert_eq!(alter(&mut desk, 1, recovered), ErrorCode::None);
    assert!(!partition(&desk).leader_recovering);
    let pair = proposal(&desk, &[1, 2]);
    assert_eq!(alter(&mut desk, 1, pair), ErrorCode::None);
}

#[test]
fn member_that_comes_back_with_another_disk_is_in_sync_on_that_one() {
    let mut desk = desk();
    let shrunk = proposal(&desk, &[1, 3]);
    assert_eq!(alter(&mut desk, 1, shrunk), ErrorCode::None);
    let wiped = RegisterBrokerV1 {
        log_dirs: vec![directory(22)],
        ..broker(2, None, false)
    };
    desk.replay(&[wiped.into()]);
    let grown = proposal(&desk, &[1, 3, 2]);
    assert_eq!(alter(&mut desk, 1, grown), ErrorCode::None);
    assert_eq!(
        partition(&desk).directories,
        [directory(1), directory(22), directory(3)]
    );
    desk.fence(1);
    assert_eq!(state(&desk).0, 2, "and may lead again");
}
