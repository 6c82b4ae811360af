//! Fetch requests over many partitions, and proposals to the controller, with the other side played by hand.

use crate::{
    ids::{Epoch, NodeId, Offset, Uuid},
    protocol::ErrorCode,
    replication::{
        AlterPartitionAsk, FetchAnswer, FetchAsk, FetchPosition, FetchedPartition, Fetcher,
        FetcherAsk, Fetchers, IsrAnswer, IsrMember, IsrProposal, IsrProposals, LeaderOffset,
        OffsetQuestion, PartitionAltered, ProposalId, Readiness, ReplicationConfig, SlotId,
        TopicIdPartition,
    },
    storage::Owner,
    time::Instant,
};

fn at(ms: u64) -> Instant {
    Instant::ORIGIN.plus_millis(ms)
}

/// The slot whose operations this owner submits; slots are made by the table alone.
fn slot(number: u32) -> SlotId {
    SlotId::of(Owner(64 + number)).unwrap()
}

fn key(number: u32) -> TopicIdPartition {
    TopicIdPartition {
        topic_id: Uuid([1; 16]),
        partition: i32::try_from(number).unwrap(),
    }
}

fn position(offset: Offset) -> FetchPosition {
    FetchPosition {
        leader_epoch: Epoch(3),
        offset,
        last_fetched_epoch: Some(Epoch(2)),
        log_start: 0,
        high_watermark: 0,
    }
}

/// What partitions 0, 1, … would ask.
type World = Vec<Readiness>;

fn fetching(offsets: &[Offset]) -> World {
    let ready = offsets
        .iter()
        .map(|offset| Readiness::Fetch(position(*offset)));
    ready.collect()
}

fn poll(fetcher: &mut Fetcher, ms: u64, world: &World) -> Option<FetcherAsk> {
    fetcher.poll(at(ms), |asked| {
        let at = (0..).find(|number| slot(*number) == asked).unwrap();
        world[usize::try_from(at).unwrap()]
    })
}

fn fetch(fetcher: &mut Fetcher, ms: u64, world: &World) -> FetchAsk {
    match poll(fetcher, ms, world) {
        Some(FetcherAsk::Fetch(ask)) => ask,
        other => panic!("a fetch was expected, not {other:?}"),
    }
}

fn following(world: &World) -> Fetcher {
    let mut fetcher = Fetcher::new(ReplicationConfig::default());
    for number in 0..u32::try_from(world.len()).unwrap() {
        fetcher.follow(slot(number), key(number));
    }
    fetcher
}

fn answer(session_id: i32, partitions: &[u32]) -> FetchAnswer {
    let partitions = partitions.iter();
    FetchAnswer {
        error: ErrorCode::None,
        session_id,
        partitions: partitions
            .map(|number| (key(*number), FetchedPartition::default()))
            .collect(),
    }
}

fn wanted(ask: &FetchAsk) -> Vec<i32> {
    ask.wanted
        .iter()
        .map(|want| want.partition.partition)
        .collect()
}

/// Opens session 9 over all partitions of the world.
fn opened(world: &World) -> Fetcher {
    let mut fetcher = following(world);
    let ask = fetch(&mut fetcher, 0, world);
    assert_eq!((ask.session_id, ask.session_epoch), (0, 0));
    let all: Vec<u32> = (0..u32::try_from(world.len()).unwrap()).collect();
    let delivered = fetcher.on_fetched(at(0), ask.number, answer(9, &all));
    assert_eq!(delivered.len(), world.len());
    fetcher
}

#[test]
fn session_names_only_what_changed_and_one_request_is_in_flight() {
    let mut world = fetching(&[10, 20, 30]);
    let mut fetcher = opened(&world);
    world[1] = Readiness::Fetch(position(25));
    fetcher.wake(slot(1));
    fetcher.wake(slot(2));
    let ask = fetch(&mut fetcher, 1, &world);
    assert_eq!((ask.session_id, ask.session_epoch), (9, 1));
    assert_eq!(wanted(&ask), [1], "partition 2 stands where it stood");
    assert_eq!(poll(&mut fetcher, 1, &world), None);
    let delivered = fetcher.on_fetched(at(2), ask.number, answer(9, &[2]));
    assert_eq!(delivered[0].slot, slot(2));
    assert_eq!(delivered[0].sent, position(30));
    assert_eq!(fetch(&mut fetcher, 2, &world).session_epoch, 2);
}

