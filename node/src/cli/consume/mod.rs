//! `seedlog consume`: records become lines on standard output.

mod format;

use std::{
    collections::BTreeSet,
    io::{self, BufWriter, StdoutLock, Write},
    process::ExitCode,
    time::Duration,
};

use seedlog_core::{
    client::{
        ClientConfig, Cluster, ConsumedBatch, Consumer, ConsumerConfig, ConsumerEvent, OffsetReset,
        StartAt,
    },
    ids::{TopicName, TopicPartition},
    time::Timestamp,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time,
};

use self::format::Format;
use super::bootstrap::{Bootstrap, CommandError, block_on};
use crate::client::{Driver, Happening};

/// Options of `seedlog consume`.
#[derive(Debug, clap::Args)]
pub(super) struct ConsumeArgs {
    /// The topic
    #[arg(short, long)]
    topic: String,
    /// A partition; may be given several times; without it all are read
    #[arg(short, long = "partition", value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partitions: Vec<i32>,
    /// Begin with the oldest record instead of the next one
    #[arg(long)]
    from_beginning: bool,
    /// Begin at this offset of the partition, or at `earliest` or `latest`
    #[arg(
        short,
        long,
        value_name = "OFFSET",
        requires = "partitions",
        conflicts_with = "from_beginning",
        value_parser = offset
    )]
    offset: Option<Offset>,
    /// Begin with the first record that is this old or younger, in milliseconds since 1970
    #[arg(long, value_name = "MS", conflicts_with_all = ["from_beginning", "offset"])]
    timestamp: Option<i64>,
    /// Stop after this many records
    #[arg(short = 'n', long, value_name = "N")]
    max_messages: Option<u64>,
    /// Stop when everything that was there is read
    #[arg(short = 'e', long)]
    exit_at_end: bool,
    #[command(flatten)]
    format: format::FormatArgs,
    #[command(flatten)]
    bootstrap: Bootstrap,
}

/// A start, as `--offset` names it.
#[derive(Clone, Copy, Debug)]
struct Offset(StartAt);

fn offset(text: &str) -> Result<Offset, String> {
    match text {
        "earliest" => Ok(Offset(StartAt::Beginning)),
        "latest" => Ok(Offset(StartAt::End)),
        _ => match text.parse() {
            Ok(offset) if offset >= 0 => Ok(Offset(StartAt::Offset(offset))),
            _ => Err("expected an offset from 0, earliest or latest".to_owned()),
        },
    }
}

impl ConsumeArgs {
    fn start(&self) -> StartAt {
        match (self.offset, self.timestamp) {
            (Some(Offset(start)), _) => start,
            (None, Some(millis)) => StartAt::Timestamp(Timestamp::from_millis(millis)),
            (None, None) if self.from_beginning => StartAt::Beginning,
            (None, None) => StartAt::End,
        }
    }

    /// Names the partitions to read, if the topic has them.
    fn partitions(
        &self,
        topic: &TopicName,
        cluster: &Cluster,
    ) -> Result<BTreeSet<i32>, CommandError> {
        let known = cluster.topic(topic).map(|known| &known.partitions);
        let all: BTreeSet<i32> = known.into_iter().flat_map(|p| p.keys().copied()).collect();
        if self.partitions.is_empty() {
            return Ok(all);
        }
        let missing = self.partitions.iter().find(|at| !all.contains(at));
        match missing {
            None => Ok(self.partitions.iter().copied().collect()),
            Some(missing) => {
                let count = all.len();
                let text = format!(
                    "topic \"{topic}\" has no partition {missing}; it has {count}, numbered from 0"
                );
                Err(CommandError::Said(text.into()))
            }
        }
    }
}

