//! From an empty folder to a leader, and back after a restart.

use bytes::Bytes;

use crate::{
    ids::{Epoch, NodeId, Uuid},
    protocol::ErrorCode,
    raft::{
        AppendError, LogPosition, PeerRequest, RaftConfig, RaftEvent, ReplicaKey, VoteRequest,
        Voter, VoterSet,
    },
};

use super::host::{CLUSTER, FOLDER, NODE, World, config};

fn texts(state: &[Bytes]) -> Vec<String> {
    state
        .iter()
        .map(|record| String::from_utf8_lossy(record).into_owned())
        .collect()
}

#[test]
fn empty_folder_becomes_a_leader_with_its_first_records_in_one_sync() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        let host = world.start_well(config());
        assert_eq!(host.leader_depth, 1, "syncs in a row");
        assert_eq!(
            texts(&host.state),
            [format!("cluster={CLUSTER}"), "feature".into()]
        );
        let probe = host.raft.probe();
        assert_eq!((probe.epoch, probe.leader), (Epoch(1), Some(NODE)));
        assert_eq!(
            probe.log_end, 5,
            "three control records and two of the host"
        );
        assert_eq!(probe.high_watermark, 5);
        let order: Vec<_> = host
            .events
            .iter()
            .filter(|event| !matches!(event, RaftEvent::Notice(_)))
            .collect();
        assert!(matches!(
            order.as_slice(),
            [
                RaftEvent::Committed { base_offset: 3, .. },
                RaftEvent::BecameLeader { epoch: Epoch(1) }
            ]
        ));
    }
}

#[test]
fn restart_leads_a_new_epoch_with_all_that_was_committed() {
    let mut world = World::new(1);
    for restart in 1..5 {
        let mut host = world.start_well(config());
        assert_eq!(host.raft.epoch(), Epoch(restart));
        let record = format!("topic {restart}");
        let offsets = host.append(&mut world, &[&record, "x"]).expect("a leader");
        host.settle(&mut world);
        assert_eq!(host.raft.high_watermark(), offsets.1 + 1);
        let depth = if restart == 1 { 1 } else { 3 };
        assert_eq!(host.leader_depth, depth, "syncs in a row");
        host.end(&mut world);
    }
    world.disk.remove(&format!("{FOLDER}/synced-mark"));
    let host = world.start_well(config());
    assert_eq!(host.state.len(), 2 + 8);
    assert_eq!(
        host.leader_depth, 4,
        "the log's recovery syncs what it keeps past the mark"
    );
}

#[test]
fn records_of_one_append_get_consecutive_offsets_and_are_committed_together() {
    let mut world = World::new(2);
    let mut host = world.start_well(config());
    let before = host.events.len();
    assert_eq!(host.append(&mut world, &["a", "b", "c"]), Ok((5, 7)));
    assert_eq!(host.append(&mut world, &["d"]), Ok((8, 8)));
    assert_eq!(host.raft.high_watermark(), 5, "nothing is synced yet");
    host.settle(&mut world);
    let committed: Vec<_> = host.events[before..]
        .iter()
        .filter_map(|event| match event {
            RaftEvent::Committed {
                base_offset,
                records,
                ..
            } => Some((*base_offset, records.len())),
            _ => None,
        })
        .collect();
    assert_eq!(committed, [(5, 3), (8, 1)]);
}

#[test]
fn append_without_leadership_without_records_or_too_large_changes_nothing() {
    let mut world = World::new(3);
    let mut host = world.start(config());
    let refused = host.append(&mut world, &["a"]);
    let (epoch, leader) = (Epoch(0), None);
    assert_eq!(refused, Err(AppendError::NotLeader { epoch, leader }));
    host.settle(&mut world);
    assert_eq!(host.append(&mut world, &[]), Err(AppendError::Empty));
    let large = "x".repeat(8 << 20);
    assert_eq!(
        host.append(&mut world, &["a", &large]),
        Err(AppendError::TooLarge)
    );
    assert_eq!(host.raft.probe().log_end, 5);
    host.append(&mut world, &["a"]).expect("still the leader");
    host.settle(&mut world);
    assert_eq!(host.fatal, None);
}

