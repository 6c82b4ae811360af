//! How far the metadata log is known to be synced, in a file of its own.
//!
//! A recovery must tell a torn tail, which may be cut, from damage to synced records, which must never be. The broker's
//! checkpoint of recovery points is written once a minute, too seldom for records that the whole cluster rests on. So each
//! completed sync of the metadata log is followed by a write of its recovery point into `synced-mark`: one small write to the
//! page cache, made durable by the log's next sync, or after a second when there is none.
//!
//! After the death of the process the mark is the recovery point. After a power loss it lags by what was synced last, at most
//! a second before; only there damage still looks like a torn tail. The mark is never ahead: a replica that truncates its log first
//! lowers it durably, in both slots, and from then on it says more than the broker's checkpoint, which may be older.

use bytes::Bytes;

use crate::{
    ids::Offset,
    storage::{
        Completion, FileId, FileOp, FilePath, Generation, OpId, Owner, StorageFault, StorageQueue,
        SyncTarget, WriteData,
    },
    time::{Instant, Now},
};

/// Name of the file, in the metadata log's folder.
pub(super) const FILE_NAME: &str = "synced-mark";

/// No valid file is larger.
pub(super) const FILE_LEN_MAX: u32 = 1024;

/// Two slots take turns, a sector apart: a torn write leaves the other one whole.
const SLOT_BYTES: u64 = 512;
const SYNC_DELAY_MS: u64 = 1_000;

/// The mark and its file.
#[derive(Debug)]
pub(super) struct SyncedMark {
    owner: Owner,
    path: FilePath,
    file: Handle,
    written: Offset,
    slot: u64,
    /// Whether the folder entry of the file may be new.
    is_new: bool,
    /// Whether nothing was written yet that a sync could make durable.
    is_blank: bool,
    /// When the last write is to be made durable.
    sync_at: Option<Instant>,
    syncing: Option<OpId>,
    lowering: Option<Lowering>,
    /// The log is about to be truncated: syncs that were submitted before say nothing any more.
    is_held: bool,
}

