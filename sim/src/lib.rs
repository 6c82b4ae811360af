//! Seedlog's deterministic simulator.

pub mod batch;
pub mod budget;
pub mod checker;
pub mod client;
pub mod clock;
pub mod cluster;
pub mod digest;
pub mod disk;
pub mod driver;
pub mod engine;
pub mod ghost;
mod guard;
pub mod history;
pub mod nemesis;
pub mod network;
pub mod node;
pub mod plan;
pub mod random;
pub mod report;
pub mod run;
pub mod scenario;
#[cfg(test)]
mod tests;
pub mod time;
#[cfg(test)]
mod toy;
pub mod trace;
pub mod workload;
