use super::*;
use crate::{
    controller::{
        image::NO_LEADER,
        messages::{
            BrokerHeartbeatRequestData, BrokerHeartbeatResponseData, BrokerRegistrationRequestData,
        },
        records::UnregisterBrokerV1,
    },
    protocol::messages::BrokerFeature,
};

fn registration(id: i32, incarnation: u8, previous_epoch: i64) -> BrokerRegistrationRequestData {
    BrokerRegistrationRequestData {
        broker_id: id,
        cluster_id: wire_string("cluster"),
        incarnation_id: wire_uuid(Uuid([incarnation; 16])),
        features: vec![BrokerFeature {
            name: wire_string(METADATA_VERSION),
            min_supported_version: 1,
            max_supported_version: 1,
            ..BrokerFeature::default()
        }],
        log_dirs: vec![wire_uuid(directory(id))],
        previous_broker_epoch: previous_epoch,
        ..BrokerRegistrationRequestData::default()
    }
}

fn heartbeat(id: i32, epoch: i64, offset: i64) -> BrokerHeartbeatRequestData {
    BrokerHeartbeatRequestData {
        broker_id: id,
        broker_epoch: epoch,
        current_metadata_offset: offset,
        ..BrokerHeartbeatRequestData::default()
    }
}

fn register(
    desk: &mut Desk,
    request: &BrokerRegistrationRequestData,
    mut next_offset: i64,
    session: Option<BrokerSession>,
) -> Result<i64, ApiError> {
    loop {
        let context = desk.context();
        match register_broker(&desk.image, &context, request, next_offset, session)? {
            RegistrationStep::Cleanup(records) => {
                next_offset += i64::try_from(records.len()).unwrap();
                desk.replay(&records);
            }
            RegistrationStep::Registered(decision) => {
                desk.replay(&decision.records);
                return Ok(decision.reply.broker_epoch);
            }
        }
    }
}

fn beat(desk: &mut Desk, request: &BrokerHeartbeatRequestData) -> BrokerHeartbeatResponseData {
    let session = BrokerSession {
        is_valid: true,
        shutdown_seen: true,
    };
    let heard = broker_heartbeat(&desk.image, request, session).unwrap();
    desk.replay(&heard.decision.records);
    if let Some(sweep) = heard.sweep {
        desk.sweep(sweep);
    }
    heard.decision.reply
}

#[test]
fn new_broker_is_fenced_until_it_has_read_its_own_registration() {
    let mut desk = Desk::with_brokers(&[]);
    let epoch = register(&mut desk, &registration(1, 7, -1), 42, None).unwrap();
    assert_eq!(epoch, 42, "the offset of the registration record");
    let early = beat(&mut desk, &heartbeat(1, 42, 41));
    assert!(!early.is_caught_up && early.is_fenced);
    let late = beat(&mut desk, &heartbeat(1, 42, 42));
    assert!(late.is_caught_up && !late.is_fenced);
    assert!(desk.image.broker(NodeId(1)).unwrap().is_active());
}

