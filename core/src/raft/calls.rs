//! The calls that this replica waits for: at most one to each peer, each with its deadline.
//!
//! A reply counts only for the call that is open under its number. Whatever ends a role forgets its calls, so a late, repeated
//! or lost reply finds nothing to answer.

use std::collections::BTreeMap;

use crate::{ids::NodeId, time::Instant};

use super::messages::CallId;

/// What a call asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    Vote,
    Begin,
    End,
    Fetch,
    FetchSnapshot,
}

/// A call without a reply yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) to: NodeId,
    pub(super) kind: CallKind,
    due: Instant,
}

/// The open calls, and the peers that are left in peace for a while.
#[derive(Debug)]
pub(super) struct Calls {
    next: u64,
    open: BTreeMap<CallId, Call>,
    quiet_until: BTreeMap<NodeId, Instant>,
}

impl Calls {
    /// Begins to count at a drawn number.
    pub(super) const fn new(first: u64) -> Self {
        Self {
            next: first,
            open: BTreeMap::new(),
            quiet_until: BTreeMap::new(),
        }
    }

    /// Returns whether a peer may be called now.
    pub(super) fn may_call(&self, to: NodeId, now: Instant) -> bool {
        self.open.values().all(|call| call.to != to)
            && self.quiet_until.get(&to).is_none_or(|until| now >= *until)
    }

    /// Notes a call; it is given up at `due`.
    pub(super) fn open(&mut self, to: NodeId, kind: CallKind, due: Instant) -> CallId {
        let id = CallId(self.next);
        self.next = self.next.wrapping_add(1);
        self.quiet_until.remove(&to);
        self.open.insert(id, Call { to, kind, due });
        id
    }

    /// Ends a call that a reply from `from` answers.
    pub(super) fn close(&mut self, from: NodeId, id: CallId) -> Option<Call> {
        let call = self.open.get(&id).filter(|call| call.to == from).copied()?;
        self.open.remove(&id);
        Some(call)
    }

    /// Ends the calls that waited long enough.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Call> {
        self.open
            .extract_if(.., |_, call| call.due <= now)
            .map(|(_, call)| call)
            .collect()
    }

    /// Leaves a peer in peace until then.
    pub(super) fn quiet(&mut self, peer: NodeId, until: Instant) {
        self.quiet_until.insert(peer, until);
    }

    /// Forgets every call: none of their replies counts any more.
    pub(super) fn forget(&mut self) {
        self.open.clear();
        self.quiet_until.clear();
    }

    /// Returns whether any call waits for a reply.
    pub(super) fn is_waiting(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns when a call is given up, or a peer may be called again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let calls = self.open.values().map(|call| call.due);
        calls.chain(self.quiet_until.values().copied()).min()
    }

    /// Lets go of pauses that are over.
    pub(super) fn wake(&mut self, now: Instant) {
        self.quiet_until.retain(|_, until| *until > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: NodeId = NodeId(2);

    fn at(millis: u64) -> Instant {
        Instant::ORIGIN.plus_millis(millis)
    }

    #[test]
    fn reply_counts_once_and_only_from_the_peer_that_was_called() {
        let mut calls = Calls::new(u64::MAX);
        let id = calls.open(PEER, CallKind::Vote, at(10));
        assert!(!calls.may_call(PEER, at(0)));
        assert!(calls.close(NodeId(3), id).is_none());
        assert!(calls.close(PEER, id).is_some());
        assert!(calls.close(PEER, id).is_none());
        assert!(calls.may_call(PEER, at(0)));
    }

    #[test]
    fn reply_after_its_deadline_or_another_role_answers_nothing() {
        let mut calls = Calls::new(7);
        let late = calls.open(PEER, CallKind::Fetch, at(10));
        assert_eq!(calls.expire(at(9)).len(), 0);
        assert_eq!(calls.expire(at(10)).len(), 1);
        assert!(calls.close(PEER, late).is_none());
        let old = calls.open(PEER, CallKind::Fetch, at(20));
        calls.forget();
        assert!(calls.close(PEER, old).is_none());
    }

    #[test]
    fn peer_in_peace_is_called_when_the_pause_is_over() {
        let mut calls = Calls::new(7);
        calls.quiet(PEER, at(5));
        assert!(!calls.may_call(PEER, at(4)));
        assert_eq!(calls.deadline(), Some(at(5)));
        assert!(calls.may_call(PEER, at(5)));
        calls.wake(at(5));
        assert_eq!(calls.deadline(), None);
    }
}
