//! What peers ask, off the wire, and what they are answered, onto it: in the version in which each of them speaks.

use crate::{
    protocol::{
        ApiKey, EncodeError, ErrorCode, FetchFrame, FramePart, RequestBody, encode_fetch_response,
        encode_response,
    },
    raft::messages::{FetchLogReply, PeerReply, PeerRequest, ReplyBody, SnapshotPiece},
    raft::snapshot::SnapshotId,
    storage::{Frame, Part},
};

use super::{
    WireFault, begin_response, end_response, fetch_response, fetch_snapshot_response,
    read_begin_request, read_end_request, read_fetch_request, read_fetch_snapshot_request,
    read_vote_request, vote_response,
};

/// A peer's request, as much of it as its answer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCall {
    api: ApiKey,
    version: i16,
    correlation_id: i32,
}

impl PeerCall {
    /// Reads a request that came on a controller listener; `None` when it is not one between replicas of the quorum.
    ///
    /// A Fetch there is always about the metadata log. A request with a fault is to be answered by [`Self::refuse`].
    #[must_use]
    pub fn read(
        version: i16,
        correlation_id: i32,
        body: &RequestBody,
    ) -> Option<(Self, Result<PeerRequest, WireFault>)> {
        let request = match body {
            RequestBody::Vote(data) => read_vote_request(data).map(PeerRequest::Vote),
            RequestBody::BeginQuorumEpoch(data) => {
                read_begin_request(data).map(PeerRequest::BeginQuorumEpoch)
            }
            RequestBody::EndQuorumEpoch(data) => {
                read_end_request(data).map(PeerRequest::EndQuorumEpoch)
            }
            RequestBody::Fetch(data) => read_fetch_request(data).map(PeerRequest::Fetch),
            RequestBody::FetchSnapshot(data) => {
                read_fetch_snapshot_request(data).map(PeerRequest::FetchSnapshot)
            }
            _ => return None,
        };
        let call = Self {
            api: body.api(),
            version,
            correlation_id,
        };
        Some((call, request))
    }

    /// Writes the frame that answers the request.
    ///
    /// # Errors
    ///
    /// Returns an [`EncodeError`] when the reply does not fit a frame.
    pub fn answer(self, reply: &PeerReply) -> Result<Frame, EncodeError> {
        let body = match self.api {
            ApiKey::Vote => vote_response(reply).into(),
            ApiKey::BeginQuorumEpoch => begin_response(reply).into(),
            ApiKey::EndQuorumEpoch => end_response(reply).into(),
            ApiKey::FetchSnapshot => fetch_snapshot_response(reply).into(),
            // There is nothing else to answer: `read` makes no other call.
            _ => {
                let (response, parts) = fetch_response(reply);
                let frame = encode_fetch_response(self.version, self.correlation_id, &response)?;
                return Ok(filled(frame, parts));
            }
        };
        encode_response(self.version, self.correlation_id, body).map(Frame::Whole)
    }

    /// Writes the frame that refuses the request: INVALID_REQUEST for the whole of it, as Kafka does.
    ///
    /// # Errors
    ///
    /// Returns an [`EncodeError`] for a version that is not served.
    pub fn refuse(self, _fault: WireFault) -> Result<Frame, EncodeError> {
        self.answer(&PeerReply {
            error: ErrorCode::InvalidRequest,
            epoch: None,
            leader: None,
            body: self.empty_body(),
        })
    }

    fn empty_body(self) -> ReplyBody {
        match self.api {
            ApiKey::Vote => ReplyBody::Vote { granted: false },
            ApiKey::BeginQuorumEpoch => ReplyBody::BeginQuorumEpoch,
            ApiKey::EndQuorumEpoch => ReplyBody::EndQuorumEpoch,
            ApiKey::FetchSnapshot => ReplyBody::FetchSnapshot(SnapshotPiece {
                snapshot: SnapshotId {
                    end_offset: 0,
                    epoch: crate::ids::Epoch(0),
                },
                size: 0,
                position: 0,
                bytes: Vec::new(),
            }),
            _ => ReplyBody::Fetch(FetchLogReply::default()),
        }
    }
}

