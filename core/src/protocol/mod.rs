//! The Kafka wire protocol as this crate speaks it: a thin layer over the wire crate.
//!
//! Everything outside this module sees only what is exported here, so the wire crate can be
//! replaced. What the layer adds to generated message structs:
//!
//! - the table of served and advertised versions ([`ApiKey`], [`advertised`]);
//! - checked decoding ([`decode_request`]): element counts, tag counts and memory are bounded
//!   before anything is allocated, null is refused where the schema forbids it, and no byte may be
//!   left over; a fault names API, version and field, and says what to do ([`DecodeError::action`]);
//! - own codecs for the hot messages: [`ProduceRequest`] and [`FetchRequest`] are read with records
//!   as slices of the frame and without an allocation for one partition of one topic;
//!   [`ProduceResponse`] is written with one allocation; [`FetchResponse`] is written as a head with
//!   gaps ([`FetchFrame`]), into which the driver sends log bytes without copying them;
//! - response fields gated by version ([`encode_response`]), so that a field a version lacks cannot
//!   fail an answer;
//! - the client's side ([`encode_request`], [`decode_response`]) for client machines and peers.
//!
//! Message structs are in [`messages`], errors as values in [`ErrorCode`].
//!
//! A request is refused wherever Kafka 4.3 refuses it, and in these cases that Kafka lets pass and
//! no client produces: bytes after the last field, text that is not UTF-8 (but for the client id),
//! tags that do not ascend, a known tag whose size is not that of its content, and counts over the
//! limits that Kafka has from 4.4 on.

mod api;
mod call;
mod client;
mod endpoint;
mod error_code;
mod fault;
mod fetch_request;
mod fetch_response;
mod few;
mod frame;
mod gate;
mod header;
pub mod messages;
mod produce_request;
mod produce_response;
mod questions;
mod quorum_schemas;
mod reader;
mod request;
mod response;
mod schema;
mod schemas;
mod sink;
#[cfg(test)]
mod tests;
mod uuid;

pub use kacrab_protocol::{KafkaString, KafkaUuid};

pub use self::{
    api::{Advertised, ApiKey, ApiSpec, Listener, VersionRange, advertised, api_versions},
    call::{encode_call, split_answer},
    client::{ClientRequest, decode_body, decode_response, encode_body, encode_request},
    endpoint::{LeaderIdAndEpoch, NodeEndpoint},
    error_code::ErrorCode,
    fault::{CodecFault, DecodeError, EncodeError, Fault, FaultAction, ResponseError},
    fetch_request::{FetchPartition, FetchRequest, FetchTopic, ForgottenTopic},
    fetch_response::{
        AbortedTransaction, EpochEndOffset, FetchFrame, FetchPartitionResponse, FetchRecords,
        FetchResponse, FetchTopicResponse, FramePart, SnapshotId, encode_fetch_response,
    },
    few::Few,
    frame::{FRAME_PREFIX_BYTES, FrameError, FrameLimits, FrameStage, frame_len},
    header::{ClientId, RequestHeader},
    produce_request::{ProducePartition, ProduceRequest, ProduceTopic},
    produce_response::{
        ProducePartitionResponse, ProduceResponse, ProduceTopicResponse, RecordError,
    },
    questions::{asks_for_all_topics, names_client_software},
    request::{DecodeLimits, Request, RequestBody, decode_request},
    response::{ResponseBody, encode_response, unsupported_api_versions_response},
};
