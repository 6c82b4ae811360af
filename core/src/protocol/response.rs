//! Encoding of responses.

use bytes::{BufMut, Bytes, BytesMut};

use super::{
    ApiKey, EncodeError, ErrorCode, FRAME_PREFIX_BYTES, ProduceResponse,
    gate::Gate,
    messages::{
        AlterPartitionResponseData, ApiVersionsResponseData, BeginQuorumEpochResponseData,
        BrokerHeartbeatResponseData, BrokerRegistrationResponseData, CreatePartitionsResponseData,
        CreateTopicsResponseData, DeleteRecordsResponseData, DeleteTopicsResponseData,
        DescribeClusterResponseData, DescribeConfigsResponseData, DescribeQuorumResponseData,
        ElectLeadersResponseData, EndQuorumEpochResponseData, EnvelopeResponseData,
        FetchSnapshotResponseData, FindCoordinatorResponseData,
        IncrementalAlterConfigsResponseData, ListOffsetsResponseData, MetadataResponseData,
        OffsetForLeaderEpochResponseData, VoteResponseData,
    },
    sink::HotMessage,
};

macro_rules! bodies {
    ($($name:ident($data:ident);)*) => {
        /// The body of a response; Fetch answers are written by
        /// [`encode_fetch_response`](super::encode_fetch_response).
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum ResponseBody {
            /// Produce, by the encoder of this crate.
            Produce(ProduceResponse),
            $(
                #[doc = concat!(stringify!($name), ".")]
                $name($data),
            )*
        }

        impl ResponseBody {
            /// Returns the API of the body.
            #[must_use]
            pub const fn api(&self) -> ApiKey {
                match self {
                    Self::Produce(_) => ApiKey::Produce,
                    $(Self::$name(_) => ApiKey::$name,)*
                }
            }
        }

        impl From<ProduceResponse> for ResponseBody {
            fn from(body: ProduceResponse) -> Self {
                Self::Produce(body)
            }
        }

        $(
            impl From<$data> for ResponseBody {
                fn from(body: $data) -> Self {
                    Self::$name(body)
                }
            }
        )*

        /// Writes a response frame, length prefix and header included.
        ///
        /// The body may be filled for the newest version: what `version` lacks is left out.
        ///
        /// # Errors
        ///
        /// Returns an [`EncodeError`] for an unknown version, or a value too long for the wire.
        pub fn encode_response(
            version: i16,
            correlation_id: i32,
            body: ResponseBody,
        ) -> Result<Bytes, EncodeError> {
            match body {
                ResponseBody::Produce(body) => body.frame_without_gaps(version, correlation_id),
                $(ResponseBody::$name(mut body) => {
                    body.gate(version);
                    let around = Around { api: ApiKey::$name, version, correlation_id };
                    around.frame(
                        || body.encoded_len(version),
                        |buffer| body.write(buffer, version),
                    )
                })*
            }
        }
    };
}

bodies! {
    ListOffsets(ListOffsetsResponseData);
    Metadata(MetadataResponseData);
    FindCoordinator(FindCoordinatorResponseData);
    ApiVersions(ApiVersionsResponseData);
    CreateTopics(CreateTopicsResponseData);
    DeleteTopics(DeleteTopicsResponseData);
    DeleteRecords(DeleteRecordsResponseData);
    OffsetForLeaderEpoch(OffsetForLeaderEpochResponseData);
    DescribeConfigs(DescribeConfigsResponseData);
    CreatePartitions(CreatePartitionsResponseData);
    IncrementalAlterConfigs(IncrementalAlterConfigsResponseData);
    DescribeCluster(DescribeClusterResponseData);
    ElectLeaders(ElectLeadersResponseData);
    AlterPartition(AlterPartitionResponseData);
    BrokerRegistration(BrokerRegistrationResponseData);
    BrokerHeartbeat(BrokerHeartbeatResponseData);
    Vote(VoteResponseData);
    BeginQuorumEpoch(BeginQuorumEpochResponseData);
    EndQuorumEpoch(EndQuorumEpochResponseData);
    DescribeQuorum(DescribeQuorumResponseData);
    Envelope(EnvelopeResponseData);
    FetchSnapshot(FetchSnapshotResponseData);
}

/// What stands around a body of the wire crate.
struct Around {
    api: ApiKey,
    version: i16,
    correlation_id: i32,
}

impl Around {
    fn frame(
        &self,
        body_len: impl FnOnce() -> kacrab_protocol::Result<usize>,
        write: impl FnOnce(&mut BytesMut) -> kacrab_protocol::Result<()>,
    ) -> Result<Bytes, EncodeError> {
        let Self {
            api,
            version,
            correlation_id,
        } = *self;
        if !api.serves(version) {
            return Err(EncodeError::Version { api, version });
        }
        let codec = |source| EncodeError::Codec {
            api,
            version,
            source: super::CodecFault::from(source),
        };
        let header_len = if api.response_header_version(version) == 1 {
            5
        } else {
            4
        };
        let too_long = EncodeError::TooLong { field: "frame" };
        let Some(len) = body_len().map_err(codec)?.checked_add(header_len) else {
            return Err(too_long);
        };
        let Ok(prefix) = i32::try_from(len) else {
            return Err(too_long);
        };
        let mut buffer = BytesMut::with_capacity(len + FRAME_PREFIX_BYTES);
        buffer.put_i32(prefix);
        buffer.put_i32(correlation_id);
        if header_len == 5 {
            buffer.put_u8(0);
        }
        write(&mut buffer).map_err(codec)?;
        debug_assert_eq!(
            buffer.len(),
            len + FRAME_PREFIX_BYTES,
            "the length was foretold"
        );
        Ok(buffer.freeze())
    }
}

/// Writes the answer to an ApiVersions request of a version that is not served: in version 0, with
/// UNSUPPORTED_VERSION and the served versions of ApiVersions itself (KIP-511).
#[must_use]
pub fn unsupported_api_versions_response(correlation_id: i32) -> Bytes {
    let api = ApiKey::ApiVersions;
    let versions = api.spec().advertised;
    let mut buffer = BytesMut::with_capacity(20);
    buffer.put_i32(16);
    buffer.put_i32(correlation_id);
    buffer.put_i16(ErrorCode::UnsupportedVersion.code());
    buffer.put_i32(1);
    buffer.put_i16(api.key());
    buffer.put_i16(versions.min);
    buffer.put_i16(versions.max);
    buffer.freeze()
}