/// Puts records where the answer left room for them.
fn filled(frame: FetchFrame, mut records: Vec<Part>) -> Frame {
    let mut parts = Vec::with_capacity(frame.parts.len() + records.len());
    for part in frame.parts {
        match part {
            FramePart::Head(bytes) => parts.push(Part::Bytes(bytes)),
            // An answer about one partition has one place for records.
            FramePart::Records(_) => parts.append(&mut records),
        }
    }
    Frame::Parts(parts)
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};

    use super::*;
    use crate::{
        ids::{Epoch, NodeId, Uuid},
        protocol::{
            DecodeLimits, Listener, decode_request, decode_response, encode_request,
            messages::{
                BeginQuorumEpochRequestData, EndQuorumEpochRequestData, FetchRequestData,
                FetchSnapshotRequestData, VoteRequestData,
            },
        },
        raft::{
            FetchLogRequest, LogPosition, ReplicaKey, VoteRequest,
            messages::{FetchNews, FetchSnapshotRequest},
            wire::{self, FETCH, VOTE},
        },
    };

    fn key() -> ReplicaKey {
        ReplicaKey {
            id: NodeId(1),
            directory: Uuid([1; 16]),
        }
    }

    fn vote() -> VoteRequest {
        VoteRequest {
            cluster_id: Some("cluster".into()),
            voter: Some(key()),
            candidate: key(),
            epoch: Epoch(7),
            last: LogPosition {
                epoch: Epoch(6),
                end: 42,
            },
            is_pre_vote: false,
        }
    }

    fn asked(frame: &Bytes) -> (PeerCall, Result<PeerRequest, WireFault>) {
        let limits = DecodeLimits::new(Listener::Controller);
        let request = decode_request(&frame.slice(4..), &limits).expect("a request");
        let header = request.header;
        PeerCall::read(header.version, header.correlation_id, &request.body).expect("a peer's")
    }

    fn whole(frame: Frame) -> Bytes {
        let mut whole = BytesMut::new();
        let parts = match frame {
            Frame::Whole(bytes) => vec![Part::Bytes(bytes)],
            Frame::Parts(parts) => parts,
        };
        for part in parts {
            let Part::Bytes(bytes) = part else {
                panic!("a range of a file");
            };
            whole.extend_from_slice(&bytes);
        }
        let len = i32::from_be_bytes(*whole.first_chunk().expect("a prefix"));
        assert_eq!(usize::try_from(len).unwrap(), whole.len() - 4);
        whole.freeze().slice(4..)
    }

    fn reply(body: ReplyBody) -> PeerReply {
        PeerReply {
            error: ErrorCode::None,
            epoch: Some(Epoch(7)),
            leader: Some(NodeId(3)),
            body,
        }
    }

    #[test]
    fn vote_is_answered_in_the_version_it_was_asked_in() {
        for version in 0..=VOTE {
            let data = wire::vote_request(&vote());
            let mut data = data;
            if version < 1 {
                data.voter_id = -1;
                let partition = &mut data.topics[0].partitions[0];
                partition.replica_directory_id = Uuid::ZERO.into();
                partition.voter_directory_id = Uuid::ZERO.into();
            }
            let frame = encode_request(version, 9, "n", &data).unwrap();
            let (call, request) = asked(&frame);
            let Ok(PeerRequest::Vote(read)) = request else {
                panic!("a vote");
            };
            assert_eq!(read.last, vote().last);
            let granted = reply(ReplyBody::Vote { granted: true });
            let frame = whole(call.answer(&granted).unwrap());
            let (id, data) = decode_response::<VoteRequestData>(version, &frame).unwrap();
            assert_eq!(id, 9);
            assert_eq!(wire::read_vote_response(&data), Ok(granted));
        }
    }

    #[test]
    fn fetch_is_answered_with_its_records_in_their_place() {
        let request = FetchLogRequest {
            cluster_id: Some("cluster".into()),
            replica: key(),
            epoch: Epoch(7),
            fetch: LogPosition {
                epoch: Epoch(6),
                end: 42,
            },
            high_watermark: Some(40),
            max_wait_ms: 500,
            max_bytes: 8 << 20,
        };
        let frame = encode_request(FETCH, 9, "n", &wire::fetch_request(&request)).unwrap();
        let (call, read) = asked(&frame);
        assert_eq!(read, Ok(PeerRequest::Fetch(request)));
        let news = FetchNews::Records(vec![
            Part::Bytes(Bytes::from_static(b"one")),
            Part::Bytes(Bytes::from_static(b"two")),
        ]);
        let answer = reply(ReplyBody::Fetch(FetchLogReply {
            high_watermark: Some(42),
            log_start: 0,
            news,
        }));
        let frame = whole(call.answer(&answer).unwrap());
        let (_, data) = decode_response::<FetchRequestData>(FETCH, &frame).unwrap();
        let records = data.responses[0].partitions[0].records.clone();
        assert_eq!(records, Some(Bytes::from_static(b"onetwo")));
    }

    #[test]
    fn request_about_another_partition_is_refused_whatever_it_asks() {
        let invalid = ErrorCode::InvalidRequest.code();
        let code = |frame: Bytes, version| {
            let (call, request) = asked(&frame);
            let refusal = whole(call.refuse(request.expect_err("a fault")).unwrap());
            match call.api {
                ApiKey::Vote => decode_response::<VoteRequestData>(version, &refusal)
                    .map(|(_, data)| data.error_code),
                ApiKey::BeginQuorumEpoch => {
                    decode_response::<BeginQuorumEpochRequestData>(version, &refusal)
                        .map(|(_, data)| data.error_code)
                }
                ApiKey::EndQuorumEpoch => {
                    decode_response::<EndQuorumEpochRequestData>(version, &refusal)
                        .map(|(_, data)| data.error_code)
                }
                ApiKey::FetchSnapshot => {
                    decode_response::<FetchSnapshotRequestData>(version, &refusal)
                        .map(|(_, data)| data.error_code)
                }
                _ => decode_response::<FetchRequestData>(version, &refusal)
                    .map(|(_, data)| data.error_code),
            }
            .unwrap()
        };
        let none = VoteRequestData::default();
        assert_eq!(code(encode_request(2, 1, "", &none).unwrap(), 2), invalid);
        let none = BeginQuorumEpochRequestData::default();
        assert_eq!(code(encode_request(0, 1, "", &none).unwrap(), 0), invalid);
        let none = EndQuorumEpochRequestData::default();
        assert_eq!(code(encode_request(1, 1, "", &none).unwrap(), 1), invalid);
        let none = FetchRequestData::default();
        assert_eq!(code(encode_request(17, 1, "", &none).unwrap(), 17), invalid);
        let snapshot = SnapshotId {
            end_offset: 20,
            epoch: Epoch(4),
        };
        let request = FetchSnapshotRequest {
            cluster_id: None,
            replica: key(),
            epoch: Epoch(7),
            snapshot,
            position: 0,
            max_bytes: 100,
        };
        let mut other = wire::fetch_snapshot_request(&request);
        other.topics[0].partitions[0].partition = 1;
        assert_eq!(code(encode_request(1, 1, "", &other).unwrap(), 1), invalid);
    }

    #[test]
    fn what_brokers_ask_of_a_controller_is_no_call_of_a_peer() {
        let body = RequestBody::BrokerHeartbeat(Default::default());
        assert_eq!(PeerCall::read(1, 1, &body), None);
    }
}
