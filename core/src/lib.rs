//! Seedlog's sans-IO core: every decision of a Kafka-compatible replicated log.
//!
//! Here is what a broker does with a request, with a torn file, with a clock that jumped: which bytes go where on disk, what
//! counts as safe, when a client may be answered. Client machines (producer, consumer, admin) are here too.
//!
//! **What it is not.** There is no socket, file, clock, thread or randomness in this crate, and nothing async. Whoever wants to
//! run a broker uses the package `seedlog`, which drives these machines with tokio; whoever wants to see one survive uses
//! `seedlog-sim`, which drives the same machines through simulated failures. What a driver must keep is said in [`storage`] and
//! [`broker`].
//!
//! **Read first** [`broker::Broker`], the outer machine with its [`broker::Input`]s and [`broker::Output`]s, and
//! [`log::Log`], which decides every byte in a partition's folder.
//!
//! A driver in ten lines, as far as it concerns the broker:
//!
//! ```no_run
//! use seedlog_core::{broker::{Broker, Input, Output}, time::{Instant, Now}};
//!
//! fn turn(
//!     broker: &mut Broker,
//!     now: Now,
//!     input: Input,
//!     mut perform: impl FnMut(Output),
//! ) -> Option<Instant> {
//!     broker.handle(now, input);
//!     while let Some(output) = broker.poll_output() {
//!         perform(output); // its end, if it has one, is the next input
//!     }
//!     broker.deadline() // when `Input::Timeout` is due
//! }
//! ```
//!
//! Machines are modules; each says at its top what it decides, its states, and what its host must guarantee. They exchange owned
//! messages, and [`broker`] routes between them.
pub mod batch;
pub mod broker;
pub mod client;
mod cluster;
pub mod config;
pub mod controller;
pub mod event;
pub mod forwarding;
pub mod frontend;
pub mod ids;
pub mod log;
pub mod logdir;
pub mod peer;
pub mod planted;
pub mod protocol;
pub mod raft;
pub mod replication;
pub mod storage;
pub mod time;
