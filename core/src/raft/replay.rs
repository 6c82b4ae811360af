//! The second half of the start: the latest valid snapshot, and the log behind it.

use bytes::Bytes;

use crate::{
    batch::BatchIter,
    ids::Offset,
    storage::{ReadFile, ReadProgress, StorageFault},
    time::Timestamp,
};

use super::{
    Phase, Raft,
    config::RaftContext,
    control::ControlRecord,
    entry::{BATCH_BYTES_MAX, Content, Entry, EntryFault},
    messages::LogPosition,
    refusal::Refusal,
    snapshot::{Snapshot, SnapshotFault, SnapshotId},
    snapshots::Kept,
    startup::Step,
    truncate::Cut,
};

impl Raft {
    /// Reads the latest snapshot that was not tried yet and that the log reaches back to.
    pub(super) fn next_snapshot(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        let log_start = self.log.start();
        let Phase::Loading(loading) = &mut self.phase else {
            return Ok(());
        };
        if let Some((id, len)) = loading.untried.pop()
            && id.end_offset >= log_start
        {
            let path = self.folder.join(&id.file_name());
            let read = ReadFile::start(cx.storage, self.local.owner, path, u32::MAX);
            loading.step = Step::Snapshot(id, len, read);
            return Ok(());
        }
        if log_start > 0 {
            return Err(loading.damaged.map_or(
                Refusal::Hole {
                    snapshot: 0,
                    log_start,
                },
                |(id, fault)| Refusal::Snapshot {
                    path: self.folder.join(&id.file_name()),
                    fault,
                    log_start,
                },
            ));
        }
        self.replay_from(cx, 0)
    }

    pub(super) fn on_snapshot_read(
        &mut self,
        cx: &mut RaftContext<'_>,
        (id, len): (SnapshotId, u64),
        progress: Result<ReadProgress, StorageFault>,
    ) -> Result<(), Refusal> {
        let path = self.folder.join(&id.file_name());
        let decoded = match progress {
            Ok(ReadProgress::Pending) => return Ok(()),
            Ok(ReadProgress::Content(content)) => Snapshot::decode(id, &content),
            Ok(ReadProgress::TooLarge) => Err(SnapshotFault::TooLarge),
            Ok(ReadProgress::Missing) => Err(SnapshotFault::Footer),
            Err(fault) => return Err(Refusal::Storage { path, fault }),
        };
        let snapshot = match decoded {
            Ok(snapshot) => snapshot,
            Err(fault) => {
                self.snapshots.damaged(path);
                if let Phase::Loading(loading) = &mut self.phase {
                    loading.damaged.get_or_insert((id, fault));
                }
                return self.next_snapshot(cx);
            }
        };
        if self.is_within_log(id) {
            self.load_snapshot(cx, (id, len), snapshot)?;
            return self.replay_from(cx, id.end_offset);
        }
        let is_own = snapshot.voters.len() == 1 && snapshot.voters.contains(self.local.key);
        if is_own {
            // Nobody else could have sent it: the log held all of it once.
            return Err(Refusal::LogShort {
                log_end: self.log.end(),
                snapshot: id.end_offset,
            });
        }
        self.check_records(&snapshot.records)?;
        self.note_snapshots(cx, (id, len), snapshot.last_timestamp);
        if let Phase::Loading(loading) = &mut self.phase {
            loading.step = Step::Replacing;
        }
        self.begin_cut(cx, Cut::All(id, Box::new(snapshot)));
        Ok(())
    }

    /// Returns whether a snapshot says what the log said up to its end.
    fn is_within_log(&self, id: SnapshotId) -> bool {
        let same = LogPosition {
            epoch: id.epoch,
            end: id.end_offset,
        };
        let own = self.log.end_of(id.epoch);
        // A log that was begun anew, or emptied by a snapshot, knows of no epochs before its start.
        let is_silent = self.log.latest_epoch().is_none();
        let agrees = own.is_some_and(|(epoch, end)| epoch == same.epoch && same.end <= end);
        same.end <= self.log.end() && (is_silent || agrees)
    }

