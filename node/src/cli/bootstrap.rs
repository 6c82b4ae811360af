//! How the client commands find a cluster, and what they say when they do not.

use std::{io, time::Duration};

use seedlog_core::{
    client::{
        Address, Admin, AdminAnswer, AdminCall, AdminError, AdminEvent, ClientConfig, Cluster,
    },
    ids::TopicName,
    protocol::ErrorCode,
};
use tokio::{runtime, time};

use crate::client::{Driver, Happening};

/// Where to find the cluster.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Bootstrap {
    /// Brokers to begin with, as HOST:PORT[,HOST:PORT]…; one is enough
    #[arg(
        short = 'b',
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9092",
        value_parser = servers
    )]
    pub(super) bootstrap_server: Servers,
    /// How long to wait for the cluster, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    pub(super) timeout_ms: u64,
}

/// A list of addresses.
#[derive(Clone, Debug)]
pub(super) struct Servers {
    pub(super) addresses: Vec<Address>,
    text: String,
}

fn servers(text: &str) -> Result<Servers, String> {
    match Address::parse_list(text) {
        Ok(addresses) if addresses.is_empty() => Err("expected HOST:PORT".to_owned()),
        Ok(addresses) => Ok(Servers {
            addresses,
            text: text.to_owned(),
        }),
        Err(error) => Err(error.to_string()),
    }
}

/// A command that failed, in words that say what to do next.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    /// Nobody answered.
    #[error(
        "no broker answered at {servers} within {timeout_ms} ms{}; start one with `seedlog dev`, or name another with --bootstrap-server",
        because(.last)
    )]
    Unreachable {
        servers: String,
        timeout_ms: u64,
        last: Option<io::Error>,
    },
    /// The cluster answered too late or not at all.
    #[error("{0}; give it more time with --timeout-ms")]
    Admin(AdminError),
    /// A topic is missing.
    #[error(
        "topic \"{topic}\" does not exist; see `seedlog topic list`, or create it with `seedlog topic create {topic}`"
    )]
    NoTopic { topic: TopicName },
    /// A topic cannot be used.
    #[error("topic \"{topic}\": {error}")]
    Topic { topic: TopicName, error: ErrorCode },
    /// The runtime or a stream of the process failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Something that only this command knows.
    #[error("{0}")]
    Said(Box<str>),
}

fn because(error: &Option<io::Error>) -> String {
    error
        .as_ref()
        .map_or_else(String::new, |error| format!(" ({error})"))
}

impl Bootstrap {
    pub(super) fn client(&self, purpose: &str) -> Result<ClientConfig, CommandError> {
        let addresses = self.bootstrap_server.addresses.clone();
        Ok(ClientConfig::new(
            addresses,
            &format!("seedlog-{purpose}"),
            seed()?,
        ))
    }

    /// Makes one call of the admin client.
    pub(super) async fn call(&self, call: AdminCall) -> Result<Told, CommandError> {
        let admin = Admin::new(self.client("admin")?, self.timeout_ms);
        let mut driver = Driver::new(admin, ClientConfig::CONTROL_BYTES_MAX);
        let (machine, now) = driver.machine_now();
        machine.call(now, call);
        let mut last = None;
        let patience = Duration::from_millis(self.timeout_ms.saturating_add(GRACE_MS));
        let ended = time::timeout(patience, async {
            loop {
                match driver.next().await {
                    Happening::Event(event) => return event,
                    Happening::CannotConnect { error, .. } => last = Some(error),
                }
            }
        });
        let Ok(AdminEvent {
            result, repeats, ..
        }) = ended.await
        else {
            return Err(self.unreachable(last));
        };
        match result {
            Ok(answer) => Ok(Told { answer, repeats }),
            Err(AdminError::TimedOut(ErrorCode::None)) => Err(self.unreachable(last)),
            Err(error) => Err(CommandError::Admin(error)),
        }
    }

    /// Describes a topic that must exist.
    pub(super) async fn existing(&self, topic: &TopicName) -> Result<Cluster, CommandError> {
        let topics = Some(vec![topic.clone()]);
        let told = self.call(AdminCall::DescribeTopics { topics }).await?;
        let AdminAnswer::Cluster(cluster) = told.answer else {
            return Err(unexpected());
        };
        let topic = topic.clone();
        match cluster.topic(&topic).map(|known| known.error) {
            Some(ErrorCode::None) => Ok(cluster),
            None | Some(ErrorCode::UnknownTopicOrPartition) => Err(CommandError::NoTopic { topic }),
            Some(error) => Err(CommandError::Topic { topic, error }),
        }
    }

    pub(super) fn unreachable(&self, last: Option<io::Error>) -> CommandError {
        CommandError::Unreachable {
            servers: self.bootstrap_server.text.clone(),
            timeout_ms: self.timeout_ms,
            last,
        }
    }
}

/// What came of a call.
pub(super) struct Told {
    pub(super) answer: AdminAnswer,
    /// How often it may have been carried out before.
    pub(super) repeats: u32,
}

pub(super) fn unexpected() -> CommandError {
    CommandError::Said("the broker answered another question".into())
}

/// Runs a command to its end on a runtime of its own.
pub(super) fn block_on<T>(
    command: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(command)
}

/// Draws what jitter and partitioner are fed with.
fn seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        filled += rustix::rand::getrandom(&mut bytes[filled..], flags)?;
    }
    Ok(u64::from_ne_bytes(bytes))
}

/// The machine is given this much longer to say so itself.
const GRACE_MS: u64 = 1_000;
