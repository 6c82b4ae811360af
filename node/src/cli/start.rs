//! `seedlog start`: a broker with Kafka's configuration file.

use std::{fmt::Display, process::ExitCode};

use super::StartArgs;
use crate::{
    config::NodeConfig,
    logging,
    node::{self, StartError},
    shard::{Exit, Stop},
};

pub(super) fn run(args: &StartArgs) -> ExitCode {
    match NodeConfig::load(&args.config, &args.overrides) {
        Ok(config) => run_node(&config),
        Err(error) => refused(error),
    }
}

/// Runs a node until it ends.
pub(super) fn run_node(config: &NodeConfig) -> ExitCode {
    logging::start();
    let ended = node::run(config, seedlog_core::broker::Broker::new, Stop::Signals);
    exit_code(ended)
}

/// Says why the settings do not do.
pub(super) fn refused(error: impl Display) -> ExitCode {
    eprintln!("seedlog: {error}");
    ExitCode::from(USAGE)
}

/// Says how a node ended, to a shell.
pub(super) fn exit_code(ended: Result<Exit, StartError>) -> ExitCode {
    match ended {
        Ok(Exit::Clean) => ExitCode::SUCCESS,
        Ok(Exit::Forced) => ExitCode::from(FORCED),
        Ok(Exit::Fatal(message)) => {
            eprintln!("seedlog: {message}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("seedlog: {error}");
            ExitCode::FAILURE
        }
    }
}

/// As the command line's own errors.
const USAGE: u8 = 2;

/// As a shell reports a process that ended by SIGINT.
const FORCED: u8 = 130;
