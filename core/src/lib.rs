//! Seedlog's sans-IO core: every decision of a Kafka-compatible replicated log.
pub mod batch;
pub mod broker;
pub mod client;
mod cluster;
pub mod config;
pub mod controller;
pub mod event;
pub mod frontend;
pub mod ids;
pub mod log;
pub mod logdir;
pub mod planted;
pub mod protocol;
pub mod raft;
pub mod replication;
pub mod storage;
pub mod time;
