//! `seedlog dev`: a broker for development.

use std::process::ExitCode;

use super::{
    DevArgs,
    start::{refused, run_node},
};
use crate::config::{NodeConfig, SettingsError};

pub(super) fn run(args: &DevArgs) -> ExitCode {
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
