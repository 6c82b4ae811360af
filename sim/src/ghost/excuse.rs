//! Why something that was acknowledged may be missing.

use seedlog_core::ids::Epoch;

use super::{Ghost, Write};
use crate::{
    history::{Acks, Place},
    time::SimTime,
};

/// Why something that was acknowledged may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excuse {
    /// It was not synced when its machine lost power, and nothing more was promised.
    Unsynced,
    /// Its bytes went bad at rest, and the broker says so.
    Damaged,
    /// It was cut with bytes that went bad at rest, and the disk said of none of them that they were synced.
    PastMark,
    /// The disk lied or was replaced: no promise holds.
    Beyond,
    /// Retention or DeleteRecords removed it.
    Trimmed,
    /// Only a leader had it that lost its leadership before it was committed, and nobody waited for more.
    Failover,
    /// A leader was elected that misses records, as the topic's configuration allows.
    Unclean,
}

impl Ghost {
    /// Returns why the record at an offset may be missing though it was acknowledged at `acked`.
    #[must_use]
    pub fn excuse(&self, place: Place, offset: i64, acked: SimTime) -> Option<Excuse> {
        let known = &self.known[place.0];
        if self.beyond.len() >= known.promise.min_isr {
            return Some(Excuse::Beyond);
        }
        if offset < known.start {
            return Some(Excuse::Trimmed);
        }
        if known.damaged.len() >= known.promise.min_isr && self.is_offline(place) {
            return Some(Excuse::Damaged);
        }
        let mut past_mark = known.past_mark.iter();
        if past_mark.any(|(at, from)| acked <= *at && *from <= offset) {
            return Some(Excuse::PastMark);
        }
        let mut lost = known.losses.since(acked);
        let loss = lost.find(|loss| loss.from <= offset && offset < loss.to)?;
        Some(if loss.unclean {
            Excuse::Unclean
        } else {
            Excuse::Unsynced
        })
    }

    /// Returns why the record at an offset may be missing though its leader, and nobody else, acknowledged it in an epoch.
    #[must_use]
    pub fn excuse_of_leader(
        &self,
        place: Place,
        offset: i64,
        acked: SimTime,
        epoch: Option<Epoch>,
    ) -> Option<Excuse> {
        let excuse = self.excuse(place, offset, acked);
        let known = &self.known[place.0];
        let Some(epoch) = epoch.filter(|_| excuse.is_none() && known.promise.copies > 1) else {
            return excuse;
        };
        // What was committed in the end is safe, whoever acknowledged it.
        let mut covering = known.copies.covering(offset).into_iter();
        let is_committed = covering.any(|batch| batch.epoch == epoch.0);
        let is_deposed = known.copies.newest().is_some_and(|newest| newest > epoch);
        (is_deposed && !is_committed).then_some(Excuse::Failover)
    }

    /// Returns why a record that a write was acknowledged with may be missing.
    #[must_use]
    pub fn excuse_of(&self, write: &Write, offset: i64) -> Option<Excuse> {
        let (_, at) = write.acked?;
        if write.acks == Acks::Leader {
            self.excuse_of_leader(write.place, offset, at, write.acked_in)
        } else {
            self.excuse(write.place, offset, at)
        }
    }
}
