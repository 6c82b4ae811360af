//! Who may fetch what: leader epochs (KIP-320), divergence (KIP-595), and how far each kind of reader sees.

use super::{
    EpochEnd, Partition, PartitionState,
    divergence::{self, Agreement},
};
use crate::{
    ids::{Epoch, NodeId, Offset},
    planted::{Planted, PlantedSet},
    protocol::ErrorCode,
};

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A consumer.
    Consumer {
        /// Whether only the leader may serve it: its version of Fetch knows no other (before 11, KIP-392).
        leader_only: bool,
    },
    /// A follower.
    Follower(NodeId),
}

/// What a Fetch says of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchClaim {
    /// Who asks.
    pub reader: Reader,
    /// The leader epoch that the reader knows, if it says so.
    pub current_leader_epoch: Option<Epoch>,
    /// Where it wants to read from.
    pub fetch_offset: Offset,
    /// The epoch of the record before that, if it says so.
    pub last_fetched_epoch: Option<Epoch>,
}

/// A fetch that may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchGrant {
    /// Records below this offset may be read.
    Read {
        /// The limit.
        limit: Offset,
    },
    /// The reader's log is not a prefix of this one: it has to cut before it reads.
    Diverging(EpochEnd),
}

/// A fetch, or another question about a partition, that may not be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchRefusal {
    /// NOT_LEADER_OR_FOLLOWER.
    #[error("this broker does not serve the partition to this reader")]
    NotLeader,
    /// FENCED_LEADER_EPOCH.
    #[error("the leader epoch of the request is older than this broker's")]
    FencedLeaderEpoch,
    /// UNKNOWN_LEADER_EPOCH.
    #[error("the leader epoch of the request is newer than this broker's")]
    UnknownLeaderEpoch,
    /// OFFSET_OUT_OF_RANGE.
    #[error("the offset is not in the log")]
    OutOfRange,
    /// OFFSET_NOT_AVAILABLE.
    #[error("the offset is not known here yet")]
    NotAvailable,
    /// The log is being opened or truncated; the request may wait or be tried again.
    #[error("the log is not open yet")]
    NotOpen,
    /// KAFKA_STORAGE_ERROR.
    #[error("the log is offline")]
    Offline,
}

impl From<FetchRefusal> for ErrorCode {
    fn from(refusal: FetchRefusal) -> Self {
        match refusal {
            FetchRefusal::NotLeader | FetchRefusal::NotOpen => Self::NotLeaderOrFollower,
            FetchRefusal::FencedLeaderEpoch => Self::FencedLeaderEpoch,
            FetchRefusal::UnknownLeaderEpoch => Self::UnknownLeaderEpoch,
            FetchRefusal::OutOfRange => Self::OffsetOutOfRange,
            FetchRefusal::NotAvailable => Self::OffsetNotAvailable,
            FetchRefusal::Offline => Self::KafkaStorageError,
        }
    }
}

