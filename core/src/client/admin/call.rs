//! What an admin client can be asked, and its answers.

use std::collections::BTreeMap;

use super::describe::{BrokersStatus, QuorumStatus};
use crate::{
    client::{Cluster, ListedOffset, OffsetSpec},
    ids::{NodeId, Offset, TopicName, TopicPartition, Uuid},
    protocol::ErrorCode,
};

/// The caller's handle of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A topic to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: TopicName,
    /// The number of partitions; `None` for the broker's `num.partitions`.
    pub partitions: Option<i32>,
    /// The number of replicas; `None` for the broker's `default.replication.factor`.
    pub replication_factor: Option<i16>,
    /// The brokers of each partition, instead of the two numbers.
    pub assignments: BTreeMap<i32, Vec<NodeId>>,
    /// Settings of the topic; `None` as a value stands for null.
    pub configs: BTreeMap<String, Option<String>>,
}

/// Whose settings are meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigResource {
    /// Those of a topic.
    Topic(TopicName),
    /// Those of one broker.
    Broker(NodeId),
    /// The cluster-wide defaults of brokers.
    BrokerDefaults,
}

/// How a setting is changed (KIP-339).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigChange {
    /// To this value.
    Set(String),
    /// Back to the default.
    Delete,
    /// These elements are added to the list.
    Append(String),
    /// These elements are taken out of the list.
    Subtract(String),
}

/// A question or an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminCall {
    /// Creates topics.
    CreateTopics {
        /// Which.
        topics: Vec<NewTopic>,
        /// Only checks whether it could.
        validate_only: bool,
    },
    /// Deletes topics.
    DeleteTopics {
        /// Which.
        topics: Vec<TopicName>,
    },
    /// Describes topics, all of them without names.
    DescribeTopics {
        /// Which.
        topics: Option<Vec<TopicName>>,
    },
    /// Adds partitions to topics.
    CreatePartitions {
        /// How many partitions each shall have then.
        totals: BTreeMap<TopicName, i32>,
        /// Only checks whether it could.
        validate_only: bool,
    },
    /// Reads settings.
    DescribeConfigs {
        /// Whose.
        resources: Vec<ConfigResource>,
    },
    /// Changes single settings.
    AlterConfigs {
        /// Whose, which and how.
        changes: BTreeMap<ConfigResource, Vec<(String, ConfigChange)>>,
        /// Only checks whether it could.
        validate_only: bool,
    },
    /// Names the brokers.
    DescribeCluster,
    /// Names the registered brokers with their racks, those that are down too.
    DescribeBrokers,
    /// Asks how the controller quorum is.
    DescribeQuorum,
    /// Deletes the records before these offsets.
    DeleteRecords {
        /// The new first offsets; -1 for the high watermark.
        before: BTreeMap<TopicPartition, Offset>,
    },
    /// Looks up offsets.
    ListOffsets {
        /// Which.
        specs: BTreeMap<TopicPartition, OffsetSpec>,
    },
}

/// An error that a broker gave, with its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The code.
    pub code: ErrorCode,
    /// What the broker adds.
    pub message: Option<String>,
}

impl ApiError {
    pub(super) fn of(code: i16, message: Option<&str>) -> Result<(), Self> {
        let code = ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError);
        if code.is_error() {
            let message = message.map(str::to_owned);
            Err(Self { code, message })
        } else {
            Ok(())
        }
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.message {
            Some(message) => write!(f, "{message} ({})", self.code),
            None => self.code.fmt(f),
        }
    }
}

impl std::error::Error for ApiError {}

/// A topic that was created; -1 and zero where an old broker does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreatedTopic {
    /// Its id.
    pub id: Uuid,
    /// Its number of partitions.
    pub partitions: i32,
    /// Its replication factor.
    pub replication_factor: i16,
}

/// One setting as it is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its name.
    pub name: String,
    /// Its value; `None` if it is secret or not set.
    pub value: Option<String>,
    /// Where it comes from: Kafka's number, 1 for the topic's own settings, 5 for the default.
    pub source: i8,
    /// Whether it cannot be changed at run time.
    pub is_read_only: bool,
    /// Whether it is secret.
    pub is_sensitive: bool,
}

impl ConfigEntry {
    /// The source of a setting that was made for the topic itself.
    pub const TOPIC: i8 = 1;
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminAnswer {
    /// To `CreateTopics`.
    Created(BTreeMap<TopicName, Result<CreatedTopic, ApiError>>),
    /// To `DeleteTopics`.
    Deleted(BTreeMap<TopicName, Result<(), ApiError>>),
    /// To `DescribeTopics` and `DescribeCluster`; topics carry their own errors.
    Cluster(Cluster),
    /// To `DescribeBrokers`; nothing is known before the answer.
    Brokers(Option<Result<BrokersStatus, ApiError>>),
    /// To `DescribeQuorum`; nothing is known before the answer.
    Quorum(Option<Result<QuorumStatus, ApiError>>),
    /// To `CreatePartitions`.
    Grown(BTreeMap<TopicName, Result<(), ApiError>>),
    /// To `DescribeConfigs`.
    Configs(BTreeMap<ConfigResource, Result<Vec<ConfigEntry>, ApiError>>),
    /// To `AlterConfigs`.
    Altered(BTreeMap<ConfigResource, Result<(), ApiError>>),
    /// To `DeleteRecords`: the first offsets of the partitions now.
    RecordsDeleted(BTreeMap<TopicPartition, Result<Offset, ErrorCode>>),
    /// To `ListOffsets`.
    Offsets(BTreeMap<TopicPartition, ListedOffset>),
}

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// `default.api.timeout.ms` passed; with the last error of a broker, if there was one.
    #[error("no answer within default.api.timeout.ms (last error: {0})")]
    TimedOut(ErrorCode),
    /// The broker does not know the API, or not in a version that can say it.
    #[error("the broker does not support {0}")]
    Unsupported(crate::protocol::ApiKey),
    /// A name is too long for the wire.
    #[error("the request cannot be written")]
    Unencodable,
}

/// The end of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminEvent {
    /// Which call.
    pub id: CallId,
    /// What came of it.
    pub result: Result<AdminAnswer, AdminError>,
    /// How often requests of it were sent again after they may have been carried out: then "exists
    /// already" or "does not exist" may be the call's own doing.
    pub repeats: u32,
}
