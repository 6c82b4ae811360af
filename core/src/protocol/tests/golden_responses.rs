//! Answers filled once for the newest version, as Kafka 4.3.1's own message classes write them in
//! older ones.

use super::{hex, unframed};
use crate::protocol::{
    KafkaUuid, encode_response,
    messages::{
        ApiVersion, ApiVersionsResponseData, FinalizedFeatureKey, MetadataResponseBroker,
        MetadataResponseData, MetadataResponsePartition, MetadataResponseTopic,
        SupportedFeatureKey,
    },
};

#[test]
fn metadata_answers_are_kafkas_in_old_and_new_versions() {
    let broker = MetadataResponseBroker::default()
        .with_node_id(1)
        .with_host("b1".to_owned().into())
        .with_port(9092);
    let partition = MetadataResponsePartition::default()
        .with_leader_id(1)
        .with_leader_epoch(4)
        .with_replica_nodes(vec![1, 2])
        .with_isr_nodes(vec![1])
        .with_offline_replicas(vec![2]);
    let id = KafkaUuid::from_parts(0x0102_0304_0506_0708, 0x090a_0b0c_0d0e_0f10);
    let topic = MetadataResponseTopic::default()
        .with_name(Some("orders".to_owned().into()))
        .with_topic_id(id)
        .with_topic_authorized_operations(3)
        .with_partitions(vec![partition]);
    let body = MetadataResponseData::default()
        .with_cluster_id(Some("c1".to_owned().into()))
        .with_controller_id(1)
        .with_cluster_authorized_operations(4)
        .with_brokers(vec![broker])
        .with_topics(vec![topic]);
    let expected = [
        (
            0,
            "00000003
             00000001 00000001 0002 6231 00002384
             00000001 0000 0006 6f7264657273
               00000001 0000 00000000 00000001
                 00000002 00000001 00000002 00000001 00000001",
        ),
        (
            1,
            "00000003
             00000001 00000001 0002 6231 00002384 ffff
             00000001                                       # controller
             00000001 0000 0006 6f7264657273 00
               00000001 0000 00000000 00000001
                 00000002 00000001 00000002 00000001 00000001",
        ),
        (
            8,
            "00000003
             00000000                                       # throttle time
             00000001 00000001 0002 6231 00002384 ffff
             0002 6331 00000001                             # cluster, controller
             00000001 0000 0006 6f7264657273 00
               00000001 0000 00000000 00000001 00000004
                 00000002 00000001 00000002 00000001 00000001 00000001 00000002
               00000003                                     # operations
             00000004",
        ),
        (
            13,
            "00000003 00
             00000000
             02 00000001 03 6231 00002384 00 00
             03 6331 00000001
             02 0000 07 6f7264657273 0102030405060708090a0b0c0d0e0f10 00
               02 0000 00000000 00000001 00000004
                 03 00000001 00000002 02 00000001 02 00000002 00
               00000003 00
             0000 00",
        ),
    ];
    for (version, text) in expected {
        let frame = encode_response(version, 3, body.clone().into()).unwrap();
        assert_eq!(unframed(&frame), hex(text), "version {version}");
    }
}

#[test]
fn api_versions_answers_are_kafkas_in_old_and_new_versions() {
    let feature = |name: &str, min, max| {
        SupportedFeatureKey::default()
            .with_name(name.to_owned().into())
            .with_min_version(min)
            .with_max_version(max)
    };
    let finalized = FinalizedFeatureKey::default()
        .with_name("metadata.version".to_owned().into())
        .with_min_version_level(29)
        .with_max_version_level(29);
    let body = ApiVersionsResponseData::default()
        .with_api_keys(vec![ApiVersion::default().with_max_version(13)])
        .with_supported_features(vec![
            feature("metadata.version", 7, 29),
            feature("group.version", 0, 1),
        ])
        .with_finalized_features(vec![finalized])
        .with_finalized_features_epoch(17);
    let expected = [
        (0, "00000003 0000 00000001 0000 0000 000d"),
        (
            3,
            "00000003 0000 02 0000 0000 000d 00 00000000
             03                                             # a minimum of 0 is left out
               00 17 02 11 6d657461646174612e76657273696f6e 0007 001d 00
               01 08 0000000000000011
               02 17 02 11 6d657461646174612e76657273696f6e 001d 001d 00",
        ),
        (
            4,
            "00000003 0000 02 0000 0000 000d 00 00000000
             03
               00 2a 03 11 6d657461646174612e76657273696f6e 0007 001d 00
                     0e 67726f75702e76657273696f6e 0000 0001 00
               01 08 0000000000000011
               02 17 02 11 6d657461646174612e76657273696f6e 001d 001d 00",
        ),
    ];
    for (version, text) in expected {
        let frame = encode_response(version, 3, body.clone().into()).unwrap();
        assert_eq!(unframed(&frame), hex(text), "version {version}");
    }
}
