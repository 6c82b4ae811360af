//! One leadership, its fetches and answers given by hand.

use crate::{
    ids::{Epoch, NodeId, Offset},
    planted::PlantedSet,
    replication::{
        FlushRule, FollowerFetch, FollowerProgress, IsrAnswer, IsrMember, IsrProposal, KnownBroker,
        KnownBrokers, LeaderAssignment, Leadership, leadership::LeaderView,
    },
    time::Instant,
};

const LAG_MAX_MS: u64 = 30_000;

fn at(ms: u64) -> Instant {
    Instant::ORIGIN.plus_millis(ms)
}

fn view(min_insync_replicas: usize, ms: u64) -> LeaderView {
    LeaderView {
        now: at(ms),
        min_insync_replicas,
        lag_max_ms: LAG_MAX_MS,
        planted: PlantedSet::NONE,
    }
}

fn assignment(replicas: &[i32], isr: &[i32], partition_epoch: i32) -> LeaderAssignment {
    let ids = |ids: &[i32]| ids.iter().map(|id| NodeId(*id)).collect();
    LeaderAssignment {
        epoch: Epoch(3),
        partition_epoch,
        leader: Some(NodeId(1)),
        local: NodeId(1),
        replicas: ids(replicas),
        adding: 0,
        isr: ids(isr),
    }
}

fn leadership(replicas: &[i32], isr: &[i32]) -> Leadership {
    let assignment = assignment(replicas, isr, 5);
    Leadership::new(&assignment, 10, FlushRule::Durable, at(0))
}

fn fetch(node: i32, fetch_offset: Offset) -> FollowerFetch {
    FollowerFetch {
        node: NodeId(node),
        broker_epoch: i64::from(node) * 10,
        fetch_offset,
        log_start: 0,
    }
}

/// Takes a fetch; returns what it leads to.
fn fetched(
    leader: &mut Leadership,
    fetch: &FollowerFetch,
    is_eligible: bool,
    high_watermark: Offset,
    view: &LeaderView,
) -> Option<IsrProposal> {
    leader.on_fetch(fetch, is_eligible, view.now);
    leader.maybe_expand(high_watermark, view)
}

#[test]
fn high_watermark_of_a_lone_replica_is_its_counted_position() {
    let mut alone = leadership(&[1], &[1]);
    assert_eq!(alone.high_watermark(&view(1, 0)), None, "nothing counts");
    alone.count_local(12);
    assert_eq!(alone.high_watermark(&view(1, 0)), Some(12));
    alone.count_local(11);
    assert_eq!(
        alone.high_watermark(&view(1, 0)),
        Some(12),
        "a counted position does not go back"
    );
    assert_eq!(alone.deadline(LAG_MAX_MS), None);
    assert!(!alone.on_end(20, at(1)), "nobody reads from it");
}

#[test]
fn high_watermark_waits_for_an_isr_member_that_has_not_been_heard_of() {
    let mut leader = leadership(&[1, 2], &[1, 2]);
    leader.count_local(12);
    assert_eq!(leader.high_watermark(&view(1, 0)), None);
    leader.on_end(12, at(1));
    fetched(&mut leader, &fetch(2, 11), true, 0, &view(1, 1));
    assert_eq!(leader.high_watermark(&view(1, 1)), Some(11));
}

#[test]
fn high_watermark_does_not_move_below_the_effective_min_isr() {
    let mut leader = leadership(&[1, 2], &[1]);
    leader.count_local(12);
    assert_eq!(leader.high_watermark(&view(2, 0)), None);
    assert!(!leader.has_min_isr(2));
    let mut alone = leadership(&[1], &[1]);
    alone.count_local(12);
    assert_eq!(
        alone.high_watermark(&view(2, 0)),
        Some(12),
        "one replica cannot need two in sync"
    );
}

#[test]
fn replicas_that_are_being_added_do_not_raise_the_effective_min_isr() {
    let mut assignment = assignment(&[1, 2], &[1], 5);
    assignment.adding = 1;
    let leader = Leadership::new(&assignment, 10, FlushRule::Durable, at(0));
    assert!(leader.has_min_isr(2));
}

#[test]
fn follower_joins_only_past_the_high_watermark_and_the_epoch_start() {
    let mut leader = leadership(&[1, 2], &[1]);
    leader.count_local(12);
    leader.on_end(12, at(1));
    assert_eq!(
        fetched(&mut leader, &fetch(2, 9), true, 8, &view(1, 1)),
        None,
        "past an old high watermark, before the epoch start"
    );
    assert_eq!(
        fetched(&mut leader, &fetch(2, 11), true, 12, &view(1, 2)),
        None,
        "before the high watermark"
    );
    assert_eq!(
        fetched(&mut leader, &fetch(2, 12), false, 12, &view(1, 3)),
        None,
        "not of the registered incarnation"
    );
    let proposal = fetched(&mut leader, &fetch(2, 12), true, 12, &view(1, 4)).unwrap();
    let member = |node, broker_epoch| IsrMember {
        node: NodeId(node),
        broker_epoch,
    };
    assert_eq!(proposal.isr, [member(1, -1), member(2, 20)]);
    assert_eq!(proposal.partition_epoch, 5);
    assert_eq!(
        fetched(&mut leader, &fetch(2, 12), true, 12, &view(1, 5)),
        None,
        "one change in flight at a time"
    );
}

