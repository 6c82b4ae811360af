//! How much memory a broker holds: idle, and after a gigabyte went through it.

use std::{fs, path::Path};

use crate::{
    Plan,
    batch::Request,
    client::Client,
    measure::Usage,
    report::{median, sorted},
    subject::Subject,
    work::Work,
};

/// Measures rounds; `false` when there is a gate and a median is above what is promised.
pub(crate) fn run(plan: &Plan, scratch: &Path) -> bool {
    println!(
        "\nmemory, idle and after {PRODUCED_MEBIBYTES} MiB: {} rounds",
        plan.rounds
    );
    let dir = scratch.join(format!("memory-{}", std::process::id()));
    let requests = [Request::new(plan.request_bytes, 0, 1)];
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        let (mut child, address) = Subject::Seedlog.start(Work::Produce, &requests[0], &dir);
        let idle = mebibytes(&Usage::of(child.id()));
        let mut client = Client::connect(address);
        client.create_topic(1);
        client.produce(&requests, PRODUCED_MEBIBYTES << 20, 5, true);
        let loaded = mebibytes(&Usage::of(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        eprintln!("idle {idle:.1} MiB, loaded {loaded:.1} MiB");
        rounds.push((idle, loaded));
    }
    fs::remove_dir_all(&dir).unwrap();
    let idle = median(&sorted(rounds.iter().map(|round| round.0)));
    let loaded = median(&sorted(rounds.iter().map(|round| round.1)));
    println!(
        "idle {idle:.1} MiB of {IDLE_MEBIBYTES_MAX}; after {PRODUCED_MEBIBYTES} MiB {loaded:.1} MiB of {LOADED_MEBIBYTES_MAX}"
    );
    let fits = idle <= IDLE_MEBIBYTES_MAX && loaded <= LOADED_MEBIBYTES_MAX;
    plan.gate.is_none() || fits
}

fn mebibytes(usage: &Usage) -> f64 {
    usage.rss_kib as f64 / 1024.0
}

const PRODUCED_MEBIBYTES: u64 = 1024;
const IDLE_MEBIBYTES_MAX: f64 = 16.0;
const LOADED_MEBIBYTES_MAX: f64 = 48.0;