#[test]
fn registration_is_checked() {
    let mut desk = Desk::with_brokers(&[(1, None), (2, None)]);
    let alive = Some(BrokerSession {
        is_valid: true,
        shutdown_seen: true,
    });
    let good = registration(1, 7, 10);
    let mut code = |request: &BrokerRegistrationRequestData, session| {
        register(&mut desk, request, 50, session).unwrap_err().code
    };
    let other_cluster = BrokerRegistrationRequestData {
        cluster_id: wire_string("x"),
        ..good.clone()
    };
    assert_eq!(code(&other_cluster, None), ErrorCode::InconsistentClusterId);
    assert_eq!(code(&good, alive), ErrorCode::DuplicateBrokerRegistration);
    for log_dirs in [
        vec![],
        vec![Uuid::ZERO],
        vec![directory(2)],
        vec![directory(1), directory(1)],
    ] {
        let log_dirs = log_dirs.into_iter().map(wire_uuid).collect();
        let request = BrokerRegistrationRequestData {
            log_dirs,
            ..good.clone()
        };
        assert_eq!(code(&request, None), ErrorCode::InvalidRegistration);
    }
    let no_feature = BrokerRegistrationRequestData {
        features: vec![],
        ..good.clone()
    };
    assert_eq!(code(&no_feature, None), ErrorCode::InvalidRegistration);
    let mut too_new = good.clone();
    too_new.features[0].min_supported_version = 2;
    too_new.features[0].max_supported_version = 2;
    assert_eq!(code(&too_new, None), ErrorCode::UnsupportedVersion);
    assert_eq!(register(&mut desk, &good, 50, None).unwrap(), 51);
    // The same incarnation registers again, say with another address: its epoch stays.
    assert_eq!(register(&mut desk, &good, 60, alive).unwrap(), 51);
}

#[test]
fn last_copy_leads_again_after_a_clean_restart() {
    let mut desk = Desk::alone();
    add_topic(&mut desk, &[1]);
    let epoch = register(&mut desk, &registration(1, 7, 10), 50, None).unwrap();
    assert_eq!(
        epoch, 52,
        "after the records that fence it and take the lead away"
    );
    assert_eq!(state(&desk), (-1, vec![], vec![1], 1));
    let _ = beat(&mut desk, &heartbeat(1, 52, 52));
    assert_eq!(state(&desk), (1, vec![1], vec![], 2));
    let partition = partition(&desk);
    assert!(!partition.leader_recovering && partition.last_known_elr.is_empty());
}

#[test]
fn last_copy_that_restarted_uncleanly_leads_as_recovering() {
    let mut desk = Desk::alone();
    add_topic(&mut desk, &[1]);
    let epoch = register(&mut desk, &registration(1, 7, -1), 50, None).unwrap();
    assert_eq!(
        state(&desk),
        (-1, vec![], vec![], 1),
        "it is not eligible any more"
    );
    let _ = beat(&mut desk, &heartbeat(1, epoch, epoch));
    assert_eq!(state(&desk), (1, vec![1], vec![], 2));
    assert!(partition(&desk).leader_recovering);
}

#[test]
fn fencing_moves_leaders_and_keeps_the_last_ones_eligible() {
    let mut desk = Desk::with_brokers(&[(1, None), (2, None), (3, None)]);
    add_topic(&mut desk, &[1, 2, 3]);
    desk.set(2, "t", "min.insync.replicas", "2");
    desk.fence(1);
    assert_eq!(
        state(&desk),
        (2, vec![2, 3], vec![], 1),
        "two are enough: nobody else is eligible"
    );
    desk.fence(2);
    assert_eq!(state(&desk), (3, vec![3], vec![2], 2));
    desk.fence(2);
    desk.fence(3);
    assert_eq!(state(&desk), (-1, vec![], vec![2, 3], 3));
    assert_eq!(desk.image.partitions_in_sync_with(NO_LEADER).count(), 1);
    // Broker 1 is not eligible; broker 2 is.
    let _ = beat(&mut desk, &heartbeat(1, 10, 99));
    assert_eq!(state(&desk).0, -1);
    let _ = beat(&mut desk, &heartbeat(2, 20, 99));
    assert_eq!(state(&desk), (2, vec![2], vec![3], 4));
}

#[test]
fn eligible_broker_that_restarts_uncleanly_may_not_lead() {
    let mut desk = Desk::with_brokers(&[(1, None), (2, None)]);
    add_topic(&mut desk, &[1, 2]);
    desk.set(2, "t", "min.insync.replicas", "2");
    let epoch = register(&mut desk, &registration(2, 8, -1), 50, None).unwrap();
    assert_eq!(state(&desk), (1, vec![1], vec![], 0));
    desk.fence(1);
    let _ = beat(&mut desk, &heartbeat(2, epoch, 99));
    assert_eq!(
        state(&desk).0,
        -1,
        "broker 2 may miss what broker 1 acknowledged"
    );
}

