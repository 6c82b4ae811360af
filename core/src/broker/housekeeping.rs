//! Work that comes back at intervals: retention, checkpoints.

use crate::{config::BrokerSettings, time::Instant};

/// A kind of recurring work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chore {
    /// Delete what retention no longer covers (`log.retention.check.interval.ms`).
    Retention,
    /// Write synced marks (`log.flush.offset.checkpoint.interval.ms`).
    RecoveryPoints,
    /// Write high watermarks (`replica.high.watermark.checkpoint.interval.ms`).
    HighWatermarks,
}

const CHORES: [Chore; 3] = [
    Chore::Retention,
    Chore::RecoveryPoints,
    Chore::HighWatermarks,
];

/// When each chore is next due.
#[derive(Debug)]
pub(super) struct Housekeeping {
    due: [(Instant, u64); CHORES.len()],
}

impl Housekeeping {
    /// Starts all intervals now.
    pub(super) fn new(now: Instant, settings: &BrokerSettings) -> Self {
        let every = |millis: i64| {
            // An interval of 0 would be due for ever.
            let millis = u64::try_from(millis).unwrap_or(1).max(1);
            (now.plus_millis(millis), millis)
        };
        Self {
            due: [
                every(settings.log_retention_check_interval_ms),
                every(settings.log_flush_offset_checkpoint_interval_ms),
                every(settings.replica_high_watermark_checkpoint_interval_ms),
            ],
        }
    }

    /// Takes a chore that is due; its next time counts from now, so that a long pause does not bring a burst.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Chore> {
        let at = self.due.iter().position(|(due, _)| *due <= now)?;
        let (due, millis) = &mut self.due[at];
        *due = now.plus_millis(*millis);
        Some(CHORES[at])
    }

    /// Returns when the next chore is due.
    pub(super) fn deadline(&self) -> Instant {
        self.due
            .iter()
            .map(|(due, _)| *due)
            .min()
            .unwrap_or(Instant::NEVER)
    }
}
