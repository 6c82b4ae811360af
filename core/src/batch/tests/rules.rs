//! Each rule of the produce path, with the code that Kafka answers.

use bytes::Bytes;

use super::{NOW_MS, fixture_builder, forged, records_of};
use crate::batch::{
    Batch, BatchBuilder, BatchError, CORRUPT_MESSAGE, Compression, CompressionType, INVALID_RECORD,
    INVALID_TIMESTAMP, MESSAGE_TOO_LARGE, NewRecord, ProduceRules, ProducerState,
    RECORD_LIST_TOO_LARGE, RejectReason, TimestampType, UNSUPPORTED_COMPRESSION_TYPE, deep_check,
    validate_produce,
};

fn good() -> Bytes {
    fixture_builder(Compression::None).build().unwrap()
}

fn check(bytes: &[u8], rules: &ProduceRules) -> Result<Batch, BatchError> {
    validate_produce(Some(&Bytes::copy_from_slice(bytes)), rules, NOW_MS)
}

fn code(bytes: &[u8], rules: &ProduceRules) -> i16 {
    check(bytes, rules)
        .expect_err("batch is refused")
        .kafka_code()
}

fn default_code(bytes: &[u8]) -> i16 {
    code(bytes, &ProduceRules::default())
}

fn rules(change: impl FnOnce(&mut ProduceRules)) -> ProduceRules {
    let mut rules = ProduceRules::default();
    change(&mut rules);
    rules
}

#[test]
fn good_batch_is_accepted_unchanged() {
    let bytes = good();
    assert_eq!(
        check(&bytes, &ProduceRules::default()).unwrap().to_bytes(),
        bytes
    );
}

#[test]
fn missing_records_are_invalid() {
    let nothing = validate_produce(None, &ProduceRules::default(), NOW_MS);
    assert_eq!(nothing, Err(BatchError::NoBatch));
    assert_eq!(default_code(&[]), INVALID_RECORD);
    for cut in 1..good().len() {
        assert_eq!(default_code(&good()[..cut]), INVALID_RECORD);
    }
}

#[test]
fn impossible_length_or_magic_is_corrupt() {
    for length in [i32::MIN, -1, 0, 13] {
        assert_eq!(
            default_code(&forged(&good(), 8, &length.to_be_bytes())),
            CORRUPT_MESSAGE
        );
    }
    for magic in [3, 0x7f, 0xff] {
        assert_eq!(
            default_code(&forged(&good(), 16, &[magic])),
            CORRUPT_MESSAGE
        );
    }
    let short = forged(&good(), 8, &20i32.to_be_bytes());
    assert_eq!(default_code(&short[..32]), CORRUPT_MESSAGE);
}

#[test]
fn old_formats_are_invalid() {
    for magic in [0, 1] {
        assert_eq!(default_code(&forged(&good(), 16, &[magic])), INVALID_RECORD);
    }
}

#[test]
fn second_batch_is_refused_but_a_cut_one_is_dropped() {
    let twice = [good(), good()].concat();
    assert_eq!(default_code(&twice), INVALID_RECORD);
    for cut in good().len()..twice.len() {
        let batch = check(&twice[..cut], &ProduceRules::default()).unwrap();
        assert_eq!(batch.to_bytes(), good());
    }
    let garbage = [&good()[..], &[0; 12]].concat();
    assert_eq!(default_code(&garbage), CORRUPT_MESSAGE);
}

#[test]
fn base_offset_must_be_zero() {
    assert_eq!(
        default_code(&forged(&good(), 0, &1i64.to_be_bytes())),
        INVALID_RECORD
    );
}

#[test]
fn size_limits_have_their_own_codes() {
    let size = good().len();
    let at = rules(|r| r.max_message_bytes = size);
    assert!(check(&good(), &at).is_ok());
    let below = rules(|r| r.max_message_bytes = size - 1);
    assert_eq!(code(&good(), &below), MESSAGE_TOO_LARGE);
    let segment = rules(|r| r.segment_bytes = size - 1);
    assert_eq!(code(&good(), &segment), RECORD_LIST_TOO_LARGE);
}

