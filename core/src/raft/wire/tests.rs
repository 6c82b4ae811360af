//! Every message there and back through the wire crate's bytes.

use bytes::{Bytes, BytesMut};

use crate::{
    ids::{Epoch, NodeId, Uuid},
    protocol::{
        DecodeLimits, ErrorCode, FetchRequest, FramePart, Listener, RequestBody, decode_request,
        encode_fetch_response, encode_request,
        messages::{
            FetchResponseData,
            quorum::{
                begin_quorum_epoch_request, begin_quorum_epoch_response, describe_quorum_response,
                end_quorum_epoch_request, end_quorum_epoch_response, fetch_snapshot_request,
                fetch_snapshot_response, vote_request, vote_response,
            },
        },
    },
    raft::{
        Endpoint, LogPosition, PeerReply, QuorumDescription, ReplicaKey, ReplicaProgress,
        ReplyBody, SnapshotId, VoterSet, messages,
    },
    storage::Part,
    time::Timestamp,
};

use super::*;

/// Writes a message and reads it again, in one version.
macro_rules! through {
    ($data:expr, $module:ident::$type:ident, $version:expr) => {{
        let mut buffer = BytesMut::new();
        $data
            .write(&mut buffer, $version)
            .expect("it can be written");
        assert_eq!($data.encoded_len($version).unwrap(), buffer.len());
        let mut bytes = buffer.freeze();
        let read = $module::$type::read(&mut bytes, $version).expect("it can be read");
        assert!(bytes.is_empty());
        read
    }};
}

fn key(id: i32) -> ReplicaKey {
    ReplicaKey {
        id: NodeId(id),
        directory: Uuid([u8::try_from(id).unwrap(); 16]),
    }
}

fn endpoints() -> Vec<Endpoint> {
    vec![Endpoint {
        name: "CONTROLLER".into(),
        host: "host".into(),
        port: 9093,
    }]
}

fn vote(is_pre_vote: bool) -> messages::VoteRequest {
    messages::VoteRequest {
        cluster_id: Some("cluster".into()),
        voter: Some(key(2)),
        candidate: key(1),
        epoch: Epoch(7),
        last: LogPosition {
            epoch: Epoch(6),
            end: 42,
        },
        is_pre_vote,
    }
}

fn reply(body: ReplyBody) -> PeerReply {
    PeerReply {
        error: ErrorCode::None,
        epoch: Some(Epoch(7)),
        leader: Some(NodeId(3)),
        body,
    }
}

fn refusal(body: ReplyBody) -> PeerReply {
    PeerReply {
        error: ErrorCode::InconsistentClusterId,
        epoch: None,
        leader: None,
        body,
    }
}

#[test]
fn vote_and_its_answer_come_back_as_they_were() {
    for is_pre_vote in [false, true] {
        let request = vote(is_pre_vote);
        let data = through!(vote_request(&request), vote_request::VoteRequestData, VOTE);
        assert_eq!(read_vote_request(&data), Ok(request));
    }
    let mut unnamed = vote(false);
    (unnamed.cluster_id, unnamed.voter) = (None, None);
    let data = through!(vote_request(&unnamed), vote_request::VoteRequestData, VOTE);
    assert_eq!(read_vote_request(&data), Ok(unnamed));
    for granted in [false, true] {
        let granted = ReplyBody::Vote { granted };
        let answer = reply(granted);
        let data = through!(
            vote_response(&answer),
            vote_response::VoteResponseData,
            VOTE
        );
        assert_eq!(read_vote_response(&data), Ok(answer));
    }
    let answer = refusal(ReplyBody::Vote { granted: false });
    let data = through!(
        vote_response(&answer),
        vote_response::VoteResponseData,
        VOTE
    );
    assert_eq!(read_vote_response(&data), Ok(answer));
}

#[test]
fn vote_of_an_older_version_names_no_directories() {
    let data = through!(vote_request(&vote(false)), vote_request::VoteRequestData, 0);
    let read = read_vote_request(&data).expect("a vote");
    assert_eq!(read.candidate.directory, Uuid::ZERO);
    assert_eq!(read.voter, None);
    assert!(!read.is_pre_vote);
    assert!(vote_request(&vote(true)).encoded_len(1).is_err());
}

