//! Decoding of requests.

use bytes::Bytes;

use super::{
    ApiKey, DecodeError, Fault, FetchRequest, Listener, ProduceRequest, RequestHeader,
    messages::{
        AlterPartitionRequestData, ApiVersionsRequestData, BeginQuorumEpochRequestData,
        BrokerHeartbeatRequestData, BrokerRegistrationRequestData, CreatePartitionsRequestData,
        CreateTopicsRequestData, DeleteRecordsRequestData, DeleteTopicsRequestData,
        DescribeClusterRequestData, DescribeConfigsRequestData, DescribeQuorumRequestData,
        ElectLeadersRequestData, EndQuorumEpochRequestData, EnvelopeRequestData,
        FetchSnapshotRequestData, FindCoordinatorRequestData, IncrementalAlterConfigsRequestData,
        ListOffsetsRequestData, MetadataRequestData, OffsetForLeaderEpochRequestData,
        VoteRequestData,
    },
    reader::{FieldFault, Read, Reader},
    schema::Schema,
    schemas,
};

/// What is accepted of a request on some listener.
#[derive(Clone, Copy, Debug)]
pub struct DecodeLimits {
    /// The listener, which decides which APIs are served.
    pub listener: Listener,
    /// The most elements of one array (Kafka 4.4: 1,000,000).
    pub elements_max: u64,
    /// The most tagged fields of one struct (Kafka 4.4: 10,000).
    pub tags_max: u64,
    /// The most bytes that the decoded message may take beside the frame, which its strings and
    /// records share; arrays that grow while they are read may hold up to twice that.
    pub memory_max: u64,
}

impl DecodeLimits {
    /// The defaults on a listener.
    #[must_use]
    pub const fn new(listener: Listener) -> Self {
        Self {
            listener,
            elements_max: 1_000_000,
            tags_max: 10_000,
            memory_max: 64 << 20,
        }
    }
}

/// A decoded request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Its header.
    pub header: RequestHeader,
    /// Its body.
    pub body: RequestBody,
}

macro_rules! bodies {
    ($($name:ident($data:ident, $schema:ident);)*) => {
        /// The body of a request.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum RequestBody {
            /// Produce, by the decoder of this crate.
            Produce(ProduceRequest),
            /// Fetch, by the decoder of this crate.
            Fetch(FetchRequest),
            $(
                #[doc = concat!(stringify!($name), ".")]
                $name($data),
            )*
        }

        impl RequestBody {
            /// Returns the API of the body.
            #[must_use]
            pub const fn api(&self) -> ApiKey {
                match self {
                    Self::Produce(_) => ApiKey::Produce,
                    Self::Fetch(_) => ApiKey::Fetch,
                    $(Self::$name(_) => ApiKey::$name,)*
                }
            }
        }

        fn body(api: ApiKey, reader: &mut Reader<'_>, frame: &Bytes, version: i16) -> Read<RequestBody> {
            match api {
                ApiKey::Produce => ProduceRequest::read(reader, version).map(RequestBody::Produce),
                ApiKey::Fetch => FetchRequest::read(reader, version).map(RequestBody::Fetch),
                $(ApiKey::$name => {
                    let body = checked(&schemas::$schema, reader, frame, version, $data::read)?;
                    Ok(RequestBody::$name(body))
                })*
            }
        }

        #[cfg(test)]
        pub(super) const SCHEMAS: &[(ApiKey, Schema)] = &[$((ApiKey::$name, schemas::$schema),)*];
    };
}

bodies! {
    ListOffsets(ListOffsetsRequestData, LIST_OFFSETS);
    Metadata(MetadataRequestData, METADATA);
    FindCoordinator(FindCoordinatorRequestData, FIND_COORDINATOR);
    ApiVersions(ApiVersionsRequestData, API_VERSIONS);
    CreateTopics(CreateTopicsRequestData, CREATE_TOPICS);
    DeleteTopics(DeleteTopicsRequestData, DELETE_TOPICS);
    DeleteRecords(DeleteRecordsRequestData, DELETE_RECORDS);
    OffsetForLeaderEpoch(OffsetForLeaderEpochRequestData, OFFSET_FOR_LEADER_EPOCH);
    DescribeConfigs(DescribeConfigsRequestData, DESCRIBE_CONFIGS);
    CreatePartitions(CreatePartitionsRequestData, CREATE_PARTITIONS);
    IncrementalAlterConfigs(IncrementalAlterConfigsRequestData, INCREMENTAL_ALTER_CONFIGS);
    DescribeCluster(DescribeClusterRequestData, DESCRIBE_CLUSTER);
    ElectLeaders(ElectLeadersRequestData, ELECT_LEADERS);
    AlterPartition(AlterPartitionRequestData, ALTER_PARTITION);
    BrokerRegistration(BrokerRegistrationRequestData, BROKER_REGISTRATION);
    BrokerHeartbeat(BrokerHeartbeatRequestData, BROKER_HEARTBEAT);
    Vote(VoteRequestData, VOTE);
    BeginQuorumEpoch(BeginQuorumEpochRequestData, BEGIN_QUORUM_EPOCH);
    EndQuorumEpoch(EndQuorumEpochRequestData, END_QUORUM_EPOCH);
    DescribeQuorum(DescribeQuorumRequestData, DESCRIBE_QUORUM);
    Envelope(EnvelopeRequestData, ENVELOPE);
    FetchSnapshot(FetchSnapshotRequestData, FETCH_SNAPSHOT);
}

/// Decodes one frame, without its length prefix.
///
/// Strings and records are slices of `frame`. What is allocated beside it is bounded by
/// [`DecodeLimits::memory_max`], whatever the frame claims.
///
/// # Errors
///
/// Returns a [`DecodeError`] that knows what the connection has to do.
pub fn decode_request(frame: &Bytes, limits: &DecodeLimits) -> Result<Request, DecodeError> {
    let (header, at) = RequestHeader::read(frame, limits)?;
    let RequestHeader {
        api,
        version,
        correlation_id,
        ..
    } = header;
    let mut reader = Reader::new(frame, at, api.is_flexible(version), limits);
    let body = body(api, &mut reader, frame, version).map_err(|FieldFault { field, fault }| {
        DecodeError::Body {
            api,
            version,
            correlation_id,
            field,
            fault,
        }
    })?;
    Ok(Request { header, body })
}

/// Checks a body by its schema and only then lets the wire crate decode it.
fn checked<T>(
    schema: &Schema,
    reader: &mut Reader<'_>,
    frame: &Bytes,
    version: i16,
    read: fn(&mut Bytes, i16) -> kacrab_protocol::Result<T>,
) -> Read<T> {
    let from = reader.position();
    schema.check(reader, version)?;
    let mut bytes = frame.slice(from..);
    let body = read(&mut bytes, version).map_err(|_| FieldFault::new("message", Fault::Codec))?;
    if bytes.is_empty() {
        Ok(body)
    } else {
        Err(FieldFault::new("message", Fault::Codec))
    }
}
