//! Appending, committing, and the snapshots that follow from it.

use bytes::Bytes;

use crate::{ids::Offset, planted::Planted, storage::Completion, time::Timestamp};

use super::{
    Phase, Raft,
    config::RaftContext,
    control::ControlRecord,
    entry::{Content, Entry},
    event::{AppendError, RaftEvent},
    refusal::Refusal,
    role::Role,
    snapshot::{Snapshot, SnapshotId},
    snapshots::Requested,
};

impl Raft {
    /// Appends records as one batch, all or nothing; returns the offsets of the first and the last.
    /// [`RaftEvent::Committed`] says when they count.
    ///
    /// # Errors
    /// Nothing was appended, for the reason given.
    pub fn append(
        &mut self,
        cx: &mut RaftContext<'_>,
        records: Vec<Bytes>,
    ) -> Result<(Offset, Offset), AppendError> {
        if !self.is_leader() {
            return Err(self.not_leader());
        }
        if records.is_empty() {
            return Err(AppendError::Empty);
        }
        match self.append_content(cx, Content::Data(records)) {
            Ok(offsets) => Ok(offsets),
            Err(Refusal::Build(_)) => Err(AppendError::TooLarge),
            Err(refusal) => {
                self.fail(&refusal);
                Err(self.not_leader())
            }
        }
    }

    const fn not_leader(&self) -> AppendError {
        AppendError::NotLeader {
            epoch: self.epoch,
            leader: self.leader_id(),
        }
    }

    /// Appends one batch at the log's end.
    pub(super) fn append_content(
        &mut self,
        cx: &mut RaftContext<'_>,
        content: Content,
    ) -> Result<(Offset, Offset), Refusal> {
        // A wall clock before 1970 is a number that records cannot carry.
        let now = Timestamp::from_millis(cx.now.wall.as_millis().max(0));
        let (entry, batch) = Entry::build(self.log.end(), self.epoch, now, content)?;
        self.log
            .append(cx, &batch, self.epoch)
            .map_err(|error| Refusal::Append { error })?;
        let offsets = (entry.base_offset, entry.next_offset - 1);
        self.uncommitted.push_back(entry);
        // Entries appended in one turn share one sync: the first to be written would otherwise take it for itself.
        self.log.flush_together();
        Ok(offsets)
    }

    /// Counts this replica's own copy. Only what is synced counts: a copy in memory is gone with the power.
    pub(super) fn count_own_copy(&mut self, cx: &mut RaftContext<'_>) {
        if self.founding.is_some() {
            return;
        }
        let durable_end = if cx.planted.has(Planted::B33) {
            self.log.written_end()
        } else {
            self.log.flushed_end()
        };
        if let Role::Leader(leader) = &mut self.role {
            leader.on_durable(&self.voters, self.local.key, durable_end);
            self.commit_by_majority(cx);
        }
    }

    /// Moves the high watermark and says what is committed by that.
    pub(super) fn advance(&mut self, cx: &mut RaftContext<'_>, committed: Option<Offset>) {
        let Some(committed) = committed.filter(|end| *end > self.high_watermark) else {
            return;
        };
        assert!(
            committed <= self.log.end(),
            "the high watermark passes the log end"
        );
        let before = self.high_watermark;
        while let Some(entry) = self
            .uncommitted
            .pop_front_if(|entry| entry.next_offset <= committed)
        {
            // Entries are committed as a whole.
            self.high_watermark = entry.next_offset;
            self.commit(entry);
        }
        if self.high_watermark == before {
            return;
        }
        let has_begun = matches!(&self.role, Role::Leader(leader) if leader.has_begun);
        if has_begun && self.high_watermark >= self.announce_from && self.announced.is_none() {
            self.announce();
        }
        self.maybe_ask_for_snapshot(cx);
        self.wake_parked(cx);
    }

    /// Tells the host that it leads.
    pub(super) fn announce(&mut self) {
        self.announced = Some(self.epoch);
        self.events
            .push_back(RaftEvent::BecameLeader { epoch: self.epoch });
    }

