//! Who leads, and who must not: founding, failover, disturbance, identity.

use crate::{
    ids::{Epoch, Uuid},
    raft::{CallId, PeerRequest, RaftEvent, VoteRequest, tests::disk::Disk},
};

use super::{End, Quorum};

fn fatal(quorum: &Quorum, id: usize) -> String {
    quorum.live(id).fatal.clone().expect("a refusal")
}

fn others(leader: usize) -> [usize; 2] {
    let mut others = (1..=3).filter(|id| *id != leader);
    [others.next().unwrap(), others.next().unwrap()]
}

#[test]
fn voters_found_a_cluster_with_one_id_and_all_their_directories() {
    for seed in 0..20 {
        let mut quorum = Quorum::founded(seed, 3, 1);
        assert!(
            quorum.run_until(3_000, Quorum::is_settled),
            "{:?}",
            quorum.probes()
        );
        quorum.check();
        let id = quorum.at(1).cluster_id.clone().expect("a cluster");
        for node in &quorum.nodes {
            assert_eq!(node.cluster_id.as_ref(), Some(&id));
            let raft = &node.live.as_ref().expect("it runs").raft;
            assert!(raft.voters().all_directories_known());
            assert_eq!(raft.voters().len(), 3);
        }
    }
}

#[test]
fn cluster_is_not_founded_while_a_voter_is_missing() {
    let mut quorum = Quorum::new(1, 3, 0);
    quorum.start(1);
    quorum.start(3);
    quorum.run(20_000);
    assert_eq!(quorum.leader(), None);
    assert_eq!(quorum.epoch(), Epoch(0), "nobody is disturbed");
    quorum.start(2);
    assert!(quorum.run_until(20_000, |quorum| quorum.leader().is_some()));
    quorum.check();
}

#[test]
fn voter_with_an_emptied_disk_is_refused_by_name_and_gives_no_vote() {
    let mut quorum = Quorum::founded(2, 3, 0);
    quorum.run_until(3_000, Quorum::is_settled);
    let leader = quorum.leader().unwrap();
    let [emptied, _] = others(leader);
    quorum.end(emptied, End::Kill);
    quorum.at(emptied).disk = Disk::default();
    quorum.start(emptied);
    quorum.run(5_000);
    let message = fatal(&quorum, emptied);
    assert!(message.contains("must not vote again"), "{message}");
    assert_eq!(quorum.live(emptied).raft.probe().voted, None);
    assert!(quorum.append(leader));
    quorum.run(2_000);
    assert_eq!(quorum.ghost.violation, None);
    assert_eq!(
        quorum.live(leader).raft.probe().high_watermark,
        quorum.ghost.end
    );
}

#[test]
fn voter_with_another_disk_is_refused_by_name() {
    let mut quorum = Quorum::founded(3, 3, 0);
    quorum.run_until(3_000, Quorum::is_settled);
    let [replaced, _] = others(quorum.leader().unwrap());
    quorum.end(replaced, End::Kill);
    quorum.at(replaced).disk = Disk::default();
    quorum.at(replaced).key.directory = Uuid([99; 16]);
    quorum.at(replaced).cluster_id = None;
    quorum.start(replaced);
    quorum.run(5_000);
    let message = fatal(&quorum, replaced);
    assert!(message.contains("this is another disk"), "{message}");
}

#[test]
fn emptied_voters_neither_elect_a_stale_one_nor_found_the_cluster_anew() {
    for keeps_directory in [true, false] {
        let mut quorum = Quorum::founded(4, 3, 0);
        let leader = quorum.leader().unwrap();
        let [first, second] = others(leader);
        quorum.end(first, End::Kill);
        for _ in 0..5 {
            quorum.append(leader);
        }
        quorum.run(1_000);
        quorum.end(leader, End::Kill);
        quorum.end(second, End::Kill);
        for emptied in [leader, second] {
            quorum.at(emptied).disk = Disk::default();
            if !keeps_directory {
                quorum.at(emptied).key.directory = Uuid([50; 16]);
                quorum.at(emptied).cluster_id = None;
            }
        }
        for id in 1..=3 {
            quorum.start(id);
        }
        quorum.run(20_000);
        assert_eq!(quorum.leader(), None, "{:?}", quorum.probes());
        assert_eq!(quorum.ghost.violation, None);
    }
}

#[test]
fn node_of_another_cluster_is_refused_by_name() {
    let mut quorum = Quorum::founded(5, 3, 1);
    quorum.end(4, End::Kill);
    quorum.at(4).disk = Disk::default();
    quorum.at(4).cluster_id = Some("somewhere-else".into());
    quorum.start(4);
    quorum.run(5_000);
    let message = fatal(&quorum, 4);
    assert!(message.contains("another cluster"), "{message}");
}

#[test]
fn survivors_elect_a_leader_and_the_old_one_comes_back_as_a_follower() {
    for seed in 0..10 {
        let mut quorum = Quorum::founded(seed, 3, 0);
        let old = quorum.leader().unwrap();
        quorum.append(old);
        quorum.run(500);
        quorum.end(old, End::Power);
        let elected = quorum.run_until(10_000, |quorum| quorum.leader().is_some());
        assert!(elected, "{:?}", quorum.probes());
        quorum.start(old);
        assert!(
            quorum.run_until(10_000, Quorum::is_settled),
            "{:?}",
            quorum.probes()
        );
        assert_ne!(quorum.leader(), Some(old));
        quorum.check();
    }
}

