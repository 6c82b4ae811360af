//! CommitDurable: what the high watermark covers, and what is acknowledged, is where its rule wants it at that moment.
//!
//! Under `durable` that is the disk, with the file's and the folder's entries; under `replicated` the page cache.

use std::collections::BTreeMap;

use super::{Cause, Checker, NodeChange, Seen, Verdict};
use crate::{
    disk::{BatchMark, Disk},
    ghost::{Ghost, Write, safe_end},
    history::{Acked, Acks, Note, Outcome, Place, WriteId},
    node::{PartitionProbe, Probe},
};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct CommitDurable {
    /// The high watermark looked at last.
    looked: BTreeMap<(usize, Place), i64>,
    /// The committed end of the metadata log looked at last.
    metadata: BTreeMap<usize, i64>,
    /// The copy of the metadata log on each node's disk.
    quorum: BTreeMap<usize, Replica>,
    /// The step of each node's disk when its present incarnation started.
    started: BTreeMap<usize, u64>,
}

/// A copy of the metadata log, as its disk was looked at last.
#[derive(Clone, Copy, Debug)]
struct Replica {
    /// Up to where the disk holds it.
    safe: i64,
    /// The end that the node knew to be durable then.
    flushed: i64,
    /// Where it began then.
    start: i64,
}

impl Replica {
    fn look(&mut self, disk: &Disk) {
        // What a snapshot took the place of is in the snapshot, which is durable before the log begins behind it.
        self.safe = safe_end(disk, METADATA_FOLDER, true).max(self.start);
    }
}

