//! Seedlog's deterministic simulator: the real broker, on a network, disks and clocks that go wrong.
//!
//! One event queue in virtual time drives brokers, clients and faults. A run is a pure function of a scenario and a seed; its
//! [`report`] ends with the line that replays it, and its digest says whether two runs were the same.
//!
//! **What it is not.** It does not mock the broker: the machines are those that the node runs, behind the trait [`node::Node`], of
//! which several releases can take part in one run. It knows nothing that a broker believes about itself but its versioned probe:
//! checkers rest on what clients were told and on what the model disks hold. It is no part of any release; the package `seedlog`
//! never links it.
//!
//! **Read first** [`scenario::Scenario`], which says what is set up, what works on it and what goes wrong, and
//! [`plan::Plan`], the faults as data. Then [`checker`] for what must hold, and [`disk`] for what a power loss may do.
//!
//! ```
//! use seedlog_sim::{broker::today, disk::Survival, history::Acks, plan::Fault, scenario::{Producers, Rule, Scenario}};
//!
//! Scenario::new("durable", "power_loss_loses_nothing")
//!     .topic("orders", 3, Rule::Durable)
//!     .producers(Producers::new(2, Acks::All))
//!     .readers(1)
//!     .lasting_ms(2_000)
//!     .fault_at(1_000, Fault::PowerLoss { node: 0, down_ms: 20, survival: Survival::Scattered })
//!     .run(7, &today())
//!     .assert_ok();
//! ```

mod aim;
pub mod batch;
pub mod broker;
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
mod kind;
pub mod marks;
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
