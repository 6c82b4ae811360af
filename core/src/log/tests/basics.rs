//! Appending and reading when nothing goes wrong.

use crate::{
    ids::Epoch,
    log::{AppendError, LogEvent, OpenHint, ReadError, ReadRequest},
    storage::Part,
};

use super::host::{Host, batch, fresh, small_config};

fn filled(batches: i64) -> (Host, Vec<u8>) {
    let mut host = Host::new(small_config(), fresh());
    host.open();
    host.run();
    let mut expected = Vec::new();
    for at in 0..batches {
        let bytes = batch(at);
        let appended = host.append(&bytes).unwrap();
        assert_eq!(
            (appended.base_offset, appended.last_offset),
            (at * 2, at * 2 + 1)
        );
        let mut stored = bytes.to_vec();
        stored[..8].copy_from_slice(&(at * 2).to_be_bytes());
        stored[12..16].copy_from_slice(&1_i32.to_be_bytes());
        expected.extend(stored);
    }
    host.run();
    (host, expected)
}

#[test]
fn appended_batches_are_read_without_a_read_operation() {
    let (mut host, expected) = filled(5);
    assert_eq!(host.log.end(), 10);
    assert_eq!(host.log.written_end(), 10);
    assert_eq!(host.log.flushed_end(), 0);
    assert_eq!(host.read_all().unwrap(), expected);
    assert_eq!(host.reads, 0);
}

#[test]
fn history_of_this_incarnation_is_sent_from_the_file() {
    let config = crate::log::LogConfig {
        segment_bytes: 40_000,
        index_interval_bytes: 300,
        ..crate::log::LogConfig::default()
    };
    let mut host = Host::new(config, fresh());
    host.open();
    host.run();
    let mut expected = Vec::new();
    for at in 0..3_000 {
        let mut stored = batch(at).to_vec();
        host.append(&batch(at)).unwrap();
        stored[..8].copy_from_slice(&(at * 2).to_be_bytes());
        stored[12..16].copy_from_slice(&1_i32.to_be_bytes());
        expected.extend(stored);
        if at % 100 == 0 {
            host.run();
            // Indexes of sealed segments leave the memory.
            host.flush_all();
        }
    }
    assert!(host.flush_all());
    let (mut all, mut offset, mut copied) = (Vec::new(), 0, 0);
    while offset < host.log.end() {
        let request = ReadRequest {
            max_bytes: 2000,
            ..host.request(offset)
        };
        let slice = host.read(request).unwrap();
        assert!(slice.next_offset > offset, "a reader gets on at {offset}");
        assert_eq!(slice.base_offset, offset);
        copied += usize::from(matches!(slice.parts[..], [Part::Bytes(_)]));
        all.extend(host.bytes(&slice));
        offset = slice.next_offset;
    }
    assert_eq!(all, expected);
    assert_eq!(copied, 0);
}

#[test]
fn segments_roll_at_segment_bytes_and_keep_every_batch() {
    let (mut host, expected) = filled(40);
    let probe = host.log.probe();
    assert!(probe.segments.len() > 4, "{probe:?}");
    assert!(probe.segments.iter().all(|(_, size)| *size <= 700));
    assert_eq!(host.read_all().unwrap(), expected);
    assert_eq!(
        host.log.size_bytes(),
        u64::try_from(expected.len()).unwrap()
    );
}

#[test]
fn flush_counts_what_was_written_and_the_folder_it_is_in() {
    let (mut host, _) = filled(20);
    assert!(host.flush_all());
    assert_eq!(host.log.flushed_end(), 40);
    assert_eq!(host.log.recovery_point(), 40);
}

#[test]
fn clean_reopen_reads_no_batch_and_serves_all() {
    let (mut host, expected) = filled(40);
    host.flush_all();
    let (disk, hint) = host.stop();
    let mut host = Host::opened(disk, small_config(), hint);
    assert!(host.log.is_open(), "{:?}", host.events);
    let opened = host.events.iter().any(|event| {
        matches!(
            event,
            LogEvent::Opened {
                start: 0,
                end: 80,
                recovered: false,
                ..
            }
        )
    });
    assert!(opened, "{:?}", host.events);
    assert!(
        host.read_bytes < 300,
        "only the last segment's indexes and first header"
    );
    assert_eq!(host.read_all().unwrap(), expected);
}

#[test]
fn reopened_log_goes_on_appending() {
    let (host, mut expected) = filled(7);
    let (disk, hint) = host.stop();
    let mut host = Host::opened(disk, small_config(), hint);
    for at in 7..20 {
        let bytes = batch(at);
        assert_eq!(host.append(&bytes).unwrap().base_offset, at * 2);
        let mut stored = bytes.to_vec();
        stored[..8].copy_from_slice(&(at * 2).to_be_bytes());
        stored[12..16].copy_from_slice(&1_i32.to_be_bytes());
        expected.extend(stored);
    }
    host.run();
    assert_eq!(host.read_all().unwrap(), expected);
    let (disk, hint) = host.stop();
    let mut host = Host::opened(disk, small_config(), hint);
    assert_eq!(host.read_all().unwrap(), expected);
}

#[test]
fn read_in_the_middle_of_a_batch_returns_that_batch() {
    let (host, _) = filled(30);
    let (disk, hint) = host.stop();
    let mut host = Host::opened(disk, small_config(), hint);
    for offset in 0..60 {
        let request = ReadRequest {
            max_bytes: 1,
            ..host.request(offset)
        };
        let slice = host.read(request).unwrap();
        assert_eq!(slice.base_offset, offset / 2 * 2);
        assert_eq!(slice.next_offset, offset / 2 * 2 + 2);
    }
}

