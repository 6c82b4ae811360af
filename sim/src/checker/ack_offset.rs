//! AckOffset: an acknowledgement names the offset where the value is, and its other fields are true.

use super::{Checker, Seen, Verdict};
use crate::{
    ghost::Ghost,
    history::{Note, Outcome},
};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct AckOffset;

impl Checker for AckOffset {
    fn name(&self) -> &'static str {
        "AckOffset"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        let Seen::Note {
            note:
                Note::Answered {
                    write: id,
                    outcome: Outcome::Ok(acked),
                },
            ..
        } = seen
        else {
            return;
        };
        if acked.base < 0 {
            verdict.fail(
                "an acknowledgement names the offset of the first record",
                format!("write {}: offset {}", id.0, acked.base),
            );
        }
        if acked.log_start > acked.base || acked.log_start < -1 {
            verdict.fail(
                "the log start in an acknowledgement is at or below the record",
                format!(
                    "write {}: log start {} offset {}",
                    id.0, acked.log_start, acked.base
                ),
            );
        }
        if acked.append_time < -1 {
            verdict.fail(
                "the log-append time in an acknowledgement is a time, or -1",
                format!("write {}: {}", id.0, acked.append_time),
            );
        }
        let Some(write) = ghost.write(*id) else {
            verdict.fail(
                "only what was sent is acknowledged",
                format!("write {}", id.0),
            );
            return;
        };
        if write.transmissions == 0 {
            verdict.fail(
                "only what was sent is acknowledged",
                format!("write {}", id.0),
            );
        }
    }

    fn judge(&mut self, ghost: &Ghost, verdict: &mut Verdict<'_>) {
        for (id, write) in ghost.writes() {
            let Some((acked, _)) = write.acked else {
                continue;
            };
            for (offset, value) in (acked.base..).zip(write.values.iter()) {
                let found = ghost.drained(write.place).get(&offset);
                // A missing value is lost-write's; a stranger in its place is a wrong offset.
                let Some(there) = found.filter(|record| record.value != Some(value)) else {
                    continue;
                };
                if ghost.excuse_of(write, offset).is_none() {
                    verdict.fail(
                        format!(
                            "write {} was acknowledged with {value} at offset {offset}",
                            id.0
                        ),
                        format!("the drain finds {:?} there", there.value),
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checker::bench::Bench, history::Acks};

    #[test]
    fn default_offset_is_rejected() {
        let mut bench = Bench::new(AckOffset, true);
        bench.write(1, Acks::All, 1);
        bench.ack(1, -1);
        assert!(bench.rejects("offset -1"));
    }

    #[test]
    fn offset_of_another_value_is_rejected_by_the_drain() {
        let mut bench = Bench::new(AckOffset, true);
        bench.write(1, Acks::All, 1);
        bench.write(2, Acks::All, 1);
        bench.ack(1, 1);
        bench.ack(2, 0);
        bench.drain(&[1, 2]);
        assert!(bench.rejects("the drain finds"));
    }

    #[test]
    fn true_offsets_are_accepted() {
        let mut bench = Bench::new(AckOffset, true);
        bench.write(1, Acks::All, 2);
        bench.ack(1, 0);
        bench.drain(&[1, 2]);
        assert!(bench.is_ok());
    }
}
