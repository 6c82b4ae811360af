//! A node from its settings to its end.

use std::{
    fs::File,
    io::{self, Read, Write},
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
/// Prints one line, `ready bootstrap=HOST:PORT`, to standard output when clients can connect.
///
/// # Errors
///
/// When the node cannot start.
pub fn run<M: Machine + 'static>(
    config: &NodeConfig,
    make: impl FnOnce(BrokerConfig, Identity, Now) -> M,
    stop: Stop,
) -> Result<Exit, StartError> {
    let clock = Clock::start();
    for note in &config.notes {
        tracing::warn!("{note}");
    }
    let sockets = config.bind()?;
    let broker_config = config.broker_config(&sockets);
    let ground = Ground::prepare(&config.log_dirs, sockets)?;
    let identity = draw_identity().map_err(StartError::Random)?;
    let observer = observer(&broker_config);
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
        observer,
        stop,
    )
    .map_err(StartError::Loop)
}

/// Logs events, and says once that the node is ready.
fn observer(config: &BrokerConfig) -> Observer {
    let mut ready = config.listeners.first().map(|listener| {
        let host = &listener.advertised_host;
        let port = listener.advertised_port;
        if host.contains(':') {
            format!("ready bootstrap=[{host}]:{port}\n")
        } else {
            format!("ready bootstrap={host}:{port}\n")
        }
    });
    Box::new(move |event| {
        logging::log(event);
        if *event == Event::Ready
            && let Some(line) = ready.take()
        {
            let mut output = io::stdout().lock();
            // Whoever started the node may not listen; the node serves all the same.
            let _ = output
                .write_all(line.as_bytes())
                .and_then(|()| output.flush());
        }
    })
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
