//! SnapshotLog: the metadata log and its snapshots have no hole between them, and neither says more than what is committed.

use std::collections::BTreeMap;

use super::{Checker, Seen, Verdict, metadata_log::FOLDER};
use crate::{ghost::Ghost, ghost::marks_from, node::QuorumProbe};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct SnapshotLog {
    /// The log start, the snapshot's end and the epoch looked at last.
    looked: BTreeMap<usize, (i64, Option<i64>, i32)>,
}

impl Checker for SnapshotLog {
    fn name(&self) -> &'static str {
        "SnapshotLog"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        let Seen::Probe { node, probe, disk } = seen else {
            return;
        };
        let QuorumProbe {
            log_start,
            log_end,
            snapshot,
            epoch,
            ..
        } = probe.quorum;
        let now = (log_start, snapshot, epoch.0);
        // An incarnation that has read nothing yet shows nothing.
        if log_end == 0 || ghost.is_beyond(*node) || self.looked.insert(*node, now) == Some(now) {
            return;
        }
        let held = snapshot.unwrap_or_default();
        if log_start > held {
            verdict.fail(
                "a snapshot holds what the metadata log no longer does",
                format!("node {node}: the log starts at {log_start}, the snapshot ends at {held}"),
            );
            return;
        }
        if held > probe.committed_metadata.max(log_start) && log_start < held {
            verdict.fail(
                "a snapshot of the metadata holds only what is committed",
                format!(
                    "node {node}: it ends at {held}, committed up to {}",
                    probe.committed_metadata
                ),
            );
        }
        let marks = marks_from(disk, FOLDER, log_start);
        let hole = marks
            .windows(2)
            .find(|pair| pair[0].last + 1 != pair[1].base);
        if let Some(hole) = hole {
            verdict.fail(
                "the metadata log has no hole",
                format!("node {node}: {} follows {}", hole[1].base, hole[0].last),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::bench::{Bench, metadata};

    fn started_at(log_start: i64, snapshot: Option<i64>) -> Bench<SnapshotLog> {
        let mut bench = Bench::new(SnapshotLog::default(), true);
        metadata(&mut bench.disk, &[(0, 5, 1), (5, 9, 1)]);
        bench.committed_metadata = 9;
        bench.quorum(QuorumProbe {
            log_start,
            log_end: 9,
            flushed: 9,
            snapshot,
            ..QuorumProbe::default()
        });
        bench
    }

    #[test]
    fn log_that_starts_behind_its_snapshot_is_rejected() {
        assert!(started_at(5, None).rejects("starts at 5"));
        assert!(started_at(9, Some(5)).rejects("the snapshot ends at 5"));
        assert!(started_at(0, None).is_ok());
        assert!(started_at(5, Some(5)).is_ok());
        assert!(started_at(0, Some(9)).is_ok());
    }

    #[test]
    fn snapshot_of_what_is_not_committed_is_rejected() {
        assert!(started_at(0, Some(12)).rejects("it ends at 12"));
    }

    #[test]
    fn log_with_a_hole_is_rejected() {
        let mut bench = Bench::new(SnapshotLog::default(), true);
        metadata(&mut bench.disk, &[(0, 5, 1), (6, 9, 1)]);
        bench.quorum(QuorumProbe {
            log_end: 9,
            ..QuorumProbe::default()
        });
        assert!(bench.rejects("6 follows 4"));
    }
}
