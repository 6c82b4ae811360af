//! Group commit: one sync covers what many logs wrote.

use std::collections::{BTreeSet, VecDeque};

use crate::{
    log::FlushSet,
    storage::{OpId, Owner, StorageQueue},
};

/// How many syncs may be under way at once: while one runs, what is written meanwhile gathers for the next.
///
/// Two overlap, so that a write that just missed one sync does not wait for the whole of it: but never two of one log. When one
/// of two syncs of a file fails, the kernel tells only one of them, and the other would count records whose pages are gone
/// (catalogue B43).
const IN_FLIGHT_MAX: usize = 2;

/// Gathers dirty logs and submits syncs; `K` names a log, `M` is what the log wants back when its sync is done.
#[derive(Debug)]
pub struct Flusher<K, M> {
    owner: Owner,
    dirty: BTreeSet<K>,
    /// Logs that a sync under way covers.
    busy: BTreeSet<K>,
    in_flight: VecDeque<(OpId, Vec<(K, M)>)>,
}

impl<K: Ord + Copy, M> Flusher<K, M> {
    /// Makes a flusher whose syncs complete to `owner`.
    #[must_use]
    pub const fn new(owner: Owner) -> Self {
        Self {
            owner,
            dirty: BTreeSet::new(),
            busy: BTreeSet::new(),
            in_flight: VecDeque::new(),
        }
    }

    /// Notes that a log has written bytes that must become durable.
    pub fn mark_dirty(&mut self, log: K) {
        self.dirty.insert(log);
    }

    /// Submits a sync of everything dirty, if there is anything and no limit stands against it.
    ///
    /// `collect` adds a log's files and folders to the set and returns the log's mark; `None` when nothing needs a sync.
    pub fn submit(
        &mut self,
        storage: &mut StorageQueue,
        mut collect: impl FnMut(K, &mut FlushSet) -> Option<M>,
    ) {
        if self.dirty.is_empty() || self.in_flight.len() >= IN_FLIGHT_MAX {
            return;
        }
        let mut set = FlushSet::default();
        let mut marks = Vec::new();
        for log in std::mem::take(&mut self.dirty) {
            if self.busy.contains(&log) {
                self.dirty.insert(log);
            } else if let Some(mark) = collect(log, &mut set) {
                marks.push((log, mark));
            }
        }
        if marks.is_empty() {
            return;
        }
        self.busy.extend(marks.iter().map(|(log, _)| *log));
        set.dirs.sort_unstable();
        set.dirs.dedup();
        let op = storage.submit(self.owner, set.into_op());
        self.in_flight.push_back((op, marks));
    }

    /// Takes a completed sync; returns the marks it covers, `None` if it is not one of ours.
    pub fn on_completion(&mut self, op: OpId) -> Option<Vec<(K, M)>> {
        let at = self.in_flight.iter().position(|(id, _)| *id == op)?;
        let (_, marks) = self.in_flight.remove(at)?;
        for (log, _) in &marks {
            self.busy.remove(log);
        }
        Some(marks)
    }

    /// Returns whether nothing is dirty and nothing under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.dirty.is_empty() && self.in_flight.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{FileOp, FilePath, LogDirId};

    #[test]
    fn one_sync_covers_all_dirty_logs_and_names_a_shared_folder_once() {
        let mut storage = StorageQueue::default();
        let mut flusher = Flusher::new(Owner(4));
        flusher.mark_dirty(1_u32);
        flusher.mark_dirty(2);
        flusher.mark_dirty(2);
        flusher.submit(&mut storage, |_, set| {
            set.dirs.push(FilePath::root(LogDirId(0)));
            Some(())
        });
        let op = storage.pop().unwrap();
        let FileOp::Sync { dirs, .. } = op.op else {
            panic!("a sync was expected")
        };
        assert_eq!(dirs.len(), 1);
        assert!(storage.is_empty());
        assert_eq!(flusher.on_completion(op.id), Some(vec![(1, ()), (2, ())]));
        assert!(flusher.is_idle());
        assert_eq!(flusher.on_completion(op.id), None);
    }

    #[test]
    fn what_gets_dirty_while_two_syncs_run_waits_for_the_next() {
        let mut storage = StorageQueue::default();
        let mut flusher = Flusher::new(Owner(4));
        for log in 0..3_u32 {
            flusher.mark_dirty(log);
            flusher.submit(&mut storage, |_, _| Some(()));
        }
        let first = storage.pop().unwrap();
        assert!(storage.pop().is_some());
        assert!(storage.pop().is_none());
        flusher.on_completion(first.id);
        flusher.submit(&mut storage, |_, _| Some(()));
        assert!(storage.pop().is_some());
    }

    #[test]
    fn log_is_synced_again_only_when_its_last_sync_is_done() {
        let mut storage = StorageQueue::default();
        let mut flusher = Flusher::new(Owner(4));
        flusher.mark_dirty(1_u32);
        flusher.submit(&mut storage, |_, _| Some(()));
        let first = storage.pop().unwrap();
        flusher.mark_dirty(1);
        flusher.mark_dirty(2);
        flusher.submit(&mut storage, |_, _| Some(()));
        let second = storage.pop().unwrap();
        assert_eq!(flusher.on_completion(second.id), Some(vec![(2, ())]));
        flusher.submit(&mut storage, |_, _| Some(()));
        assert!(storage.is_empty(), "its first sync still runs");
        flusher.on_completion(first.id);
        flusher.submit(&mut storage, |_, _| Some(()));
        let third = storage.pop().unwrap();
        assert_eq!(flusher.on_completion(third.id), Some(vec![(1, ())]));
        assert!(flusher.is_idle());
    }
}
