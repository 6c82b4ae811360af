use super::*;
use crate::ids::{Epoch, NodeId, Uuid};

/// One line a record: its type, its version, and its bytes in hexadecimal. What stands here was written to disks.
const GOLDEN: &str = include_str!("golden.txt");

fn endpoint() -> EndpointV1 {
    EndpointV1 {
        name: "PLAINTEXT".into(),
        host: "h".into(),
        port: 9092,
        security_protocol: 0,
    }
}

fn samples() -> Vec<Record> {
    [cluster_samples(), topic_samples()].concat()
}

fn cluster_samples() -> Vec<Record> {
    let (one, dir) = (NodeId(1), Uuid([0xbb; 16]));
    vec![
        NoOpV1 {}.into(),
        FeatureLevelV1 {
            name: "f".into(),
            level: 0x0102,
        }
        .into(),
        ClusterIdV1 {
            cluster_id: "c".into(),
        }
        .into(),
        VotersV1 {
            voters: vec![VoterV1 {
                node_id: one,
                directory_id: dir,
                endpoints: vec![endpoint()],
            }],
        }
        .into(),
        RegisterBrokerV1 {
            broker_id: one,
            broker_epoch: 7,
            incarnation_id: Uuid([0xcc; 16]),
            endpoints: vec![endpoint()],
            rack: Some("r".into()),
            log_dirs: vec![dir],
            features: vec![FeatureRangeV1 {
                name: "f".into(),
                min: 1,
                max: 2,
            }],
            fenced: true,
            in_controlled_shutdown: false,
        }
        .into(),
        BrokerRegistrationChangeV1 {
            broker_id: one,
            broker_epoch: 7,
            fenced: Some(false),
            in_controlled_shutdown: None,
            log_dirs: Some(vec![dir]),
        }
        .into(),
        UnregisterBrokerV1 {
            broker_id: one,
            broker_epoch: 7,
        }
        .into(),
    ]
}

fn topic_samples() -> Vec<Record> {
    let (topic_id, dir) = (Uuid([0xaa; 16]), Uuid([0xbb; 16]));
    let (one, two) = (NodeId(1), NodeId(2));
    vec![
        TopicV1 {
            topic_id,
            name: "t".into(),
        }
        .into(),
        PartitionV1 {
            topic_id,
            partition_id: 3,
            replicas: vec![one, two],
            directories: vec![dir, Uuid::ZERO],
            isr: vec![one],
            elr: vec![two],
            last_known_elr: vec![],
            removing_replicas: vec![],
            adding_replicas: vec![],
            leader: one,
            leader_recovering: false,
            leader_epoch: Epoch(4),
            partition_epoch: 5,
        }
        .into(),
        PartitionChangeV1 {
            isr: Some(vec![]),
            leader: Some(NodeId(-1)),
            elr: Some(vec![one]),
            leader_recovering: Some(true),
            ..PartitionChangeV1::none(topic_id, 3)
        }
        .into(),
        RemoveTopicV1 { topic_id }.into(),
        ConfigV1 {
            resource_type: 2,
            resource_name: "t".into(),
            name: "retention.ms".into(),
            value: Some("5".into()),
        }
        .into(),
        ClearElrV1 { topic_name: None }.into(),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn encodings_are_the_golden_ones() {
    let lines: Vec<String> = samples()
        .iter()
        .map(|record| {
            format!(
                "{} {} {}",
                record.kind(),
                record.version(),
                hex(&record.encode().unwrap())
            )
        })
        .collect();
    let golden: Vec<&str> = GOLDEN
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert_eq!(lines, golden, "\n{}", lines.join("\n"));
}

#[test]
fn every_record_reads_back() {
    for record in samples() {
        assert_eq!(Record::decode(&record.encode().unwrap()), Ok(record));
    }
}

#[test]
fn cut_or_changed_bytes_are_an_error_or_another_record_never_a_panic() {
    for record in samples() {
        let bytes = record.encode().unwrap();
        for length in 0..bytes.len() {
            assert!(Record::decode(&bytes[..length]).is_err());
        }
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                if let Ok(other) = Record::decode(&changed) {
                    assert_ne!(other, record);
                }
            }
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(Record::decode(&longer).is_err());
    }
}

#[test]
fn huge_counts_in_a_small_body_claim_no_memory() {
    // A cluster id that says it has 2^63 bytes, and voters that say they are 2^40.
    for (kind, count) in [(3, 1_u64 << 63), (4, 1 << 40), (4, u64::MAX)] {
        let mut bytes = vec![0, kind, 1, 0, 0, 0, 8];
        bytes.extend_from_slice(&count.to_be_bytes());
        assert_eq!(
            Record::decode(&bytes),
            Err(RecordError::Malformed {
                kind: u16::from(kind),
                version: 1
            })
        );
    }
}

#[test]
fn unknown_types_and_versions_are_refused_by_name() {
    let unknown = |kind, version| Err(RecordError::Unknown { kind, version });
    assert_eq!(
        Record::decode(&[0xff, 0, 1, 0, 0, 0, 0]),
        unknown(0xff00, 1)
    );
    assert_eq!(Record::decode(&[0, 1, 2, 0, 0, 0, 0]), unknown(1, 2));
    let error = Record::decode(&[0, 8, 9, 0, 0, 0, 0]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "metadata record of type 8, version 9 is not known to this release"
    );
}

#[test]
fn body_beyond_the_limit_is_not_written() {
    let record = Record::from(ClusterIdV1 {
        cluster_id: "x".repeat(codec::BODY_BYTES_MAX),
    });
    assert!(matches!(
        record.encode(),
        Err(RecordError::TooLarge { kind: 3, .. })
    ));
}
