//! The history: what clients asked, what they were answered, and when, in the words of checkers.

use std::fmt;

use seedlog_core::ids::TopicPartition;

use crate::batch::{SeenRecord, ValueId};

/// One produce of one batch, over all its transmissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub u64);

/// A partition, by its place in the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub usize);

/// How much a producer wants to be sure of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Acks {
    /// No answer.
    None,
    /// The leader has it.
    Leader,
    /// All in-sync replicas have it.
    All,
}

impl Acks {
    /// Returns the number on the wire.
    #[must_use]
    pub const fn wire(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}

/// Values of one batch: consecutive numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    /// The first.
    pub first: ValueId,
    /// How many.
    pub count: u32,
}

impl Values {
    /// Returns the values in order.
    pub fn iter(self) -> impl Iterator<Item = ValueId> {
        (self.first.0..self.first.0 + u64::from(self.count)).map(ValueId)
    }
}

/// How a produce ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged.
    Ok(Acked),
    /// Refused by an error code that rules out that it was stored: this transmission stored nothing.
    Failed(i16),
    /// Timed out, connection lost, or an error code that rules nothing out.
    Unknown(i16),
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// Offset of the first record.
    pub base: i64,
    /// Log-append time, or -1.
    pub append_time: i64,
    /// First offset of the log, or -1.
    pub log_start: i64,
}

/// One line of the history.
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    /// A produce began.
    Invoked {
        /// Which.
        write: WriteId,
        /// Where to.
        place: Place,
        /// How sure.
        acks: Acks,
        /// What.
        values: Values,
        /// Timestamp of all records, milliseconds.
        timestamp: i64,
    },
    /// The produce left for a broker, again perhaps.
    Transmitted {
        /// Which.
        write: WriteId,
    },
    /// One transmission was answered or given up.
    Answered {
        /// Which.
        write: WriteId,
        /// How.
        outcome: Outcome,
    },
    /// The producer is done with it; no further transmission follows.
    Settled {
        /// Which.
        write: WriteId,
        /// Whether it ended with an acknowledgement.
        acknowledged: bool,
    },
    /// The broker took longer than its limit for an answer.
    Overdue {
        /// In words.
        what: String,
        /// When the connection was made, on the clients' clock.
        connected: u64,
        /// When it was asked, on the clients' clock.
        asked: u64,
    },
    /// A reader was answered.
    Polled {
        /// Where.
        place: Place,
        /// The offset it asked for.
        from: i64,
        /// What it got, from that offset on.
        records: Vec<SeenRecord>,
        /// The high watermark it was told.
        high_watermark: i64,
        /// The log start it was told, or -1.
        log_start: i64,
        /// When it asked, on the clients' clock.
        asked: u64,
    },
    /// A reader was told the end or start of a log.
    Bounds {
        /// Where.
        place: Place,
        /// First offset, if asked for.
        start: Option<i64>,
        /// High watermark, if asked for.
        end: Option<i64>,
        /// When it asked, on the clients' clock.
        asked: u64,
    },
    /// A reader of the drain has read everything up to the high watermark.
    Drained {
        /// Where.
        place: Place,
        /// First offset of the log.
        start: i64,
        /// The high watermark it stopped at.
        end: i64,
    },
    /// A partition does not answer readers; the error code they get.
    Unreadable {
        /// Where.
        place: Place,
        /// The error code.
        code: i16,
    },
    /// The topics exist.
    TopicsReady,
    /// Answer that no protocol allows.
    Garbled {
        /// What is wrong with it.
        what: String,
    },
}

/// Partitions of a scenario, by place.
#[derive(Clone, Debug, Default)]
pub struct Places {
    partitions: Vec<TopicPartition>,
}

impl Places {
    /// Numbers partitions in order.
    #[must_use]
    pub const fn new(partitions: Vec<TopicPartition>) -> Self {
        Self { partitions }
    }

    /// Returns the partition of a place.
    #[must_use]
    pub fn partition(&self, place: Place) -> &TopicPartition {
        &self.partitions[place.0]
    }

    /// Returns the place of a partition, if the scenario has it.
    #[must_use]
    pub fn place(&self, partition: &TopicPartition) -> Option<Place> {
        self.partitions
            .iter()
            .position(|known| known == partition)
            .map(Place)
    }

    /// Returns all places.
    pub fn all(&self) -> impl Iterator<Item = Place> + use<> {
        (0..self.partitions.len()).map(Place)
    }

    /// Returns how many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.partitions.len()
    }

    /// Returns whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invoked {
                write,
                place,
                acks,
                values,
                ..
            } => write!(
                f,
                "write {} of {}+{} to place {} acks={}",
                write.0,
                values.first,
                values.count,
                place.0,
                acks.wire()
            ),
            Self::Transmitted { write } => write!(f, "write {} sent", write.0),
            Self::Answered { write, outcome } => match outcome {
                Outcome::Ok(acked) => write!(f, "write {} acknowledged at {}", write.0, acked.base),
                Outcome::Failed(code) => write!(f, "write {} refused with {code}", write.0),
                Outcome::Unknown(code) => write!(f, "write {} unknown ({code})", write.0),
            },
            Self::Settled {
                write,
                acknowledged,
            } => write!(f, "write {} settled, acknowledged: {acknowledged}", write.0),
            Self::Overdue { what, .. } => write!(f, "overdue: {what}"),
            Self::Polled {
                place,
                from,
                records,
                high_watermark,
                ..
            } => write!(
                f,
                "read {} records of place {} from {from}, high watermark {high_watermark}",
                records.len(),
                place.0
            ),
            Self::Bounds {
                place, start, end, ..
            } => {
                write!(f, "place {} has start {start:?} end {end:?}", place.0)
            }
            Self::Drained { place, start, end } => {
                write!(f, "place {} drained from {start} to {end}", place.0)
            }
            Self::Unreadable { place, code } => {
                write!(f, "place {} answers readers with error {code}", place.0)
            }
            Self::TopicsReady => f.write_str("topics exist"),
            Self::Garbled { what } => write!(f, "garbled answer: {what}"),
        }
    }
}
