//! What only a leader has: the image with all it has decided, and the decisions that are not committed yet.

use std::collections::VecDeque;

use super::work::WorkQueue;
use crate::{
    controller::{
        decide::RECORDS_PER_REQUEST_MAX,
        image::{Change, MetadataImage, ReplayError},
        records::Record,
        request::{ControllerOutput, ControllerReply, Ticket},
        sessions::Sessions,
    },
    ids::{Epoch, Offset},
    time::Instant,
};

/// The state of a leadership.
#[derive(Debug)]
pub(super) struct Leading {
    pub(super) epoch: Epoch,
    pub(super) speculative: MetadataImage,
    /// The offset after the last record decided on.
    pub(super) log_end: Offset,
    pub(super) sessions: Sessions,
    pub(super) work: WorkQueue,
    /// What this turn has decided and not handed out yet; the records before [`Self::log_end`].
    open: Vec<Record>,
    /// Batches that are not committed yet, in the order of their offsets.
    batches: VecDeque<(Offset, Vec<Record>)>,
    /// The number of batches, from the front, that the quorum has appended.
    appended: usize,
    /// Replies with the offset that must be committed first: all records below it.
    parked: VecDeque<(Offset, Ticket, ControllerReply)>,
}

impl Leading {
    pub(super) fn begin(
        epoch: Epoch,
        speculative: MetadataImage,
        log_end: Offset,
        sessions_expire: Instant,
        work: WorkQueue,
    ) -> Self {
        Self {
            epoch,
            sessions: Sessions::begin(&speculative, sessions_expire),
            speculative,
            log_end,
            work,
            open: Vec::new(),
            batches: VecDeque::new(),
            appended: 0,
            parked: VecDeque::new(),
        }
    }

    /// Makes a decision's records come true in the speculative image; they are one atomic batch, with others of this turn.
    ///
    /// More than fit one batch are several: only what may come true in parts is ever that long.
    pub(super) fn append(
        &mut self,
        records: Vec<Record>,
        outputs: &mut VecDeque<ControllerOutput>,
    ) {
        for record in &records {
            let replayed = self.speculative.replay(record);
            assert!(
                replayed.is_ok(),
                "a decision fits the image it was taken on: {replayed:?}"
            );
        }
        if self.open.len().saturating_add(records.len()) > RECORDS_PER_REQUEST_MAX {
            self.hand_out(outputs);
        }
        let length = Offset::try_from(records.len()).unwrap_or(Offset::MAX);
        self.log_end = self.log_end.saturating_add(length);
        self.open.extend(records);
        if self.open.len() > RECORDS_PER_REQUEST_MAX {
            self.hand_out(outputs);
        }
    }

    /// Hands out what this turn has decided.
    pub(super) fn hand_out(&mut self, outputs: &mut VecDeque<ControllerOutput>) {
        let records = std::mem::take(&mut self.open);
        let length = Offset::try_from(records.len()).unwrap_or(Offset::MAX);
        let mut base_offset = self.log_end.saturating_sub(length);
        for batch in records.chunks(RECORDS_PER_REQUEST_MAX) {
            self.batches.push_back((base_offset, batch.to_vec()));
            outputs.push_back(ControllerOutput::Append {
                epoch: self.epoch,
                base_offset,
                records: batch.to_vec(),
            });
            let length = Offset::try_from(batch.len()).unwrap_or(Offset::MAX);
            base_offset = base_offset.saturating_add(length);
        }
    }

    /// Keeps a reply until all that has been decided so far is committed.
    pub(super) fn park(&mut self, ticket: Ticket, reply: ControllerReply) {
        self.parked.push_back((self.log_end, ticket, reply));
    }

    /// Notes that the quorum appended the oldest batch it had not appended yet.
    pub(super) fn on_appended(&mut self, base_offset: Offset) {
        if let Some((expected, _)) = self.batches.get(self.appended) {
            assert_eq!(
                *expected, base_offset,
                "the quorum appends each batch at its agreed offset"
            );
            self.appended += 1;
        }
    }

    /// Replays the batches below `end` into the committed image.
    pub(super) fn commit(
        &mut self,
        end: Offset,
        committed: &mut MetadataImage,
    ) -> Result<Vec<Change>, ReplayError> {
        let mut changes = Vec::new();
        while let Some((base_offset, records)) = self.batches.front() {
            let length = Offset::try_from(records.len()).unwrap_or(Offset::MAX);
            if base_offset.saturating_add(length) > end {
                break;
            }
            for record in records {
                changes.push(committed.replay(record)?);
            }
            self.batches.pop_front();
            self.appended = self.appended.saturating_sub(1);
        }
        Ok(changes)
    }

    /// Sends the replies that wait for nothing any more.
    pub(super) fn release(
        &mut self,
        committed_end: Offset,
        outputs: &mut VecDeque<ControllerOutput>,
    ) {
        // Without a batch in flight everything decided is committed, whatever control records stand around it.
        let is_settled = self.batches.is_empty() && self.open.is_empty();
        while let Some((needed, ..)) = self.parked.front() {
            if *needed > committed_end && !is_settled {
                return;
            }
            if let Some((_, ticket, reply)) = self.parked.pop_front() {
                outputs.push_back(ControllerOutput::Reply(ticket, reply));
            }
        }
    }

    /// Returns everybody who waits for a reply.
    pub(super) fn into_tickets(self) -> impl Iterator<Item = Ticket> {
        let parked = self.parked.into_iter().map(|(_, ticket, _)| ticket);
        parked.chain(self.work.into_tickets())
    }
}