#[test]
fn begin_and_end_of_an_epoch_come_back_as_they_were() {
    let request = messages::BeginQuorumEpochRequest {
        cluster_id: Some("cluster".into()),
        voter: Some(key(2)),
        leader: NodeId(1),
        epoch: Epoch(7),
        endpoints: endpoints(),
    };
    let data = through!(
        begin_request(&request),
        begin_quorum_epoch_request::BeginQuorumEpochRequestData,
        BEGIN_QUORUM_EPOCH
    );
    assert_eq!(read_begin_request(&data), Ok(request));
    for answer in [
        reply(ReplyBody::BeginQuorumEpoch),
        refusal(ReplyBody::BeginQuorumEpoch),
    ] {
        let data = through!(
            begin_response(&answer),
            begin_quorum_epoch_response::BeginQuorumEpochResponseData,
            BEGIN_QUORUM_EPOCH
        );
        assert_eq!(read_begin_response(&data), Ok(answer));
    }
    let request = messages::EndQuorumEpochRequest {
        cluster_id: Some("cluster".into()),
        leader: NodeId(1),
        epoch: Epoch(7),
        preferred: vec![key(3), key(2)],
        endpoints: endpoints(),
    };
    let data = through!(
        end_request(&request),
        end_quorum_epoch_request::EndQuorumEpochRequestData,
        END_QUORUM_EPOCH
    );
    assert_eq!(read_end_request(&data), Ok(request));
    for answer in [
        reply(ReplyBody::EndQuorumEpoch),
        refusal(ReplyBody::EndQuorumEpoch),
    ] {
        let data = through!(
            end_response(&answer),
            end_quorum_epoch_response::EndQuorumEpochResponseData,
            END_QUORUM_EPOCH
        );
        assert_eq!(read_end_response(&data), Ok(answer));
    }
}

#[test]
fn end_of_an_epoch_in_version_0_names_successors_without_directories() {
    let partition = end_quorum_epoch_request::PartitionData::default()
        .with_leader_id(1)
        .with_leader_epoch(7)
        .with_preferred_successors(vec![3, 2]);
    let topic = end_quorum_epoch_request::TopicData::default()
        .with_topic_name(topic())
        .with_partitions(vec![partition]);
    let data =
        end_quorum_epoch_request::EndQuorumEpochRequestData::default().with_topics(vec![topic]);
    let data = through!(data, end_quorum_epoch_request::EndQuorumEpochRequestData, 0);
    let read = read_end_request(&data).expect("an end");
    let ids: Vec<i32> = read.preferred.iter().map(|key| key.id.0).collect();
    assert_eq!(ids, [3, 2]);
}

fn fetch(end: i64) -> messages::FetchLogRequest {
    messages::FetchLogRequest {
        cluster_id: Some("cluster".into()),
        replica: key(2),
        epoch: Epoch(7),
        fetch: LogPosition {
            epoch: Epoch(if end == 0 { 0 } else { 6 }),
            end,
        },
        high_watermark: Some(40),
        max_wait_ms: 500,
        max_bytes: 8 << 20,
    }
}

/// Writes a fetch as a replica does and reads it as a leader does.
fn fetched(request: &messages::FetchLogRequest, version: i16) -> FetchRequest {
    let frame = encode_request(version, 5, "replica", &fetch_request(request)).expect("a frame");
    let limits = DecodeLimits::new(Listener::Controller);
    let decoded = decode_request(&frame.slice(4..), &limits).expect("a request");
    match decoded.body {
        RequestBody::Fetch(fetch) => fetch,
        _ => panic!("another request"),
    }
}

#[test]
fn fetch_comes_back_as_it_was() {
    for end in [0, 42] {
        let request = fetch(end);
        let decoded = fetched(&request, FETCH);
        assert!(is_metadata_fetch(&decoded));
        assert_eq!(read_fetch_request(&decoded), Ok(request));
    }
    let mut unknown = fetch(42);
    unknown.high_watermark = None;
    assert_eq!(read_fetch_request(&fetched(&unknown, 17)), Ok(unknown));
}

#[test]
fn answer_to_a_fetch_comes_back_with_its_records() {
    let position = LogPosition {
        epoch: Epoch(5),
        end: 30,
    };
    let snapshot = SnapshotId {
        end_offset: 20,
        epoch: Epoch(4),
    };
    let records = vec![Part::Bytes(Bytes::from_static(b"batches"))];
    for news in [
        messages::FetchNews::Records(records),
        messages::FetchNews::Records(vec![]),
        messages::FetchNews::Diverging(position),
        messages::FetchNews::Snapshot(snapshot),
    ] {
        let answer = reply(ReplyBody::Fetch(messages::FetchLogReply {
            high_watermark: Some(41),
            log_start: 12,
            news,
        }));
        assert_eq!(answered(&answer), answer);
    }
    let answer = refusal(ReplyBody::Fetch(messages::FetchLogReply::default()));
    assert_eq!(answered(&answer), answer);
}

