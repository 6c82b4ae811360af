//! Syncs: by workers beside each other, or by the thread itself where nobody has to wait for it.

use std::{fs::File, io, path::PathBuf, sync::Arc};

use rustix::fs::{Advice, fadvise};
use seedlog_core::storage::{Completion, FileId, FilePath, OpId, OpResult, SyncTarget};

use super::{
    Files,
    fault::fault,
    workers::{Job, SyncSet},
};
use crate::shard::READ_BYTES;

impl Files {
    /// Returns whether this thread will wait for a sync of what it has written in this turn, and more may still share it: there
    /// is nobody else whom that keeps waiting, and a sync costs more than the write.
    pub(crate) fn gathers(&self) -> bool {
        let file = self.pending.file();
        self.is_alone
            && file.is_some()
            && file == self.usual.file
            && self.pending.has_room(READ_BYTES)
    }

    /// Performs the syncs that wait for this thread; `false` when there are none.
    pub(crate) fn sync_waiting(&mut self, completed: &mut Vec<Completion>) -> bool {
        let (mut ids, mut targets, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (id, files, folders) in self.waiting.drain(..) {
            ids.push(id);
            targets.extend(files);
            places.extend(folders);
        }
        if ids.is_empty() {
            return false;
        }
        places.sort_unstable();
        places.dedup();
        if !self.is_serving && targets.len() > 1 {
            targets.iter().for_each(|file| begin_writing(file));
        }
        let set = SyncSet::awaited(targets.len() + places.len());
        let jobs = sync_jobs(&set, targets, places);
        let result = self.workers.perform_awaited(&set, jobs);
        let result = result.map_err(|error| fault(&error));
        for id in ids {
            let completion = Completion {
                id,
                result: result.clone(),
            };
            self.above.on_done(&completion);
            completed.push(completion);
        }
        true
    }

    /// Starts a sync; `None` unless it ends at once.
    pub(super) fn sync(
        &mut self,
        id: OpId,
        files: &[SyncTarget],
        dirs: &[FilePath],
    ) -> Option<io::Result<OpResult>> {
        if files.is_empty() && dirs.is_empty() {
            return Some(Ok(OpResult::Done));
        }
        let mut targets = Vec::with_capacity(files.len());
        for target in files {
            match self.table.handle(target.file) {
                Ok(handle) => targets.push(handle),
                Err(error) => return Some(Err(error)),
            }
            // Cleared at the start, so that a write during the sync counts as not synced.
            if let Some(entry) = self.table.entry(target.file) {
                entry.dirty = false;
            }
        }
        let places: io::Result<Vec<_>> = dirs.iter().map(|dir| self.table.locate(dir)).collect();
        let mut places = match places {
            Ok(places) => places,
            Err(error) => return Some(Err(error)),
        };
        if !self.above.unsynced.is_empty() {
            places.extend_from_slice(&self.above.unsynced);
            self.above.syncs.push(id);
        }
        let only = match (files, &places[..]) {
            ([target], []) => Some(target.file),
            _ => None,
        };
        let is_usual = self.usual.note(only);
        if !self.is_serving || (self.is_alone && is_usual) {
            self.waiting.push((id, targets, places));
            return None;
        }
        let set = SyncSet::new(id, targets.len() + places.len());
        let jobs = sync_jobs(&set, targets, places);
        self.workers.submit(jobs);
        None
    }
}

/// The one file that is synced again and again, if there is one: with more of them in use, others' requests can go on during a
/// sync.
#[derive(Debug, Default)]
pub(super) struct Usual {
    file: Option<FileId>,
    /// How often it was synced since another was.
    in_a_row: u32,
}

impl Usual {
    /// Notes the next sync, of `only` one file or of several; returns whether it is of the usual one.
    fn note(&mut self, only: Option<FileId>) -> bool {
        if only.is_some() && only == self.file {
            self.in_a_row = self.in_a_row.saturating_add(1);
            return true;
        }
        // What the log directory itself needs now and then does not mean that others have come.
        if self.in_a_row < IN_A_ROW_MIN {
            self.file = only;
        }
        self.in_a_row = 0;
        false
    }
}

/// Has the system begin to write a small file: it does so with pages that are not to be kept. Where every file of a set has its
/// blocks before the first sync commits the file system's journal, one commit does for all.
fn begin_writing(file: &File) {
    if file
        .metadata()
        .is_ok_and(|metadata| metadata.len() <= SMALL_BYTES)
    {
        // The sync that follows writes what this does not.
        let _ = fadvise(file, 0, None, Advice::DontNeed);
    }
}

/// Larger files had better stay in the page cache.
const SMALL_BYTES: u64 = 16 * 1024;

/// Makes the jobs of a set, the folders last: a file system with a journal has often made them durable with the files.
fn sync_jobs(set: &Arc<SyncSet>, files: Vec<Arc<File>>, folders: Vec<PathBuf>) -> Vec<Job> {
    let folders = folders.into_iter();
    let folders = folders.map(|place| Job::SyncDir(Arc::clone(set), place));
    let files = files.into_iter();
    let files = files.map(|file| Job::SyncFile(Arc::clone(set), file));
    files.chain(folders).collect()
}

/// After so many syncs of one file, a single sync of anything else is an exception.
const IN_A_ROW_MIN: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: Option<FileId> = Some(FileId(1));
    const OTHER: Option<FileId> = Some(FileId(2));

    #[test]
    fn file_that_is_synced_again_and_again_is_the_usual_one_through_single_exceptions() {
        let mut usual = Usual::default();
        assert!(!usual.note(LOG), "once is not again");
        for _ in 0..3 {
            for _ in 0..IN_A_ROW_MIN {
                assert!(usual.note(LOG));
            }
            assert!(!usual.note(OTHER));
            assert!(usual.note(LOG));
            for _ in 0..IN_A_ROW_MIN {
                assert!(usual.note(LOG));
            }
            assert!(!usual.note(None), "several files");
        }
    }

    #[test]
    fn files_that_are_synced_in_turn_are_not_usual() {
        let mut usual = Usual::default();
        for _ in 0..IN_A_ROW_MIN * 2 {
            usual.note(LOG);
        }
        let found: Vec<bool> = (0..4)
            .flat_map(|_| [usual.note(OTHER), usual.note(LOG)])
            .collect();
        assert_eq!(found[2..], [false; 6]);
    }
}
