//! Several nodes in one process: a cluster to try things on.
//!
//! Each node is what it would be as a process of its own: it has a thread with its own event loop and sockets, and its own
//! folder. Nothing is shared between them, and they reach one another over the loopback. One loop for all would save two
//! wake-ups per replicated write, but a node that waits for its disk would then hold up the heartbeats of the others.

use std::{
    fmt::Display,
    io,
    net::TcpListener,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use seedlog_core::broker::{Broker, BrokerConfig, Voter};
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

use super::super::{
    DevArgs,
    start::{exit_code, refused},
};
use crate::{
    config::{BindError, NodeConfig, SettingsError, split_host_port},
    logging,
    node::{self, Bound, StartError},
    shard::{Exit, Stop},
};

/// A node that can be run: its settings, and its sockets in the order of its listeners.
type Ready = (NodeConfig, Vec<TcpListener>);

/// How a node ended.
type Ended = Result<Exit, StartError>;

/// Why the nodes cannot be set up.
#[derive(Debug, thiserror::Error)]
enum SetupError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(
        "--brokers {brokers} needs the ports {first} to {last}, and the last possible one is 65535: choose a lower port"
    )]
    Ports { brokers: u16, first: u16, last: u32 },
}

/// Refuses a folder that another number of brokers has used: their partitions and votes are spread over them.
pub(super) fn check_folder(data: &str, brokers: u16) -> Result<(), String> {
    let data = Path::new(data);
    let is_used = |folder: &Path| folder.join("meta.properties").exists();
    let found = (1..)
        .take_while(|number| is_used(&folder(data, *number)))
        .count();
    let alone = is_used(data);
    let shown = data.display();
    let wanted = usize::from(brokers);
    match (alone, found) {
        (true, _) if brokers > 1 => Err(format!(
            "{shown} holds the data of a single broker: run it without --brokers, or choose another folder by --data"
        )),
        (false, 0) => Ok(()),
        (false, found) if found != wanted => Err(format!(
            "{shown} holds the data of {found} brokers: run it with --brokers {found}, or choose another folder by --data"
        )),
        _ => Ok(()),
    }
}

fn folder(data: &Path, number: u16) -> PathBuf {
    data.join(format!("broker-{number}"))
}

pub(super) fn run(args: &DevArgs) -> ExitCode {
    match set_up(args) {
        Ok(nodes) => run_nodes(nodes),
        Err(SetupError::Settings(error)) => refused(error),
        Err(SetupError::Bind(error)) => failed(error),
        Err(error) => refused(error),
    }
}

fn failed(error: impl Display) -> ExitCode {
    eprintln!("seedlog: {error}");
    ExitCode::FAILURE
}

/// Binds everything first: only then is it known where the voters listen when the system chooses the ports.
fn set_up(args: &DevArgs) -> Result<Vec<Ready>, SetupError> {
    let mut nodes = Vec::new();
    let mut voters = Vec::new();
    for number in 1..=args.brokers {
        let config = config(args, number)?;
        let sockets = config.bind()?;
        let broker = config.broker_config(&sockets);
        voters.extend(voter(&broker));
        nodes.push((config, sockets));
    }
    for (config, _) in &mut nodes {
        config.join_quorum(&voters);
    }
    Ok(nodes)
}

fn config(args: &DevArgs, number: u16) -> Result<NodeConfig, SetupError> {
    let brokers = args.brokers;
    let (host, first) = split_host_port(&args.listen).unwrap_or_default();
    let last = u32::from(first) + 2 * u32::from(brokers) - 1;
    if last > u32::from(u16::MAX) {
        return Err(SetupError::Ports {
            brokers,
            first,
            last,
        });
    }
    let port = |place: u16| if first == 0 { 0 } else { first + place };
    let replicas = brokers.min(REPLICAS);
    let in_sync = if replicas < REPLICAS { 1 } else { IN_SYNC };
    let settings = [
        ("process.roles", "broker,controller".to_owned()),
        ("node.id", number.to_string()),
        (
            "listeners",
            format!(
                "PLAINTEXT://{host}:{},CONTROLLER://{LOOPBACK}:{}",
                port(number - 1),
                port(brokers + number - 1)
            ),
        ),
        ("controller.listener.names", "CONTROLLER".to_owned()),
        (
            "log.dirs",
            folder(Path::new(&args.data), number).display().to_string(),
        ),
        ("default.replication.factor", replicas.to_string()),
        ("min.insync.replicas", in_sync.to_string()),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value));
    Ok(NodeConfig::from_settings(settings)?)
}

