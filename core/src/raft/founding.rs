//! A cluster that one voter founds alone: all of it in one step, of which nothing counts before all of it is durable.
//!
//! The vote, the first entries, the folder and, where it is new, the identity of the node are written beside each other. Nobody
//! else has a say in them and nobody is told of them until every one is durable, so a crash in between leaves nothing that was
//! promised: the next start finds any part of them, each perhaps torn, and takes what is whole for what it is.
//!
//! | a crash left | the next start |
//! | --- | --- |
//! | no folder | founds |
//! | a folder, and no identity | removes the folder, founds with another identity |
//! | a torn vote, or entries without a vote | removes the folder, founds |
//! | a vote, with whole entries, torn ones or none | goes on from there, in the next epoch |
//!
//! All of that holds only for a folder whose synced mark says nothing: it is first written after the founding. A folder whose mark
//! says more was in use, and what is missing there is refused by name.

use crate::storage::FileOp;

use super::{Phase, Raft, config::RaftContext, event::RaftEvent, refusal::Refusal, startup::Step};

/// A founding under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Founding {
    /// Whether the identity is on its way to the disk.
    awaits_identity: bool,
}

impl Raft {
    /// Begins to found where this replica is alone; its folder is new.
    pub(super) fn begin_founding(&mut self) {
        if !self.is_only_voter() {
            return;
        }
        let awaits_identity = self.config.is_new_identity;
        self.founding = Some(Founding { awaits_identity });
        self.log.hold_mark();
        if awaits_identity {
            self.events.push_back(RaftEvent::Founding);
        }
    }

    /// Takes note that the identity asked for with [`RaftEvent::Founding`] is durable.
    pub fn identity_written(&mut self, cx: &mut RaftContext<'_>) {
        if let Some(founding) = &mut self.founding {
            founding.awaits_identity = false;
        }
        self.maybe_found(cx);
        self.finish(cx, Ok(()));
    }

    /// Ends the founding once all that it rests on is durable; what is synced of the log counts from then on.
    pub(super) fn maybe_found(&mut self, cx: &mut RaftContext<'_>) {
        let Some(founding) = self.founding else {
            return;
        };
        let is_rooted = self.root_sync.is_none();
        if founding.awaits_identity || !is_rooted || !self.ballot.has_own_vote(self.local.key) {
            return;
        }
        self.founding = None;
        self.log.release_mark(cx);
        self.count_own_copy(cx);
    }

    /// Returns whether the folder can only be what a founding left that did not end: nothing in it was ever promised to anybody.
    pub(super) fn is_unfounded(&self) -> bool {
        let Phase::Loading(loading) = &self.phase else {
            return false;
        };
        let was_synced = loading.mark.is_some() || self.config.recovery_point > 0;
        self.is_only_voter() && !was_synced && !self.config.clean && loading.untried.is_empty()
    }

    /// Removes such a folder, and the removal is durable before anything takes its place.
    pub(super) fn discard(&mut self, cx: &mut RaftContext<'_>) {
        let dir = self.folder.clone();
        let remove = FileOp::RemoveDir { dir };
        let remove = cx.storage.submit(self.local.owner, remove);
        if let Phase::Loading(loading) = &mut self.phase {
            loading.step = Step::Discarding(remove);
        }
    }

    /// Syncs the removal.
    pub(super) fn sync_discarded(&mut self, cx: &mut RaftContext<'_>) {
        let sync = FileOp::Sync {
            files: vec![],
            dirs: vec![self.folder.parent()],
        };
        let sync = cx.storage.submit(self.local.owner, sync);
        if let Phase::Loading(loading) = &mut self.phase {
            loading.step = Step::SyncingDiscarded(sync);
        }
    }

    /// Creates the folder.
    pub(super) fn create(&mut self, cx: &mut RaftContext<'_>) {
        let dir = self.folder.clone();
        let create = FileOp::CreateDir { dir };
        let create = cx.storage.submit(self.local.owner, create);
        if let Phase::Loading(loading) = &mut self.phase {
            loading.step = Step::Creating(create);
        }
    }

    /// Refuses a folder that was in use under an identity that is gone.
    pub(super) fn identity_lost(&self) -> Refusal {
        Refusal::IdentityLost {
            folder: self.folder.clone(),
        }
    }
}
