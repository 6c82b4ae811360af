//! Where two logs part: what a leader answers to a follower's claim, and where the follower then cuts (KIP-101, KIP-279).

use crate::{
    ids::{Epoch, Offset},
    log::Log,
    planted::{Planted, PlantedSet},
};

/// The largest epoch that a leader knows at or below the one asked for, and where it ends there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd {
    /// The epoch.
    pub epoch: Epoch,
    /// One past its last offset.
    pub end_offset: Offset,
}

/// What a leader's log says to a claim that everything below an offset is the leader's own, the last of it of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agreement {
    /// The claim may be true.
    Agrees,
    /// It is not; the common prefix ends here or before.
    Diverges(EpochEnd),
    /// The log does not reach back to that epoch.
    Unknown,
}

/// Compares a claim with a leader's log.
pub(super) fn compare(
    log: &Log,
    claimed: Epoch,
    fetch_offset: Offset,
    planted: PlantedSet,
) -> Agreement {
    let Some((epoch, end_offset)) = log.epoch_end(claimed) else {
        return Agreement::Unknown;
    };
    if fetch_offset == log.end() && planted.has(Planted::B14) {
        return Agreement::Agrees;
    }
    if epoch < claimed || end_offset < fetch_offset {
        return Agreement::Diverges(EpochEnd { epoch, end_offset });
    }
    Agreement::Agrees
}

/// Returns where a follower cuts its log after a leader's answer.
///
/// The leader's epoch may be one that the follower never had: what the follower holds above its own largest epoch below
/// that one is of other leaders then, wherever the leader's epoch ends. Both sides repeat until they agree.
pub(super) fn truncation_point(log: &Log, leader: EpochEnd, planted: PlantedSet) -> Offset {
    let end = log.end();
    let cut = match log.epoch_end(leader.epoch) {
        _ if planted.has(Planted::B15) => leader.end_offset,
        Some((epoch, own_end)) if epoch == leader.epoch => own_end.min(leader.end_offset),
        Some((_, own_end)) => own_end,
        None => leader.end_offset,
    };
    cut.min(end)
}
