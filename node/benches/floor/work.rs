//! What subjects are asked to do, and how much of it.

use std::fmt;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Batches that are answered when written.
    Produce,
    /// Batches over many partitions that are answered when flushed.
    Durable {
        /// How many partitions are produced to in turn.
        partitions: usize,
    },
    /// Reads of the log from its beginning, so many bytes at a time.
    Fetch {
        /// The most bytes of one answer.
        chunk: usize,
    },
}

impl Work {
    /// Returns how many bytes one run moves.
    pub(crate) const fn bytes(self, plan: &Plan) -> u64 {
        match self {
            Self::Produce => plan.bytes,
            // A flush takes about as long as writing some hundred batches.
            Self::Durable { .. } => plan.bytes / 8,
            Self::Fetch { .. } => plan.bytes * 2,
        }
    }

    /// Returns how many requests are unanswered at a time: Kafka's own clients keep five per connection.
    pub(crate) fn in_flight(self) -> usize {
        match self {
            Self::Produce => 5,
            Self::Durable { partitions } => partitions.clamp(5, 128),
            Self::Fetch { .. } => 1,
        }
    }

    /// Returns how many partitions there are.
    pub(crate) const fn partitions(self) -> usize {
        match self {
            Self::Produce | Self::Fetch { .. } => 1,
            Self::Durable { partitions } => partitions,
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Produce => f.write_str("produce, answered when written"),
            Self::Durable { partitions } => {
                write!(
                    f,
                    "produce to {partitions} partitions, answered when flushed"
                )
            }
            Self::Fetch { chunk } => write!(f, "fetch, {} KiB at a time", chunk >> 10),
        }
    }
}

/// How much is done.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) bytes: u64,
    pub(crate) request_bytes: usize,
    /// How many partitions are active in turn where syncs are measured.
    pub(crate) partitions: Vec<usize>,
    /// How many partitions are made, and lose a leader.
    pub(crate) failover: usize,
    /// How many more connections are open and silent.
    pub(crate) idle: usize,
    /// The largest ratio to the floor that passes.
    pub(crate) gate: Option<f64>,
    names: Vec<String>,
}

impl Plan {
    pub(crate) fn from_arguments() -> Self {
        let mut plan = Self {
            rounds: 7,
            bytes: 512 << 20,
            request_bytes: 16 << 10,
            partitions: vec![1, 10, 100, 1000],
            failover: 1000,
            idle: 0,
            gate: None,
            names: Vec::new(),
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let mut number = || -> f64 {
                let value = arguments.next().unwrap_or_default();
                value.parse().expect("a number follows the option")
            };
            match name.as_str() {
                "--rounds" => plan.rounds = number() as usize,
                "--mebibytes" => plan.bytes = (number() as u64) << 20,
                "--request" => plan.request_bytes = number() as usize,
                "--partitions" => {
                    plan.partitions = vec![number() as usize];
                    plan.failover = plan.partitions[0];
                }
                "--idle" => plan.idle = number() as usize,
                "--gate" => plan.gate = Some(number()),
                // Cargo says this to every benchmark.
                "--bench" => {}
                _ => plan.names.push(name),
            }
        }
        plan
    }

    /// Returns whether some work is to be done; all is, when none is named.
    pub(crate) fn asks_for(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|asked| asked == name)
    }

    /// Returns the kinds of work that are compared with a floor.
    pub(crate) fn works(&self) -> Vec<Work> {
        let mut works = Vec::new();
        if self.asks_for("produce") {
            works.push(Work::Produce);
        }
        if self.asks_for("durable") {
            let partitions = self.partitions.iter();
            works.extend(partitions.map(|&partitions| Work::Durable { partitions }));
        }
        if self.asks_for("fetch") {
            works.extend([128 << 10, 1 << 20].map(|chunk| Work::Fetch { chunk }));
        }
        works
    }
}