#[test]
fn unclean_election_happens_only_where_a_topic_allows_it() {
    let mut desk = Desk::with_brokers(&[(1, None), (2, None)]);
    add_topic(&mut desk, &[1, 2]);
    desk.set(2, "t", "unclean.leader.election.enable", "true");
    desk.fence(2);
    desk.fence(1);
    let _ = beat(&mut desk, &heartbeat(2, 20, 99));
    assert_eq!(state(&desk), (2, vec![2], vec![], 2));
    assert!(partition(&desk).leader_recovering);
}

#[test]
fn broker_stops_once_it_leads_nothing() {
    let mut desk = Desk::with_brokers(&[(1, None), (2, None)]);
    add_topic(&mut desk, &[1, 2]);
    let stop = BrokerHeartbeatRequestData {
        want_shut_down: true,
        ..heartbeat(1, 10, 99)
    };
    let first = beat(&mut desk, &stop);
    assert!(!first.should_shut_down && !first.is_fenced);
    assert_eq!(state(&desk), (2, vec![2], vec![], 1));
    let second = beat(&mut desk, &stop);
    assert!(second.should_shut_down);
    assert!(desk.image.broker(NodeId(1)).unwrap().fenced);
}

#[test]
fn heartbeat_of_another_epoch_is_stale() {
    let desk = Desk::alone();
    let session = BrokerSession {
        is_valid: true,
        shutdown_seen: true,
    };
    for request in [heartbeat(1, 9, 99), heartbeat(5, 9, 99)] {
        let error = broker_heartbeat(&desk.image, &request, session).unwrap_err();
        assert_eq!(error.code, ErrorCode::StaleBrokerEpoch);
    }
}

#[test]
fn broker_that_is_eligible_and_no_more_in_sync_loses_that_too_by_an_unclean_restart() {
    let mut desk = Desk::with_brokers(&[(1, None), (2, None), (3, None)]);
    add_topic(&mut desk, &[1, 2, 3]);
    desk.set(2, "t", "min.insync.replicas", "3");
    desk.fence(3);
    desk.fence(2);
    assert_eq!(state(&desk), (1, vec![1], vec![2, 3], 0));
    let _ = register(&mut desk, &registration(3, 8, 30), 50, None).unwrap();
    assert_eq!(state(&desk).2, [2, 3], "it stopped cleanly");
    let epoch = desk.image.broker(NodeId(3)).unwrap().epoch;
    let _ = register(&mut desk, &registration(3, 9, epoch - 1), 60, None).unwrap();
    assert_eq!(state(&desk).2, [2]);
}

#[test]
fn broker_without_a_registration_counts_as_restarted_uncleanly() {
    let mut desk = Desk::with_brokers(&[(1, None), (2, None)]);
    add_topic(&mut desk, &[1, 2]);
    desk.set(2, "t", "min.insync.replicas", "2");
    desk.fence(2);
    let gone = UnregisterBrokerV1 {
        broker_id: NodeId(2),
        broker_epoch: 20,
    };
    desk.replay(&[gone.into()]);
    assert_eq!(state(&desk).2, [2]);
    let _ = register(&mut desk, &registration(2, 8, 20), 50, None).unwrap();
    assert_eq!(state(&desk), (1, vec![1], vec![], 0));
}

