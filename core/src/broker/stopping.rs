//! The orderly stop: leaderships to others, then answers, then logs, then checkpoints, then the clean marker, each durable before the next.

use std::collections::BTreeSet;

use super::{Broker, Output, Stage};
use crate::{
    event::Event,
    logdir::{CheckpointKind, files},
    replication::{PartitionState, SlotId},
    time::Instant,
};

/// How long the controller may take to move leaderships to other brokers.
const HANDING_MS_MAX: u64 = 15_000;
/// How long requests that wait for storage may hold up a stop.
const ANSWERS_MS_MAX: u64 = 5_000;
/// How long logs may take to close: a disk that is full or failing must not hold up a stop for ever.
const CLOSING_MS_MAX: u64 = 10_000;

/// How far the stop is.
#[derive(Debug)]
pub(super) enum Stopping {
    /// The controller moves this broker's leaderships to others; requests are served as before.
    Handing {
        /// After this, what is still led here has no leader for a while.
        until: Instant,
    },
    /// Requests that were taken are answered.
    Answering {
        /// After this, what is still open is dropped.
        until: Instant,
    },
    /// Logs write their indexes and flush.
    Closing {
        /// Logs not closed yet.
        open: BTreeSet<SlotId>,
        /// Whether the metadata log is not closed yet.
        metadata: bool,
        /// After this, the stop goes on without them and vouches for nothing; `None` once it has come.
        until: Option<Instant>,
    },
    /// Checkpoints are written.
    Checkpointing {
        /// Files not durable yet.
        left: Vec<CheckpointKind>,
        /// Whether every log was closed.
        closed: bool,
    },
    /// The clean marker is written.
    Marking,
    /// All is done.
    Done,
}

impl Stopping {
    pub(super) const fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Handing { until } | Self::Answering { until } => Some(*until),
            Self::Closing { until, .. } => *until,
            Self::Checkpointing { .. } | Self::Marking | Self::Done => None,
        }
    }
}

/// Whether a log closes, now or when it is open.
const fn may_close(state: PartitionState) -> bool {
    matches!(state, PartitionState::Open | PartitionState::Opening)
}

impl Broker {
    /// Begins the stop. A broker that never got to serve has nothing to put in order.
    pub(super) fn stop(&mut self) {
        match self.stage {
            Stage::Running | Stage::Registered => {}
            Stage::Stopping(_) => return,
            Stage::Reading(_) | Stage::Identifying | Stage::Joining | Stage::Failed => {
                self.stage = Stage::Failed;
                return self.outputs.push_back(Output::Stopped);
            }
        }
        let now = self.now;
        match &mut self.cluster {
            Some(cluster) if cluster.has_other_brokers() => {
                cluster.shut_down(now);
                let until = now.instant.plus_millis(HANDING_MS_MAX);
                self.stage = Stage::Stopping(Stopping::Handing { until });
            }
            _ => self.answer_last(),
        }
    }

    /// The controller has nothing left that would need this broker.
    pub(super) fn on_may_stop(&mut self) {
        if matches!(self.stage, Stage::Stopping(Stopping::Handing { .. })) {
            self.answer_last();
        }
    }

    fn answer_last(&mut self) {
        self.with_frontend(|frontend, services| frontend.release(services));
        let until = self.now.instant.plus_millis(ANSWERS_MS_MAX);
        self.stage = Stage::Stopping(Stopping::Answering { until });
    }

    /// Takes the next step of the stop if the present one is done.
    pub(super) fn step_stopping(&mut self) {
        let now = self.now.instant;
        let Stage::Stopping(stopping) = &self.stage else {
            return;
        };
        match stopping {
            Stopping::Handing { until } => {
                if *until <= now {
                    self.answer_last();
                }
            }
            Stopping::Answering { until } => {
                if self.frontend.executing() == 0 || *until <= now {
                    self.close_logs();
                }
            }
            Stopping::Closing {
                open,
                metadata,
                until,
            } => {
                // A log that went offline meanwhile never closes.
                let is_open = |slot: &SlotId| {
                    let partition = self.partitions.get(*slot);
                    partition.is_some_and(|partition| may_close(partition.state()))
                };
                let closed = !open.iter().any(is_open) && !metadata && self.partitions.is_flushed();
                if closed || until.is_none_or(|until| until <= now) {
                    self.write_last_checkpoints(closed);
                }
            }
            Stopping::Checkpointing { left, closed } => {
                if left.is_empty() {
                    let closed = *closed;
                    self.mark_clean(closed);
                }
            }
            Stopping::Marking | Stopping::Done => {}
        }
    }

