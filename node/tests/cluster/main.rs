//! Three processes, replication factor 3, two in sync, acks=all: kills, frozen brokers, cut links and restarts under load.
//! Nothing that was acknowledged may be missing or changed, no record may be there twice, and in the end the three copies of
//! every log are compared byte for byte.
//!
//! Run it with `cargo test -p seedlog --test cluster`. After `--`: words that the names of scenarios must contain,
//! `--session-timeout=MS` for another `broker.session.timeout.ms` than the default, `--seed=N`. `SEEDLOG_BIN` names another
//! binary than the one just built. Each scenario prints the longest time for which a partition acknowledged nothing.

#[path = "../clients/broker.rs"]
#[expect(dead_code, reason = "shared with tests that start it otherwise")]
mod broker;
mod links;
mod load;
#[path = "../clients/raw/mod.rs"]
#[expect(dead_code, reason = "shared with tests that ask for more")]
mod raw;
mod scenarios;
mod trio;
mod verify;

use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// What the command line asks for.
struct Arguments {
    session_timeout_ms: u64,
    seed: u64,
    words: Vec<String>,
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("expected words, --session-timeout=MS, --seed=N");
        return ExitCode::from(2);
    };
    let Arguments {
        session_timeout_ms,
        seed,
        words,
    } = arguments;
    println!("broker.session.timeout.ms={session_timeout_ms}, seed {seed}");
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cluster");
    let mut passed = 0;
    for (name, scenario) in scenarios::ALL {
        if !(words.is_empty() || words.iter().any(|word| name.contains(word))) {
            continue;
        }
        println!("{name}");
        let from = Instant::now();
        let setting = scenarios::Setting {
            folder: work.join(name.replace(' ', "-")),
            session_timeout_ms,
            seed,
        };
        // A scenario that does not hold ends the process, so that its folder can be looked at as it is.
        let said = scenario(&setting);
        println!("ok {name}: {said} ({:.1} s)", from.elapsed().as_secs_f32());
        passed += 1;
    }
    println!("{passed} passed, 0 failed");
    if passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn arguments() -> Option<Arguments> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut found = Arguments {
        session_timeout_ms: 9_000,
        seed: now.unwrap_or(Duration::ZERO).as_secs(),
        words: Vec::new(),
    };
    for word in std::env::args().skip(1) {
        match word.split_once('=') {
            Some(("--session-timeout", value)) => found.session_timeout_ms = value.parse().ok()?,
            Some(("--seed", value)) => found.seed = value.parse().ok()?,
            _ if word.starts_with('-') => return None,
            _ => found.words.push(word),
        }
    }
    Some(found)
}