#[test]
fn registration_clears_up_after_the_incarnation_before_it_in_bounded_steps() {
    let mut desk = Desk::with_brokers(&[(1, None), (2, None)]);
    add_topic(&mut desk, &[1, 2]);
    let more: Vec<Record> = (1..2500)
        .map(|number| partition_of(directory(99), number, &[1, 2]).into())
        .collect();
    desk.replay(&more);
    let request = registration(1, 7, -1);
    let mut steps = vec![];
    let decision = loop {
        match register_broker(&desk.image, &desk.context(), &request, 0, None).unwrap() {
            RegistrationStep::Cleanup(records) => {
                steps.push(records.len());
                desk.replay(&records);
            }
            RegistrationStep::Registered(decision) => break decision,
        }
        let broker = desk.image.broker(NodeId(1)).unwrap();
        assert!(
            broker.fenced && broker.epoch == 10,
            "the old epoch until the end"
        );
    };
    assert_eq!(steps, [1, 1000, 1000, 500]);
    assert_eq!(decision.records.len(), 1);
}

#[test]
fn broker_must_understand_what_the_cluster_has_agreed_on() {
    let mut desk = Desk::with_brokers(&[]);
    let level = FeatureLevelV1 {
        name: "f".into(),
        level: 2,
    };
    desk.replay(&[level.into()]);
    let mut request = registration(1, 7, -1);
    let error = register(&mut desk, &request, 1, None).unwrap_err();
    assert_eq!(error.code, ErrorCode::UnsupportedVersion);
    assert_eq!(
        error.message.unwrap(),
        "Unable to register because the broker does not support finalized version 2 of f. The broker wants a version \
         between 0 and 0, inclusive."
    );
    request.features.push(BrokerFeature {
        name: wire_string("f"),
        min_supported_version: 1,
        max_supported_version: 2,
        ..BrokerFeature::default()
    });
    assert_eq!(register(&mut desk, &request, 1, None), Ok(1));
}

#[test]
fn follower_stops_once_its_leaders_know() {
    let mut desk = Desk::with_brokers(&[(1, None), (2, None)]);
    add_topic(&mut desk, &[1, 2]);
    let stop = BrokerHeartbeatRequestData {
        want_shut_down: true,
        ..heartbeat(2, 20, 99)
    };
    let unseen = BrokerSession {
        is_valid: true,
        shutdown_seen: false,
    };
    assert!(!beat(&mut desk, &stop).should_shut_down);
    assert_eq!(
        state(&desk),
        (1, vec![1], vec![], 0),
        "the leader epoch stays"
    );
    let waiting = broker_heartbeat(&desk.image, &stop, unseen).unwrap();
    assert!(!waiting.decision.reply.should_shut_down && waiting.decision.records.is_empty());
    assert!(beat(&mut desk, &stop).should_shut_down);
}

#[test]
fn lost_directory_costs_a_broker_only_what_stands_in_it() {
    let mut desk = Desk::with_brokers(&[(1, None), (2, None)]);
    let two = RegisterBrokerV1 {
        log_dirs: vec![directory(1), directory(11)],
        ..broker(1, None, false)
    };
    desk.replay(&[two.into()]);
    add_topic(&mut desk, &[1, 2]);
    let elsewhere = PartitionV1 {
        directories: vec![directory(11), directory(2)],
        ..partition_of(directory(99), 1, &[1, 2])
    };
    desk.replay(&[elsewhere.into()]);
    let failed = BrokerHeartbeatRequestData {
        offline_log_dirs: vec![wire_uuid(directory(11)), wire_uuid(directory(50))],
        ..heartbeat(1, 10, 99)
    };
    assert!(!beat(&mut desk, &failed).is_fenced);
    assert_eq!(
        desk.image.broker(NodeId(1)).unwrap().log_dirs,
        [directory(1)]
    );
    let topic = desk.image.topic("t").unwrap();
    assert_eq!(topic.partition(0).unwrap().leader, NodeId(1));
    let moved = topic.partition(1).unwrap();
    assert_eq!((moved.leader, ids(&moved.isr)), (NodeId(2), vec![2]));
    let again = broker_heartbeat(
        &desk.image,
        &failed,
        BrokerSession {
            is_valid: true,
            shutdown_seen: false,
        },
    );
    assert!(again.unwrap().decision.records.is_empty(), "once is enough");
}
