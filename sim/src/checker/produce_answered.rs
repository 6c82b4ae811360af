//! ProduceAnswered: in a healed cluster every request is answered within its limit, and a retrying producer succeeds.

use super::{Checker, Phase, Seen, Verdict};
use crate::{ghost::Ghost, history::Note, time::SimTime};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ProduceAnswered {
    ready_since: Option<SimTime>,
}

impl Checker for ProduceAnswered {
    fn name(&self) -> &'static str {
        "ProduceAnswered"
    }

    fn see(&mut self, ghost: &Ghost, seen: &Seen<'_>, verdict: &mut Verdict<'_>) {
        match seen {
            Seen::Node { change, .. } => {
                self.ready_since = match change {
                    super::NodeChange::Ready => Some(verdict.at()),
                    _ => None,
                };
            }
            Seen::Note {
                client,
                note:
                    Note::Overdue {
                        what,
                        connected,
                        asked,
                    },
                ..
            } => {
                let (phase, since) = ghost.phase();
                let calm = phase == Phase::Settle || phase == Phase::Drain;
                let since = self.ready_since.unwrap_or(SimTime::NEVER).max(since);
                // A connection that lost its way before the heal stays lost, and its end that notices nothing goes on sending.
                let is_sound = SimTime::from_nanos(*connected) > since;
                let asked = SimTime::from_nanos(*asked);
                if calm && is_sound && asked > since.plus_millis(GRACE_MS) {
                    verdict.fail(
                        "a healed cluster answers every request within its limit",
                        format!("client {client}: {what}"),
                    );
                }
            }
            _ => {}
        }
    }

    fn judge(&mut self, ghost: &Ghost, verdict: &mut Verdict<'_>) {
        for (id, write) in ghost.writes() {
            let excused = ghost.is_offline(write.place) || ghost.is_beyond_any();
            if !write.settled && !excused {
                verdict.fail(
                    "a retrying producer gets a definite answer once the faults are over",
                    format!(
                        "write {} to {} invoked at {}, sent {} times: {:?}",
                        id.0,
                        ghost.places().partition(write.place),
                        write.invoked,
                        write.transmissions,
                        write.outcome
                    ),
                );
                return;
            }
        }
        for place in ghost.places().all() {
            let drained = ghost.drained_bounds(place).is_some();
            if !drained && !ghost.is_offline(place) && !ghost.is_beyond_any() {
                verdict.fail(
                    "a healed cluster lets every partition be read to its high watermark",
                    format!(
                        "{} could not be drained; last error {:?}",
                        ghost.places().partition(place),
                        ghost.unreadable(place)
                    ),
                );
            }
        }
    }
}

/// So long after the heal brokers may wait for others on connections that lost their way before (`replica.socket.timeout.ms`).
const GRACE_MS: u64 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::{NodeChange, bench::Bench},
        history::{Acks, WriteId},
    };

    #[test]
    fn write_without_an_end_is_rejected() {
        let mut bench = Bench::new(ProduceAnswered::default(), true);
        bench.write(1, Acks::All, 1);
        bench.drain(&[]);
        assert!(bench.rejects("write 1"));
    }

    #[test]
    fn settled_write_is_accepted() {
        let mut bench = Bench::new(ProduceAnswered::default(), true);
        bench.write(1, Acks::All, 1);
        bench.ack(1, 0);
        bench.note(Note::Settled {
            write: WriteId(1),
            acknowledged: true,
        });
        bench.drain(&[1]);
        assert!(bench.is_ok());
    }

    #[test]
    fn overdue_answer_counts_only_in_a_calm_cluster() {
        let overdue = |connected_ms, asked_ms| Note::Overdue {
            what: "no answer".to_owned(),
            connected: SimTime::from_millis(connected_ms).as_nanos(),
            asked: SimTime::from_millis(asked_ms).as_nanos(),
        };
        let mut bench = Bench::new(ProduceAnswered::default(), true);
        bench.phase(Phase::Safety);
        bench.pass_millis(1_000);
        bench.note(overdue(1, 2));
        bench.node(NodeChange::Ready);
        bench.phase(Phase::Settle);
        bench.pass_millis(60_000);
        bench.note(overdue(1, 999));
        assert!(
            bench.is_ok(),
            "it was sent before the heal, with a long limit"
        );
        bench.note(overdue(1, 20_000));
        assert!(bench.is_ok(), "its connection was made before the heal");
        bench.note(overdue(1_500, 2_000));
        assert!(bench.is_ok(), "brokers may wait for each other yet");
        bench.note(overdue(1_500, 7_000));
        assert!(bench.rejects("no answer"));
    }
}
