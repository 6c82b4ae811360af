//! The command line.

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

use crate::config::split_host_port;

mod bootstrap;
mod cluster;
mod consume;
mod dev;
mod produce;
mod start;
mod topic;

/// A Kafka-compatible replicated log in one small binary.
///
/// Try it: run `seedlog dev`, wait for its `ready` line, and connect any Kafka client to the address there.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, subcommand_required = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a broker, or a cluster of several, for development, with no configuration at all
    ///
    /// Prints `ready bootstrap=HOST:PORT` when clients can connect, with the addresses of all brokers separated by commas; logs
    /// go to standard error. Ctrl-C stops it in good order; what was produced is there again at the next start.
    #[command(after_help = "Examples:
  seedlog dev
  seedlog dev --brokers 3 --listen 127.0.0.1:0 --data /tmp/three")]
    Dev(DevArgs),
    /// Run a broker with Kafka's configuration file
    ///
    /// No format step is needed. Settings that Kafka does not know are reported with the name that may have been meant; settings
    /// that this release does not support are refused when ignoring them would be dangerous.
    Start(StartArgs),
    /// Look at the cluster: who leads the quorum, which brokers are up, which partitions lack replicas
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Create, list, describe and delete topics
    #[command(subcommand)]
    Topic(topic::TopicCommand),
    /// Write lines from standard input to a topic, one record per line
    ///
    /// Ends when the input ends, after everything was confirmed. Exit code 0 says that every record was written, 1 that some
    /// were not or perhaps not; the summary on standard error counts them.
    #[command(after_help = "Examples:
  echo hello | seedlog produce -t greetings
  seedlog produce -t orders --key-separator : --compression-type zstd < orders.txt")]
    Produce(produce::ProduceArgs),
    /// Write records of a topic to standard output, one line per record
    ///
    /// Without --from-beginning, --offset or --timestamp it shows what is written from now on. Ctrl-C ends it.
    #[command(after_help = "Examples:
  seedlog consume -t greetings --from-beginning --exit-at-end
  seedlog consume -t orders -p 0 --offset 42 -n 1 --print-key --print-headers --print-timestamp")]
    Consume(consume::ConsumeArgs),
}

/// Options of `seedlog dev`.
#[derive(Debug, clap::Args)]
pub struct DevArgs {
    /// How many brokers to run in this process; new topics get 3 replicas and need 2 in sync where there are so many
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=BROKERS_MAX))]
    brokers: u16,
    /// Where to listen; port 0 lets the system choose one. Further brokers take the ports that follow, their controllers those
    /// after these
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092", value_parser = listen_address)]
    listen: String,
    /// Where to keep the data; remove the folder to start afresh
    #[arg(long, value_name = "DIR", default_value = "seedlog-data", value_parser = data_folder)]
    data: String,
}

/// Options of `seedlog start`.
#[derive(Debug, clap::Args)]
pub struct StartArgs {
    /// The configuration file, with Kafka's property names
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// A setting that wins over the file; may be given several times
    #[arg(long = "override", value_name = "NAME=VALUE")]
    overrides: Vec<String>,
}

/// As many brokers as one process runs.
const BROKERS_MAX: i64 = 32;

/// Checks the form of an address to listen on.
fn listen_address(text: &str) -> Result<String, &'static str> {
    match split_host_port(text) {
        Some(_) => Ok(text.to_owned()),
        None => {
            Err("expected HOST:PORT, for example 127.0.0.1:9092, or 127.0.0.1:0 for any free port")
        }
    }
}

/// Checks that the name of a folder can be the value of `log.dirs`.
fn data_folder(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    if text.is_empty() || text.contains(',') {
        return Err(
            "expected the name of one folder; a comma would separate several in Kafka's log.dirs",
        );
    }
    Ok(text.to_owned())
}

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Dev(args) => dev::run(&args),
        Command::Start(args) => start::run(&args),
        Command::Cluster(command) => cluster::run(&command),
        Command::Topic(command) => topic::run(&command),
        Command::Produce(args) => produce::run(&args),
        Command::Consume(args) => consume::run(&args),
    }
}
