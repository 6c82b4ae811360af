//! The durable election state in memory, and its replacement on disk.

use bytes::Bytes;

use crate::storage::{AtomicFile, Completion, FilePath, OpId, Owner, StorageFault, StorageQueue};

use super::quorum_state::ElectionState;

/// What of the election state is durable, and what is on its way.
///
/// Nothing may rest on a state before [`Ballot::on_completion`] has said that it is durable: [`Ballot::durable`] is the only
/// state that this type tells.
#[derive(Debug, Default)]
pub(super) struct Ballot {
    durable: ElectionState,
    saving: Option<(ElectionState, AtomicFile)>,
}

impl Ballot {
    /// Takes what was read from the file.
    pub(super) const fn restore(&mut self, state: ElectionState) {
        self.durable = state;
    }

    /// Returns the state that survives any crash.
    pub(super) const fn durable(&self) -> &ElectionState {
        &self.durable
    }

    /// Starts to make a state durable. The epoch never falls and a vote is never changed within its epoch.
    pub(super) fn save(
        &mut self,
        storage: &mut StorageQueue,
        owner: Owner,
        path: FilePath,
        next: ElectionState,
    ) {
        assert!(self.saving.is_none(), "one state is saved at a time");
        assert!(
            next.epoch > self.durable.epoch
                || (next.epoch == self.durable.epoch
                    && self
                        .durable
                        .voted
                        .is_none_or(|voted| next.voted == Some(voted))),
            "an epoch falls or a vote is changed"
        );
        let content = Bytes::from(next.encode());
        let file = AtomicFile::start(storage, owner, path, content);
        self.saving = Some((next, file));
    }

    /// Returns whether a completion belongs to the saving.
    pub(super) fn awaits(&self, id: OpId) -> bool {
        self.saving
            .as_ref()
            .is_some_and(|(_, file)| file.awaits(id))
    }

    /// Takes a completion of the saving; true once the new state is durable.
    pub(super) fn on_completion(
        &mut self,
        storage: &mut StorageQueue,
        completion: Completion,
    ) -> Result<bool, StorageFault> {
        let Some((next, file)) = &mut self.saving else {
            return Ok(false);
        };
        if !file.on_completion(storage, completion)? {
            return Ok(false);
        }
        self.durable = *next;
        self.saving = None;
        Ok(true)
    }
}
