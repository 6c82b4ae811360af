//! The client's side: requests written, responses read, by the wire crate.

use bytes::{BufMut, Bytes, BytesMut};

use super::{
    ApiKey, CodecFault, DecodeLimits, EncodeError, ErrorCode, FRAME_PREFIX_BYTES, Listener,
    ResponseError,
    messages::{
        AlterPartitionRequestData, AlterPartitionResponseData, ApiVersionsRequestData,
        ApiVersionsResponseData, BeginQuorumEpochRequestData, BeginQuorumEpochResponseData,
        BrokerHeartbeatRequestData, BrokerHeartbeatResponseData, BrokerRegistrationRequestData,
        BrokerRegistrationResponseData, CreatePartitionsRequestData, CreatePartitionsResponseData,
        CreateTopicsRequestData, CreateTopicsResponseData, DeleteRecordsRequestData,
        DeleteRecordsResponseData, DeleteTopicsRequestData, DeleteTopicsResponseData,
        DescribeClusterRequestData, DescribeClusterResponseData, DescribeConfigsRequestData,
        DescribeConfigsResponseData, DescribeQuorumRequestData, DescribeQuorumResponseData,
        ElectLeadersRequestData, ElectLeadersResponseData, EndQuorumEpochRequestData,
        EndQuorumEpochResponseData, EnvelopeRequestData, EnvelopeResponseData, FetchRequestData,
        FetchResponseData, FetchSnapshotRequestData, FetchSnapshotResponseData,
        FindCoordinatorRequestData, FindCoordinatorResponseData,
        IncrementalAlterConfigsRequestData, IncrementalAlterConfigsResponseData,
        ListOffsetsRequestData, ListOffsetsResponseData, MetadataRequestData, MetadataResponseData,
        OffsetForLeaderEpochRequestData, OffsetForLeaderEpochResponseData, ProduceRequestData,
        ProduceResponseData, VoteRequestData, VoteResponseData,
    },
    reader::Reader,
};

mod sealed {
    use bytes::{Bytes, BytesMut};
    use kacrab_protocol::Result;

    /// What a request does on the wire; only messages of the wire crate have it.
    #[expect(
        unnameable_types,
        reason = "sealed: nobody else implements or calls it"
    )]
    pub trait Wire {
        type Answer;
        fn len(&self, version: i16) -> Result<usize>;
        fn put(&self, buffer: &mut BytesMut, version: i16) -> Result<()>;
        fn answer(buffer: &mut Bytes, version: i16) -> Result<Self::Answer>;
    }
}

/// A request that a client can send.
pub trait ClientRequest: sealed::Wire<Answer = Self::Response> {
    /// Its API.
    const API: ApiKey;
    /// The response to it.
    type Response;
}

macro_rules! client_requests {
    ($($api:ident($request:ident, $response:ident);)*) => {$(
        impl ClientRequest for $request {
            const API: ApiKey = ApiKey::$api;
            type Response = $response;
        }

        impl sealed::Wire for $request {
            type Answer = $response;

            fn len(&self, version: i16) -> kacrab_protocol::Result<usize> {
                self.encoded_len(version)
            }

            fn put(&self, buffer: &mut BytesMut, version: i16) -> kacrab_protocol::Result<()> {
                self.write(buffer, version)
            }

            fn answer(buffer: &mut Bytes, version: i16) -> kacrab_protocol::Result<$response> {
                $response::read(buffer, version)
            }
        }
    )*};
}

client_requests! {
    Produce(ProduceRequestData, ProduceResponseData);
    Fetch(FetchRequestData, FetchResponseData);
    ListOffsets(ListOffsetsRequestData, ListOffsetsResponseData);
    Metadata(MetadataRequestData, MetadataResponseData);
    FindCoordinator(FindCoordinatorRequestData, FindCoordinatorResponseData);
    ApiVersions(ApiVersionsRequestData, ApiVersionsResponseData);
    CreateTopics(CreateTopicsRequestData, CreateTopicsResponseData);
    DeleteTopics(DeleteTopicsRequestData, DeleteTopicsResponseData);
    DeleteRecords(DeleteRecordsRequestData, DeleteRecordsResponseData);
    OffsetForLeaderEpoch(OffsetForLeaderEpochRequestData, OffsetForLeaderEpochResponseData);
    DescribeConfigs(DescribeConfigsRequestData, DescribeConfigsResponseData);
    CreatePartitions(CreatePartitionsRequestData, CreatePartitionsResponseData);
    IncrementalAlterConfigs(IncrementalAlterConfigsRequestData, IncrementalAlterConfigsResponseData);
    DescribeCluster(DescribeClusterRequestData, DescribeClusterResponseData);
    ElectLeaders(ElectLeadersRequestData, ElectLeadersResponseData);
    AlterPartition(AlterPartitionRequestData, AlterPartitionResponseData);
    BrokerRegistration(BrokerRegistrationRequestData, BrokerRegistrationResponseData);
    BrokerHeartbeat(BrokerHeartbeatRequestData, BrokerHeartbeatResponseData);
    Vote(VoteRequestData, VoteResponseData);
    BeginQuorumEpoch(BeginQuorumEpochRequestData, BeginQuorumEpochResponseData);
    EndQuorumEpoch(EndQuorumEpochRequestData, EndQuorumEpochResponseData);
    DescribeQuorum(DescribeQuorumRequestData, DescribeQuorumResponseData);
    Envelope(EnvelopeRequestData, EnvelopeResponseData);
    FetchSnapshot(FetchSnapshotRequestData, FetchSnapshotResponseData);
}

