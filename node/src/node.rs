//! A node from its settings to its end.

use std::{
    fs::File,
    io::{self, Read, Write},
    net::TcpListener,
};

use seedlog_core::{
    broker::{BrokerConfig, Identity},
    event::Event,
    ids::Uuid,
    time::Now,
};

use crate::{
    clock::Clock,
    config::{BindError, NodeConfig},
    files::LogDirError,
    logging,
    machine::Machine,
    shard::{Exit, Ground, Observer, Stop, serve},
};

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A listener's address cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A log directory cannot be used.
    #[error(transparent)]
    LogDir(#[from] LogDirError),
    /// The system has no randomness.
    #[error("cannot read random bytes from the system: {0}")]
    Random(#[source] io::Error),
    /// The event loop cannot run.
    #[error("cannot start the event loop: {0}")]
    Loop(#[source] io::Error),
}

/// Runs a node with the machine that `make` builds, until it ends.
///
/// Prints one line, `ready bootstrap=HOST:PORT`, to standard output when clients can connect; `ready controller=HOST:PORT` for a
/// node that serves none, when it has joined its quorum.
///
/// # Errors
///
/// When the node cannot start.
pub fn run<M: Machine + 'static>(
    config: &NodeConfig,
    make: impl FnOnce(BrokerConfig, Identity, Now) -> M,
    stop: Stop,
) -> Result<Exit, StartError> {
    for note in &config.notes {
        tracing::warn!("{note}");
    }
    let sockets = config.bind()?;
    let line = match bootstrap(&config.broker_config(&sockets)) {
        (true, address) => format!("ready bootstrap={address}\n"),
        (false, address) => format!("ready controller={address}\n"),
    };
    let bound = Bound {
        config,
        sockets,
        nodes_in_process: 1,
    };
    run_bound(bound, make, move || print(&line), stop)
}

/// A node whose sockets are bound.
#[derive(Debug)]
pub(crate) struct Bound<'a> {
    pub(crate) config: &'a NodeConfig,
    pub(crate) sockets: Vec<TcpListener>,
    /// How many nodes share what the system lets one process have.
    pub(crate) nodes_in_process: usize,
}

/// Runs a node on its sockets until it ends; `ready` is called once, when it serves.
pub(crate) fn run_bound<M: Machine + 'static>(
    bound: Bound<'_>,
    make: impl FnOnce(BrokerConfig, Identity, Now) -> M,
    ready: impl FnOnce() + 'static,
    stop: Stop,
) -> Result<Exit, StartError> {
    let clock = Clock::start();
    let Bound {
        config,
        sockets,
        nodes_in_process,
    } = bound;
    let broker_config = config.broker_config(&sockets);
    let ground = Ground::prepare_beside(&config.log_dirs, sockets, nodes_in_process)?;
    let identity = draw_identity().map_err(StartError::Random)?;
    tracing::info!(
        node = broker_config.node_id.0,
        incarnation = %identity.incarnation,
        log_dirs = ?config.log_dirs,
        "starting"
    );
    let machine = make(broker_config, identity, clock.now());
    serve(
        ground,
        config.limits.clone(),
        clock,
        machine,
        observer(ready),
        stop,
    )
    .map_err(StartError::Loop)
}

/// Returns whether a node serves clients, and where those whom it serves connect.
pub(crate) fn bootstrap(config: &BrokerConfig) -> (bool, String) {
    let mut listeners = config.listeners.iter();
    let first = listeners.find(|listener| !listener.is_controller());
    let address = first.or_else(|| config.listeners.first()).map(|listener| {
        match &listener.advertised_host {
            host if host.contains(':') => format!("[{host}]:{}", listener.advertised_port),
            host => format!("{host}:{}", listener.advertised_port),
        }
    });
    (first.is_some(), address.unwrap_or_default())
}

/// Logs events, and says once that the node is ready.
fn observer(ready: impl FnOnce() + 'static) -> Observer {
    let mut ready = Some(ready);
    Box::new(move |event| {
        logging::log(event);
        if *event == Event::Ready
            && let Some(ready) = ready.take()
        {
            ready();
        }
    })
}

/// Prints a line for whoever started the process. It may not listen; what runs goes on all the same.
pub(crate) fn print(line: &str) {
    let mut output = io::stdout().lock();
    let _ = output
        .write_all(line.as_bytes())
        .and_then(|()| output.flush());
}

/// Draws what this incarnation of the node is known by, and the seed of its one generator.
fn draw_identity() -> io::Result<Identity> {
    let mut bytes = [0; 48];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let mut incarnation = [0; 16];
    let mut seed = [0; 32];
    incarnation.copy_from_slice(&bytes[..16]);
    seed.copy_from_slice(&bytes[16..]);
    Ok(Identity {
        incarnation: Uuid::from_random(incarnation),
        seed,
    })
}
