use super::*;
use crate::{
    controller::{
        image::NO_LEADER,
        messages::{
            BrokerHeartbeatRequestData, BrokerHeartbeatResponseData, BrokerRegistrationRequestData,
        },
        records::{PartitionV1, TopicV1},
    },
    ids::Epoch,
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
    next_offset: i64,
    session: Option<BrokerSession>,
) -> Result<i64, ApiError> {
    let context = DecisionContext {
        node_id: NodeId(1),
        fixed: &desk.fixed,
    };
    let decision = register_broker(&desk.image, &context, request, next_offset, session)?;
    desk.replay(&decision.records);
    Ok(decision.reply.broker_epoch)
}

fn beat(desk: &mut Desk, request: &BrokerHeartbeatRequestData) -> BrokerHeartbeatResponseData {
    let context = DecisionContext {
        node_id: NodeId(1),
        fixed: &desk.fixed,
    };
    let session = BrokerSession {
        is_valid: true,
        shutdown_seen: true,
    };
    let decision = broker_heartbeat(&desk.image, &context, request, session).unwrap();
    desk.replay(&decision.records);
    decision.reply
}

fn add_topic(desk: &mut Desk, replicas: &[i32]) {
    let topic_id = directory(99);
    let replicas: Vec<NodeId> = replicas.iter().copied().map(NodeId).collect();
    desk.replay(&[
        TopicV1 {
            topic_id,
            name: "t".into(),
        }
        .into(),
        PartitionV1 {
            topic_id,
            partition_id: 0,
            directories: replicas.iter().map(|id| directory(id.0)).collect(),
            isr: replicas.clone(),
            leader: replicas[0],
            replicas,
            elr: vec![],
            last_known_elr: vec![],
            removing_replicas: vec![],
            adding_replicas: vec![],
            leader_recovering: false,
            leader_epoch: Epoch(0),
            partition_epoch: 0,
        }
        .into(),
    ]);
}

/// Leader, in-sync set, eligible leaders, and the leader epoch.
fn state(desk: &Desk) -> (i32, Vec<i32>, Vec<i32>, i32) {
    let partition = desk.image.topic("t").unwrap().partition(0).unwrap();
    let ids = |list: &[NodeId]| list.iter().map(|id| id.0).collect();
    (
        partition.leader.0,
        ids(&partition.isr),
        ids(&partition.elr),
        partition.leader_epoch.0,
    )
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
    assert_eq!(register(&mut desk, &good, 50, None).unwrap(), 50);
    // The same incarnation registers again, say with another address: its epoch stays.
    assert_eq!(register(&mut desk, &good, 60, alive).unwrap(), 50);
}

#[test]
fn last_copy_leads_again_after_a_clean_restart() {
    let mut desk = Desk::alone();
    add_topic(&mut desk, &[1]);
    let epoch = register(&mut desk, &registration(1, 7, 10), 50, None).unwrap();
    assert_eq!(epoch, 51, "after the record that takes the leader away");
    assert_eq!(state(&desk), (-1, vec![], vec![1], 1));
    let _ = beat(&mut desk, &heartbeat(1, 51, 51));
    assert_eq!(state(&desk), (1, vec![1], vec![], 2));
    let partition = desk.image.topic("t").unwrap().partition(0).unwrap();
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
    assert!(
        desk.image
            .topic("t")
            .unwrap()
            .partition(0)
            .unwrap()
            .leader_recovering
    );
}

#[test]
fn fencing_moves_leaders_and_keeps_the_last_ones_eligible() {
    let mut desk = Desk::with_brokers(&[(1, None), (2, None), (3, None)]);
    add_topic(&mut desk, &[1, 2, 3]);
    desk.set(2, "t", "min.insync.replicas", "2");
    let fence = |desk: &mut Desk, id| {
        desk.decide(|image, context, _| fence_broker(image, context, NodeId(id)));
    };
    fence(&mut desk, 1);
    assert_eq!(
        state(&desk),
        (2, vec![2, 3], vec![], 1),
        "two are enough: nobody else is eligible"
    );
    fence(&mut desk, 2);
    assert_eq!(state(&desk), (3, vec![3], vec![2], 2));
    fence(&mut desk, 2);
    fence(&mut desk, 3);
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
    let _ = register(&mut desk, &registration(2, 8, -1), 50, None).unwrap();
    assert_eq!(state(&desk), (1, vec![1], vec![], 0));
    desk.decide(|image, context, _| fence_broker(image, context, NodeId(1)));
    let _ = beat(&mut desk, &heartbeat(2, 51, 99));
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
    let fence = |desk: &mut Desk, id| {
        desk.decide(|image, context, _| fence_broker(image, context, NodeId(id)));
    };
    fence(&mut desk, 2);
    fence(&mut desk, 1);
    let _ = beat(&mut desk, &heartbeat(2, 20, 99));
    assert_eq!(state(&desk), (2, vec![2], vec![], 2));
    assert!(
        desk.image
            .topic("t")
            .unwrap()
            .partition(0)
            .unwrap()
            .leader_recovering
    );
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
    let context = DecisionContext {
        node_id: NodeId(1),
        fixed: &desk.fixed,
    };
    let session = BrokerSession {
        is_valid: true,
        shutdown_seen: true,
    };
    for request in [heartbeat(1, 9, 99), heartbeat(5, 9, 99)] {
        let error = broker_heartbeat(&desk.image, &context, &request, session).unwrap_err();
        assert_eq!(error.code, ErrorCode::StaleBrokerEpoch);
    }
}
