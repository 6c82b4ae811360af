//! Frames that mean harm: no panic, no large allocation, a named fault.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Dice, decode, hot_requests, schema_requests, schema_requests::varint};
use crate::protocol::{
    ApiKey, DecodeError, DecodeLimits, Fault, FaultAction, Listener, RequestBody, decode_request,
    decode_response,
    messages::{FetchRequestData, MetadataRequestData, ProduceRequestData},
};

fn served() -> impl Iterator<Item = (ApiKey, i16)> {
    ApiKey::ALL.iter().flat_map(|api| {
        let versions = api.spec().served;
        (versions.min..=versions.max).map(move |version| (*api, version))
    })
}

fn header(api: ApiKey, version: i16) -> BytesMut {
    let mut frame = BytesMut::new();
    frame.put_i16(api.key());
    frame.put_i16(version);
    frame.put_i32(5);
    frame.put_i16(-1);
    if api.is_flexible(version) {
        frame.put_u8(0);
    }
    frame
}

fn well_formed(dice: &mut Dice, api: ApiKey, version: i16) -> Bytes {
    schema_requests::frame(dice, api, version)
        .unwrap_or_else(|| hot_requests::frame(dice, api, version))
}

#[test]
fn random_bodies_never_panic() {
    let (mut decoded, mut refused) = (0, 0);
    for (api, version) in served() {
        let mut dice = Dice::new(u64::from(version.unsigned_abs()));
        for _ in 0..1000 {
            let mut frame = header(api, version);
            let small = dice.one_in(2);
            let body = dice.bytes(60);
            frame.extend(body.iter().map(|byte| if small { byte % 4 } else { *byte }));
            match decode(&frame.freeze()) {
                Ok(_) => decoded += 1,
                Err(error) => {
                    assert_eq!(error.action(), FaultAction::Close);
                    assert_eq!(error.correlation_id(), Some(5), "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(decoded > 100 && refused > 50_000, "{decoded} {refused}");
}

#[test]
fn random_frames_never_panic() {
    let mut dice = Dice::new(3);
    for _ in 0..50_000 {
        let mut bytes = dice.bytes(40);
        if let [high, low, ..] = bytes.as_mut_slice() {
            *high = 0;
            *low %= 64;
        }
        let _ = decode(&bytes.into());
    }
}

#[test]
fn cut_frames_are_refused_and_flipped_ones_never_panic() {
    for (api, version) in served() {
        let mut dice = Dice::new(11);
        for _ in 0..20 {
            let frame = well_formed(&mut dice, api, version);
            assert!(decode(&frame).is_ok());
            let cut = frame.slice(..dice.below(frame.len()));
            assert!(decode(&cut).is_err(), "{api} {version}");
            for _ in 0..20 {
                let mut bytes = frame.to_vec();
                let at = dice.below(bytes.len());
                bytes[at] ^= 1 << dice.below(8);
                let _ = decode(&bytes.into());
            }
        }
    }
}

#[test]
fn two_billion_elements_in_twelve_bytes_are_refused() {
    for (api, version) in served() {
        let limits = DecodeLimits::new(super::listener_of(api));
        for claim in [i32::MAX, i32::MIN, 1_000_001, 1_000_000, 13] {
            let mut frame = header(api, version);
            match api {
                ApiKey::Produce => {
                    frame.put_slice(if version >= 9 { b"\0" } else { b"\xff\xff" });
                    frame.put_slice(&[0; 6]);
                }
                ApiKey::Fetch => {
                    frame.put_slice(&[0; 13]);
                    frame.put_slice(if version <= 14 { &[0; 4] } else { &[] });
                    frame.put_slice(if version >= 7 { &[0; 8] } else { &[] });
                }
                ApiKey::ListOffsets => frame.put_slice(&[0; 5][..if version >= 2 { 5 } else { 4 }]),
                ApiKey::OffsetForLeaderEpoch => {
                    frame.put_slice(if version >= 3 { &[0; 4] } else { &[] });
                }
                ApiKey::ElectLeaders => {
                    frame.put_slice(if version >= 1 { &[0] } else { &[] });
                }
                // The cluster id is null.
                ApiKey::Vote => frame.put_slice(&[0; 5][..if version >= 1 { 5 } else { 1 }]),
                ApiKey::BeginQuorumEpoch if version >= 1 => frame.put_slice(&[0; 5]),
                ApiKey::EndQuorumEpoch if version >= 1 => frame.put_slice(&[0]),
                ApiKey::BeginQuorumEpoch | ApiKey::EndQuorumEpoch => frame.put_slice(&[0xff; 2]),
                ApiKey::FetchSnapshot => frame.put_slice(&[0; 8]),
                ApiKey::AlterPartition => frame.put_slice(&[0; 12]),
                // An empty cluster id is one byte that says 1.
                ApiKey::BrokerRegistration => {
                    frame.put_slice(&[0, 0, 0, 0, 1]);
                    frame.put_slice(&[0; 16]);
                }
                _ => {}
            }
            if api.is_flexible(version) {
                varint(
                    &mut frame,
                    usize::try_from(claim.cast_unsigned()).unwrap() + 1,
                );
            } else {
                frame.put_i32(claim);
            }
            frame.put_slice(&[0; 12]);
            let error = decode_request(&frame.freeze(), &limits);
            let trusting = matches!(
                api,
                ApiKey::ApiVersions | ApiKey::DescribeCluster | ApiKey::BrokerHeartbeat
            );
            let nullable = matches!(api, ApiKey::Metadata | ApiKey::ElectLeaders);
            let null_is_fine = nullable && claim == i32::MIN;
            assert!(
                error.is_err() || trusting || null_is_fine,
                "{api} {version} {claim}"
            );
        }
    }
}

#[test]
fn arrays_and_tags_over_kafkas_limits_are_refused_although_all_bytes_are_there() {
    let frame = |count: i32| {
        let mut frame = header(ApiKey::DeleteTopics, 1);
        frame.put_i32(count);
        frame.put_bytes(0, usize::try_from(count).unwrap() * 2 + 4);
        frame.freeze()
    };
    assert!(
        decode(&frame(1_000_000)).is_ok(),
        "a million empty names are 32 MB"
    );
    let Err(DecodeError::Body { field, fault, .. }) = decode(&frame(1_000_001)) else {
        panic!("too many elements are refused");
    };
    assert_eq!(
        (field, fault),
        (
            "TopicNames",
            Fault::Elements {
                count: 1_000_001,
                max: 1_000_000
            }
        )
    );

    let tags = |count: usize| {
        let mut frame = header(ApiKey::DescribeCluster, 0);
        frame.put_u8(0);
        varint(&mut frame, count);
        for tag in 0..count {
            varint(&mut frame, tag);
            frame.put_u8(0);
        }
        frame.freeze()
    };
    assert!(decode(&tags(10_000)).is_ok());
    assert!(matches!(
        decode(&tags(10_001)),
        Err(DecodeError::Body {
            fault: Fault::Tags {
                count: 10_001,
                max: 10_000
            },
            ..
        })
    ));
}

#[test]
fn memory_is_granted_over_all_arrays_together() {
    let mut frame = header(ApiKey::DescribeConfigs, 4);
    varint(&mut frame, 1000 + 1);
    for _ in 0..1000 {
        frame.put_slice(&[2, 1]);
        varint(&mut frame, 10_000 + 1);
        frame.put_bytes(1, 10_000);
        frame.put_u8(0);
    }
    frame.put_slice(&[0, 0, 0]);
    let frame = frame.freeze();
    let Err(DecodeError::Body { field, fault, .. }) = decode(&frame) else {
        panic!("ten million empty keys would take 320 MB");
    };
    assert_eq!((field, fault), ("ConfigurationKeys", Fault::Memory));
    let generous = DecodeLimits {
        memory_max: 1 << 30,
        ..DecodeLimits::new(Listener::Broker)
    };
    assert!(decode_request(&frame, &generous).is_ok());
}

#[test]
fn faults_name_api_version_and_field() {
    let mut frame = header(ApiKey::CreateTopics, 5);
    frame.put_slice(&[2, 0]);
    let error = decode(&frame.freeze()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "CreateTopics version 5: Name must not be null"
    );
    let frame = [
        &header(ApiKey::Metadata, 4)[..],
        &[0xff, 0xff, 0xff, 0xff, 1, 0, 0],
    ]
    .concat();
    let error = decode(&frame.into()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Metadata version 4: message is followed by 2 more bytes"
    );
}

#[test]
fn null_and_empty_topics_of_metadata_differ() {
    for version in 1..=13 {
        for empty in [false, true] {
            let mut frame = header(ApiKey::Metadata, version);
            match (version >= 9, empty) {
                (true, empty) => frame.put_u8(u8::from(empty)),
                (false, true) => frame.put_i32(0),
                (false, false) => frame.put_i32(-1),
            }
            let flags = usize::from(version >= 4)
                + usize::from(version >= 8)
                + usize::from((8..=10).contains(&version))
                + usize::from(version >= 9);
            frame.put_bytes(0, flags);
            let RequestBody::Metadata(body) = decode(&frame.freeze()).unwrap().body else {
                unreachable!()
            };
            assert_eq!(body.topics.is_some(), empty, "version {version}");
        }
    }
    let frame = [&header(ApiKey::Metadata, 0)[..], &[0xff; 4]].concat();
    assert!(
        decode(&frame.into()).is_err(),
        "version 0 knows no null; empty means all topics"
    );
}

#[test]
fn client_id_need_not_be_utf_8_and_null_counts_as_empty() {
    let mut frame = BytesMut::new();
    frame.put_slice(&[0, 3, 0, 12, 0, 0, 0, 5, 0, 2, 0xc3, 0x28, 0, 0, 0, 0, 0]);
    let request = decode(&frame.freeze()).unwrap();
    assert_eq!(request.header.client_id.as_bytes(), [0xc3, 0x28]);
    assert_eq!(request.header.client_id.to_string(), "\u{fffd}(");
    let mut frame = header(ApiKey::ApiVersions, 0);
    assert_eq!(
        decode(&frame.split().freeze())
            .unwrap()
            .header
            .client_id
            .to_string(),
        ""
    );
}

#[test]
fn only_a_wrong_version_of_api_versions_is_answered() {
    for version in [-1, 5, 127, i16::MAX, i16::MIN] {
        let mut frame = BytesMut::new();
        frame.put_i16(18);
        frame.put_i16(version);
        frame.put_i32(42);
        frame.put_slice(b"whatever follows");
        let error = decode(&frame.freeze()).unwrap_err();
        assert!(matches!(error.action(), FaultAction::Answer(_)), "{error}");
    }
    for (key, version) in [
        (0, 2),
        (0, 14),
        (3, 14),
        (1, 3),
        (4, 0),
        (999, 0),
        (-1, 0),
        (18, 3),
    ] {
        let mut frame = BytesMut::new();
        frame.put_i16(key);
        frame.put_i16(version);
        frame.put_i32(42);
        frame.put_slice(b"\0\0");
        let error = decode(&frame.freeze()).unwrap_err();
        assert_eq!(error.action(), FaultAction::Close, "{error}");
    }
}

#[test]
fn apis_of_the_broker_are_not_served_to_the_quorum() {
    let limits = DecodeLimits::new(Listener::Controller);
    let frame = [&header(ApiKey::Metadata, 1)[..], &[0xff; 4]].concat();
    let error = decode_request(&frame.into(), &limits).unwrap_err();
    assert_eq!(
        error,
        DecodeError::UnknownApi {
            key: 3,
            version: 1,
            correlation_id: 5
        }
    );
}

#[test]
fn damaged_responses_never_panic_a_client() {
    let mut dice = Dice::new(5);
    for _ in 0..20_000 {
        let bytes = Bytes::from(dice.bytes(80));
        for version in [4, 9, 12, 13] {
            let _ = decode_response::<ProduceRequestData>(version, &bytes);
            let _ = decode_response::<FetchRequestData>(version, &bytes);
            let _ = decode_response::<MetadataRequestData>(version, &bytes);
        }
    }
}