impl Partition {
    /// Decides on a fetch. A follower's is to be noted with `note_fetch` once it was granted as a read.
    ///
    /// # Errors
    /// Says why nothing may be read.
    pub fn check_fetch(
        &self,
        claim: &FetchClaim,
        planted: PlantedSet,
    ) -> Result<FetchGrant, FetchRefusal> {
        let leader_only = match claim.reader {
            Reader::Consumer { leader_only } => leader_only,
            Reader::Follower(_) => true,
        };
        self.check_epoch(claim.current_leader_epoch, leader_only)?;
        if let Reader::Follower(node) = claim.reader
            && (node == self.assignment().local || !self.is_replica(node))
        {
            // With an equal epoch the follower may be one that a reassignment adds: it has seen newer metadata than we have.
            return Err(match claim.current_leader_epoch {
                Some(_) => FetchRefusal::UnknownLeaderEpoch,
                None => FetchRefusal::NotLeader,
            });
        }
        if let Some(claimed) = claim.last_fetched_epoch {
            match divergence::compare(self.log(), claimed, claim.fetch_offset, planted) {
                Agreement::Unknown => return Err(FetchRefusal::OutOfRange),
                _ if claim.fetch_offset < self.log().start() => {
                    return Err(FetchRefusal::OutOfRange);
                }
                Agreement::Diverges(end) => return Ok(FetchGrant::Diverging(end)),
                Agreement::Agrees => {}
            }
        }
        if claim.fetch_offset < self.log().start() {
            return Err(FetchRefusal::OutOfRange);
        }
        if claim.fetch_offset > self.log().end() {
            // A follower cannot know whether the leader has committed that offset already.
            return Err(
                if self.leadership().is_some() || planted.has(Planted::B80) {
                    FetchRefusal::OutOfRange
                } else {
                    FetchRefusal::NotAvailable
                },
            );
        }
        let limit = match claim.reader {
            Reader::Follower(_) => self.log().written_end(),
            Reader::Consumer { .. } if planted.has(Planted::B09) => self.log().written_end(),
            Reader::Consumer { .. } => self.high_watermark(),
        };
        Ok(FetchGrant::Read { limit })
    }

    /// Compares the leader epoch that somebody knows with this replica's (KIP-320).
    ///
    /// # Errors
    /// Says which side is behind, or that this replica does not serve.
    pub fn check_epoch(&self, known: Option<Epoch>, leader_only: bool) -> Result<(), FetchRefusal> {
        match self.state() {
            PartitionState::Offline(_) => return Err(FetchRefusal::Offline),
            PartitionState::Deleted => return Err(FetchRefusal::NotLeader),
            PartitionState::Closed | PartitionState::Opening | PartitionState::Open => {}
        }
        let current = self.assignment().epoch;
        match known {
            Some(known) if known < current => return Err(FetchRefusal::FencedLeaderEpoch),
            Some(known) if known > current => return Err(FetchRefusal::UnknownLeaderEpoch),
            Some(_) | None => {}
        }
        if leader_only && self.assignment().leader != Some(self.assignment().local) {
            return Err(FetchRefusal::NotLeader);
        }
        // Between metadata and the end of a truncation the log is not what the epoch says.
        if !self.log().is_open() || (leader_only && self.leadership().is_none()) {
            return Err(FetchRefusal::NotOpen);
        }
        Ok(())
    }

    /// Answers OffsetForLeaderEpoch: the largest epoch at most `asked` that the leader knows, and its end; `None` where
    /// Kafka answers with undefined epoch and offset.
    ///
    /// # Errors
    /// Says why this broker cannot answer. Only the leader of exactly the asker's epoch may: another broker's log, or this
    /// one's at another time, is not what the asker will fetch.
    pub fn epoch_end(
        &self,
        known: Option<Epoch>,
        asked: Epoch,
        planted: PlantedSet,
    ) -> Result<Option<EpochEnd>, FetchRefusal> {
        let known = known.filter(|_| !planted.has(Planted::B17));
        self.check_epoch(known, true)?;
        let end = self.log().epoch_end(asked);
        Ok(end.map(|(epoch, end_offset)| EpochEnd { epoch, end_offset }))
    }

    /// Answers ListOffsets for the latest offset: a client sees the high watermark, a follower the log end.
    ///
    /// # Errors
    /// A new leader does not answer clients before its high watermark has reached the start of its epoch: what an earlier
    /// leader has shown would seem to be gone (KIP-207).
    pub fn latest_offset(
        &self,
        known: Option<Epoch>,
        for_client: bool,
        planted: PlantedSet,
    ) -> Result<Offset, FetchRefusal> {
        self.check_epoch(known, true)?;
        if !for_client {
            return Ok(self.log().written_end());
        }
        let lags = self
            .leadership()
            .is_some_and(|leadership| leadership.epoch_start() > self.high_watermark());
        if lags && !planted.has(Planted::B10) {
            return Err(FetchRefusal::NotAvailable);
        }
        Ok(self.high_watermark())
    }
}
