//! What a follower knows of its leader, and what it would ask next.
//!
//! | stage | asks | leads to |
//! | --- | --- | --- |
//! | fetching | records from its end on, once all below is counted | lowering, by a diverging answer; leader's end, by OFFSET_OUT_OF_RANGE |
//! | leader's end | ListOffsets latest | lowering, if the leader has less; leader's start |
//! | leader's start | ListOffsets earliest | lowering, if the leader begins past our end; fetching |
//! | lowering | nothing, until the recovery point on disk promises nothing past the cut | truncating |
//! | truncating | nothing, until the log says that it is done | fetching |

use super::{EpochEnd, divergence};
use crate::{
    ids::{Epoch, NodeId, Offset},
    log::{AppendBatch, Log},
    planted::PlantedSet,
    protocol::ErrorCode,
    time::Instant,
};

use bytes::Bytes;

/// What a follower says of itself in a fetch: everything below `offset` is its counted copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPosition {
    /// The leader epoch it follows.
    pub leader_epoch: Epoch,
    /// Where to read from.
    pub offset: Offset,
    /// The epoch of its last record; `None` while it has none.
    pub last_fetched_epoch: Option<Epoch>,
    /// Its log start.
    pub log_start: Offset,
    /// The high watermark it knows (KIP-1166). It alone is no reason for a fetch.
    pub high_watermark: Offset,
}

impl FetchPosition {
    /// Returns whether two positions ask for the same.
    #[must_use]
    pub fn asks_the_same(&self, other: &Self) -> bool {
        Self {
            high_watermark: 0,
            ..*self
        } == Self {
            high_watermark: 0,
            ..*other
        }
    }
}

/// An offset of the leader that a follower has to know before it can cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderOffset {
    /// The log end: ListOffsets with timestamp -1.
    End,
    /// The log start: ListOffsets with timestamp -2.
    Start,
}

/// A question about the leader's offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetQuestion {
    /// The leader epoch the follower follows.
    pub leader_epoch: Epoch,
    /// Which offset.
    pub which: LeaderOffset,
}

/// What a partition would ask its leader now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Records.
    Fetch(FetchPosition),
    /// An offset.
    Ask(OffsetQuestion),
    /// Nothing yet, but shortly: a write, a group commit or a truncation is under way.
    Soon,
    /// Nothing before something else happens: it is not a follower, or waits after an error.
    Later,
}

impl Readiness {
    fn asks_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fetch(one), Self::Fetch(other)) => one.asks_the_same(other),
            _ => self == other,
        }
    }
}

/// What a leader answered to the fetch of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchedPartition {
    /// The error, or none.
    pub error: ErrorCode,
    /// The leader's high watermark.
    pub high_watermark: Offset,
    /// The leader's log start.
    pub log_start: Offset,
    /// Where the logs part, if the claim was wrong.
    pub diverging: Option<EpochEnd>,
    /// The records.
    pub records: Bytes,
}

/// Where a follower cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) to: Offset,
    /// Nothing stays: the log begins anew at `to`.
    pub(super) fully: bool,
}

impl Cut {
    /// Returns whether nothing of the log stays.
    pub(super) fn empties(self, log: &Log) -> bool {
        self.fully || self.to < log.start()
    }

    /// Returns up to where a crash in the middle of the cut surely leaves the log as it is.
    pub(super) fn kept(self, log: &Log) -> Offset {
        if self.empties(log) {
            self.to.min(log.start())
        } else {
            self.to
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Fetching,
    LeaderEnd,
    LeaderStart,
    Lowering(Cut),
    Truncating,
}

/// One replica following one leader in one epoch.
#[derive(Clone, Debug)]
pub(super) struct Following {
    pub(super) leader: NodeId,
    pub(super) epoch: Epoch,
    pub(super) stage: Stage,
    /// Nothing is asked before this moment.
    pub(super) retry_at: Option<Instant>,
    /// The leader's high watermark as last heard in this epoch.
    pub(super) leader_high_watermark: Option<Offset>,
    /// What the log begins anew with, once it is cut.
    pub(super) restart: Vec<AppendBatch>,
    told: Option<Readiness>,
}

impl Following {
    pub(super) const fn new(leader: NodeId, epoch: Epoch) -> Self {
        Self {
            leader,
            epoch,
            stage: Stage::Fetching,
            retry_at: None,
            leader_high_watermark: None,
            restart: Vec::new(),
            told: None,
        }
    }

    /// Returns what this replica would ask now. `counted` is up to where its copy counts: no fetch promises more.
    pub(super) fn readiness(
        &self,
        log: &Log,
        counted: Offset,
        high_watermark: Offset,
        now: Instant,
    ) -> Readiness {
        if self.retry_at.is_some_and(|at| at > now) {
            return Readiness::Later;
        }
        let question = |which| {
            Readiness::Ask(OffsetQuestion {
                leader_epoch: self.epoch,
                which,
            })
        };
        match self.stage {
            Stage::LeaderEnd => question(LeaderOffset::End),
            Stage::LeaderStart => question(LeaderOffset::Start),
            Stage::Fetching if log.is_open() && counted == log.end() => {
                Readiness::Fetch(FetchPosition {
                    leader_epoch: self.epoch,
                    offset: log.end(),
                    last_fetched_epoch: log.latest_epoch(),
                    log_start: log.start(),
                    high_watermark,
                })
            }
            Stage::Fetching | Stage::Lowering(_) | Stage::Truncating => Readiness::Soon,
        }
    }

    /// Returns whether what would be asked has changed since this was last called.
    pub(super) fn is_news(&mut self, readiness: Readiness) -> bool {
        let is_known = self.told.is_some_and(|told| told.asks_the_same(&readiness));
        self.told = Some(readiness);
        !is_known
    }

    /// Forgets what was told: it has to be asked once more, though nothing has changed.
    pub(super) const fn tell_again(&mut self) {
        self.told = None;
    }

    /// Returns where the log is about to be cut, while that has not begun.
    pub(super) const fn cut(&self) -> Option<Cut> {
        match self.stage {
            Stage::Lowering(cut) => Some(cut),
            Stage::Fetching | Stage::LeaderEnd | Stage::LeaderStart | Stage::Truncating => None,
        }
    }

    /// Ends a pause whose time is over.
    pub(super) fn end_pause(&mut self, now: Instant) {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
        }
    }

    pub(super) fn pause(&mut self, now: Instant, pause_ms: u64) {
        self.retry_at = Some(now.plus_millis(pause_ms));
    }

    /// Returns whether an answer is to the very position that this replica stands at.
    pub(super) fn is_current(&self, log: &Log, sent: &FetchPosition) -> bool {
        self.stage == Stage::Fetching
            && log.is_open()
            && sent.leader_epoch == self.epoch
            && sent.offset == log.end()
            && sent.last_fetched_epoch == log.latest_epoch()
    }

    /// Returns where to cut after a diverging answer; `None` where the answer makes no sense.
    pub(super) fn on_diverging(log: &Log, leader: EpochEnd, planted: PlantedSet) -> Option<Cut> {
        if leader.epoch.0 < 0 || leader.end_offset < 0 {
            return None;
        }
        let to = divergence::truncation_point(log, leader, planted);
        Some(Cut { to, fully: false })
    }
}
