//! Appends of clients: when they are taken, and what may become of them.

use super::{Partition, PartitionState};
use crate::{
    batch::{Batch, TimestampType},
    ids::Offset,
    log::{AppendBatch, AppendError, LogContext},
    replication::{Accepted, AckToken, Acks, Effects},
};

/// Why an append is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendRefusal {
    /// This broker does not lead the partition.
    NotLeader,
    /// Too few replicas are in sync for acks=-1.
    NotEnoughReplicas,
    /// The log is offline.
    Offline,
    /// The log itself refuses.
    Log(AppendError),
}

/// Why an accepted append failed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendFailure {
    /// The bytes could not be written; nothing of them is left.
    NotWritten,
    /// No space was left to write them; nothing of them is left.
    NoSpace,
    /// The log went offline; whether the bytes are there is unknown.
    Offline,
    /// This broker no longer leads; whether the bytes stay is for the next leader to say.
    NotLeader,
    /// The topic was deleted.
    Deleted,
}

/// What the answer to an accepted append says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Offset of the batch's first record.
    pub base_offset: Offset,
    /// The time the broker stamped, -1 with CreateTime.
    pub log_append_time: i64,
    /// The log start at the time of the answer.
    pub log_start: Offset,
}

impl Partition {
    /// Checks whether a client's append may be taken now.
    ///
    /// # Errors
    /// Says why not.
    pub fn check_writable(&self, acks: Acks) -> Result<(), AppendRefusal> {
        if matches!(self.state, PartitionState::Offline(_)) {
            return Err(AppendRefusal::Offline);
        }
        let leadership = self.leadership().ok_or(AppendRefusal::NotLeader)?;
        if acks == Acks::All && !leadership.has_min_isr(self.settings.min_insync_replicas) {
            return Err(AppendRefusal::NotEnoughReplicas);
        }
        Ok(())
    }

    /// Appends a checked batch and parks its acknowledgement.
    ///
    /// # Errors
    /// Says why nothing was appended.
    pub fn append(
        &mut self,
        log: &mut LogContext<'_>,
        batch: Batch,
        acks: Acks,
        token: AckToken,
        effects: &mut Effects,
    ) -> Result<(), AppendRefusal> {
        self.check_writable(acks)?;
        let epoch = self.leader_epoch().ok_or(AppendRefusal::NotLeader)?;
        let header = batch.header();
        let log_append_time = match header.attributes().timestamp_type() {
            TimestampType::LogAppendTime => header.max_timestamp(),
            TimestampType::CreateTime => -1,
        };
        let (head, body) = (*batch.head(), batch.body().clone());
        let batch = AppendBatch { head, body };
        let appended = self
            .log
            .append(log, batch, epoch)
            .map_err(AppendRefusal::Log)?;
        let accepted = Accepted {
            base_offset: appended.base_offset,
            last_offset: appended.last_offset,
            log_append_time,
        };
        self.parked.park(acks, accepted, token);
        self.settle(log, effects);
        Ok(())
    }
}
