//! Walking batches tells a clean end from a torn tail and from damage; look-ups inside a batch.

use super::{fixture_builder, forged, plain_batch};
use crate::batch::{
    Batch, BatchBuilder, BatchHeader, BatchIter, Compression, CompressionType, HEADER_SIZE,
    NewRecord, Records, ScanFault, ScanFaultKind, TimestampOffset, TimestampType, batch_size,
    first_at_or_after, increment_sequence, max_timestamp,
};
use crate::ids::Epoch;

fn log() -> Vec<u8> {
    [plain_batch(0, 2), plain_batch(2, 1), plain_batch(3, 5)].concat()
}

#[test]
fn walk_gives_each_batch_with_its_position() {
    let log = log();
    let batches: Vec<_> = BatchIter::new(&log, 100)
        .with_crc()
        .map(Result::unwrap)
        .collect();
    let offsets: Vec<_> = batches.iter().map(|b| b.header().base_offset()).collect();
    assert_eq!(offsets, [0, 2, 3]);
    assert_eq!(batches[0].position(), 100);
    assert_eq!(batches[1].position(), batches[0].end_position());
    assert_eq!(
        batches[2].end_position(),
        100 + u64::try_from(log.len()).unwrap()
    );
    assert_eq!(batches[2].header().last_offset(), Some(7));
    assert_eq!(batches[2].header().next_offset(), Some(8));
}

#[test]
fn nothing_to_walk_is_a_clean_end() {
    assert_eq!(BatchIter::new(&[], 7).next(), None);
}

#[test]
fn every_cut_is_an_incomplete_tail_at_the_end_of_the_good_bytes() {
    let log = log();
    let mut ends = vec![0];
    ends.extend(BatchIter::new(&log, 0).map(|b| b.unwrap().end_position()));
    for cut in 1..log.len() {
        let mut walk = BatchIter::new(&log[..cut], 0).with_crc();
        let last = walk.by_ref().last().unwrap();
        let good = ends.iter().rev().find(|end| **end <= cut as u64).unwrap();
        if *good == cut as u64 {
            assert!(last.is_ok());
        } else {
            let fault = last.unwrap_err();
            assert_eq!(fault.position, *good);
            assert!(fault.kind.is_incomplete(), "{fault}");
        }
        assert_eq!(walk.position(), *good);
        assert_eq!(walk.next(), None);
    }
}

#[test]
fn zeroes_after_the_last_batch_are_damage_and_not_a_tail() {
    for zeroes in [12, 61, 4096] {
        let mut log = log();
        let end = u64::try_from(log.len()).unwrap();
        log.resize(log.len() + zeroes, 0);
        let last = BatchIter::new(&log, 0).last().unwrap();
        assert_eq!(
            last,
            Err(ScanFault {
                position: end,
                kind: ScanFaultKind::TooSmall { length: 0 }
            })
        );
    }
}

#[test]
fn old_magic_is_damage_even_in_a_cut_batch() {
    let mut batch = plain_batch(0, 1).to_vec();
    batch[16] = 1;
    for bytes in [&batch[..], &batch[..17]] {
        let fault = BatchIter::new(bytes, 0).next().unwrap().unwrap_err();
        assert_eq!(fault.kind, ScanFaultKind::Magic { magic: 1 });
    }
}

