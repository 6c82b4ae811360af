//! The machine that the driver drives, as far as the driver knows it.

use seedlog_core::{
    broker::{Input, Output},
    time::{Instant, Now},
};

/// A sans-IO machine: inputs go in, outputs come out in order, and nothing happens in between.
///
/// The driver calls [`poll_output`](Self::poll_output) until it answers `None` after every input, and feeds the completion
/// of an operation that did not block at once, so a machine sees inputs while older outputs of its own still wait.
pub trait Machine {
    /// Takes one input.
    fn handle(&mut self, now: Now, input: Input);

    /// Hands out the oldest output that was not handed out yet.
    fn poll_output(&mut self) -> Option<Output>;

    /// Returns when [`Input::Timeout`] is next due.
    fn deadline(&self) -> Option<Instant>;
}

impl Machine for seedlog_core::broker::Broker {
    fn handle(&mut self, now: Now, input: Input) {
        Self::handle(self, now, input);
    }

    fn poll_output(&mut self) -> Option<Output> {
        Self::poll_output(self)
    }

    fn deadline(&self) -> Option<Instant> {
        Self::deadline(self)
    }
}
