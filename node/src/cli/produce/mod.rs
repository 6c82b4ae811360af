//! `seedlog produce`: lines from standard input become records.

mod lines;
mod progress;

use std::{
    io::{self, Read},
    process::ExitCode,
    thread,
    time::Duration,
};

use bytes::Bytes;
use seedlog_core::{
    batch::{Compression, CompressionType},
    client::{
        Acks, ClientConfig, DeliveryReport, Failure, Header, Outcome, ProduceRecord, Producer,
        ProducerConfig, SendError,
    },
    ids::TopicName,
    protocol::ErrorCode,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use self::{lines::Lines, progress::Progress};
use super::bootstrap::{Bootstrap, CommandError, block_on};
use crate::client::{Driver, Happening};

/// Options of `seedlog produce`.
#[derive(Debug, clap::Args)]
pub(super) struct ProduceArgs {
    /// The topic
    #[arg(short, long)]
    topic: String,
    /// The partition; without it the key decides, and lines without a key are spread
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// What stands between key and value in each line
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    key_separator: Option<String>,
    /// A header of every record; may be given several times
    #[arg(short = 'H', long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Whose confirmation to wait for: all replicas in sync (all), the leader (1), nobody (0)
    #[arg(long, value_name = "ACKS", default_value = "all", value_parser = acks)]
    acks: Acks,
    /// How records are compressed: none, gzip, snappy, lz4 or zstd
    #[arg(long, value_name = "CODEC", default_value = "none", value_parser = compression)]
    compression_type: CompressionType,
    /// How long a batch waits to be filled, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5)]
    linger_ms: u64,
    /// The size a batch is filled to, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16_384)]
    batch_size: usize,
    /// The time after which a record counts as lost, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 120_000)]
    delivery_timeout_ms: u64,
    /// Say nothing but errors
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    bootstrap: Bootstrap,
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err("expected NAME=VALUE".to_owned()),
    }
}

fn acks(text: &str) -> Result<Acks, String> {
    match text {
        "0" => Ok(Acks::None),
        "1" => Ok(Acks::Leader),
        "all" | "-1" => Ok(Acks::All),
        _ => Err("expected 0, 1 or all".to_owned()),
    }
}

fn compression(text: &str) -> Result<CompressionType, String> {
    (0..=4)
        .filter_map(CompressionType::from_id)
        .find(|codec| codec.name() == text)
        .ok_or_else(|| "expected none, gzip, snappy, lz4 or zstd".to_owned())
}

