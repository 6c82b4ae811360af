//! The outer machine: takes inputs, routes them to the machine that decides, and hands out outputs in order.

mod boundary;
mod config;

pub use boundary::{Input, Output};
pub use config::{BrokerConfig, Identity, Listener, Voter};
