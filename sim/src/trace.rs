//! The last things that happened, kept in memory and rendered only when a run failed.

use std::{collections::VecDeque, fmt};

use seedlog_core::event::Event;

use crate::{checker::Phase, history::Note, time::SimTime};

/// A ring of the last lines. Whether it is kept changes nothing in a run.
#[derive(Debug)]
pub struct Trace {
    lines: VecDeque<Line>,
    capacity: usize,
}

#[derive(Debug)]
struct Line {
    at: SimTime,
    step: u64,
    what: What,
}

/// Something worth a line.
#[derive(Clone, Debug)]
pub enum What {
    /// A new phase.
    Phase(Phase),
    /// A broker's event.
    Event(usize, Event),
    /// A change of a node's process or machine.
    Node(usize, String),
    /// A fault was injected.
    Fault(String),
    /// A client's line of the history.
    Note(usize, Box<Note>),
    /// A client's read: place, first offset asked for, how many records, high watermark.
    Read(usize, usize, i64, usize, i64),
}

impl Trace {
    /// Makes a ring of so many lines; none if 0.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self {
            lines: VecDeque::new(),
            capacity,
        }
    }

    /// Keeps a line, if lines are kept at all.
    pub fn push(&mut self, at: SimTime, step: u64, what: impl FnOnce() -> What) {
        if self.capacity == 0 {
            return;
        }
        if self.lines.len() == self.capacity {
            self.lines.pop_front();
        }
        let what = what();
        self.lines.push_back(Line { at, step, what });
    }

    /// Renders the last `count` lines.
    #[must_use]
    pub fn render(&self, count: usize) -> String {
        let skip = self.lines.len().saturating_sub(count);
        let lines = self.lines.iter().skip(skip).map(ToString::to_string);
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Renders the faults among the kept lines.
    #[must_use]
    pub fn faults(&self) -> String {
        let lines = self
            .lines
            .iter()
            .filter(|line| matches!(line.what, What::Fault(_)));
        lines
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} #{:<8} ", self.at, self.step)?;
        match &self.what {
            What::Phase(phase) => write!(f, "======== {phase:?}"),
            What::Event(node, event) => write!(f, "node {node}   {event:?}"),
            What::Node(node, change) => write!(f, "node {node}   -- {change}"),
            What::Fault(fault) => write!(f, "FAULT    {fault}"),
            What::Note(client, note) => write!(f, "client {client} {note}"),
            What::Read(client, place, from, count, high_watermark) => write!(
                f,
                "client {client} read {count} records of place {place} from {from}, high watermark {high_watermark}"
            ),
        }
    }
}
