//! The election state in memory, and its replacement on disk.

use bytes::Bytes;

use crate::storage::{AtomicFile, Completion, FilePath, OpId, Owner, StorageFault, StorageQueue};

use super::{quorum_state::ElectionState, voters::ReplicaKey};

/// What was decided about elections, what of it is durable, and what is on its way.
///
/// Decisions rest on [`Ballot::latest`], so that a vote on its way to the disk cannot be given again; promises rest on
/// [`Ballot::durable`] alone.
#[derive(Debug, Default)]
pub(super) struct Ballot {
    durable: ElectionState,
    latest: ElectionState,
    saving: Option<(ElectionState, AtomicFile)>,
}

impl Ballot {
    /// Takes what was read from the file. A process that was killed may have left it in the page cache alone, so nothing rests
    /// on it before it was written anew: [`Ballot::keep`].
    pub(super) const fn restore(&mut self, state: ElectionState) {
        self.latest = state;
    }

    /// Makes durable what was decided last, unless that is under way.
    pub(super) fn keep(&mut self, storage: &mut StorageQueue, owner: Owner, path: FilePath) {
        if self.saving.is_none() {
            self.save(storage, owner, path, false);
        }
    }

    /// Returns the state that survives any crash.
    pub(super) const fn durable(&self) -> &ElectionState {
        &self.durable
    }

    /// Returns the state that was decided last.
    pub(super) const fn latest(&self) -> &ElectionState {
        &self.latest
    }

    /// Returns whether all that was decided is durable.
    pub(super) fn is_durable(&self) -> bool {
        self.durable == self.latest
    }

    /// Returns whether a vote is durable, or can no longer be given to anybody else.
    pub(super) fn holds(&self, vote: &ElectionState) -> bool {
        self.durable.epoch > vote.epoch
            || (self.durable.epoch == vote.epoch && self.durable.voted == vote.voted)
    }

    /// Returns whether this replica has given itself its vote of its present epoch, durably.
    pub(super) fn has_own_vote(&self, local: ReplicaKey) -> bool {
        self.durable.epoch == self.latest.epoch && self.durable.voted == Some(local)
    }

    /// Decides a state and makes it durable, in one step where the folder `is_new`: a crash may then leave a torn file. The
    /// epoch never falls, a vote is never changed within its epoch, and an epoch has one leader.
    pub(super) fn decide(
        &mut self,
        storage: &mut StorageQueue,
        owner: Owner,
        path: FilePath,
        (next, is_new): (ElectionState, bool),
    ) {
        let last = &self.latest;
        let is_kept = last.voted.is_none_or(|voted| next.voted == Some(voted))
            && last.leader.is_none_or(|leader| next.leader == Some(leader));
        assert!(
            next.epoch > last.epoch || (next.epoch == last.epoch && is_kept),
            "an epoch falls, or its vote or its leader is changed"
        );
        self.latest = next;
        // A state that is overtaken before it was saved need not be.
        if self.saving.is_none() {
            self.save(storage, owner, path, is_new);
        }
    }

    fn save(&mut self, storage: &mut StorageQueue, owner: Owner, path: FilePath, is_new: bool) {
        if !self.is_durable() {
            let content = Bytes::from(self.latest.encode());
            let file = if is_new {
                AtomicFile::start_first(storage, owner, path, content)
            } else {
                AtomicFile::start(storage, owner, path, content)
            };
            self.saving = Some((self.latest, file));
        }
    }

    /// Returns whether a completion belongs to the saving.
    pub(super) fn awaits(&self, id: OpId) -> bool {
        self.saving
            .as_ref()
            .is_some_and(|(_, file)| file.awaits(id))
    }

    /// Takes a completion of the saving; true once a new state is durable.
    pub(super) fn on_completion(
        &mut self,
        storage: &mut StorageQueue,
        completion: Completion,
    ) -> Result<bool, StorageFault> {
        let Some((next, file)) = &mut self.saving else {
            return Ok(false);
        };
        let (owner, path) = (completion.id.owner, file.path().clone());
        if !file.on_completion(storage, completion)? {
            return Ok(false);
        }
        self.durable = *next;
        self.saving = None;
        self.save(storage, owner, path, false);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::{Epoch, NodeId, Uuid},
        storage::{FileOp, LogDirId, OpResult},
    };

    #[test]
    fn vote_that_was_read_counts_only_once_it_was_written_anew() {
        let candidate = ReplicaKey {
            id: NodeId(2),
            directory: Uuid([2; 16]),
        };
        let vote = ElectionState {
            epoch: Epoch(7),
            voted: Some(candidate),
            ..ElectionState::default()
        };
        let mut ballot = Ballot::default();
        ballot.restore(vote);
        assert_eq!(*ballot.latest(), vote, "nobody else gets it");
        assert!(!ballot.holds(&vote), "a power loss may take it back");
        let mut storage = StorageQueue::default();
        let path = FilePath::root(LogDirId(0)).join("quorum-state");
        ballot.keep(&mut storage, Owner(1), path);
        while let Some(op) = storage.pop() {
            assert!(!ballot.holds(&vote), "before {:?}", op.op);
            let result = match op.op {
                FileOp::Open { .. } => OpResult::Opened { len: 0 },
                _ => OpResult::Done,
            };
            let completion = Completion {
                id: op.id,
                result: Ok(result),
            };
            if ballot.awaits(completion.id) {
                ballot.on_completion(&mut storage, completion).unwrap();
            }
        }
        assert!(ballot.holds(&vote));
    }
}