/// A lower mark on its way to the disk.
#[derive(Debug)]
enum Lowering {
    Writing(Vec<OpId>),
    Syncing(OpId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handle {
    Closed,
    Opening(FileId, OpId),
    Open(FileId),
}

impl SyncedMark {
    pub(super) fn new(owner: Owner, folder: &FilePath) -> Self {
        Self {
            owner,
            path: folder.join(FILE_NAME),
            file: Handle::Closed,
            written: 0,
            slot: 0,
            is_new: true,
            is_blank: true,
            sync_at: None,
            syncing: None,
            lowering: None,
            is_held: false,
        }
    }

    /// Opens the file, so that it is there when the first mark is to be written.
    pub(super) fn open(&mut self, storage: &mut StorageQueue) {
        let file = storage.new_file();
        let open = FileOp::Open {
            file,
            path: self.path.clone(),
            create: true,
        };
        self.file = Handle::Opening(file, storage.submit(self.owner, open));
    }

    /// Notes how far the log is synced.
    pub(super) fn advance(&mut self, storage: &mut StorageQueue, now: Now, synced: Offset) {
        let Handle::Open(file) = self.file else {
            return;
        };
        if synced <= self.written || self.is_held {
            return;
        }
        self.written = synced;
        self.is_blank = false;
        let write = FileOp::Write {
            file,
            at: self.slot * SLOT_BYTES,
            data: WriteData::from_body(encode(synced)),
        };
        // A mark that was not written lags, and that is all.
        storage.submit(Owner::NOBODY, write);
        self.slot ^= 1;
        self.sync_at = Some(now.instant.plus_millis(SYNC_DELAY_MS));
    }

    /// Starts to lower the mark durably, and holds it there until [`SyncedMark::release`].
    pub(super) fn lower(&mut self, storage: &mut StorageQueue, to: Offset) {
        let (Handle::Open(file) | Handle::Opening(file, _)) = self.file else {
            return;
        };
        self.is_held = true;
        self.written = to;
        self.is_blank = false;
        self.sync_at = None;
        let writes = [0, SLOT_BYTES].map(|at| {
            let data = WriteData::from_body(encode(to));
            storage.submit(self.owner, FileOp::Write { file, at, data })
        });
        self.lowering = Some(Lowering::Writing(writes.to_vec()));
    }

    /// Keeps the mark from being written until [`SyncedMark::release`].
    pub(super) const fn hold(&mut self) {
        self.is_held = true;
    }

    /// Lets the mark follow the log again.
    pub(super) const fn release(&mut self) {
        self.is_held = false;
    }

    /// Adds what makes the last mark durable to a sync of the log.
    pub(super) fn join(&mut self, files: &mut Vec<SyncTarget>, dirs: &mut Vec<FilePath>) {
        let Handle::Open(file) = self.file else {
            return;
        };
        if !self.is_blank {
            files.push(SyncTarget {
                file,
                generation: Generation::default(),
            });
        }
        if self.is_new {
            let folder = self.path.parent();
            if !dirs.contains(&folder) {
                dirs.push(folder);
            }
            // Whoever joins a sync gives the log up when it fails.
            self.is_new = false;
        }
        self.sync_at = None;
    }

    /// Returns when the last mark is to be made durable on its own.
    pub(super) const fn deadline(&self) -> Option<Instant> {
        if self.syncing.is_some() {
            return None;
        }
        self.sync_at
    }

    /// Makes the last mark durable if that is due.
    pub(super) fn on_timeout(&mut self, storage: &mut StorageQueue, now: Now) {
        if self.sync_at.is_none_or(|due| now.instant < due) || self.syncing.is_some() {
            return;
        }
        let (mut files, mut dirs) = (Vec::new(), Vec::new());
        self.join(&mut files, &mut dirs);
        let sync = FileOp::Sync { files, dirs };
        self.syncing = Some(storage.submit(self.owner, sync));
    }

    /// Returns whether a completion belongs to the mark.
    pub(super) fn awaits(&self, id: OpId) -> bool {
        let is_lowering = match &self.lowering {
            Some(Lowering::Writing(writes)) => writes.contains(&id),
            Some(Lowering::Syncing(sync)) => *sync == id,
            None => false,
        };
        is_lowering
            || self.syncing == Some(id)
            || matches!(self.file, Handle::Opening(_, op) if op == id)
    }

    /// Takes a completion; true once a lower mark is durable.
    pub(super) fn on_completion(
        &mut self,
        storage: &mut StorageQueue,
        completion: Completion,
    ) -> Result<bool, StorageFault> {
        completion.result?;
        if self.syncing == Some(completion.id) {
            self.syncing = None;
            return Ok(false);
        }
        match &mut self.lowering {
            Some(Lowering::Writing(writes)) if writes.contains(&completion.id) => {
                writes.retain(|write| *write != completion.id);
                if writes.is_empty() {
                    // A sync covers what was complete when it was submitted.
                    let (mut files, mut dirs) = (Vec::new(), Vec::new());
                    self.join(&mut files, &mut dirs);
                    let sync = storage.submit(self.owner, FileOp::Sync { files, dirs });
                    self.lowering = Some(Lowering::Syncing(sync));
                }
                return Ok(false);
            }
            Some(Lowering::Syncing(sync)) if *sync == completion.id => {
                self.lowering = None;
                return Ok(true);
            }
            Some(Lowering::Writing(_) | Lowering::Syncing(_)) | None => {}
        }
        if let Handle::Opening(file, _) = self.file {
            self.file = Handle::Open(file);
        }
        Ok(false)
    }

    /// Returns the file.
    pub(super) const fn path(&self) -> &FilePath {
        &self.path
    }
}

/// Writes a slot: the offset and its checksum.
fn encode(synced: Offset) -> Bytes {
    let offset = synced.to_be_bytes();
    let crc = crc32c::crc32c(&offset).to_be_bytes();
    Bytes::from([offset.as_slice(), &crc].concat())
}

/// Reads the file: the higher of the slots that are whole.
pub(super) fn decode(content: &[u8]) -> Option<Offset> {
    let slot_bytes = usize::try_from(SLOT_BYTES).unwrap_or(usize::MAX);
    content
        .chunks(slot_bytes)
        .filter_map(|slot| {
            let (offset, rest) = slot.split_first_chunk::<8>()?;
            let crc = u32::from_be_bytes(*rest.first_chunk()?);
            (crc32c::crc32c(offset) == crc).then(|| Offset::from_be_bytes(*offset))
        })
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(first: Offset, second: Offset) -> Vec<u8> {
        let mut content = encode(first).to_vec();
        content.resize(512, 0);
        content.extend(encode(second));
        content
    }

    #[test]
    fn higher_of_the_whole_slots_counts() {
        assert_eq!(decode(&file(4, 7)), Some(7));
        assert_eq!(decode(&file(9, 7)), Some(9));
        assert_eq!(decode(&encode(5)), Some(5));
        assert_eq!(decode(&[]), None);
        assert_eq!(decode(&[0; 1024]), None);
    }

    #[test]
    fn damaged_byte_leaves_the_other_slot_and_never_raises_the_mark() {
        let good = file(4, 7);
        for at in 0..good.len() {
            for flip in 1..=255_u8 {
                let mut bad = good.clone();
                bad[at] ^= flip;
                let expected = if (512..524).contains(&at) { 4 } else { 7 };
                assert_eq!(decode(&bad), Some(expected), "byte {at} ^ {flip}");
            }
        }
    }
}