#[test]
fn size_is_checked_again_after_recompression() {
    let mut builder = BatchBuilder::new(Compression::of(CompressionType::Gzip));
    builder
        .append(&NewRecord {
            timestamp: NOW_MS,
            value: Some(&[7; 5_000]),
            ..NewRecord::default()
        })
        .unwrap();
    let packed = builder.build().unwrap();
    let unpacked = rules(|r| {
        r.compression = Some(Compression::None);
        r.max_message_bytes = packed.len();
    });
    assert!(check(&packed, &ProduceRules::default()).is_ok());
    assert_eq!(code(&packed, &unpacked), MESSAGE_TOO_LARGE);
}

#[test]
fn wrong_checksum_is_corrupt() {
    let mut bytes = good().to_vec();
    bytes[17] ^= 1;
    assert_eq!(default_code(&bytes), CORRUPT_MESSAGE);
}

#[test]
fn unknown_codecs_are_refused() {
    for id in 5..=7 {
        assert_eq!(
            default_code(&forged(&good(), 22, &[id])),
            UNSUPPORTED_COMPRESSION_TYPE
        );
    }
}

#[test]
fn zstd_needs_a_request_that_allows_it() {
    let packed = fixture_builder(Compression::of(CompressionType::Zstd))
        .build()
        .unwrap();
    assert!(check(&packed, &ProduceRules::default()).is_ok());
    let old = rules(|r| r.zstd_allowed = false);
    assert_eq!(code(&packed, &old), UNSUPPORTED_COMPRESSION_TYPE);
    assert!(check(&good(), &old).is_ok());
}

#[test]
fn count_must_fit_the_offsets() {
    for delta in [-1, i32::MIN, 2, 4, i32::MAX] {
        let bytes = forged(&good(), 23, &i32::to_be_bytes(delta));
        assert_eq!(default_code(&bytes), INVALID_RECORD);
    }
    for count in [0, -1, i32::MIN, 3, i32::MAX] {
        let bytes = forged(&good(), 57, &i32::to_be_bytes(count));
        assert_eq!(default_code(&bytes), INVALID_RECORD);
    }
}

#[test]
fn clients_write_no_control_batches() {
    let control = fixture_builder(Compression::None)
        .control(true)
        .build()
        .unwrap();
    assert_eq!(default_code(&control), INVALID_RECORD);
}

#[test]
fn idempotent_batch_needs_a_sequence() {
    let unnumbered = fixture_builder(Compression::None).producer(ProducerState {
        producer_id: 1,
        producer_epoch: 0,
        base_sequence: -1,
    });
    assert_eq!(default_code(&unnumbered.build().unwrap()), INVALID_RECORD);
}

#[test]
fn record_from_the_future_is_named() {
    let early = NOW_MS - 10_000_000;
    let error = validate_produce(Some(&good()), &ProduceRules::default(), early).unwrap_err();
    assert_eq!(error.kafka_code(), INVALID_TIMESTAMP);
    let indices: Vec<_> = error
        .rejected_records()
        .iter()
        .map(|e| e.batch_index)
        .collect();
    assert_eq!(indices, [0, 1, 2, 3]);
}

#[test]
fn timestamp_bounds_are_inclusive_and_look_at_each_record() {
    // The third record, at +250, is neither the base nor the largest.
    let age = |r: &mut ProduceRules, ms| r.timestamp_before_max_ms = ms;
    let oldest = NOW_MS - 1_700_000_000_000;
    assert!(check(&good(), &rules(|r| age(r, oldest))).is_ok());
    let error = check(&good(), &rules(|r| age(r, oldest - 300))).unwrap_err();
    let indices: Vec<_> = error
        .rejected_records()
        .iter()
        .map(|e| e.batch_index)
        .collect();
    assert_eq!(indices, [0, 2]);
    let ahead = rules(|r| r.timestamp_after_max_ms = 1_000);
    let now = 1_700_000_000_500 - 1_000;
    assert!(validate_produce(Some(&good()), &ahead, now).is_ok());
    assert!(validate_produce(Some(&good()), &ahead, now - 1).is_err());
}

#[test]
fn log_append_time_asks_nothing_of_the_producers_clock() {
    let stamped = rules(|r| {
        r.timestamp_type = TimestampType::LogAppendTime;
        r.timestamp_before_max_ms = 0;
        r.timestamp_after_max_ms = 0;
    });
    let batch = check(&good(), &stamped).unwrap();
    assert_eq!(batch.header().max_timestamp(), NOW_MS);
}

