//! Replication's machines together: a cluster of three in virtual time, and parts of it by hand.

mod check;
mod cluster;
mod fetch_sessions;
mod fetchers;
mod leadership;
mod model;
mod node;
mod opening;
mod serving;
mod swarm;