impl Checker for CommitDurable {
    fn name(&self) -> &'static str {
        "CommitDurable"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        match seen {
            Seen::Probe { node, probe, disk } if !ghost.is_beyond(*node) => {
                self.metadata(ghost, *node, probe, disk, verdict);
                for partition in &probe.partitions {
                    self.watermark(ghost, *node, partition, disk, verdict);
                }
            }
            Seen::Note {
                note:
                    Note::Answered {
                        write,
                        outcome: Outcome::Ok(acked),
                    },
                cause: Some(cause),
                ..
            } if !ghost.is_beyond(cause.node) => {
                // A recovery writes again what it keeps: since when the bytes were durable before it, the disk no longer tells.
                // For what left before it the high watermark has been looked at.
                let started = self.started.get(&cause.node).copied();
                let is_of_present = started.is_none_or(|started| cause.step >= started);
                if let Some(known) = ghost.write(*write).filter(|_| is_of_present) {
                    acknowledged(ghost, (*write, known), *acked, cause, verdict);
                }
            }
            Seen::Node { node, change, disk } => {
                // A process may end in the middle of a step, after a sync that it has told others of.
                if let Some(replica) = self.quorum.get_mut(node)
                    && change.ends_process()
                {
                    replica.look(disk);
                }
                match change {
                    NodeChange::Started => {
                        self.forget(*node);
                        self.started.insert(*node, disk.step());
                    }
                    NodeChange::LostPower { .. } => self.forget(*node),
                    NodeChange::Wiped => {
                        self.quorum.remove(node);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

impl CommitDurable {
    fn forget(&mut self, node: usize) {
        self.looked.retain(|(looked, _), _| *looked != node);
        self.metadata.remove(&node);
    }

    /// The metadata log is durable whatever the flush rule says, on a majority of the voters.
    fn metadata(
        &mut self,
        ghost: &Ghost,
        node: usize,
        probe: &Probe,
        disk: &Disk,
        verdict: &mut Verdict<'_>,
    ) {
        let committed = probe.committed_metadata;
        let has_moved = self.metadata.insert(node, committed) != Some(committed);
        let flushed = probe.quorum.flushed;
        let looked = self.quorum.get(&node).map(|replica| replica.flushed);
        if has_moved || looked != Some(flushed) {
            let mut replica = Replica {
                safe: 0,
                flushed,
                start: probe.quorum.log_start,
            };
            replica.look(disk);
            self.quorum.insert(node, replica);
        }
        let is_durable = |replica: &&Replica| replica.safe >= committed;
        let durable = self.quorum.values().filter(is_durable).count();
        if has_moved && committed > 0 && durable < ghost.majority() {
            let safe: Vec<(usize, i64)> = self
                .quorum
                .iter()
                .map(|(node, replica)| (*node, replica.safe))
                .collect();
            verdict.fail(
                "committed records of the metadata log are durable on a majority",
                format!("node {node}: committed up to {committed}, durable by node {safe:?}"),
            );
        }
    }

    fn watermark(
        &mut self,
        ghost: &Ghost,
        node: usize,
        probe: &PartitionProbe,
        disk: &Disk,
        verdict: &mut Verdict<'_>,
    ) {
        let Some(place) = ghost.places().place(&probe.partition) else {
            return;
        };
        // A follower takes over a watermark that need not rest on its own copy.
        let follows = ghost.promise(place).copies > 1 && !probe.leads;
        if probe.offline || follows || ghost.is_damaged(place) {
            return;
        }
        let looked = self.looked.insert((node, place), probe.high_watermark);
        if looked == Some(probe.high_watermark) {
            return;
        }
        let safe = safe_end(disk, &probe.partition.to_string(), probe.durable);
        if probe.high_watermark > safe.max(probe.start) {
            verdict.fail(
                format!(
                    "records below the high watermark are {}",
                    if probe.durable { "durable" } else { "written" }
                ),
                format!(
                    "node {node} {}: high watermark {} but only records below {safe} are",
                    probe.partition, probe.high_watermark
                ),
            );
        }
    }
}

const METADATA_FOLDER: &str = "__cluster_metadata-0";

fn acknowledged(
    ghost: &Ghost,
    (id, write): (WriteId, &Write),
    acked: Acked,
    cause: &Cause<'_>,
    verdict: &mut Verdict<'_>,
) {
    let place = write.place;
    if write.acks == Acks::None || ghost.is_damaged(place) || acked.base < ghost.start(place) {
        return;
    }
    let folder = ghost.places().partition(place).to_string();
    let found = find(cause.disk, &folder, acked.base);
    // A leader that was deposed may hold other records there by now.
    let is_other = |mark: &BatchMark| {
        write
            .acked_in
            .is_some_and(|epoch| mark.leader_epoch != epoch.0)
    };
    if ghost.promise(place).copies > 1 && found.as_ref().is_none_or(is_other) {
        return;
    }
    let durable = ghost.is_durable(place);
    let (since, wanted) = match found {
        Some(mark) if durable => (mark.durable, "durable"),
        Some(mark) => (Some(mark.written), "written"),
        None if durable => (None, "durable"),
        // It was written, and may have been lost since by a power loss.
        None => return,
    };
    if since.is_none_or(|since| since > cause.step) {
        verdict.fail(
            format!("the answer to write {} leaves after its records are {wanted}", id.0),
            format!(
                "offset {} of {folder}: answered at {} at step {} of the disk, {wanted} since step {since:?}",
                acked.base, cause.left, cause.step
            ),
        );
    }
}

fn find(disk: &Disk, folder: &str, offset: i64) -> Option<BatchMark> {
    let segments = disk.segments(folder);
    let mut marks = segments
        .iter()
        .rev()
        .flat_map(|segment| disk.batches(*segment));
    marks
        .find(|mark| mark.base <= offset && offset <= mark.last)
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::bench::{Bench, REPLICATED, log, metadata, sound},
        disk::Survival,
        node::QuorumProbe,
        random::Streams,
    };

    #[test]
    fn high_watermark_past_the_disk_is_rejected_under_durable_only() {
        for durable in [true, false] {
            let mut bench = Bench::new(CommitDurable::default(), durable);
            log(&mut bench.disk, &[(0, 10)]);
            let probe = PartitionProbe { durable, ..sound() };
            bench.probe(probe);
            assert_eq!(bench.is_ok(), !durable);
        }
    }

    #[test]
    fn high_watermark_past_what_is_written_is_rejected() {
        let mut bench = Bench::new(CommitDurable::default(), false);
        log(&mut bench.disk, &[(0, 9)]);
        bench.probe(PartitionProbe {
            durable: false,
            ..sound()
        });
        assert!(bench.rejects("only records below 9 are"));
    }

    #[test]
    fn high_watermark_on_the_disk_is_accepted() {
        let mut bench = Bench::new(CommitDurable::default(), true);
        log(&mut bench.disk, &[(0, 10)]);
        let mut stream = Streams::new(1).stream("loss");
        bench.disk.lose_power(Survival::Everything, &mut stream);
        bench.probe(sound());
        assert!(bench.is_ok());
    }

    #[test]
    fn committed_metadata_past_the_disk_is_rejected() {
        let mut bench = Bench::new(CommitDurable::default(), true);
        bench.committed_metadata = 1;
        bench.probe(sound());
        assert!(bench.rejects("committed up to 1, durable by node [(0, 0)]"));
    }

    #[test]
    fn sync_counts_of_a_node_that_ends_in_the_step_in_which_it_told_of_it() {
        for is_synced in [false, true] {
            let mut bench = Bench::of(CommitDurable::default(), REPLICATED);
            metadata(&mut bench.disk, &[(0, 1, 0)]);
            bench.quorum(QuorumProbe::default());
            bench.on(1);
            bench.quorum(QuorumProbe::default());
            if is_synced {
                metadata(&mut bench.disk, &[(0, 1, 0)]);
            }
            bench.node(NodeChange::Crashed);
            bench.on(0);
            bench.committed_metadata = 1;
            bench.quorum(QuorumProbe {
                flushed: 1,
                ..QuorumProbe::default()
            });
            assert_eq!(bench.is_ok(), is_synced);
        }
    }

    #[test]
    fn answer_before_the_sync_is_rejected() {
        let mut bench = Bench::new(CommitDurable::default(), true);
        bench.write(1, Acks::Leader, 1);
        log(&mut bench.disk, &[(0, 1)]);
        let early = bench.disk.step();
        bench.caused_ack(1, 0, Some(early));
        assert!(bench.rejects("answered at"));

        let mut bench = Bench::new(CommitDurable::default(), true);
        bench.write(1, Acks::Leader, 1);
        log(&mut bench.disk, &[(0, 1)]);
        let mut stream = Streams::new(1).stream("loss");
        bench.disk.lose_power(Survival::Everything, &mut stream);
        bench.caused_ack(1, 0, Some(bench.disk.step()));
        assert!(bench.is_ok());
        bench.write(2, Acks::Leader, 1);
        bench.caused_ack(2, 0, Some(early));
        assert!(
            bench.rejects("write 2") || !bench.is_ok(),
            "luck is no promise kept"
        );
    }
}
