//! The snapshots of a replica: which there are, the one being written, and which may go.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{
    ids::Offset,
    storage::{AtomicFile, Completion, FileOp, FilePath, OpId, Owner, StorageFault, StorageQueue},
    time::{Instant, Timestamp},
};

use super::{config::RaftConfig, snapshot::SnapshotId, voters::VoterSet};

/// How often old snapshots are looked at while there is more than one.
const CLEAN_INTERVAL_MS: u64 = 60_000;

/// Snapshots on disk, and when the next is due.
#[derive(Debug)]
pub(super) struct Snapshots {
    owner: Owner,
    folder: FilePath,
    kept: BTreeMap<SnapshotId, Kept>,
    /// Files that are no valid snapshots, left where they are until there is a newer one.
    damaged: Vec<FilePath>,
    writing: Option<Writing>,
    requested: Option<Requested>,
    /// Bytes committed since the last snapshot was asked for. Belongs to the replica and not to its role: if each change of
    /// leadership reset it, a quorum with enough changes would never make a snapshot.
    bytes: u64,
    last_at: Instant,
    clean_at: Instant,
}

/// A durable snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) len: u64,
    /// Timestamp of the last entry in it.
    pub(super) timestamp: Timestamp,
}

#[derive(Debug)]
struct Writing {
    id: SnapshotId,
    kept: Kept,
    file: AtomicFile,
}

/// A snapshot that the host was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Requested {
    pub(super) id: SnapshotId,
    /// Timestamp of the last entry in it.
    pub(super) timestamp: Timestamp,
    /// The voters as of its end.
    pub(super) voters: VoterSet,
}

impl Snapshots {
    pub(super) const fn new(owner: Owner, folder: FilePath) -> Self {
        Self {
            owner,
            folder,
            kept: BTreeMap::new(),
            damaged: Vec::new(),
            writing: None,
            requested: None,
            bytes: 0,
            last_at: Instant::ORIGIN,
            clean_at: Instant::ORIGIN,
        }
    }

    /// Notes a snapshot that was found and read, or one whose turn to be read never came.
    pub(super) fn found(&mut self, id: SnapshotId, kept: Kept) {
        self.kept.insert(id, kept);
    }

    /// Notes a file that is not the snapshot that its name promises.
    pub(super) fn damaged(&mut self, path: FilePath) {
        self.damaged.push(path);
    }

    /// Starts the clocks.
    pub(super) const fn started(&mut self, now: Instant) {
        self.last_at = now;
        self.clean_at = now.plus_millis(CLEAN_INTERVAL_MS);
    }

