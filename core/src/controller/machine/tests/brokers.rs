use super::*;
use crate::controller::{
    image::NO_LEADER,
    messages::{AlterPartitionRequestData, alter_partition_request as asked},
};

/// Three brokers and topic "t" with so many partitions on all of them, led by broker 2.
fn three(partitions: i32) -> (Quorum, [i64; 3]) {
    let mut quorum = Quorum::begun();
    let epochs = [1, 2, 3].map(|id| quorum.join(id, 10 + u8::try_from(id).unwrap()));
    quorum.create_on(&[2, 3, 1], partitions);
    (quorum, epochs)
}

fn broker(quorum: &Quorum, id: i32) -> &crate::controller::image::BrokerImage {
    quorum.controller.committed().broker(NodeId(id)).unwrap()
}

fn leaders(quorum: &Quorum, leader: i32) -> usize {
    let topic = quorum.controller.committed().topic("t").unwrap();
    let led = |partition: &&PartitionImage| partition.leader == NodeId(leader);
    topic.partitions().iter().filter(led).count()
}

#[test]
fn silent_broker_is_fenced_when_its_session_is_over() {
    let mut quorum = Quorum::ready();
    let start = quorum.now;
    quorum.ask(10, create("t"));
    quorum.commit();
    let deadline = quorum.controller.deadline().unwrap();
    assert_eq!(deadline, start.plus_millis(9000));
    quorum.now = start.plus_millis(8999);
    assert!(!quorum.turn());
    quorum.now = deadline;
    quorum.settle();
    quorum.commit();
    assert!(broker(&quorum, 1).fenced);
    assert_eq!(quorum.partition(0).leader, NO_LEADER);
    assert_eq!(
        quorum.batches.last(),
        Some(&2),
        "one batch: the broker and its partition"
    );
    assert_eq!(
        quorum.controller.deadline(),
        Some(start.plus_millis(300_000)),
        "nothing but the periodic looks is left"
    );
}

#[test]
fn new_incarnation_waits_for_the_session_of_the_one_that_lives() {
    let mut quorum = Quorum::ready();
    let epoch = quorum.register(&registration_of(2, 7)).broker_epoch;
    let early = quorum.beat(&heartbeat_of(2, epoch, epoch - 1));
    assert!(early.is_fenced, "fenced, but alive");
    let second = registration_of(2, 8);
    assert_eq!(quorum.register(&second).error_code, 101, "duplicate");
    quorum.now = quorum.now.plus_millis(8000);
    let _ = quorum.beat(&heartbeat_of(2, epoch, epoch));
    quorum.now = quorum.now.plus_millis(8000);
    assert_eq!(
        quorum.register(&second).error_code,
        101,
        "each heartbeat counts"
    );
    quorum.now = quorum.now.plus_millis(1001);
    let later = quorum.register(&second);
    assert_eq!(later.error_code, 0);
    assert_eq!(
        quorum.beat(&heartbeat_of(2, epoch, 99)).error_code,
        77,
        "stale epoch"
    );
    // It has not been heard of yet, so it may be dead already.
    assert_eq!(quorum.register(&registration_of(2, 9)).error_code, 0);
}

#[test]
fn fencing_a_broker_with_many_partitions_lets_requests_through() {
    let (mut quorum, [_, two, _]) = three(2500);
    quorum.batches.clear();
    let fence = BrokerHeartbeatRequestData {
        want_fence: true,
        ..heartbeat_of(2, two, 9999)
    };
    quorum.ask_only(10, ControllerRequest::BrokerHeartbeat(fence));
    quorum.ask_only(11, create("u"));
    quorum.commit();
    assert_eq!(
        quorum.tickets(),
        [10, 11],
        "nobody waits for all partitions"
    );
    assert!(quorum.turn() || quorum.partition(2499).leader == NodeId(3));
    quorum.settle();
    quorum.commit();
    assert_eq!(quorum.batches, [1001, 1002, 500]);
    assert_eq!((leaders(&quorum, 2), leaders(&quorum, 3)), (0, 2500));
    assert!(!quorum.log.is_empty());
}

