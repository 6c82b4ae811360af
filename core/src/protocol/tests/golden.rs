//! Frames of real clients and of Kafka 4.3.1's own message classes, as text.

use bytes::Bytes;

use super::{decode, hex, hot_responses::joined, unframed};
use crate::protocol::{
    ApiKey, EpochEndOffset, ErrorCode, FaultAction, FetchPartitionResponse, FetchRecords,
    FetchResponse, FetchTopicResponse, KafkaUuid, LeaderIdAndEpoch, NodeEndpoint,
    ProducePartitionResponse, ProduceResponse, ProduceTopicResponse, RequestBody,
    encode_fetch_response, encode_response,
};

fn topic_id() -> KafkaUuid {
    KafkaUuid::from_parts(0x0102_0304_0506_0708, 0x090a_0b0c_0d0e_0f10)
}

#[test]
fn uuid_text_is_kafkas() {
    assert_eq!(topic_id().to_string(), "AQIDBAUGBwgJCgsMDQ4PEA");
    assert_eq!(
        KafkaUuid::from_base64("AQIDBAUGBwgJCgsMDQ4PEA").unwrap(),
        topic_id()
    );
}

#[test]
fn api_versions_of_librdkafka_2_16() {
    let frame = hex("
        0012 0003 00000001                                  # ApiVersions 3
        0007 72646b61666b61 00
        17 636f6e666c75656e742d6b61666b612d707974686f6e
        16 322e31362e312d72646b61666b612d322e31362e30
        00");
    let request = decode(&frame).unwrap();
    assert_eq!(
        (request.header.api, request.header.version),
        (ApiKey::ApiVersions, 3)
    );
    assert_eq!(request.header.client_id.to_string(), "rdkafka");
    let RequestBody::ApiVersions(body) = request.body else {
        unreachable!()
    };
    assert_eq!(body.client_software_name.as_str(), "confluent-kafka-python");
    assert_eq!(
        body.client_software_version.as_str(),
        "2.16.1-rdkafka-2.16.0"
    );
}

#[test]
fn api_versions_of_the_java_client() {
    let frame = hex("
        0012 0004 00000001
        000a 70726f64756365722d31 00
        12 6170616368652d6b61666b612d6a617661
        06 342e332e31
        00");
    let RequestBody::ApiVersions(body) = decode(&frame).unwrap().body else {
        unreachable!()
    };
    assert_eq!(body.client_software_name.as_str(), "apache-kafka-java");
    assert_eq!(body.client_software_version.as_str(), "4.3.1");
}

#[test]
fn too_new_api_versions_get_kafkas_answer() {
    let frame = hex("0012 0063 0000002a 000a 70726f64756365722d31 00 02 78 02 79 00");
    let expected = hex("
        00000010
        0000002a        # correlation id
        0023            # UNSUPPORTED_VERSION
        00000001
        0012 0000 0004");
    assert_eq!(
        decode(&frame).unwrap_err().action(),
        FaultAction::Answer(expected)
    );
}

#[test]
fn metadata_of_the_java_client() {
    let one = hex("
        0003 000d 00000003
        000a 70726f64756365722d31 00
        02
          00000000000000000000000000000000 07 6f7264657273 00
        01 00 00");
    let RequestBody::Metadata(body) = decode(&one).unwrap().body else {
        unreachable!()
    };
    assert!(body.allow_auto_topic_creation);
    let topics = body.topics.unwrap();
    assert_eq!(topics[0].name.as_ref().unwrap().as_str(), "orders");
    assert_eq!(topics[0].topic_id, KafkaUuid::ZERO);

    let all = hex("0003 000d 00000004 0005 61646d696e 00 00 00 00 00");
    let RequestBody::Metadata(body) = decode(&all).unwrap().body else {
        unreachable!()
    };
    assert_eq!(body.topics, None);
    let none = hex("0003 000d 00000005 0005 61646d696e 00 01 00 00 00");
    let RequestBody::Metadata(body) = decode(&none).unwrap().body else {
        unreachable!()
    };
    assert_eq!(body.topics, Some(Vec::new()));
}

#[test]
fn fetch_of_a_follower() {
    let frame = hex("
        0001 0012 00000009
        0012 62726f6b65722d322d666574636865722d30 00
        000001f4 00000001 00100000 00               # wait, bytes, isolation
        00000000 00000000                           # session
        02
          0102030405060708090a0b0c0d0e0f10
          02
            00000003 00000005 0000000000000064 00000004 000000000000000a 00010000
            02
              00 10 0102030405060708090a0b0c0d0e0f10
              01 08 0000000000000063
          00
        01
        03 7231
        02
          00 03 036331
          01 0d 00000002 000000000000004d 00");
    let RequestBody::Fetch(body) = decode(&frame).unwrap().body else {
        unreachable!()
    };
    assert_eq!((body.replica_id, body.replica_epoch), (2, 77));
    assert_eq!(body.cluster_id.unwrap().as_str(), "c1");
    assert_eq!(body.rack_id.as_str(), "r1");
    let partition = &body.topics[0].partitions[0];
    assert_eq!((partition.partition, partition.fetch_offset), (3, 100));
    assert_eq!(
        (partition.current_leader_epoch, partition.last_fetched_epoch),
        (5, 4)
    );
    assert_eq!(
        (partition.log_start_offset, partition.high_watermark),
        (10, 99)
    );
    assert_eq!(partition.replica_directory_id, topic_id());
}

#[test]
fn fetch_of_an_old_consumer() {
    let frame = hex("
        0001 0004 00000009 0004 6b636174
        ffffffff 000001f4 00000001 00100000 01
        00000001 0006 6f7264657273
        00000001 00000003 0000000000000064 00010000");
    let RequestBody::Fetch(body) = decode(&frame).unwrap().body else {
        unreachable!()
    };
    assert_eq!(
        (body.replica_id, body.isolation_level, body.session_epoch),
        (-1, 1, -1)
    );
    assert_eq!(body.topics[0].topic.as_str(), "orders");
    let partition = &body.topics[0].partitions[0];
    assert_eq!(
        (partition.fetch_offset, partition.partition_max_bytes),
        (100, 65536)
    );
    assert_eq!(
        (partition.current_leader_epoch, partition.high_watermark),
        (-1, i64::MAX)
    );
}

#[test]
fn produce_of_the_java_client() {
    let frame = hex("
        0000 000d 00000006
        000a 70726f64756365722d31 00
        00 ffff 00007530                            # no transaction, acks, timeout
        02
          0102030405060708090a0b0c0d0e0f10
          02
            00000000
            47                                      # 70 bytes of records
              0000000000000000 0000003a ffffffff 02 716a6189 0000 00000000
              00000000000003e8 00000000000003e8 ffffffffffffffff ffff ffffffff 00000001
              10 00 00 00 02 6b 02 76 00
            00
          00
        00");
    let RequestBody::Produce(body) = decode(&frame).unwrap().body else {
        unreachable!()
    };
    assert_eq!(
        (body.acks, body.timeout_ms, body.transactional_id),
        (-1, 30_000, None)
    );
    assert_eq!(body.topics[0].topic_id, topic_id());
    let records = body.topics[0].partitions[0].records.as_ref().unwrap();
    assert_eq!(
        (records.len(), records[16]),
        (70, 2),
        "one batch with magic 2"
    );
}

#[test]
fn produce_answer_that_names_the_new_leader() {
    let partition = ProducePartitionResponse {
        index: 1,
        error_code: ErrorCode::NotLeaderOrFollower,
        error_message: Some("moved".to_owned().into()),
        current_leader: LeaderIdAndEpoch {
            leader_id: 2,
            leader_epoch: 8,
        },
        ..ProducePartitionResponse::default()
    };
    let topic = ProduceTopicResponse {
        topic_id: topic_id(),
        partitions: vec![partition].into(),
        ..ProduceTopicResponse::default()
    };
    let node = NodeEndpoint {
        node_id: 2,
        host: "b2".to_owned().into(),
        port: 9092,
        rack: None,
    };
    let response = ProduceResponse {
        topics: vec![topic].into(),
        throttle_time_ms: 0,
        node_endpoints: vec![node],
    };
    let expected = hex("
        00000006 00
        02
          0102030405060708090a0b0c0d0e0f10
          02
            00000001 0006 ffffffffffffffff ffffffffffffffff ffffffffffffffff
            01 06 6d6f766564
            01 00 09 00000002 00000008 00
          00
        00000000
        01 00 0e 02 00000002 03 6232 00002384 00 00");
    assert_eq!(
        unframed(&encode_response(13, 6, response.into()).unwrap()),
        expected
    );
}

#[test]
fn fetch_answers_of_kafka() {
    let answer = |version, topic: FetchTopicResponse, slots: &[Bytes]| {
        let response = FetchResponse {
            session_id: 11,
            topics: vec![topic].into(),
            ..FetchResponse::default()
        };
        let frame = encode_fetch_response(version, 9, &response).unwrap();
        unframed(&joined(&frame.parts, slots))
    };
    let partition = FetchPartitionResponse {
        partition_index: 3,
        high_watermark: 101,
        last_stable_offset: 101,
        log_start_offset: 0,
        records: Some(FetchRecords { slot: 0, len: 3 }),
        ..FetchPartitionResponse::default()
    };
    let diverging = FetchPartitionResponse {
        aborted_transactions: Some(Vec::new()),
        diverging_epoch: EpochEndOffset {
            epoch: 4,
            end_offset: 90,
        },
        records: Some(FetchRecords::default()),
        ..partition
    };
    let topic = FetchTopicResponse {
        topic: "orders".to_owned().into(),
        topic_id: topic_id(),
        partitions: vec![partition].into(),
    };
    let expected = hex("
        00000009 00
        00000000 0000 0000000b
        02 0102030405060708090a0b0c0d0e0f10
        02 00000003 0000 0000000000000065 0000000000000065 0000000000000000
           00 ffffffff                              # no aborted ones asked for, no other replica
           04 010203 00
        00 00");
    assert_eq!(
        answer(18, topic.clone(), &[Bytes::from_static(&[1, 2, 3])]),
        expected
    );
    let expected = hex("
        00000009 00
        00000000 0000 0000000b
        02 07 6f7264657273
        02 00000003 0000 0000000000000065 0000000000000065 0000000000000000
           01 ffffffff
           01 01 00 0d 00000004 000000000000005a 00
        00 00");
    let topic = FetchTopicResponse {
        partitions: vec![diverging].into(),
        ..topic
    };
    assert_eq!(answer(12, topic, &[]), expected);
}
