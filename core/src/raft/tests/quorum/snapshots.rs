//! Catching up from a snapshot.

use crate::raft::RaftConfig;

use super::{End, Quorum};

/// A snapshot after a few records, small segments, nothing old kept.
fn eager(config: &mut RaftConfig) {
    config.segment_bytes = 500;
    config.max_record_bytes_between_snapshots = 700;
    config.max_retention_bytes = 0;
}

fn busy(quorum: &mut Quorum, records: usize) {
    for _ in 0..records {
        if let Some(leader) = quorum.leader() {
            quorum.append(leader);
        }
        quorum.run(20);
    }
}

#[test]
fn replica_that_was_away_catches_up_from_a_snapshot() {
    for seed in 0..10 {
        let mut quorum = Quorum::new(seed, 3, 1).with(eager).found();
        quorum.run_until(3_000, Quorum::is_settled);
        let leader = quorum.leader().unwrap();
        let away = leader % 3 + 1;
        quorum.end(away, End::Power);
        quorum.end(4, End::Power);
        busy(&mut quorum, 40);
        let start = quorum.live(leader).raft.probe().log_start;
        assert!(start > 10, "the log was trimmed: {start}");
        quorum.start(away);
        quorum.start(4);
        assert!(
            quorum.run_until(10_000, Quorum::is_settled),
            "{:?}",
            quorum.probes()
        );
        for id in [away, 4] {
            assert_eq!(quorum.live(id).state, quorum.live(leader).state);
            assert!(quorum.live(id).raft.probe().log_start >= start);
        }
        busy(&mut quorum, 10);
        for id in [away, 4] {
            quorum.end(id, End::TotalPower);
            quorum.start(id);
        }
        assert!(
            quorum.run_until(10_000, Quorum::is_settled),
            "{:?}",
            quorum.probes()
        );
        quorum.check();
    }
}

#[test]
fn crash_at_any_moment_of_an_installation_is_survived() {
    for (seed, end) in (0..60).zip([End::Kill, End::Power, End::TotalPower].into_iter().cycle()) {
        let mut quorum = Quorum::new(seed, 3, 0).with(eager).found();
        quorum.run_until(3_000, Quorum::is_settled);
        let away = quorum.leader().unwrap() % 3 + 1;
        quorum.end(away, End::Power);
        busy(&mut quorum, 20);
        quorum.start(away);
        let begins = |quorum: &Quorum| quorum.live(away).raft.is_busy();
        quorum.run_until(5_000, begins);
        for _ in 0..quorum.dice.roll(60) {
            quorum.step(u64::MAX);
        }
        quorum.end(away, end);
        quorum.start(away);
        assert!(
            quorum.run_until(10_000, Quorum::is_settled),
            "{:?}",
            quorum.probes()
        );
        quorum.check();
    }
}

#[test]
fn snapshot_takes_the_place_of_a_conflicting_log() {
    for seed in 0..10 {
        let mut quorum = Quorum::new(seed, 3, 0).with(eager).found();
        quorum.run_until(3_000, Quorum::is_settled);
        let old = quorum.leader().unwrap();
        quorum.isolate(old);
        for _ in 0..10 {
            quorum.append(old);
        }
        let is_other = |quorum: &Quorum| quorum.leader().is_some_and(|id| id != old);
        assert!(quorum.run_until(10_000, is_other));
        busy(&mut quorum, 40);
        quorum.heal();
        assert!(
            quorum.run_until(10_000, Quorum::is_settled),
            "{:?}",
            quorum.probes()
        );
        let new = quorum.leader().unwrap();
        assert_eq!(quorum.live(old).state, quorum.live(new).state);
        quorum.check();
    }
}

/// A restart leaves entries before the last snapshot in the log, whose epochs the log no longer knows. What a follower holds
/// there is another log's.
#[test]
fn leader_that_restarted_takes_no_foreign_tail_for_its_own() {
    for seed in 0..10 {
        let mut quorum = Quorum::new(seed, 3, 0).with(eager).found();
        quorum.run_until(3_000, Quorum::is_settled);
        let old = quorum.leader().unwrap();
        quorum.isolate(old);
        for _ in 0..60 {
            quorum.append(old);
        }
        let is_other = |quorum: &Quorum| quorum.leader().is_some_and(|id| id != old);
        assert!(quorum.run_until(10_000, is_other));
        busy(&mut quorum, 10 + usize::try_from(seed).unwrap());
        for id in (1..=3).filter(|id| *id != old) {
            quorum.end(id, End::Kill);
            quorum.start(id);
        }
        assert!(quorum.run_until(10_000, is_other));
        quorum.heal();
        assert!(
            quorum.run_until(10_000, Quorum::is_settled),
            "{:?}",
            quorum.probes()
        );
        let new = quorum.leader().unwrap();
        assert_eq!(quorum.live(old).state, quorum.live(new).state);
        quorum.check();
    }
}

#[test]
fn snapshot_larger_than_a_piece_is_fetched_whole() {
    let mut quorum = Quorum::new(3, 3, 0).with(eager).found();
    quorum.run_until(3_000, Quorum::is_settled);
    let leader = quorum.leader().unwrap();
    let away = leader % 3 + 1;
    quorum.end(away, End::Kill);
    let large = bytes::Bytes::from(vec![b'x'; 5 << 20]);
    for _ in 0..2 {
        let record = large.clone();
        quorum.act(leader, |node, moment| {
            node.call(moment, |raft, cx| {
                raft.append(cx, vec![record]).expect("a leader");
            })
        });
        quorum.run(300);
    }
    busy(&mut quorum, 20);
    quorum.start(away);
    assert!(
        quorum.run_until(10_000, Quorum::is_settled),
        "{:?}",
        quorum.probes()
    );
    assert_eq!(quorum.live(away).state, quorum.live(leader).state);
    quorum.check();
}
