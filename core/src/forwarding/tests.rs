//! Envelopes there and back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;

use super::*;
use crate::protocol::{
    ApiKey, ClientRequest, ErrorCode, KafkaString, ResponseBody, decode_response, encode_request,
    messages::{
        CreatableTopicResult, CreateTopicsRequestData, CreateTopicsResponseData,
        DescribeQuorumResponseData, ElectLeadersResponseData, EnvelopeRequestData,
        EnvelopeResponseData, FetchRequestData, quorum::describe_quorum_response,
    },
};

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3));

fn frame<R: ClientRequest>(version: i16, request: &R) -> Bytes {
    encode_request(version, 77, "client", request)
        .unwrap()
        .slice(4..)
}

fn creation() -> Bytes {
    frame(7, &CreateTopicsRequestData::default())
}

fn sealed(frame: &Bytes) -> EnvelopeRequestData {
    seal(frame.clone(), &Principal::anonymous(), CLIENT).unwrap()
}

fn created(error: ErrorCode) -> ResponseBody {
    let topic = CreatableTopicResult::default()
        .with_name(KafkaString::from("orders".to_owned()))
        .with_error_code(error.code());
    CreateTopicsResponseData::default()
        .with_topics(vec![topic])
        .into()
}

#[test]
fn controller_reads_what_the_client_sent_and_who_it_is() {
    for client in [CLIENT, IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        let principal = Principal {
            kind: "User".into(),
            name: "alice".into(),
            is_token_authenticated: true,
        };
        let sealed = seal(creation(), &principal, client).unwrap();
        let forwarded = unseal(&sealed).unwrap();
        assert_eq!(forwarded.principal, principal);
        assert_eq!(forwarded.client, client);
        let header = forwarded.request.header;
        assert_eq!((header.api, header.version), (ApiKey::CreateTopics, 7));
        assert_eq!(header.correlation_id, 77);
        assert_eq!(header.client_id.as_bytes(), b"client");
    }
}

#[test]
fn principal_is_written_as_kafka_writes_it() {
    // Version 0, "User", "ANONYMOUS", no token, no tags.
    let bytes = Principal::anonymous().to_bytes().unwrap();
    assert_eq!(&bytes[..], b"\0\0\x05User\x0aANONYMOUS\0\0");
    assert_eq!(Principal::from_bytes(&bytes), Ok(Principal::anonymous()));
    for damaged in [&b""[..], b"\0", b"\0\x01\x05User\x02A\0\0", b"\0\0\x05Us"] {
        let damaged = Bytes::from_static(damaged);
        assert_eq!(Principal::from_bytes(&damaged), Err(PrincipalFault));
    }
}

#[test]
fn envelope_that_cannot_be_opened_is_refused_as_kafka_refuses_it() {
    let good = sealed(&creation());
    let refused = |change: &dyn Fn(&mut EnvelopeRequestData)| {
        let mut envelope = good.clone();
        change(&mut envelope);
        unseal(&envelope).unwrap_err()
    };
    let unreadable = ErrorCode::PrincipalDeserializationFailure;
    assert_eq!(refused(&|it| it.request_principal = None), unreadable);
    let bytes = Some(Bytes::from_static(b"\0\x01"));
    assert_eq!(
        refused(&|it| it.request_principal.clone_from(&bytes)),
        unreadable
    );
    for address in [&b""[..], b"12345", b"0123456789abcdefg"] {
        let address = Bytes::from_static(address);
        let code = refused(&|it| it.client_host_address = address.clone());
        assert_eq!(code, ErrorCode::InvalidRequest);
    }
    let fetch = frame(17, &FetchRequestData::default());
    let code = refused(&|it| it.request_data = fetch.clone());
    assert_eq!(code, ErrorCode::InvalidRequest);
    let short = creation().slice(..12);
    for data in [
        Bytes::new(),
        Bytes::from_static(b"\x03\xe7\0\0"),
        short,
        Bytes::from_static(&[0, 19, 0, 99, 0, 0, 0, 7, 0, 0]),
    ] {
        let code = refused(&|it| it.request_data = data.clone());
        assert_eq!(code, ErrorCode::UnsupportedVersion);
    }
}

#[test]
fn client_gets_the_controllers_answer_as_if_it_had_asked_there() {
    let answer = answer(7, 77, created(ErrorCode::TopicAlreadyExists)).unwrap();
    let Answered::Frame(frame) = open_answer(77, &answer) else {
        panic!("an answer");
    };
    let (id, read) =
        decode_response::<CreateTopicsRequestData>(7, &frame.slice(4..)).expect("whole");
    assert_eq!(id, 77);
    let code = ErrorCode::TopicAlreadyExists.code();
    assert_eq!(read.topics[0].error_code, code);
    assert_eq!(frame[..4], (frame.len() as i32 - 4).to_be_bytes());
    assert_eq!(
        open_answer(78, &answer),
        Answered::Failed,
        "an answer to another request"
    );
}

#[test]
fn answer_of_another_than_the_controller_is_not_handed_on() {
    let not_leader = describe_quorum_response::PartitionData::default()
        .with_error_code(ErrorCode::NotLeaderOrFollower.code());
    let topic = describe_quorum_response::TopicData::default().with_partitions(vec![not_leader]);
    let code = ErrorCode::NotController.code();
    let elected = ElectLeadersResponseData::default().with_error_code(code);
    for body in [
        created(ErrorCode::NotController),
        elected.into(),
        DescribeQuorumResponseData::default()
            .with_topics(vec![topic])
            .into(),
    ] {
        let answer = answer(2, 77, body).unwrap();
        assert_eq!(answer.response_data, None);
        assert_eq!(open_answer(77, &answer), Answered::NotController);
    }
}

#[test]
fn errors_of_the_envelope_are_not_the_clients() {
    for (error, outcome) in [
        (ErrorCode::UnsupportedVersion, Answered::Disconnect),
        (ErrorCode::NotController, Answered::NotController),
        (ErrorCode::PrincipalDeserializationFailure, Answered::Failed),
        (ErrorCode::ClusterAuthorizationFailed, Answered::Failed),
    ] {
        assert_eq!(open_answer(77, &refuse(error)), outcome);
    }
    let empty = EnvelopeResponseData::default();
    assert_eq!(open_answer(77, &empty), Answered::Failed);
    let unknown = EnvelopeResponseData::default().with_error_code(9_999);
    assert_eq!(open_answer(77, &unknown), Answered::Failed);
}