#[test]
fn joining_follower_holds_the_high_watermark_back_from_its_proposal_on() {
    let mut leader = leadership(&[1, 2, 3], &[1, 2]);
    leader.on_end(12, at(1));
    fetched(&mut leader, &fetch(2, 12), true, 10, &view(2, 1));
    assert!(fetched(&mut leader, &fetch(3, 10), true, 10, &view(2, 1)).is_some());
    leader.count_local(12);
    assert_eq!(leader.high_watermark(&view(2, 1)), Some(10));
}

#[test]
fn lagging_member_is_proposed_for_removal_and_counts_until_that_is_committed() {
    let mut leader = leadership(&[1, 2, 3], &[1, 2, 3]);
    fetched(&mut leader, &fetch(2, 10), true, 10, &view(2, 0));
    fetched(&mut leader, &fetch(3, 10), true, 10, &view(2, 0));
    assert_eq!(leader.deadline(LAG_MAX_MS), None, "all have all there is");
    leader.on_end(20, at(1_000));
    leader.count_local(20);
    fetched(&mut leader, &fetch(2, 20), true, 10, &view(2, 2_000));
    assert_eq!(leader.deadline(LAG_MAX_MS), Some(at(31_000)));
    assert_eq!(leader.maybe_shrink(&view(2, 30_999)), None);
    let proposal = leader.maybe_shrink(&view(2, 31_000)).unwrap();
    assert_eq!(proposal.isr.len(), 2);
    assert_eq!(leader.high_watermark(&view(2, 31_000)), Some(10));
    assert_eq!(leader.deadline(LAG_MAX_MS), None);
    leader.on_metadata(&assignment(&[1, 2, 3], &[1, 2], 6));
    assert_eq!(leader.high_watermark(&view(2, 31_000)), Some(20));
}

#[test]
fn refused_removal_is_proposed_again_after_a_pause() {
    let mut leader = leadership(&[1, 2], &[1, 2]);
    leader.on_end(20, at(0));
    let proposal = leader.maybe_shrink(&view(1, 40_000)).unwrap();
    assert!(leader.on_answer(proposal.id, IsrAnswer::NotApplied, at(40_000)));
    let again = leader.deadline(LAG_MAX_MS).unwrap();
    assert_eq!(again, at(40_100));
    let second = leader.maybe_shrink(&view(1, 40_100)).unwrap();
    assert_ne!(second.id, proposal.id);
}

#[test]
fn follower_that_rests_joins_when_the_change_before_it_is_over() {
    let mut leader = leadership(&[1, 2, 3], &[1]);
    assert!(fetched(&mut leader, &fetch(2, 10), true, 10, &view(1, 0)).is_some());
    assert_eq!(
        fetched(&mut leader, &fetch(3, 10), true, 10, &view(1, 1)),
        None
    );
    leader.on_metadata(&assignment(&[1, 2, 3], &[1, 2], 6));
    let proposal = leader.maybe_expand(10, &view(1, 2)).unwrap();
    assert_eq!(proposal.isr.len(), 3);
    leader.on_answer(proposal.id, IsrAnswer::NotApplied, at(3));
    assert_eq!(leader.maybe_expand(10, &view(1, 1_000)), None);
    let mut brokers = KnownBrokers::default();
    let broker = KnownBroker {
        epoch: 30,
        is_active: true,
    };
    brokers.set(NodeId(3), broker);
    leader.on_broker(NodeId(3), &brokers);
    assert!(leader.maybe_expand(10, &view(1, 1_001)).is_some());
}

#[test]
fn replica_that_was_removed_and_added_again_has_to_fetch_anew() {
    let mut leader = leadership(&[1, 2, 3], &[1, 2]);
    fetched(&mut leader, &fetch(3, 8), true, 10, &view(2, 0));
    leader.on_metadata(&assignment(&[1, 2], &[1, 2], 6));
    leader.on_metadata(&assignment(&[1, 2, 3], &[1, 2], 7));
    assert_eq!(
        leader.follower(NodeId(3)).and_then(FollowerProgress::end),
        None
    );
}

#[test]
fn fetch_of_a_broker_that_is_no_replica_moves_nothing() {
    let mut leader = leadership(&[1, 2], &[1, 2]);
    assert_eq!(
        fetched(&mut leader, &fetch(9, 99), true, 10, &view(2, 0)),
        None
    );
    assert!(leader.follower(NodeId(9)).is_none());
}
