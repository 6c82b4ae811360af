//! Fetch responses, versions 4 to 18, written as a head with gaps for the records.
//!
//! The records of an answer are ranges of segment files or shared slices of the log's tail. Their
//! lengths are enough to write everything else, so they never pass through the encoder.

use bytes::Bytes;
use kacrab_protocol::{KafkaString, KafkaUuid};

use super::{
    ApiKey, EncodeError, ErrorCode, FRAME_PREFIX_BYTES, Few, LeaderIdAndEpoch, NodeEndpoint,
    sink::{HotMessage, Sink},
};

/// The answer to a Fetch request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchResponse {
    /// How long the client is throttled.
    pub throttle_time_ms: i32,
    /// The error of the whole request; written from version 7.
    pub error_code: ErrorCode,
    /// The fetch session, or 0; written from version 7.
    pub session_id: i32,
    /// What was read, by topic.
    pub topics: Few<FetchTopicResponse>,
    /// Where the leaders named in `current_leader` are; written from version 16.
    pub node_endpoints: Vec<NodeEndpoint>,
}

/// The part of a Fetch answer for one topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchTopicResponse {
    /// The topic's name, written up to version 12.
    pub topic: KafkaString,
    /// The topic's id, written from version 13.
    pub topic_id: KafkaUuid,
    /// What was read, by partition.
    pub partitions: Few<FetchPartitionResponse>,
}

/// The part of a Fetch answer for one partition.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchPartitionResponse {
    /// The partition.
    pub partition_index: i32,
    /// The error, or none.
    pub error_code: ErrorCode,
    /// The high watermark, or -1.
    pub high_watermark: i64,
    /// The last stable offset, or -1.
    pub last_stable_offset: i64,
    /// The log start offset, or -1; written from version 5.
    pub log_start_offset: i64,
    /// Where the follower's log diverges; written from version 12.
    pub diverging_epoch: EpochEndOffset,
    /// The leader to go to; written from version 12.
    pub current_leader: LeaderIdAndEpoch,
    /// The snapshot to fetch instead; written from version 12.
    pub snapshot_id: SnapshotId,
    /// Aborted transactions, null under READ_UNCOMMITTED.
    pub aborted_transactions: Option<Vec<AbortedTransaction>>,
    /// The replica to read from, or -1; written from version 11.
    pub preferred_read_replica: i32,
    /// The records; null is not the same as empty.
    pub records: Option<FetchRecords>,
}

/// The place of one partition's records in a Fetch answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchRecords {
    /// The caller's own number for these records, handed back in [`FramePart::Records`].
    pub slot: u32,
    /// Their bytes.
    pub len: usize,
}

/// The largest epoch that leader and follower share, and where it ends at the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEndOffset {
    /// The epoch, or -1.
    pub epoch: i32,
    /// Its end offset, or -1.
    pub end_offset: i64,
}

/// A snapshot of the metadata log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotId {
    /// The offset it ends at, or -1.
    pub end_offset: i64,
    /// The epoch of its last record, or -1.
    pub epoch: i32,
}

/// A transaction whose records a consumer has to skip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// The producer.
    pub producer_id: i64,
    /// The first offset of the transaction.
    pub first_offset: i64,
}

impl Default for EpochEndOffset {
    fn default() -> Self {
        Self {
            epoch: -1,
            end_offset: -1,
        }
    }
}

impl Default for SnapshotId {
    fn default() -> Self {
        Self {
            end_offset: -1,
            epoch: -1,
        }
    }
}

impl Default for FetchPartitionResponse {
    /// An answer without records: empty ones, as Kafka sends.
    fn default() -> Self {
        Self {
            partition_index: 0,
            error_code: ErrorCode::None,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging_epoch: EpochEndOffset::default(),
            current_leader: LeaderIdAndEpoch::default(),
            snapshot_id: SnapshotId::default(),
            aborted_transactions: None,
            preferred_read_replica: -1,
            records: Some(FetchRecords::default()),
        }
    }
}

/// An encoded Fetch answer: what to send, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchFrame {
    /// Head bytes and records by turns; the first part starts with the length prefix.
    pub parts: Vec<FramePart>,
    /// The bytes of all parts together.
    pub len: usize,
}