#[test]
fn node_outside_the_voters_only_observes() {
    let mut world = World::new(4);
    let voter = Voter {
        id: NodeId(2),
        directory: None,
        endpoints: vec![],
    };
    let mut other = config();
    other.voters = VoterSet::new([voter]);
    let mut host = world.start(other);
    host.settle(&mut world);
    assert_eq!(host.fatal, None);
    assert_eq!(host.raft.probe().role, "Observer");
    assert_eq!(host.raft.probe().voted, None);
}

#[test]
fn one_of_three_voters_never_leads_alone() {
    let mut world = World::new(5);
    let mut three = config();
    three.voters = VoterSet::new((1..=3).map(|id| Voter {
        id: NodeId(id),
        directory: None,
        endpoints: vec![],
    }));
    let mut host = world.start(three);
    host.settle(&mut world);
    assert_eq!(host.fatal, None);
    assert_eq!(host.raft.probe().role, "Unattached");
    assert_eq!(host.raft.probe().log_end, 0);
}

#[test]
fn another_disk_under_the_same_node_is_refused_by_name() {
    let mut world = World::new(6);
    world.start_well(config()).end(&mut world);
    world.directory = Uuid([8; 16]);
    let message = world.start_refused(config());
    assert!(message.contains("another disk"), "{message}");
    assert!(message.contains(&Uuid([7; 16]).to_string()), "{message}");
}

#[test]
fn log_of_another_cluster_is_refused_by_name_before_any_vote() {
    let mut world = World::new(7);
    world.start_well(config()).end(&mut world);
    let path = format!("{FOLDER}/quorum-state");
    let before = world.disk.durable_content(&path).map(<[u8]>::to_vec);
    let mut other = config();
    other.cluster_id = Some("other-cluster".into());
    let message = world.start_refused(other);
    assert!(message.contains("another cluster"), "{message}");
    assert_eq!(world.disk.durable_content(&path), before.as_deref());
}

#[test]
fn voter_by_setting_that_the_cluster_does_not_know_is_refused_by_name() {
    let mut world = World::new(8);
    world.start_well(config()).end(&mut world);
    let mut other = config();
    other.voters = VoterSet::new([Voter {
        id: NodeId(9),
        directory: None,
        endpoints: vec![],
    }]);
    world.node = NodeId(9);
    let message = world.start_refused(other);
    assert!(
        message.contains("not among the cluster's committed voters"),
        "{message}"
    );
}

#[test]
fn missing_quorum_state_is_refused_once_there_are_records() {
    let mut world = World::new(9);
    world.start_well(config()).end(&mut world);
    world.disk.remove(&format!("{FOLDER}/quorum-state"));
    let message = world.start_refused(config());
    assert!(message.contains("quorum-state is missing"), "{message}");
}

#[test]
fn damaged_or_empty_quorum_state_is_refused_and_never_taken_for_a_new_one() {
    let path = format!("{FOLDER}/quorum-state");
    for damage in 0..4 {
        let mut world = World::new(10);
        world.start_well(config()).end(&mut world);
        world.disk.tamper(&path, |bytes| match damage {
            0 => bytes.clear(),
            1 => bytes[30] ^= 1,
            2 => bytes.truncate(20),
            _ => bytes.resize(4096, 0),
        });
        let message = world.start_refused(config());
        assert!(message.contains("quorum-state is damaged"), "{message}");
    }
}

#[test]
fn quorum_state_older_than_the_log_is_refused_by_name() {
    let mut world = World::new(11);
    let path = format!("{FOLDER}/quorum-state");
    world.start_well(config()).end(&mut world);
    let old = world.disk.durable_content(&path).map(<[u8]>::to_vec);
    world.start_well(config()).end(&mut world);
    let old = old.expect("it was written");
    world.disk.tamper(&path, |bytes| *bytes = old);
    let message = world.start_refused(config());
    assert!(message.contains("older copy of the disk"), "{message}");
}

