//! What partitions need done that they cannot do themselves.

use super::{Broker, Stage, stopping::Stopping};
use crate::{
    ids::{Offset, Uuid},
    logdir::CheckpointKind,
    replication::{Partition, PartitionDuty, SlotId, TopicIdPartition},
};

impl Broker {
    /// Does what partitions ask for; returns whether there was anything.
    pub(super) fn settle_duties(&mut self) -> bool {
        let mut busy = self.make_due_cuts();
        while let Some((slot, duty)) = self.partitions.poll_duty() {
            busy = true;
            let Some(partition) = self.partitions.get(slot).map(name_of) else {
                continue;
            };
            match duty {
                PartitionDuty::Open => self.opener.push(slot),
                PartitionDuty::Follow { leader } => self.fetchers.follow(slot, partition, leader),
                PartitionDuty::Unfollow => self.fetchers.unfollow(slot),
                PartitionDuty::Ask => self.fetchers.wake(slot),
                PartitionDuty::ProposeIsr(proposal) => {
                    self.isr_proposals.submit(slot, partition, proposal);
                }
                PartitionDuty::LowerRecoveryPoint(to) => self.lower_marks(slot, partition, to),
                PartitionDuty::KeepLogStart => self.new_starts.want(slot),
                PartitionDuty::Serve => {
                    self.with_frontend(|frontend, services| frontend.on_grown(services, slot));
                }
            }
        }
        busy
    }

    /// Begins to lower what the disk says of a log that is to be cut.
    fn lower_marks(&mut self, slot: SlotId, partition: TopicIdPartition, to: Offset) {
        let log = log_of(partition);
        self.cuts.want(slot, log);
        self.synced_marks.lower(log.0, log.1, to);
    }

    /// Cuts the logs of which the disk says no more than the cut leaves.
    fn make_due_cuts(&mut self) -> bool {
        for log in self.synced_marks.take_lowered() {
            self.cuts.mark_lowered(log);
        }
        // A log that closes is not cut any more; its next leader will say so again.
        if !self.may_cut() {
            return false;
        }
        let mut busy = false;
        while let Some(slot) = self.cuts.pop_due() {
            busy = true;
            let (partitions, mut context) = self.context();
            partitions.with(&mut context, slot, |partition, log, effects| {
                partition.cut(log, effects);
            });
        }
        busy
    }

    const fn may_cut(&self) -> bool {
        matches!(
            self.stage,
            Stage::Registered | Stage::Running | Stage::Stopping(Stopping::Handing { .. })
        )
    }

    /// Replaces the recovery-point checkpoint if a cut waits for it.
    pub(super) fn write_lowered_recovery_points(&mut self) {
        let is_wanted = self.may_cut()
            && self.cuts.wants_checkpoint(self.now.instant)
            && !self.checkpoints.is_writing(CheckpointKind::RecoveryPoint);
        if is_wanted {
            self.write_recovery_points();
        }
    }
}

const fn name_of(partition: &Partition) -> TopicIdPartition {
    TopicIdPartition {
        topic_id: partition.topic_id(),
        partition: partition.name().partition,
    }
}

const fn log_of(partition: TopicIdPartition) -> (Uuid, i32) {
    (partition.topic_id, partition.partition)
}
