//! `seedlog dev`: a broker, or a cluster in one process, for development.

mod several;

use std::process::ExitCode;

use super::{
    DevArgs,
    start::{refused, run_node},
};
use crate::config::{NodeConfig, SettingsError};

pub(super) fn run(args: &DevArgs) -> ExitCode {
    if let Err(problem) = several::check_folder(&args.data, args.brokers) {
        return refused(problem);
    }
    if args.brokers > 1 {
        return several::run(args);
    }
    match config(args) {
        Ok(config) => run_node(&config),
        Err(error) => refused(error),
    }
}

fn config(args: &DevArgs) -> Result<NodeConfig, SettingsError> {
    let settings = [
        ("listeners", format!("PLAINTEXT://{}", args.listen)),
        ("log.dirs", args.data.clone()),
    ];
    NodeConfig::from_settings(settings.map(|(name, value)| (name.to_owned(), value)))
}
