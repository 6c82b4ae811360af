//! One replica on a disk that can lose power, fail, or be tampered with; and several of them as a quorum.

mod bootstrap;
mod crash;
mod damage;
mod disk;
mod host;
mod quorum;
mod snapshots;
