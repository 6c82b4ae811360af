//! The log against a disk that forgets, fails, lies about order, and is damaged.

mod basics;
mod crash;
mod damage;
pub(crate) mod disk;
mod faults;
mod host;
mod layout;
mod size;
mod storm;
mod time;
mod trimming;
