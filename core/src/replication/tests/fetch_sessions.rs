//! Fetch sessions at the serving side, request by request.

use crate::{
    ids::Offset,
    replication::{
        FetchContext, FetchSessions, ReadPartition, SessionAnswer, SessionError, SessionRequest,
    },
    time::Instant,
};

type Sessions = FetchSessions<u32, i64>;

fn at(ms: u64) -> Instant {
    Instant::ORIGIN.plus_millis(ms)
}

fn request(id: i32, epoch: i32, wanted: &[(u32, i64)]) -> SessionRequest<u32, i64> {
    SessionRequest {
        session_id: id,
        session_epoch: epoch,
        is_follower: false,
        by_topic_id: true,
        wanted: wanted.to_vec(),
        forgotten: Vec::new(),
    }
}

const fn read(high_watermark: Offset, has_records: bool) -> ReadPartition {
    ReadPartition {
        high_watermark,
        log_start: 0,
        has_records,
        is_telling: false,
    }
}

/// Opens a session over these partitions, all read without records.
fn open(sessions: &mut Sessions, now: Instant, id: i32, keys: &[u32]) -> SessionAnswer {
    let wanted: Vec<_> = keys.iter().map(|key| (*key, 0)).collect();
    let context = sessions.begin(now, request(0, 0, &wanted)).unwrap();
    let read: Vec<_> = keys.iter().map(|key| (*key, read(5, false))).collect();
    sessions.finish(now, context, &read, || id)
}

fn goes_on(sessions: &mut Sessions, id: i32, epoch: i32) -> FetchContext<u32, i64> {
    sessions.begin(at(1), request(id, epoch, &[])).unwrap()
}

#[test]
fn session_at_rest_looks_at_nothing_until_something_changes() {
    let mut sessions = Sessions::default();
    assert_eq!(open(&mut sessions, at(0), 77, &[1, 2, 3]).session_id, 77);
    let context = goes_on(&mut sessions, 77, 1);
    assert!(sessions.due(&context).is_empty());
    sessions.changed(&2);
    assert_eq!(sessions.watchers(&2).collect::<Vec<_>>(), [77]);
    assert_eq!(sessions.due(&context), [(2, 0)]);
    let answer = sessions.finish(at(1), context, &[(2, read(5, false))], || 0);
    assert_eq!(answer.included, [false], "nothing to tell after all");
    let context = goes_on(&mut sessions, 77, 2);
    sessions.changed(&2);
    let answer = sessions.finish(at(1), context, &[(2, read(6, false))], || 0);
    assert_eq!(answer.included, [true], "the high watermark moved");
}

#[test]
fn partition_with_records_goes_to_the_end_of_the_line() {
    let mut sessions = Sessions::default();
    open(&mut sessions, at(0), 77, &[1, 2]);
    let context = goes_on(&mut sessions, 77, 1);
    sessions.changed(&1);
    sessions.changed(&2);
    assert_eq!(sessions.due(&context), [(1, 0), (2, 0)]);
    sessions.finish(at(1), context, &[(1, read(5, true))], || 0);
    let context = goes_on(&mut sessions, 77, 2);
    assert_eq!(sessions.due(&context), [(2, 0), (1, 0)]);
}

#[test]
fn error_is_told_again_with_every_answer() {
    let mut sessions = Sessions::default();
    open(&mut sessions, at(0), 77, &[1]);
    for epoch in 1..4 {
        sessions.changed(&1);
        let context = goes_on(&mut sessions, 77, epoch);
        let error = ReadPartition {
            high_watermark: -1,
            log_start: -1,
            has_records: false,
            is_telling: true,
        };
        let answer = sessions.finish(at(1), context, &[(1, error)], || 0);
        assert_eq!(answer.included, [true]);
    }
}

#[test]
fn stale_epochs_unknown_sessions_and_other_names_are_refused() {
    let mut sessions = Sessions::default();
    open(&mut sessions, at(0), 77, &[1]);
    let mut refusal = |request| sessions.begin(at(1), request).unwrap_err();
    assert_eq!(refusal(request(77, 2, &[])), SessionError::InvalidEpoch);
    assert_eq!(refusal(request(78, 1, &[])), SessionError::NotFound);
    let mut by_name = request(77, 1, &[]);
    by_name.by_topic_id = false;
    assert_eq!(refusal(by_name), SessionError::TopicId);
    goes_on(&mut sessions, 77, 1);
    let again = sessions.begin(at(1), request(77, 1, &[])).unwrap_err();
    assert_eq!(again, SessionError::InvalidEpoch, "each epoch serves once");
}

#[test]
fn forgotten_partition_is_no_longer_read_and_an_empty_session_ends() {
    let mut sessions = Sessions::default();
    open(&mut sessions, at(0), 77, &[1, 2]);
    let mut forget = request(77, 1, &[]);
    forget.forgotten = vec![1];
    sessions.begin(at(1), forget).unwrap();
    assert_eq!(sessions.watchers(&1).count(), 0);
    let mut forget = request(77, 2, &[]);
    forget.forgotten = vec![2];
    let context = sessions.begin(at(1), forget).unwrap();
    assert_eq!(context, FetchContext::Sessionless(Vec::new()));
    assert!(sessions.is_empty());
}

#[test]
fn full_request_ends_the_session_it_names() {
    let mut sessions = Sessions::default();
    open(&mut sessions, at(0), 77, &[1]);
    sessions.begin(at(1), request(77, -1, &[(1, 0)])).unwrap();
    assert!(sessions.is_empty());
    assert_eq!(sessions.watchers(&1).count(), 0);
}

#[test]
fn full_cache_evicts_only_what_is_stale_or_worth_less() {
    let mut sessions = Sessions::new(1);
    open(&mut sessions, at(0), 1, &[1]);
    let second = open(&mut sessions, at(1_000), 2, &[1, 2]);
    assert_eq!(second.session_id, 0, "the first is young");
    let follower = SessionRequest {
        is_follower: true,
        ..request(0, 0, &[(1, 0)])
    };
    let context = sessions.begin(at(2_000), follower).unwrap();
    let answer = sessions.finish(at(2_000), context, &[(1, read(5, false))], || 3);
    assert_eq!(answer.session_id, 3, "a follower takes a consumer's place");
    let stale = open(&mut sessions, at(200_000), 4, &[1]);
    assert_eq!(stale.session_id, 4, "nobody used the follower's for long");
    assert_eq!(sessions.len(), 1);
}

#[test]
fn host_that_draws_no_new_id_serves_without_a_session() {
    let mut sessions = Sessions::default();
    assert_eq!(open(&mut sessions, at(0), 0, &[1]).session_id, 0);
}
