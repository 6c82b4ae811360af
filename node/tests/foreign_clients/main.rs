//! Clients that are not ours, against our broker: kcat, kafka-python, confluent-kafka, Kafka's Java client and franz-go.
//!
//! In the end three brokers are restarted in turn while all clients produce and consume.
//!
//! Run it with `cargo test -p seedlog --test foreign_clients`; it installs them below `target/` first (see
//! `.ci/client-tools`). After `--`: words that the names of checks must contain; `--against-kafka` runs everything but
//! the restarts against Apache Kafka, which shows that the checks ask for nothing else than Kafka does. `SEEDLOG_BIN` names another binary than
//! the one just built.

#[path = "../clients/broker.rs"]
mod broker;
mod cases;
mod client;
mod kcat;
#[path = "../cluster/links.rs"]
#[expect(dead_code, reason = "shared with tests that cut links")]
mod links;
mod matrix;
mod program;
#[path = "../clients/proxy.rs"]
mod proxy;
#[path = "../clients/raw/mod.rs"]
#[expect(dead_code, reason = "shared with tests that also read values")]
mod raw;
mod rolling;
mod suite;
#[path = "../clients/tools.rs"]
mod tools;
#[path = "../cluster/trio.rs"]
#[expect(
    dead_code,
    reason = "shared with tests that also kill and freeze nodes"
)]
mod trio;

use std::{env, fs, path::Path, process::ExitCode};

use crate::suite::Suite;

fn main() -> ExitCode {
    let (flags, words): (Vec<String>, Vec<String>) =
        env::args().skip(1).partition(|word| word.starts_with('-'));
    let against_kafka = match flags.as_slice() {
        [] => false,
        [flag] if flag == "--against-kafka" => true,
        flags => {
            eprintln!("unknown options {flags:?}; there is only --against-kafka");
            return ExitCode::from(2);
        }
    };
    let tools = tools::install("client-tools", "clients");
    let kafka = against_kafka.then(|| tools::install("kafka-jars", "kafka-4.3.1"));
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign-clients");
    fs::create_dir_all(&work).expect("a folder below target/ can be made");
    let mut suite = Suite::start(&work, &tools, kafka);
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    matrix::run(&mut suite, &wanted);
    cases::run(&mut suite, &wanted);
    if !against_kafka && wanted("rolling_restart") {
        rolling::run(&mut suite, &tools, &work.join("rolling"));
    }
    if suite.finish() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
