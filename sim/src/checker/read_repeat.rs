//! ReadRepeat: a record read once is read again with the same timestamp and leader epoch, from whichever copy.

use std::collections::BTreeMap;

use super::{Checker, Seen, Verdict};
use crate::{
    batch::SeenRecord,
    ghost::Ghost,
    history::{Note, Place},
    time::SimTime,
};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ReadRepeat {
    read: BTreeMap<(Place, i64), (SeenRecord, SimTime)>,
}

impl Checker for ReadRepeat {
    fn name(&self) -> &'static str {
        "ReadRepeat"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        let Seen::Note {
            client,
            note: Note::Polled { place, records, .. },
            cause,
        } = seen
        else {
            return;
        };
        if ghost.promise(*place).copies == 1 || ghost.is_damaged(*place) {
            return;
        }
        let left = cause.map_or(verdict.at(), |cause| cause.left);
        for record in records {
            let now = (*record, left);
            let Some((before, since)) = self.read.insert((*place, record.offset), now) else {
                continue;
            };
            if before == *record {
                continue;
            }
            if ghost.excuse(*place, record.offset, since).is_some() {
                verdict.allow("record read anew after an allowed loss");
                continue;
            }
            verdict.fail(
                format!(
                    "offset {} of {} is read as it was read at {since}: {before:?}",
                    record.offset,
                    ghost.places().partition(*place)
                ),
                format!("client {client}: {record:?}"),
            );
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::bench::{Bench, REPLICATED, records};

    fn polled(records: Vec<SeenRecord>) -> Note {
        Note::Polled {
            place: Place(0),
            from: 0,
            records,
            high_watermark: 10,
            log_start: 0,
            asked: 0,
        }
    }

    #[test]
    fn record_of_another_epoch_or_time_is_rejected() {
        for (epoch, timestamp) in [(1, 0), (0, 7)] {
            let mut bench = Bench::of(ReadRepeat::default(), REPLICATED);
            bench.note(polled(records(0, &[1, 2])));
            bench.note(polled(records(1, &[2])));
            assert!(bench.is_ok());
            let mut changed = records(0, &[1]);
            changed[0].leader_epoch = epoch;
            changed[0].timestamp = timestamp;
            bench.note(polled(changed));
            assert!(bench.rejects("client 0"));
        }
    }
}
