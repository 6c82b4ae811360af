//! One connection of a client: dialled again after it is lost, requests answered in order, each within its limit.

use std::collections::VecDeque;

use bytes::Bytes;
use seedlog_core::time::{Instant, Now};

use super::router::links_of;
use crate::{
    client::{ClientInput, ClientLink, ClientOutput},
    history::Note,
    random::Stream,
};

/// A connection to one node; `T` says what a request was for.
#[derive(Debug)]
pub(super) struct Session<T> {
    node: usize,
    link: Option<ClientLink>,
    open: bool,
    connected: Instant,
    /// When to give up dialling, or to dial again.
    turn: Instant,
    next_link: u32,
    next_correlation: i32,
    in_flight: VecDeque<Request<T>>,
    out: VecDeque<ClientOutput>,
    failures: u32,
    begun: bool,
    /// How often a connection was lost or did not come about.
    losses: u64,
}

#[derive(Debug)]
struct Request<T> {
    correlation: i32,
    purpose: T,
    asked: Instant,
    deadline: Instant,
}

/// News from a session.
#[derive(Debug)]
pub(super) enum News<T> {
    /// Requests can be sent.
    Open,
    /// A request was answered.
    Answer(T, Bytes),
    /// The connection is gone: nobody knows whether the request was executed.
    Lost(T),
}

impl<T: std::fmt::Debug> Session<T> {
    pub(super) fn new(node: usize) -> Self {
        Self {
            node,
            link: None,
            open: false,
            connected: Instant::ORIGIN,
            turn: Instant::ORIGIN,
            next_link: links_of(node),
            next_correlation: 0,
            in_flight: VecDeque::new(),
            out: VecDeque::new(),
            failures: 0,
            begun: false,
            losses: 0,
        }
    }

    pub(super) const fn is_open(&self) -> bool {
        self.open
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.begun
    }

    pub(super) const fn losses(&self) -> u64 {
        self.losses
    }

    /// Dials, and dials again after each loss from now on.
    pub(super) fn begin(&mut self, now: Now) {
        self.begun = true;
        self.dial(now);
    }

    fn note(&mut self, note: Note) {
        self.out.push_back(ClientOutput::Note(note));
    }

    pub(super) fn poll_output(&mut self) -> Option<ClientOutput> {
        self.out.pop_front()
    }

    /// Sends a request; `frame` writes it under a correlation id. `purpose` is `None` where no answer comes.
    pub(super) fn send(
        &mut self,
        now: Now,
        limit_ms: u64,
        purpose: Option<T>,
        frame: impl FnOnce(i32) -> Bytes,
    ) {
        let Some(link) = self.link.filter(|_| self.open) else {
            return;
        };
        self.next_correlation = self.next_correlation.wrapping_add(1);
        let frame = frame(self.next_correlation);
        if let Some(purpose) = purpose {
            self.in_flight.push_back(Request {
                correlation: self.next_correlation,
                purpose,
                asked: now.instant,
                deadline: now.instant.plus_millis(limit_ms),
            });
        }
        self.out.push_back(ClientOutput::Send(link, frame));
    }

    /// Takes what happened to the connection.
    pub(super) fn handle(
        &mut self,
        now: Now,
        input: ClientInput,
        stream: &mut Stream,
    ) -> Vec<News<T>> {
        match input {
            ClientInput::Opened(link) if Some(link) == self.link => {
                self.open = true;
                self.connected = now.instant;
                self.failures = 0;
                vec![News::Open]
            }
            ClientInput::Frame(link, bytes) if Some(link) == self.link => {
                self.answer(now, bytes, stream)
            }
            ClientInput::Closed(link) if Some(link) == self.link => self.lose(now, stream),
            ClientInput::Timeout => self.time_out(now, stream),
            ClientInput::Start
            | ClientInput::Opened(_)
            | ClientInput::Frame(..)
            | ClientInput::Closed(_)
            | ClientInput::WindDown => Vec::new(),
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let request = self.in_flight.iter().map(|request| request.deadline).min();
        let turn = (self.begun && !self.open).then_some(self.turn);
        request.into_iter().chain(turn).min()
    }

    /// Closes the connection and dials again after a while.
    fn lose(&mut self, now: Now, stream: &mut Stream) -> Vec<News<T>> {
        if let Some(link) = self.link.take() {
            self.out.push_back(ClientOutput::Close(link));
        }
        self.open = false;
        self.losses += 1;
        self.failures = (self.failures + 1).min(6);
        let backoff = stream.within(20..=60) << self.failures.saturating_sub(1);
        self.turn = now.instant.plus_millis(backoff);
        let lost = std::mem::take(&mut self.in_flight);
        lost.into_iter()
            .map(|request| News::Lost(request.purpose))
            .collect()
    }

    fn dial(&mut self, now: Now) {
        self.next_link += 1;
        let link = ClientLink(self.next_link);
        self.link = Some(link);
        self.open = false;
        self.turn = now.instant.plus_millis(DIAL_LIMIT_MS);
        self.out.push_back(ClientOutput::Dial(link, self.node));
    }

    fn answer(&mut self, now: Now, bytes: Bytes, stream: &mut Stream) -> Vec<News<T>> {
        let correlation = bytes.first_chunk().map(|id| i32::from_be_bytes(*id));
        let expected = self.in_flight.front().map(|request| request.correlation);
        if correlation.is_none() || correlation != expected {
            let what = format!("correlation id {correlation:?} where {expected:?} was due");
            self.note(Note::Garbled { what });
            return self.lose(now, stream);
        }
        let request = self.in_flight.pop_front();
        request
            .map(|request| News::Answer(request.purpose, bytes))
            .into_iter()
            .collect()
    }

    fn time_out(&mut self, now: Now, stream: &mut Stream) -> Vec<News<T>> {
        if !self.open {
            if self.turn > now.instant {
                return Vec::new();
            }
            if self.link.is_some() {
                return self.lose(now, stream);
            }
            self.dial(now);
            return Vec::new();
        }
        let overdue = self
            .in_flight
            .iter()
            .find(|request| request.deadline <= now.instant);
        let Some(overdue) = overdue else {
            return Vec::new();
        };
        let what = format!("no answer to {:?}", overdue.purpose);
        let asked = overdue.asked.as_nanos();
        let connected = self.connected.as_nanos();
        self.note(Note::Overdue {
            what,
            connected,
            asked,
        });
        self.lose(now, stream)
    }
}

const DIAL_LIMIT_MS: u64 = 3_000;
