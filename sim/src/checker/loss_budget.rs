//! loss-budget: acks=1 loses only what its leader's power loss took unsynced; acks=0 promises nothing, and is not stored twice.

use super::{Checker, Seen, Verdict, lost_write};
use crate::{ghost::Ghost, history::Acks};

/// See the module.
#[derive(Debug)]
pub(super) struct LossBudget;

impl Checker for LossBudget {
    fn name(&self) -> &'static str {
        "loss-budget"
    }

    fn see(&mut self, _ghost: &Ghost, _seen: &Seen<'_>, _verdict: &mut Verdict<'_>) {}

    fn judge(&mut self, ghost: &Ghost, verdict: &mut Verdict<'_>) {
        for (id, write) in ghost.writes() {
            match write.acks {
                Acks::Leader => lost_write::find(ghost, id, write, verdict),
                Acks::None => {
                    if let Some((acked, _)) = write.acked {
                        verdict.fail(
                            "acks=0 gets no answer",
                            format!("write {} answered with offset {}", id.0, acked.base),
                        );
                    }
                }
                Acks::All => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::bench::Bench;

    #[test]
    fn acks_1_value_lost_without_a_power_loss_is_rejected() {
        let mut bench = Bench::new(LossBudget, false);
        bench.write(1, Acks::Leader, 1);
        bench.ack(1, 0);
        bench.drain(&[]);
        assert!(bench.rejects("1 of 1 values missing"));
    }

    #[test]
    fn acks_0_value_may_be_missing() {
        let mut bench = Bench::new(LossBudget, false);
        bench.write(1, Acks::None, 1);
        bench.drain(&[]);
        assert!(bench.is_ok());
    }
}