/// Writes a request frame, length prefix and header included.
///
/// # Errors
///
/// Returns an [`EncodeError`] for an unknown version, a value too long for the wire, or a field
/// set that `version` lacks.
pub fn encode_request<R: ClientRequest>(
    version: i16,
    correlation_id: i32,
    client_id: &str,
    request: &R,
) -> Result<Bytes, EncodeError> {
    let api = R::API;
    if !api.serves(version) {
        return Err(EncodeError::Version { api, version });
    }
    let codec = |source| EncodeError::Codec {
        api,
        version,
        source: CodecFault::from(source),
    };
    let client_id_len =
        i16::try_from(client_id.len()).map_err(|_| EncodeError::TooLong { field: "ClientId" })?;
    let tagged = api.request_header_version(version) == 2;
    let header_len = 10 + client_id.len() + usize::from(tagged);
    let too_long = EncodeError::TooLong { field: "frame" };
    let Some(len) = request.len(version).map_err(codec)?.checked_add(header_len) else {
        return Err(too_long);
    };
    let Ok(prefix) = i32::try_from(len) else {
        return Err(too_long);
    };
    let mut buffer = BytesMut::with_capacity(len + FRAME_PREFIX_BYTES);
    buffer.put_i32(prefix);
    buffer.put_i16(api.key());
    buffer.put_i16(version);
    buffer.put_i32(correlation_id);
    buffer.put_i16(client_id_len);
    buffer.put_slice(client_id.as_bytes());
    if tagged {
        buffer.put_u8(0);
    }
    request.put(&mut buffer, version).map_err(codec)?;
    Ok(buffer.freeze())
}

/// Reads a response frame, without its length prefix: the correlation id and the body.
///
/// A broker that does not know the version of an ApiVersions request answers in version 0
/// (KIP-511); such an answer is read as that.
///
/// # Errors
///
/// Returns a [`ResponseError`] for a damaged frame; the connection is then of no more use.
pub fn decode_response<R: ClientRequest>(
    version: i16,
    frame: &Bytes,
) -> Result<(i32, R::Response), ResponseError> {
    let api = R::API;
    let tagged = api.response_header_version(version) == 1;
    let limits = DecodeLimits::new(Listener::Broker);
    let mut reader = Reader::new(frame, 0, tagged, &limits);
    let header = reader.i32("CorrelationId").and_then(|id| {
        reader.skip_tags()?;
        Ok(id)
    });
    let correlation_id = header.map_err(|fault| ResponseError::Header { fault: fault.fault })?;
    let body = frame.slice(reader.position()..);
    let version = if api == ApiKey::ApiVersions && says_unsupported(&body) {
        0
    } else {
        version
    };
    Ok((correlation_id, decode_body::<R>(version, body)?))
}

/// Writes a request's body alone, for a call between nodes.
///
/// # Errors
///
/// Returns an [`EncodeError`] for an unknown version, a value too long for the wire, or a field
/// set that `version` lacks.
pub fn encode_body<R: ClientRequest>(version: i16, request: &R) -> Result<Bytes, EncodeError> {
    let api = R::API;
    if !api.serves(version) {
        return Err(EncodeError::Version { api, version });
    }
    let codec = |source| EncodeError::Codec {
        api,
        version,
        source: CodecFault::from(source),
    };
    let mut buffer = BytesMut::with_capacity(request.len(version).map_err(codec)?);
    request.put(&mut buffer, version).map_err(codec)?;
    Ok(buffer.freeze())
}

/// Reads the body of an answer to a call between nodes.
///
/// # Errors
///
/// Returns a [`ResponseError`] for a damaged body.
pub fn decode_body<R: ClientRequest>(
    version: i16,
    mut body: Bytes,
) -> Result<R::Response, ResponseError> {
    let api = R::API;
    let response = R::answer(&mut body, version).map_err(|source| ResponseError::Body {
        api,
        version,
        source: source.into(),
    })?;
    match body.len() {
        0 => Ok(response),
        count => Err(ResponseError::Trailing {
            api,
            version,
            count,
        }),
    }
}

fn says_unsupported(body: &Bytes) -> bool {
    body.first_chunk().map(|code| i16::from_be_bytes(*code))
        == Some(ErrorCode::UnsupportedVersion.code())
}
