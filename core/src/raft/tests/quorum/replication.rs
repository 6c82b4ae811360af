//! Entries on their way to a majority, and off the logs where they were not committed.

use bytes::Bytes;

use crate::{
    raft::{FetchNews, ReplyBody},
    storage::Part,
};

use super::{End, Message, Quorum};

fn states(quorum: &Quorum) -> Vec<Vec<Bytes>> {
    (1..=quorum.nodes.len())
        .map(|id| quorum.live(id).state.clone())
        .collect()
}

#[test]
fn record_is_committed_on_every_replica_and_observer() {
    let mut quorum = Quorum::founded(1, 3, 2);
    quorum.run_until(3_000, Quorum::is_settled);
    let leader = quorum.leader().unwrap();
    for _ in 0..50 {
        assert!(quorum.append(leader));
        quorum.run(20);
    }
    assert!(quorum.run_until(1_000, Quorum::is_settled));
    let states = states(&quorum);
    assert_eq!(states[0].len(), 2 + 50);
    assert!(states.iter().all(|state| *state == states[0]));
    quorum.check();
}

#[test]
fn commit_reaches_followers_without_waiting_for_a_poll() {
    let mut quorum = Quorum::founded(2, 3, 0);
    quorum.run_until(3_000, Quorum::is_settled);
    quorum.run(700);
    let leader = quorum.leader().unwrap();
    quorum.append(leader);
    assert!(
        quorum.run_until(60, Quorum::is_settled),
        "{:?}",
        quorum.probes()
    );
    quorum.check();
}

#[test]
fn what_an_isolated_leader_wrote_is_cut_off_and_what_others_committed_stays() {
    for seed in 0..20 {
        let mut quorum = Quorum::founded(seed, 3, 0);
        quorum.run_until(3_000, Quorum::is_settled);
        let old = quorum.leader().unwrap();
        quorum.isolate(old);
        for _ in 0..3 {
            assert!(quorum.append(old));
        }
        let is_other = |quorum: &Quorum| quorum.leader().is_some_and(|id| id != old);
        assert!(quorum.run_until(10_000, is_other), "{:?}", quorum.probes());
        let new = quorum.leader().unwrap();
        quorum.append(new);
        quorum.run(500);
        if seed % 2 == 0 {
            quorum.end(old, End::Kill);
            quorum.start(old);
        }
        quorum.heal();
        assert!(
            quorum.run_until(10_000, Quorum::is_settled),
            "{:?}",
            quorum.probes()
        );
        let states = states(&quorum);
        assert!(states.iter().all(|state| *state == states[0]));
        assert_eq!(states[0].len(), 2 + 1);
        quorum.check();
    }
}

#[test]
fn power_loss_of_all_replicas_at_once_loses_nothing_committed() {
    for seed in 0..20 {
        let mut quorum = Quorum::founded(seed, 3, 0);
        let leader = quorum.leader().unwrap();
        for _ in 0..5 {
            quorum.append(leader);
            quorum.run(3);
        }
        for id in 1..=3 {
            quorum.end(
                id,
                if seed % 2 == 0 {
                    End::TotalPower
                } else {
                    End::Power
                },
            );
        }
        for id in 1..=3 {
            quorum.start(id);
        }
        assert!(
            quorum.run_until(10_000, Quorum::is_settled),
            "{:?}",
            quorum.probes()
        );
        assert_eq!(quorum.live(1).state.len(), quorum.ghost.committed.len());
        quorum.check();
    }
}

#[test]
fn damaged_answer_is_dropped_and_fetched_again() {
    let mut quorum = Quorum::founded(4, 3, 0);
    quorum.run_until(3_000, Quorum::is_settled);
    let leader = quorum.leader().unwrap();
    let mut damaged = 0;
    for _ in 0..40 {
        quorum.append(leader);
        for _ in 0..60 {
            quorum.step(u64::MAX);
            for message in quorum.messages.values_mut() {
                damaged += usize::from(damaged < 30 && damage(message));
            }
        }
    }
    assert!(damaged >= 30, "only {damaged} answers were damaged");
    assert!(
        quorum.run_until(5_000, Quorum::is_settled),
        "{:?}",
        quorum.probes()
    );
    quorum.check();
}

/// Flips a bit in the records of an answer.
fn damage(message: &mut Message) -> bool {
    let Message::Reply(_, _, _, Ok(reply)) = message else {
        return false;
    };
    let ReplyBody::Fetch(fetch) = &mut reply.body else {
        return false;
    };
    let FetchNews::Records(parts) = &mut fetch.news else {
        return false;
    };
    let Some(Part::Bytes(bytes)) = parts.first_mut() else {
        return false;
    };
    let mut bad = bytes.to_vec();
    let at = bad.len() / 2;
    bad[at] ^= 4;
    *bytes = Bytes::from(bad);
    true
}

#[test]
fn single_voter_commits_alone_and_its_observers_follow() {
    let mut quorum = Quorum::founded(5, 1, 2);
    quorum.run_until(3_000, Quorum::is_settled);
    quorum.append(1);
    assert!(
        quorum.run_until(3_000, Quorum::is_settled),
        "{:?}",
        quorum.probes()
    );
    quorum.end(1, End::TotalPower);
    quorum.start(1);
    assert!(
        quorum.run_until(10_000, Quorum::is_settled),
        "{:?}",
        quorum.probes()
    );
    quorum.check();
}

#[test]
fn idle_quorum_sends_a_few_messages_a_second() {
    let mut quorum = Quorum::founded(6, 3, 0);
    quorum.run_until(3_000, Quorum::is_settled);
    quorum.run(1_000);
    let before = quorum.sent;
    quorum.run(10_000);
    let sent = quorum.sent - before;
    assert!(sent <= 100, "{sent} messages in ten idle seconds");
}