fn voter(broker: &BrokerConfig) -> Option<Voter> {
    let mut listeners = broker.listeners.iter();
    let own = listeners.find(|listener| listener.is_controller())?;
    Some(Voter {
        node_id: broker.node_id,
        host: own.advertised_host.clone(),
        port: own.advertised_port,
    })
}

/// Runs all nodes until all have ended. One that ends by itself takes the others with it.
fn run_nodes(nodes: Vec<Ready>) -> ExitCode {
    logging::start();
    for note in nodes.iter().take(1).flat_map(|(config, _)| &config.notes) {
        tracing::warn!("{note}");
    }
    let count = nodes.len();
    let addresses: Vec<String> = nodes
        .iter()
        .map(|(config, sockets)| node::bootstrap(&config.broker_config(sockets)).1)
        .collect();
    let line = Arc::new(format!("ready bootstrap={}\n", addresses.join(",")));
    let left = Arc::new(AtomicUsize::new(count));
    let (sender, ends) = unbounded_channel();
    let mut stops = Vec::new();
    for (config, sockets) in nodes {
        let (stop, wishes) = unbounded_channel();
        stops.push(stop);
        let (line, left, sender) = (Arc::clone(&line), Arc::clone(&left), sender.clone());
        let ready = move || {
            if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                node::print(&line);
            }
        };
        let name = format!("node-{}", config.node_id);
        let run = move || {
            let _span = tracing::info_span!("node", id = config.node_id.0).entered();
            let bound = Bound {
                config: &config,
                sockets,
                nodes_in_process: count,
            };
            let ended = node::run_bound(bound, Broker::new, ready, Stop::Channel(wishes));
            // Whoever waits for it may be gone already, after a second signal.
            let _ = sender.send(ended);
        };
        if let Err(error) = thread::Builder::new().name(name).spawn(run) {
            return failed(format_args!("cannot start a thread: {error}"));
        }
    }
    drop(sender);
    match wait_for_all(&stops, ends) {
        Ok(ended) => exit_code(ended),
        Err(error) => failed(error),
    }
}

/// Hands signals on until every node has ended.
fn wait_for_all(
    stops: &[UnboundedSender<()>],
    mut ends: UnboundedReceiver<Ended>,
) -> io::Result<Ended> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut worst = Ok(Exit::Clean);
        let mut asked = false;
        loop {
            let ended = tokio::select! {
                ended = ends.recv() => match ended {
                    None => return Ok(worst),
                    Some(ended) => Some(ended),
                },
                _ = terminate.recv() => None,
                _ = interrupt.recv() => None,
            };
            // The first that ends by itself takes the others with it; the later ones end because they were asked.
            if ended.is_none() || !asked {
                ask_all(stops);
            }
            asked = true;
            if let Some(ended) = ended {
                worst = worse(worst, ended);
            }
        }
    })
}

/// Asks every node to stop; a second time, at once. One that has ended does not listen any more.
fn ask_all(stops: &[UnboundedSender<()>]) {
    for stop in stops {
        let _ = stop.send(());
    }
}

/// Chooses what the process's exit code tells: the first failure, else that it was forced.
fn worse(one: Ended, other: Ended) -> Ended {
    let rank = |ended: &Ended| match ended {
        Ok(Exit::Clean) => 0,
        Ok(Exit::Forced) => 1,
        Ok(Exit::Fatal(_)) | Err(_) => 2,
    };
    if rank(&other) > rank(&one) {
        other
    } else {
        one
    }
}

/// Where the nodes' controllers listen: nobody else needs them.
const LOOPBACK: &str = "127.0.0.1";

/// As many replicas as a topic that is to survive any one broker's loss without a pause has.
const REPLICAS: u16 = 3;

/// How many of them must be in sync.
const IN_SYNC: u16 = 2;
