//! One replica on a disk that can lose power, fail, or be tampered with.

mod bootstrap;
mod crash;
mod damage;
mod disk;
mod host;
mod snapshots;