#[test]
fn wild_length_is_damage_when_a_limit_is_known() {
    let mut batch = plain_batch(0, 1).to_vec();
    batch[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
    let unlimited = BatchIter::new(&batch, 0).next().unwrap().unwrap_err();
    assert!(unlimited.kind.is_incomplete());
    let limited = BatchIter::new(&batch, 0).with_size_max(1 << 20).next();
    let fault = limited.unwrap().unwrap_err();
    assert!(matches!(fault.kind, ScanFaultKind::TooLarge { .. }));
}

#[test]
fn size_is_known_as_soon_as_the_length_is() {
    let batch = plain_batch(0, 1);
    assert_eq!(batch_size(&batch[..11]), Ok(None));
    assert_eq!(batch_size(&batch[..12]), Ok(Some(batch.len())));
}

#[test]
fn patch_touches_only_base_offset_and_leader_epoch() {
    let bytes = plain_batch(0, 3);
    let mut batch = Batch::split(&bytes).unwrap();
    assert!(batch.assign(500, Epoch(11)));
    let patched = batch.to_bytes();
    assert_eq!(patched[8..12], bytes[8..12]);
    assert_eq!(patched[16..], bytes[16..]);
    assert_eq!(batch.header().last_offset(), Some(502));
    assert_eq!(batch.header().partition_leader_epoch(), Epoch(11));
    assert_eq!(
        batch.body().as_ptr(),
        bytes[HEADER_SIZE..].as_ptr(),
        "records are not copied"
    );
    assert!(BatchIter::new(&patched, 0).with_crc().all(|b| b.is_ok()));
}

#[test]
fn offsets_beyond_the_largest_are_not_assigned() {
    let mut batch = Batch::split(&plain_batch(0, 3)).unwrap();
    let before = batch.clone();
    for base in [-1, i64::MIN, i64::MAX, i64::MAX - 2] {
        assert!(!batch.assign(base, Epoch(0)));
        assert_eq!(batch, before);
    }
    assert!(batch.assign(i64::MAX - 3, Epoch(0)));
    let far = forged(&plain_batch(0, 3), 0, &i64::MAX.to_be_bytes());
    assert_eq!(BatchHeader::read(&far).unwrap().last_offset(), None);
}

#[test]
fn restamp_gives_the_checksum_that_a_full_pass_would() {
    for codec in super::CODECS {
        let bytes = fixture_builder(Compression::of(codec)).build().unwrap();
        let mut batch = Batch::split(&bytes).unwrap();
        for (kind, time) in [
            (TimestampType::LogAppendTime, 5),
            (TimestampType::CreateTime, i64::MIN),
            (TimestampType::LogAppendTime, i64::MAX),
        ] {
            batch.restamp(kind, time);
            assert_eq!(batch.header().max_timestamp(), time);
            assert_eq!(batch.header().attributes().timestamp_type(), kind);
            let whole = batch.to_bytes();
            assert!(BatchIter::new(&whole, 0).with_crc().all(|b| b.is_ok()));
        }
    }
}

#[test]
fn sequences_wrap_to_zero() {
    assert_eq!(increment_sequence(i32::MAX, 1), 0);
    assert_eq!(increment_sequence(i32::MAX - 1, 3), 1);
    assert_eq!(increment_sequence(5, 3), 8);
}

fn found(timestamp: i64, offset: i64) -> Option<TimestampOffset> {
    Some(TimestampOffset { timestamp, offset })
}

#[test]
fn look_up_by_time_finds_the_first_by_offset() {
    for codec in super::CODECS {
        let builder = fixture_builder(Compression::of(codec)).base_offset(40);
        let batch = builder.build().unwrap();
        let records = Records::open(&batch, 1 << 20).unwrap();
        let at = |timestamp, min| first_at_or_after(&records, timestamp, min).unwrap();
        assert_eq!(at(0, 0), found(1_700_000_000_000, 40));
        assert_eq!(at(1_700_000_000_200, 0), found(1_700_000_000_500, 41));
        assert_eq!(at(1_700_000_000_200, 42), found(1_700_000_000_250, 42));
        assert_eq!(at(1_700_000_000_501, 0), None);
        assert_eq!(at(0, 44), None);
    }
}

#[test]
fn largest_timestamp_belongs_to_the_earliest_record_that_has_it() {
    let batch = fixture_builder(Compression::None)
        .base_offset(40)
        .build()
        .unwrap();
    let records = Records::open(&batch, 0).unwrap();
    assert_eq!(max_timestamp(&records), Ok(found(1_700_000_000_500, 41)));
    let stamped = fixture_builder(Compression::None)
        .log_append_time(9)
        .build()
        .unwrap();
    let records = Records::open(&stamped, 0).unwrap();
    assert_eq!(max_timestamp(&records), Ok(found(9, 0)));
}

#[test]
fn batch_with_gaps_keeps_its_end_and_its_offsets_through_recompression() {
    let mut builder = BatchBuilder::new(Compression::None).base_offset(10);
    for delta in [1, 5] {
        let record = NewRecord {
            timestamp: 3,
            value: Some(b"kept"),
            ..NewRecord::default()
        };
        builder.append_at(delta, &record).unwrap();
        assert!(
            builder.append_at(delta, &record).is_err(),
            "offsets only grow"
        );
    }
    builder.extend_to(8).unwrap();
    let batch = builder.build_batch().unwrap();
    assert_eq!(batch.header().next_offset(), Some(19));
    assert_eq!(batch.header().count(), 2);
    let to = Compression::of(CompressionType::Zstd);
    let packed = crate::batch::recompress(&batch, to, 1 << 20).unwrap();
    assert_eq!(packed.header().next_offset(), Some(19));
    let offsets: Vec<_> = super::records_of(&packed.to_bytes())
        .iter()
        .map(|r| r.offset)
        .collect();
    assert_eq!(offsets, [11, 15]);
}