    fn close_logs(&mut self) {
        let slots: Vec<SlotId> = self
            .partitions
            .iter()
            .filter(|(_, partition)| may_close(partition.state()))
            .map(|(slot, _)| slot)
            .collect();
        let open = slots.iter().copied().collect();
        let until = self.now.instant.plus_millis(CLOSING_MS_MAX);
        self.stage = Stage::Stopping(Stopping::Closing {
            open,
            metadata: true,
            until: Some(until),
        });
        // The last checkpoints are written once the logs are closed: no other may begin from now on.
        self.housekeeping = None;
        if let Some(cluster) = &mut self.cluster {
            cluster.close(self.now, &mut self.storage);
        }
        for slot in slots {
            let (partitions, mut context) = self.context();
            partitions.with(&mut context, slot, |partition, log, effects| {
                partition.close(log, effects);
            });
        }
        self.settle_partitions();
        self.settle_cluster();
        self.partitions.flush(&mut self.storage);
    }

    /// Closes a log that was still opening when the stop began: only a log that was closed can be vouched for.
    pub(super) fn on_opened_late(&mut self, slot: SlotId) {
        let Stage::Stopping(Stopping::Closing { .. }) = &self.stage else {
            return;
        };
        let (partitions, mut context) = self.context();
        partitions.with(&mut context, slot, |partition, log, effects| {
            partition.close(log, effects);
        });
    }

    pub(super) fn on_metadata_closed(&mut self) {
        if let Stage::Stopping(Stopping::Closing { metadata, .. }) = &mut self.stage {
            *metadata = false;
        }
    }

    pub(super) fn on_log_closed(&mut self, slot: SlotId) {
        if let Stage::Stopping(Stopping::Closing { open, .. }) = &mut self.stage {
            open.remove(&slot);
        }
    }

    fn write_last_checkpoints(&mut self, closed: bool) {
        let files = [
            (
                CheckpointKind::RecoveryPoint,
                self.recovery_point_checkpoint(),
            ),
            (CheckpointKind::LogStart, self.log_start_checkpoint()),
            (
                CheckpointKind::HighWatermark,
                self.high_watermark_checkpoint(),
            ),
        ];
        // An older replacement of the same file must not be the last one.
        if files
            .iter()
            .any(|(kind, _)| self.checkpoints.is_writing(*kind))
        {
            // Its completion takes the next step: a deadline that has passed would only be due again and again.
            if let Stage::Stopping(Stopping::Closing { until, .. }) = &mut self.stage
                && until.is_some_and(|until| until <= self.now.instant)
            {
                *until = None;
            }
            return;
        }
        let left = files.iter().map(|(kind, _)| *kind).collect();
        self.stage = Stage::Stopping(Stopping::Checkpointing { left, closed });
        for (kind, content) in files {
            self.checkpoints.write(&mut self.storage, kind, content);
        }
    }

    pub(super) fn on_stop_file_written(&mut self, written: CheckpointKind) {
        match &mut self.stage {
            Stage::Stopping(Stopping::Checkpointing { left, .. }) => {
                left.retain(|kind| *kind != written);
            }
            Stage::Stopping(Stopping::Marking) if written == CheckpointKind::CleanShutdown => {
                self.tell(Event::CleanShutdown { found: false });
                self.finish_stop();
            }
            _ => {}
        }
    }

    /// Vouches for every log, if every log can be vouched for.
    fn mark_clean(&mut self, closed: bool) {
        let vouched = closed
            && self
                .partitions
                .iter()
                .all(|(_, partition)| match partition.state() {
                    PartitionState::Open | PartitionState::Deleted => true,
                    // Never opened: as good as it was found.
                    PartitionState::Closed => partition.is_vouched(),
                    PartitionState::Opening | PartitionState::Offline(_) => false,
                });
        let epoch = self
            .cluster
            .as_ref()
            .and_then(|cluster| cluster.broker_epoch());
        let Some(epoch) = epoch.filter(|_| vouched) else {
            return self.finish_stop();
        };
        self.stage = Stage::Stopping(Stopping::Marking);
        let content = files::encode_clean_shutdown(epoch);
        self.checkpoints
            .write(&mut self.storage, CheckpointKind::CleanShutdown, content);
    }

    fn finish_stop(&mut self) {
        self.stage = Stage::Stopping(Stopping::Done);
        self.outputs.push_back(Output::Stopped);
    }
}
