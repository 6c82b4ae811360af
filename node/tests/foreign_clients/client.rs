//! What the suite asks of a client, whichever it is.

use std::{fmt, time::Duration};

use serde_json::{Value, json};

/// A record, as it is to be produced or as it was consumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) partition: i32,
    /// Unknown before it is produced.
    pub(crate) offset: Option<i64>,
    /// Left to the client when absent.
    pub(crate) timestamp: Option<i64>,
    pub(crate) key: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) headers: Vec<(String, Option<String>)>,
}

impl Record {
    /// A record of a value alone.
    pub(crate) fn of(partition: i32, value: &str) -> Self {
        Self {
            partition,
            offset: None,
            timestamp: None,
            key: None,
            value: Some(value.to_owned()),
            headers: Vec::new(),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "partition": self.partition, "timestamp": self.timestamp, "key": self.key, "value": self.value,
            "headers": self.headers,
        })
    }

    pub(crate) fn from_json(json: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let header = |pair: &Value| Some((text(&pair[0])?, text(&pair[1])));
        Some(Self {
            partition: i32::try_from(json["partition"].as_i64()?).ok()?,
            offset: Some(json["offset"].as_i64()?),
            timestamp: Some(json["timestamp"].as_i64()?),
            key: text(&json["key"]),
            value: text(&json["value"]),
            headers: json["headers"]
                .as_array()?
                .iter()
                .map(header)
                .collect::<Option<_>>()?,
        })
    }
}

/// Where a consumer starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    Offset(i64),
    Time(i64),
    Beginning,
}

/// What to consume.
#[derive(Debug, Clone)]
pub(crate) struct Consume<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) start: Start,
    pub(crate) count: usize,
    /// The client's limit for an answer and for a partition in it.
    pub(crate) fetch_bytes: Option<i32>,
    pub(crate) patience_ms: u64,
}

impl<'a> Consume<'a> {
    /// A number of records from a place on, with the client's own limits and enough patience for a loaded machine.
    pub(crate) fn of(topic: &'a str, partition: i32, start: Start, count: usize) -> Self {
        Self {
            topic,
            partition,
            start,
            count,
            fetch_bytes: None,
            patience_ms: 30_000,
        }
    }
}

/// What to produce.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Produce<'a> {
    pub(crate) topic: &'a str,
    pub(crate) codec: &'a str,
    pub(crate) acks: &'a str,
    pub(crate) records: &'a [Record],
}

/// What a client said instead of an answer.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Kafka's error code, where the client tells it.
    pub(crate) code: Option<i64>,
    pub(crate) said: String,
}

impl From<String> for Failure {
    fn from(said: String) -> Self {
        Self { code: None, said }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

/// A client library or tool.
pub(crate) trait Client: Send {
    /// What reports and topics call it.
    fn name(&self) -> &'static str;
    /// Whether an application can choose timestamps, and tell empty from null.
    fn is_library(&self) -> bool {
        true
    }
    /// Produces records and hands back their offsets.
    fn produce(&mut self, job: Produce<'_>) -> Result<Vec<i64>, Failure>;
    /// Produces records with a pause after each, and sends again what fails.
    fn keep_producing(&mut self, job: Produce<'_>, pace: Duration) -> Result<Vec<i64>, Failure>;
    /// Consumes records; fewer than wanted when patience ends.
    fn consume(&mut self, job: &Consume<'_>) -> Result<Vec<Record>, Failure>;
    /// Looks an offset up by time.
    fn offset_for_time(
        &mut self,
        topic: &str,
        partition: i32,
        time: i64,
    ) -> Result<Option<i64>, Failure>;
    /// Writes a topic's configs back as they are, if the client can: how many, and the names of those that changed.
    fn configs_round_trip(&mut self, topic: &str) -> Result<Option<(u64, Vec<String>)>, Failure>;
    /// Creates a topic of one partition.
    fn create_topic(&mut self, topic: &str) -> Result<(), Failure>;
}

/// The codecs of Kafka's record batches.
pub(crate) const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];
