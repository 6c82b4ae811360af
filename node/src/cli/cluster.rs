//! `seedlog cluster`: how a cluster is.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, Write},
    process::ExitCode,
};

use clap::Subcommand;
use seedlog_core::{
    client::{
        AdminAnswer, AdminCall, ApiError, BrokersStatus, Cluster, ConfigResource,
        PartitionMetadata, QuorumReplica, QuorumStatus,
    },
    ids::{NodeId, TopicName},
    time::Timestamp,
};

use super::bootstrap::{Bootstrap, CommandError, block_on, unexpected};

/// Commands about the cluster.
#[derive(Debug, Subcommand)]
pub(super) enum ClusterCommand {
    /// Show the controller quorum, the brokers, and the partitions that lack replicas
    ///
    /// Lag counts records of the metadata log that a replica has not told the leader to hold. A partition is under-replicated
    /// when a replica is out of sync, under min ISR when acks=all is refused, offline when nobody leads it.
    #[command(after_help = "Example:
  seedlog cluster status --bootstrap-server 127.0.0.1:9092,127.0.0.1:9093")]
    Status(StatusArgs),
}

/// Options of `seedlog cluster status`.
#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    bootstrap: Bootstrap,
}

pub(super) fn run(command: &ClusterCommand) -> ExitCode {
    let ClusterCommand::Status(args) = command;
    match block_on(status(args)) {
        Ok(()) => ExitCode::SUCCESS,
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

async fn status(args: &StatusArgs) -> Result<(), CommandError> {
    let bootstrap = &args.bootstrap;
    let brokers = match bootstrap.call(AdminCall::DescribeBrokers).await?.answer {
        AdminAnswer::Brokers(Some(brokers)) => said("the brokers", brokers)?,
        _ => return Err(unexpected()),
    };
    let quorum = match bootstrap.call(AdminCall::DescribeQuorum).await?.answer {
        AdminAnswer::Quorum(Some(quorum)) => said("the quorum", quorum)?,
        _ => return Err(unexpected()),
    };
    let all = AdminCall::DescribeTopics { topics: None };
    let AdminAnswer::Cluster(cluster) = bootstrap.call(all).await?.answer else {
        return Err(unexpected());
    };
    let needed = min_in_sync(bootstrap, &cluster).await?;
    let mut out = io::stdout().lock();
    write_brokers(&mut out, &brokers)?;
    write_quorum(&mut out, &quorum)?;
    write_partitions(&mut out, &cluster, &needed)?;
    Ok(())
}

fn said<T>(what: &str, answer: Result<T, ApiError>) -> Result<T, CommandError> {
    answer.map_err(|error| CommandError::Said(format!("cannot describe {what}: {error}").into()))
}

/// How many replicas in sync each topic's setting asks for.
async fn min_in_sync(
    bootstrap: &Bootstrap,
    cluster: &Cluster,
) -> Result<BTreeMap<TopicName, usize>, CommandError> {
    let topics = cluster
        .topics
        .iter()
        .filter(|(_, topic)| !topic.error.is_error());
    let resources: Vec<_> = topics
        .map(|(name, _)| ConfigResource::Topic(name.clone()))
        .collect();
    if resources.is_empty() {
        return Ok(BTreeMap::new());
    }
    let call = AdminCall::DescribeConfigs { resources };
    let AdminAnswer::Configs(configs) = bootstrap.call(call).await?.answer else {
        return Err(unexpected());
    };
    let needed = configs.into_iter().filter_map(|(resource, entries)| {
        let ConfigResource::Topic(topic) = resource else {
            return None;
        };
        let entries = entries.ok()?;
        let entry = entries
            .iter()
            .find(|entry| entry.name == "min.insync.replicas")?;
        Some((topic, entry.value.as_deref()?.parse().ok()?))
    });
    Ok(needed.collect())
}

fn write_brokers(out: &mut impl Write, status: &BrokersStatus) -> io::Result<()> {
    writeln!(out, "Cluster {}", status.cluster_id)?;
    let fenced = status.brokers.iter().filter(|broker| broker.is_fenced);
    let (count, fenced) = (status.brokers.len(), fenced.count());
    match (fenced, status.lists_fenced) {
        (0, true) => writeln!(out, "Brokers: {count}, all up")?,
        (fenced, true) => writeln!(out, "Brokers: {count}, {fenced} fenced")?,
        (_, false) => writeln!(
            out,
            "Brokers: {count} up; fenced ones are not listed by this cluster"
        )?,
    }
    for broker in &status.brokers {
        let rack = broker
            .rack
            .as_ref()
            .map_or_else(String::new, |rack| format!("\track {rack}"));
        let standing = if broker.is_fenced { "fenced" } else { "up" };
        writeln!(out, "\t{}\t{}\t{standing}{rack}", broker.id, broker.address)?;
    }
    Ok(())
}

fn write_quorum(out: &mut impl Write, quorum: &QuorumStatus) -> io::Result<()> {
    writeln!(
        out,
        "Quorum: leader {}, epoch {}, high watermark {}",
        quorum.leader, quorum.leader_epoch, quorum.high_watermark
    )?;
    let end = |replicas: &[QuorumReplica]| replicas.iter().map(|replica| replica.log_end).max();
    let end = end(&quorum.voters).unwrap_or_default();
    // By the leader's clock, for its own entry is the present.
    let leader = quorum
        .voters
        .iter()
        .find(|replica| replica.id == quorum.leader);
    let now = leader.and_then(|leader| leader.last_fetch);
    let kinds = [("voter", &quorum.voters), ("observer", &quorum.observers)];
    for (kind, replicas) in kinds {
        for replica in replicas {
            let progress = progress(replica, end, now);
            writeln!(out, "\t{kind} {}\t{progress}", replica.id)?;
        }
    }
    Ok(())
}

fn progress(replica: &QuorumReplica, end: i64, now: Option<Timestamp>) -> String {
    if replica.log_end < 0 {
        return "not heard of since this leader was elected".to_owned();
    }
    let lag = end.saturating_sub(replica.log_end);
    let mut text = format!("log end {}\tlag {lag}", replica.log_end);
    if let (Some(now), Some(last)) = (now, replica.last_fetch) {
        let ago = now.as_millis().saturating_sub(last.as_millis()).max(0);
        // Writing to a string does not fail.
        let _ = write!(text, "\tlast heard of {ago} ms ago");
    }
    text
}

/// What a partition lacks; nothing when it is whole.
fn lacks(partition: &PartitionMetadata, needed: usize) -> Vec<&'static str> {
    let mut lacks = Vec::new();
    if partition.leader.is_none() {
        lacks.push("offline");
    }
    if partition.isr.len() < partition.replicas.len() {
        lacks.push("under-replicated");
    }
    // A setting above the number of replicas counts as that number.
    if partition.isr.len() < needed.min(partition.replicas.len()) {
        lacks.push("under min ISR");
    }
    lacks
}

fn write_partitions(
    out: &mut impl Write,
    cluster: &Cluster,
    needed: &BTreeMap<TopicName, usize>,
) -> io::Result<()> {
    let mut total = 0_usize;
    let mut lines = Vec::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, topic) in &cluster.topics {
        let needed = needed.get(name).copied().unwrap_or(1);
        for (number, partition) in &topic.partitions {
            total += 1;
            let lacks = lacks(partition, needed);
            for what in &lacks {
                *counts.entry(what).or_default() += 1;
            }
            if !lacks.is_empty() {
                let leader = partition
                    .leader
                    .map_or_else(|| "none".to_owned(), |id| id.to_string());
                lines.push(format!(
                    "\t{name}-{number}\tleader {leader}\treplicas {}\tisr {}\t{}",
                    ids(&partition.replicas),
                    ids(&partition.isr),
                    lacks.join(", ")
                ));
            }
        }
    }
    let count = |what| counts.get(what).copied().unwrap_or_default();
    writeln!(
        out,
        "Partitions: {total}, {} under-replicated, {} under min ISR, {} offline",
        count("under-replicated"),
        count("under min ISR"),
        count("offline")
    )?;
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn ids(ids: &[NodeId]) -> String {
    let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    ids.join(",")
}
