//! One partition of an assignment.

use super::StartAt;
use crate::{ids::Offset, time::Instant};

/// How far reading of a partition has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// The offset must be looked up.
    Unknown(StartAt),
    /// The next offset to read.
    At(Offset),
    /// A fault ended it.
    Stopped,
}

/// A partition that is read.
#[derive(Debug)]
pub(super) struct Assigned {
    pub(super) position: Position,
    /// Tells answers to questions asked before the last change of position from others.
    pub(super) generation: u64,
    /// A question about it is in flight.
    pub(super) asked: bool,
    /// Records of it wait to be handed out.
    pub(super) buffered: bool,
    pub(super) paused: bool,
    pub(super) not_before: Instant,
    pub(super) failures: u32,
    /// Counts up with every answer that had records: whoever had some last is asked for last.
    pub(super) served: u64,
    /// The end that was reported already.
    pub(super) end_told: Option<Offset>,
}

impl Assigned {
    pub(super) const fn new(position: Position, generation: u64) -> Self {
        Self {
            position,
            generation,
            asked: false,
            buffered: false,
            paused: false,
            not_before: Instant::ORIGIN,
            failures: 0,
            served: 0,
            end_told: None,
        }
    }

    /// Says whether a question may be asked about it now.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        !self.asked && !self.buffered && !self.paused && self.not_before <= now
    }
}