#[test]
fn next_controller_goes_on_where_the_log_ends() {
    let (mut quorum, [_, two, _]) = three(2500);
    let fence = BrokerHeartbeatRequestData {
        want_fence: true,
        ..heartbeat_of(2, two, 9999)
    };
    quorum.ask_only(10, ControllerRequest::BrokerHeartbeat(fence));
    quorum.commit();
    quorum.controller.resign();
    assert_eq!(leaders(&quorum, 3), 1000);
    quorum.lead();
    quorum.settle();
    quorum.commit();
    assert_eq!(leaders(&quorum, 3), 2500);
    assert_eq!(
        quorum
            .controller
            .committed()
            .partitions_in_sync_with(NodeId(2))
            .count(),
        0
    );
}

#[test]
fn registration_that_is_not_through_is_refused_when_the_controller_resigns() {
    let (mut quorum, _) = three(1500);
    quorum.now = quorum.now.plus_millis(9000);
    let restarted = ControllerRequest::RegisterBroker(registration_of(2, 99));
    quorum.ask_only(10, restarted.clone());
    quorum.commit();
    assert!(quorum.replies.is_empty(), "its partitions come first");
    quorum.controller.resign();
    quorum.drain();
    assert_eq!(quorum.replies, [(10, ControllerReply::NotController)]);
    quorum.replies.clear();
    quorum.lead();
    quorum.settle();
    quorum.ask(11, restarted);
    quorum.commit();
    match quorum.replies.pop() {
        Some((11, ControllerReply::RegisterBroker(reply))) => {
            assert_eq!(
                reply.broker_epoch,
                quorum.end() - 1,
                "the offset of its record"
            );
            assert_eq!(broker(&quorum, 2).epoch, reply.broker_epoch);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn stopping_broker_waits_until_all_others_have_read_that_it_leads_nothing() {
    let (mut quorum, [one, two, three]) = three(2);
    let end = quorum.end();
    let stop = |offset| BrokerHeartbeatRequestData {
        want_shut_down: true,
        ..heartbeat_of(2, two, offset)
    };
    for (id, epoch) in [(1, one), (3, three)] {
        let _ = quorum.beat(&heartbeat_of(id, epoch, end));
    }
    let first = quorum.beat(&stop(end));
    assert!(!first.should_shut_down && !first.is_fenced);
    assert_eq!(leaders(&quorum, 3), 2);
    let last = quorum.end() - 1;
    assert!(!quorum.beat(&stop(last)).should_shut_down);
    let _ = quorum.beat(&heartbeat_of(1, one, last));
    assert!(!quorum.beat(&stop(last)).should_shut_down, "broker 3 lags");
    let _ = quorum.beat(&heartbeat_of(3, three, last));
    let done = quorum.beat(&stop(last));
    assert!(done.should_shut_down && done.is_fenced);
    assert!(broker(&quorum, 2).fenced);
    assert!(
        quorum.beat(&stop(last)).should_shut_down,
        "asked again, answered again"
    );
    let restarted = quorum.register(&registration_of(2, 99));
    assert_eq!(restarted.error_code, 0, "what was let go need not run out");
}

#[test]
fn controller_that_takes_over_a_shutdown_asks_the_others_anew() {
    let (mut quorum, [one, two, three]) = three(1);
    let stop = BrokerHeartbeatRequestData {
        want_shut_down: true,
        ..heartbeat_of(2, two, 99)
    };
    let _ = quorum.beat(&stop);
    quorum.controller.resign();
    quorum.lead();
    quorum.settle();
    assert!(!quorum.beat(&stop).should_shut_down);
    for (id, epoch) in [(1, one), (3, three)] {
        let _ = quorum.beat(&heartbeat_of(id, epoch, quorum.end() - 1));
    }
    assert!(quorum.beat(&stop).should_shut_down);
}

#[test]
fn preferred_leader_gets_its_partitions_back_in_time() {
    let (mut quorum, [one, _, three]) = three(3);
    let start = quorum.now;
    quorum.now = start.plus_millis(8000);
    for (id, epoch) in [(1, one), (3, three)] {
        let _ = quorum.beat(&heartbeat_of(id, epoch, 99));
    }
    quorum.now = start.plus_millis(9000);
    quorum.settle();
    quorum.commit();
    assert_eq!(leaders(&quorum, 3), 3);
    let two = quorum.join(2, 40);
    let rejoined = (0..3).map(|number| {
        let partition = quorum.partition(number);
        let member = |(id, epoch): &(i32, i64)| asked::BrokerState {
            broker_id: *id,
            broker_epoch: *epoch,
            ..asked::BrokerState::default()
        };
        asked::PartitionData {
            partition_index: number,
            leader_epoch: partition.leader_epoch.0,
            partition_epoch: partition.partition_epoch,
            new_isr_with_epochs: [(3, three), (1, one), (2, two)]
                .iter()
                .map(member)
                .collect(),
            ..asked::PartitionData::default()
        }
    });
    let request = AlterPartitionRequestData {
        broker_id: 3,
        broker_epoch: three,
        topics: vec![asked::TopicData {
            topic_id: wire_uuid(quorum.controller.committed().topic("t").unwrap().id()),
            partitions: rejoined.collect(),
            ..asked::TopicData::default()
        }],
        ..AlterPartitionRequestData::default()
    };
    quorum.ask(12, ControllerRequest::AlterPartition(request, 3));
    quorum.commit();
    assert_eq!(leaders(&quorum, 3), 3);
    // Everybody goes on being heard of until the look is due.
    while quorum.now < start.plus_millis(300_000) {
        quorum.now = quorum.now.plus_millis(3000);
        for (id, epoch) in [(1, one), (2, two), (3, three)] {
            let _ = quorum.beat(&heartbeat_of(id, epoch, 9999));
        }
    }
    quorum.settle();
    quorum.commit();
    assert_eq!(leaders(&quorum, 2), 3);
}

#[test]
fn allowing_unclean_leaders_elects_one_at_once() {
    let (mut quorum, [one, two, three]) = three(1);
    for (id, epoch) in [(3, three), (2, two)] {
        let fence = BrokerHeartbeatRequestData {
            want_fence: true,
            ..heartbeat_of(id, epoch, 9999)
        };
        let _ = quorum.beat(&fence);
    }
    assert_eq!(quorum.partition(0).leader, NodeId(1));
    let leave = BrokerHeartbeatRequestData {
        want_fence: true,
        ..heartbeat_of(1, one, 9999)
    };
    let _ = quorum.beat(&leave);
    assert_eq!(
        (quorum.partition(0).leader, quorum.partition(0).elr.len()),
        (NO_LEADER, 1)
    );
    let _ = quorum.beat(&heartbeat_of(3, three, 9999));
    assert_eq!(
        quorum.partition(0).leader,
        NO_LEADER,
        "not in sync, not eligible"
    );
    quorum.ask(13, set_config("t", UNCLEAN_LEADER_ELECTION, "true"));
    let changes = quorum.commit();
    assert_eq!(quorum.partition(0).leader, NodeId(3));
    let told = |change: &Change| matches!(change, Change::LeaderElectedUncleanly { .. });
    assert!(changes.iter().any(told));
}

#[test]
fn controller_that_slept_hears_what_was_sent_meanwhile() {
    let (mut quorum, [one, two, three]) = three(1);
    quorum.now = quorum.now.plus_millis(60_000);
    quorum.turn();
    quorum.commit();
    assert!(!broker(&quorum, 2).fenced, "its heartbeats may lie unread");
    for (id, epoch) in [(1, one), (2, two)] {
        let _ = quorum.beat(&heartbeat_of(id, epoch, 9999));
    }
    let _ = three;
    quorum.now = quorum.now.plus_millis(2000);
    quorum.settle();
    quorum.commit();
    assert!(!broker(&quorum, 2).fenced);
    assert!(broker(&quorum, 3).fenced, "nothing came");
}