#[test]
fn partition_that_waits_for_its_group_commit_holds_the_next_request_but_not_for_long() {
    let mut world = fetching(&[10, 20]);
    let mut fetcher = opened(&world);
    world[0] = Readiness::Soon;
    fetcher.wake(slot(0));
    assert_eq!(poll(&mut fetcher, 1, &world), None);
    assert_eq!(fetcher.deadline(), Some(at(501)));
    let ask = fetch(&mut fetcher, 501, &world);
    assert_eq!(
        ask.forgotten,
        [key(0)],
        "the leader must not send it the same again"
    );
    fetcher.on_fetched(at(502), ask.number, answer(9, &[]));
    world[0] = Readiness::Fetch(position(15));
    fetcher.wake(slot(0));
    assert_eq!(wanted(&fetch(&mut fetcher, 502, &world)), [0]);
}

#[test]
fn lost_answer_begins_a_new_session_and_a_late_one_is_dropped() {
    let world = fetching(&[10]);
    let mut fetcher = opened(&world);
    let lost = fetch(&mut fetcher, 1, &world);
    fetcher.on_failed(at(100), lost.number);
    assert_eq!(
        poll(&mut fetcher, 1_099, &world),
        None,
        "after the back-off"
    );
    let ask = fetch(&mut fetcher, 1_100, &world);
    assert_eq!((ask.session_id, ask.session_epoch), (9, 0));
    assert_eq!(wanted(&ask), [0]);
    assert!(
        fetcher
            .on_fetched(at(1_101), lost.number, answer(9, &[0]))
            .is_empty()
    );
    assert_eq!(
        fetcher
            .on_fetched(at(1_102), ask.number, answer(10, &[0]))
            .len(),
        1
    );
    assert_eq!(fetch(&mut fetcher, 1_103, &world).session_id, 10);
}

#[test]
fn session_that_is_gone_is_replaced_at_once() {
    let world = fetching(&[10]);
    let mut fetcher = opened(&world);
    let ask = fetch(&mut fetcher, 1, &world);
    let gone = FetchAnswer {
        error: ErrorCode::FetchSessionIdNotFound,
        ..FetchAnswer::default()
    };
    assert!(fetcher.on_fetched(at(2), ask.number, gone).is_empty());
    let ask = fetch(&mut fetcher, 2, &world);
    assert_eq!((ask.session_id, ask.session_epoch), (0, 0));
    fetcher.on_fetched(at(3), ask.number, answer(0, &[0]));
    let ask = fetch(&mut fetcher, 4, &world);
    assert_eq!(
        (ask.session_id, ask.session_epoch),
        (0, 0),
        "none was granted"
    );
    assert_eq!(wanted(&ask), [0]);
}

#[test]
fn answer_about_another_set_of_partitions_ends_the_session() {
    let world = fetching(&[10, 20]);
    let mut fetcher = following(&world);
    let ask = fetch(&mut fetcher, 0, &world);
    assert!(
        fetcher
            .on_fetched(at(1), ask.number, answer(9, &[0]))
            .is_empty()
    );
    let ask = fetch(&mut fetcher, 2_000, &world);
    assert_eq!((ask.session_id, ask.session_epoch), (9, 0));
    fetcher.on_fetched(at(2_001), ask.number, answer(10, &[0, 1]));
    let ask = fetch(&mut fetcher, 2_002, &world);
    assert!(
        fetcher
            .on_fetched(at(2_003), ask.number, answer(10, &[7]))
            .is_empty()
    );
}

#[test]
fn question_about_offsets_goes_out_once_and_the_partition_leaves_the_session() {
    let mut world = fetching(&[10, 20]);
    let mut fetcher = opened(&world);
    let question = OffsetQuestion {
        leader_epoch: Epoch(3),
        which: LeaderOffset::End,
    };
    world[0] = Readiness::Ask(question);
    fetcher.wake(slot(0));
    let Some(FetcherAsk::Offset(ask)) = poll(&mut fetcher, 1, &world) else {
        panic!("a question was expected");
    };
    assert_eq!(fetch(&mut fetcher, 1, &world).forgotten, [key(0)]);
    fetcher.wake(slot(0));
    assert_eq!(poll(&mut fetcher, 1, &world), None);
    assert_eq!(fetcher.on_offset(ask.number), Some((slot(0), question)));
    assert_eq!(fetcher.on_offset(ask.number), None);
}