/// A piece of an encoded Fetch answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FramePart {
    /// Bytes of the answer itself; all share one buffer.
    Head(Bytes),
    /// Here the caller's records go, exactly as many bytes as it said.
    Records(FetchRecords),
}

/// Writes a Fetch answer around its records.
///
/// # Errors
///
/// Returns an [`EncodeError`] for an unknown version or an answer of more than 2 GiB.
pub fn encode_fetch_response(
    version: i16,
    correlation_id: i32,
    response: &FetchResponse,
) -> Result<FetchFrame, EncodeError> {
    let head = response.frame(version, correlation_id)?;
    let buffer = Bytes::from(head.buffer);
    let mut len = buffer.len();
    let mut parts = Vec::with_capacity(head.gaps.len() * 2 + 1);
    let mut from = 0;
    for (at, records) in head.gaps {
        // Consecutive gaps cannot be: a partition's own bytes stand before its records.
        parts.push(FramePart::Head(buffer.slice(from..at)));
        parts.push(FramePart::Records(records));
        len += records.len;
        from = at;
    }
    if from < buffer.len() {
        parts.push(FramePart::Head(buffer.slice(from..)));
    }
    debug_assert!(len > FRAME_PREFIX_BYTES, "a frame is more than its prefix");
    Ok(FetchFrame { parts, len })
}

impl HotMessage for FetchResponse {
    const API: ApiKey = ApiKey::Fetch;

    fn write<S: Sink>(&self, sink: &mut S, version: i16) -> Result<(), EncodeError> {
        sink.i32(self.throttle_time_ms);
        if version >= 7 {
            sink.i16(self.error_code.code());
            sink.i32(self.session_id);
        }
        sink.length("Responses", Some(self.topics.len()))?;
        for topic in &self.topics {
            if version >= 13 {
                sink.uuid(topic.topic_id);
            } else {
                sink.string("Topic", &topic.topic)?;
            }
            sink.length("Partitions", Some(topic.partitions.len()))?;
            for partition in &topic.partitions {
                partition.write(sink, version)?;
            }
            sink.no_tags();
        }
        if version >= 16 && !self.node_endpoints.is_empty() {
            sink.varint(1);
            sink.tag(0, |sink| {
                NodeEndpoint::write_all(&self.node_endpoints, sink)
            })
        } else {
            sink.no_tags();
            Ok(())
        }
    }
}

impl FetchPartitionResponse {
    fn write<S: Sink>(&self, sink: &mut S, version: i16) -> Result<(), EncodeError> {
        sink.i32(self.partition_index);
        sink.i16(self.error_code.code());
        sink.i64(self.high_watermark);
        sink.i64(self.last_stable_offset);
        if version >= 5 {
            sink.i64(self.log_start_offset);
        }
        let aborted = self.aborted_transactions.as_deref();
        sink.length("AbortedTransactions", aborted.map(<[_]>::len))?;
        for transaction in aborted.unwrap_or_default() {
            sink.i64(transaction.producer_id);
            sink.i64(transaction.first_offset);
            sink.no_tags();
        }
        if version >= 11 {
            sink.i32(self.preferred_read_replica);
        }
        sink.length("Records", self.records.map(|records| records.len))?;
        if let Some(records) = self.records.filter(|records| records.len > 0) {
            sink.gap(records);
        }
        if version >= 12 {
            self.write_tags(sink)
        } else {
            Ok(())
        }
    }

    fn write_tags<S: Sink>(&self, sink: &mut S) -> Result<(), EncodeError> {
        let diverging = self.diverging_epoch != EpochEndOffset::default();
        let leader = self.current_leader != LeaderIdAndEpoch::default();
        let snapshot = self.snapshot_id != SnapshotId::default();
        sink.varint(u32::from(diverging) + u32::from(leader) + u32::from(snapshot));
        if diverging {
            sink.tag(0, |sink| {
                sink.i32(self.diverging_epoch.epoch);
                sink.i64(self.diverging_epoch.end_offset);
                sink.no_tags();
                Ok(())
            })?;
        }
        if leader {
            sink.tag(1, |sink| {
                self.current_leader.write(sink);
                Ok(())
            })?;
        }
        if snapshot {
            sink.tag(2, |sink| {
                sink.i64(self.snapshot_id.end_offset);
                sink.i32(self.snapshot_id.epoch);
                sink.no_tags();
                Ok(())
            })?;
        }
        Ok(())
    }
}