    fn load_snapshot(
        &mut self,
        cx: &mut RaftContext<'_>,
        (id, len): (SnapshotId, u64),
        snapshot: Snapshot,
    ) -> Result<(), Refusal> {
        self.check_records(&snapshot.records)?;
        self.note_snapshots(cx, (id, len), snapshot.last_timestamp);
        self.adopt(id, snapshot);
        Ok(())
    }

    /// Notes which snapshots there are, the one that was read and the older ones.
    fn note_snapshots(
        &mut self,
        cx: &mut RaftContext<'_>,
        (id, len): (SnapshotId, u64),
        timestamp: Timestamp,
    ) {
        let log_start = self.log.start();
        self.snapshots.found(id, Kept { len, timestamp });
        if let Phase::Loading(loading) = &mut self.phase {
            loading.epoch = id.epoch;
            for (older, len) in loading.untried.drain(..) {
                // How old its last record is only its content says; the latest one's is never older.
                self.snapshots.found(older, Kept { len, timestamp });
            }
        }
        self.snapshots.remove_before(cx.storage, log_start);
    }

    pub(super) fn replay_from(
        &mut self,
        cx: &mut RaftContext<'_>,
        offset: Offset,
    ) -> Result<(), Refusal> {
        let end = self.log.end();
        let Phase::Loading(loading) = &mut self.phase else {
            return Ok(());
        };
        loading.next = offset;
        if offset >= end {
            loading.step = Step::Replayed;
            return self.maybe_finish_loading(cx);
        }
        loading.step = Step::Replaying;
        match self.log.read(cx, offset) {
            Some(progress) => self.on_progress(cx, progress),
            None => Ok(()),
        }
    }

    /// Takes the next part of the log.
    pub(super) fn on_replayed(
        &mut self,
        cx: &mut RaftContext<'_>,
        bytes: &Bytes,
    ) -> Result<(), Refusal> {
        let Phase::Loading(loading) = &self.phase else {
            return Ok(());
        };
        let (from, mut next, mut epoch) = (loading.next, loading.next, loading.epoch);
        for view in BatchIter::new(bytes, 0).with_size_max(BATCH_BYTES_MAX) {
            let damaged = |fault| Refusal::Damaged {
                offset: next,
                fault,
            };
            let view = view.map_err(|fault| damaged(fault.into()))?;
            let entry = Entry::read(&view, bytes).map_err(damaged)?;
            if entry.base_offset != next || entry.epoch < epoch {
                return Err(Refusal::Sequence {
                    expected: next,
                    found: entry.base_offset,
                    epoch: entry.epoch,
                });
            }
            (next, epoch) = (entry.next_offset, entry.epoch);
            self.take_entry(entry)?;
        }
        if next == from {
            let fault = EntryFault::Foreign;
            return Err(Refusal::Damaged {
                offset: next,
                fault,
            });
        }
        if let Phase::Loading(loading) = &mut self.phase {
            loading.epoch = epoch;
        }
        self.replay_from(cx, next)
    }

    /// Keeps an entry of the log until it is committed; its voters count from now on (KIP-853).
    pub(super) fn take_entry(&mut self, entry: Entry) -> Result<(), Refusal> {
        match &entry.content {
            Content::Data(records) => {
                self.check_records(records)?;
                self.has_data = true;
            }
            Content::Control(records) => {
                for record in records {
                    if let ControlRecord::Voters(voters) = record {
                        self.voters = voters.clone();
                        self.has_voters = true;
                    }
                }
            }
        }
        self.uncommitted.push_back(entry);
        Ok(())
    }

    pub(super) fn check_records(&self, records: &[Bytes]) -> Result<(), Refusal> {
        let check = self.config.check_record;
        let Some(cluster_id) = &self.cluster_id else {
            return Ok(());
        };
        records.iter().try_for_each(|record| {
            check(cluster_id, record).map_err(|reason| Refusal::OtherCluster { reason })
        })
    }
}