#[test]
fn no_byte_of_a_batch_at_the_limit_is_returned() {
    let (host, _) = filled(30);
    let (disk, hint) = host.stop();
    let mut cold = Host::opened(disk, small_config(), hint);
    let (mut hot, _) = filled(30);
    for host in [&mut cold, &mut hot] {
        for limit in 0..60 {
            let request = ReadRequest {
                limit,
                ..host.request(0)
            };
            let slice = host.read(request).unwrap();
            assert!(slice.next_offset <= limit);
            assert!(limit < 2 || slice.size > 0);
        }
    }
}

#[test]
fn first_batch_is_left_out_when_it_is_too_large_and_not_asked_for() {
    let (host, _) = filled(10);
    let (disk, hint) = host.stop();
    let mut host = Host::opened(disk, small_config(), hint);
    let request = ReadRequest {
        max_bytes: 10,
        min_one_batch: false,
        ..host.request(4)
    };
    let slice = host.read(request).unwrap();
    assert_eq!((slice.size, slice.next_offset), (0, 4));
}

#[test]
fn offset_outside_the_log_is_an_error_with_its_bounds() {
    let (mut host, _) = filled(3);
    let bounds = ReadError::OutOfRange { start: 0, end: 6 };
    let request = host.request(7);
    assert_eq!(host.read(request), Err(bounds));
    let request = host.request(-1);
    assert_eq!(host.read(request), Err(bounds));
    let request = host.request(6);
    assert_eq!(host.read(request).unwrap().size, 0);
}

#[test]
fn reads_from_the_tail_are_ranges_of_the_file() {
    let (mut host, _) = filled(3);
    let request = host.request(2);
    let slice = host.read(request).unwrap();
    assert!(matches!(slice.parts.as_slice(), [Part::File(range)] if range.at > 0));
}

#[test]
fn what_may_still_be_cut_off_is_never_promised_as_a_range() {
    for kept in [false, true] {
        let mut host = Host::new(small_config(), fresh());
        host.open();
        host.run();
        host.log.keep_unsettled(kept);
        for seed in 0..20 {
            host.append(&batch(seed)).unwrap();
        }
        host.run();
        for settled in 0..=40 {
            host.log.settle_below(settled);
            for offset in 0..40 {
                let request = ReadRequest {
                    settled,
                    max_bytes: 500,
                    ..host.request(offset)
                };
                let slice = host.read(request).unwrap();
                assert!(slice.size > 0, "{settled} {offset}");
                let is_ranged = slice.parts.iter().any(|part| matches!(part, Part::File(_)));
                assert!(
                    !is_ranged || slice.next_offset <= settled,
                    "{settled} {offset}"
                );
                // A range ends with its segment; what is kept does not.
                let ranged = host.request(offset);
                let ranged = host.read(ranged).unwrap();
                let (bytes, ranged) = (host.bytes(&slice), host.bytes(&ranged));
                let len = bytes.len().min(ranged.len());
                assert_eq!(bytes[..len], ranged[..len], "{settled} {offset}");
            }
        }
        assert_eq!(host.reads == 0, kept, "what is kept needs no read");
    }
}

#[test]
fn stale_epoch_is_refused_and_new_epochs_are_recorded() {
    let (mut host, _) = filled(3);
    host.with(|log, cx| log.assign_epoch(cx, Epoch(4)));
    host.run();
    assert!(host.log.epochs_recorded());
    assert_eq!(host.log.epoch_end(Epoch(1)), Some((Epoch(1), 6)));
    assert_eq!(host.log.latest_epoch(), Some(Epoch(4)));
    assert!(
        host.events
            .contains(&LogEvent::EpochRecorded { epoch: Epoch(4) })
    );
    let refused = host.append(&batch(9));
    let stale = AppendError::StaleEpoch {
        given: Epoch(1),
        latest: Epoch(4),
    };
    assert_eq!(refused, Err(stale));
    let text = host.files()["leader-epoch-checkpoint"].clone();
    assert_eq!(text, b"0\n2\n1 0\n4 6\n");
}

#[test]
fn log_that_is_not_open_answers_so() {
    let mut host = Host::new(small_config(), fresh());
    assert_eq!(host.append(&batch(0)), Err(AppendError::NotOpen));
    let request = host.request(0);
    assert_eq!(host.read(request), Err(ReadError::NotOpen));
}

#[test]
fn fresh_partition_names_its_topic() {
    let (host, _) = filled(1);
    let text = host.files()["partition.metadata"].clone();
    assert_eq!(text, b"version: 0\ntopic_id: BwcHBwcHBwcHBwcHBwcHBw");
    let (disk, hint) = host.stop();
    let host = Host::opened(disk, small_config(), hint);
    assert_eq!(host.log.topic_id(), Some(super::host::TOPIC_ID));
}

#[test]
fn folder_of_another_topic_is_refused() {
    let (host, _) = filled(1);
    let (disk, _) = host.stop();
    let hint = OpenHint {
        fresh: Some(crate::ids::Uuid([9; 16])),
        ..OpenHint::default()
    };
    let host = Host::opened(disk, small_config(), hint);
    assert!(host.log.is_offline());
}

#[test]
fn old_segment_rolls_by_time() {
    let mut host = Host::new(
        crate::log::LogConfig {
            segment_ms: 50,
            ..crate::log::LogConfig::default()
        },
        fresh(),
    );
    host.open();
    host.run();
    for at in [0, 10, 49, 52, 60] {
        host.append(&batch(at)).unwrap();
    }
    // The first batch's largest timestamp is 1001; the fourth is more than 50 ms later.
    assert_eq!(host.log.probe().segments.len(), 2);
}
