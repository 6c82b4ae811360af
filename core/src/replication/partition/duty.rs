//! What a partition needs done.

use crate::{
    ids::{NodeId, Offset},
    replication::IsrProposal,
};

/// What a partition needs done that it cannot do itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionDuty {
    /// The log has to be opened: a follower fetches from its end.
    Open,
    /// This replica follows from now on: [`Partition::readiness`](super::Partition::readiness) says what to ask the leader.
    Follow {
        /// The leader.
        leader: NodeId,
    },
    /// This replica no longer follows.
    Unfollow,
    /// What [`Partition::readiness`](super::Partition::readiness) says has changed.
    Ask,
    /// The controller is to be asked to change the ISR; its answer goes to [`Partition::on_isr_answer`](super::Partition::on_isr_answer).
    ProposeIsr(IsrProposal),
    /// The recovery-point checkpoint and the synced mark must durably say no more than this offset, as
    /// [`Partition::recovery_point`](super::Partition::recovery_point) and
    /// [`Partition::synced_mark`](super::Partition::synced_mark) do from now on; then
    /// [`Partition::cut`](super::Partition::cut) is to be called. A later one takes the place of one that is not done yet.
    LowerRecoveryPoint(Offset),
    /// The log has begun anew: the log-start checkpoint must durably say what
    /// [`Partition::log_start_mark`](super::Partition::log_start_mark) says; then
    /// [`Partition::start_is_durable`](super::Partition::start_is_durable) is to be called. A later one takes the place of one
    /// that is not done yet.
    KeepLogStart,
    /// Followers may read more than before: their long polls are to be looked at.
    Serve,
}
