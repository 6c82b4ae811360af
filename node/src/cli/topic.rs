//! `seedlog topic`: create, list, describe and delete topics.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
    process::ExitCode,
};

use clap::Subcommand;
use seedlog_core::{
    client::{
        AdminAnswer, AdminCall, ApiError, Cluster, ConfigEntry, ConfigResource, NewTopic,
        PartitionMetadata, TopicMetadata,
    },
    ids::{NodeId, TopicName},
    protocol::ErrorCode,
};

use super::bootstrap::{Bootstrap, CommandError, block_on, unexpected};

/// Commands about topics.
#[derive(Debug, Subcommand)]
pub(super) enum TopicCommand {
    /// Create topics
    ///
    /// Without --partitions and --replication-factor the broker's defaults hold (num.partitions,
    /// default.replication.factor).
    #[command(after_help = "Example:
  seedlog topic create orders --partitions 6 --config retention.ms=86400000")]
    Create(CreateArgs),
    /// List all topics, one per line
    List(ListArgs),
    /// Describe topics: partitions, leaders, replicas, settings
    Describe(DescribeArgs),
    /// Delete topics and all their records
    Delete(DeleteArgs),
}

/// The topics of a command.
#[derive(Debug, clap::Args)]
pub(super) struct Names {
    /// The topics
    #[arg(value_name = "TOPIC")]
    names: Vec<String>,
    /// A topic, as Kafka's tools name it; may be given several times
    #[arg(short, long = "topic", value_name = "TOPIC")]
    more: Vec<String>,
}

impl Names {
    fn topics(&self) -> Vec<TopicName> {
        let mut seen = BTreeSet::new();
        let names = self.names.iter().chain(&self.more);
        names
            .filter(|name| seen.insert(*name))
            .map(|name| TopicName::new(name))
            .collect()
    }

    fn required(&self) -> Result<Vec<TopicName>, CommandError> {
        let topics = self.topics();
        if topics.is_empty() {
            return Err(CommandError::Said(
                "name a topic, for example `seedlog topic create orders`".into(),
            ));
        }
        Ok(topics)
    }
}

/// Options of `seedlog topic create`.
#[derive(Debug, clap::Args)]
pub(super) struct CreateArgs {
    #[command(flatten)]
    names: Names,
    /// How many partitions each topic has
    #[arg(long, value_name = "N")]
    partitions: Option<i32>,
    /// On how many brokers each partition is kept
    #[arg(long, value_name = "N")]
    replication_factor: Option<i16>,
    /// A setting of the topic; may be given several times
    #[arg(long = "config", value_name = "NAME=VALUE", value_parser = setting)]
    configs: Vec<(String, String)>,
    /// Succeed if a topic exists already
    #[arg(long)]
    if_not_exists: bool,
    #[command(flatten)]
    bootstrap: Bootstrap,
}

/// Options of `seedlog topic list`.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Leave out the cluster's own topics
    #[arg(long)]
    exclude_internal: bool,
    #[command(flatten)]
    bootstrap: Bootstrap,
}

/// Options of `seedlog topic describe`.
#[derive(Debug, clap::Args)]
pub(super) struct DescribeArgs {
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    bootstrap: Bootstrap,
}

/// Options of `seedlog topic delete`.
#[derive(Debug, clap::Args)]
pub(super) struct DeleteArgs {
    #[command(flatten)]
    names: Names,
    /// Succeed if a topic does not exist
    #[arg(long)]
    if_exists: bool,
    #[command(flatten)]
    bootstrap: Bootstrap,
}

/// Reads `NAME=VALUE`.
fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.to_owned()))
        }
        _ => Err("expected NAME=VALUE, for example retention.ms=86400000".to_owned()),
    }
}

