//! Failure scenarios of Seedlog, the drill with planted bugs, and what the `chaos` command does.
//!
//! A scenario is an integration test in `tests/`: about ten lines that set up, break and check, with a doc comment that names the
//! promise and the rule it rests on. Each runs over a fixed list of seeds, so that every run of `cargo test` is the same.

pub mod capsule;
pub mod drill;
pub mod seeds;
pub mod shrink;
pub mod swarm;
pub mod sweep;
