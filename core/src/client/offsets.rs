//! ListOffsets, as consumers and admin clients ask it.

use std::collections::BTreeMap;

use crate::{
    ids::{Epoch, Offset, TopicName, TopicPartition},
    protocol::{
        ErrorCode, KafkaString,
        messages::{
            ListOffsetsPartition, ListOffsetsRequestData, ListOffsetsResponseData, ListOffsetsTopic,
        },
    },
    time::Timestamp,
};

/// Which offset of a partition is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// The first one.
    Earliest,
    /// The end: the high watermark.
    Latest,
    /// That of the record with the largest timestamp (KIP-734).
    MaxTimestamp,
    /// That of the first record with this timestamp or a later one.
    AtOrAfter(Timestamp),
}

impl OffsetSpec {
    const fn wire(self) -> i64 {
        match self {
            Self::Latest => -1,
            Self::Earliest => -2,
            Self::MaxTimestamp => -3,
            // Negative times would mean something else; every record is younger.
            Self::AtOrAfter(at) if at.as_millis() < 0 => 0,
            Self::AtOrAfter(at) => at.as_millis(),
        }
    }

    /// Returns the first version of ListOffsets that can say it.
    pub(super) const fn version_min(self) -> i16 {
        match self {
            Self::MaxTimestamp => 7,
            Self::Earliest | Self::Latest | Self::AtOrAfter(_) => 1,
        }
    }
}

/// The offset of a partition that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedOffset {
    /// The error, or none.
    pub error: ErrorCode,
    /// The offset; -1 if no record is that young.
    pub offset: Offset,
    /// The timestamp of the record at the offset; -1 unless it was found by time.
    pub timestamp: Timestamp,
    /// The epoch in which the record was appended; -1 if it is not known.
    pub leader_epoch: Epoch,
}

pub(super) fn request<'a>(
    partitions: impl Iterator<Item = (&'a TopicPartition, Option<Epoch>, OffsetSpec)>,
    timeout_ms: u64,
) -> ListOffsetsRequestData {
    let mut topics: BTreeMap<&str, ListOffsetsTopic> = BTreeMap::new();
    for (partition, epoch, spec) in partitions {
        let name = partition.topic.as_str();
        let topic = topics.entry(name).or_insert_with(|| ListOffsetsTopic {
            name: KafkaString::from(name.to_owned()),
            ..Default::default()
        });
        topic.partitions.push(ListOffsetsPartition {
            partition_index: partition.partition,
            current_leader_epoch: epoch.map_or(-1, |epoch| epoch.0),
            timestamp: spec.wire(),
            ..Default::default()
        });
    }
    ListOffsetsRequestData {
        replica_id: -1,
        topics: topics.into_values().collect(),
        timeout_ms: i32::try_from(timeout_ms).unwrap_or(i32::MAX),
        ..Default::default()
    }
}

pub(super) fn answers(answer: ListOffsetsResponseData) -> BTreeMap<TopicPartition, ListedOffset> {
    let mut listed = BTreeMap::new();
    for topic in answer.topics {
        let name = TopicName::new(topic.name.as_str());
        for partition in topic.partitions {
            let key = TopicPartition {
                topic: name.clone(),
                partition: partition.partition_index,
            };
            let error = ErrorCode::from_code(partition.error_code);
            let offset = ListedOffset {
                error: error.unwrap_or(ErrorCode::UnknownServerError),
                offset: partition.offset,
                timestamp: Timestamp::from_millis(partition.timestamp),
                leader_epoch: Epoch(partition.leader_epoch),
            };
            listed.insert(key, offset);
        }
    }
    listed
}
