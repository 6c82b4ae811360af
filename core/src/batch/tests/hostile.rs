//! Damage and malice: never a panic, never more memory than allowed, and no flip goes unseen.

use bytes::Bytes;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::round_trip::random_bytes;
use super::{CODECS, NOW_MS, fixture_builder, forged, sign};
use crate::batch::{
    BatchBuilder, BatchIter, CodecError, Compression, HEADER_SIZE, MESSAGE_TOO_LARGE, NewRecord,
    OpenError, ProduceRules, Records, decompress, first_at_or_after, max_timestamp,
    validate_produce,
};

/// Everything a reader may do with bytes it cannot trust.
fn exercise(bytes: &Bytes) {
    let deep = ProduceRules {
        deep_check: true,
        unpacked_bytes_max: 1 << 16,
        ..ProduceRules::default()
    };
    let packed = ProduceRules {
        compression: Some(Compression::Snappy),
        ..deep
    };
    for rules in [ProduceRules::default(), deep, packed] {
        let _ = validate_produce(Some(bytes), &rules, NOW_MS).map_err(|e| e.kafka_code());
    }
    for batch in BatchIter::new(bytes, 0).flatten() {
        let header = batch.header();
        let _ = (
            header.last_offset(),
            header.next_offset(),
            header.last_sequence(),
        );
        if let Ok(records) = Records::open(batch.bytes(), 1 << 16) {
            let _ = first_at_or_after(&records, 1_700_000_000_300, 0);
            let _ = max_timestamp(&records);
            for record in records.iter().flatten() {
                assert!(record.headers.count() < 1 << 16);
            }
        }
    }
}

#[test]
fn every_flip_behind_the_magic_is_caught_by_the_checksum() {
    for codec in CODECS {
        let good = fixture_builder(Compression::of(codec)).build().unwrap();
        for at in 17..good.len() {
            for bit in 0..8 {
                let mut bad = good.to_vec();
                bad[at] ^= 1 << bit;
                let fault = BatchIter::new(&bad, 0).with_crc().next().unwrap();
                assert!(fault.is_err(), "{} byte {at} bit {bit}", codec.name());
            }
        }
    }
}

#[test]
fn damage_with_a_valid_checksum_never_panics() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    for codec in CODECS {
        let good = fixture_builder(Compression::of(codec)).build().unwrap();
        for at in 0..good.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff, good[at] ^ 1, random.random()] {
                exercise(&forged(&good, at, &[value]));
            }
        }
    }
}

#[test]
fn several_damages_at_once_never_panic() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    for round in 0..4_000 {
        let codec = CODECS[round % CODECS.len()];
        let mut bytes = fixture_builder(Compression::of(codec))
            .build()
            .unwrap()
            .to_vec();
        for _ in 0..random.random_range(1..6) {
            let at = random.random_range(0..bytes.len());
            bytes[at] = random.random();
        }
        bytes.truncate(random.random_range(0..=bytes.len()));
        if bytes.len() > HEADER_SIZE {
            sign(&mut bytes);
        }
        exercise(&Bytes::from(bytes));
    }
}

#[test]
fn noise_never_panics() {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    for _ in 0..4_000 {
        let noise = random_bytes(&mut random, 300);
        exercise(&Bytes::from(noise.clone()));
        for codec in CODECS {
            let _ = decompress(codec, &noise, 1 << 16);
        }
    }
}

#[test]
fn bomb_stops_at_the_limit() {
    let zeroes = vec![0; 64 << 20];
    for codec in &CODECS[1..] {
        let mut builder = BatchBuilder::new(Compression::of(*codec));
        let bomb = NewRecord {
            timestamp: NOW_MS,
            value: Some(&zeroes),
            ..NewRecord::default()
        };
        builder.append(&bomb).unwrap();
        let batch = builder.build().unwrap();
        let limit = 1 << 20;
        let opened = Records::open(&batch, limit).map(|_| ());
        let expected = OpenError::Codec(CodecError::OutputLimit { limit });
        assert_eq!(opened, Err(expected), "{}", codec.name());
        let rules = ProduceRules {
            max_message_bytes: usize::MAX,
            unpacked_bytes_max: limit,
            deep_check: true,
            ..ProduceRules::default()
        };
        let refused = validate_produce(Some(&batch), &rules, NOW_MS).unwrap_err();
        assert_eq!(refused.kafka_code(), MESSAGE_TOO_LARGE);
    }
}

#[test]
fn declared_counts_reserve_nothing() {
    // Two billion records, or headers, in a few bytes.
    let good = fixture_builder(Compression::None).build().unwrap();
    let counted = forged(&good, 57, &i32::MAX.to_be_bytes());
    let counted = forged(&counted, 23, &(i32::MAX - 1).to_be_bytes());
    exercise(&counted);
    let records = Records::open(&counted, 0).unwrap();
    assert_eq!(records.iter().count(), 5, "four records and the fault");
    let mut builder = BatchBuilder::new(Compression::None);
    builder.append(&NewRecord::default()).unwrap();
    let mut one = builder.build().unwrap().to_vec();
    let end = one.len() - 1;
    one[end] = 0xfe;
    one.extend_from_slice(&[0xff, 0xff, 0xff, 0x0f]);
    one[HEADER_SIZE] += 8;
    let length = i32::try_from(one.len() - 12).unwrap();
    one[8..12].copy_from_slice(&length.to_be_bytes());
    sign(&mut one);
    let records = Records::open(&one, 0).unwrap();
    assert!(records.iter().next().unwrap().is_err());
}