pub(super) fn run(command: &TopicCommand) -> ExitCode {
    let ended = block_on(async {
        match command {
            TopicCommand::Create(args) => create(args).await,
            TopicCommand::List(args) => list(args).await,
            TopicCommand::Describe(args) => describe(args).await,
            TopicCommand::Delete(args) => delete(args).await,
        }
    });
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
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

async fn create(args: &CreateArgs) -> Result<bool, CommandError> {
    let configs: BTreeMap<_, _> = args
        .configs
        .iter()
        .map(|(name, value)| (name.clone(), Some(value.clone())))
        .collect();
    let names = args.names.required()?;
    let topics = names.into_iter().map(|name| NewTopic {
        name,
        partitions: args.partitions,
        replication_factor: args.replication_factor,
        assignments: BTreeMap::new(),
        configs: configs.clone(),
    });
    let call = AdminCall::CreateTopics {
        topics: topics.collect(),
        validate_only: false,
    };
    let told = args.bootstrap.call(call).await?;
    let AdminAnswer::Created(created) = told.answer else {
        return Err(unexpected());
    };
    let mut all = true;
    for (name, result) in created {
        match result {
            Ok(_) => println!("Created topic {name}."),
            Err(error) if error.code == ErrorCode::TopicAlreadyExists => {
                if args.if_not_exists {
                    println!("Topic {name} exists already.");
                } else if told.repeats > 0 {
                    println!("Topic {name} exists now; it may be this command that created it.");
                } else {
                    all = false;
                    eprintln!("seedlog: topic {name} exists already; --if-not-exists accepts that");
                }
            }
            Err(error) => all &= refused(&name, &error),
        }
    }
    Ok(all)
}

async fn list(args: &ListArgs) -> Result<bool, CommandError> {
    let call = AdminCall::DescribeTopics { topics: None };
    let told = args.bootstrap.call(call).await?;
    let AdminAnswer::Cluster(cluster) = told.answer else {
        return Err(unexpected());
    };
    let mut out = io::stdout().lock();
    for (name, topic) in &cluster.topics {
        if !(args.exclude_internal && topic.is_internal) {
            writeln!(out, "{name}")?;
        }
    }
    Ok(true)
}

async fn describe(args: &DescribeArgs) -> Result<bool, CommandError> {
    let names = args.names.topics();
    let call = AdminCall::DescribeTopics {
        topics: (!names.is_empty()).then_some(names),
    };
    let told = args.bootstrap.call(call).await?;
    let AdminAnswer::Cluster(cluster) = told.answer else {
        return Err(unexpected());
    };
    let good = cluster.topics.iter().filter(|(_, t)| !t.error.is_error());
    let resources: Vec<_> = good
        .map(|(name, _)| ConfigResource::Topic(name.clone()))
        .collect();
    let configs = if resources.is_empty() {
        BTreeMap::new()
    } else {
        let call = AdminCall::DescribeConfigs { resources };
        match args.bootstrap.call(call).await?.answer {
            AdminAnswer::Configs(configs) => configs,
            _ => return Err(unexpected()),
        }
    };
    write_described(&mut io::stdout().lock(), &cluster, &configs)
}

fn write_described(
    out: &mut impl Write,
    cluster: &Cluster,
    configs: &BTreeMap<ConfigResource, Result<Vec<ConfigEntry>, ApiError>>,
) -> Result<bool, CommandError> {
    let mut all = true;
    for (name, topic) in &cluster.topics {
        if topic.error.is_error() {
            all = false;
            let error = CommandError::Topic {
                topic: name.clone(),
                error: topic.error,
            };
            match topic.error {
                ErrorCode::UnknownTopicOrPartition => {
                    let topic = name.clone();
                    eprintln!("seedlog: {}", CommandError::NoTopic { topic });
                }
                _ => eprintln!("seedlog: {error}"),
            }
            continue;
        }
        let own = match configs.get(&ConfigResource::Topic(name.clone())) {
            Some(Ok(entries)) => own_settings(entries),
            Some(Err(error)) => format!("({error})"),
            None => String::new(),
        };
        write_topic(out, name, topic, &own)?;
    }
    Ok(all)
}

/// Writes what Kafka's own tool writes, so that scripts that read it still work.
fn write_topic(
    out: &mut impl Write,
    name: &TopicName,
    topic: &TopicMetadata,
    own: &str,
) -> io::Result<()> {
    let first = topic.partitions.values().next();
    let replicas = first.map_or(0, |partition| partition.replicas.len());
    let count = topic.partitions.len();
    writeln!(
        out,
        "Topic: {name}\tTopicId: {}\tPartitionCount: {count}\tReplicationFactor: {replicas}\tConfigs: {own}",
        topic.id
    )?;
    for (number, partition) in &topic.partitions {
        write_partition(out, name, *number, partition)?;
    }
    Ok(())
}

fn write_partition(
    out: &mut impl Write,
    name: &TopicName,
    number: i32,
    partition: &PartitionMetadata,
) -> io::Result<()> {
    let leader = partition
        .leader
        .map_or_else(|| "none".to_owned(), |id| id.to_string());
    writeln!(
        out,
        "\tTopic: {name}\tPartition: {number}\tLeader: {leader}\tReplicas: {}\tIsr: {}",
        ids(&partition.replicas),
        ids(&partition.isr)
    )
}

fn ids(ids: &[NodeId]) -> String {
    let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    ids.join(",")
}

fn own_settings(entries: &[ConfigEntry]) -> String {
    let own = entries
        .iter()
        .filter(|entry| entry.source == ConfigEntry::TOPIC);
    let own = own.map(|entry| format!("{}={}", entry.name, entry.value.as_deref().unwrap_or("")));
    own.collect::<Vec<_>>().join(",")
}

async fn delete(args: &DeleteArgs) -> Result<bool, CommandError> {
    let topics = args.names.required()?;
    let told = args
        .bootstrap
        .call(AdminCall::DeleteTopics { topics })
        .await?;
    let AdminAnswer::Deleted(deleted) = told.answer else {
        return Err(unexpected());
    };
    let mut all = true;
    for (name, result) in deleted {
        match result {
            Ok(()) => println!("Deleted topic {name}."),
            Err(error) if error.code == ErrorCode::UnknownTopicOrPartition => {
                if args.if_exists {
                    println!("Topic {name} does not exist.");
                } else if told.repeats > 0 {
                    println!("Topic {name} is gone; it may be this command that deleted it.");
                } else {
                    all = false;
                    eprintln!("seedlog: topic {name} does not exist; --if-exists accepts that");
                }
            }
            Err(error) => all &= refused(&name, &error),
        }
    }
    Ok(all)
}

/// Says why a broker refused; returns that it did not work.
fn refused(name: &TopicName, error: &ApiError) -> bool {
    eprintln!("seedlog: topic {name}: {error}");
    false
}
