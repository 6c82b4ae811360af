//! Marks on a file in memory.

use super::{line::encode, *};
use crate::storage::{LogDirId, OpResult};

const ORDERS: Uuid = Uuid([7; 16]);
const PAYMENTS: Uuid = Uuid([8; 16]);

fn marks() -> (SyncedMarks, StorageQueue) {
    let root = FilePath::root(LogDirId(0));
    (SyncedMarks::new(Owner(2), &root), StorageQueue::default())
}

fn done(marks: &mut SyncedMarks, id: OpId) {
    let result = Ok(OpResult::Done);
    assert!(marks.awaits(id));
    marks
        .on_completion(Instant::ORIGIN, Completion { id, result })
        .unwrap();
}

/// Performs what was submitted on a file in memory; returns how many writes and syncs that were.
fn perform(
    marks: &mut SyncedMarks,
    storage: &mut StorageQueue,
    file: &mut Vec<u8>,
) -> (usize, usize) {
    let (mut writes, mut syncs) = (0, 0);
    marks.write(storage);
    while let Some(op) = storage.pop() {
        if let FileOp::Write { at, data, .. } = op.op {
            let at = usize::try_from(at).unwrap();
            file.resize(file.len().max(at + data.body.len()), 0);
            file[at..at + data.body.len()].copy_from_slice(&data.body);
            writes += 1;
        } else if let FileOp::Sync { .. } = op.op {
            syncs += 1;
        }
        done(marks, op.id);
        marks.write(storage);
    }
    (writes, syncs)
}

fn loaded(file: &[u8]) -> SyncedMarks {
    let (mut marks, _) = marks();
    marks.load(file);
    marks
}

fn two_marks() -> Vec<u8> {
    let (mut marks, mut storage) = marks();
    let mut file = Vec::new();
    marks.advance(ORDERS, 0, 12);
    marks.advance(ORDERS, 9, i64::MAX - 1);
    perform(&mut marks, &mut storage, &mut file);
    file
}

