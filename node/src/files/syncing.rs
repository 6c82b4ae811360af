//! Syncs: by workers beside each other, or by the thread itself where nobody has to wait for it.

use std::{fs::File, io, path::PathBuf, sync::Arc};

use seedlog_core::storage::{Completion, FilePath, OpId, OpResult, SyncTarget};

use super::{
    Files,
    fault::fault,
    workers::{Job, SyncSet},
};

impl Files {
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
        let is_all = only.is_some() && only == self.synced_last;
        self.synced_last = only;
        if !self.is_serving || (self.is_alone && is_all) {
            self.waiting.push((id, targets, places));
            return None;
        }
        let set = SyncSet::new(id, targets.len() + places.len());
        let jobs = sync_jobs(&set, targets, places);
        self.workers.submit(jobs);
        None
    }
}

/// Makes the jobs of a set, the folders first: the last one is the one worth having to oneself.
fn sync_jobs(set: &Arc<SyncSet>, files: Vec<Arc<File>>, folders: Vec<PathBuf>) -> Vec<Job> {
    let folders = folders.into_iter();
    let folders = folders.map(|place| Job::SyncDir(Arc::clone(set), place));
    let files = files.into_iter();
    let files = files.map(|file| Job::SyncFile(Arc::clone(set), file));
    folders.chain(files).collect()
}
