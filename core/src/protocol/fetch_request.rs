//! Fetch requests, versions 4 to 18.

use kacrab_protocol::{KafkaString, KafkaUuid};

use super::{
    Fault, Few,
    reader::{FieldFault, Read, Reader},
};

/// A Fetch request of a consumer or a follower.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchRequest {
    /// The cluster the sender believes to talk to.
    pub cluster_id: Option<KafkaString>,
    /// The follower, or -1 for a consumer; one field for what version 15 moved into a tag.
    pub replica_id: i32,
    /// The broker epoch of the follower, or -1.
    pub replica_epoch: i64,
    /// How long to wait for `min_bytes`.
    pub max_wait_ms: i32,
    /// The least bytes worth an answer before `max_wait_ms`.
    pub min_bytes: i32,
    /// The most bytes of the whole answer.
    pub max_bytes: i32,
    /// 0 for READ_UNCOMMITTED, 1 for READ_COMMITTED.
    pub isolation_level: i8,
    /// The fetch session, or 0 (KIP-227).
    pub session_id: i32,
    /// The epoch of the fetch session, or -1.
    pub session_epoch: i32,
    /// What to read, by topic.
    pub topics: Few<FetchTopic>,
    /// What to drop from the fetch session.
    pub forgotten_topics: Few<ForgottenTopic>,
    /// The rack of the consumer, or empty (KIP-392).
    pub rack_id: KafkaString,
}

/// The part of a Fetch request for one topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchTopic {
    /// The topic's name, up to version 12; empty later.
    pub topic: KafkaString,
    /// The topic's id, from version 13; zero before.
    pub topic_id: KafkaUuid,
    /// What to read, by partition.
    pub partitions: Few<FetchPartition>,
}

/// The part of a Fetch request for one partition.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchPartition {
    /// The partition.
    pub partition: i32,
    /// The leader epoch the sender knows, or -1 (KIP-320).
    pub current_leader_epoch: i32,
    /// The offset to read from.
    pub fetch_offset: i64,
    /// The leader epoch of the sender's last record, or -1 (KIP-595).
    pub last_fetched_epoch: i32,
    /// The follower's log start offset, or -1.
    pub log_start_offset: i64,
    /// The most bytes of this partition.
    pub partition_max_bytes: i32,
    /// The follower's directory, or zero (KIP-853).
    pub replica_directory_id: KafkaUuid,
    /// The high watermark the follower knows, -1, or the largest integer where the sender does not
    /// know the field (KIP-1166).
    pub high_watermark: i64,
}

/// Partitions to drop from a fetch session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForgottenTopic {
    /// The topic's name, up to version 12; empty later.
    pub topic: KafkaString,
    /// The topic's id, from version 13; zero before.
    pub topic_id: KafkaUuid,
    /// The partitions.
    pub partitions: Few<i32>,
}

impl FetchRequest {
    pub(super) fn read(reader: &mut Reader<'_>, version: i16) -> Read<Self> {
        let mut replica_id = if version <= 14 {
            reader.i32("ReplicaId")?
        } else {
            -1
        };
        let max_wait_ms = reader.i32("MaxWaitMs")?;
        let min_bytes = reader.i32("MinBytes")?;
        let max_bytes = reader.i32("MaxBytes")?;
        let isolation_level = reader.i8("IsolationLevel")?;
        let (session_id, session_epoch) = if version >= 7 {
            (reader.i32("SessionId")?, reader.i32("SessionEpoch")?)
        } else {
            (0, -1)
        };
        let topics = reader.array("Topics", |reader| topic(reader, version))?;
        let forgotten_topics = if version >= 7 {
            reader.array("ForgottenTopicsData", |reader| forgotten(reader, version))?
        } else {
            Few::default()
        };
        let rack_id = if version >= 11 {
            reader.string("RackId")?
        } else {
            KafkaString::default()
        };
        let (mut cluster_id, mut replica_epoch) = (None, -1);
        reader.tags(|reader, tag| {
            match tag {
                0 => cluster_id = reader.nullable_string("ClusterId")?,
                1 => {
                    known_since(15, version, tag)?;
                    replica_id = reader.i32("ReplicaState")?;
                    replica_epoch = reader.i64("ReplicaState")?;
                    reader.skip_tags()?;
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        reader.finish()?;
        Ok(Self {
            cluster_id,
            replica_id,
            replica_epoch,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            topics,
            forgotten_topics,
            rack_id,
        })
    }
}

/// Refuses a known tag in a version before it was invented, as Kafka does.
fn known_since(since: i16, version: i16, tag: u32) -> Read<()> {
    if version >= since {
        Ok(())
    } else {
        Err(FieldFault::new("tagged fields", Fault::TagVersion(tag)))
    }
}

fn name_or_id(reader: &mut Reader<'_>, version: i16) -> Read<(KafkaString, KafkaUuid)> {
    if version >= 13 {
        Ok((KafkaString::default(), reader.uuid("TopicId")?))
    } else {
        Ok((reader.string("Topic")?, KafkaUuid::ZERO))
    }
}

fn topic(reader: &mut Reader<'_>, version: i16) -> Read<FetchTopic> {
    let (topic, topic_id) = name_or_id(reader, version)?;
    let partitions = reader.array("Partitions", |reader| partition(reader, version))?;
    reader.skip_tags()?;
    Ok(FetchTopic {
        topic,
        topic_id,
        partitions,
    })
}

fn partition(reader: &mut Reader<'_>, version: i16) -> Read<FetchPartition> {
    let partition = reader.i32("Partition")?;
    let current_leader_epoch = if version >= 9 {
        reader.i32("CurrentLeaderEpoch")?
    } else {
        -1
    };
    let fetch_offset = reader.i64("FetchOffset")?;
    let last_fetched_epoch = if version >= 12 {
        reader.i32("LastFetchedEpoch")?
    } else {
        -1
    };
    let log_start_offset = if version >= 5 {
        reader.i64("LogStartOffset")?
    } else {
        -1
    };
    let partition_max_bytes = reader.i32("PartitionMaxBytes")?;
    let (mut replica_directory_id, mut high_watermark) = (KafkaUuid::ZERO, i64::MAX);
    reader.tags(|reader, tag| {
        match tag {
            0 => {
                known_since(17, version, tag)?;
                replica_directory_id = reader.uuid("ReplicaDirectoryId")?;
            }
            1 => {
                known_since(18, version, tag)?;
                high_watermark = reader.i64("HighWatermark")?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(FetchPartition {
        partition,
        current_leader_epoch,
        fetch_offset,
        last_fetched_epoch,
        log_start_offset,
        partition_max_bytes,
        replica_directory_id,
        high_watermark,
    })
}

fn forgotten(reader: &mut Reader<'_>, version: i16) -> Read<ForgottenTopic> {
    let (topic, topic_id) = name_or_id(reader, version)?;
    let partitions = reader.array("Partitions", |reader| reader.i32("Partitions"))?;
    reader.skip_tags()?;
    Ok(ForgottenTopic {
        topic,
        topic_id,
        partitions,
    })
}