#[test]
fn line_is_64_bytes_of_text() {
    let text = String::from_utf8(two_marks()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(text.len(), 128);
    assert_eq!(
        lines[0],
        "BwcHBwcHBwcHBwcHBwcHBw          0                   12 36e7077a"
    );
    assert!(lines[1].contains(" 9223372036854775806 "));
}

#[test]
fn marks_come_back_and_only_ever_rise() {
    let mut marks = loaded(&two_marks());
    assert_eq!(marks.get(ORDERS, 0), 12);
    assert_eq!(marks.get(ORDERS, 9), i64::MAX - 1);
    assert_eq!(marks.get(ORDERS, 1), 0);
    marks.advance(ORDERS, 0, 11);
    assert_eq!(marks.get(ORDERS, 0), 12);
    marks.advance(ORDERS, 0, 13);
    assert_eq!(marks.get(ORDERS, 0), 13);
}

#[test]
fn damaged_byte_takes_its_own_line_and_never_changes_a_mark() {
    let good = two_marks();
    for at in 0..good.len() {
        for flip in 1..=255_u8 {
            let mut bad = good.clone();
            bad[at] ^= flip;
            let marks = loaded(&bad);
            let (hit, spared) = if at < 64 { (0, 9) } else { (9, 0) };
            let of = |partition| if partition == 0 { 12 } else { i64::MAX - 1 };
            assert_eq!(marks.get(ORDERS, spared), of(spared));
            assert!([0, of(hit)].contains(&marks.get(ORDERS, hit)));
        }
    }
    for len in 0..good.len() {
        let marks = loaded(&good[..len]);
        assert_eq!(marks.get(ORDERS, 0), if len < 64 { 0 } else { 12 });
    }
}

#[test]
fn lower_of_two_lines_of_one_log_counts() {
    let mut file = encode(&Some(((ORDERS, 0), 9)));
    file.extend(encode(&Some(((ORDERS, 0), 5))));
    file.extend(encode(&Some(((ORDERS, 0), 7))));
    assert_eq!(loaded(&file).get(ORDERS, 0), 5);
}

#[test]
fn lines_of_deleted_topics_are_used_again() {
    let mut file = two_marks();
    let mut marks = loaded(&file);
    let mut storage = StorageQueue::default();
    marks.retain(|topic_id| topic_id != ORDERS);
    assert_eq!(marks.get(ORDERS, 0), 0);
    marks.advance(PAYMENTS, 0, 3);
    marks.advance(PAYMENTS, 1, 4);
    marks.advance(PAYMENTS, 2, 5);
    perform(&mut marks, &mut storage, &mut file);
    assert_eq!(file.len(), 192);
    let marks = loaded(&file);
    assert_eq!(marks.get(ORDERS, 0), 0);
    assert_eq!(marks.get(PAYMENTS, 2), 5);
}

#[test]
fn marks_that_come_while_a_write_is_under_way_share_the_next() {
    let (mut marks, mut storage) = marks();
    marks.advance(ORDERS, 0, 1);
    marks.write(&mut storage);
    let open = storage.pop().unwrap();
    for offset in 2..50 {
        marks.advance(ORDERS, 0, offset);
        marks.write(&mut storage);
    }
    assert!(storage.is_empty());
    done(&mut marks, open.id);
    let mut file = Vec::new();
    assert_eq!(perform(&mut marks, &mut storage, &mut file), (1, 0));
    assert_eq!(loaded(&file).get(ORDERS, 0), 49);
}

#[test]
fn thousands_of_logs_take_one_write_and_lone_ones_stay_small() {
    let (mut marks, mut storage) = marks();
    let mut file = Vec::new();
    for partition in 0..5_000 {
        marks.advance(ORDERS, partition, 7);
    }
    assert_eq!(perform(&mut marks, &mut storage, &mut file), (1, 0));
    for partition in [3, 40, 4_000] {
        marks.advance(ORDERS, partition, 8);
    }
    marks.write(&mut storage);
    let sizes: Vec<usize> = std::iter::from_fn(|| storage.pop())
        .map(|op| match op.op {
            FileOp::Write { data, .. } => data.body.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sizes, [38 * 64, 64]);
}

#[test]
fn one_sync_covers_what_was_written_within_its_delay_and_none_follows_silence() {
    let (mut marks, mut storage) = marks();
    let mut file = Vec::new();
    marks.advance(ORDERS, 0, 1);
    perform(&mut marks, &mut storage, &mut file);
    let due = marks.deadline().unwrap();
    assert_eq!(due, Instant::ORIGIN.plus_millis(SYNC_DELAY_MS));
    marks.advance(ORDERS, 0, 2);
    perform(&mut marks, &mut storage, &mut file);
    assert_eq!(
        marks.deadline(),
        Some(due),
        "a steady stream does not put it off"
    );
    marks.on_timeout(&mut storage, Instant::ORIGIN);
    assert!(storage.is_empty());
    marks.on_timeout(&mut storage, due);
    let sync = storage.pop().unwrap();
    let FileOp::Sync { files, dirs } = &sync.op else {
        panic!("{sync:?}");
    };
    assert_eq!(
        (files.len(), dirs.len()),
        (1, 1),
        "the first one syncs the entry"
    );
    assert_eq!(marks.deadline(), None);
    // What is written while the sync runs waits for the next.
    marks.advance(ORDERS, 0, 3);
    perform(&mut marks, &mut storage, &mut file);
    assert_eq!(marks.deadline(), None);
    done(&mut marks, sync.id);
    assert_eq!(marks.deadline(), Some(due));
    marks.on_timeout(&mut storage, due);
    let FileOp::Sync { dirs, .. } = &storage.pop().unwrap().op else {
        panic!("a sync is due");
    };
    assert!(dirs.is_empty());
    assert_eq!(marks.deadline(), None);
}

#[test]
fn full_disk_lets_marks_lag_and_any_other_fault_gives_the_directory_up() {
    let (mut marks, mut storage) = marks();
    let mut file = Vec::new();
    marks.advance(ORDERS, 0, 1);
    marks.write(&mut storage);
    done(&mut marks, storage.pop().unwrap().id);
    marks.write(&mut storage);
    let failed = |id, kind| Completion {
        id,
        result: Err(StorageFault::new(kind)),
    };
    let write = storage.pop().unwrap();
    let answer = marks.on_completion(Instant::ORIGIN, failed(write.id, FaultKind::NoSpace));
    assert_eq!(answer, Ok(()));
    assert_eq!(perform(&mut marks, &mut storage, &mut file), (0, 0));
    let retry = marks.deadline().unwrap();
    assert_eq!(retry, Instant::ORIGIN.plus_millis(RETRY_DELAY_MS));
    marks.on_timeout(&mut storage, retry);
    assert_eq!(perform(&mut marks, &mut storage, &mut file), (1, 0));
    assert_eq!(loaded(&file).get(ORDERS, 0), 1);
    marks.on_timeout(&mut storage, marks.deadline().unwrap());
    let sync = storage.pop().unwrap();
    let answer = marks.on_completion(Instant::ORIGIN, failed(sync.id, FaultKind::NoSpace));
    assert!(answer.is_err(), "a failed sync is never harmless");
    marks.advance(ORDERS, 0, 2);
    marks.write(&mut storage);
    let write = storage.pop().unwrap();
    let answer = marks.on_completion(Instant::ORIGIN, failed(write.id, FaultKind::Io));
    assert!(answer.is_err());
}

#[test]
fn lower_mark_is_told_only_when_no_crash_brings_the_old_one_back() {
    let (mut marks, mut storage) = marks();
    let mut file = Vec::new();
    marks.advance(ORDERS, 0, 100);
    perform(&mut marks, &mut storage, &mut file);
    marks.on_timeout(&mut storage, marks.deadline().unwrap());
    let first = storage.pop().unwrap();
    marks.lower(ORDERS, 0, 60);
    assert_eq!(
        perform(&mut marks, &mut storage, &mut file),
        (1, 0),
        "written at once"
    );
    assert_eq!(loaded(&file).get(ORDERS, 0), 60);
    done(&mut marks, first.id);
    assert!(
        marks.take_lowered().is_empty(),
        "that sync began before the write"
    );
    marks.advance(ORDERS, 0, 70);
    marks.lower(ORDERS, 0, 80);
    assert_eq!(marks.get(ORDERS, 0), 60, "neither raises it meanwhile");
    assert_eq!(marks.deadline(), Some(Instant::ORIGIN), "a sync at once");
    marks.on_timeout(&mut storage, Instant::ORIGIN);
    assert_eq!(perform(&mut marks, &mut storage, &mut file), (0, 1));
    assert_eq!(marks.take_lowered(), [(ORDERS, 0)]);
    marks.advance(ORDERS, 0, 70);
    assert_eq!(marks.get(ORDERS, 0), 70);
}

#[test]
fn mark_that_is_not_higher_needs_no_lowering() {
    let mut marks = loaded(&two_marks());
    marks.lower(ORDERS, 0, 12);
    marks.lower(PAYMENTS, 5, 0);
    assert_eq!(marks.take_lowered(), [(ORDERS, 0), (PAYMENTS, 5)]);
    assert!(marks.take_lowered().is_empty());
}

#[test]
fn lower_mark_that_could_not_be_written_is_written_again() {
    let (mut marks, mut storage) = marks();
    let mut file = Vec::new();
    marks.advance(ORDERS, 0, 100);
    perform(&mut marks, &mut storage, &mut file);
    marks.lower(ORDERS, 0, 60);
    marks.write(&mut storage);
    let id = storage.pop().unwrap().id;
    let result = Err(StorageFault::new(FaultKind::NoSpace));
    let failed = Completion { id, result };
    marks.on_completion(Instant::ORIGIN, failed).unwrap();
    let retry = Instant::ORIGIN.plus_millis(RETRY_DELAY_MS);
    marks.on_timeout(&mut storage, retry);
    perform(&mut marks, &mut storage, &mut file);
    assert_eq!(loaded(&file).get(ORDERS, 0), 60);
    assert!(marks.take_lowered().is_empty());
    marks.on_timeout(&mut storage, retry);
    perform(&mut marks, &mut storage, &mut file);
    assert_eq!(marks.take_lowered(), [(ORDERS, 0)]);
}
