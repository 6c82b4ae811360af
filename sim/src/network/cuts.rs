//! Cuts: nothing gets through from some ends to others, in one direction, for a while.

use serde::{Deserialize, Serialize};

use super::End;
use crate::time::SimTime;

/// Some ends of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ends {
    /// One broker.
    Node(usize),
    /// All brokers.
    Nodes,
    /// All clients.
    Clients,
    /// Everybody.
    All,
}

impl Ends {
    const fn contain(self, end: End) -> bool {
        match (self, end) {
            (Self::All, _) | (Self::Clients, End::Client(_)) | (Self::Nodes, End::Node(_)) => true,
            (Self::Node(node), End::Node(one)) => node == one,
            (Self::Node(_) | Self::Nodes, End::Client(_)) | (Self::Clients, End::Node(_)) => false,
        }
    }
}

/// What no longer gets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Who is not heard …
    pub from: Ends,
    /// … by whom.
    pub to: Ends,
    /// Only on connections to this listener, whoever of the two ends made them: the control plane, say. On all if `None`.
    pub listener: Option<u16>,
}

/// The cuts of the moment.
#[derive(Clone, Debug)]
pub(super) struct Cuts(Vec<(Cut, SimTime)>);

impl Cuts {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn add(&mut self, cut: Cut, until: SimTime) {
        self.0.push((cut, until));
    }

    pub(super) fn expire(&mut self, now: SimTime) {
        self.0.retain(|(_, until)| *until > now);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether a cut lies between two ends. What a machine says to itself leaves no machine.
    pub(super) fn block(&self, now: SimTime, from: End, to: End, listener: u16) -> bool {
        from != to
            && self.0.iter().any(|(cut, until)| {
                *until > now
                    && cut.from.contain(from)
                    && cut.to.contain(to)
                    && cut.listener.is_none_or(|only| only == listener)
            })
    }
}
