//! The server checks of odradek-accept (package `odradek-acceptance`) against one broker and against three.
//!
//! Every check of what Seedlog serves must pass, and all outcomes, those of what it does not serve yet included, must be those
//! of `baseline.json`. Run it with `cargo test -p seedlog --test odradek`; it installs the tool below `target/` first (see
//! `.ci/odradek`). After `--`: `--write-baseline` records the outcomes of one broker anew; `--against-kafka` asks Apache Kafka
//! instead, prints what does not pass there and compares nothing. `SEEDLOG_BIN` names another binary than the one just built.

#[path = "../clients/broker.rs"]
#[expect(dead_code, reason = "shared with tests that also stop brokers")]
mod broker;
#[path = "../clients/raw/mod.rs"]
#[expect(dead_code, reason = "shared with tests that ask for more")]
mod raw;
mod router;
#[path = "../clients/tools.rs"]
mod tools;

use std::{
    collections::BTreeMap,
    env, fs,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    thread,
};

use serde_json::Value;

use crate::{broker::Site, router::Router};

/// What Seedlog serves, as the first part of a check's name.
const SERVED: [&str; 6] = [
    "api-versions/",
    "metadata/",
    "produce/",
    "fetch/",
    "list-offsets/",
    "create-topics/",
];

/// A check of what is served, whose area has others of what is not.
const DELETE_TOPICS: &str = "admin/delete-topics-removes-the-topic";

/// Checks of idempotent producers, which Seedlog does not know yet.
const IDEMPOTENCE: [&str; 2] = [
    "produce/idempotent-retry-is-deduped",
    "produce/sequence-gap-is-refused",
];

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let option = arguments.next();
    if arguments.next().is_some()
        || !matches!(
            option.as_deref(),
            None | Some("--write-baseline" | "--against-kafka")
        )
    {
        eprintln!("expected nothing, --write-baseline or --against-kafka");
        return ExitCode::from(2);
    }
    let tool = tools::install("odradek", "odradek-0.1.0").join("bin/odradek-accept");
    let baseline = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/odradek/baseline.json");
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("odradek");
    match option.as_deref() {
        None => check(&tool, &baseline, &work),
        Some("--write-baseline") => {
            let (_process, addresses) = start(1, &work);
            let run = Run::of(
                &tool,
                addresses[0],
                &["--write-baseline".as_ref(), &baseline],
            );
            run.report("one broker")
        }
        Some(_) => {
            let kafka = tools::install("kafka-jars", "kafka-4.3.1");
            let site = Site::new(&work.join("kafka"), None, "");
            let _process = site.start_kafka(&kafka);
            Run::of(&tool, site.address(), &[]).report("Apache Kafka")
        }
    }
}