pub(super) fn run(args: &ConsumeArgs) -> ExitCode {
    match block_on(consume(args)) {
        Ok(code) => code,
        // Whoever reads the output has seen enough.
        Err(CommandError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("seedlog: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn consume(args: &ConsumeArgs) -> Result<ExitCode, CommandError> {
    let topic = TopicName::new(&args.topic);
    let cluster = args.bootstrap.existing(&topic).await?;
    let partitions = args.partitions(&topic, &cluster)?;
    let client = ClientConfig {
        allow_auto_create_topics: false,
        ..args.bootstrap.client("consume")?
    };
    let frame_bytes_max = client.response_bytes_max;
    let start = args.start();
    let config = ConsumerConfig {
        offset_reset: match start {
            StartAt::End => OffsetReset::Latest,
            StartAt::Beginning | StartAt::Timestamp(_) => OffsetReset::Earliest,
            StartAt::Offset(_) => OffsetReset::None,
        },
        // An empty partition is known to be at its end when its first answer comes.
        fetch_max_wait_ms: if args.exit_at_end { 100 } else { 500 },
        ..ConsumerConfig::default()
    };
    let mut consumer = Consumer::new(client, config);
    let mut reading = BTreeSet::new();
    for partition in partitions {
        let topic = topic.clone();
        let partition = TopicPartition { topic, partition };
        consumer.assign(partition.clone(), start);
        reading.insert(partition);
    }
    let work = Work {
        args,
        driver: Driver::new(consumer, frame_bytes_max),
        out: BufWriter::with_capacity(64 << 10, io::stdout().lock()),
        format: args.format.format(),
        left: args.max_messages.unwrap_or(u64::MAX),
        read: 0,
        reading,
    };
    work.run().await
}

/// What the command is at.
struct Work<'a> {
    args: &'a ConsumeArgs,
    driver: Driver<Consumer>,
    out: BufWriter<StdoutLock<'static>>,
    format: Format,
    left: u64,
    read: u64,
    /// Partitions whose end was not reached.
    reading: BTreeSet<TopicPartition>,
}

impl Work<'_> {
    async fn run(mut self) -> Result<ExitCode, CommandError> {
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut code = ExitCode::SUCCESS;
        while self.left > 0 && !(self.args.exit_at_end && self.reading.is_empty()) {
            let happening = tokio::select! {
                biased;
                _ = interrupts.recv() => {
                    code = ExitCode::from(INTERRUPTED);
                    break;
                }
                // What is there is written before anything else; what is buffered, when nothing is.
                happening = self.driver.next() => happening,
                () = time::sleep(FLUSH_AFTER), if !self.out.buffer().is_empty() => {
                    self.out.flush()?;
                    continue;
                }
            };
            match happening {
                Happening::Event(event) => self.happened(event)?,
                Happening::CannotConnect { to, error } => {
                    eprintln!("seedlog: cannot connect to {to}: {error}; trying again");
                }
            }
        }
        self.out.flush()?;
        if !self.args.format.is_quiet() {
            eprintln!("{} records read from {}", self.read, self.args.topic);
        }
        Ok(code)
    }

    fn happened(&mut self, event: ConsumerEvent) -> Result<(), CommandError> {
        match event {
            ConsumerEvent::Batch(batch) => self.write(&batch)?,
            ConsumerEvent::EndOfPartition { partition, .. } => {
                self.reading.remove(&partition);
            }
            ConsumerEvent::OutOfRange { partition, offset } => {
                self.out.flush()?;
                eprintln!("seedlog: {partition} does not hold offset {offset} (any more)");
            }
            ConsumerEvent::Stopped {
                partition,
                offset,
                fault,
            } => {
                self.out.flush()?;
                let at = offset.map_or_else(String::new, |at| format!(" at offset {at}"));
                let text = format!("cannot read {partition}{at}: {fault}");
                return Err(CommandError::Said(text.into()));
            }
            ConsumerEvent::Answer(_) | ConsumerEvent::Positioned { .. } => {}
        }
        Ok(())
    }

    fn write(&mut self, batch: &ConsumedBatch) -> io::Result<()> {
        for record in &batch.records {
            if self.left == 0 {
                break;
            }
            self.format.write(&mut self.out, batch, record)?;
            self.left -= 1;
            self.read += 1;
        }
        Ok(())
    }
}

/// How long written records may wait for more before they are shown.
const FLUSH_AFTER: Duration = Duration::from_millis(5);

/// As a shell reports a process that ended by SIGINT.
const INTERRUPTED: u8 = 130;
