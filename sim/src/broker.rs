//! Today's broker behind the byte-level trait.

use std::fmt;

use seedlog_core::{
    broker::{self, Broker, Input, Output},
    replication::{FlushRule, PartitionState},
    time::{Instant, Now},
};

use crate::node::{AssignmentProbe, Node, PartitionProbe, Probe, QuorumProbe, Release};

/// The release built from this source tree.
#[must_use]
pub fn today() -> Release {
    Release::new("today", |seat, identity, now| {
        Box::new(Today(Broker::new(seat.config.clone(), identity, now)))
    })
}

struct Today(Broker);

impl fmt::Debug for Today {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Today")
    }
}

impl Node for Today {
    fn handle(&mut self, now: Now, input: Input) {
        self.0.handle(now, input);
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.0.poll_output()
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }

    fn probe(&self, probe: &mut Probe) {
        let seen = self.0.probe();
        probe.committed_metadata = seen.quorum.committed;
        probe.quorum = quorum(&seen.quorum);
        probe.partitions.clear();
        probe.assigned.clear();
        for partition in seen.partitions {
            probe.assigned.push(AssignmentProbe {
                partition: partition.name.clone(),
                partition_epoch: partition.partition_epoch,
                epoch: partition.assigned_epoch,
                isr: partition.isr.clone(),
            });
            let offline = match partition.state {
                PartitionState::Open if partition.is_cutting => continue,
                PartitionState::Open => false,
                PartitionState::Offline(_) => true,
                PartitionState::Closed | PartitionState::Opening | PartitionState::Deleted => {
                    continue;
                }
            };
            probe.partitions.push(PartitionProbe {
                partition: partition.name,
                place: None,
                start: partition.start,
                end: partition.end,
                written: partition.written,
                flushed: partition.flushed,
                high_watermark: partition.high_watermark,
                leader_epoch: partition.leader_epoch.unwrap_or(partition.assigned_epoch),
                leads: partition.leader_epoch.is_some(),
                leader: partition.leader,
                partition_epoch: partition.partition_epoch,
                isr: partition.isr,
                epochs: partition.epochs,
                offline,
                durable: partition.rule == FlushRule::Durable,
            });
        }
    }

    fn state_hash(&self) -> u64 {
        self.0.state_hash()
    }
}

fn quorum(seen: &broker::QuorumProbe) -> QuorumProbe {
    QuorumProbe {
        epoch: seen.epoch,
        leader: seen.leader,
        voted_epoch: seen.voted_epoch,
        voted: seen.voted,
        snapshot: seen.snapshot,
        log_start: seen.log_start,
        log_end: seen.log_end,
        flushed: seen.flushed,
    }
}