#[test]
fn partition_follows_one_leader_at_a_time() {
    let mut fetchers = Fetchers::new(ReplicationConfig::default());
    fetchers.follow(slot(0), key(0), NodeId(1));
    fetchers.follow(slot(0), key(0), NodeId(2));
    assert_eq!(fetchers.leaders().collect::<Vec<_>>(), [NodeId(2)]);
    let asked = fetchers.poll(at(0), |_| Readiness::Fetch(position(10)));
    assert!(matches!(asked, Some((NodeId(2), FetcherAsk::Fetch(_)))));
    fetchers.unfollow(slot(0));
    assert_eq!(fetchers.leaders().count(), 0);
}

fn proposal(number: u64) -> IsrProposal {
    IsrProposal {
        id: ProposalId {
            leader_epoch: Epoch(3),
            number,
        },
        partition_epoch: 5,
        isr: vec![IsrMember {
            node: NodeId(1),
            broker_epoch: -1,
        }],
    }
}

fn altered(error: ErrorCode) -> PartitionAltered {
    PartitionAltered {
        partition: key(0),
        error,
        leader_epoch: Epoch(3),
        partition_epoch: 6,
    }
}

fn asked(proposals: &mut IsrProposals, ms: u64) -> AlterPartitionAsk {
    proposals.poll(at(ms), NodeId(1), 77).unwrap()
}

#[test]
fn lost_request_is_sent_again_and_a_settled_one_is_not() {
    let mut proposals = IsrProposals::default();
    proposals.submit(slot(0), key(0), proposal(1));
    let ask = asked(&mut proposals, 0);
    assert_eq!(
        ask.alterations[0].proposal.isr[0].broker_epoch, 77,
        "the leader's own epoch is filled in"
    );
    assert_eq!(proposals.poll(at(0), NodeId(1), 77), None);
    proposals.on_failed(at(10), ask.number);
    assert_eq!(proposals.poll(at(10), NodeId(1), 77), None);
    let again = asked(&mut proposals, 60);
    let late = proposals.on_answer(at(61), ask.number, Ok(&[altered(ErrorCode::None)]));
    assert!(late.is_empty(), "nobody waits for it any more");
    let settled = proposals.on_answer(at(62), again.number, Ok(&[altered(ErrorCode::None)]));
    assert_eq!(
        settled[0].answer,
        IsrAnswer::Accepted { partition_epoch: 6 }
    );
    assert_eq!(proposals.poll(at(1_000), NodeId(1), 77), None);
}

#[test]
fn controller_that_is_none_is_not_believed_and_one_that_refuses_is() {
    let mut proposals = IsrProposals::default();
    proposals.submit(slot(0), key(0), proposal(1));
    let ask = asked(&mut proposals, 0);
    let refused = Err(ErrorCode::NotController);
    assert!(proposals.on_answer(at(0), ask.number, refused).is_empty());
    let ask = asked(&mut proposals, 50);
    let moved = altered(ErrorCode::NotController);
    assert!(
        proposals
            .on_answer(at(50), ask.number, Ok(&[moved]))
            .is_empty()
    );
    let ask = asked(&mut proposals, 100);
    let behind = altered(ErrorCode::InvalidUpdateVersion);
    let settled = proposals.on_answer(at(100), ask.number, Ok(&[behind]));
    assert_eq!(settled[0].answer, IsrAnswer::AwaitMetadata);
}

#[test]
fn newer_proposal_survives_the_answer_to_an_older_one() {
    let mut proposals = IsrProposals::default();
    proposals.submit(slot(0), key(0), proposal(1));
    let ask = asked(&mut proposals, 0);
    proposals.submit(slot(0), key(0), proposal(2));
    let refused = altered(ErrorCode::IneligibleReplica);
    let settled = proposals.on_answer(at(1), ask.number, Ok(&[refused]));
    assert_eq!(settled[0].id, proposal(1).id);
    assert_eq!(asked(&mut proposals, 1).alterations[0].proposal, {
        let mut second = proposal(2);
        second.isr[0].broker_epoch = 77;
        second
    });
}