#[test]
fn client_may_not_stamp_a_batch_that_the_broker_stamps() {
    let claimed = fixture_builder(Compression::None)
        .log_append_time(NOW_MS)
        .build()
        .unwrap();
    let stamped = rules(|r| r.timestamp_type = TimestampType::LogAppendTime);
    let error = check(&claimed, &stamped).unwrap_err();
    assert_eq!(error.kafka_code(), INVALID_TIMESTAMP);
    assert_eq!(
        error.rejected_records()[0].reason,
        RejectReason::LogAppendTime
    );
    let untimed = fixture_builder(Compression::None)
        .log_append_time(-1)
        .build()
        .unwrap();
    assert_eq!(default_code(&untimed), INVALID_TIMESTAMP);
}

#[test]
fn compacted_topic_needs_keys() {
    let error = check(&good(), &rules(|r| r.compacted = true)).unwrap_err();
    assert_eq!(error.kafka_code(), INVALID_RECORD);
    assert_eq!(error.rejected_records().len(), 1);
    assert_eq!(error.rejected_records()[0].batch_index, 1);
    assert_eq!(error.rejected_records()[0].reason, RejectReason::MissingKey);
}

#[test]
fn list_of_rejected_records_is_bounded() {
    let mut builder = BatchBuilder::new(Compression::None);
    for _ in 0..3_000 {
        builder.append(&NewRecord::default()).unwrap();
    }
    let error = check(&builder.build().unwrap(), &rules(|r| r.compacted = true)).unwrap_err();
    assert_eq!(error.rejected_records().len(), 1_000);
}

#[test]
fn understated_max_timestamp_is_seen_by_the_deep_check_only() {
    let lying = forged(&good(), 35, &1_700_000_000_001_i64.to_be_bytes());
    assert_eq!(
        check(&lying, &ProduceRules::default()).unwrap().to_bytes(),
        lying
    );
    let honest = check(&lying, &rules(|r| r.deep_check = true)).unwrap();
    assert_eq!(honest.to_bytes(), good());
}

#[test]
fn deep_check_refuses_offsets_that_do_not_count_up() {
    let mut gap = BatchBuilder::new(Compression::None);
    gap.append_at(1, &NewRecord::default()).unwrap();
    // Claim that the record at delta 1 is the only one and stands at delta 0.
    let bytes = forged(&gap.build().unwrap(), 23, &0i32.to_be_bytes());
    assert!(check(&bytes, &ProduceRules::default()).is_ok());
    assert_eq!(
        code(&bytes, &rules(|r| r.deep_check = true)),
        INVALID_RECORD
    );
    let renumbered = check(
        &bytes,
        &rules(|r| {
            r.deep_check = true;
            r.compression = Some(Compression::Snappy);
        }),
    );
    assert_eq!(records_of(&renumbered.unwrap().to_bytes())[0].offset, 0);
}

#[test]
fn deep_check_refuses_what_does_not_parse() {
    let deep = rules(|r| r.deep_check = true);
    let stray = forged(&good(), 61, &[0x7f]);
    assert!(check(&stray, &ProduceRules::default()).is_ok());
    assert_eq!(code(&stray, &deep), INVALID_RECORD);
    let packed = fixture_builder(Compression::of(CompressionType::Lz4))
        .build()
        .unwrap();
    let broken = forged(&packed, 61, &[0]);
    assert_eq!(code(&broken, &deep), INVALID_RECORD);
    let fine = Batch::split(&packed).unwrap();
    assert_eq!(
        deep_check(&fine, &ProduceRules::default(), NOW_MS),
        Ok(1_700_000_000_500)
    );
}

#[test]
fn negative_timestamps_are_refused_where_the_batch_is_written_anew() {
    let odd = forged(&good(), 27, &i64::to_be_bytes(-5_000));
    let odd = forged(&odd, 35, &i64::to_be_bytes(-4_500));
    assert!(check(&odd, &ProduceRules::default()).is_ok());
    let packed = rules(|r| r.compression = Some(Compression::Snappy));
    assert_eq!(code(&odd, &packed), INVALID_TIMESTAMP);
}
