//! NoPanic: no assertion, overflow or endless loop in a broker, and every answer is one that the protocol allows.

use super::{Checker, NodeChange, Seen, Verdict};
use crate::{ghost::Ghost, history::Note};

/// See the module.
#[derive(Debug)]
pub(super) struct NoPanic;

impl Checker for NoPanic {
    fn name(&self) -> &'static str {
        "NoPanic"
    }

    fn see(&mut self, _ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        match seen {
            Seen::Node {
                node,
                change: NodeChange::Panicked(message),
                ..
            } => verdict.fail(
                "no input makes a broker panic or spin",
                format!("node {node}: {message}"),
            ),
            Seen::Note {
                client,
                note: Note::Garbled { what },
                ..
            } => verdict.fail(
                "every answer is one that the protocol allows",
                format!("client {client}: {what}"),
            ),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::bench::Bench;

    #[test]
    fn panic_and_garbled_answer_are_rejected() {
        let mut bench = Bench::new(NoPanic, true);
        bench.node(NodeChange::Started);
        bench.node(NodeChange::Crashed);
        assert!(bench.is_ok(), "a kill is not a panic");
        bench.node(NodeChange::Panicked("index out of bounds"));
        assert!(bench.rejects("index out of bounds"));

        let mut bench = Bench::new(NoPanic, true);
        bench.note(Note::Garbled {
            what: "two bytes too many".to_owned(),
        });
        assert!(bench.rejects("two bytes too many"));
    }
}
