//! Clients' requests: connections, order, budgets, and one file per API group.

mod connection;

pub use connection::{Budget, Connections, RequestToken};
