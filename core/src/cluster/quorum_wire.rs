//! The quorum's calls and their answers, as they travel between nodes.

use bytes::Bytes;

use crate::{
    protocol::{
        ApiKey, ClientRequest, EncodeError, ResponseError, decode_body, encode_body,
        messages::{
            BeginQuorumEpochRequestData, EndQuorumEpochRequestData, FetchRequestData,
            FetchSnapshotRequestData, VoteRequestData,
        },
    },
    raft::{PeerReply, PeerRequest, wire},
};

/// What a call asked, so that its answer can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Vote,
    BeginQuorumEpoch,
    EndQuorumEpoch,
    Fetch,
    FetchSnapshot,
}

/// Why an answer is none.
#[derive(Debug, thiserror::Error)]
pub(super) enum AnswerFault {
    #[error(transparent)]
    Response(#[from] ResponseError),
    #[error(transparent)]
    Wire(#[from] wire::WireFault),
}

/// A call written: what it asks, its API, its version, and its body.
pub(super) type Written = (Asked, ApiKey, i16, Bytes);

fn write<R: ClientRequest>(
    asked: Asked,
    version: i16,
    request: &R,
) -> Result<Written, EncodeError> {
    Ok((asked, R::API, version, encode_body(version, request)?))
}

/// Writes a call.
pub(super) fn encode(request: &PeerRequest) -> Result<Written, EncodeError> {
    match request {
        PeerRequest::Vote(request) => write(Asked::Vote, wire::VOTE, &wire::vote_request(request)),
        PeerRequest::BeginQuorumEpoch(request) => write(
            Asked::BeginQuorumEpoch,
            wire::BEGIN_QUORUM_EPOCH,
            &wire::begin_request(request),
        ),
        PeerRequest::EndQuorumEpoch(request) => write(
            Asked::EndQuorumEpoch,
            wire::END_QUORUM_EPOCH,
            &wire::end_request(request),
        ),
        PeerRequest::Fetch(request) => {
            write(Asked::Fetch, wire::FETCH, &wire::fetch_request(request))
        }
        PeerRequest::FetchSnapshot(request) => write(
            Asked::FetchSnapshot,
            wire::FETCH_SNAPSHOT,
            &wire::fetch_snapshot_request(request),
        ),
    }
}

/// Reads the answer to a call.
pub(super) fn decode(asked: Asked, body: Bytes) -> Result<PeerReply, AnswerFault> {
    Ok(match asked {
        Asked::Vote => {
            wire::read_vote_response(&decode_body::<VoteRequestData>(wire::VOTE, body)?)?
        }
        Asked::BeginQuorumEpoch => {
            let version = wire::BEGIN_QUORUM_EPOCH;
            let answer = decode_body::<BeginQuorumEpochRequestData>(version, body)?;
            wire::read_begin_response(&answer)?
        }
        Asked::EndQuorumEpoch => {
            let version = wire::END_QUORUM_EPOCH;
            let answer = decode_body::<EndQuorumEpochRequestData>(version, body)?;
            wire::read_end_response(&answer)?
        }
        Asked::Fetch => {
            wire::read_fetch_response(&decode_body::<FetchRequestData>(wire::FETCH, body)?)?
        }
        Asked::FetchSnapshot => {
            let version = wire::FETCH_SNAPSHOT;
            let answer = decode_body::<FetchSnapshotRequestData>(version, body)?;
            wire::read_fetch_snapshot_response(&answer)?
        }
    })
}
