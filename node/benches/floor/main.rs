//! What a gigabyte costs, against a broker that does nothing.
//!
//! Each round starts every subject anew, in changing order, gives it the same work over a real socket, and reads from the system
//! how much processor time its process took and how often its threads went to sleep. Ratios within one run hold on any machine;
//! absolute figures do not.
//!
//! ```text
//! cargo bench -p seedlog --bench floor [-- produce|durable|fetch|start|memory|replicated|failover …]
//!     [--rounds N] [--mebibytes N] [--request BYTES] [--partitions N] [--idle N]
//!     [--gate RATIO]
//! ```
//!
//! `replicated` compares three brokers with one, and then does what `failover` alone does: it makes many partitions on three
//! brokers, watches them idle, kills a leader, and prints how long that took.

#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on has nothing better to do"
)]

use std::{path::PathBuf, process::ExitCode};

mod batch;
mod client;
mod cluster;
mod driver;
mod failover;
mod floor;
mod measure;
mod memory;
mod replicated;
mod report;
mod start;
mod subject;
mod work;

use measure::Sample;
use subject::Subject;
use work::{Plan, Work};

fn main() -> ExitCode {
    if let Some(code) = subject::run_as_subject() {
        return code;
    }
    let plan = Plan::from_arguments();
    let mut passed = true;
    for work in plan.works() {
        passed &= compare(work, &plan);
    }
    if plan.asks_for("start") {
        passed &= start::run(&plan, &scratch());
    }
    if plan.asks_for("memory") {
        passed &= memory::run(&plan, &scratch());
    }
    if plan.asks_for("replicated") {
        replicated::run(&plan, &scratch());
    }
    if plan.asks_for("replicated") || plan.asks_for("failover") {
        failover::run(&plan, &scratch());
    }
    if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs all rounds of one kind of work; `false` when the gate is missed.
fn compare(work: Work, plan: &Plan) -> bool {
    let subjects = Subject::of(work);
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); subjects.len()];
    println!(
        "\n{work}: {} rounds of {} MiB",
        plan.rounds,
        work.bytes(plan) >> 20
    );
    for round in 0..plan.rounds {
        for turn in 0..subjects.len() {
            // The order changes, so that no subject always finds the memory that another has warmed.
            let at = (turn + round) % subjects.len();
            let sample = measure::run(subjects[at], work, plan, &scratch());
            eprintln!("round {} {:>8}: {sample}", round + 1, subjects[at].name());
            samples[at].push(sample);
        }
    }
    report::print(&subjects, &samples, plan)
}

/// A folder on the disk of the build, and not in a file system of memory.
fn scratch() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}
