//! One partition of a Fetch.

use super::Key;
use crate::{
    ids::Epoch,
    protocol::{EpochEndOffset, ErrorCode, FetchPartition, FetchPartitionResponse},
    replication::{EpochEnd, FetchClaim, Partition, ReadPartition, Reader, SlotId},
    storage::Part,
};

/// What is wanted of a partition, and what the answer says of it so far.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) key: Key,
    pub(super) slot: Result<SlotId, ErrorCode>,
    pub(super) wanted: FetchPartition,
    pub(super) response: FetchPartitionResponse,
    pub(super) parts: Vec<Part>,
    pub(super) bytes: usize,
}

impl Place {
    pub(super) fn new(
        slot: Result<SlotId, ErrorCode>,
        key: Key,
        wanted: FetchPartition,
        is_read_committed: bool,
    ) -> Self {
        let mut place = Self {
            response: unread(&wanted),
            key,
            slot,
            wanted,
            parts: Vec::new(),
            bytes: 0,
        };
        match slot {
            Ok(_) if is_read_committed => place.response.aborted_transactions = Some(Vec::new()),
            Ok(_) => {}
            Err(code) => {
                place.response.error_code = code;
                place.response.aborted_transactions = Some(Vec::new());
            }
        }
        place
    }

    /// Returns what the request says of the partition.
    pub(super) fn claim(&self, reader: Reader) -> FetchClaim {
        let known = |epoch: i32| (epoch >= 0).then_some(Epoch(epoch));
        FetchClaim {
            reader,
            current_leader_epoch: known(self.wanted.current_leader_epoch),
            fetch_offset: self.wanted.fetch_offset,
            last_fetched_epoch: known(self.wanted.last_fetched_epoch),
        }
    }

    pub(super) fn set_positions(&mut self, partition: &Partition) {
        self.response.high_watermark = partition.high_watermark();
        self.response.last_stable_offset = partition.high_watermark();
        self.response.log_start_offset = partition.log().start();
    }

    /// Says where the reader's log is not a prefix of this one any more.
    pub(super) fn diverge(&mut self, partition: &Partition, end: EpochEnd) {
        self.set_positions(partition);
        self.response.diverging_epoch = EpochEndOffset {
            epoch: end.epoch.0,
            end_offset: end.end_offset,
        };
    }

    /// Says nothing but that it failed.
    pub(super) fn refuse(&mut self, code: ErrorCode) {
        self.response = unread(&self.wanted);
        self.response.error_code = code;
        self.parts = Vec::new();
        self.bytes = 0;
    }

    /// Returns what a session has to know of the answer.
    pub(super) fn read(&self) -> ReadPartition {
        let response = &self.response;
        ReadPartition {
            high_watermark: response.high_watermark,
            log_start: response.log_start_offset,
            has_records: self.bytes > 0,
            is_telling: response.error_code != ErrorCode::None
                || response.diverging_epoch != EpochEndOffset::default()
                || response.preferred_read_replica >= 0,
        }
    }
}

fn unread(wanted: &FetchPartition) -> FetchPartitionResponse {
    FetchPartitionResponse {
        partition_index: wanted.partition,
        ..FetchPartitionResponse::default()
    }
}