    /// Notes that a batch was committed.
    pub(super) const fn committed(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Returns when the next snapshot is due because of time, if it is not due because of size.
    pub(super) fn deadline(&self, config: &RaftConfig) -> Option<Instant> {
        let by_time = self
            .is_wanted(config)
            .then(|| self.last_at.plus_millis(config.max_snapshot_interval_ms));
        let cleaning = (self.kept.len() > 1).then_some(self.clean_at);
        by_time.into_iter().chain(cleaning).min()
    }

    /// Returns whether old snapshots should be looked at.
    pub(super) fn cleaning_is_due(&self, now: Instant) -> bool {
        self.kept.len() > 1 && now >= self.clean_at
    }

    fn is_wanted(&self, config: &RaftConfig) -> bool {
        self.bytes > 0
            && self.requested.is_none()
            && self.writing.is_none()
            && config.max_snapshot_interval_ms > 0
    }

    /// Returns whether a snapshot should be made now.
    pub(super) fn is_due(&self, config: &RaftConfig, now: Instant) -> bool {
        let is_large = self.bytes >= config.max_record_bytes_between_snapshots;
        let is_old = self.is_wanted(config)
            && now >= self.last_at.plus_millis(config.max_snapshot_interval_ms);
        self.requested.is_none() && self.writing.is_none() && (is_large || is_old)
    }

    /// Notes that the host was asked for a snapshot of everything committed so far.
    pub(super) fn request(&mut self, now: Instant, requested: Requested) {
        self.requested = Some(requested);
        self.bytes = 0;
        self.last_at = now;
    }

    /// Takes what the host was asked for, if it was asked for a snapshot that ends there.
    pub(super) fn take_requested(&mut self, end_offset: Offset) -> Option<Requested> {
        self.requested
            .take_if(|asked| asked.id.end_offset == end_offset)
    }

    /// Starts to write the snapshot asked for.
    pub(super) fn write(&mut self, storage: &mut StorageQueue, asked: &Requested, content: Bytes) {
        let id = asked.id;
        let kept = Kept {
            len: u64::try_from(content.len()).unwrap_or(u64::MAX),
            timestamp: asked.timestamp,
        };
        let file = AtomicFile::start_under(
            storage,
            self.owner,
            self.folder.join(&id.file_name()),
            self.folder.join(&id.partial_file_name()),
            content,
        );
        self.writing = Some(Writing { id, kept, file });
    }

    /// Starts to write a snapshot that was fetched; whatever was being written or was asked for is of no more use.
    pub(super) fn write_fetched(
        &mut self,
        storage: &mut StorageQueue,
        (id, timestamp): (SnapshotId, Timestamp),
        content: Bytes,
    ) {
        let asked = Requested {
            id,
            timestamp,
            voters: VoterSet::default(),
        };
        self.requested = None;
        self.write(storage, &asked, content);
    }

    /// Returns whether a snapshot is being written.
    pub(super) const fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Returns the size of a snapshot that is there.
    pub(super) fn len_of(&self, id: SnapshotId) -> Option<u64> {
        self.kept.get(&id).map(|kept| kept.len)
    }

    /// Forgets a request whose point lies before what was loaded instead.
    pub(super) fn restarted(&mut self) {
        self.requested = None;
        self.bytes = 0;
    }

    /// Returns whether a completion belongs to the writing.
    pub(super) fn awaits(&self, op: OpId) -> bool {
        self.writing
            .as_ref()
            .is_some_and(|writing| writing.file.awaits(op))
    }

    /// Returns the file being written, or the folder.
    pub(super) fn path(&self) -> &FilePath {
        self.writing
            .as_ref()
            .map_or(&self.folder, |writing| writing.file.path())
    }

    /// Takes a completion of the writing; true once the snapshot is durable.
    pub(super) fn on_completion(
        &mut self,
        storage: &mut StorageQueue,
        completion: Completion,
    ) -> Result<bool, StorageFault> {
        let Some(writing) = &mut self.writing else {
            return Ok(false);
        };
        if !writing.file.on_completion(storage, completion)? {
            return Ok(false);
        }
        self.kept.insert(writing.id, writing.kept);
        self.writing = None;
        for path in self.damaged.drain(..) {
            storage.submit(Owner::NOBODY, FileOp::Remove { path });
        }
        Ok(true)
    }

    /// Decides which old snapshots go; returns where the log may then start, which is the end of a snapshot that stays.
    ///
    /// As in Kafka the oldest goes while log and snapshots together are above `metadata.max.retention.bytes` or while it is
    /// older than `metadata.max.retention.ms`; the latest always stays.
    pub(super) fn clean(
        &mut self,
        config: &RaftConfig,
        (now, wall): (Instant, Timestamp),
        log_bytes: u64,
    ) -> Option<Offset> {
        self.clean_at = now.plus_millis(CLEAN_INTERVAL_MS);
        let bytes_max = u64::try_from(config.max_retention_bytes).ok();
        let age_max = (config.max_retention_ms >= 0).then_some(config.max_retention_ms);
        let mut total = self
            .kept
            .values()
            .fold(log_bytes, |sum, kept| sum.saturating_add(kept.len));
        let mut start = None;
        let ids: Vec<_> = self.kept.iter().map(|(id, kept)| (*id, *kept)).collect();
        for pair in ids.windows(2) {
            let &[(_, oldest), (next, _)] = pair else {
                break;
            };
            let age = wall
                .as_millis()
                .saturating_sub(oldest.timestamp.as_millis());
            let is_large = bytes_max.is_some_and(|max| total > max);
            if !is_large && age_max.is_none_or(|max| age <= max) {
                break;
            }
            total = total.saturating_sub(oldest.len);
            start = Some(next.end_offset);
        }
        start
    }

    /// Removes the snapshots that the log no longer reaches back to.
    pub(super) fn remove_before(&mut self, storage: &mut StorageQueue, log_start: Offset) {
        let gone: Vec<_> = self
            .kept
            .keys()
            .copied()
            .filter(|id| id.end_offset < log_start)
            .collect();
        for id in gone {
            self.kept.remove(&id);
            let path = self.folder.join(&id.file_name());
            // One that stays behind is found and removed at the next start.
            storage.submit(Owner::NOBODY, FileOp::Remove { path });
        }
    }

    /// Returns the latest snapshot.
    pub(super) fn latest(&self) -> Option<SnapshotId> {
        self.kept.keys().next_back().copied()
    }
}