    fn commit(&mut self, entry: Entry) {
        self.snapshots.committed(entry.bytes);
        self.last_committed = (entry.epoch, entry.timestamp);
        match entry.content {
            Content::Data(records) => {
                self.has_committed_data = true;
                self.events.push_back(RaftEvent::Committed {
                    base_offset: entry.base_offset,
                    epoch: entry.epoch,
                    records,
                });
            }
            Content::Control(records) => {
                for record in records {
                    if let ControlRecord::Voters(voters) = record {
                        self.committed_voters = Some(voters);
                    }
                }
            }
        }
    }

    /// Asks the host for a snapshot when enough was committed since the last.
    pub(super) fn maybe_ask_for_snapshot(&mut self, cx: &RaftContext<'_>) {
        let now = cx.now.instant;
        let Some(voters) = &self.committed_voters else {
            return;
        };
        if self.is_closing || self.is_busy() || !self.snapshots.is_due(&self.config, now) {
            return;
        }
        let (epoch, timestamp) = self.last_committed;
        let end_offset = self.high_watermark;
        let requested = Requested {
            id: SnapshotId { end_offset, epoch },
            timestamp,
            voters: voters.clone(),
        };
        self.snapshots.request(now, requested);
        self.events
            .push_back(RaftEvent::SnapshotNeeded { at: end_offset });
    }

    /// Takes the host's state as it was at the point of [`RaftEvent::SnapshotNeeded`]. Without such a point, or for another
    /// one, nothing happens.
    pub fn write_snapshot(&mut self, cx: &mut RaftContext<'_>, at: Offset, records: Vec<Bytes>) {
        if !matches!(self.phase, Phase::Running) {
            return;
        }
        let Some(asked) = self.snapshots.take_requested(at) else {
            return;
        };
        let snapshot = Snapshot {
            last_timestamp: asked.timestamp,
            voters: asked.voters.clone(),
            records,
        };
        let now = Timestamp::from_millis(cx.now.wall.as_millis().max(0));
        match snapshot.encode(asked.id, now) {
            Ok(content) => self.snapshots.write(cx.storage, &asked, content),
            Err(error) => self.fail(&Refusal::Build(error)),
        }
    }

    /// Takes a completion of the writing of a snapshot. The log start moves only once the snapshot is durable.
    pub(super) fn on_snapshot_written(
        &mut self,
        cx: &mut RaftContext<'_>,
        completion: Completion,
    ) -> Result<(), Refusal> {
        let path = self.snapshots.path().clone();
        let is_durable = self
            .snapshots
            .on_completion(cx.storage, completion)
            .map_err(|fault| Refusal::Storage { path, fault })?;
        if is_durable && !self.maybe_replace_log(cx) {
            self.clean(cx)?;
            self.maybe_ask_for_snapshot(cx);
        }
        Ok(())
    }

    /// Lets go of old snapshots and of the log before the oldest that stays.
    pub(super) fn clean(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        let now = (cx.now.instant, cx.now.wall);
        let log_bytes = self.log.size_bytes();
        if let Some(start) = self.snapshots.clean(&self.config, now, log_bytes) {
            assert!(
                start <= self.high_watermark,
                "a snapshot ends past the high watermark"
            );
            self.wanted_start = start;
        }
        self.maybe_move_start(cx)
    }

    /// Moves the log start where it should be, once what stays of the log is more than a name: the segment behind the start
    /// must be durable before those in front of it go, or a power loss could leave no segment and no offset to go on from.
    pub(super) fn maybe_move_start(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        let start = if cx.planted.has(Planted::B36) {
            self.high_watermark
        } else {
            self.wanted_start
        };
        let stays = self.log.flushed_end() > start || self.log.end() == start;
        if start > self.log.start() && stays && !self.is_busy() {
            self.log.move_start(cx, start);
            self.drain_log(cx)
        } else {
            Ok(())
        }
    }
}