pub(super) fn run(args: &ProduceArgs) -> ExitCode {
    match block_on(produce(args)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("seedlog: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What the command is at.
struct Work<'a> {
    args: &'a ProduceArgs,
    driver: Driver<Producer>,
    progress: Progress,
    topic: TopicName,
    headers: Vec<Header>,
    next: u64,
    /// A record for which there was no room.
    waiting: Option<ProduceRecord>,
}

async fn produce(args: &ProduceArgs) -> Result<ExitCode, CommandError> {
    let client = args.bootstrap.client("produce")?;
    let config = ProducerConfig {
        acks: args.acks,
        compression: Compression::of(args.compression_type),
        linger_ms: args.linger_ms,
        batch_size: args.batch_size,
        delivery_timeout_ms: args.delivery_timeout_ms,
        max_block_ms: args.bootstrap.timeout_ms,
        ..ProducerConfig::default()
    };
    let line_max = config.max_request_size;
    let headers = args.headers.iter().map(|(name, value)| Header {
        key: Bytes::copy_from_slice(name.as_bytes()),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
    });
    let work = Work {
        args,
        driver: Driver::new(
            Producer::new(client, config),
            ClientConfig::CONTROL_BYTES_MAX,
        ),
        progress: Progress::new(args.quiet),
        topic: TopicName::new(&args.topic),
        headers: headers.collect(),
        next: 0,
        waiting: None,
    };
    work.run(Lines::new(line_max)).await
}

impl Work<'_> {
    async fn run(mut self, mut lines: Lines) -> Result<ExitCode, CommandError> {
        let mut input = read_input();
        let mut ended = None;
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut tick = tokio::time::interval(progress::INTERVAL);
        while ended.is_none() || self.driver.machine().outstanding() > 0 {
            if ended.is_none()
                && let Err(error) = self.send_lines(&mut lines)
            {
                ended = Some(Ended::Failed(error));
                self.driver.machine_now().0.flush();
            }
            // Without room for what is there already, no more is read.
            let may_read = ended.is_none() && self.waiting.is_none();
            tokio::select! {
                biased;
                _ = interrupts.recv() => match ended {
                    Some(Ended::Interrupted) => return Ok(ExitCode::from(INTERRUPTED)),
                    _ => {
                        ended = Some(Ended::Interrupted);
                        self.driver.machine_now().0.flush();
                    }
                },
                _ = tick.tick() => self.progress.show(),
                happening = self.driver.next() => self.happened(happening)?,
                chunk = input.recv(), if may_read => match chunk {
                    Some(chunk) => lines.push(&chunk?),
                    None => {
                        lines.end();
                        if let Err(error) = self.send_lines(&mut lines) {
                            ended = Some(Ended::Failed(error));
                        } else if self.waiting.is_none() {
                            ended = Some(Ended::Input);
                        }
                        self.driver.machine_now().0.flush();
                    }
                },
            }
        }
        self.progress.summary(&self.topic);
        if self.args.acks == Acks::None {
            let patience = Duration::from_millis(self.args.bootstrap.timeout_ms);
            self.driver.finish(patience).await;
        }
        match ended {
            Some(Ended::Failed(error)) => Err(error),
            Some(Ended::Interrupted) => Ok(ExitCode::from(INTERRUPTED)),
            _ if self.progress.has_failures() => Ok(ExitCode::FAILURE),
            _ => Ok(ExitCode::SUCCESS),
        }
    }

    /// Sends the lines that are there, as far as there is room.
    fn send_lines(&mut self, lines: &mut Lines) -> Result<(), CommandError> {
        loop {
            let record = match self.waiting.take() {
                Some(record) => record,
                None => match lines.next()? {
                    Some(line) => self.record(&line)?,
                    None => return Ok(()),
                },
            };
            let (producer, now) = self.driver.machine_now();
            match producer.send(now, record) {
                Ok(()) => {}
                Err(SendError::BufferFull { record }) => {
                    self.waiting = Some(*record);
                    return Ok(());
                }
                Err(error) => {
                    let line = self.next;
                    return Err(CommandError::Said(format!("line {line}: {error}").into()));
                }
            }
        }
    }

    fn record(&mut self, line: &Bytes) -> Result<ProduceRecord, CommandError> {
        self.next += 1;
        let (key, value) = match &self.args.key_separator {
            None => (None, line.clone()),
            Some(separator) => {
                let at = line
                    .windows(separator.len())
                    .position(|window| window == separator.as_bytes());
                let Some(at) = at else {
                    let text = format!(
                        "line {}: no key separator {separator:?}; what came before was sent",
                        self.next
                    );
                    return Err(CommandError::Said(text.into()));
                };
                (Some(line.slice(..at)), line.slice(at + separator.len()..))
            }
        };
        Ok(ProduceRecord {
            partition: self.args.partition,
            key,
            headers: self.headers.clone(),
            ..ProduceRecord::new(self.topic.clone(), value, self.next)
        })
    }

    fn happened(&mut self, happening: Happening<DeliveryReport>) -> Result<(), CommandError> {
        match happening {
            Happening::CannotConnect { to, error } => {
                self.progress.trouble(&to, &error);
                Ok(())
            }
            Happening::Event(report) => match report.outcome {
                Outcome::Failed(Failure::NoSuchPartition(error)) => Err(self.nowhere(error)),
                _ => {
                    self.progress.report(&report);
                    Ok(())
                }
            },
        }
    }

    /// Says why the records have nowhere to go; the lines behind them have nowhere to go either.
    fn nowhere(&mut self, error: ErrorCode) -> CommandError {
        let topic = self.topic.clone();
        let cluster = self.driver.machine().cluster();
        if cluster.brokers.is_empty() {
            let last = self.progress.last_trouble();
            return self.args.bootstrap.unreachable(last);
        }
        match (cluster.topic(&topic), self.args.partition) {
            (Some(known), Some(missing)) if !known.error.is_error() => {
                let count = known.partitions.len();
                let text = format!(
                    "topic \"{topic}\" has no partition {missing}; it has {count}, numbered from 0"
                );
                CommandError::Said(text.into())
            }
            _ if error.is_retriable() => CommandError::NoTopic { topic },
            _ => CommandError::Topic { topic, error },
        }
    }
}

/// Why no more is read.
enum Ended {
    Input,
    Interrupted,
    Failed(CommandError),
}

/// Reads standard input on a thread of its own: it may block for ever.
fn read_input() -> mpsc::Receiver<io::Result<Bytes>> {
    let (sender, receiver) = mpsc::channel(4);
    thread::spawn(move || {
        let mut input = io::stdin().lock();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = match input.read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => Ok(Bytes::copy_from_slice(&buffer[..read])),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let failed = read.is_err();
            if sender.blocking_send(read).is_err() || failed {
                return;
            }
        }
    });
    receiver
}

/// As a shell reports a process that ended by SIGINT.
const INTERRUPTED: u8 = 130;