#[test]
fn close_makes_everything_durable_and_takes_nothing_more() {
    let mut world = World::new(12);
    let mut host = world.start_well(config());
    host.append(&mut world, &["a"]).expect("a leader");
    host.close(&mut world);
    assert!(host.events.contains(&RaftEvent::Closed));
    assert!(host.append(&mut world, &["b"]).is_err());
    let point = host.raft.recovery_point();
    assert_eq!(point, host.raft.probe().log_end);
    host.end(&mut world);
    world.disk.power_loss_total();
    let mut clean = config();
    clean.clean = true;
    clean.recovery_point = point;
    world.start_well(clean);
}

/// Ends a founding with the operations done so far, of which everything reached the disk.
fn unfinished(world: &mut World, ops: usize) {
    let mut host = world.start(config());
    while host.performed < ops && host.step(world) {}
    host.end(world);
    world.disk.kill();
}

#[test]
fn founding_that_did_not_end_is_repeated_whatever_is_left_of_the_vote() {
    for left in ["", "{\"leaderId\":-1,", "\0\0\0\0"] {
        let mut world = World::new(5);
        unfinished(&mut world, 3);
        world
            .disk
            .put(&format!("{FOLDER}/quorum-state"), left.as_bytes());
        let host = world.start_well(config());
        assert_eq!(host.state.len(), 2);
    }
}

#[test]
fn torn_vote_beside_a_log_that_was_synced_is_refused() {
    let mut world = World::new(6);
    let host = world.start_well(config());
    host.end(&mut world);
    world.disk.put(&format!("{FOLDER}/quorum-state"), b"");
    let refusal = world.start_refused(config());
    assert!(refusal.contains("is damaged"), "{refusal}");
}

/// Settings of a voter whose identity was drawn just now.
fn stranger() -> RaftConfig {
    RaftConfig {
        is_new_identity: true,
        ..config()
    }
}

#[test]
fn new_identity_takes_over_only_what_a_founding_left_that_did_not_end() {
    for ops in 1..20 {
        let mut world = World::new(7);
        unfinished(&mut world, ops);
        let has_mark = world
            .disk
            .durable_content(&format!("{FOLDER}/synced-mark"))
            .is_some_and(|content| !content.is_empty());
        assert!(!has_mark, "after {ops} operations");
        world.directory = Uuid([8; 16]);
        let mut host = world.start(stranger());
        host.settle(&mut world);
        assert_eq!(host.fatal, None, "after {ops} operations");
        assert!(host.events.contains(&RaftEvent::Founding));
        assert_eq!(host.raft.high_watermark(), 0, "the identity is not durable");
        host.identity_written(&mut world);
        host.settle(&mut world);
        assert_eq!(host.raft.high_watermark(), 5);
    }
}

#[test]
fn folder_that_was_in_use_is_refused_to_a_new_identity() {
    let mut world = World::new(8);
    let mut host = world.start_well(config());
    host.append(&mut world, &["a"]).expect("a leader");
    host.settle(&mut world);
    host.end(&mut world);
    world.directory = Uuid([8; 16]);
    let refusal = world.start_refused(stranger());
    assert!(refusal.contains("meta.properties"), "{refusal}");
}

#[test]
fn peers_hear_nothing_before_a_founding_has_ended() {
    let mut world = World::new(9);
    let mut host = world.start(stranger());
    host.settle(&mut world);
    let candidate = ReplicaKey {
        id: NodeId(9),
        directory: Uuid([9; 16]),
    };
    let vote = VoteRequest {
        cluster_id: None,
        voter: None,
        candidate,
        epoch: Epoch(7),
        last: LogPosition::default(),
        is_pre_vote: false,
    };
    let error = host.asked_by_a_peer(&mut world, PeerRequest::Vote(vote));
    assert_eq!(error, ErrorCode::BrokerNotAvailable);
    assert_eq!(host.raft.epoch(), Epoch(1));
}
