//! Shrinking: fewer faults and a shorter run that still fail in the same way.

use seedlog_sim::{plan::PlannedFault, report::Report, run::Watch};

use crate::capsule::{Capsule, failed_after, fingerprint};

/// What shrinking did.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest capsule found.
    pub capsule: Capsule,
    /// The report of its run.
    pub report: Report,
    /// How many runs it took.
    pub runs: u64,
}

/// Makes a failing run smaller: delta debugging over its faults, then over its length. Only the same failure counts.
///
/// `None` if the capsule does not fail.
#[must_use]
pub fn shrink(capsule: &Capsule) -> Option<Shrunk> {
    let watch = Watch {
        trace_lines: 0,
        ..Watch::default()
    };
    let report = capsule.run(&watch);
    let wanted = fingerprint(&report)?;
    let mut best = Shrunk {
        capsule: capsule.clone(),
        report,
        runs: 1,
    };
    best.capsule.fails = Some(wanted.clone());
    let mut fails = |candidate: &Capsule, best: &mut Shrunk| {
        best.runs += 1;
        let report = candidate.run(&watch);
        let same = fingerprint(&report).as_ref() == Some(&wanted);
        if same {
            best.capsule = candidate.clone();
            best.report = report;
        }
        same
    };
    shorten(&mut best, &mut fails);
    fewer(&mut best, &mut fails);
    shorten(&mut best, &mut fails);
    best.report = best.capsule.run(&Watch::default());
    Some(best)
}

/// Ends the safety phase soon after the failure, or sooner still.
fn shorten(best: &mut Shrunk, fails: &mut impl FnMut(&Capsule, &mut Shrunk) -> bool) {
    let Some(after) = failed_after(&best.report) else {
        return;
    };
    let after = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
    for millis in [after / 4, after / 2, after, after + 1_000] {
        let shorter = best.capsule.lasting_ms.is_none_or(|now| millis < now);
        if !shorter {
            continue;
        }
        let candidate = Capsule {
            lasting_ms: Some(millis),
            ..best.capsule.clone()
        };
        if fails(&candidate, best) {
            return;
        }
    }
}

/// Delta debugging: leaves out ever smaller parts of the plan for as long as it still fails.
fn fewer(best: &mut Shrunk, fails: &mut impl FnMut(&Capsule, &mut Shrunk) -> bool) {
    let mut part = best.capsule.plan.faults.len().div_ceil(2);
    while part > 0 {
        let mut at = 0;
        while at < best.capsule.plan.faults.len() {
            let mut candidate = best.capsule.clone();
            candidate.plan.faults = without(&best.capsule.plan.faults, at, part);
            if !fails(&candidate, best) {
                at += part;
            }
        }
        part = if part == 1 { 0 } else { part.div_ceil(2) };
    }
}

fn without(faults: &[PlannedFault], at: usize, count: usize) -> Vec<PlannedFault> {
    let left = faults.iter().take(at);
    left.chain(faults.iter().skip(at + count))
        .cloned()
        .collect()
}
