//! Produce responses, versions 3 to 13.

use kacrab_protocol::{KafkaString, KafkaUuid};

use super::{
    ApiKey, EncodeError, ErrorCode, Few, LeaderIdAndEpoch, NodeEndpoint,
    sink::{HotMessage, Sink},
};

/// The answer to a Produce request with acks other than 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProduceResponse {
    /// What became of it, by topic.
    pub topics: Few<ProduceTopicResponse>,
    /// How long the client is throttled.
    pub throttle_time_ms: i32,
    /// Where the leaders named in `current_leader` are; written from version 10.
    pub node_endpoints: Vec<NodeEndpoint>,
}

/// The part of a Produce answer for one topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProduceTopicResponse {
    /// The topic's name, written up to version 12.
    pub name: KafkaString,
    /// The topic's id, written from version 13.
    pub topic_id: KafkaUuid,
    /// What became of it, by partition.
    pub partitions: Few<ProducePartitionResponse>,
}

/// The part of a Produce answer for one partition.
#[derive(Clone, Debug, PartialEq)]
pub struct ProducePartitionResponse {
    /// The partition.
    pub index: i32,
    /// The error, or none.
    pub error_code: ErrorCode,
    /// The offset of the first record, or -1.
    pub base_offset: i64,
    /// The time of the append under LogAppendTime, else -1.
    pub log_append_time_ms: i64,
    /// The log start offset, or -1; written from version 5.
    pub log_start_offset: i64,
    /// The records at fault; written from version 8.
    pub record_errors: Vec<RecordError>,
    /// Says more about the error; written from version 8.
    pub error_message: Option<KafkaString>,
    /// The leader to go to; written from version 10.
    pub current_leader: LeaderIdAndEpoch,
}

/// A record that made its batch fail.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordError {
    /// Its index in the batch.
    pub batch_index: i32,
    /// What is wrong with it.
    pub message: Option<KafkaString>,
}

impl Default for ProducePartitionResponse {
    fn default() -> Self {
        Self {
            index: 0,
            error_code: ErrorCode::None,
            base_offset: -1,
            log_append_time_ms: -1,
            log_start_offset: -1,
            record_errors: Vec::new(),
            error_message: None,
            current_leader: LeaderIdAndEpoch::default(),
        }
    }
}

impl HotMessage for ProduceResponse {
    const API: ApiKey = ApiKey::Produce;

    fn write<S: Sink>(&self, sink: &mut S, version: i16) -> Result<(), EncodeError> {
        sink.length("Responses", Some(self.topics.len()))?;
        for topic in &self.topics {
            if version >= 13 {
                sink.uuid(topic.topic_id);
            } else {
                sink.string("Name", &topic.name)?;
            }
            sink.length("PartitionResponses", Some(topic.partitions.len()))?;
            for partition in &topic.partitions {
                partition.write(sink, version)?;
            }
            sink.no_tags();
        }
        sink.i32(self.throttle_time_ms);
        if version >= 10 && !self.node_endpoints.is_empty() {
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

impl ProducePartitionResponse {
    fn write<S: Sink>(&self, sink: &mut S, version: i16) -> Result<(), EncodeError> {
        sink.i32(self.index);
        sink.i16(self.error_code.code());
        sink.i64(self.base_offset);
        sink.i64(self.log_append_time_ms);
        if version >= 5 {
            sink.i64(self.log_start_offset);
        }
        if version >= 8 {
            sink.length("RecordErrors", Some(self.record_errors.len()))?;
            for error in &self.record_errors {
                sink.i32(error.batch_index);
                sink.nullable_string("BatchIndexErrorMessage", error.message.as_ref())?;
                sink.no_tags();
            }
            sink.nullable_string("ErrorMessage", self.error_message.as_ref())?;
        }
        if version >= 10 && self.current_leader != LeaderIdAndEpoch::default() {
            sink.varint(1);
            sink.tag(0, |sink| {
                self.current_leader.write(sink);
                Ok(())
            })
        } else {
            sink.no_tags();
            Ok(())
        }
    }
}
