//! Fetch requests that wait, for data or for the disk, and how to find them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fetching, Key};
use crate::{
    ids::ConnectionId,
    log::ReadId,
    protocol::FetchPartition,
    replication::{FetchSessions, SlotId},
    time::Instant,
};

/// All Fetch requests that wait, and the sessions they belong to.
#[derive(Debug)]
pub(in crate::frontend) struct ParkedFetches {
    pub(super) sessions: FetchSessions<Key, FetchPartition>,
    fetches: BTreeMap<u64, Fetching>,
    by_connection: BTreeMap<ConnectionId, u64>,
    by_slot: BTreeMap<SlotId, BTreeSet<u64>>,
    by_session: BTreeMap<i32, u64>,
    reading: BTreeMap<ReadId, u64>,
    deadlines: BTreeSet<(Instant, u64)>,
    next: u64,
    next_read: u64,
}

impl ParkedFetches {
    /// Begins with this many places for sessions.
    pub(in crate::frontend) const fn new(session_slots: usize) -> Self {
        Self {
            sessions: FetchSessions::new(session_slots),
            fetches: BTreeMap::new(),
            by_connection: BTreeMap::new(),
            by_slot: BTreeMap::new(),
            by_session: BTreeMap::new(),
            reading: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next: 0,
            next_read: 0,
        }
    }

    pub(in crate::frontend) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub(in crate::frontend) fn on_closed(&mut self, connection: ConnectionId) {
        if let Some(id) = self.by_connection.get(&connection).copied() {
            self.take(id);
        }
    }

    /// Numbers a new request.
    pub(super) const fn new_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Numbers a read.
    pub(super) const fn new_read(&mut self) -> ReadId {
        self.next_read += 1;
        ReadId(self.next_read)
    }

    /// Lets a request wait until there is more to read, or its time is over.
    pub(super) fn park(&mut self, id: u64, fetching: Fetching) {
        for slot in fetching.slots() {
            self.by_slot.entry(slot).or_default().insert(id);
        }
        if let Some(session) = fetching.session() {
            self.by_session.insert(session, id);
        }
        self.deadlines.insert((fetching.deadline, id));
        self.put(id, fetching);
    }

    /// Lets a request wait for a read.
    pub(super) fn read(&mut self, id: u64, read: ReadId, fetching: Fetching) {
        self.reading.insert(read, id);
        self.put(id, fetching);
    }

    fn put(&mut self, id: u64, fetching: Fetching) {
        self.by_connection
            .insert(fetching.call.token.connection, id);
        self.fetches.insert(id, fetching);
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut Fetching> {
        self.fetches.get_mut(&id)
    }

    pub(super) fn take(&mut self, id: u64) -> Option<Fetching> {
        let fetching = self.fetches.remove(&id)?;
        self.by_connection.remove(&fetching.call.token.connection);
        self.deadlines.remove(&(fetching.deadline, id));
        for slot in fetching.slots() {
            if let Some(waiting) = self.by_slot.get_mut(&slot) {
                waiting.remove(&id);
                if waiting.is_empty() {
                    self.by_slot.remove(&slot);
                }
            }
        }
        if let Some(session) = fetching.session()
            && self.by_session.get(&session) == Some(&id)
        {
            self.by_session.remove(&session);
        }
        Some(fetching)
    }

    /// Takes the request that a read belongs to.
    pub(super) fn take_reader(&mut self, read: ReadId) -> Option<(u64, Fetching)> {
        let id = self.reading.remove(&read)?;
        Some((id, self.take(id)?))
    }

    /// Returns the parked requests that read a partition, directly or by their sessions.
    pub(super) fn waiting_for(&self, slot: SlotId, keys: &[Key]) -> BTreeSet<u64> {
        let mut waiting = self.by_slot.get(&slot).cloned().unwrap_or_default();
        let watchers = keys.iter().flat_map(|key| self.sessions.watchers(key));
        waiting.extend(watchers.filter_map(|session| self.by_session.get(&session)));
        waiting
    }

    /// Returns all parked requests.
    pub(super) fn parked(&self) -> Vec<u64> {
        self.deadlines.iter().map(|(_, id)| *id).collect()
    }

    /// Returns a parked request whose time is over.
    pub(super) fn overdue(&self, now: Instant) -> Option<u64> {
        self.deadlines
            .first()
            .filter(|(deadline, _)| *deadline <= now)
            .map(|(_, id)| *id)
    }
}
