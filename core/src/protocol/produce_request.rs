//! Produce requests, versions 3 to 13.

use bytes::Bytes;
use kacrab_protocol::{KafkaString, KafkaUuid};

use super::{
    Few,
    reader::{Read, Reader},
};

/// A Produce request; records are slices of the frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProduceRequest {
    /// The transactional id of a transactional producer.
    pub transactional_id: Option<KafkaString>,
    /// The acknowledgements asked for: 0, 1 or -1.
    pub acks: i16,
    /// How long to wait for them.
    pub timeout_ms: i32,
    /// What to append, by topic.
    pub topics: Few<ProduceTopic>,
}

/// The part of a Produce request for one topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProduceTopic {
    /// The topic's name, up to version 12; empty later.
    pub name: KafkaString,
    /// The topic's id, from version 13; zero before.
    pub topic_id: KafkaUuid,
    /// What to append, by partition.
    pub partitions: Few<ProducePartition>,
}

/// The part of a Produce request for one partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProducePartition {
    /// The partition.
    pub index: i32,
    /// Its record batches; null is not the same as empty.
    pub records: Option<Bytes>,
}

impl ProduceRequest {
    pub(super) fn read(reader: &mut Reader<'_>, version: i16) -> Read<Self> {
        let transactional_id = reader.nullable_string("TransactionalId")?;
        let acks = reader.i16("Acks")?;
        let timeout_ms = reader.i32("TimeoutMs")?;
        let topics = reader.array("TopicData", |reader| topic(reader, version))?;
        reader.skip_tags()?;
        reader.finish()?;
        Ok(Self {
            transactional_id,
            acks,
            timeout_ms,
            topics,
        })
    }
}

fn topic(reader: &mut Reader<'_>, version: i16) -> Read<ProduceTopic> {
    let (name, topic_id) = if version >= 13 {
        (KafkaString::default(), reader.uuid("TopicId")?)
    } else {
        (reader.string("Name")?, KafkaUuid::ZERO)
    };
    let partitions = reader.array("PartitionData", partition)?;
    reader.skip_tags()?;
    Ok(ProduceTopic {
        name,
        topic_id,
        partitions,
    })
}

fn partition(reader: &mut Reader<'_>) -> Read<ProducePartition> {
    let index = reader.i32("Index")?;
    let records = reader.nullable_bytes("Records")?;
    reader.skip_tags()?;
    Ok(ProducePartition { index, records })
}
