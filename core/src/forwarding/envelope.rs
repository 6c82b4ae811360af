//! Envelopes: sealed by a broker, opened by the controller, and back.

use std::net::IpAddr;

use bytes::{Buf, Bytes};

use crate::{
    forwarding::Principal,
    protocol::{
        ApiKey, DecodeLimits, EncodeError, ErrorCode, FRAME_PREFIX_BYTES, Listener, Request,
        ResponseBody, decode_request, encode_response,
        messages::{EnvelopeRequestData, EnvelopeResponseData},
    },
};

/// The version of Envelope that is sent.
pub const ENVELOPE: i16 = 0;

/// A client's request that a broker sent on.
#[derive(Clone, Debug, PartialEq)]
pub struct Forwarded {
    /// The request, as it came to the broker.
    pub request: Request,
    /// Who asks.
    pub principal: Principal,
    /// From where.
    pub client: IpAddr,
}

/// What became of a request that was sent on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The client's answer: a whole frame, length prefix included.
    Frame(Bytes),
    /// Whoever was asked is not the active controller: the request is to be sent again.
    NotController,
    /// The controller does not speak the request's version: the client is to be disconnected.
    Disconnect,
    /// The request failed for a reason that is not the client's: UNKNOWN_SERVER_ERROR.
    Failed,
}

/// Says whether brokers send requests of an API on.
const fn is_forwardable(api: ApiKey) -> bool {
    matches!(
        api,
        ApiKey::CreateTopics
            | ApiKey::DeleteTopics
            | ApiKey::CreatePartitions
            | ApiKey::IncrementalAlterConfigs
            | ApiKey::ElectLeaders
            | ApiKey::DescribeQuorum
    )
}

/// Puts a client's request, header and body as they came, into an envelope.
///
/// # Errors
///
/// Returns an [`EncodeError`] for a principal too long for the wire.
pub fn seal(
    frame: Bytes,
    principal: &Principal,
    client: IpAddr,
) -> Result<EnvelopeRequestData, EncodeError> {
    let address = match client {
        IpAddr::V4(address) => Bytes::copy_from_slice(&address.octets()),
        IpAddr::V6(address) => Bytes::copy_from_slice(&address.octets()),
    };
    Ok(EnvelopeRequestData::default()
        .with_request_data(frame)
        .with_request_principal(Some(principal.to_bytes()?))
        .with_client_host_address(address))
}

/// Opens an envelope.
///
/// # Errors
///
/// Returns the error that the envelope is answered with: PRINCIPAL_DESERIALIZATION_FAILURE for a principal that cannot be read,
/// UNSUPPORTED_VERSION for a request that cannot, INVALID_REQUEST for an address that is none and for an API that is not sent on.
pub fn unseal(envelope: &EnvelopeRequestData) -> Result<Forwarded, ErrorCode> {
    let principal = envelope.request_principal.as_ref();
    let principal = principal.and_then(|bytes| Principal::from_bytes(bytes).ok());
    let principal = principal.ok_or(ErrorCode::PrincipalDeserializationFailure)?;
    let client = address(&envelope.client_host_address).ok_or(ErrorCode::InvalidRequest)?;
    let frame = &envelope.request_data;
    let key = frame
        .first_chunk()
        .map(|bytes| i16::from_be_bytes(*bytes))
        .ok_or(ErrorCode::UnsupportedVersion)?;
    let api = ApiKey::from_i16(key).ok_or(ErrorCode::UnsupportedVersion)?;
    if !is_forwardable(api) {
        return Err(ErrorCode::InvalidRequest);
    }
    let request = decode_request(frame, &DecodeLimits::new(Listener::Broker))
        .map_err(|_| ErrorCode::UnsupportedVersion)?;
    Ok(Forwarded {
        request,
        principal,
        client,
    })
}

fn address(bytes: &Bytes) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(&bytes[..]) {
        return Some(IpAddr::from(octets));
    }
    <[u8; 16]>::try_from(&bytes[..]).ok().map(IpAddr::from)
}

/// Writes the answer to a request that came in an envelope, header and body as the client will get them.
///
/// An answer that only says that this is not the active controller becomes the envelope's own error, so that the broker asks
/// again instead of handing it on.
///
/// # Errors
///
/// Returns an [`EncodeError`] for an answer that the client's version cannot say.
pub fn answer(
    version: i16,
    correlation_id: i32,
    body: ResponseBody,
) -> Result<EnvelopeResponseData, EncodeError> {
    if says_not_controller(&body) {
        return Ok(refuse(ErrorCode::NotController));
    }
    let mut frame = encode_response(version, correlation_id, body)?;
    frame.advance(FRAME_PREFIX_BYTES);
    Ok(EnvelopeResponseData::default().with_response_data(Some(frame)))
}

/// Writes the answer to an envelope that cannot be opened.
#[must_use]
pub fn refuse(error: ErrorCode) -> EnvelopeResponseData {
    EnvelopeResponseData::default().with_error_code(error.code())
}

/// Reads the answer to an envelope.
#[must_use]
pub fn open_answer(correlation_id: i32, answer: &EnvelopeResponseData) -> Answered {
    match ErrorCode::from_code(answer.error_code) {
        Some(ErrorCode::None) => answer
            .response_data
            .as_ref()
            .filter(|data| answers(correlation_id, data))
            .and_then(framed)
            .map_or(Answered::Failed, Answered::Frame),
        Some(ErrorCode::NotController) => Answered::NotController,
        Some(ErrorCode::UnsupportedVersion) => Answered::Disconnect,
        _ => Answered::Failed,
    }
}

/// Says whether an answer is one to the client's request: a mix-up must not reach the client.
fn answers(correlation_id: i32, data: &Bytes) -> bool {
    data.first_chunk().map(|bytes| i32::from_be_bytes(*bytes)) == Some(correlation_id)
}

fn framed(data: &Bytes) -> Option<Bytes> {
    let len = i32::try_from(data.len()).ok()?;
    Some([&len.to_be_bytes()[..], data].concat().into())
}

/// Says whether an answer says anywhere that whoever gave it is not the active controller.
fn says_not_controller(body: &ResponseBody) -> bool {
    let code = ErrorCode::NotController.code();
    match body {
        ResponseBody::CreateTopics(body) => body.topics.iter().any(|it| it.error_code == code),
        ResponseBody::DeleteTopics(body) => body.responses.iter().any(|it| it.error_code == code),
        ResponseBody::CreatePartitions(body) => body.results.iter().any(|it| it.error_code == code),
        ResponseBody::IncrementalAlterConfigs(body) => {
            body.responses.iter().any(|it| it.error_code == code)
        }
        ResponseBody::ElectLeaders(body) => {
            let results = body.replica_election_results.iter();
            let mut results = results.flat_map(|topic| &topic.partition_result);
            body.error_code == code || results.any(|it| it.error_code == code)
        }
        ResponseBody::DescribeQuorum(body) => {
            // What the quorum's log says is about a partition's leader, and means the same.
            let code = ErrorCode::NotLeaderOrFollower.code();
            let mut partitions = body.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.any(|it| it.error_code == code)
        }
        _ => false,
    }
}
