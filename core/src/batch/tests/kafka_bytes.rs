//! Kafka's own bytes are read, and the same bytes are written.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{CODECS, NOW_MS, fixture_builder, records_of};
use crate::batch::control::ControlRecordType;
use crate::batch::{
    Batch, BatchBuilder, BatchHeader, BatchIter, Compression, CompressionType, NewRecord,
    ProduceRules, ProducerState, TimestampType, validate_produce,
};
use crate::ids::Epoch;

const FIXTURES: &str = include_str!("../testdata/kafka-4.3.1.txt");

fn fixtures() -> BTreeMap<&'static str, Bytes> {
    let mut found: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    let mut name = "";
    for line in FIXTURES.lines().filter(|line| !line.starts_with('#')) {
        if let Some(hex) = line.strip_prefix("  ") {
            let bytes = (0..hex.len() / 2)
                .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex"));
            found.entry(name).or_default().extend(bytes);
        } else {
            name = line;
        }
    }
    found
        .into_iter()
        .map(|(name, bytes)| (name, Bytes::from(bytes)))
        .collect()
}

fn stored(produced: &Bytes, rules: &ProduceRules) -> Bytes {
    let mut batch = validate_produce(Some(produced), rules, NOW_MS).expect("batch is good");
    assert!(batch.assign(1000, Epoch(7)));
    batch.to_bytes()
}

const PRODUCER: ProducerState = ProducerState {
    producer_id: 4242,
    producer_epoch: 3,
    base_sequence: 17,
};

#[test]
fn uncompressed_batches_equal_kafkas_byte_for_byte() {
    let all = fixtures();
    let plain = fixture_builder(Compression::None);
    assert_eq!(plain.build().unwrap(), all["produced.none"]);
    let idempotent = plain.producer(PRODUCER);
    assert_eq!(idempotent.build().unwrap(), all["produced.idempotent"]);
    let transactional = idempotent.transactional(true);
    assert_eq!(
        transactional.build().unwrap(),
        all["produced.transactional"]
    );
}

#[test]
fn records_of_every_codec_are_read_as_kafka_wrote_them() {
    let all = fixtures();
    let expected = records_of(&fixture_builder(Compression::None).build().unwrap());
    assert_eq!(expected.len(), 4);
    assert_eq!(expected[2].headers.len(), 2);
    for codec in CODECS {
        let batch = &all[format!("produced.{}", codec.name()).as_str()];
        let header = BatchHeader::read(batch).unwrap();
        assert_eq!(header.attributes().codec(), Some(codec));
        assert_eq!(records_of(batch), expected, "{}", codec.name());
    }
}

#[test]
fn streams_of_many_blocks_are_read() {
    let all = fixtures();
    for codec in &CODECS[1..] {
        let records = records_of(&all[format!("large.{}", codec.name()).as_str()]);
        assert_eq!(records.len(), 80);
        for (letter, record) in (b'a'..=b'z').cycle().zip(&records) {
            assert_eq!(record.value.as_deref(), Some(&[letter; 1000][..]));
        }
    }
}

#[test]
fn batch_with_create_time_is_stored_as_kafka_stores_it() {
    let all = fixtures();
    for codec in CODECS {
        let produced = &all[format!("produced.{}", codec.name()).as_str()];
        let expected = &all[format!("stored.create-time.{}", codec.name()).as_str()];
        assert_eq!(&stored(produced, &ProduceRules::default()), expected);
        assert_eq!(
            produced[16..],
            expected[16..],
            "only bytes before the magic change"
        );
    }
}

#[test]
fn batch_with_log_append_time_is_stored_as_kafka_stores_it() {
    let all = fixtures();
    let rules = ProduceRules {
        timestamp_type: TimestampType::LogAppendTime,
        ..ProduceRules::default()
    };
    for codec in CODECS {
        let produced = &all[format!("produced.{}", codec.name()).as_str()];
        let expected = &all[format!("stored.log-append-time.{}", codec.name()).as_str()];
        assert_eq!(&stored(produced, &rules), expected, "{}", codec.name());
        assert!(records_of(expected).iter().all(|r| r.timestamp == NOW_MS));
    }
}

#[test]
fn batch_unpacked_for_its_topic_is_stored_as_kafka_stores_it() {
    let all = fixtures();
    let unpacked = ProduceRules {
        compression: Some(Compression::None),
        ..ProduceRules::default()
    };
    let source = fixture_builder(Compression::of(CompressionType::Zstd))
        .producer(PRODUCER)
        .transactional(true);
    assert_eq!(
        stored(&source.build().unwrap(), &unpacked),
        all["stored.uncompressed-from-zstd"]
    );
    let stamped = ProduceRules {
        timestamp_type: TimestampType::LogAppendTime,
        ..unpacked
    };
    let source = fixture_builder(Compression::of(CompressionType::Lz4)).producer(PRODUCER);
    assert_eq!(
        stored(&source.build().unwrap(), &stamped),
        all["stored.uncompressed-from-lz4.log-append-time"]
    );
}

#[test]
fn max_timestamp_that_the_client_never_computed_is_filled_in_as_by_kafka() {
    let all = fixtures();
    let rules = ProduceRules::default();
    let produced = &all["produced.no-max-timestamp"];
    assert_eq!(stored(produced, &rules), all["stored.no-max-timestamp"]);
}

#[test]
fn client_that_claims_log_append_time_loses_the_claim_as_in_kafka() {
    let all = fixtures();
    let rules = ProduceRules::default();
    let produced = &all["produced.client-stamped"];
    assert_eq!(stored(produced, &rules), all["stored.client-stamped"]);
}

#[test]
fn control_batches_equal_kafkas() {
    let all = fixtures();
    let commit = BatchBuilder::new(Compression::None);
    let mut commit = commit
        .base_offset(77)
        .leader_epoch(Epoch(9))
        .producer(ProducerState {
            producer_id: 4242,
            producer_epoch: 3,
            base_sequence: -1,
        })
        .transactional(true)
        .control(true);
    commit
        .append(&NewRecord {
            timestamp: 1_700_000_000_000,
            key: Some(&ControlRecordType::Commit.key()),
            value: Some(&[0, 0, 0, 0, 0, 12]),
            headers: &[],
        })
        .unwrap();
    assert_eq!(commit.build().unwrap(), all["control.commit-marker"]);

    let leader_change = &all["control.leader-change"];
    let header = BatchHeader::read(leader_change).unwrap();
    assert!(header.attributes().is_control());
    assert_eq!(header.partition_leader_epoch(), Epoch(9));
    let records = records_of(leader_change);
    let key = records[0].key.as_deref().unwrap();
    assert_eq!(
        ControlRecordType::from_key(key),
        Some(ControlRecordType::LeaderChange)
    );
}

#[test]
fn every_fixture_has_the_checksum_that_kafka_computed() {
    for (name, bytes) in fixtures() {
        let batches: Vec<_> = BatchIter::new(&bytes, 0).with_crc().collect();
        assert_eq!(batches.len(), 1, "{name}");
        assert!(batches[0].is_ok(), "{name}: {:?}", batches[0]);
        assert_eq!(Batch::split(&bytes).unwrap().to_bytes(), bytes);
    }
}
