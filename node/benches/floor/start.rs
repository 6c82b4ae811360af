//! From the start of a process on an empty folder to its first acknowledged batch, and the memory that it needs.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    Plan,
    batch::Request,
    client::Client,
    measure::Usage,
    report::{median, sorted},
    subject::{BINARY, await_ready},
};

/// Measures rounds of starts, each beside a bare process and ten flushes; `false` when there is a gate and the first
/// batch takes longer than those.
pub(crate) fn run(plan: &Plan, scratch: &Path) -> bool {
    println!("\nstart on an empty folder: {} rounds", plan.rounds);
    let dir = scratch.join(format!("start-{}", std::process::id()));
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        let bare = bare_process();
        let flushes = ten_flushes(&dir);
        let (first, idle_kib) = first_batch(&dir);
        eprintln!(
            "process {bare:?}, ten flushes {flushes:?}, first batch {first:?}, idle {:.1} MiB",
            idle_kib as f64 / 1024.0
        );
        rounds.push((bare, flushes, first, idle_kib));
    }
    fs::remove_dir_all(&dir).unwrap();
    let millis = |pick: fn(&(Duration, Duration, Duration, u64)) -> Duration| {
        median(&sorted(
            rounds.iter().map(|round| pick(round).as_secs_f64() * 1e3),
        ))
    };
    // Each start is compared with what the same machine did at the same time.
    let ratio = median(&sorted(rounds.iter().map(|(bare, flushes, first, _)| {
        first.as_secs_f64() / (*bare + *flushes).as_secs_f64()
    })));
    println!(
        "process {:.1} ms + ten flushes {:.1} ms; first batch acknowledged after {:.1} ms: {ratio:.2} of that; idle {:.1} MiB",
        millis(|round| round.0),
        millis(|round| round.1),
        millis(|round| round.2),
        median(&sorted(rounds.iter().map(|round| round.3 as f64 / 1024.0)))
    );
    plan.gate.is_none() || ratio <= 1.0
}

/// How long the system takes to start and end a process that does nothing.
fn bare_process() -> Duration {
    let begin = Instant::now();
    let mut command = Command::new(BINARY);
    command.arg("--version").stdout(Stdio::null());
    command.status().unwrap();
    begin.elapsed()
}

fn ten_flushes(dir: &Path) -> Duration {
    let mut file = File::create(dir.join("flushed")).unwrap();
    let begin = Instant::now();
    for _ in 0..10 {
        file.write_all(&[1; 4096]).unwrap();
        file.sync_data().unwrap();
    }
    begin.elapsed()
}

fn first_batch(dir: &Path) -> (Duration, u64) {
    let request = [Request::new(1024, 0, 1)];
    let mut command = Command::new(BINARY);
    command
        .args(["dev", "--listen", "127.0.0.1:0", "--data"])
        .arg(dir.join("data"))
        .env("SEEDLOG_LOG", "error");
    let begin = Instant::now();
    let (mut child, address) = await_ready(command);
    let mut client = Client::connect(address);
    client.await_topic();
    client.produce(&request, 1, 1, true);
    let took = begin.elapsed();
    let usage = Usage::of(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    (took, usage.rss_kib)
}
