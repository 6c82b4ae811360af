//! The records of a fetch answer: what a follower takes of them, and what it refuses.

use bytes::Bytes;

use crate::{
    batch::{BatchIter, BatchView},
    ids::{Epoch, Offset},
    log::AppendBatch,
};

/// Why a follower does not take what its leader sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadFault {
    /// The bytes are no whole batch, or its checksum does not fit.
    #[error("the bytes at offset {at} are no valid batch")]
    Invalid {
        /// Where the batch should have been.
        at: Offset,
    },
    /// A batch does not continue the log.
    #[error("a batch at offset {found} does not continue the log at {expected}")]
    Unordered {
        /// The log end.
        expected: Offset,
        /// The batch's base offset.
        found: Offset,
    },
    /// A batch is of an epoch that cannot stand here.
    #[error("a batch of epoch {found} cannot stand at offset {at}")]
    Epoch {
        /// The batch's base offset.
        at: Offset,
        /// Its epoch.
        found: Epoch,
    },
}

/// What the batches of an answer have to continue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    /// The follower's log end.
    pub(super) end: Offset,
    /// Whether the follower's log is empty: the first batch may then begin before its start.
    pub(super) is_empty: bool,
    /// The epoch of the follower's last record.
    pub(super) latest: Option<Epoch>,
    /// The epoch of the leader that answers.
    pub(super) leader_epoch: Epoch,
    /// Whether offsets may have gaps, as compaction leaves them.
    pub(super) compact: bool,
}

/// Batches that continue the log, up to the first fault.
#[derive(Debug, Default)]
pub(super) struct Payload {
    pub(super) batches: Vec<AppendBatch>,
    /// Where the log has to begin anew: its start lies within the first batch.
    pub(super) restart_at: Option<Offset>,
    pub(super) fault: Option<PayloadFault>,
}

/// Checks every batch before any is appended: sizes, checksum, order of offsets and epochs.
pub(super) fn check(records: &Bytes, expected: &Expected) -> Payload {
    let mut payload = Payload::default();
    let (mut next, mut latest) = (expected.end, expected.latest);
    for view in BatchIter::new(records, 0).with_crc() {
        let view = match view {
            Ok(view) => view,
            // The end of an answer of limited size; what was cut off comes again.
            Err(fault) if fault.kind.is_incomplete() && !payload.batches.is_empty() => break,
            Err(_) => {
                payload.fault = Some(PayloadFault::Invalid { at: next });
                break;
            }
        };
        match place(&view, next, latest, expected, payload.batches.is_empty()) {
            Ok(Place { after, restart }) => {
                let batch = range(&view).and_then(|(from, to)| {
                    let bytes = records.get(from..to)?;
                    AppendBatch::split(&records.slice_ref(bytes))
                });
                let Some(batch) = batch else {
                    payload.fault = Some(PayloadFault::Invalid { at: next });
                    break;
                };
                payload.restart_at = payload.restart_at.or(restart);
                payload.batches.push(batch);
                next = after;
                latest = Some(view.header().partition_leader_epoch());
            }
            Err(fault) => {
                payload.fault = Some(fault);
                break;
            }
        }
    }
    payload
}

struct Place {
    after: Offset,
    restart: Option<Offset>,
}

fn place(
    view: &BatchView<'_>,
    next: Offset,
    latest: Option<Epoch>,
    expected: &Expected,
    is_first: bool,
) -> Result<Place, PayloadFault> {
    let header = view.header();
    let base = header.base_offset();
    let invalid = PayloadFault::Invalid { at: next };
    let after = header.next_offset().ok_or(invalid)?;
    if base < 0 || after <= base {
        return Err(invalid);
    }
    let holds_start = is_first && expected.is_empty && base < next && next < after;
    if base != next && !(expected.compact && base > next) && !holds_start {
        return Err(PayloadFault::Unordered {
            expected: next,
            found: base,
        });
    }
    let epoch = header.partition_leader_epoch();
    if epoch.0 < 0 || epoch > expected.leader_epoch || latest.is_some_and(|latest| epoch < latest) {
        return Err(PayloadFault::Epoch {
            at: base,
            found: epoch,
        });
    }
    Ok(Place {
        after,
        restart: holds_start.then_some(base),
    })
}

fn range(view: &BatchView<'_>) -> Option<(usize, usize)> {
    let from = usize::try_from(view.position()).ok()?;
    let to = usize::try_from(view.end_position()).ok()?;
    Some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Batch, BatchBuilder, Compression, CompressionType, NewRecord};

    fn batch(base: Offset, epoch: i32, records: i64) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Compression::of(CompressionType::None));
        for at in 0..records {
            builder
                .append(&NewRecord {
                    timestamp: 1_000 + at,
                    key: None,
                    value: Some(b"value"),
                    headers: &[],
                })
                .unwrap();
        }
        let mut batch = Batch::split(&builder.build().unwrap()).unwrap();
        assert!(batch.assign(base, Epoch(epoch)));
        batch.to_bytes().to_vec()
    }

    fn expected(end: Offset) -> Expected {
        Expected {
            end,
            is_empty: false,
            latest: Some(Epoch(2)),
            leader_epoch: Epoch(4),
            compact: false,
        }
    }

    #[test]
    fn batches_that_continue_the_log_are_taken_and_a_cut_off_one_waits() {
        let mut bytes = batch(10, 2, 2);
        bytes.extend(batch(12, 4, 1));
        let third = batch(13, 4, 1);
        bytes.extend(&third[..third.len() - 1]);
        let payload = check(&bytes.into(), &expected(10));
        assert_eq!(payload.batches.len(), 2);
        assert_eq!(payload.fault, None);
    }

    #[test]
    fn damaged_byte_a_gap_and_a_wrong_epoch_are_refused() {
        let mut damaged = batch(10, 2, 2);
        *damaged.last_mut().unwrap() ^= 1;
        let fault = |bytes: Vec<u8>| check(&bytes.into(), &expected(10)).fault;
        assert_eq!(fault(damaged), Some(PayloadFault::Invalid { at: 10 }));
        assert_eq!(
            fault(batch(11, 2, 1)),
            Some(PayloadFault::Unordered {
                expected: 10,
                found: 11
            })
        );
        let of = |found| {
            Some(PayloadFault::Epoch {
                at: 10,
                found: Epoch(found),
            })
        };
        assert_eq!(fault(batch(10, 1, 1)), of(1), "older than our last record");
        assert_eq!(fault(batch(10, 5, 1)), of(5), "newer than the leader");
        assert_eq!(
            fault(batch(10, 2, 2)[..40].to_vec()),
            Some(PayloadFault::Invalid { at: 10 })
        );
    }

    #[test]
    fn empty_log_that_begins_within_a_batch_begins_anew_with_it() {
        let mut expected = expected(11);
        let bytes: Bytes = batch(10, 2, 3).into();
        assert!(check(&bytes, &expected).fault.is_some());
        expected.is_empty = true;
        expected.latest = None;
        let payload = check(&bytes, &expected);
        assert_eq!(payload.restart_at, Some(10));
        assert_eq!(payload.batches.len(), 1);
    }

    #[test]
    fn compacted_topic_may_have_gaps_between_batches() {
        let mut expected = expected(10);
        expected.compact = true;
        let payload = check(&batch(15, 3, 1).into(), &expected);
        assert_eq!((payload.batches.len(), payload.fault), (1, None));
    }
}