#[test]
fn replica_that_was_cut_off_does_not_depose_the_leader() {
    for seed in 0..10 {
        let mut quorum = Quorum::founded(seed, 3, 0);
        quorum.run_until(3_000, Quorum::is_settled);
        let (leader, epoch) = (quorum.leader().unwrap(), quorum.epoch());
        let [lonely, _] = others(leader);
        quorum.isolate(lonely);
        quorum.run(15_000);
        quorum.heal();
        quorum.run(10_000);
        assert_eq!((quorum.leader(), quorum.epoch()), (Some(leader), epoch));
        assert!(quorum.is_settled());
        quorum.check();
    }
}

#[test]
fn replica_that_only_itself_cannot_hear_the_leader_disturbs_nobody() {
    let mut quorum = Quorum::founded(7, 3, 0);
    quorum.run_until(3_000, Quorum::is_settled);
    let (leader, epoch) = (quorum.leader().unwrap(), quorum.epoch());
    let [deaf, _] = others(leader);
    quorum.cut(leader, deaf);
    for _ in 0..20 {
        quorum.append(leader);
        quorum.run(1_000);
    }
    assert_eq!((quorum.leader(), quorum.epoch()), (Some(leader), epoch));
    quorum.heal();
    assert!(quorum.run_until(5_000, Quorum::is_settled));
    assert_eq!(quorum.epoch(), epoch);
    quorum.check();
}

#[test]
fn leader_without_a_majority_resigns_and_commits_nothing_more() {
    let mut quorum = Quorum::founded(8, 3, 0);
    quorum.run_until(3_000, Quorum::is_settled);
    let old = quorum.leader().unwrap();
    let (epoch, end) = (quorum.epoch(), quorum.ghost.end);
    quorum.isolate(old);
    assert!(quorum.append(old));
    quorum.run(4_000);
    let lost = RaftEvent::LostLeadership { epoch };
    assert!(quorum.live(old).events.contains(&lost));
    assert!(!quorum.append(old), "it leads no more");
    assert_eq!(quorum.live(old).raft.high_watermark(), end);
    assert!(quorum.run_until(6_000, |quorum| quorum.leader().is_some()));
    quorum.heal();
    assert!(
        quorum.run_until(10_000, Quorum::is_settled),
        "{:?}",
        quorum.probes()
    );
    quorum.check();
}

#[test]
fn vote_asked_for_in_an_epoch_that_has_a_leader_changes_nothing() {
    let mut quorum = Quorum::founded(12, 3, 0);
    quorum.run_until(3_000, Quorum::is_settled);
    let (leader, epoch) = (quorum.leader().unwrap(), quorum.epoch());
    let [follower, rival] = others(leader);
    for asked in [leader, follower] {
        let candidate = quorum.at(rival).key;
        let request = PeerRequest::Vote(VoteRequest {
            cluster_id: None,
            voter: None,
            candidate,
            epoch,
            last: quorum.live(leader).raft.last_position(),
            is_pre_vote: false,
        });
        let role = quorum.live(asked).raft.probe().role;
        quorum.act(asked, |node, moment| {
            node.take_request(moment, (candidate.id, CallId(1)), request)
        });
        assert_eq!(quorum.live(asked).raft.probe().role, role);
    }
    quorum.run(5_000);
    assert_eq!((quorum.leader(), quorum.epoch()), (Some(leader), epoch));
    quorum.check();
}

#[test]
fn closed_leader_hands_over_without_a_timeout() {
    for seed in 0..10 {
        let mut quorum = Quorum::founded(seed, 3, 0);
        quorum.run_until(3_000, Quorum::is_settled);
        let old = quorum.leader().unwrap();
        quorum.act(old, |node, moment| {
            node.call(moment, |raft, cx| raft.close(cx))
        });
        let is_over = quorum.run_until(700, |quorum| {
            quorum.live(old).is_closed && quorum.leader().is_some()
        });
        assert!(is_over, "{:?}", quorum.probes());
        assert_ne!(quorum.leader(), Some(old));
        quorum.check();
    }
}

#[test]
fn closed_leader_whose_peers_are_silent_closes_all_the_same() {
    let mut quorum = Quorum::founded(9, 3, 0);
    let old = quorum.leader().unwrap();
    quorum.isolate(old);
    quorum.act(old, |node, moment| {
        node.call(moment, |raft, cx| raft.close(cx))
    });
    assert!(quorum.run_until(2_500, |quorum| quorum.live(old).is_closed));
    quorum.check();
}

#[test]
fn five_voters_elect_with_two_missing_and_not_with_three() {
    let mut quorum = Quorum::founded(10, 5, 0);
    quorum.run_until(3_000, Quorum::is_settled);
    let leader = quorum.leader().unwrap();
    let other = leader % 5 + 1;
    quorum.end(leader, End::Power);
    quorum.end(other, End::Power);
    assert!(quorum.run_until(10_000, |quorum| quorum.leader().is_some()));
    let next = quorum.leader().unwrap();
    quorum.end(next, End::Power);
    quorum.run(10_000);
    assert_eq!(quorum.leader(), None);
    quorum.start(leader);
    assert!(quorum.run_until(10_000, |quorum| quorum.leader().is_some()));
    quorum.check();
}
