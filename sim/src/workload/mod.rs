//! Workloads: clients that write and read over the wire, and note what they asked and were told.
//!
//! They speak Kafka's protocol by the wire crate and nothing of the code under test, retry as Kafka's clients do, and never
//! carry a value twice.

mod drain;
mod operator;
mod producer;
mod reader;
mod router;
mod session;
mod setup;
mod wire;

pub use drain::Drain;
pub use operator::Operator;
pub use producer::{Producer, ProducerProfile};
pub use reader::{Reader, ReaderProfile};
pub use setup::{SetUp, TopicPlan};
pub use wire::Target;