/// Writes an answer as a leader does and reads it as a replica does.
fn answered(answer: &PeerReply) -> PeerReply {
    let (response, parts) = fetch_response(answer);
    let frame = encode_fetch_response(FETCH, 5, &response).expect("a frame");
    let mut bytes = BytesMut::new();
    for part in &frame.parts {
        match part {
            FramePart::Head(head) => bytes.extend_from_slice(head),
            FramePart::Records(_) => {
                for part in &parts {
                    let Part::Bytes(records) = part else {
                        panic!("a range of a file");
                    };
                    bytes.extend_from_slice(records);
                }
            }
        }
    }
    let mut body = bytes.freeze().slice(4 + 4 + 1..);
    let data = FetchResponseData::read(&mut body, FETCH).expect("an answer");
    read_fetch_response(&data).expect("a replica's")
}

#[test]
fn snapshot_pieces_come_back_as_they_were() {
    let snapshot = SnapshotId {
        end_offset: 20,
        epoch: Epoch(4),
    };
    let request = messages::FetchSnapshotRequest {
        cluster_id: Some("cluster".into()),
        replica: key(2),
        epoch: Epoch(7),
        snapshot,
        position: 100,
        max_bytes: 1 << 20,
    };
    let data = through!(
        fetch_snapshot_request(&request),
        fetch_snapshot_request::FetchSnapshotRequestData,
        FETCH_SNAPSHOT
    );
    assert_eq!(read_fetch_snapshot_request(&data), Ok(request));
    let answer = reply(ReplyBody::FetchSnapshot(messages::SnapshotPiece {
        snapshot,
        size: 107,
        position: 100,
        bytes: vec![Part::Bytes(Bytes::from_static(b"records"))],
    }));
    let data = through!(
        fetch_snapshot_response(&answer),
        fetch_snapshot_response::FetchSnapshotResponseData,
        FETCH_SNAPSHOT
    );
    assert_eq!(read_fetch_snapshot_response(&data), Ok(answer));
}

#[test]
fn message_about_another_partition_is_refused() {
    let mut data = vote_request(&vote(false));
    data.topics[0].topic_name = text("other");
    assert_eq!(read_vote_request(&data), Err(WireFault::Partition));
    let mut data = vote_request(&vote(false));
    data.topics[0].partitions[0].partition_index = 1;
    assert_eq!(read_vote_request(&data), Err(WireFault::Partition));
    let mut data = vote_request(&vote(false));
    data.topics.clear();
    assert_eq!(read_vote_request(&data), Err(WireFault::Partition));
}

#[test]
fn number_that_no_replica_sends_is_refused_by_its_name() {
    type Change = fn(&mut vote_request::PartitionData);
    let changes: [(Change, &str); 4] = [
        (|data| data.replica_epoch = -1, "ReplicaEpoch"),
        (|data| data.replica_id = -1, "ReplicaId"),
        (|data| data.last_offset = -1, "LastOffset"),
        (|data| data.last_offset_epoch = -1, "LastOffsetEpoch"),
    ];
    for (change, field) in changes {
        let mut data = vote_request(&vote(false));
        change(&mut data.topics[0].partitions[0]);
        assert_eq!(read_vote_request(&data), Err(WireFault::Field { field }));
    }
    let mut data = vote_response(&reply(ReplyBody::Vote { granted: true }));
    data.topics[0].partitions[0].error_code = 9_999;
    let unknown = Err(WireFault::ErrorCode { code: 9_999 });
    assert_eq!(read_vote_response(&data), unknown);
}

#[test]
fn description_of_a_quorum_fits_every_version() {
    let progress = |id| ReplicaProgress {
        replica: key(id),
        log_end: 42,
        last_fetch: Timestamp::from_millis(5),
        last_caught_up: Timestamp::from_millis(4),
    };
    let description = QuorumDescription {
        leader: NodeId(1),
        epoch: Epoch(7),
        high_watermark: 41,
        voters: vec![progress(1), progress(2)],
        observers: vec![progress(9)],
    };
    for version in 0..=2 {
        let voters = VoterSet::default();
        let data = describe_quorum_response(Some(&description), &voters, version);
        let read = through!(
            data,
            describe_quorum_response::DescribeQuorumResponseData,
            version
        );
        let partition = &read.topics[0].partitions[0];
        assert_eq!(partition.current_voters.len(), 2);
        assert_eq!(partition.observers[0].log_end_offset, 42);
        let none = describe_quorum_response(None, &voters, version);
        let code = none.topics[0].partitions[0].error_code;
        assert_eq!(code, ErrorCode::NotLeaderOrFollower.code());
    }
}