/// One broker alone, then three, asked through each of them.
fn check(tool: &Path, baseline: &Path, work: &Path) -> ExitCode {
    let mut failed = 0;
    let mut passed = 0;
    let mut judge = |name: &str, run: &Run| {
        let wrong = run.wrong();
        for line in &wrong {
            println!("WRONG {name}: {line}");
        }
        let held = wrong.is_empty();
        if held {
            println!("ok    {name}: {}", run.summary());
        }
        *(if held { &mut passed } else { &mut failed }) += 1;
    };
    let compared = ["--baseline".as_ref(), baseline];
    let (one, addresses) = start(1, work);
    judge("one broker", &Run::of(tool, addresses[0], &compared));
    drop(one);

    let (_three, addresses) = start(3, work);
    let runs: Vec<_> = (0..addresses.len())
        .map(|entry| {
            let router = Router::before(addresses.clone(), entry);
            let (tool, baseline) = (tool.to_owned(), baseline.to_owned());
            thread::spawn(move || {
                let compared = ["--baseline".as_ref(), baseline.as_path()];
                Run::of(&tool, router, &compared)
            })
        })
        .collect();
    for (entry, run) in runs.into_iter().enumerate() {
        let run = run.join().expect("the tool runs");
        judge(&format!("three brokers through broker {}", entry + 1), &run);
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// `seedlog dev`, killed when dropped.
struct Dev(Child);

impl Drop for Dev {
    fn drop(&mut self) {
        let _already_gone = self.0.kill();
        let _already_gone = self.0.wait();
    }
}

fn start(brokers: u16, work: &Path) -> (Dev, Vec<SocketAddr>) {
    let folder = work.join(format!("{brokers}-brokers"));
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("the folder of an earlier run can be removed");
    }
    fs::create_dir_all(&folder).expect("a folder below target/ can be made");
    let binary = env::var_os("SEEDLOG_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_seedlog").into());
    let log =
        fs::File::create(folder.join("broker.log")).expect("a file below target/ can be made");
    let mut child = Command::new(binary)
        .args(["dev", "--brokers", &brokers.to_string()])
        .args(["--listen", "127.0.0.1:0", "--data"])
        .arg(folder.join("data"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .expect("the broker's binary starts");
    let stdout = child.stdout.take().expect("standard output is a pipe");
    let dev = Dev(child);
    let mut line = String::new();
    let read = BufReader::new(stdout).read_line(&mut line);
    read.expect("standard output can be read");
    let addresses = line.trim().strip_prefix("ready bootstrap=");
    let addresses = addresses.unwrap_or_else(|| panic!("the broker said {line:?}"));
    let address = |text: &str| text.parse().expect("an address");
    (dev, addresses.split(',').map(address).collect())
}

/// What the tool said.
struct Run {
    /// By check: its outcome, and what was observed if that is no pass.
    outcomes: BTreeMap<String, (String, String)>,
    /// How the outcomes differ from the baseline, if they were compared.
    differs: Option<String>,
}

impl Run {
    fn of(tool: &Path, address: SocketAddr, more: &[&Path]) -> Self {
        let mut command = Command::new("timeout");
        command.arg("300").arg(tool).arg("--json").arg("--server");
        let output = command.arg(address.to_string()).args(more).output();
        let output = output.expect("the tool starts");
        let said = String::from_utf8_lossy(&output.stderr);
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("the tool reports in JSON, not ({e}): {said}"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let outcome = |outcome: &Value| {
            let observed = ["details", "reason"]
                .map(|name| text(&outcome[name]))
                .concat();
            (text(&outcome["id"]), (text(&outcome["status"]), observed))
        };
        let outcomes = report["outcomes"].as_array().into_iter().flatten();
        let compared = more.iter().any(|word| *word == Path::new("--baseline"));
        Self {
            outcomes: outcomes.map(outcome).collect(),
            differs: (compared && !output.status.success()).then(|| said.trim().to_owned()),
        }
    }

    /// What must not be.
    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut served = 0;
        for (name, (status, observed)) in &self.outcomes {
            let is_served = SERVED.iter().any(|area| name.starts_with(area))
                && !IDEMPOTENCE.contains(&name.as_str());
            if is_served || name == DELETE_TOPICS {
                served += 1;
                if status != "pass" {
                    wrong.push(format!("{name}: {status}: {observed}"));
                }
            }
        }
        if served == 0 {
            wrong.push("the tool checked nothing that is served".to_owned());
        }
        wrong.extend(self.differs.clone());
        wrong
    }

    fn summary(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (status, _) in self.outcomes.values() {
            *counts.entry(status).or_default() += 1;
        }
        let counts = counts
            .iter()
            .map(|(status, count)| format!("{count} {status}"));
        counts.collect::<Vec<_>>().join(", ")
    }

    /// Prints all that did not pass.
    fn report(&self, name: &str) -> ExitCode {
        for (check, (status, observed)) in &self.outcomes {
            if status != "pass" {
                println!("{status} {check}: {observed}");
            }
        }
        println!("{name}: {}", self.summary());
        ExitCode::SUCCESS
    }
}
