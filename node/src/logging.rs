//! Structured logs on standard error, and the machine's events among them.

use std::io::IsTerminal;

use seedlog_core::{event::Event, ids::NodeId};
use tracing_subscriber::{EnvFilter, filter::LevelFilter, fmt};

/// Starts logging as the environment asks: `SEEDLOG_LOG` chooses levels (`info`, `debug`, `seedlog::shard=trace`),
/// `SEEDLOG_LOG_FORMAT=json` a form for machines.
pub fn start() {
    let filter = EnvFilter::builder()
        .with_env_var("SEEDLOG_LOG")
        .with_default_directive(LevelFilter::INFO.into())
        .from_env_lossy();
    let logs = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let as_json = std::env::var_os("SEEDLOG_LOG_FORMAT").is_some_and(|format| format == "json");
    let started = if as_json {
        logs.json().flatten_event(true).try_init()
    } else {
        let colours = std::io::stderr().is_terminal();
        logs.with_ansi(colours).with_target(false).try_init()
    };
    if let Err(error) = started {
        eprintln!("seedlog: logs were started already: {error}");
    }
}

/// Writes an event of the machine as a log line.
#[expect(
    clippy::too_many_lines,
    reason = "one arm per event, none of which does anything"
)]
pub fn log(event: &Event) {
    match event {
        Event::Ready => tracing::info!("ready: clients can connect"),
        Event::LogOpened {
            partition,
            start,
            end,
            recovered: true,
        } => {
            tracing::info!(%partition, start, end, "log opened after reading past its recovery point")
        }
        Event::LogOpened {
            partition,
            start,
            end,
            recovered: false,
        } => tracing::debug!(%partition, start, end, "log opened"),
        Event::TailCut {
            partition,
            file,
            at,
            bytes,
            end,
        } => tracing::warn!(
            %partition, %file, at, bytes, end,
            "cut a torn tail that was never known to be synced"
        ),
        Event::IndexRebuilt { partition, file } => {
            tracing::warn!(%partition, %file, "built an index again: it was missing or wrong");
        }
        Event::PartitionOffline {
            partition,
            file,
            at,
            reason,
        } => tracing::error!(%partition, %file, at, %reason, "partition is offline"),
        Event::SegmentRolled { partition, base } => {
            tracing::debug!(%partition, base, "rolled a segment");
        }
        Event::LogStartMoved {
            partition,
            start,
            reason,
        } => tracing::info!(%partition, start, ?reason, "log start moved"),
        Event::BecameLeader {
            partition,
            epoch,
            start,
        } => tracing::debug!(%partition, %epoch, start, "leads a partition"),
        Event::BecameFollower {
            partition,
            epoch,
            leader,
            end,
        } => tracing::debug!(%partition, %epoch, %leader, end, "follows the leader of a partition"),
        Event::PartitionChanged {
            partition,
            partition_epoch,
            leader,
            epoch,
            isr,
        } => tracing::debug!(
            %partition, partition_epoch, ?leader, %epoch, isr = %ids(isr),
            "a partition changed"
        ),
        Event::LogDiverged {
            partition,
            epoch,
            end,
            to,
            high_watermark,
        } => tracing::warn!(
            %partition, %epoch, end, to, high_watermark,
            "cuts what the leader does not have"
        ),
        Event::IsrProposed {
            partition,
            epoch,
            isr,
        } => tracing::info!(%partition, %epoch, isr = %ids(isr), "asks for other in-sync replicas"),
        Event::PayloadRefused {
            partition,
            leader,
            fault,
        } => tracing::error!(%partition, %leader, ?fault, "did not take what the leader sent"),
        Event::QuorumWarning { message } => tracing::warn!("{message}"),
        Event::LeaderElectedUncleanly {
            partition,
            leader,
            epoch,
        } => tracing::warn!(
            %partition, %leader, %epoch,
            "a leader was elected that may miss committed records: nobody else was left"
        ),
        Event::HighWatermark { partition, offset } => {
            tracing::trace!(%partition, offset, "high watermark moved");
        }
        Event::FutureTimestamp {
            partition,
            offset,
            timestamp,
        } => tracing::warn!(
            %partition, offset, timestamp,
            "a record's timestamp lies in the future: retention by time keeps its segment until then"
        ),
        Event::ConnectionRefused { connection, reason } => {
            tracing::info!(connection = connection.0, reason, "closed a connection");
        }
        Event::LogDirFailed { path, fault } => {
            tracing::error!(dir = path.log_dir().0, %path, %fault, "gave up a log directory");
        }
        Event::CleanShutdown { found: true } => {
            tracing::info!("found the mark of a clean shutdown")
        }
        Event::CleanShutdown { found: false } => {
            tracing::info!("marked the shutdown as clean")
        }
        Event::Fatal { message } => tracing::error!("cannot go on: {message}"),
        other => tracing::info!(?other, "event"),
    }
}

fn ids(nodes: &[NodeId]) -> String {
    let nodes: Vec<_> = nodes.iter().map(ToString::to_string).collect();
    nodes.join(",")
}
