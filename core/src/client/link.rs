//! One broker as a client sees it: an address, perhaps a connection, and what waits for answers.
//!
//! | state | meaning | leads on |
//! | --- | --- | --- |
//! | down | no connection, none before `retry_at` | connecting |
//! | connecting | the driver is at it | negotiating, down |
//! | negotiating | ApiVersions is asked | ready, down |
//! | ready | requests may be sent | down |

use std::collections::{BTreeMap, VecDeque};

use super::Address;
use crate::{
    ids::ConnectionId,
    protocol::{ApiKey, VersionRange},
    time::Instant,
};

/// A request that waits for its answer.
#[derive(Clone, Debug)]
pub(super) struct InFlight<T> {
    pub(super) correlation_id: i32,
    pub(super) api: ApiKey,
    pub(super) version: i16,
    pub(super) deadline: Instant,
    pub(super) tag: T,
}

/// How far a connection has come.
#[derive(Clone, Debug)]
enum State {
    Down,
    Connecting {
        connection: ConnectionId,
        deadline: Instant,
    },
    Negotiating {
        connection: ConnectionId,
    },
    Ready {
        connection: ConnectionId,
        versions: BTreeMap<ApiKey, VersionRange>,
    },
}

/// A broker and the way to it.
#[derive(Clone, Debug)]
pub(super) struct Link<T> {
    pub(super) address: Address,
    state: State,
    failures: u32,
    retry_at: Instant,
    in_flight: VecDeque<InFlight<T>>,
}

impl<T> Link<T> {
    pub(super) const fn new(address: Address) -> Self {
        Self {
            address,
            state: State::Down,
            failures: 0,
            retry_at: Instant::ORIGIN,
            in_flight: VecDeque::new(),
        }
    }

    pub(super) fn begin(&mut self, connection: ConnectionId, deadline: Instant) {
        self.state = State::Connecting {
            connection,
            deadline,
        };
    }

    pub(super) fn connected(&mut self, connection: ConnectionId) {
        self.state = State::Negotiating { connection };
    }

    pub(super) fn negotiated(&mut self, versions: BTreeMap<ApiKey, VersionRange>) {
        if let State::Negotiating { connection } = self.state {
            self.failures = 0;
            self.state = State::Ready {
                connection,
                versions,
            };
        }
    }

    /// Forgets the connection; returns what will not be answered any more.
    pub(super) fn down(&mut self) -> VecDeque<InFlight<T>> {
        self.state = State::Down;
        self.failures = self.failures.saturating_add(1);
        std::mem::take(&mut self.in_flight)
    }

    pub(super) const fn retry_at(&mut self, at: Instant) {
        self.retry_at = at;
    }

    pub(super) fn sent(&mut self, request: InFlight<T>) {
        self.in_flight.push_back(request);
    }

    pub(super) fn answered(&mut self) -> Option<InFlight<T>> {
        self.in_flight.pop_front()
    }

    pub(super) fn oldest(&self) -> Option<&InFlight<T>> {
        self.in_flight.front()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    pub(super) const fn failures(&self) -> u32 {
        self.failures
    }

    pub(super) const fn connection(&self) -> Option<ConnectionId> {
        match self.state {
            State::Down => None,
            State::Connecting { connection, .. }
            | State::Negotiating { connection }
            | State::Ready { connection, .. } => Some(connection),
        }
    }

    pub(super) const fn is_connecting(&self) -> bool {
        matches!(self.state, State::Connecting { .. })
    }

    pub(super) const fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready { .. })
    }

    /// Says whether a connection may be made now.
    pub(super) fn may_connect(&self, now: Instant) -> bool {
        matches!(self.state, State::Down) && now >= self.retry_at
    }

    /// Says whether a connection is being made.
    pub(super) const fn is_coming(&self) -> bool {
        matches!(
            self.state,
            State::Connecting { .. } | State::Negotiating { .. }
        )
    }

    /// Returns the highest version up to `cap` that both sides speak.
    pub(super) fn version(&self, api: ApiKey, cap: i16) -> Option<i16> {
        let State::Ready { versions, .. } = &self.state else {
            return None;
        };
        let theirs = versions.get(&api)?;
        let ours = api.spec().served;
        let version = theirs.max.min(ours.max).min(cap);
        (version >= theirs.min.max(ours.min)).then_some(version)
    }

    /// Returns when the link gives up what it waits for.
    pub(super) fn expires(&self) -> Option<Instant> {
        match self.state {
            State::Connecting { deadline, .. } => Some(deadline),
            State::Down | State::Negotiating { .. } | State::Ready { .. } => {
                self.in_flight.front().map(|oldest| oldest.deadline)
            }
        }
    }

    /// Returns when the link next needs attention after `now`.
    pub(super) fn wakes(&self, now: Instant) -> Option<Instant> {
        match self.state {
            // What wanted this broker tries again when it may.
            State::Down => Some(self.retry_at).filter(|at| *at > now),
            _ => self.expires(),
        }
    }
}
