//! The fault plan as far as it is carried out: what waits for which moment.

use std::collections::BTreeMap;

use crate::{
    budget::Budget,
    plan::{Decisive, Fault, Moment, OpKind, Plan, PlannedFault, Trigger},
};

/// A fault that strikes at a certain storage operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strike {
    pub(super) index: usize,
    pub(super) moment: Moment,
}

/// The plan of a run, as far as it is carried out.
#[derive(Debug, Default)]
pub(super) struct PlanRunner {
    pub(super) faults: Vec<Waiting>,
    struck: BTreeMap<(usize, u64), Strike>,
    pub(super) budget: Option<Budget>,
    pub(super) lossy: usize,
}

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) planned: PlannedFault,
    pub(super) seen: u64,
    pub(super) done: bool,
}

impl PlanRunner {
    /// Takes a plan; returns the faults with a fixed time, in milliseconds from now.
    pub(super) fn load(&mut self, plan: Plan) -> Vec<(usize, u64)> {
        let waiting = plan.faults.into_iter().map(|planned| Waiting {
            planned,
            seen: 0,
            done: false,
        });
        self.faults = waiting.collect();
        let timed = self.faults.iter().enumerate();
        timed
            .filter_map(|(index, fault)| match fault.planned.when {
                Trigger::At(at_ms) => Some((index, at_ms)),
                Trigger::Storage { .. } | Trigger::Event { .. } => None,
            })
            .collect()
    }

    pub(super) fn watches_storage(&self, node: usize) -> bool {
        self.faults.iter().any(|fault| {
            !fault.done
                && matches!(&fault.planned.when, Trigger::Storage { node: n, .. } if *n == node)
        })
    }

    /// Counts a storage operation; returns the fault whose moment it is.
    pub(super) fn storage(&mut self, node: usize, op: OpKind, path: &str) -> Option<Strike> {
        let mut strike = None;
        for (index, fault) in self.faults.iter_mut().enumerate() {
            let Trigger::Storage {
                node: wanted,
                kind,
                file,
                nth,
                moment,
            } = &fault.planned.when
            else {
                continue;
            };
            if fault.done || *wanted != node || !kind.covers(op) || !file.matches(path) {
                continue;
            }
            fault.seen += 1;
            if fault.seen == *nth && strike.is_none() {
                // Only a dying process can leave an operation without its completion.
                let moment = if ends_node(&fault.planned.what, node) {
                    *moment
                } else {
                    Moment::Before
                };
                strike = Some(Strike { index, moment });
            }
        }
        strike
    }

    /// Counts a decisive event; returns the faults whose moment it is.
    pub(super) fn event(&mut self, node: usize, event: Decisive) -> Vec<usize> {
        let mut due = Vec::new();
        for (index, fault) in self.faults.iter_mut().enumerate() {
            let Trigger::Event {
                node: wanted,
                event: kind,
                nth,
            } = &fault.planned.when
            else {
                continue;
            };
            if fault.done || *wanted != node || *kind != event {
                continue;
            }
            fault.seen += 1;
            if fault.seen == *nth {
                due.push(index);
            }
        }
        due
    }

    pub(super) fn expect(&mut self, node: usize, ticket: u64, strike: Strike) {
        self.struck.insert((node, ticket), strike);
    }

    pub(super) fn take_strike(&mut self, node: usize, ticket: u64) -> Option<Strike> {
        self.struck.remove(&(node, ticket))
    }

    pub(super) fn forget_strikes(&mut self, node: usize) {
        self.struck.retain(|(n, _), _| *n != node);
    }
}

/// Whether a fault ends the process of this very node, whoever has a role by then.
fn ends_node(fault: &Fault, node: usize) -> bool {
    let is_for_all = matches!(fault, Fault::PowerLossAll { .. });
    ends_process(fault) && (is_for_all || fault.node() == Some(node))
}

pub(super) fn ends_process(fault: &Fault) -> bool {
    if let Fault::Aimed { fault, .. } = fault {
        return ends_process(fault);
    }
    matches!(
        fault,
        Fault::Crash { .. }
            | Fault::PowerLoss { .. }
            | Fault::PowerLossAll { .. }
            | Fault::Wipe { .. }
            | Fault::Damage { clean: false, .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{aim::Aim, plan::Glob};

    fn moment_of(what: Fault) -> Moment {
        let when = Trigger::Storage {
            node: 1,
            kind: OpKind::Any,
            file: Glob::any(),
            nth: 1,
            moment: Moment::After,
        };
        let mut runner = PlanRunner::default();
        runner.load(Plan {
            faults: vec![PlannedFault { when, what }],
        });
        runner.storage(1, OpKind::Sync, "x.log").unwrap().moment
    }

    #[test]
    fn only_the_death_of_its_own_process_leaves_an_operation_without_its_completion() {
        let crash = |node| Fault::Crash { node, down_ms: 5 };
        let aimed = Fault::Aimed {
            at: Aim::Controller,
            fault: Box::new(crash(1)),
        };
        assert_eq!(moment_of(crash(1)), Moment::After);
        assert_eq!(moment_of(crash(0)), Moment::Before, "another node dies");
        assert_eq!(moment_of(aimed), Moment::Before, "whoever it is by then");
    }
}
