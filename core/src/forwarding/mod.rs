//! What brokers send on to the active controller for their clients: the request as it came, in an envelope that says who asked
//! and from where (KIP-590).
//!
//! | the controller says | the broker |
//! | --- | --- |
//! | an answer | hands it to the client, as it is |
//! | NOT_CONTROLLER | asks again, of whoever leads then |
//! | UNSUPPORTED_VERSION | closes the client's connection, so that the client asks anew what is spoken here |
//! | another error | answers UNKNOWN_SERVER_ERROR: the client cannot know what an envelope's errors mean |
//!
//! This module is pure: it makes and opens envelopes. How long a request is tried again, and over which link, is the host's
//! matter.

mod envelope;
mod principal;
#[cfg(test)]
mod tests;

pub use self::{
    envelope::{Answered, ENVELOPE, Forwarded, answer, open_answer, refuse, seal, unseal},
    principal::{Principal, PrincipalFault},
};
