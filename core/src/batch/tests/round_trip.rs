//! What is built is read back, over all codecs and random records.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{CODECS, NOW_MS, Owned, fixture_builder, records_of};
use crate::batch::{
    BatchBuilder, BatchIter, Compression, CompressionType, NewRecord, ProduceRules, ProducerState,
    RecordHeader, recompress, validate_produce,
};
use crate::ids::Epoch;

pub(super) fn random_bytes(random: &mut ChaCha8Rng, len_max: usize) -> Vec<u8> {
    let len = random.random_range(0..=len_max);
    let mut bytes = vec![0; len];
    // Half of the fields compress well, half not at all.
    if random.random_bool(0.5) {
        random.fill_bytes(&mut bytes);
    } else {
        bytes.fill(b'a' + random.random_range(0..4));
    }
    bytes
}

fn random_field(random: &mut ChaCha8Rng) -> Option<Vec<u8>> {
    random.random_bool(0.8).then(|| random_bytes(random, 600))
}

fn random_records(random: &mut ChaCha8Rng, base_offset: i64) -> Vec<Owned> {
    let count = random.random_range(1..=40);
    (0..count)
        .map(|at| Owned {
            offset: base_offset + at,
            timestamp: random.random_range(-1..NOW_MS),
            key: random_field(random),
            value: random_field(random),
            headers: (0..random.random_range(0..3))
                .map(|_| (random_bytes(random, 20), random_field(random)))
                .collect(),
        })
        .collect()
}

fn append_all(builder: &mut BatchBuilder, records: &[Owned]) {
    for record in records {
        let headers: Vec<_> = record
            .headers
            .iter()
            .map(|(key, value)| RecordHeader {
                key,
                value: value.as_deref(),
            })
            .collect();
        let new = NewRecord {
            timestamp: record.timestamp,
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: &headers,
        };
        let before = builder.size();
        let is_first = builder.count() == 0;
        assert!(
            !is_first || builder.has_room_for(&new, 0),
            "the first record always fits"
        );
        let needed = (before..1 << 24).find(|max| builder.has_room_for(&new, *max));
        builder.append(&new).unwrap();
        assert!(
            is_first || needed == Some(builder.size()),
            "the estimate is exact"
        );
    }
}

#[test]
fn random_batches_survive_every_codec_and_every_recompression() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for round in 0..60 {
        let base_offset = random.random_range(0..1_000_000);
        let expected = random_records(&mut random, base_offset);
        let from = CODECS[round % CODECS.len()];
        let producer = ProducerState {
            producer_id: random.random_range(0..1_000),
            producer_epoch: random.random_range(0..10),
            base_sequence: random.random_range(0..i32::MAX),
        };
        let mut builder = BatchBuilder::new(Compression::of(from))
            .base_offset(base_offset)
            .leader_epoch(Epoch(4))
            .producer(producer)
            .transactional(round % 2 == 0);
        append_all(&mut builder, &expected);
        let batch = builder.build_batch().unwrap();
        assert_eq!(records_of(&batch.to_bytes()), expected);
        for to in CODECS {
            let packed = recompress(&batch, Compression::of(to), 1 << 20).unwrap();
            let whole = packed.to_bytes();
            assert!(BatchIter::new(&whole, 0).with_crc().all(|b| b.is_ok()));
            assert_eq!(records_of(&whole), expected);
            let (old, new) = (batch.header(), packed.header());
            assert_eq!(new.attributes().codec(), Some(to));
            assert_eq!(new.attributes().is_transactional(), round % 2 == 0);
            assert_eq!(new.producer_id(), old.producer_id());
            assert_eq!(new.producer_epoch(), old.producer_epoch());
            assert_eq!(new.base_sequence(), old.base_sequence());
            assert_eq!(new.max_timestamp(), old.max_timestamp());
            assert_eq!(new.partition_leader_epoch(), Epoch(4));
        }
    }
}

#[test]
fn every_level_that_kafka_accepts_can_be_read_back() {
    let plain = fixture_builder(Compression::None).build_batch().unwrap();
    let expected = records_of(&plain.to_bytes());
    let gzip = [-1, 1, 5, 9].map(|level| Compression::Gzip { level });
    let lz4 = [1, 9, 17].map(|level| Compression::Lz4 { level });
    let zstd = [-131_072, -1, 1, 3, 19, 22].map(|level| Compression::Zstd { level });
    for to in gzip.into_iter().chain(lz4).chain(zstd) {
        let packed = recompress(&plain, to, 1 << 20).unwrap();
        assert_eq!(records_of(&packed.to_bytes()), expected, "{to:?}");
    }
    for level in [0, 10, -2] {
        assert!(recompress(&plain, Compression::Gzip { level }, 1 << 20).is_err());
    }
}

#[test]
fn topic_codec_is_applied_unless_the_batch_has_it() {
    for from in CODECS {
        let produced = fixture_builder(Compression::of(from)).build().unwrap();
        for to in CODECS {
            let rules = ProduceRules {
                compression: Some(Compression::of(to)),
                ..ProduceRules::default()
            };
            let batch = validate_produce(Some(&produced), &rules, NOW_MS).unwrap();
            assert_eq!(batch.header().attributes().codec(), Some(to));
            if from == to {
                assert_eq!(batch.to_bytes(), produced, "kept as it was sent");
            }
        }
    }
}

#[test]
fn control_batch_is_not_compressed() {
    let control = fixture_builder(Compression::None).control(true);
    let control = control.build_batch().unwrap();
    let to = Compression::of(CompressionType::Gzip);
    assert_eq!(recompress(&control, to, 1 << 20).unwrap(), control);
}
