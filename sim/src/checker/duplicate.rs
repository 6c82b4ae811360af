//! duplicate: without idempotence a value occurs at most as often as it was sent.

use std::collections::BTreeMap;

use super::{Checker, Seen, Verdict};
use crate::ghost::Ghost;

/// See the module.
#[derive(Debug)]
pub(super) struct Duplicate;

impl Checker for Duplicate {
    fn name(&self) -> &'static str {
        "duplicate"
    }

    fn see(&mut self, _ghost: &Ghost, _seen: &Seen<'_>, _verdict: &mut Verdict<'_>) {}

    fn judge(&mut self, ghost: &Ghost, verdict: &mut Verdict<'_>) {
        let mut copies = BTreeMap::new();
        for place in ghost.places().all() {
            for record in ghost.drained(place).values() {
                if let Some(value) = record.value {
                    copies
                        .entry(value)
                        .or_insert_with(Vec::new)
                        .push((place, record.offset));
                }
            }
        }
        for (value, found) in copies {
            let Some((id, write)) = ghost.writer_of(value) else {
                verdict.fail(
                    "only what was written is read",
                    format!("{value} at {found:?}, which no producer wrote"),
                );
                continue;
            };
            if found.iter().any(|(place, _)| *place != write.place) {
                verdict.fail(
                    format!(
                        "{value} was written to {}",
                        ghost.places().partition(write.place)
                    ),
                    format!("it is found at {found:?}"),
                );
            }
            let sent = write.transmissions as usize;
            if found.len() > sent {
                verdict.fail(
                    format!(
                        "write {} was sent {sent} times and is stored at most as often",
                        id.0
                    ),
                    format!("{value} is found {} times: {found:?}", found.len()),
                );
            } else if found.len() > 1 {
                verdict.allow("duplicate by a producer's retry");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::bench::Bench,
        history::{Acks, Note, WriteId},
    };

    #[test]
    fn more_copies_than_transmissions_are_rejected() {
        let mut bench = Bench::new(Duplicate, true);
        bench.write(1, Acks::All, 1);
        bench.drain(&[1, 1]);
        assert!(bench.rejects("found 2 times"));
    }

    #[test]
    fn copy_by_a_retry_is_allowed() {
        let mut bench = Bench::new(Duplicate, true);
        bench.write(1, Acks::All, 1);
        bench.note(Note::Transmitted { write: WriteId(1) });
        bench.drain(&[1, 1]);
        assert!(bench.is_ok());
        assert_eq!(bench.allowed(), 1);
    }

    #[test]
    fn value_that_nobody_wrote_is_rejected() {
        let mut bench = Bench::new(Duplicate, true);
        bench.drain(&[77]);
        assert!(bench.rejects("no producer wrote"));
    }
}
