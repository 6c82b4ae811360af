//! What becomes of processes and disks, and what is lost with them.

use std::collections::BTreeSet;

use super::{Ghost, LogView, safe_end, view};
use crate::{checker::NodeChange, disk::Disk, history::Place, marks, time::SimTime};

/// The file that says that a broker stopped in good order.
const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";

impl Ghost {
    pub(super) fn changed(
        &mut self,
        at: SimTime,
        node: usize,
        change: &NodeChange<'_>,
        disk: &Disk,
    ) {
        if change.ends_process() {
            for place in self.places.all() {
                let folder = self.places.partition(place).to_string();
                let known = &mut self.known[place.0];
                let safe = safe_end(disk, &folder, known.promise.durable);
                known.copies.end_process(at, node, safe);
            }
        }
        match change {
            NodeChange::LostPower { before, .. } => {
                self.lose(at, node, before, disk, false);
                self.taken.remove(&node);
            }
            NodeChange::LostDirty { before } => {
                let lost = self.lose(at, node, before, disk, true);
                self.taken.entry(node).or_default().extend(lost);
            }
            NodeChange::Damaged(done) => {
                let folder = done.path.split('/').next().unwrap_or_default();
                for place in self.places.all() {
                    let is_own = self.places.partition(place).to_string() == folder;
                    if is_own && done.path.ends_with(".log") {
                        self.known[place.0].damaged.insert(node);
                        self.known[place.0].unseen.insert(node);
                    }
                }
            }
            NodeChange::Wiped | NodeChange::Lied => {
                self.beyond.insert(node);
                for known in self
                    .known
                    .iter_mut()
                    .filter(|known| known.promise.copies > 1)
                {
                    known.lose(at, node, (0, i64::MAX), true);
                }
            }
            NodeChange::Started => {
                for place in self.places.all() {
                    let known = &mut self.known[place.0];
                    known.eligible.restart(node);
                    if known.unseen.contains(&node) {
                        let mark = marks::synced(disk, self.places.partition(place));
                        known.mark.insert(node, mark);
                    }
                }
            }
            // Until it hears of the failed sync a process writes on behind the hole that it left, and so does what it writes
            // go: the loss reaches to the end of that process.
            NodeChange::Crashed
            | NodeChange::Stopped
            | NodeChange::StopOverdue
            | NodeChange::GaveUp(_)
            | NodeChange::Panicked(_) => {
                for (place, from) in self.taken.remove(&node).unwrap_or_default() {
                    self.known[place.0].lose(at, node, (from, i64::MAX), false);
                }
            }
            NodeChange::Ready | NodeChange::StopAsked => {}
        }
        // Only the marker of a clean stop lets the next start say that nothing is lost.
        let may_be_unclean = change.ends_process() || matches!(change, NodeChange::Wiped);
        if may_be_unclean && disk.read_file(CLEAN_SHUTDOWN).is_none() {
            for known in &mut self.known {
                known.eligible.doubt(node);
            }
        }
    }

    /// Notes what is gone from a node's disk that was there before, and what may go on being lost; returns each place and its
    /// lowest lost offset.
    fn lose(
        &mut self,
        at: SimTime,
        node: usize,
        before: &LogView,
        disk: &Disk,
        goes_on: bool,
    ) -> Vec<(Place, i64)> {
        let after = view(&self.places, disk);
        let mut all = Vec::new();
        for (place, marks) in before {
            let left = after.get(place).map_or(&[][..], Vec::as_slice);
            let left: BTreeSet<u64> = left.iter().map(|mark| mark.digest).collect();
            let lost = marks.iter().find(|mark| !left.contains(&mark.digest));
            if let Some(lost) = lost {
                let known = &mut self.known[place.0];
                let is_only = known.promise.copies == 1;
                let end = marks.last().map_or(i64::MAX, |mark| mark.last + 1);
                let to = if goes_on || is_only { i64::MAX } else { end };
                known.lose(at, node, (lost.base, to), false);
                all.push((*place, lost.base));
            }
        }
        all
    }
}
