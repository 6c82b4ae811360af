//! One lane to one node: an address, perhaps a connection, and the calls that are not answered.

use std::{collections::VecDeque, mem};

use bytes::Bytes;

use super::{Call, CallError, CallId};
use crate::{client::Address, ids::ConnectionId, protocol::split_answer, time::Instant};

/// A call that waits to be sent.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) id: CallId,
    pub(super) call: Call,
    pub(super) deadline: Instant,
}

/// A call that was sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) id: CallId,
    pub(super) api: (i16, i16),
    pub(super) correlation_id: i32,
    pub(super) deadline: Instant,
    pub(super) answer_bytes_max: usize,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Down {
        retry_at: Instant,
    },
    Dialling {
        connection: ConnectionId,
        deadline: Instant,
    },
    Up {
        connection: ConnectionId,
    },
}

/// A lane to a node.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) address: Address,
    pub(super) state: State,
    /// Connections in a row that brought no answer.
    pub(super) failures: u32,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    sent: VecDeque<Sent>,
}

impl Link {
    pub(super) const fn new(address: Address) -> Self {
        Self {
            address,
            state: State::Down {
                retry_at: Instant::ORIGIN,
            },
            failures: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            sent: VecDeque::new(),
        }
    }

    pub(super) const fn connection(&self) -> Option<ConnectionId> {
        match self.state {
            State::Down { .. } => None,
            State::Dialling { connection, .. } | State::Up { connection } => Some(connection),
        }
    }

    pub(super) fn waiting(&self) -> (usize, usize) {
        (self.waiting.len(), self.waiting_bytes)
    }

    pub(super) fn in_flight(&self) -> usize {
        self.sent.len()
    }

    pub(super) fn wait(&mut self, waiting: Waiting) {
        self.waiting_bytes = self.waiting_bytes.saturating_add(waiting.call.body.len());
        self.waiting.push_back(waiting);
    }

    /// Takes the next call that may be sent.
    pub(super) fn next(&mut self, in_flight_max: usize) -> Option<Waiting> {
        if !matches!(self.state, State::Up { .. }) || self.sent.len() >= in_flight_max {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.waiting_bytes = self.waiting_bytes.saturating_sub(next.call.body.len());
        Some(next)
    }

    pub(super) fn sent(&mut self, sent: Sent) {
        self.sent.push_back(sent);
    }

    /// Returns whether there is something to make a connection for, and it is time.
    pub(super) fn wants_dial(&self, now: Instant) -> bool {
        !self.waiting.is_empty()
            && matches!(self.state, State::Down { retry_at } if retry_at <= now)
    }

    /// Takes the oldest call that was sent if `frame` can be its answer; returns the answer's body.
    pub(super) fn answered(&mut self, frame: &Bytes) -> Option<(CallId, Bytes)> {
        let oldest = self.sent.front()?;
        if frame.len() > oldest.answer_bytes_max {
            return None;
        }
        let (correlation_id, body) = split_answer(oldest.api, frame).ok()?;
        if correlation_id != oldest.correlation_id {
            return None;
        }
        let id = oldest.id;
        self.sent.pop_front();
        self.failures = 0;
        Some((id, body))
    }

    /// Forgets the connection; returns how every call ends. One whose time is over has timed out, and the oldest one sent
    /// ends as `oldest` says.
    pub(super) fn down(
        &mut self,
        now: Instant,
        oldest: Option<CallError>,
    ) -> Vec<(CallId, CallError)> {
        self.waiting_bytes = 0;
        let oldest = oldest.filter(|_| !self.sent.is_empty());
        let sent = mem::take(&mut self.sent).into_iter();
        let waiting = mem::take(&mut self.waiting).into_iter();
        let calls = sent
            .map(|call| (call.id, call.deadline))
            .chain(waiting.map(|call| (call.id, call.deadline)));
        let mut ends: Vec<(CallId, CallError)> = calls
            .map(|(id, deadline)| {
                let is_over = deadline <= now;
                (
                    id,
                    if is_over {
                        CallError::TimedOut
                    } else {
                        CallError::LinkLost
                    },
                )
            })
            .collect();
        if let (Some(error), Some(first)) = (oldest, ends.first_mut()) {
            first.1 = error;
        }
        ends
    }

    /// Takes the calls that waited too long.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<CallId> {
        let mut overdue = Vec::new();
        self.waiting.retain(|waiting| {
            let is_over = waiting.deadline <= now;
            if is_over {
                overdue.push(waiting.id);
                self.waiting_bytes = self.waiting_bytes.saturating_sub(waiting.call.body.len());
            }
            !is_over
        });
        overdue
    }

    /// Returns whether the connection is of no more use: it does not come to stand, or an answer does not come.
    pub(super) fn is_stuck(&self, now: Instant) -> bool {
        let dialling = matches!(self.state, State::Dialling { deadline, .. } if deadline <= now);
        dialling || self.sent.iter().any(|sent| sent.deadline <= now)
    }

    /// Returns when the link next needs attention.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let state = match self.state {
            State::Down { retry_at } => Some(retry_at).filter(|_| !self.waiting.is_empty()),
            State::Dialling { deadline, .. } => Some(deadline),
            State::Up { .. } => None,
        };
        let waiting = self.waiting.iter().map(|waiting| waiting.deadline);
        let sent = self.sent.iter().map(|sent| sent.deadline);
        waiting.chain(sent).chain(state).min()
    }
}
