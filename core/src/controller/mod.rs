//! The controller: what the cluster agrees on, and who decides it.
//!
//! - [`records`]: the facts, with frozen encodings;
//! - [`image`]: what all facts up to an offset say; replaying one is its only change;
//! - [`decide`]: pure functions from an image and a request to new facts and a reply;
//! - [`Controller`]: the machine that decides while this node leads the quorum and follows while it does not.
//!
//! It knows no storage and no election: it hands out records to append and is told offsets.

pub mod decide;
pub mod image;
mod machine;
pub mod messages;
pub mod records;
mod request;
mod sessions;

pub use self::{
    machine::Controller,
    request::{ControllerOutput, ControllerReply, ControllerRequest, Ticket},
};
